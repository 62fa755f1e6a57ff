"""Checked features, with their squared norms and the accuracy of their products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.arrays import finite_matrix, first_not_finite

Floats = NDArray[np.float64]

BLOCK = 1024  # rows of a block of dense work
UNIT = np.finfo(np.float64).eps / 2


@dataclass(frozen=True)
class Features:
    """Rows to compare: ``X`` is a C-ordered float64 array or a csr_array with sorted indices."""

    X: Any
    squares: Floats
    exact: bool  # integers so small that sums of products carry no rounding

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the rows are stored sparse."""
        return bool(sp.issparse(self.X))

    @property
    def terms(self) -> int:
        """Most products summed in one dot product."""
        return int(np.diff(self.X.indptr).max()) if self.sparse else int(self.X.shape[1])


def cosine_features(X: Any) -> Features:
    """Check ``X``; rows whose squares would over- or underflow are scaled by a power of two, which cosines ignore."""
    X = _checked(X)
    largest = _row_maxima(X)
    if not _safe(largest):
        powers = _power_of_two(largest)
        X = sp.csr_array(sp.diags_array(powers) @ X) if sp.issparse(X) else X * powers[:, None]
    return _described(X)


def distance_features(X: Any) -> Features:
    """Check ``X``; if its squares would over- or underflow, all of it is scaled by one power of two."""
    X = _checked(X)
    largest = _row_maxima(X)
    if not _safe(largest.max(keepdims=True)):
        X = X * _power_of_two(largest.max(keepdims=True))[0]
    return _described(X)


def _checked(X: Any) -> Any:
    if not sp.issparse(X):
        X = np.ascontiguousarray(finite_matrix(X, "X"), dtype=np.float64)
    elif X.dtype.kind not in "fiub":
        raise TypeError(f"X must be real numbers, got dtype {X.dtype}")
    elif X.ndim != 2:
        raise ValueError(f"X must be 2-D, a row for each point, got shape {X.shape}")
    else:
        given, X = X, sp.csr_array(X, dtype=np.float64)
        if not X.has_canonical_format:
            X = X.copy() if np.shares_memory(X.data, getattr(given, "data", X.data)) else X
            X.sum_duplicates()
        fault = first_not_finite(X)
        if fault is not None:
            row, column, value = fault
            raise ValueError(f"X must be finite, but X[{row}, {column}] is {value}; drop or impute row {row}")
    if X.shape[0] == 0:
        raise ValueError(f"X has no rows (shape {X.shape}); a similarity graph needs at least one point")
    if X.shape[1] == 0:
        raise ValueError(f"X has no columns (shape {X.shape}); a similarity graph needs at least one feature")
    return X


def _row_maxima(X: Any) -> Floats:
    if sp.issparse(X):
        return np.asarray(abs(X).max(axis=1).toarray(), dtype=np.float64).ravel()
    return np.asarray(np.maximum(X.max(axis=1), -X.min(axis=1)))


def _safe(largest: Floats) -> bool:
    positive = largest[largest > 0]
    return bool(positive.size == 0 or (positive.min() > 1e-60 and positive.max() < 1e60))


def _power_of_two(largest: Floats) -> Floats:
    # Of the smallest subnormals 2**-exponent itself would overflow; a shift of 1000 brings them into range as well.
    shift = np.clip(np.frexp(largest)[1], -1000, 1000)
    return np.asarray(np.ldexp(np.ones_like(largest), -shift))


def _described(X: Any) -> Features:
    if sp.issparse(X):
        squares = np.asarray((X * X).sum(axis=1), dtype=np.float64).ravel()
        whole = bool((X.data == np.rint(X.data)).all())
    else:
        squares = np.einsum("ij,ij->i", X, X)
        blocks = (X[at : at + BLOCK] for at in range(0, len(X), BLOCK))
        whole = all((block == np.rint(block)).all() for block in blocks)
    return Features(X=X, squares=squares, exact=whole and 4 * float(squares.max()) < 2.0**53)
