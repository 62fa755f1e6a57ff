"""How good an answer is: clusterings against classes, coordinates against the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import RandomState, finite_matrix, random_generator
from quartic.arrays.checks import check_integer

Floats = NDArray[np.float64]

ALL_PAIRS_UP_TO = 10_000
BLOCK = 1 << 20  # pairs looked at together


def clustering_accuracy(labels_true: Any, labels_pred: Any) -> float:
    r"""Return the share of points in the right cluster, clusters matched to classes one to one in the best way.

    .. math:: \max_\pi \frac1n \bigl|\{i : \pi(\text{pred}_i) = \text{true}_i\}\bigr|

    The best matching is found by the Hungarian method; clusters beyond the number of classes count as wrong.

    Parameters
    ----------
    labels_true, labels_pred : array (n,)
        Classes and clusters, under any names.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from quartic.metrics import clustering_accuracy
    >>> clustering_accuracy([0, 0, 1, 1], ["b", "b", "a", "b"])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    table = _contingency(labels_true, labels_pred)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def purity(labels_true: Any, labels_pred: Any) -> float:
    r"""Return the share of points that belong to the most frequent class of their cluster.

    .. math:: \frac1n \sum_k \max_c |\text{cluster}_k \cap \text{class}_c|

    It lies between 0 and 1, and is 1 also for clusters of one point each; arguments as in `clustering_accuracy`.

    Examples
    --------
    >>> from quartic.metrics import purity
    >>> purity([0, 0, 1, 1], [5, 5, 5, 7])
    0.75
    """
    table = _contingency(labels_true, labels_pred)
    return float(table.max(axis=0).sum() / table.sum())


def nmi(labels_true: Any, labels_pred: Any) -> float:
    r"""Return the normalised mutual information, :math:`2 I(U, V) / (H(U) + H(V))`, as scikit-learn computes it.

    It lies between 0 and 1; arguments as in `clustering_accuracy`.

    Examples
    --------
    >>> from quartic.metrics import nmi
    >>> nmi([0, 0, 1, 1], ["a", "a", "b", "b"])
    1.0
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_codes(labels_true, labels_pred)))


def ari(labels_true: Any, labels_pred: Any) -> float:
    r"""Return the Rand index adjusted for chance, :math:`(R - E[R]) / (1 - E[R])`, as scikit-learn computes it.

    R is the share of pairs of points on which classes and clusters agree. The index is 1 for equal partitions, about 0
    for random ones; arguments as in `clustering_accuracy`.

    Examples
    --------
    >>> from quartic.metrics import ari
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_codes(labels_true, labels_pred)))


def normalized_rmse(X: Any, X_true: Any, n_sample: int = 10**7, random_state: RandomState = 0) -> float:
    r"""Return the root mean square error of all distances, relative to their root mean square.

    .. math::

        \sqrt{\operatorname{mean}_{i<j} (\|x_i - x_j\| - d^*_{ij})^2 \big/ \operatorname{mean}_{i<j} (d^*_{ij})^2},
        \qquad d^*_{ij} = \|x^*_i - x^*_j\|

    Translations, rotations and reflections do not matter, so nothing need be aligned. Up to 10,000 points all pairs are
    looked at, known or not; above that, a fixed random sample.

    Parameters
    ----------
    X, X_true : array (n, d), array (n, d')
        Coordinates found, and the true ones; the dimensions may differ.
    n_sample : int
        Pairs in the sample.
    random_state : int, Generator, RandomState or None
        Seed of the sample.

    Returns
    -------
    float
        0 for a perfect answer.

    Examples
    --------
    >>> from quartic.metrics import normalized_rmse
    >>> normalized_rmse([[0.0], [1.1]], [[0.0], [1.0]])
    0.1000...
    """
    X, X_true = _coordinates(X, "X"), _coordinates(X_true, "X_true")
    n = len(X)
    if len(X_true) != n:
        raise ValueError(f"X and X_true must hold the same points, got {n} and {len(X_true)} rows")
    if n < 2:
        raise ValueError("X must have at least two points, for a distance")
    check_integer(n_sample, "n_sample", 1)
    # Sums of squares over- and underflow sooner than the distances; the answer does not depend on this unit.
    unit = float(np.abs(X_true - X_true[0]).max(initial=0.0))
    if unit == 0:
        raise ValueError("all true distances are zero, so there is nothing to be relative to; check X_true")
    X, X_true = (X - X[0]) / unit, (X_true - X_true[0]) / unit
    if n <= ALL_PAIRS_UP_TO:
        blocks = _iterate_all_distances(X, X_true)
    else:
        blocks = _sample_distances(X, X_true, int(n_sample), random_generator(random_state))
    error = size = 0.0
    for found, true in blocks:
        error += float(((found - true) ** 2).sum())
        size += float((true**2).sum())
    return float(np.sqrt(error / size))


def align(X: Any, reference: Any, reflection: bool = True) -> Floats:
    r"""Move ``X`` rigidly onto ``reference``: the best rotation and translation, and reflection if allowed.

    .. math:: \min_{Q, t} \sum_i \|x_i Q + t - y_i\|^2, \qquad Q^\top Q = I

    Parameters
    ----------
    X, reference : array (n, d)
        Points found, and the true ones.
    reflection : bool
        Whether Q may be a reflection; without it, det Q = 1.

    Returns
    -------
    ndarray (n, d)
        The moved points; sizes are not changed.

    Examples
    --------
    >>> from quartic.metrics import align
    >>> align([[0.0, 0.0], [0.0, 1.0]], [[5.0, 0.0], [6.0, 0.0]]).round(6) + 0.0
    array([[5., 0.],
           [6., 0.]])
    """
    X, Y = _coordinates(X, "X"), _coordinates(reference, "reference")
    if X.shape != Y.shape:
        raise ValueError(f"X and reference must have the same shape, got {X.shape} and {Y.shape}")
    if len(X) == 0:
        raise ValueError("X has no points")
    x, y = X.mean(axis=0), Y.mean(axis=0)
    U, _, Vt = np.linalg.svd((X - x).T @ (Y - y))
    if not reflection and np.linalg.det(U @ Vt) < 0:
        U[:, -1] *= -1.0  # the axis that costs least to turn round
    return np.asarray((X - x) @ (U @ Vt) + y)


def rmsd(X: Any, reference: Any, *, superpose: bool = True, reflection: bool = True) -> float:
    r"""Return the root mean square deviation :math:`\sqrt{\operatorname{mean}_i \|x_i - y_i\|^2}`.

    Parameters
    ----------
    X, reference : array (n, d)
        Points found, and the true ones.
    superpose : bool
        Whether to move ``X`` onto the reference first, by `align`.
    reflection : bool
        Whether that may reflect.

    Returns
    -------
    float
        In the units of the coordinates.

    Examples
    --------
    >>> from quartic.metrics import rmsd
    >>> round(rmsd([[0.0, 0.0], [0.0, 1.0]], [[5.0, 0.0], [6.0, 0.0]]), 6)
    0.0
    """
    moved, Y = _coordinates(X, "X"), _coordinates(reference, "reference")
    if superpose:
        moved = align(moved, Y, reflection)
    elif moved.shape != Y.shape:
        raise ValueError(f"X and reference must have the same shape, got {moved.shape} and {Y.shape}")
    return float(np.sqrt(np.mean(((moved - Y) ** 2).sum(axis=1))))


def _iterate_all_distances(*configurations: Floats) -> Iterator[list[Floats]]:
    """Yield the distances within each configuration, block by block; zeros fill the lower triangles."""
    from scipy.spatial.distance import cdist

    n = len(configurations[0])
    rows = max(1, BLOCK // n)
    for at in range(0, n, rows):
        # rows against themselves and all after; pairs within the block are counted once, by the upper triangle
        yield [np.triu(cdist(X[at : at + rows], X[at:]), 1) for X in configurations]


def _sample_distances(X: Floats, Y: Floats, n_sample: int, generator: np.random.Generator) -> Iterator[list[Floats]]:
    for at in range(0, n_sample, BLOCK):
        i = generator.integers(len(X), size=min(BLOCK, n_sample - at))
        j = (i + generator.integers(1, len(X), size=len(i))) % len(X)
        yield [np.linalg.norm(Z[i] - Z[j], axis=1) for Z in (X, Y)]


def _coordinates(X: Any, name: str) -> Floats:
    return np.asarray(finite_matrix(X, name), dtype=np.float64)


def _codes(labels_true: Any, labels_pred: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    codes = []
    for name, given in (("labels_true", labels_true), ("labels_pred", labels_pred)):
        labels = np.asarray(given)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(f"{name} must be a non-empty 1-D array, got shape {labels.shape}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            at = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise ValueError(f"{name} must not hold {labels[at]}, but {name}[{at}] does; leave such points out")
        codes.append(np.unique(labels, return_inverse=True)[1].astype(np.int64))
    if len(codes[0]) != len(codes[1]):
        raise ValueError(
            f"labels_true and labels_pred must have the same length, got {len(codes[0])} and {len(codes[1])}"
        )
    return codes[0], codes[1]


def _contingency(labels_true: Any, labels_pred: Any) -> NDArray[np.int64]:
    """Count the points of each class (rows) in each cluster (columns)."""
    from sklearn.metrics.cluster import contingency_matrix

    return np.asarray(contingency_matrix(*_codes(labels_true, labels_pred)))
