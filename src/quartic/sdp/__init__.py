"""Semidefinite programmes: optimise ⟨C, Y⟩ over Y ⪰ 0 with ⟨A_k, Y⟩ = b_k, with a bound on the optimum."""

from quartic.sdp.problem import SDP, LowRank
from quartic.sdp.sdpa import read_sdpa
from quartic.sdp.solve import SDPResult, solve_sdp

__all__ = ["SDP", "LowRank", "SDPResult", "read_sdpa", "solve_sdp"]
