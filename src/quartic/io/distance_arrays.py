"""Distances in arrays: pairs with columns, or a matrix, dense or sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.distance_table import DistanceTable, check_rows
from quartic.io.errors import FileFormatError


def from_arrays(arrays: dict[str, Any], name: str) -> DistanceTable:
    """Return the distances in named arrays: ``pairs`` and ``distances``, or a matrix, or three columns."""
    if "pairs" in arrays:
        return _of_pairs(arrays, name)
    matrices = [array for array in arrays.values() if getattr(array, "ndim", 0) == 2 and array.dtype.kind in "fiub"]
    if len(matrices) != 1:
        raise FileFormatError(
            f"{name}: expected the arrays pairs and distances, or one matrix of distances; "
            f"found {', '.join(arrays) or 'none'}"
        )
    D = matrices[0]
    loops = np.zeros(1) if sp.issparse(D) or D.shape[0] != D.shape[1] else np.nan_to_num(np.diagonal(D))
    if not sp.issparse(D) and D.shape[1] == 3 and (len(D) != 3 or loops.any()):
        return _of_pairs({"pairs": D[:, :2], "distances": D[:, 2]}, name)
    if loops.any():
        i = int(np.argmax(loops != 0))
        raise FileFormatError(f"{name}: the distance of point {i} to itself, {D[i, i]:g}, must be 0")
    if D.shape[0] == D.shape[1]:
        return from_matrix(D, name, tuple(map(str, range(D.shape[0]))))
    raise FileFormatError(
        f"{name}: distances are a square matrix or three columns i,j,d, this is {D.shape[0]} × {D.shape[1]}"
    )


def _of_pairs(arrays: dict[str, Any], name: str) -> DistanceTable:
    pairs = np.asarray(arrays["pairs"])
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "fiu" or len(pairs) == 0:
        raise FileFormatError(f"{name}: pairs must have two columns of point numbers, got shape {pairs.shape}")
    if (pairs != np.rint(pairs)).any() or (pairs < 0).any():
        at = int(np.argmax((pairs != np.rint(pairs)).any(axis=1) | (pairs < 0).any(axis=1)))
        raise FileFormatError(f"{name}: pairs[{at}] = {pairs[at].tolist()}; points are whole numbers from 0 on")
    pairs = pairs.astype(np.int64)
    columns: dict[str, NDArray[np.float64] | None] = {}
    for role in ("distances", "lower", "upper", "weights"):
        given = arrays.get(role)
        if given is None:
            columns[role] = None
            continue
        given = np.asarray(given)
        if given.shape != (len(pairs),) or given.dtype.kind not in "fiub":
            raise FileFormatError(
                f"{name}: {role} must be {len(pairs)} numbers, one for each pair, got shape {given.shape}"
            )
        columns[role] = given.astype(np.float64)
    if all(columns[role] is None for role in ("distances", "lower", "upper")):
        raise FileFormatError(f"{name}: pairs without distances; add the array distances, or lower and upper")
    used, numbers = np.unique(pairs, return_inverse=True)
    guess = f"{len(pairs)} pairs of {len(used)} points ({', '.join(k for k, v in columns.items() if v is not None)})"
    return DistanceTable(
        numbers.reshape(pairs.shape).astype(np.int64), columns["distances"], columns["lower"], columns["upper"],
        columns["weights"], tuple(map(str, used.tolist())), guess, [f"row {k}" for k in range(len(pairs))],
    )  # fmt: skip


def from_matrix(D: Any, name: str, names: tuple[str, ...]) -> DistanceTable:
    """Return the known entries of a matrix, those on both sides of the diagonal once if they agree."""
    if sp.issparse(D):
        entries = D.tocoo()
        i, j, d = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data.astype(np.float64)
    else:
        D = np.asarray(D, dtype=np.float64)
        i, j = np.nonzero(~np.isnan(D))
        d = D[i, j]
    off = (i != j) & ~np.isnan(d)
    pairs, d = np.column_stack([i[off], j[off]]).astype(np.int64), d[off]
    places = [f"entry ({a}, {b})" for a, b in pairs.tolist()]
    kind = "a sparse matrix, stored entries known" if sp.issparse(D) else "a matrix"
    # where both sides are given, one of them is kept once they are known to agree
    found = DistanceTable(pairs, d, None, None, None, names, "", places)
    if len(pairs):
        check_rows(found, name)
    kept = np.sort(np.unique(np.sort(pairs, axis=1) @ np.array([len(names), 1]), return_index=True)[1])
    guess = f"{len(kept)} pairs of {len(names)} points ({kind})"
    return DistanceTable(
        np.sort(pairs[kept], axis=1), d[kept], None, None, None, names, guess, [places[k] for k in kept]
    )
