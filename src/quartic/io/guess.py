"""A graph, or features? Looked up in the file; where it could be both, an error says so."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from quartic.io.arrays import check_finite, one_matrix
from quartic.io.errors import FileFormatError
from quartic.io.features import MATRIX_NAMES as FEATURE_NAMES
from quartic.io.features import FeatureTable, features_of, features_of_matrix, features_of_table
from quartic.io.graph_files import (
    MATRIX_NAMES,
    GraphTable,
    edge_columns,
    graph_of,
    graph_of_matrix,
    graph_of_table,
    is_symmetric,
    matrix_names,
    refuse_words,
)
from quartic.io.source import Source, source_of
from quartic.io.tables import CLEAR_ENDS, Table, find_ends, read_table

_ASK = "say --as graph or --as features"


def read_similarity(path: str | os.PathLike[str], as_: str | None = None) -> GraphTable | FeatureTable:
    """Read what is to be clustered: a graph or features, whichever the file holds.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.
    as_ : {"graph", "features"}, optional
        Which of the two; found out when left out.

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
    with source_of(path) as source:
        if as_ == "graph":
            return graph_of(source)
        if as_ == "features":
            return features_of(source)
        return _guessed(source)


def _guessed(source: Source) -> GraphTable | FeatureTable:
    if source.kind in ("graphml", "mdjeep"):
        return graph_of(source)
    if source.kind == "table":
        return _guessed_table(read_table(source))
    return _guessed_matrix(one_matrix(source, (*MATRIX_NAMES, *FEATURE_NAMES)), source.name)


def _guessed_matrix(matrix: Any, name: str) -> GraphTable | FeatureTable:
    check_finite(matrix, name)
    n, p = matrix.shape
    if n != p:
        return features_of_matrix(matrix, name)
    if is_symmetric(matrix):
        return graph_of_matrix(matrix, name)
    raise FileFormatError(f"{name}: a square matrix of {n} × {n} that is not symmetric: a graph, or features? {_ASK}")


def _guessed_table(table: Table) -> GraphTable | FeatureTable:
    if matrix_names(table) is not None:
        return graph_of_table(table)
    header = table.header
    named = None if header is None else find_ends(header, CLEAR_ENDS)
    if named is not None and all(table.is_integer(column) or not table.is_numeric(column) for column in named):
        return graph_of_table(table)
    numeric = [table.is_numeric(column) for column in range(table.n_columns)]
    if all(numeric) and table.n_columns == len(table) > 1 and header is None:
        return _guessed_matrix(table.numbers(range(table.n_columns)), table.name)
    ends = edge_columns(table)
    if ends is None:
        refuse_words(table)
        return features_of_table(table)
    if not numeric[0] and not numeric[1]:
        return _of_names(table)
    if header is None and table.is_integer(0) and table.is_integer(1):
        return _of_integers(table, ends[2] is not None)
    return features_of_table(table)


def _of_names(table: Table) -> GraphTable | FeatureTable:
    """Two columns of words are the ends of edges if some word stands there more than once."""
    ends = table.identities([0, 1], "node")
    left, right = {i for i, _ in ends}, {j for _, j in ends}
    repeated = len(left | right) < 2 * len(ends)
    if table.n_columns == 2 and repeated:
        return graph_of_table(table)
    if table.n_columns == 3 and left & right:
        return graph_of_table(table)
    if table.n_columns == 2:
        raise FileFormatError.at(
            table.name,
            table.numbers_of_lines[0],
            "two columns of words, none of which comes again: no graph, and no numbers",
        )
    raise _both(table, "two columns of words that have none in common, and one of numbers")


def _of_integers(table: Table, weighted: bool) -> GraphTable | FeatureTable:
    """Two columns of whole numbers are the ends of edges if they look like it: each pair once, nothing with itself."""
    pairs = table.numbers([0, 1])
    once = len(np.unique(pairs, axis=0)) == len(pairs)
    apart = bool((pairs[:, 0] != pairs[:, 1]).all())
    seen = np.unique(pairs)
    gapless = bool(seen[0] in (0, 1) and seen[-1] - seen[0] == len(seen) - 1)
    if once and apart and (gapless or not weighted):
        return graph_of_table(table)
    raise _both(table, "the first two columns are whole numbers: the ends of edges, or features?")


def _both(table: Table, why: str) -> FileFormatError:
    return FileFormatError.at(table.name, table.numbers_of_lines[0], f"{why} {_ASK}")
