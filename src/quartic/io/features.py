"""Features of samples: a row for each, from a table or a matrix."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quartic.io.arrays import check_finite, one_matrix
from quartic.io.errors import FileFormatError
from quartic.io.source import Source, source_of
from quartic.io.tables import NAMES, Table, read_table

MATRIX_NAMES = ("X", "fea", "features", "data", "array")


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features with names.

    Attributes
    ----------
    X : ndarray or csr_array (n, p)
        A row for each sample.
    names : tuple of str
        Of the samples: those in the file, or 0 … n − 1.
    columns : tuple of str
        Of the features: those in the file, or 0 … p − 1.
    guess : str
        How the file was read, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import FeatureTable
    >>> FeatureTable(np.eye(2), ("a", "b"), ("x", "y")).X.shape
    (2, 2)
    """

    X: Any = field(repr=False)
    names: tuple[str, ...]
    columns: tuple[str, ...]
    guess: str = ""


def read_features(path: str | os.PathLike[str]) -> FeatureTable:
    """Read features: .csv, .tsv or other tables of text, .npy, .npz, .mat, .mtx.

    In a table the separator, a header and a column of names are found out; other columns of text are left out.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.

    Returns
    -------
    FeatureTable
        The numbers, and the names of rows and columns.

    Raises
    ------
    FileFormatError
        With the line at fault.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_features
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "plants.csv"
    >>> _ = file.write_text("name;height\\nrose;1,5\\nfern;0,5\\n")
    >>> plants = read_features(file)
    >>> plants.names, plants.X.ravel().tolist()
    (('rose', 'fern'), [1.5, 0.5])
    """
    with source_of(path) as source:
        return features_of(source)


def features_of(source: Source) -> FeatureTable:
    """Return the features in a source."""
    if source.kind in ("graphml", "mdjeep"):
        raise FileFormatError(f"{source.name}: this kind of file holds no features")
    if source.kind == "table":
        return features_of_table(read_table(source))
    return features_of_matrix(one_matrix(source, MATRIX_NAMES), source.name)


def features_of_matrix(matrix: Any, name: str) -> FeatureTable:
    """Return a matrix as features."""
    check_finite(matrix, name)
    n, p = matrix.shape
    return FeatureTable(
        matrix.astype(np.float64),
        tuple(map(str, range(n))),
        tuple(map(str, range(p))),
        f"features: {n} rows, {p} columns",
    )


def features_of_table(table: Table) -> FeatureTable:
    """Return the columns of numbers as features."""
    numeric = [column for column in range(table.n_columns) if table.is_numeric(column)]
    words = [column for column in range(table.n_columns) if column not in numeric]
    named = _column_of_names(table, words)
    numeric = [column for column in numeric if column != named]
    if not numeric:
        raise FileFormatError.at(
            table.name,
            table.numbers_of_lines[0],
            "no column of numbers, and no two columns of names: not a table of data",
        )
    X = table.numbers(numeric)
    names = tuple(map(str, range(len(table)))) if named is None else tuple(table.words(named))
    columns = tuple(str(column) if table.header is None else table.header[column] or str(column) for column in numeric)
    guess = [f"features: {len(table)} rows, {_plural(len(numeric), 'column')} of numbers ({table.layout()})"]
    if named is not None:
        guess.append(f"names from {table.title(named)}")
    left = [table.title(column) for column in words if column != named]
    if left:
        guess.append(f"text left out: {', '.join(left)}")
    return FeatureTable(X, names, columns, "; ".join(guess))


def _column_of_names(table: Table, words: list[int]) -> int | None:
    """Return the column that names the rows: one called so, or the first if it is text; no name twice."""
    called = [] if table.header is None else [k for k, name in enumerate(table.header) if name.lower() in NAMES]
    for column in [*called, *(words[:1] if words[:1] == [0] else [])]:
        cells = table.words(column)
        if len(set(cells)) == len(cells) and (column in words or table.is_integer(column)):
            return column
    return None


def _plural(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
