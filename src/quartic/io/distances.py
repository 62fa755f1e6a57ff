"""Distances between named points, and points whose places are known, from a file of any kind."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.arrays import one_matrix, read_arrays
from quartic.io.atoms import Structure, read_pdb
from quartic.io.files import GRAPHS, TABLES, FileFormatError, Source, count, source_of
from quartic.io.graphs import check_repeats, merge_repeats, named_matrix
from quartic.io.names import DISTANCE, LOWER, UPPER, find_column, find_ends, plain
from quartic.io.sheets import read_table
from quartic.io.tables import Table, read_columns

_WEIGHT = ("weight", "weights", "w", "gewicht", "poids", "peso")
_EXPECTED = "expected i,j,d, or i,j,lower,upper, and maybe weight"
#: What the columns of numbers are called in messages.
_WHAT = {"distances": "distance", "lower": "lower bound", "upper": "upper bound", "weights": "weight"}
_NO_AXES = ("determined", "standard_error")  # what `quartic locate` writes beside the places

Floats = NDArray[np.float64]


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
    atoms : Structure or None
        Names, residues and chains of the points, where the file tells them; its coordinates are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import DistanceTable
    >>> DistanceTable(np.array([[0, 1]]), np.array([2.0]), None, None, None, ("a", "b")).n_points
    2
    """

    pairs: NDArray[np.int64]
    distances: Floats | None
    lower: Floats | None
    upper: Floats | None
    weights: Floats | None
    names: tuple[str, ...]
    guess: str = ""
    atoms: Structure | None = None
    place: Callable[[int], str] = field(default=str, repr=False)  # where a row stands in the file, in words

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.names)

    def columns(self) -> dict[str, Any]:
        """Return what `DistanceCompletion.fit_pairs` takes, by name."""
        return {**dict.fromkeys(_WHAT), **self.quantities(), "n_points": self.n_points}

    def quantities(self) -> dict[str, Floats]:
        """Return the columns of numbers that there are, by their roles."""
        return {role: column for role in _WHAT if (column := getattr(self, role)) is not None}

    def take(self, rows: NDArray[Any]) -> DistanceTable:
        """Return the table with these rows only (indices)."""
        columns: dict[str, Any] = {role: column[rows] for role, column in self.quantities().items()}
        place = self.place
        return replace(self, pairs=self.pairs[rows], place=lambda row: place(int(rows[row])), **columns)


def read_distances(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, repeats: str | None = None
) -> DistanceTable:
    """Read partial distances: a list i,j,d or a matrix (.csv, .parquet), .npz, .npy, .mtx, or a file of MD-jeep.

    Columns of a list: two of points, by name or number; the distance; maybe ``lower`` and ``upper`` bounds and
    ``weight``. Rows whose distance is blank are left out. In a matrix empty cells and NaN are unknown; in a
    sparse one the stored entries are known. An .npz file has the arrays ``pairs`` and ``distances`` (and
    ``lower``, ``upper``, ``weights``), or is sparse.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.
    columns : sequence of str, optional
        Of a list: names (or numbers, counted from 1) of the columns of the two points and of the distance; detected
        when left out.
    repeats : {"mean", "last"}, optional
        What becomes of a pair that is there several times with different distances; an error when left out.

    Returns
    -------
    DistanceTable
        Pairs, distances, bounds, weights and the names of the points.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_distances
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "walk.csv"
    >>> _ = file.write_text("from,to,km\\nhome,shop,2\\nshop,park,1.5\\n")
    >>> walk = read_distances(file)
    >>> walk.names, walk.pairs.tolist(), walk.distances.tolist()
    (('home', 'shop', 'park'), [[0, 1], [1, 2]], [2.0, 1.5])
    """
    check_repeats(repeats, "mean", "last")
    with source_of(path) as source:
        found = _read(source, columns)
        if len(found.pairs) == 0:
            raise FileFormatError(f"{source.name}: no distance between two different points")
        return _merge(found, source.name, repeats)


def _read(source: Source, columns: Sequence[str] | None) -> DistanceTable:
    if source.kind in TABLES:
        return _from_table(read_table(source), columns)
    if source.kind == "mdjeep":
        return _from_mdjeep(source)
    if source.kind in (*GRAPHS, "atoms"):
        raise FileFormatError(f"{source.name}: this kind of file holds no distances; write i,j,d as CSV")
    arrays = read_arrays(source)
    if "pairs" not in arrays:
        cure = "; or save the arrays pairs and distances"
        D = one_matrix(arrays, source.name, ("D", "distances", "array"), cure)
        loops = np.zeros(1) if sp.issparse(D) or D.shape[0] != D.shape[1] else np.nan_to_num(np.diagonal(D))
        if sp.issparse(D) or D.shape[1] != 3 or (len(D) == 3 and not loops.any()):
            kind = "a sparse matrix, stored entries known" if sp.issparse(D) else "a matrix"
            return _from_matrix(D, source.name, tuple(map(str, range(D.shape[0]))), kind)
        arrays = {"pairs": D[:, :2], "distances": D[:, 2]}
    return _from_pairs(arrays, source.name)


# -- tables -----------------------------------------------------------------------------------------------------------


def _from_table(table: Table, given: Sequence[str] | None) -> DistanceTable:
    if table.n_columns == 1:
        raise table.fault(-1, f"only one column; {_EXPECTED}")
    if given is None and (matrix := _find_matrix(table)) is not None:
        return _from_matrix(matrix[1], table.name, matrix[0], f"a matrix in {table.layout}")
    roles = _guess_roles(table, given)
    if "distances" in roles and (title := table.title(roles["distances"])):
        if re.search(r"²|\^\s*2|squared|(\b|_)sq(\b|_)", title):
            raise table.fault(-1, f"{title} seems to hold squares; take their roots, or rename it")
        if re.search("similar|ähnlich|corr?el|korrel", title.lower()):
            cure = "rename it to distance if it does not, or use quartic cluster"
            raise table.fault(-1, f"{title} seems to hold similarities, which say the opposite; {cure}")
    pairs, names = table.identities([roles["i"], roles["j"]], "point")
    if given is None and len(names) == 2 * len(pairs) > 2:
        cure = "if it is a list of distances at all, choose its columns by --columns"
        raise table.fault(0, f"no point is in two rows, so that nothing can be located; {cure}")
    columns: dict[str, Any] = dict.fromkeys(_WHAT)
    for role in columns:
        if role in roles:
            (columns[role],) = table.numbers([roles[role]], missing=role != "weights", infinite=True).T
    said = [table.title(roles[role]) for role in ("i", "j", *columns) if role in roles]
    left = [table.title(column) for column in range(table.n_columns) if column not in roles.values()]
    found = DistanceTable(pairs, **columns, names=names, atoms=Structure.named(names), place=table.place)
    known = [column for role, column in columns.items() if column is not None and role != "weights"]
    blank = np.all([np.isnan(column) for column in known], axis=0)
    itself = (pairs[:, 0] == pairs[:, 1]) & np.all([column == 0 for column in known], axis=0)
    rows = np.flatnonzero(~blank & ~itself)
    found = found.take(rows) if len(rows) < len(pairs) else found
    _check_rows(found, table.name, {role: table.title(column) for role, column in roles.items()})
    guess = f"{count(len(rows), 'pair')} of {len(names)} points ({table.layout}; {', '.join(said)})"
    for out, why in ((blank, "without a distance"), (itself, "of a point with itself")):
        guess += f"; {count(int(out.sum()), 'row')} {why} left out" if out.any() else ""
    if left:
        guess += f"; left out: {', '.join(left)}"
    return replace(found, guess=guess)


def _find_matrix(table: Table) -> tuple[tuple[str, ...], Floats] | None:
    """Return names and entries of a square matrix with zeros, or nothing, on its diagonal; NaN where blank."""
    columns = range(table.n_columns - len(table), table.n_columns)
    found = named_matrix(table)
    if found is None and table.header is None and columns.start == 0 and all(map(table.is_numeric, columns)):
        found = tuple(map(str, columns)), table.numbers(columns, missing=True, infinite=True)
    if found is None:
        return None
    loops = np.nan_to_num(np.diagonal(found[1]))
    if loops.any():
        at = int(np.argmax(loops != 0))
        if columns.start == 1:
            fault = f"the distance of {found[0][at]} to itself, {loops[at]:g}, must be 0"
            raise table.fault(at, f"{fault}; similarities are for quartic cluster")
        return None
    table.numbers(columns, missing=True)  # names the line at fault
    return found


def _guess_roles(table: Table, given: Sequence[str] | None) -> dict[str, int]:
    """Return the column of each role: as told, by its name, or by what is in it; raise where that leaves a doubt."""
    if given is not None:
        if len(given) != 3:
            raise ValueError(f"--columns {','.join(given)}: name the two points and the distance")
        return dict(zip(("i", "j", "distances"), table.find(given), strict=True))
    if table.header is None:
        if table.n_columns == 3:
            return {"i": 0, "j": 1, "distances": 2}
        if table.n_columns == 2:
            raise table.fault(-1, f"only two columns; {_EXPECTED}")
        raise table.fault(
            -1, f"{table.n_columns} columns without names; {_EXPECTED}: add a first line that names them, or --columns"
        )
    known = {"lower": LOWER, "upper": UPPER, "weights": _WEIGHT, "distances": DISTANCE}
    roles = {role: at for role, names in known.items() if (at := find_column(table.header, names)) is not None}
    ends = find_ends(table.header)
    if ends is None:  # the first two columns that may name points: words, or whole numbers
        others = [k for k in range(table.n_columns) if k not in roles.values() and not table.counts_rows(k)]
        names = [k for k in others if not table.is_numeric(k) or table.is_integer(k)]
        ends = (names[0], names[1]) if len(names) > 1 else None
    if ends is not None:
        roles |= {"i": ends[0], "j": ends[1]}
    unknown = [k for k in range(table.n_columns) if k not in roles.values() and table.is_numeric(k)]
    unknown = [k for k in unknown if not table.counts_rows(k)]
    if ends is not None and not {"distances", "lower", "upper"} & set(roles) and len(unknown) == 1:
        roles["distances"] = unknown.pop()
    missing = [role for role in ("i", "j") if role not in roles]
    if not missing and not {"distances", "lower", "upper"} & set(roles):
        missing = ["d"]
    if unknown or missing:
        called = ", ".join(repr(table.header[k]) for k in unknown)
        fault = f"unknown column {called}" if unknown else f"no column {', '.join(missing)}"
        cure = "rename or remove it" if unknown and not missing else "rename the columns"
        raise table.fault(-1, f"{fault}; {_EXPECTED}: {cure}, or say --columns POINT,POINT,DISTANCE")
    return roles


# -- arrays -----------------------------------------------------------------------------------------------------------


def _from_pairs(arrays: dict[str, Any], name: str) -> DistanceTable:
    pairs = np.asarray(arrays["pairs"])
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "fiu" or len(pairs) == 0:
        raise FileFormatError(f"{name}: pairs must have two columns of point numbers, got shape {pairs.shape}")
    wrong = ((pairs != np.rint(pairs)) | ~(pairs >= 0) | ~(pairs < 2**62)).any(axis=1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise FileFormatError(f"{name}: pairs[{at}] = {pairs[at].tolist()}; points are whole numbers from 0 on")
    pairs = pairs.astype(np.int64)
    columns: dict[str, Any] = dict.fromkeys(_WHAT)
    for role in columns.keys() & arrays.keys():
        given = np.asarray(arrays[role])
        if given.shape != (len(pairs),) or given.dtype.kind not in "fiub":
            raise FileFormatError(
                f"{name}: {role} must be {len(pairs)} numbers, one for each pair, got shape {given.shape}"
            )
        columns[role] = given.astype(np.float64)
    if all(columns[role] is None for role in ("distances", "lower", "upper")):
        raise FileFormatError(f"{name}: pairs without distances; add the array distances, or lower and upper")
    used, numbers = np.unique(pairs, return_inverse=True)
    guess = f"{len(pairs)} pairs of {len(used)} points ({', '.join(k for k, v in columns.items() if v is not None)})"
    found = DistanceTable(
        numbers.reshape(pairs.shape).astype(np.int64), **columns, names=tuple(map(str, used.tolist())), guess=guess,
        place=lambda row: f"row {row}",
    )  # fmt: skip
    _check_rows(found, name)
    return found


def _from_matrix(D: Any, name: str, names: tuple[str, ...], kind: str) -> DistanceTable:
    """Return the known entries of a matrix, those on both sides of the diagonal once if they agree."""
    n, p = D.shape
    if n != p:
        raise FileFormatError(f"{name}: distances are a square matrix or three columns i,j,d, this is {n} × {p}")
    loops = np.nan_to_num(D.diagonal())
    if loops.any():
        at = int(np.argmax(loops != 0))
        raise FileFormatError(f"{name}: the distance of point {at} to itself, {loops[at]:g}, must be 0")
    if sp.issparse(D):
        entries = D.tocoo()
        i, j, d = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data.astype(np.float64)
    else:
        D = np.array(D, dtype=np.float64)
        for zero, other in ((np.triu, np.tril), (np.tril, np.triu)):  # one side is enough
            if not np.nan_to_num(zero(D)).any() and other(D).any():
                D[zero(np.ones(D.shape, dtype=bool))] = np.nan
        i, j = np.nonzero(~np.isnan(D))
        d = D[i, j]
    off = (i != j) & ~np.isnan(d)
    pairs, d = np.column_stack([i[off], j[off]]).astype(np.int64), d[off]
    found = DistanceTable(
        pairs, d, None, None, None, names, place=lambda row: "entry ({}, {})".format(*pairs[row].tolist())
    )
    if len(pairs):
        _check_rows(found, name)
        found = _merge(found, name, None)
        found = replace(found, pairs=np.sort(found.pairs, axis=1))
    return replace(
        found, atoms=Structure.named(names), guess=f"{len(found.pairs)} pairs of {len(names)} points ({kind})"
    )


# -- MD-jeep ----------------------------------------------------------------------------------------------------------


def _from_mdjeep(source: Source) -> DistanceTable:
    """Return bounds on the distance of each pair, or distances where all are equal; vertices are named from 1 on.

    Both layouts are known, by what stands in the fifth and sixth column: ``i j lower upper [names]`` and
    ``i j residue residue lower upper [names]``. Blank lines and lines that start with ``#`` are skipped.
    """
    table = read_columns(source.path, source.name)
    if table.n_columns < 4:
        raise table.fault(0, f"expected at least 4 columns, got {table.n_columns}")
    numbered = table.n_columns > 5 and table.is_numeric(4) and table.is_numeric(5)
    column = 4 if numbered else 2  # of the lower bound
    pairs, names = table.identities([0, 1], "vertex")
    wrong = np.array([not vertex.isdecimal() or not 1 <= int(vertex[:11]) <= 2**31 for vertex in names])[pairs]
    if wrong.any():
        row, end = np.argwhere(wrong)[0].tolist()
        raise table.fault(row, f"a vertex must be an integer from 1 to 2³¹, got {table.words(end)[row]!r}")
    lower, upper = table.numbers([column, column + 1]).T
    atoms = None
    if table.n_columns == column + 6:
        first = np.unique(pairs.T, return_index=True)[1].tolist()  # where each vertex stands

        def told(column: int) -> list[str]:
            words = [*table.words(column), *table.words(column + 1)]
            return [words[k] for k in first]

        groups = [int(word) if word.isdecimal() and len(word) < 9 else 0 for word in told(2)] if numbered else None
        atoms = Structure.of(np.zeros((len(names), 3)), told(column + 2), told(column + 4), groups)
    exact = np.array_equal(lower, upper)
    guess = f"{len(pairs)} pairs of {len(names)} points (MD-jeep, {'exact' if exact else 'with bounds'})"
    found = DistanceTable(np.sort(pairs, axis=1), None, lower, upper, None, names, guess, atoms, table.place)
    _check_rows(found, source.name)
    return replace(found, distances=lower, lower=None, upper=None) if exact else found


# -- what cannot be in a list of distances ----------------------------------------------------------------------------


def _check_rows(table: DistanceTable, name: str, titles: dict[str, str] | None = None) -> None:
    """Raise an error that names the first row that cannot be, and its column: negative, outside its bounds, …"""

    def refuse(bad: NDArray[np.bool_], fault: Callable[[int], str]) -> None:
        if bad.any():
            at = int(np.argmax(bad))
            raise FileFormatError(f"{_place(name, table, at)}: {fault(at)}")

    i, j = table.pairs.T
    refuse(i == j, lambda at: f"the point {table.names[i[at]]} is paired with itself; take it out")
    found, bounded = table.quantities(), table.lower is not None or table.upper is not None
    for role, column in found.items():
        unknown = np.isnan(column) & (role == "weights" or (role == "distances" and not bounded))
        unknown |= np.isinf(column) & (role != "upper")
        called = f"the {_WHAT[role]} {{:g}}" if titles is None else f"{{:g}} in {titles[role]}"
        for bad, word in ((column < 0, "is negative"), (unknown, "is not a finite number")):
            refuse(bad, lambda at: f"{called.format(column[at])} {word}; correct it or take it out")  # noqa: B023
    if not bounded:
        return
    d, low, high = (found.get(role, np.full(len(i), np.nan)) for role in ("distances", "lower", "upper"))
    nothing = np.isnan(d) & np.isnan(low) & np.isnan(high)
    refuse(nothing, lambda _: "neither a distance nor a bound; take it out")
    place = {role: "" if titles is None else f" in {titles[role]}" for role in found}

    def told(at: int) -> str:
        roles = (role for role in ("distances", "lower", "upper") if role in found and not np.isnan(found[role][at]))
        return ", ".join(f"{_WHAT[role]} {found[role][at]:g}{place[role]}" for role in roles)

    refuse(low > high, lambda at: f"the lower bound is above the upper ({told(at)}); exchange them")
    outside = (d < low * (1 - 1e-9)) | (d > high * (1 + 1e-9))
    refuse(outside, lambda at: f"the distance is outside its bounds ({told(at)}); correct one of them")


def _merge(table: DistanceTable, name: str, repeats: str | None) -> DistanceTable:
    """Return each pair once; without ``repeats``, pairs given twice must agree."""
    ordered = np.sort(table.pairs, axis=1)
    rows = np.arange(len(ordered))
    if repeats is not None and (table.lower is not None or table.upper is not None):
        raise FileFormatError(f"{name}: --repeats is for distances, this file has bounds; keep one row a pair")
    for role, column in table.quantities().items():
        column, rows, clash = merge_repeats(ordered, column, table.n_points, repeats)
        if clash is not None:
            a, b = clash
            p, q = (table.names[k] for k in table.pairs[b])
            raise FileFormatError(
                f"{_place(name, table, b)}: the {_WHAT[role]} of {p} and {q} is {column[b]:g}, but {column[a]:g} in "
                f"{table.place(a)}; keep one of them, or say --repeats mean or last"
            )
        if repeats is not None:
            merged: Any = {role: column}
            table = replace(table, **merged)
    if len(rows) == len(table.pairs):
        return table
    said = f"; {count(len(table.pairs) - len(rows), 'repeated pair')}: {repeats}" if repeats else ""
    return replace(table.take(rows), guess=table.guess + said)


def _place(name: str, table: DistanceTable, row: int) -> str:
    """Return where a row stands, ``file:line`` where it has a line."""
    place = table.place(row)
    return f"{name}:{place.removeprefix('line ')}" if place.startswith("line ") else f"{name}: {place}"


# -- points whose places are known ------------------------------------------------------------------------------------


def axis_names(dimension: int) -> list[str]:
    """Return x, y, z, or x1, x2, … where there are more."""
    return list("xyz"[:dimension]) if dimension <= 3 else [f"x{k}" for k in range(1, dimension + 1)]


def read_anchors(path: str | os.PathLike[str], names: Sequence[str], dimension: int) -> dict[int, Floats]:
    """Read points whose places are known: a table point,x,y[,z], the points named as in the list of distances.

    Parameters
    ----------
    path : str or Path
        The file. What `quartic locate` writes can be read again. Atoms of .pdb or .cif are the points in order.
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
        if source.kind == "atoms" and ".xyz" not in source.path.suffixes:
            return _places_of_atoms(source, names, dimension)
        if source.kind not in TABLES:
            raise FileFormatError(f"{source.name}: known places are a table, point,x,y[,z], or a file .pdb or .cif")
        table = read_table(source)
    called_by, columns = 0, list(range(1, table.n_columns))
    if table.header is not None:
        called_by = find_column(table.header, ("point", "name", "id", "label", "node")) or 0
        titles = [plain(title) for title in table.header]
        columns = [k for k, title in enumerate(titles) if title and title not in _NO_AXES and table.is_numeric(k)]
        columns = [k for k in columns if k != called_by and not table.counts_rows(k)]
        if sorted(titles[k] for k in columns) == sorted(axis_names(dimension)):  # whatever their order
            columns = [titles.index(axis) for axis in axis_names(dimension)]
    if len(columns) != dimension:
        needed = f"{count(len(columns), 'coordinate')} where {dimension} are needed (-d {dimension})"
        raise table.fault(0, f"{needed}; a known place is point,{','.join(axis_names(dimension))}")
    places = table.numbers(columns)
    index = {name: at for at, name in enumerate(names)}
    rows, called = table.identities([called_by], "point")
    anchors: dict[int, Floats] = {}
    for row, (k,) in enumerate(rows.tolist()):
        name = called[k]
        if name not in index:
            raise table.fault(row, f"the point {name!r} is in no distance; check its name, or take it out")
        if index[name] in anchors and not np.array_equal(anchors[index[name]], places[row]):
            raise table.fault(row, f"the point {name!r} has two places; keep one")
        anchors[index[name]] = places[row]
    return anchors


def atoms_of_points(names: Sequence[str]) -> Structure:
    """Return atoms at the origin called as the points are, or X where these only have numbers."""
    numbered = all(name.isdigit() for name in names)
    return Structure.named(names) or Structure.of(np.zeros((len(names), 3)), names=None if numbered else names)


def _places_of_atoms(source: Source, names: Sequence[str], dimension: int) -> dict[int, Floats]:
    """Return the places of atoms, which are the points one by one; names, where both have them, must agree."""
    atoms, points = read_pdb(source.path), atoms_of_points(names)
    cure = "atoms are taken in the order of the points; a table point,x,y[,z] names them"
    if len(atoms) != len(points):
        raise FileFormatError(f"{source.name}: {count(len(atoms), 'atom')} for {len(points)} points; {cure}")
    for at, (ours, theirs) in enumerate(zip(points.names, atoms.names, strict=True)):
        if not names[at].isdigit() and ours[:4].strip() != theirs[:4].strip():
            raise FileFormatError(f"{source.name}: atom {at + 1} is {theirs!r}, and the point {names[at]!r}; {cure}")
    if atoms.coordinates[:, dimension:].any():
        raise FileFormatError(f"{source.name}: the atoms have more than {dimension} coordinates (-d {dimension})")
    return dict(enumerate(atoms.coordinates[:, :dimension]))
