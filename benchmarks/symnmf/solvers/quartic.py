"""Every solver of quartic's Table 1 by name; ``mu`` is the penalty of the tuned ones, elsewhere left alone."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.cases import Teller
from quartic.bench.methods import GRIDS, SOLVERS, symnmf_solver


class Solver(BaseSolver):
    name = "quartic"
    requirements = ["pip::quartic"]
    sampling_strategy = "callback"
    parameters = {"solver, mu": [(name, 0.1 if name in GRIDS else None) for name in SOLVERS]}

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed

    def warm_up(self):
        symnmf_solver(self.solver, self.mu)(self.case, 0, 0.0, self.case.recorder(0, [1e-2], 0.5))

    def run(self, callback):
        run = symnmf_solver(self.solver, self.mu)
        self.X = run(self.case, self.seed, 1e-8, Teller(self, callback)).X

    def get_result(self):
        return {"X": self.X}
