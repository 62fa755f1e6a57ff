"""Who enters the table, and the grids over which penalties are tuned."""

from __future__ import annotations

from quartic.bench.symnmf import Contestant
from quartic.solvers import ADMM, SymANLS, SymHALS

#: Column of the paper's Table 1, by our name of the solver.
PAPER_NAMES = {
    "dyn-nolips": "NoLips",
    "pg": "PG",
    "beta": "Beta",
    "cd": "CD",
    "hals": "SymHALS",
    "anls": "SymANLS",
    "admm": "ADMM",
}
OURS = ("inertial", "lbfgs", "auto")
SOLVERS = (*PAPER_NAMES, *OURS)

#: μ of SymHALS and SymANLS, ρ of ADMM, which must not be 0.
GRIDS: dict[str, tuple[float, ...]] = {
    "hals": (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "anls": (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "admm": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
}


def contestant(name: str, parameter: float | None = None) -> Contestant:
    """Return a contestant by name; a tuned one with its penalty.

    Examples
    --------
    >>> from quartic.bench.contestants import contestant
    >>> contestant("hals", 0.01).solver
    SymHALS(mu=0.01)
    """
    if name in GRIDS:
        if parameter is None:
            raise ValueError(f"{name} needs a penalty, one of {', '.join(f'{p:g}' for p in GRIDS[name])}")
        solver = {"hals": SymHALS, "anls": SymANLS, "admm": ADMM}[name](parameter)
        return Contestant(name, solver, parameter)
    if name not in SOLVERS:
        raise ValueError(f"unknown solver {name!r}; there are: {', '.join(SOLVERS)}")
    return Contestant(name, name, spectral=name == "auto")
