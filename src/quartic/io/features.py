"""Features of samples, a row for each; and whether a file holds features or a graph, where that is not said."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quartic.io.arrays import check_finite
from quartic.io.files import GRAPHS, FileFormatError, count, source_of
from quartic.io.graphs import MATRIX_NAMES as GRAPH_NAMES
from quartic.io.graphs import (
    GraphTable,
    check_repeats,
    graph_of,
    graph_of_matrix,
    graph_of_table,
    is_one_sided,
    is_symmetric,
    named_matrix,
    refuse_words,
)
from quartic.io.names import CLEAR_ENDS, CLEAR_WEIGHT, find_ends, names_rows, plain
from quartic.io.sheets import read_table_or_matrix
from quartic.io.tables import SEPARATORS, Table

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


def read_features(path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> FeatureTable:
    """Read features: .csv, .tsv or other tables of text, .npy, .npz, .mat, .mtx.

    In a table the separator, a header and a column of names are detected; other columns of text are left out.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.
    columns : sequence of str, optional
        Of a table: names (or numbers, counted from 1) of the columns that are features; all of numbers when left out.

    Returns
    -------
    FeatureTable
        The numbers, and the names of rows and columns.

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
        found = read_table_or_matrix(source, MATRIX_NAMES, "features")
        if isinstance(found, Table):
            return features_of_table(found, columns)
        return features_of_matrix(found, source.name, columns)


def features_of_matrix(matrix: Any, name: str, columns: Sequence[str] | None = None) -> FeatureTable:
    """Return a matrix as features."""
    if columns is not None:
        raise FileFormatError(f"{name}: a matrix of numbers, whose columns have no names; leave --columns out")
    check_finite(matrix, name)
    n, p = matrix.shape
    names, columns = tuple(map(str, range(n))), tuple(map(str, range(p)))
    return FeatureTable(matrix.astype(np.float64), names, columns, f"features: {n} rows, {p} columns")


def features_of_table(table: Table, columns: Sequence[str] | None = None) -> FeatureTable:
    """Return the columns of numbers, or these, as features."""
    every = range(table.n_columns)
    words = [column for column in every if not table.is_numeric(column)]
    naming = _find_name_columns(table, words)
    numeric = [column for column in every if column not in words and column not in naming]
    left: list[int] = []
    if columns is not None:
        chosen = dict.fromkeys(table.find(columns))
        left = [column for column in numeric if column not in chosen]
        numeric = [column for column in chosen if column not in words or column not in naming]
        naming = [column for column in naming if column not in numeric]
    named = naming[0] if naming else None
    if not numeric:
        alike = "" if table.n_columns > 1 else f"; its lines are not cut alike by {', '.join(SEPARATORS.values())}"
        raise table.fault(0, f"no column of numbers, and no two columns of names: not a table of data{alike}")
    X = table.numbers(numeric, cure=", or choose columns by --as features --columns")
    if table.ends_in_total and len(X) > 2:
        total = X[:-1].sum(axis=0)
        sums, means = (np.abs(X[-1] - of) <= 1e-3 * np.abs(of) for of in (total, total / (len(X) - 1)))
        what = "sums" if (sums & (total != 0)).any() else "means" if means.all() and total.any() else ""
        if what:
            raise table.fault(len(X) - 1, f"these are the {what} of the rows above; take the row out")
    names = tuple(map(str, range(len(table)))) if named is None else tuple(table.words(named))
    titles = tuple(str(column) if table.header is None else table.header[column] or str(column) for column in numeric)
    used = "one column" if len(numeric) == 1 else f"{len(numeric)} columns"
    used += " of numbers" if table.header is None or len(numeric) > 8 else f" of numbers: {', '.join(titles)}"
    guess = [f"features: {count(len(table), 'row')}, {used} ({table.layout})"]
    if named is not None:
        guess.append(f"names from {table.title(named)}")
    text = [column for column in words if column != named]
    shown = {column: sign for column in text if (sign := table.disguised(column))}
    signs = {column: f" ({sign} is text: write plain numbers)" for column, sign in shown.items()}
    rows = [column for column in naming[1:] if column not in words]
    for what, which in (("non-numeric columns ignored", text), ("left out", left), ("row numbers left out", rows)):
        if which:
            guess.append(f"{what}: {', '.join(table.title(column) + signs.get(column, '') for column in which)}")
    return FeatureTable(X, names, titles, "; ".join(guess))


def _find_name_columns(table: Table, words: list[int]) -> list[int]:
    """Return the columns that name the rows, words first: those called so, or a first one of text; no name twice."""
    called = [] if table.header is None else [k for k, name in enumerate(table.header) if names_rows(name)]
    first = [k for k in words[:1] if set(range(k)) <= set(called)]  # nothing but row numbers before it
    found = []
    for column in dict.fromkeys(sorted([*called, *first], key=lambda column: column not in words)):
        cells = table.words(column)
        if len(set(cells)) == len(cells) and (column in words or table.is_integer(column)):
            found.append(column)
    return found


# -- features, or a graph? --------------------------------------------------------------------------------------------

_ASK = "say --as graph or --as features"


def read_similarity(
    path: str | os.PathLike[str],
    as_: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    repeats: str | None = None,
) -> GraphTable | FeatureTable:
    """Read what is to be clustered: a graph or features, whichever the file holds.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.
    as_ : {"graph", "features"}, optional
        Which of the two; detected when left out.
    columns, repeats
        Of an edge list as in `read_graph`, of features as in `read_features`. Without ``as_``, columns of numbers leave
        a table of features what it is.

    Returns
    -------
    GraphTable or FeatureTable
        With ``guess``, which says in words how it was read.

    Raises
    ------
    FileFormatError
        Where the file is faulty, or could be both.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_similarity
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "friends.csv"
    >>> _ = file.write_text("ann,bob\\nbob,cid\\n")
    >>> read_similarity(file).guess
    'graph: 3 nodes, 2 edges (2 columns separated by commas, no header; ends in column 1 and column 2, no weights)'
    """
    if as_ not in (None, "graph", "features"):
        raise ValueError(f"as must be graph or features, got {as_!r}")
    check_repeats(repeats, "sum", "mean", "last")
    if as_ == "features":
        return read_features(path, columns=columns)
    with source_of(path) as source:
        if as_ == "graph" or source.kind in GRAPHS:
            return graph_of(source, columns, repeats)
        found = read_table_or_matrix(source, (*GRAPH_NAMES, *MATRIX_NAMES), "graph and no features")
        if not isinstance(found, Table):
            return _guess_matrix(found, source.name, columns)
        return _guess_table(found, repeats) if columns is None else _guess_by_columns(found, columns, repeats)


def _guess_matrix(matrix: Any, name: str, columns: Sequence[str] | None = None) -> GraphTable | FeatureTable:
    n, p = matrix.shape
    if n != p or columns is not None:
        return features_of_matrix(matrix, name, columns)
    check_finite(matrix, name)
    if is_symmetric(matrix) or is_one_sided(matrix):
        return graph_of_matrix(matrix, name)
    raise FileFormatError(f"{name}: a square matrix of {n} × {n} that is not symmetric: a graph, or features? {_ASK}")


def _guess_table(table: Table, repeats: str | None) -> GraphTable | FeatureTable:
    if table.edges or named_matrix(table) is not None:
        return graph_of_table(table, None, repeats)
    header = table.header
    words = [column for column in range(table.n_columns) if not table.is_numeric(column)]
    named = None if header is None else find_ends(header, CLEAR_ENDS)
    if named is not None and all(_may_name(table, column) for column in named):
        return graph_of_table(table, None, repeats)
    if not words and table.n_columns == len(table) > 1 and header is None:
        return _guess_matrix(table.numbers(range(table.n_columns)), table.name)
    if all(table.is_integer(column) for column in range(min(2, table.n_columns))) and table.n_columns > 1:
        return _guess_by_integers(table, repeats)
    if len(words) == table.n_columns:
        refuse_words(table)
    words = [column for column in words if not table.disguised(column)]
    if len(words) >= 2:
        return _guess_by_names(table, words, repeats)
    return features_of_table(table)


def _guess_by_columns(table: Table, columns: Sequence[str], repeats: str | None) -> GraphTable | FeatureTable:
    """Words are chosen as the ends of edges, decimals as features; of whole numbers the whole table decides."""
    first = table.find(columns)[:2]
    if not all(_may_name(table, column) for column in first):
        return features_of_table(table, columns)
    if all(table.is_numeric(column) for column in first):
        try:
            features = isinstance(_guess_table(table, repeats), FeatureTable)
        except FileFormatError:  # a doubt, which columns are named to dispel
            features = False
        if features and len(columns) in (2, 3):
            called = " and ".join(map(table.title, first))
            raise _ambiguity(table, f"{called} of a table of features: the ends of edges, or features?")
        if features:
            return features_of_table(table, columns)
    return graph_of_table(table, columns, repeats)


def _may_name(table: Table, column: int) -> bool:
    """Tell whether a column may hold the ends of edges: words, or whole numbers, maybe written 3.0."""
    return not table.is_numeric(column) or all(re.fullmatch(r"\d+(\.0*)?", row[column]) for row in table.sample)


def _guess_by_names(table: Table, words: list[int], repeats: str | None) -> GraphTable | FeatureTable:
    """Two columns of words are the ends of edges if they have words in common, and few rows the same two."""
    left, right = (set(table.words(column)) for column in words[:2])
    common = len(left & right)
    if table.n_columns == 2:
        if len(left | right) < 2 * len(table):  # some word stands there more than once
            return graph_of_table(table, None, repeats)
        raise table.fault(0, "two columns of words, none of which comes again: no graph, and no numbers")
    if table.n_columns == 3 and words[:2] == [0, 1]:
        if common:
            return graph_of_table(table, None, repeats)
        raise _ambiguity(table, "two columns of words, none in common, and one of numbers: a graph, or features?")
    if 5 * common < min(len(left), len(right)):
        return features_of_table(table)
    pairs, _ = table.identities(words[:2], "node")
    if 2 * len({tuple(sorted(pair)) for pair in pairs.tolist()}) >= len(pairs):
        return graph_of_table(table, None, repeats)
    one, other = map(table.title, words[:2])
    raise _ambiguity(table, f"{one} and {other} hold the same words: the ends of edges?")


def _guess_by_integers(table: Table, repeats: str | None) -> GraphTable | FeatureTable:
    """Two columns of whole numbers are the ends of edges if they look like it.

    Real lists repeat some edges and hold some loops, so with a header half of the rows need to be edges of their own.
    Whether a column called weight is that of edges or of people, its smallest number tells: edges count from 1 or less.
    """
    ends = table.numbers([0, 1])
    if (ends != np.rint(ends)).any():
        return features_of_table(table)
    pairs, names = table.identities([0, 1], "node")
    loops = pairs[:, 0] == pairs[:, 1]
    n_edges = len(np.unique(pairs[~loops] @ [len(names), 1]))
    first, last = int(names[0]), int(names[-1])  # those between are sorted
    gapless = first in (0, 1) and last - first == len(names) - 1
    if table.header is not None or table.n_columns > 3:
        # neither column numbers the rows, and both speak of the same things
        shared = [len(np.unique(column)) for column in pairs.T]
        both = sum(shared) - len(names)
        enough = 0.2 if gapless else 0.5
        if not (2 * n_edges >= len(pairs) > max(shared) and both >= enough * min(shared)):
            return features_of_table(table)
        third = plain(table.header[2]) if table.header is not None and table.n_columns == 3 else ""
        if third in CLEAR_WEIGHT and table.numbers([2]).min() <= 1:
            return graph_of_table(table, None, repeats)
    elif not loops.any() and (repeats is not None or (n_edges == len(pairs) and (gapless or table.n_columns == 2))):
        return graph_of_table(table, None, repeats)
    raise _ambiguity(table, "the first two columns are whole numbers: the ends of edges, or features?")


def _ambiguity(table: Table, why: str) -> FileFormatError:
    return table.fault(0, f"{why} {_ASK}")
