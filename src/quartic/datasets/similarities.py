"""The five similarity matrices of the paper: the authors' own where they are public, built by us where not."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.archives import DAMAGE, read_npz, write_whole
from quartic.datasets.features import Dataset, load_cbcl, load_coil20
from quartic.datasets.home import cache_home, data_file
from quartic.datasets.stored import stored_arrays

AUTHORS = ("tdt2", "reuters", "orl")
BUILT: dict[str, tuple[str, Callable[[], Dataset]]] = {
    "coil20": ("coil20/coil20_128x128.npz", load_coil20),
    "cbcl": ("cbcl/cbcl_faces_19x19.npz", load_cbcl),
}
RECIPE = "self_tuning-1"  # part of the name of a kept file; another number when the graph is built in another way


@dataclass(frozen=True, eq=False)
class Similarity:
    """A similarity matrix with labels.

    Attributes
    ----------
    name : str
        Its name.
    matrix : csr_array (n, n)
        Normalised, symmetric, float64.
    labels : ndarray of int (n,) or None
        Classes, counted from 0.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.datasets import Similarity
    >>> Similarity("one", sp.csr_array([[1.0]]), None).matrix.shape
    (1, 1)
    """

    name: str
    matrix: sp.csr_array
    labels: NDArray[np.int64] | None


def load_similarity(name: str) -> Similarity:
    """Load a similarity matrix of the paper's clustering experiments.

    Parameters
    ----------
    name : {"coil20", "cbcl", "tdt2", "reuters", "orl"}
        The last three are the authors' files. The first two are built by `quartic.graphs.similarity` from the raw
        images, self-tuning, and kept in `cache_home` where that can be written.

    Examples
    --------
    >>> from quartic.datasets import load_similarity
    >>> load_similarity("orl").matrix.nnz  # doctest: +SKIP
    4094
    """
    if name in AUTHORS:
        (stored,) = stored_arrays(name, f"paper_symnmf/{name}_similarity.npz")
        matrix = sp.csr_array(stored, dtype=np.float64)
        matrix.sum_duplicates()
        (labels,) = stored_arrays(name, f"paper_symnmf/{name}_labels.npy")
        return Similarity(name, matrix, labels.astype(np.int64) - 1)
    if name in BUILT:
        return _built(name)
    raise ValueError(f"name must be one of {', '.join(sorted((*AUTHORS, *BUILT)))}, got {name!r}")


def _built(name: str) -> Similarity:
    relative, load = BUILT[name]
    # The name carries a digest of the raw data, so that other data never meet a graph that is not theirs.
    digest = hashlib.sha256(data_file(name, relative).read_bytes()).hexdigest()[:16]
    kept = cache_home() / "similarity" / f"{name}-{RECIPE}-{digest}.npz"
    stored = _read(name, kept)
    if stored is not None:
        return stored
    from quartic.graphs import similarity

    data = load()
    built = Similarity(name, similarity(data.features, kind="self_tuning"), data.labels)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, not the answer
        _write(kept, built)
    return built


def _read(name: str, path: Path) -> Similarity | None:
    try:
        stored = read_npz(path)
        n = len(stored["indptr"]) - 1
        matrix = sp.csr_array((stored["data"], stored["indices"], stored["indptr"]), shape=(n, n))
        matrix.check_format(full_check=True)
        return Similarity(name, matrix, stored.get("labels"))
    except (OSError, *DAMAGE):  # absent, or damaged: build it anew
        return None


def _write(path: Path, built: Similarity) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"data": built.matrix.data, "indices": built.matrix.indices, "indptr": built.matrix.indptr}
    if built.labels is not None:
        arrays["labels"] = built.labels
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))
