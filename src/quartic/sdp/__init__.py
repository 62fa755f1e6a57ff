"""Semidefinite programmes: optimise ⟨C, Y⟩ over Y ⪰ 0 with ⟨A_k, Y⟩ = b_k, with a bound on the optimum."""

from typing import Any

from quartic.sdp.fronts import (
    CompletedMatrix,
    Localisation,
    MaxCut,
    Theta,
    complete_matrix,
    localise,
    lovasz_theta,
    maxcut,
)
from quartic.sdp.problem import SDP, LowRank
from quartic.sdp.sdpa import read_sdpa
from quartic.sdp.solve import SDPResult, solve_sdp

__all__ = [
    "SDP",
    "CompletedMatrix",
    "Localisation",
    "LowRank",
    "MaxCut",
    "SDPResult",
    "Theta",
    "complete_matrix",
    "localise",
    "lovasz_theta",
    "maxcut",
    "read_sdpa",
    "solve_sdp",
]


def __getattr__(name: str) -> Any:
    if name == "CvxpySolver":  # when first asked for: CVXPY takes a second to import, and may not be there
        from quartic.sdp.cvxpy_solver import CvxpySolver

        return CvxpySolver
    raise AttributeError(f"module 'quartic.sdp' has no attribute {name!r}")
