"""Symmetric NMF: ½‖M − XXᵀ‖² over X ≥ 0, judged by quartic's referee. Run with ``benchopt run benchmarks/symnmf``."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseObjective

from quartic.bench.cases import Case


class Objective(BaseObjective):
    name = "symmetric NMF"
    min_benchopt_version = "1.6"
    requirements = ["pip::quartic"]
    # rank None: as many columns as the data set has classes, or 20
    parameters = {"rank": [None], "seed": [0]}
    test_config = {"dataset": {"name": "planted", "n": 100, "communities": 3}}

    def set_data(self, name, matrix, labels):
        rank = self.rank or (20 if labels is None else int(labels.max()) + 1)
        self.case = Case(name, rank, matrix, labels)
        self.judge = self.case.recorder(self.seed)

    def get_objective(self):
        return {"case": self.case, "seed": self.seed}

    def evaluate_result(self, X):
        found = self.judge.measure(X)
        return {"value": found["objective"], "projected_gradient": found["error"]}

    def get_one_result(self):
        return {"X": self.case.start(0)}
