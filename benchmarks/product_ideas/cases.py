"""The ten data sets: seven similarity matrices, three sets of distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic import Problem
from quartic.datasets import load_graph, load_points, load_similarity, pair_distances, protein, random_pairs
from quartic.graphs import normalize
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative


def similarity(name: str) -> Problem:
    """Return the problem of a similarity matrix of the paper."""
    return Problem(LeastSquares(load_similarity(name).matrix), Nonnegative())


def graph(name: str) -> Problem:
    """Return the problem of a graph, its diagonal set and normalised."""
    A = load_graph(name).adjacency
    return Problem(LeastSquares(normalize(A + sp.eye_array(A.shape[0], format="csr"))), Nonnegative())


def distances(points: Any, known: float) -> Problem:
    """Return the problem of a share of the distances of some points."""
    X = np.asarray(points)
    pairs = random_pairs(len(X), known, random_state=0)
    return Problem(Distances(pairs, pair_distances(X, pairs) ** 2, n_points=len(X)))


SIMILARITIES: dict[str, tuple[Callable[[], Problem], int]] = {
    "coil20": (lambda: similarity("coil20"), 20),
    "cbcl": (lambda: similarity("cbcl"), 20),
    "orl": (lambda: similarity("orl"), 40),
    "reuters": (lambda: similarity("reuters"), 25),
    "tdt2": (lambda: similarity("tdt2"), 30),
    "eu-core": (lambda: graph("eu-core"), 30),
    "lfr": (lambda: graph("lfr"), 30),
}
DISTANCES: dict[str, tuple[Callable[[], Problem], int]] = {
    "cow": (lambda: distances(load_points("cow"), 0.02), 3),
    "uscities": (lambda: distances(load_points("uscities"), 0.02), 2),
    "1rgs": (lambda: distances(protein("1rgs").coordinates, 0.05), 3),
}
CASES = SIMILARITIES | DISTANCES
# When many processes share the cells, no long one should be left for the end.
SLOWEST_FIRST = ("lfr", "tdt2", "reuters", "cbcl", "coil20", "eu-core", "orl", "uscities", "cow", "1rgs")


@cache
def load(name: str) -> Problem:
    """Return the problem of a data set, made once a process."""
    return CASES[name][0]()
