"""Partial distances from a file of any kind."""

from __future__ import annotations

import os

import numpy as np

from quartic.io.arrays import read_arrays
from quartic.io.distance_arrays import from_arrays
from quartic.io.distance_lists import from_table
from quartic.io.distance_table import DistanceTable, check_rows
from quartic.io.errors import FileFormatError
from quartic.io.mdjeep import read_mdjeep
from quartic.io.source import Source, source_of
from quartic.io.tables import read_table


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
        check_rows(found, source.name)
        return found


def _read(source: Source) -> DistanceTable:
    if source.kind == "table":
        return from_table(read_table(source))
    if source.kind == "mdjeep":
        return _of_mdjeep(source)
    if source.kind == "graphml":
        raise FileFormatError(f"{source.name}: GraphML holds a graph; for distances write i,j,d as CSV")
    return from_arrays(read_arrays(source), source.name)


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
