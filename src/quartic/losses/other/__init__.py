"""Losses known by measurements, by blocks of XXᵀ, or by functions."""
