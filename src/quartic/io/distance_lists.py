"""Distances in a table of text: a list i,j,d, or a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quartic.io.distance_arrays import from_matrix
from quartic.io.distance_table import DistanceTable
from quartic.io.errors import FileFormatError
from quartic.io.tables import DISTANCE, LOWER, UPPER, Table, find_column, find_ends, number_names

_WEIGHT = ("weight", "weights", "w")
_EXPECTED = "expected i,j,d, or i,j,lower,upper, and maybe weight"


def from_table(table: Table) -> DistanceTable:
    """Return the distances of a table of text, or an error that names the line at fault."""
    if table.n_columns == 1:
        raise FileFormatError.at(table.name, table.header_line, f"only one column; {_EXPECTED}")
    if _is_matrix(table):
        named = table.header is not None
        D = table.numbers(range(int(named), table.n_columns), missing=True, negative=False)
        names = tuple(table.words(0)) if named else tuple(map(str, range(len(D))))
        return from_matrix(D, table.name, names)
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
