"""Data sets kept in a local folder: where they are, how they are read, and the feature and similarity matrices."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.arrays import read_arrays
from quartic.io.files import FileFormatError, open_source


class DatasetNotFound(FileNotFoundError):
    """A data set is not in the data folder; the message names it, the path that was tried, and the cure."""


def cache_home() -> Path:
    """Return the user's cache folder for this library (it need not exist).

    ``$XDG_CACHE_HOME/quartic`` where that is set; else ``~/Library/Caches/quartic`` on macOS,
    ``%LOCALAPPDATA%\\quartic\\Cache`` on Windows and ``~/.cache/quartic`` elsewhere.
    """
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "quartic"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "quartic"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "quartic" / "Cache"
    return Path.home() / ".cache" / "quartic"


def data_home() -> Path:
    """Return the folder the loaders read: ``$QUARTIC_DATA`` where that is set, else ``data`` in `cache_home`."""
    if given := os.environ.get("QUARTIC_DATA"):
        return Path(given).expanduser().absolute()
    return cache_home() / "data"


def data_file(dataset: str, relative: str) -> Path:
    """Return the path of a file of ``dataset`` under `data_home`, or raise `DatasetNotFound`."""
    if ".." in Path(relative).parts or Path(relative).is_absolute():
        raise ValueError(f"data set {dataset!r}: {relative!r} leads out of the data folder")
    path = data_home() / relative
    if not path.is_file():
        raise DatasetNotFound(
            f"data set {dataset!r} is missing: looked for {path}; put the file there, "
            "or set QUARTIC_DATA to a folder that has it"
        )
    return path


def read_stored(dataset: str, relative: str, *names: str) -> list[Any]:
    """Return arrays of a .npy, .npz or .mat file of a data set; the only one where no names are given."""
    path = data_file(dataset, relative)
    arrays = read_arrays(open_source(path))
    if not names:
        return list(arrays.values())[:1]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise FileFormatError(f"{path}: there is no {', '.join(missing)} in the file; is it that of {dataset!r}?")
    return [arrays[name] for name in names]


def read_sparse(dataset: str, relative: str) -> sp.csr_array:
    """Return the sparse matrix of an .npz file of a data set, float64, indices sorted."""
    return _as_rows(read_stored(dataset, relative)[0])


def _as_rows(stored: Any) -> Any:
    """Return samples as rows of float64; images become vectors, sparse matrices csr_arrays."""
    if not sp.issparse(stored):
        return np.asarray(stored.reshape(len(stored), -1), dtype=np.float64)
    X = sp.csr_array(stored, dtype=np.float64)
    X.sum_duplicates()
    return X


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
    """
    if size == 128:
        return Dataset("coil20", *_read_labelled("coil20", "coil20/coil20_128x128.npz", "X", "y"))
    if size == 32:
        return Dataset("coil20", *_read_labelled("coil20", "coil20/COIL20.mat"))
    raise ValueError(f"size must be 128 or 32, got {size!r}")


def load_cbcl() -> Dataset:
    """Load the CBCL faces: 2429 images of 19 x 19, values 0 to 255, without labels."""
    (X,) = read_stored("cbcl", "cbcl/cbcl_faces_19x19.npz", "X")
    return Dataset("cbcl", _as_rows(X), None)


def load_orl() -> Dataset:
    """Load the ORL faces: 400 images of 40 people, 112 x 92, in the order of the authors' similarity matrix."""
    X, labels = _read_labelled("orl", "orl/ORL.mat")
    (order,) = read_stored("orl", "orl/orl_row_of_reference.npy")
    return Dataset("orl", X[order], labels[order])


def load_tdt2() -> Dataset:
    """Load TDT2: raw term counts of 9394 news stories in 30 classes (sparse)."""
    return Dataset("tdt2", *_read_labelled("tdt2", "tdt2/TDT2.mat"))


def load_reuters() -> Dataset:
    """Load Reuters-21578: raw term counts of the 7963 stories of its 25 largest classes (sparse), as in the paper."""
    X, labels = _read_labelled("reuters", "reuters21578/Reuters21578.mat")
    kept = np.flatnonzero(labels < 25)
    return Dataset("reuters", X[kept], labels[kept])


def _read_labelled(
    dataset: str, relative: str, features: str = "fea", labels: str = "gnd"
) -> tuple[Any, NDArray[np.int64]]:
    """Return the features in a file, and the labels beside them, which files count from 1."""
    X, y = read_stored(dataset, relative, features, labels)
    return _as_rows(X), np.asarray(y).ravel().astype(np.int64) - 1


AUTHORS = ("tdt2", "reuters", "orl")
BUILT = {"coil20": load_coil20, "cbcl": load_cbcl}


@dataclass(frozen=True, eq=False)
class Similarity:
    """A similarity matrix: normalised, symmetric, float64; name and labels are those of `Dataset`."""

    name: str
    matrix: sp.csr_array
    labels: NDArray[np.int64] | None


def load_similarity(name: str) -> Similarity:
    """Load a similarity matrix of the paper's clustering experiments.

    Parameters
    ----------
    name : {"coil20", "cbcl", "tdt2", "reuters", "orl"}
        The last three are the authors' files. The first two are built by `quartic.graphs.similarity` from the raw
        images, self-tuning.
    """
    if name in AUTHORS:
        matrix = read_sparse(name, f"paper_symnmf/{name}_similarity.npz")
        (labels,) = read_stored(name, f"paper_symnmf/{name}_labels.npy")
        return Similarity(name, matrix, labels.astype(np.int64) - 1)
    if name not in BUILT:
        raise ValueError(f"name must be one of {', '.join(sorted((*AUTHORS, *BUILT)))}, got {name!r}")
    from quartic.graphs import similarity

    data = BUILT[name]()
    return Similarity(name, similarity(data.features, kind="self_tuning"), data.labels)
