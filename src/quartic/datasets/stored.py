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


#: The file of a data set, and its arrays: features, and labels that it counts from 1.
_FEATURES = {
    "coil20": ("coil20/coil20_128x128.npz", "X", "y"),
    "cbcl": ("cbcl/cbcl_faces_19x19.npz", "X"),
    "orl": ("orl/ORL.mat", "fea", "gnd"),
    "tdt2": ("tdt2/TDT2.mat", "fea", "gnd"),
    "reuters": ("reuters21578/Reuters21578.mat", "fea", "gnd"),
}


def load_features(name: str) -> Dataset:
    """Load the features of the paper's clustering experiments.

    Parameters
    ----------
    name : {"coil20", "cbcl", "orl", "tdt2", "reuters"}
        COIL-20, 1440 grey images (128 x 128) of 20 objects; the CBCL faces, 2429 images (19 x 19) without labels; the
        ORL faces, 400 images (112 x 92) of 40 people, in the order of the authors' similarity matrix; TDT2, term counts
        of 9394 news stories in 30 classes; Reuters-21578, those of the 7963 stories of its 25 largest classes.
    """
    if name not in _FEATURES:
        raise ValueError(f"name must be one of {', '.join(_FEATURES)}, got {name!r}")
    stored, *given = read_stored(name, *_FEATURES[name])
    if not given:
        return Dataset(name, _as_rows(stored), None)
    X, labels = _as_rows(stored), np.asarray(given[0]).ravel().astype(np.int64) - 1
    kept: Any = labels < 25 if name == "reuters" else slice(None)
    if name == "orl":
        (kept,) = read_stored(name, "orl/orl_row_of_reference.npy")
    return Dataset(name, X[kept], labels[kept])


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
    if name in ("tdt2", "reuters", "orl"):
        matrix = read_sparse(name, f"paper_symnmf/{name}_similarity.npz")
        (labels,) = read_stored(name, f"paper_symnmf/{name}_labels.npy")
        return Similarity(name, matrix, labels.astype(np.int64) - 1)
    from quartic.graphs import similarity

    data = load_features(name)
    return Similarity(name, similarity(data.features, kind="self_tuning"), data.labels)
