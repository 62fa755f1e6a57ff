"""Estimators in the manner of scikit-learn."""

from quartic.estimators.symnmf import SymNMF

__all__ = ["SymNMF"]
