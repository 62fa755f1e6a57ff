"""Points whose places are known, from a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quartic.io.errors import FileFormatError
from quartic.io.source import source_of
from quartic.io.tables import read_table

_AXES = ("x", "y", "z")
_NO_AXES = ("determined", "standard_error")  # what `quartic locate` writes beside the places


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
        columns = [column for column in columns if table.header[column].lower() not in _NO_AXES]
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
