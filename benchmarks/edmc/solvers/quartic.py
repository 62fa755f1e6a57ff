"""The paper's methods and ours, SciPy and pymanopt, as `quartic bench` runs them."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.cases import Teller
from quartic.bench.methods import EDMC, METHODS

# Names without commas and spaces, which benchopt's command line takes for separators.
PEERS = {name.replace(", ", "-").replace(" ", "-"): run for name, run in EDMC.items() if name[:3] in ("Sci", "pym")}


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
        run = PEERS[self.method] if self.method in PEERS else EDMC[self.method]
        run(self.case, self.seed, 1e-10, Teller(self, callback))

    def get_result(self):
        return {"X": self.X}
