"""The inertial method in the metric of XᵀX: by columns, whole, or with a block of its own for each row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from product_ideas.rules import Rules
from quartic.arrays import trace_inner
from quartic.compiled.rows import sweep_rows
from quartic.solvers.base import Requirements


@dataclass(frozen=True)
class InMetric(Rules):
    """X⁺ = argmin over U ≥ 0 of ⟨∇f(Y), U⟩ + ⟨(U − Y)P, U − Y⟩/(2λ).

    P is twice S + shift·tr(S)/r·I with S = YᵀY ("whole"), its diagonal ("columns"), or for row i twice S + yᵢyᵢᵀ +
    (‖yᵢ‖² − Mᵢᵢ)₊I + shift, the block of the second derivative ("rows"). But for columns the problems, one a row, are
    solved by a few sweeps over its entries; these cost no products.
    """

    name = "in-metric"
    requires = Requirements()

    metric: str = "whole"
    shift: float = 0.1
    sweeps: int = 5

    def _matrix(self, p: Any) -> Any:
        S = np.asarray(p.gram)
        S = S + self.shift * np.trace(S) / len(S) * np.eye(len(S))
        return 2 * (np.diag(np.diag(S)) if self.metric == "columns" else S)

    def _own(self, p: Any) -> Any:
        """Return what the block of each row has on its diagonal besides."""
        return 2 * np.maximum((p.X**2).sum(axis=1) - diagonal(p.loss.matrix), 0)

    def _map(self, problem: Any, p: Any, step: float) -> Any:
        P, G, Y = self._matrix(p), np.asarray(p.gradient), p.X
        if self.metric == "columns":
            return np.maximum(Y - step * G / np.diag(P), 0)
        U = np.maximum(Y, 0)
        if self.metric == "whole":
            C = Y @ P - step * G
            for _ in range(self.sweeps):
                sweep_rows(U, P, C)
        else:
            own = self._own(p)
            C = Y @ P + 2 * Y * (Y**2).sum(axis=1)[:, None] + own[:, None] * Y - step * G
            for _ in range(self.sweeps):
                sweep_blocks(U, P, Y, own, C)
        return U

    def _bound(self, problem: Any, move: Any, step: float) -> float:
        size = trace_inner(np.asarray(move.C), self._matrix(move.start))
        if self.metric == "rows":
            Y, D = move.start.X, move.D
            size += float((2 * (Y * D).sum(axis=1) ** 2 + self._own(move.start) * (D**2).sum(axis=1)).sum())
        return float(size) / (2 * step)


@cache
def diagonal(matrix: Any) -> Any:
    """Return the diagonal of M."""
    return matrix.M.diagonal()


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_blocks(X: Any, P: Any, Y: Any, own: Any, C: Any) -> None:
    """Minimise ½xᵀBx − cᵀx over each entry x_k ≥ 0 in turn, with B = P + 2yyᵀ + own·I, for each row of X."""
    n, r = X.shape
    t = np.empty(r)
    for i in range(n):
        along = 0.0
        for k in range(r):
            t[k] = C[i, k] - own[i] * X[i, k]
            along += X[i, k] * Y[i, k]
        for l in range(r):
            x = X[i, l]
            if x != 0.0:
                for k in range(r):
                    t[k] -= x * P[l, k]
        for k in range(r):
            t[k] -= 2 * along * Y[i, k]
        for k in range(r):
            diagonal = P[k, k] + 2 * Y[i, k] ** 2 + own[i]
            old = X[i, k]
            new = max(0.0, old + t[k] / diagonal)
            d = new - old
            if d != 0.0:
                X[i, k] = new
                for l in range(r):
                    t[l] -= d * (P[k, l] + 2 * Y[i, k] * Y[i, l])
                t[k] -= d * own[i]
