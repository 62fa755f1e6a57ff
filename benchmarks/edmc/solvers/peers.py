"""SciPy and pymanopt on the same pairs, through their own interfaces."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.peers_edmc import PEERS, CannotDo, Enough, Keeper

# Names without commas, which benchopt's command line takes for separators.
NAMES = {
    "scipy-lbfgsb": "scipy L-BFGS-B, our gradient",
    "scipy-lbfgsb-numpy": "scipy L-BFGS-B, NumPy gradient",
    "pymanopt-psd-cg": "pymanopt PSDFixedRank, CG",
    "pymanopt-psd-tr": "pymanopt PSDFixedRank, TR",
    "pymanopt-euclidean-cg": "pymanopt Euclidean, CG",
    "pymanopt-euclidean-tr": "pymanopt Euclidean, TR",
}


class _Teller(Keeper):
    """Hands iterates to benchopt, which keeps the time."""

    def __init__(self, solver, callback):
        super().__init__(limit=float("inf"), wall=True)
        self.solver, self.callback = solver, callback

    def keep(self, X):
        self.solver.X = X.copy()
        if not self.callback():
            raise Enough


class Solver(BaseSolver):
    name = "peers"
    requirements = ["pip::quartic", "pip::pymanopt"]
    sampling_strategy = "callback"
    parameters = {"peer": list(NAMES)}

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed

    def skip(self, case, seed):
        if self.peer.startswith("pymanopt"):
            try:
                import pymanopt  # noqa: F401
            except ImportError:
                return True, "pymanopt is not installed"
        return False, None

    def run(self, callback):
        try:
            PEERS[NAMES[self.peer]](self.case, self.seed, 1e-10, _Teller(self, callback))
        except (Enough, CannotDo, ImportError):
            return

    def get_result(self):
        return {"X": self.X}
