"""Every solver of quartic's Table 1 by name; ``mu`` is the penalty of the tuned ones, elsewhere left alone."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.contestants import GRIDS, contestant
from quartic.bench.symnmf import warm_up
from quartic.core.loop import minimize
from quartic.init import random_start, spectral_start


class Solver(BaseSolver):
    name = "quartic"
    requirements = ["pip::quartic"]
    sampling_strategy = "callback"
    parameters = {
        "solver, mu": [
            ("auto", None),
            ("inertial", None),
            ("lbfgs", None),
            ("dyn-nolips", None),
            ("pg", None),
            ("cd", None),
            ("beta", None),
            ("hals", 0.1),
            ("anls", 0.1),
            ("admm", 0.1),
        ]
    }

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed
        self.who = contestant(self.solver, self.mu if self.solver in GRIDS else None)

    def warm_up(self):
        warm_up(self.case, self.who)

    def run(self, callback):
        def tell(progress):
            self.X = progress.X
            if not callback():
                raise StopIteration

        start = spectral_start if self.who.spectral else random_start
        result = minimize(
            self.case.problem(), start, rank=self.case.cell.rank, solver=self.who.solver, tol=1e-8, callback=tell,
            random_state=self.seed,
        )  # fmt: skip
        self.X = result.X

    def get_result(self):
        return {"X": self.X}
