"""Graphs: edge lists, adjacency matrices, and the formats that networkx reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from quartic.io.arrays import check_finite
from quartic.io.files import (
    GRAPHS,
    FileFormatError,
    Source,
    count,
    damage_named,
    read_bytes,
    read_lines,
    read_text,
    source_of,
)
from quartic.io.names import ALL_NAMES, CLEAR_ENDS, DISTANCE, ENDS, TIMES, WEIGHT, find_column, find_ends, plain
from quartic.io.sheets import INSTALL, read_table_or_matrix
from quartic.io.tables import Table

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


def read_graph(
    path: str | os.PathLike[str], *, columns: Sequence[str] | None = None, repeats: str | None = None
) -> GraphTable:
    """Read a graph: an edge list or matrix (.csv .xlsx .parquet .json), .mtx .npz .npy .mat, .graphml .gexf .gml .net.

    An edge list has two columns of nodes, by name or number, and maybe one of weights.

    Parameters
    ----------
    path : str or Path
        The file; ``-`` is standard input.
    columns : sequence of str, optional
        Of an edge list: names (or numbers, counted from 1) of the columns of the two ends, and maybe of the weight;
        detected when left out.
    repeats : {"sum", "mean", "last"}, optional
        What becomes of an edge that stands there several times, in either direction, with different weights; an error
        when left out.

    Returns
    -------
    GraphTable
        The symmetric adjacency matrix and the names of the nodes.

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
    check_repeats(repeats, "sum", "mean", "last")
    with source_of(path) as source:
        return graph_of(source, columns, repeats)


def check_repeats(repeats: str | None, *known: str) -> None:
    """Raise where it is not known what is to become of repeated pairs."""
    if repeats not in (None, *known):
        raise ValueError(f"--repeats {repeats}: choose {', '.join(known[:-1])} or {known[-1]}")


def graph_of(source: Source, columns: Sequence[str] | None, repeats: str | None) -> GraphTable:
    """Return the graph in a source."""
    if source.kind in GRAPHS:
        return _read_by_networkx(source, repeats)
    found = read_table_or_matrix(source, MATRIX_NAMES, "graph")
    return graph_of_table(found, columns, repeats) if isinstance(found, Table) else graph_of_matrix(found, source.name)


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
    if is_one_sided(A):
        A = sp.csr_array(A + A.T - sp.diags_array(A.diagonal()))
    elif not is_symmetric(A):
        i, j = divmod(int(abs(A - A.T).argmax()), n)
        a, b = (i, j) if names is None else (names[i], names[j])
        fault = f"the entry ({a}, {b}) is {A[i, j]:g} but ({b}, {a}) is {A[j, i]:g}; make the matrix symmetric"
        raise FileFormatError(f"{name}: not an undirected graph: {fault}")
    else:
        A = sp.csr_array((A + A.T) / 2)
    A.sort_indices()
    given = names or tuple(map(str, range(n)))
    return _make_graph(A, given, f"(a {n} × {n} matrix{', named by its header' if names else ''})")


def graph_of_table(table: Table, given: Sequence[str] | None, repeats: str | None) -> GraphTable:
    """Return the graph in a table: an edge list, or a matrix with or without names."""
    if given is None and (labelled := named_matrix(table)) is not None:
        names, A = labelled
        filled = ~np.isnan(A) & ~np.eye(len(A), dtype=bool)
        blank = [half(np.ones_like(filled)) for half in (np.tril, np.triu) if not half(filled).any()]  # one is enough
        # names the line where an entry is missing
        table.numbers(range(table.n_columns - len(table), table.n_columns), missing=blank[0] if blank else False)
        return graph_of_matrix(np.nan_to_num(A), table.name, names)
    roles = _find_edge_columns(table, given)
    if roles is None and table.header is None and table.n_columns == len(table) > 3:
        return graph_of_matrix(table.numbers(range(table.n_columns)), table.name)
    if roles is None:
        refuse_words(table)
        known = "" if table.header is None else f"; the columns are {', '.join(table.header)}"
        raise table.fault(-1, f"an edge list has columns source,target[,weight]{known}; choose by --columns")
    return _edge_list(table, *roles, repeats)


def _find_edge_columns(table: Table, given: Sequence[str] | None) -> tuple[int, int, int | None] | None:
    """Return the columns of the two ends and of the weight: as told, by their names, or by what is in them."""
    if given is not None:
        if len(given) not in (2, 3):
            raise ValueError(f"--columns {','.join(given)}: name the two ends, and maybe the weight")
        found = table.find(given)
        return found[0], found[1], found[2] if len(found) == 3 else None
    ends = None if table.header is None else find_ends(table.header)
    if ends is None:
        if table.n_columns == 2:
            return 0, 1, None
        if table.n_columns == 3 and table.is_numeric(2):
            return 0, 1, _find_weight_column(table, (0, 1))
        words = [column for column in range(table.n_columns) if not table.is_numeric(column)]
        if len(words) < 2 or len(words) == table.n_columns:
            return None
        ends = words[0], words[1]
    return *ends, _find_weight_column(table, ends)


def _find_weight_column(table: Table, ends: tuple[int, int]) -> int | None:
    """Return the column of the weights: called so, or the only one with numbers.

    Raise where several could be, or where they seem to be distances, which say the opposite.
    """
    header = table.header or tuple(str(k + 1) for k in range(table.n_columns))
    named = find_column(header, WEIGHT)
    if named is not None and named not in ends:
        return named
    others = [k for k in range(table.n_columns) if k not in ends and table.is_numeric(k)]
    others = [k for k in others if not table.counts_rows(k)]
    for name in (header[k] for k in others):
        if plain(name) in DISTANCE or re.search("distan|abstand|entfernung", plain(name)):
            fault = f"column {name!r} seems to hold distances, a graph has similarities"
            raise table.fault(-1, f"{fault}; rename it to weight if it does, or use quartic locate")
    if len(others) > 1:
        two = ",".join(header[k] for k in ends)
        called, cure = ", ".join(map(table.title, others)), f"say --columns {two},{header[others[0]]}"
        raise table.fault(-1, f"which is the weight: {called}? {cure}, or --columns {two} for none")
    return others[0] if others and plain(header[others[0]]) not in TIMES else None


def refuse_words(table: Table) -> None:
    """Raise where a table has only words: numbers with a sign, or, in three columns, edges and their kinds."""
    every = range(table.n_columns)
    if any(map(table.is_numeric, every)):
        return
    for column in every:
        if number := table.disguised(column):
            raise table.fault(0, f"{number!r} in {table.title(column)} is text; write plain numbers")
    if len(every) < 3:
        return
    shown = ", ".join(repr(cell[:40]) for cell in table.sample[0][:4])
    fault = f"{shown}: all columns are words. An edge list has two columns of nodes, and weights, if any, are numbers; "
    raise table.fault(0, fault + "take the other columns out, or name the two in a first line, as source,target,kind")


def negative_weights(table: GraphTable) -> str | None:
    """Return how many edges have negative weights and which is the first, in words; None where none has."""
    upper = sp.triu(table.adjacency, format="coo")
    below = upper.data < 0
    n_below = int(np.count_nonzero(below))
    if n_below == 0:
        return None
    at = int(np.argmax(below))
    i, j = (table.names[int(ends[at])] for ends in (upper.row, upper.col))
    verb = "has a negative weight" if n_below == 1 else "have negative weights"
    return f"{n_below} of {upper.nnz} edges {verb}, the first {upper.data[at]:g} between {i} and {j}"


def seem_distances(A: sp.csr_array) -> bool:
    """Tell whether all pairs have weights, unlike each other, that keep the triangle inequality, as few graphs have."""
    n = A.shape[0]
    if not 4 <= n <= 1000 or A.nnz != n * (n - 1) or A.diagonal().any() or A.data.max() <= 2 * A.data.min():
        return False
    D = A.toarray()
    return all(((D[k] + D[k, :, None]) * (1 + 1e-9) >= D).all() for k in range(0, n, max(1, n // 50)))


def named_matrix(table: Table) -> tuple[tuple[str, ...], NDArray[np.float64]] | None:
    """Return names and entries, NaN where blank, of a square matrix named in its first row, and maybe column."""
    beside = table.n_columns - len(table)
    if table.header is None or beside not in (0, 1) or len(set(table.header)) < table.n_columns or len(table) < 2:
        return None
    names = table.header[beside:]
    columns = range(beside, table.n_columns)
    if not all(table.is_numeric(column) for column in columns):
        return None
    if not beside and {*map(plain, names)} <= ALL_NAMES and find_ends(names, CLEAR_ENDS) is not None:
        return None  # two columns of numbered nodes, and as many edges
    rows = tuple(table.words(0)) if beside else names
    if rows != names and rows in [tuple(str(first + k) for k in range(len(names))) for first in (0, 1)]:
        beside = 0  # they are only counted
    elif rows != names:
        if sorted(rows) == sorted(names):
            at = next(k for k in range(len(rows)) if rows[k] != names[k])
            raise table.fault(at, f"row {rows[at]!r} stands where column {names[at]!r} does; sort both alike")
        return None
    A = table.numbers(columns, missing=True, infinite=True)
    return (names, A) if beside or np.array_equal(A, A.T, equal_nan=True) else None


def is_one_sided(A: Any) -> bool:
    """Tell whether a square matrix has entries on one side of its diagonal only."""
    A = sp.csr_array(A, dtype=np.float64)
    return bool(sp.tril(A, -1).count_nonzero() > 0) != bool(sp.triu(A, 1).count_nonzero() > 0)


def is_symmetric(A: Any) -> bool:
    """Tell whether a square matrix equals its transpose, up to rounding."""
    A = A.astype(np.float64)  # truth values have no difference, and that of bytes wraps around
    gap = abs(A - A.T)
    return bool(gap.max() <= 1e-8 * abs(A).max())


def _make_graph(A: sp.csr_array, names: tuple[str, ...], how: str) -> GraphTable:
    """Return the graph, with what there is to say about it."""
    n_edges = int((A.nnz + np.count_nonzero(A.diagonal())) // 2)
    return GraphTable(A, names, f"graph: {len(names)} nodes, {count(n_edges, 'edge')} {how}")


def _edge_list(table: Table, first: int, second: int, weight: int | None, repeats: str | None) -> GraphTable:
    left = [column for column in range(table.n_columns) if column not in (first, second, weight)]
    pairs, names = table.identities([first, second], "node")
    _refuse_header(table, pairs, names)
    weights = np.ones(len(pairs)) if weight is None else table.numbers([weight])[:, 0]
    ordered = np.sort(pairs, axis=1)
    weights, kept, clash = merge_repeats(ordered, weights, len(names), repeats)
    if clash is not None:
        a, b = clash
        i, j = (names[k] for k in ordered[b])
        fault = f"the edge between {i} and {j} has weight {weights[b]:g}, but {weights[a]:g} in {table.place(a)}"
        raise table.fault(b, f"{fault}; keep one of them, or say --repeats sum, mean or last")
    A = _symmetric_matrix(ordered[kept], weights[kept], len(names))
    if A.nnz == 0:
        raise table.fault(0, "all weights are 0: a graph without an edge")
    said = f"({table.layout}; ends in {table.title(first)} and {table.title(second)}"
    said += ", no weights)" if weight is None else f", weights in {table.title(weight)})"
    if len(kept) < len(pairs):
        said += f"; {count(len(pairs) - len(kept), 'repeated edge')}: {repeats or 'once (--repeats sum adds them up)'}"
    if not weights[kept].all():
        said += f"; {count(int((weights[kept] == 0).sum()), 'edge')} of weight 0 left out"
    if left:
        said += f"; left out: {', '.join(table.title(column) for column in left)}"
    return _make_graph(A, names, said)


def _refuse_header(table: Table, pairs: NDArray[np.int64], names: tuple[str, ...]) -> None:
    """Raise where the first row may be names of columns that we do not know: both its words occur nowhere else.

    As an edge it would be a component of its own, in a list so short that it may be anything, or whose other nodes have
    several edges as a rule. Of numbered nodes it may say how many nodes and edges follow.
    """
    if table.header is not None or len(pairs) < 2:
        return
    if names[0].isdigit():
        a, b = (names[k] for k in pairs[0])
        below, n_edges = pairs[1:], str(len(pairs) - 1)
        n_nodes = str(len(np.unique(below))), names[int(below.max())]  # those with edges, or numbered from 1
        if len(below) > 2 and n_edges in (a, b) and (b if a == n_edges else a) in n_nodes:
            fault = f"{a} and {b} are how many nodes and edges follow: take the line out, or put an edge last"
            raise table.fault(0, fault)
        return
    times = np.bincount(pairs.ravel(), minlength=len(names))
    alone = pairs[0, 0] != pairs[0, 1] and (times[pairs[0]] == 1).all()
    if alone and (len(pairs) < 5 or np.median(times[2:]) > 1):
        fault = f"{names[0]!r} and {names[1]!r} are in no other row: names of columns, or an edge? "
        raise table.fault(0, fault + "call the columns source,target, or add a first line that does")


def _symmetric_matrix(pairs: NDArray[np.int64], w: NDArray[np.float64], n: int) -> sp.csr_array:
    i, j = pairs.T
    off = i != j
    rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
    A = sp.csr_array((np.concatenate([w, w[off]]), (rows, columns)), shape=(n, n))
    A.eliminate_zeros()
    A.sort_indices()
    return A


def merge_repeats(
    pairs: NDArray[np.int64], values: NDArray[np.float64], n: int, how: str | None
) -> tuple[NDArray[np.float64], NDArray[np.intp], tuple[int, int] | None]:
    """Return values with those of repeated pairs made one, the row that stands for each pair, and the first clash.

    Pairs are in order, i ≤ j. ``how``: sum, mean or last; None keeps the first, and different values are a clash.
    """
    key = pairs[:, 0] * n + pairs[:, 1]
    rising = np.sort(key)
    if (rising[1:] != rising[:-1]).all():
        return values, np.arange(len(key)), None
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if how is None:
        given = values[first][group]
        same = (values == given) | (np.isnan(values) & np.isnan(given))
        differs = ~(same | (np.abs(values - given) <= 1e-9 * np.maximum(np.abs(values), np.abs(given))))
        at = int(np.argmax(differs))
        return values, np.sort(first), (int(first[group[at]]), at) if differs.any() else None
    if how == "last":
        return values, np.sort(len(key) - 1 - np.unique(key[::-1], return_index=True)[1]), None
    total: NDArray[np.float64] = np.bincount(group, weights=values).astype(np.float64)
    if how == "mean":
        total /= np.bincount(group)
    return total[group], np.sort(first), None


# -- what networkx reads ----------------------------------------------------------------------------------------------


def _read_by_networkx(source: Source, repeats: str | None) -> GraphTable:
    """Return the graph of a GraphML, GEXF, GML, Pajek or JSON file."""
    what = {"graphml": "GraphML", "gexf": "GEXF", "gml": "GML", "pajek": "Pajek", "json graph": "JSON"}[source.kind]
    needed = ["networkx", *(["defusedxml"] if source.kind in ("graphml", "gexf") else [])]
    for package in needed:
        if find_spec(package) is None:
            raise FileFormatError(f"{source.name}: {what} needs {package}: {INSTALL}, or save an edge list as CSV")
    import networkx

    with damage_named(source.name, f"not a {what} file"), catch_warnings():
        simplefilter("ignore")  # of keys that are not declared, which are then text
        graph = _parse(source, networkx)
        edges = list(graph.edges(data=True))
    if not edges:
        raise FileFormatError(f"{source.name}: a graph without an edge")
    index = {node: at for at, node in enumerate(graph.nodes)}
    pairs = np.array([(index[a], index[b]) for a, b, _ in edges], dtype=np.int64)
    told = dict.fromkeys(str(key) for _, _, facts in edges for key in facts)
    words = {key for _, _, facts in edges for key, fact in facts.items() if isinstance(fact, str) and key != "weight"}
    keys = sorted(
        (key for key in told if plain(key) in WEIGHT and key not in words), key=lambda key: WEIGHT.index(plain(key))
    )
    with damage_named(source.name, "an edge's weight is not a number"):
        weights = np.array([float(next((facts[k] for k in keys if k in facts), 1.0)) for _, _, facts in edges])
    there, back = (sp.csr_array((weights, ends), shape=(len(index),) * 2) for ends in (pairs.T, pairs[:, ::-1].T))
    if graph.is_directed() and (there != back).nnz == 0:  # each edge stands there in both directions
        forth = pairs[:, 0] <= pairs[:, 1]
        pairs, weights = pairs[forth], weights[forth]
    pairs = np.sort(pairs, axis=1)
    weights, kept, _ = merge_repeats(pairs, weights, len(index), repeats or "sum")
    A = _symmetric_matrix(pairs[kept], weights[kept], len(index))
    check_finite(A, source.name)
    if A.nnz == 0:
        raise FileFormatError(f"{source.name}: all weights are 0: a graph without an edge")
    labels = [graph.nodes[node].get("label", node) for node in graph.nodes]
    names = tuple(map(str, labels if len(set(map(str, labels))) == len(labels) else graph.nodes))
    said = f", weights in {', '.join(keys)}" if keys else ", no weights"
    if left := [key for key in told if key not in (*keys, "id", "label")]:
        said += f", left out: {', '.join(left[:8])}"
    said += ", directions dropped" if graph.is_directed() else ""
    if len(kept) < len(pairs):
        said += f", {count(len(pairs) - len(kept), 'repeated edge')}: {repeats or 'sum'}"
    return _make_graph(A, names, f"({what}{said})")


def _parse(source: Source, networkx: Any) -> Any:
    if source.kind == "gml":
        text = "\n".join(read_lines(source.path, source.name))
        if re.search(r"^\s*multigraph\b", text, re.MULTILINE) is None:  # many files do not say it, and are one
            text = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1", text, count=1)
        return networkx.parse_gml(text, label="id")
    if source.kind == "pajek":
        return networkx.parse_pajek(read_lines(source.path, source.name))
    if source.kind == "json graph":
        return _parse_json(json.loads(read_text(source.path, source.name)[0]), networkx)
    import defusedxml.ElementTree

    content = read_bytes(source.path, source.name)
    # no document type, no entities: those of a few lines can unfold to gigabytes, or name other files
    defusedxml.ElementTree.fromstring(content, forbid_dtd=True)
    read = networkx.read_graphml if source.kind == "graphml" else networkx.read_gexf
    return read(BytesIO(content))


def _parse_json(found: dict[str, Any], networkx: Any) -> Any:
    """Return the graph that JSON describes by nodes and links, by neighbours, or as Cytoscape has it."""
    if "elements" in found:
        return networkx.cytoscape_graph({"data": [], "directed": False, "multigraph": False, **found})
    if "adjacency" in found:
        return networkx.adjacency_graph(found)
    links = next((key for key in ("links", "edges") if key in found), None)
    if links is None:
        raise ValueError("neither links nor edges in it")
    graph = networkx.MultiDiGraph() if found.get("directed") else networkx.MultiGraph()
    for at, node in enumerate(found.get("nodes", ())):
        told = node if isinstance(node, dict) else {"id": node}
        name = told.get("id", at)  # links may count the nodes
        graph.add_node(name, label=told.get("label", told.get("name", name)))
    for link in found[links]:
        ends = next((ends for ends in ENDS if set(ends) <= link.keys()), None)
        if ends is None:
            raise ValueError(f"a link names no source and target: {link}")
        graph.add_edge(*(link[end] for end in ends), **{key: link[key] for key in link if key not in ends})
    return graph
