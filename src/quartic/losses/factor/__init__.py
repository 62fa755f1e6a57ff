"""Symmetric factorisation: ½‖M − XXᵀ‖², the matrix M, and the passes over X."""
