"""Starting points."""

from quartic.init.distances import classical_mds, eigenmap_start, shortest_path_start
from quartic.init.factorization import random_start, rectangular_start, spectral_start
from quartic.init.relaxed import relaxed_start, robust_start

__all__ = [
    "classical_mds",
    "eigenmap_start",
    "random_start",
    "rectangular_start",
    "relaxed_start",
    "robust_start",
    "shortest_path_start",
    "spectral_start",
]
