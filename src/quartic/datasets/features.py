"""Feature matrices of the paper's clustering experiments: images and documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.datasets.stored import stored_arrays


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features with labels.

    Attributes
    ----------
    name : str
        Its name, as `load_similarity` takes it.
    features : ndarray or csr_array (n, p)
        float64, one row for each point.
    labels : ndarray of int (n,) or None
        Classes, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.datasets import Dataset
    >>> Dataset("two points", np.eye(2), np.array([0, 1])).features.shape
    (2, 2)
    """

    name: str
    features: Any
    labels: NDArray[np.int64] | None


def load_coil20(size: int = 128) -> Dataset:
    """Load COIL-20: 1440 grey images of 20 objects, 72 views each.

    Parameters
    ----------
    size : {128, 32}
        Edge length of the images; the paper's graph is that of the large ones (values 0 to 255; the small ones 0 to 1).

    Examples
    --------
    >>> from quartic.datasets import load_coil20
    >>> load_coil20().features.shape  # doctest: +SKIP
    (1440, 16384)
    """
    if size == 128:
        X, y = stored_arrays("coil20", "coil20/coil20_128x128.npz", "X", "y")
        return Dataset("coil20", _rows(X), _from_zero(y))
    if size == 32:
        X, y = stored_arrays("coil20", "coil20/COIL20.mat", "fea", "gnd")
        return Dataset("coil20", _rows(X), _from_zero(y))
    raise ValueError(f"size must be 128 or 32, got {size!r}")


def load_cbcl() -> Dataset:
    """Load the CBCL faces: 2429 images of 19 x 19, values 0 to 255, without labels.

    Examples
    --------
    >>> from quartic.datasets import load_cbcl
    >>> load_cbcl().features.shape  # doctest: +SKIP
    (2429, 361)
    """
    (X,) = stored_arrays("cbcl", "cbcl/cbcl_faces_19x19.npz", "X")
    return Dataset("cbcl", _rows(X), None)


def load_orl() -> Dataset:
    """Load the ORL faces: 400 images of 40 people, 112 x 92, in the order of the authors' similarity matrix.

    Examples
    --------
    >>> from quartic.datasets import load_orl
    >>> load_orl().features.shape  # doctest: +SKIP
    (400, 10304)
    """
    X, y = stored_arrays("orl", "orl/ORL.mat", "fea", "gnd")
    (order,) = stored_arrays("orl", "orl/orl_row_of_reference.npy")
    return Dataset("orl", _rows(X)[order], _from_zero(y)[order])


def load_tdt2() -> Dataset:
    """Load TDT2: raw term counts of 9394 news stories in 30 classes (sparse).

    Examples
    --------
    >>> from quartic.datasets import load_tdt2
    >>> load_tdt2().features.shape  # doctest: +SKIP
    (9394, 36771)
    """
    X, y = stored_arrays("tdt2", "tdt2/TDT2.mat", "fea", "gnd")
    return Dataset("tdt2", _rows(X), _from_zero(y))


def load_reuters() -> Dataset:
    """Load Reuters-21578: raw term counts of the 7963 stories of its 25 largest classes (sparse), as in the paper.

    Examples
    --------
    >>> from quartic.datasets import load_reuters
    >>> load_reuters().features.shape  # doctest: +SKIP
    (7963, 18933)
    """
    X, y = stored_arrays("reuters", "reuters21578/Reuters21578.mat", "fea", "gnd")
    labels = _from_zero(y)
    kept = np.flatnonzero(labels < 25)
    return Dataset("reuters", _rows(X)[kept], labels[kept])


def _rows(stored: Any) -> Any:
    if not sp.issparse(stored):
        return np.asarray(stored.reshape(len(stored), -1), dtype=np.float64)
    X = sp.csr_array(stored, dtype=np.float64)
    X.sum_duplicates()
    return X


def _from_zero(stored: Any) -> NDArray[np.int64]:
    return np.asarray(stored).ravel().astype(np.int64) - 1
