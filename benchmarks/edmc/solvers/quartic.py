"""The paper's methods and ours, SciPy and pymanopt, as `quartic bench` runs them."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.cases import Enough, Recorder
from quartic.bench.methods import EDMC, edmc_solver
from quartic.bench.paper import METHODS

# Names without commas and spaces, which benchopt's command line takes for separators.
PEERS = {name.replace(", ", "-").replace(" ", "-"): run for name, run in EDMC.items() if name[:3] in ("Sci", "pym")}


class Teller(Recorder):
    """Hands iterates to benchopt, which keeps the time and judges them."""

    def __init__(self, solver, callback):
        super().__init__(lambda X: {})
        self.solver, self.callback = solver, callback

    def see(self, X, stationarity=0.0, **facts):
        self.solver.X = X.copy()
        if not self.callback():
            raise Enough


class Solver(BaseSolver):
    name = "quartic"
    requirements = ["pip::quartic", "pip::pymanopt"]
    sampling_strategy = "callback"
    parameters = {"method": [*METHODS, *PEERS]}

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed

    def skip(self, case, seed):
        try:
            import pymanopt  # noqa: F401
        except ImportError:
            return self.method.startswith("pymanopt"), "pymanopt is not installed"
        return False, None

    def run(self, callback):
        run = PEERS[self.method] if self.method in PEERS else edmc_solver(self.method)
        run(self.case, self.seed, 1e-10, Teller(self, callback))

    def get_result(self):
        return {"X": self.X}
