"""Similarity graphs of dense features on a torch device: blocked brute force, the best of a row kept tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from quartic.arrays.space_torch import finite_matrix
from quartic.graphs.neighbors import SIGMA_NEIGHBOR
from quartic.losses.factor.torch_matrix import csr

# Numbers in a tile of rows against columns: half a gigabyte of float32.
_TILE = 1 << 27
_COLUMNS = 1 << 16

Tile = Callable[[slice, slice], Any]


def torch_similarity(X: Any, kind: str, kept: Callable[[int], int], normalize: bool) -> Any:
    """Return the graph of `quartic.graphs.similarity` as a CSR tensor, on the device and in the type of X.

    Of equal weights at the edge of what a row keeps, any may stay.
    """
    if X.layout != torch.strided:
        raise TypeError(f"features on a device must be dense, got a tensor of layout {X.layout}; pass X.to_dense()")
    X = finite_matrix(X, "X")
    if 0 in X.shape:
        raise ValueError(f"X has no rows or no columns (shape {tuple(X.shape)}); a graph needs a point and a feature")
    k = kept(len(X))
    rows, columns, weights = _cosine(X, k) if kind == "cosine" else _self_tuning(X, k)
    return _graph(rows, columns, weights, len(X), normalize)


def _cosine(X: Any, k: int) -> tuple[Any, Any, Any]:
    largest = X.abs().amax(dim=1, keepdim=True)
    X = torch.where(largest > 0, X / torch.where(largest > 0, largest, 1.0), 0.0)  # squares are then in range
    size = X.norm(dim=1, keepdim=True)
    U = torch.where(size > 0, X / torch.where(size > 0, size, 1.0), 0.0)
    values, columns = _largest(lambda i, j: U[i] @ U[j].T, U, k)
    rows = torch.arange(len(X), device=X.device)[:, None].expand_as(columns)
    found = values > 0
    values = torch.where(rows == columns, 1.0, values.clamp(max=1.0))
    return rows[found], columns[found], values[found]


def _self_tuning(X: Any, k: int) -> tuple[Any, Any, Any]:
    scale = X.abs().max()
    X = (X - X.mean(dim=0)) / torch.where(scale > 0, scale, 1.0)  # shorter rows lose fewer digits
    squares = X.square().sum(dim=1)

    def distances(i: slice, j: slice) -> Any:
        return (squares[i, None] + squares[None, j] - 2 * (X[i] @ X[j].T)).clamp_(min=0)

    _, columns = _largest(lambda i, j: -distances(i, j), X, min(SIGMA_NEIGHBOR, len(X)))
    sigma = _exact(X, columns).amax(dim=1)  # squared
    if bool((sigma == 0).any()):
        sigma = _apart(X, sigma, distances)
    root = sigma.sqrt()
    _, columns = _largest(lambda i, j: -distances(i, j) / root[None, j], X, k)
    d = _exact(X, columns)
    rows = torch.arange(len(X), device=X.device)[:, None].expand_as(columns)
    weights = torch.exp(-d / (sigma[rows] * sigma[columns]).sqrt())
    return rows.reshape(-1), columns.reshape(-1), weights.reshape(-1)


def _apart(X: Any, sigma: Any, distances: Tile) -> Any:
    """Return σ² with zeros, of points that have six copies or more, replaced by the least distance to another place."""
    sigma = sigma.clone()
    tiny = 64 * torch.finfo(X.dtype).eps * X.square().sum(dim=1).max()
    for at in (sigma == 0).nonzero()[:, 0].tolist():
        d = (X - X[at]).square().sum(dim=1)
        other = d[d > tiny]
        sigma[at] = other.min() if len(other) else 1.0
    return sigma


def _exact(X: Any, columns: Any) -> Any:
    """Return the squared distances of each row to its columns, from differences."""
    step = max(1, _TILE // (columns.shape[1] * X.shape[1]))
    parts = [(X[at : at + step, None, :] - X[columns[at : at + step]]).square().sum(2) for at in range(0, len(X), step)]
    return torch.cat(parts)


def _largest(tile: Tile, X: Any, k: int) -> tuple[Any, Any]:
    """Return the k largest numbers of each row of a matrix known by its tiles, and their columns."""
    n = len(X)
    width = min(n, max(_COLUMNS, k))
    height = max(1, _TILE // width)
    values, columns = [], []
    for first in range(0, n, height):
        rows = slice(first, min(first + height, n))
        best, place = None, None
        for origin in range(0, n, width):
            found, at = tile(rows, slice(origin, min(origin + width, n))).topk(min(k, min(width, n - origin)), dim=1)
            at = at + origin
            if best is not None:
                found, at = torch.cat([best, found], dim=1), torch.cat([place, at], dim=1)
                found, order = found.topk(min(k, found.shape[1]), dim=1)
                at = at.gather(1, order)
            best, place = found, at
        values.append(best)
        columns.append(place)
    return torch.cat(values), torch.cat(columns)


def _graph(rows: Any, columns: Any, weights: Any, n: int, normalize: bool) -> Any:
    """Return the union of the edges kept by either end, each with the larger weight."""
    keys, place = torch.unique(torch.cat([rows * n + columns, columns * n + rows]), return_inverse=True)
    values = torch.zeros(len(keys), dtype=weights.dtype, device=weights.device)
    values = values.scatter_reduce(0, place, torch.cat([weights, weights]), "amax")
    keys, values = keys[values > 0], values[values > 0]
    i, j = keys // n, keys % n
    start = torch.zeros(n + 1, dtype=torch.int64, device=values.device)
    start[1:] = torch.bincount(i, minlength=n).cumsum(0)
    if normalize:
        degree = torch.zeros(n, dtype=torch.float64, device=values.device).index_add_(0, i, values.double())
        scale = torch.where(degree > 0, degree.rsqrt(), 0.0)
        values = (values * (scale[i] * scale[j])).to(values.dtype)
    return csr(start, j, values, n)
