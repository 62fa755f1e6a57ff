"""Every solver of quartic's Table 1 by name; ``mu`` is the penalty of the tuned ones, elsewhere left alone."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.cases import Enough, Recorder
from quartic.bench.methods import GRIDS, SOLVERS, symnmf_solver
from quartic.bench.paper import run_once


class Teller(Recorder):
    """Hands iterates to benchopt, which keeps the time and judges them."""

    def __init__(self, solver, callback):
        super().__init__(lambda X: {})
        self.solver, self.callback = solver, callback

    def see(self, X, stationarity=0.0, **facts):
        self.solver.X = X
        if not self.callback():
            raise Enough


class Solver(BaseSolver):
    name = "quartic"
    requirements = ["pip::quartic"]
    sampling_strategy = "callback"
    parameters = {"solver, mu": [(name, 0.1 if name in GRIDS else None) for name in SOLVERS]}

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed

    def warm_up(self):
        run_once(self.case, self.solver, self.mu, 0, [1e-9], 0.0)

    def run(self, callback):
        run = symnmf_solver(self.solver, self.mu)
        self.X = run(self.case, self.seed, 1e-8, Teller(self, callback)).X

    def get_result(self):
        return {"X": self.X}
