"""Lists and matrices of distances, and files of anchors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.arrays import read_arrays
from quartic.io.errors import FileFormatError
from quartic.io.mdjeep import read_mdjeep
from quartic.io.source import Source, source_of
from quartic.io.tables import DISTANCE, LOWER, UPPER, Table, find_column, find_ends, number_names, read_table

_WEIGHT = ("weight", "weights", "w")
_EXPECTED = "expected i,j,d, or i,j,lower,upper, and maybe weight"
_AXES = ("x", "y", "z")


@dataclass(frozen=True, eq=False)
class DistanceTable:
    """Distances between named points.

    Attributes
    ----------
    pairs : ndarray of int64 (m, 2)
        Pairs, counted from 0.
    distances : ndarray (m,) or None
        Their distances; NaN where only bounds are known.
    lower, upper, weights : ndarray (m,) or None
        Bounds and weights; NaN where there is no bound.
    names : tuple of str
        Of the points.
    guess : str
        How the file was read, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import DistanceTable
    >>> DistanceTable(np.array([[0, 1]]), np.array([2.0]), None, None, None, ("a", "b")).n_points
    2
    """

    pairs: NDArray[np.int64]
    distances: NDArray[np.float64] | None
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    weights: NDArray[np.float64] | None
    names: tuple[str, ...]
    guess: str = ""
    places: Sequence[str] = field(default=(), repr=False)  # where each pair stands in the file

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.names)

    def columns(self) -> dict[str, Any]:
        """Return what `DistanceCompletion.fit_pairs` takes, by name."""
        return {
            "distances": self.distances,
            "lower": self.lower,
            "upper": self.upper,
            "weights": self.weights,
            "n_points": self.n_points,
        }


def read_distances(path: str | os.PathLike[str]) -> DistanceTable:
    """Read partial distances: a list i,j,d in a table of text, a matrix, .npz, .npy, .mtx, or a file of MD-jeep.

    Columns of a list: two of points, by name or number; ``d``; maybe ``lower`` and ``upper`` bounds and ``weight``.
    Without a header they are i,j,d. In a matrix empty cells and NaN are unknown distances; in a sparse one the stored
    entries are known. An .npz file has the arrays ``pairs`` and ``distances`` (and ``lower``, ``upper``, ``weights``),
    or is sparse.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.

    Returns
    -------
    DistanceTable
        Pairs, distances, bounds, weights and the names of the points.

    Raises
    ------
    FileFormatError
        With the line at fault.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_distances
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("from,to,distance\\nhome,shop,2\\nshop,park,1.5\\n")
    >>> walk = read_distances(file)
    >>> walk.names, walk.pairs.tolist(), walk.distances.tolist()
    (('home', 'shop', 'park'), [[0, 1], [1, 2]], [2.0, 1.5])
    """
    with source_of(path) as source:
        found = _read(source)
        if len(found.pairs) == 0:
            raise FileFormatError(f"{source.name}: no distance between two different points")
        _check(found, source.name)
        return found


def read_anchors(path: str | os.PathLike[str], names: Sequence[str], dimension: int) -> dict[int, NDArray[np.float64]]:
    """Read points whose places are known: a table point,x,y[,z], the points named as in the list of distances.

    Parameters
    ----------
    path : str or Path
        The file. What `quartic locate` writes can be read again.
    names : sequence of str
        The names of all points, `DistanceTable.names`.
    dimension : int
        Numbers a place needs.

    Returns
    -------
    dict
        ``{index: coordinates}``, as `DistanceCompletion` takes it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_anchors
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "known.csv"
    >>> _ = file.write_text("point,x,y\\nshop,0,1\\n")
    >>> read_anchors(file, ["home", "shop"], 2)
    {1: array([0., 1.])}
    """
    with source_of(path) as source:
        if source.kind != "table":
            raise FileFormatError(f"{source.name}: anchors are a table of text, point,x,y[,z]")
        table = read_table(source)
    columns = list(range(1, table.n_columns))
    if table.header is not None:
        columns = [column for column in columns if table.header[column].lower() != "determined"]
    if len(columns) != dimension:
        raise FileFormatError.at(
            table.name,
            table.numbers_of_lines[0],
            f"{len(columns)} coordinates where {dimension} are needed (-d {dimension}); an anchor is "
            f"point,{','.join(_axis_names(dimension))}",
        )
    places = table.numbers(columns)
    index = {name: at for at, name in enumerate(names)}
    anchors: dict[int, NDArray[np.float64]] = {}
    for line, (name,), place in zip(table.numbers_of_lines, table.identities([0], "point"), places, strict=True):
        if name not in index:
            raise FileFormatError.at(
                table.name, line, f"the anchor {name!r} is in no distance; check its name, or take it out"
            )
        if index[name] in anchors and not np.array_equal(anchors[index[name]], place):
            raise FileFormatError.at(table.name, line, f"the anchor {name!r} has two places; keep one")
        anchors[index[name]] = place
    return anchors


def _axis_names(dimension: int) -> list[str]:
    return list(_AXES[:dimension]) if dimension <= 3 else [f"x{k}" for k in range(1, dimension + 1)]


def _read(source: Source) -> DistanceTable:
    if source.kind == "table":
        return _of_table(read_table(source))
    if source.kind == "mdjeep":
        return _of_mdjeep(source)
    if source.kind == "graphml":
        raise FileFormatError(f"{source.name}: GraphML holds a graph; for distances write i,j,d as CSV")
    return _of_arrays(read_arrays(source), source.name)


def _of_mdjeep(source: Source) -> DistanceTable:
    bounds = read_mdjeep(source.path)
    used = np.unique(bounds.pairs)
    pairs = np.searchsorted(used, bounds.pairs)
    exact = bool(bounds.exact.all())
    names = tuple(str(k + 1) for k in used.tolist())
    guess = f"{len(pairs)} pairs of {len(names)} points (MD-jeep, {'exact' if exact else 'with bounds'})"
    places = [f"pair {k + 1}" for k in range(len(pairs))]
    if exact:
        return DistanceTable(pairs, bounds.lower, None, None, None, names, guess, places)
    return DistanceTable(pairs, None, bounds.lower, bounds.upper, None, names, guess, places)


# -- tables -----------------------------------------------------------------------------------------------------------


def _of_table(table: Table) -> DistanceTable:
    if table.n_columns == 1:
        raise FileFormatError.at(table.name, table.header_line, f"only one column; {_EXPECTED}")
    if _is_matrix(table):
        named = table.header is not None
        D = table.numbers(range(int(named), table.n_columns), missing=True, negative=False)
        names = tuple(table.words(0)) if named else tuple(map(str, range(len(D))))
        return _of_matrix(D, table.name, names)
    roles = _roles(table)
    pairs, names = number_names(table.identities([roles["i"], roles["j"]], "point"))
    same = pairs[:, 0] == pairs[:, 1]
    if same.any():
        at = int(np.argmax(same))
        raise FileFormatError.at(
            table.name,
            table.numbers_of_lines[at],
            f"the point {names[pairs[at, 0]]} is paired with itself; take the row out",
        )
    bounded = "lower" in roles or "upper" in roles
    columns: dict[str, NDArray[np.float64] | None] = dict.fromkeys(("d", "lower", "upper", "weight"))
    for role in columns:
        if role in roles:
            may_miss = bounded and role != "weight"
            columns[role] = table.numbers([roles[role]], missing=may_miss, negative=False, infinite=role == "upper")[
                :, 0
            ]
    said = [table.title(roles[role]) for role in ("i", "j", *columns) if role in roles]
    guess = f"{len(pairs)} pairs of {len(names)} points ({table.layout()}; {', '.join(said)})"
    places = [f"line {line}" for line in table.numbers_of_lines]
    return DistanceTable(
        pairs, columns["d"], columns["lower"], columns["upper"], columns["weight"], names, guess, places
    )


def _is_matrix(table: Table) -> bool:
    """Tell whether this is a square matrix with zeros, or nothing, on its diagonal."""
    named = table.header is not None and table.n_columns == len(table) + 1
    if named:
        assert table.header is not None
        named = tuple(table.words(0)) == table.header[1:]
    if not named and (table.header is not None or table.n_columns != len(table)):
        return False
    columns = range(int(named), table.n_columns)
    if not all(table.is_numeric(column) for column in columns):
        return False
    D = table.numbers(columns, missing=True)
    return bool((np.nan_to_num(np.diagonal(D)) == 0).all())


def _roles(table: Table) -> dict[str, int]:
    """Return the column of each thing we know, or raise an error that names the columns we do not."""
    line = table.header_line
    if table.header is None:
        if table.n_columns == 3:
            return {"i": 0, "j": 1, "d": 2}
        if table.n_columns == 2:
            raise FileFormatError.at(table.name, line, f"only two columns; {_EXPECTED}")
        raise FileFormatError.at(
            table.name, line, f"{table.n_columns} columns without names; {_EXPECTED}: add a first line that names them"
        )
    known = {"lower": LOWER, "upper": UPPER, "weight": _WEIGHT, "d": DISTANCE}
    ends = find_ends(table.header)
    roles = {role: at for role, names in known.items() if (at := find_column(table.header, names)) is not None}
    if ends is not None:
        roles |= {"i": ends[0], "j": ends[1]}
    unknown = [name for k, name in enumerate(table.header) if k not in roles.values()]
    missing = [role for role in ("i", "j") if role not in roles]
    if not missing and not {"d", "lower", "upper"} & set(roles):
        missing = ["d"]
    if unknown or missing:
        fault = f"unknown column {', '.join(map(repr, unknown))}" if unknown else f"no column {', '.join(missing)}"
        cure = "rename or remove it" if unknown and not missing else "rename the columns"
        raise FileFormatError.at(table.name, table.header_line, f"{fault}; {_EXPECTED}: {cure}")
    return roles


# -- matrices and arrays ----------------------------------------------------------------------------------------------


def _of_arrays(arrays: dict[str, Any], name: str) -> DistanceTable:
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
        return _of_matrix(D, name, tuple(map(str, range(D.shape[0]))))
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


def _of_matrix(D: Any, name: str, names: tuple[str, ...]) -> DistanceTable:
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
        _check(found, name)
    kept = np.sort(np.unique(np.sort(pairs, axis=1) @ np.array([len(names), 1]), return_index=True)[1])
    guess = f"{len(kept)} pairs of {len(names)} points ({kind})"
    return DistanceTable(
        np.sort(pairs[kept], axis=1), d[kept], None, None, None, names, guess, [places[k] for k in kept]
    )


def _check(table: DistanceTable, name: str) -> None:
    """Raise an error that names the first row that cannot be: not a number, negative, twice with different values."""
    same = table.pairs[:, 0] == table.pairs[:, 1]
    if same.any():
        raise FileFormatError(f"{_at(name, table, int(np.argmax(same)))}: a point is paired with itself; take it out")
    columns = {
        "distance": table.distances,
        "lower bound": table.lower,
        "upper bound": table.upper,
        "weight": table.weights,
    }
    bounded = table.lower is not None or table.upper is not None
    for what, column in columns.items():
        if column is None:
            continue
        bad = column < 0
        if what == "weight" or (what == "distance" and not bounded):
            bad |= np.isnan(column)
        if what != "upper bound":
            bad |= np.isinf(column)
        if bad.any():
            at = int(np.argmax(bad))
            word = "is negative" if column[at] < 0 else "is not a finite number"
            raise FileFormatError(
                f"{_at(name, table, at)}: the {what} {column[at]:g} {word}; correct it or take it out"
            )
    if bounded:
        _check_bounds(table, name)
    key = np.sort(table.pairs, axis=1) @ np.array([table.n_points, 1])
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    one, two = order[again - 1], order[again]
    for what, column in columns.items():
        if column is None:
            continue
        a, b = column[one], column[two]
        differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-9 * np.maximum(np.abs(a), np.abs(b))))
        if differs.any():
            at = int(np.argmax(differs))
            p, q = (table.names[k] for k in table.pairs[two[at]])
            raise FileFormatError(
                f"{_at(name, table, int(two[at]))}: the {what} of {p} and {q} is {b[at]:g}, but {a[at]:g} in "
                f"{table.places[one[at]]}; keep one of them, or their mean"
            )


def _at(name: str, table: DistanceTable, row: int) -> str:
    """Return where a row stands, ``file:line`` where it has a line."""
    place = table.places[row]
    return f"{name}:{place.removeprefix('line ')}" if place.startswith("line ") else f"{name}: {place}"


def _check_bounds(table: DistanceTable, name: str) -> None:
    nothing = np.full(len(table.pairs), np.nan)
    d = nothing if table.distances is None else table.distances
    low = nothing if table.lower is None else table.lower
    high = nothing if table.upper is None else table.upper
    empty = np.isnan(d) & np.isnan(low) & np.isnan(high)
    crossed = low > high
    outside = (d < low * (1 - 1e-9)) | (d > high * (1 + 1e-9))
    for bad, fault in (
        (empty, "neither a distance nor a bound; take it out"),
        (crossed, "the lower bound is above the upper; exchange them"),
        (outside, "the distance is outside its bounds; correct one of them"),
    ):
        if bad.any():
            raise FileFormatError(f"{_at(name, table, int(np.argmax(bad)))}: {fault}")
