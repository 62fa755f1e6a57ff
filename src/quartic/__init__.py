"""quartic: minimise F(XXᵀ) + g(X) over tall, thin X, in the geometry of quartic Bregman kernels.

After Dragomir, d'Aspremont and Bolte, "Quartic First-Order Methods for Low-Rank Minimization" (2021).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quartic._version import __version__

if TYPE_CHECKING:
    from quartic import datasets, diagnostics, graphs, init, metrics
    from quartic.clustering.selection import RankSelection, select_rank
    from quartic.core.certificate import Certificate, certify
    from quartic.core.loop import minimize
    from quartic.core.problem import Problem
    from quartic.core.rank_growth import RankGrowth, grow_rank
    from quartic.core.result import History, Result, Status
    from quartic.estimators import DistanceCompletion, SymNMF

# Imported when first asked for: `quartic --help` needs none of them, nor NumPy, SciPy, numba and scikit-learn.
_LATER = {
    "Certificate": "quartic.core.certificate",
    "DistanceCompletion": "quartic.estimators",
    "History": "quartic.core.result",
    "Problem": "quartic.core.problem",
    "RankGrowth": "quartic.core.rank_growth",
    "RankSelection": "quartic.clustering.selection",
    "Result": "quartic.core.result",
    "Status": "quartic.core.result",
    "SymNMF": "quartic.estimators",
    "certify": "quartic.core.certificate",
    "datasets": "",
    "diagnostics": "",
    "graphs": "",
    "grow_rank": "quartic.core.rank_growth",
    "init": "",
    "metrics": "",
    "minimize": "quartic.core.loop",
    "select_rank": "quartic.clustering.selection",
}

__all__ = [
    "Certificate",
    "DistanceCompletion",
    "History",
    "Problem",
    "RankGrowth",
    "RankSelection",
    "Result",
    "Status",
    "SymNMF",
    "__version__",
    "certify",
    "datasets",
    "diagnostics",
    "graphs",
    "grow_rank",
    "init",
    "metrics",
    "minimize",
    "select_rank",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'quartic' has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name) if _LATER[name] else import_module(f"quartic.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
