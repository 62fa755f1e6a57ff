"""Graphs: edge lists, adjacency matrices, GraphML."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.arrays import check_finite, one_matrix
from quartic.io.errors import FileFormatError
from quartic.io.source import Source, source_of
from quartic.io.tables import DISTANCE, WEIGHT, Table, find_column, find_ends, number_names, read_table
from quartic.io.text import read_bytes

MATRIX_NAMES = ("A", "M", "W", "adjacency", "similarity", "array")


@dataclass(frozen=True, eq=False)
class GraphTable:
    """An undirected graph with named nodes.

    Attributes
    ----------
    adjacency : csr_array (n, n)
        Symmetric weights.
    names : tuple of str
        Of the nodes.
    guess : str
        How the file was read, in words.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.io import GraphTable
    >>> GraphTable(sp.eye_array(2, format="csr"), ("a", "b")).names
    ('a', 'b')
    """

    adjacency: Any = field(repr=False)
    names: tuple[str, ...]
    guess: str = ""


def read_graph(path: str | os.PathLike[str]) -> GraphTable:
    """Read a graph: an edge list or matrix in a table of text, .mtx, .npz, .npy, .mat, or GraphML.

    An edge list has two columns of nodes, by name or number, and maybe one of weights. An edge may stand there twice,
    in either direction, if its weights agree.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.

    Returns
    -------
    GraphTable
        The symmetric adjacency matrix and the names of the nodes.

    Raises
    ------
    FileFormatError
        With the line at fault.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_graph
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "friends.csv"
    >>> _ = file.write_text("source,target,weight\\nann,bob,2\\nbob,cid,1\\n")
    >>> friends = read_graph(file)
    >>> friends.names, friends.adjacency.nnz
    (('ann', 'bob', 'cid'), 4)
    """
    with source_of(path) as source:
        return graph_of(source)


def graph_of(source: Source) -> GraphTable:
    """Return the graph in a source."""
    if source.kind == "mdjeep":
        raise FileFormatError(f"{source.name}: this kind of file holds distances; use quartic locate")
    if source.kind == "graphml":
        return _graphml(source)
    if source.kind == "table":
        return graph_of_table(read_table(source))
    return graph_of_matrix(one_matrix(source, MATRIX_NAMES), source.name)


def graph_of_matrix(matrix: Any, name: str, names: tuple[str, ...] | None = None) -> GraphTable:
    """Return a square matrix as a graph; one triangle of it is enough."""
    check_finite(matrix, name)
    n, columns = matrix.shape
    if n != columns:
        raise FileFormatError(f"{name}: a graph is a square matrix, this one is {n} × {columns}; say --as features")
    A = sp.csr_array(matrix, dtype=np.float64, copy=True)
    A.sum_duplicates()
    A.eliminate_zeros()
    if A.nnz == 0:
        raise FileFormatError(f"{name}: the matrix is zero, a graph without an edge")
    if _is_triangle(A):
        A = sp.csr_array(A + A.T - sp.diags_array(A.diagonal()))
    elif not is_symmetric(A):
        gap = sp.coo_array(abs(A - A.T))
        at = int(np.argmax(gap.data))
        i, j = int(gap.row[at]), int(gap.col[at])
        raise FileFormatError(
            f"{name}: not an undirected graph: the entry ({i}, {j}) is {A[i, j]:g} but ({j}, {i}) is {A[j, i]:g}; "
            "make the matrix symmetric"
        )
    else:
        A = sp.csr_array((A + A.T) / 2)
    A.sort_indices()
    given = names or tuple(map(str, range(n)))
    return _graph(A, given, f"(a {n} × {n} matrix)")


def graph_of_table(table: Table) -> GraphTable:
    """Return the graph in a table: an edge list, or a matrix with or without names."""
    labelled = matrix_names(table)
    if labelled is not None:
        return graph_of_matrix(table.numbers(range(1, table.n_columns)), table.name, labelled)
    ends = edge_columns(table)
    if ends is None and table.n_columns == len(table) > 3:
        return graph_of_matrix(table.numbers(range(table.n_columns)), table.name)
    if ends is None:
        refuse_words(table)
        known = "" if table.header is None else f"; the columns are {', '.join(table.header)}"
        raise FileFormatError.at(
            table.name, table.numbers_of_lines[0], f"an edge list has columns source,target[,weight]{known}"
        )
    return _edge_list(table, *ends)


def edge_columns(table: Table) -> tuple[int, int, int | None] | None:
    """Return the columns of the two ends and of the weight: by their names, or the first two or three."""
    if table.header is not None:
        ends = find_ends(table.header)
        if ends is not None:
            weight = find_column(table.header, WEIGHT)
            return *ends, _third(table, ends) if weight is None else weight
    if table.n_columns == 2:
        return 0, 1, None
    if table.n_columns == 3 and table.is_numeric(2):
        return 0, 1, 2
    return None


def refuse_words(table: Table) -> None:
    """Raise where a table of three columns or more has only words, which may be an edge list with kinds of edges."""
    if table.n_columns < 3 or any(table.is_numeric(column) for column in range(table.n_columns)):
        return
    cells = next(table.rows())
    shown = ", ".join(repr(cell[:40]) for cell in cells[:4]) + (", …" if len(cells) > 4 else "")
    raise FileFormatError.at(
        table.name,
        table.numbers_of_lines[0],
        f"{shown}: all columns are words. An edge list has two columns of nodes, and weights, if any, are numbers; "
        "take the other columns out, or add a first line that names the two, as in source,target,kind",
    )


def negative_weights(table: GraphTable) -> str | None:
    """Return how many edges have negative weights and which is the first, in words; None where none has.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from quartic.io import GraphTable
    >>> from quartic.io.graph_files import negative_weights
    >>> negative_weights(GraphTable(sp.csr_array([[0, -2.0], [-2.0, 0]]), ("a", "b")))
    '1 of 1 edges has a negative weight, the first -2 between a and b'
    """
    upper = sp.triu(table.adjacency, format="coo")
    below = upper.data < 0
    n_below = int(np.count_nonzero(below))
    if n_below == 0:
        return None
    at = int(np.argmax(below))
    i, j = (table.names[int(ends[at])] for ends in (upper.row, upper.col))
    verb = "has a negative weight" if n_below == 1 else "have negative weights"
    return f"{n_below} of {upper.nnz} edges {verb}, the first {upper.data[at]:g} between {i} and {j}"


def _third(table: Table, ends: tuple[int, int]) -> int | None:
    """Return the only column beside the ends, whatever it is called, where it has numbers that are no distances."""
    others = [column for column in range(table.n_columns) if column not in ends]
    if table.header is None or len(others) != 1 or table.header[others[0]].lower() in DISTANCE:
        return None
    return others[0] if table.is_numeric(others[0]) else None


def matrix_names(table: Table) -> tuple[str, ...] | None:
    """Return the names of a square matrix that has them in its first row and column, else None."""
    if table.header is None or table.n_columns != len(table) + 1:
        return None
    first = table.words(0)
    return tuple(first) if tuple(first) == table.header[1:] else None


def is_symmetric(A: Any) -> bool:
    """Tell whether a square matrix equals its transpose, up to rounding."""
    A = A.astype(np.float64)  # truth values have no difference, and that of bytes wraps around
    gap = abs(A - A.T)
    return bool(gap.max() <= 1e-8 * abs(A).max())


def _is_triangle(A: sp.csr_array) -> bool:
    entries = A.tocoo()
    off = entries.row != entries.col
    return bool(off.any()) and bool((entries.row <= entries.col).all() or (entries.row >= entries.col).all())


def _graph(A: sp.csr_array, names: tuple[str, ...], how: str) -> GraphTable:
    """Return the graph, with what there is to say about it."""
    n_edges = int((A.nnz + np.count_nonzero(A.diagonal())) // 2)
    return GraphTable(A, names, f"graph: {len(names)} nodes, {n_edges} edges {how}")


def _edge_list(table: Table, first: int, second: int, weight: int | None) -> GraphTable:
    left = [column for column in range(table.n_columns) if column not in (first, second, weight)]
    _refuse_distances(table, left)
    pairs, names = number_names(table.identities([first, second], "node"))
    _refuse_header(table, pairs, names)
    weights = np.ones(len(pairs)) if weight is None else table.numbers([weight])[:, 0]
    A = _symmetric_matrix(pairs, weights, len(names), names, table)
    columns = [table.title(column) for column in (first, second)]
    said = f"({table.layout()}; ends in {columns[0]} and {columns[1]}"
    said += ", no weights)" if weight is None else f", weights in {table.title(weight)})"
    if left:
        said += f"; left out: {', '.join(table.title(column) for column in left)}"
    return _graph(A, names, said)


def _refuse_header(table: Table, pairs: NDArray[np.int64], names: tuple[str, ...]) -> None:
    """Raise where the first row may be names of columns that we do not know: both its words occur nowhere else.

    As an edge it would be a component of its own, in a list whose other nodes have several edges as a rule.
    """
    if table.header is not None or len(pairs) < 5 or names[0].isdigit():
        return
    times = np.bincount(pairs.ravel(), minlength=len(names))
    alone = pairs[0, 0] != pairs[0, 1] and (times[pairs[0]] == 1).all()
    if alone and np.median(times[2:]) > 1:
        raise FileFormatError.at(
            table.name,
            table.header_line,
            f"{names[0]!r} and {names[1]!r} are in no other row: names of columns, or an edge? "
            "call the columns source,target, or add a first line that does",
        )


def _refuse_distances(table: Table, columns: list[int]) -> None:
    """Raise where the weights of a graph seem to be distances, which say the opposite."""
    called = [] if table.header is None else [table.header[column] for column in columns]
    for name in called:
        if name.lower() in DISTANCE:
            raise FileFormatError.at(
                table.name,
                table.header_line,
                f"column {name!r} seems to hold distances, a graph has similarities; rename it to weight if it does, "
                "or use quartic locate",
            )


def _symmetric_matrix(
    pairs: NDArray[np.int64], weights: NDArray[np.float64], n: int, names: tuple[str, ...], table: Table
) -> sp.csr_array:
    ordered = np.sort(pairs, axis=1)
    key = ordered[:, 0] * n + ordered[:, 1]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    one, two = order[again - 1], order[again]
    differs = np.abs(weights[one] - weights[two]) > 1e-9 * np.maximum(np.abs(weights[one]), np.abs(weights[two]))
    if differs.any():
        at = int(np.argmax(differs))
        a, b = int(one[at]), int(two[at])
        i, j = (names[k] for k in ordered[b])
        raise FileFormatError.at(
            table.name,
            table.numbers_of_lines[b],
            f"the edge between {i} and {j} has weight {weights[b]:g}, but {weights[a]:g} in line "
            f"{table.numbers_of_lines[a]}; keep one of them, or their sum",
        )
    kept = np.ones(len(key), dtype=bool)
    kept[two] = False
    i, j, w = ordered[kept, 0], ordered[kept, 1], weights[kept]
    off = i != j
    rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    A = sp.csr_array((np.concatenate([w, w[off]]), (rows, columns)), shape=(n, n))
    A.sort_indices()
    return A


def _graphml(source: Source) -> GraphTable:
    if find_spec("networkx") is None:
        raise FileFormatError(
            f"{source.name}: GraphML needs networkx: pip install networkx, or save an edge list as CSV"
        )
    import networkx

    from quartic.io.xml import check_xml

    content = read_bytes(source.path, source.name)
    check_xml(content, source.name)
    try:
        with catch_warnings():
            simplefilter("ignore")  # of keys that are not declared, which are then text
            graph = networkx.read_graphml(BytesIO(content))
        undirected = networkx.Graph(graph)
    except (networkx.NetworkXException, AttributeError, LookupError, SyntaxError, TypeError, ValueError) as error:
        raise FileFormatError(f"{source.name}: not a GraphML file ({error})") from None
    if graph.number_of_edges() == 0:
        raise FileFormatError(f"{source.name}: a graph without an edge")
    try:
        A = networkx.to_scipy_sparse_array(undirected, dtype=np.float64, weight="weight", format="csr")
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{source.name}: an edge's weight is not a number ({error})") from None
    check_finite(A, source.name)
    A.sort_indices()
    names = tuple(str(node) for node in undirected.nodes)
    said = ", directions dropped" if graph.is_directed() else ""
    return _graph(sp.csr_array(A), names, f"(GraphML{said})")
