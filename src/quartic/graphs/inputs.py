"""Graphs and frames as people have them, made ready for scikit-learn's checks."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import first_not_finite
from quartic.graphs import as_adjacency
from quartic.graphs.adjacency import in_index_order, refuse_edge_list


def is_graph(X: Any) -> bool:
    """Tell whether X is a networkx graph."""
    networkx = sys.modules.get("networkx")  # a graph of networkx cannot exist before its module does
    return networkx is not None and isinstance(X, networkx.Graph)


def is_frame(X: Any) -> bool:
    """Tell whether X is a pandas frame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def matrix_of(X: Any) -> Any:
    """Return the adjacency matrix of a graph; a frame with its columns in the order of its index; all else as it is.

    A frame that is an edge list is refused with the cure.
    """
    if is_graph(X):
        return as_adjacency(X)
    if is_frame(X):
        X = in_index_order(X)
        refuse_edge_list(X)
    return X


def refuse_words(X: Any) -> None:
    """Raise where a frame of features has a column of text, and name it."""
    if is_frame(X):
        from pandas.api.types import infer_dtype

        for k, name in enumerate(X.columns):
            if infer_dtype(X.iloc[:, k], skipna=True) == "string":
                raise ValueError(f"column {name!r} of X holds text; leave it out, or make numbers of it")


def refuse_not_finite(given: Any, clean: Any, name: str, cure: str, *, nan: bool = False) -> None:
    """Raise where the matrix made of what the user gave holds NaN (unless allowed) or infinity.

    scikit-learn's own words for it name no row. Those of a frame are named as the frame names them.
    """
    fault = first_not_finite(clean, nan=nan)
    if fault is None:
        return
    row, column, value = fault
    place = f"{name}[{row}, {column}]"
    if is_frame(given):
        place += f" (row {given.index[row]!r}, column {given.columns[column]!r})"
    # spelled as scikit-learn spells it: its checks of estimators look for the word
    shown = "NaN" if math.isnan(value) else f"{value:g}"
    raise ValueError(f"{name} must be finite, but {place} is {shown}; {cure.format(row=row)}")


def names_of(X: Any, n: int) -> NDArray[Any]:
    """Return the nodes of a graph, the index of a frame, or 0 … n − 1."""
    if is_graph(X):
        return _objects(X.nodes, n)
    return np.asarray(X.index) if is_frame(X) else np.arange(n)


def _objects(names: Iterable[Any], n: int) -> NDArray[Any]:
    array = np.empty(n, dtype=object)  # filled one by one: nodes may be tuples, which are no axis
    for at, name in enumerate(names):
        array[at] = name
    return array
