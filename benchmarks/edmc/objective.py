"""Distance completion: normalised RMSE over all distances, known or not. Run with ``benchopt run benchmarks/edmc``."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "distance completion"
    min_benchopt_version = "1.6"
    requirements = ["pip::quartic"]
    parameters = {"seed": [0]}
    test_config = {"dataset": {"name": "helix", "n": 60, "known": 0.5, "noise": 0.0}}

    def set_data(self, case):
        self.case = case

    def get_objective(self):
        return {"case": self.case, "seed": self.seed}

    def evaluate_result(self, X):
        return {"value": self.case.measure(X)["error"], "loss": self.case.problem().loss.value(X)}

    def get_one_result(self):
        return {"X": self.case.truth}
