"""Starting points."""

from quartic.init.classical_mds import classical_mds
from quartic.init.eigenmap import eigenmap_start
from quartic.init.factorization import random_start, rectangular_start, spectral_start
from quartic.init.relaxed import relaxed_start
from quartic.init.robust import robust_start
from quartic.init.shortest_path import shortest_path_start

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
