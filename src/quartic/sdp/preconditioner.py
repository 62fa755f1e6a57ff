"""A preconditioner for constraints under a penalty: the part of the Hessian in which each row meets itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from quartic.compiled.flags import FLAGS, njit
from quartic.compiled.rows import solve_factored
from quartic.sdp.spheres import Spheres


class Slots:
    """Which constraints each row x_i takes part in: there the gradient of the k-th is g_ki = Σ_j a_ij x_j, a slot.

    The penalty ½σ‖𝒜 − b‖² has a Hessian of about σ Σ_k g_ki g_kiᵀ in the row x_i, stiff along a few directions and zero
    across them: a number for each row cannot tell the two, and the larger the penalty the more steps it takes.
    """

    def __init__(self, data: Spheres) -> None:
        problem = data.problem
        S = sparse.coo_array(data.S[:, : data.n_pairs])
        k, p = S.coords
        i, j = problem.i[p], problem.j[p]
        off = i != j
        constraint = np.r_[k, k[off]]
        row, other = np.r_[i, j[off]], np.r_[j, i[off]]
        value = np.r_[np.where(off, S.data, 2 * S.data), S.data[off]]
        keys, slot = np.unique(row * max(len(data.b), 1) + constraint, return_inverse=True)
        self.gradients = sparse.csr_array((value, (slot, other)), shape=(len(keys), problem.n_rows))
        self.start = np.searchsorted(keys // max(len(data.b), 1), np.arange(problem.n_rows + 1))


class Blocks:
    """The inverse of d_i I + σ Σ_k g_ki g_kiᵀ for every row i, on the directions along the spheres."""

    def __init__(self, data: Spheres, slots: Slots, X: Any, shift: Any, sigma: float) -> None:
        self.data, self.start, self.shift, self.sigma = data, slots.start, shift, sigma
        self.G = slots.gradients @ X
        sizes = np.minimum(np.diff(slots.start), X.shape[1])
        self.at = np.r_[0, np.cumsum(sizes**2)]
        self.L = np.empty(int(self.at[-1]))
        _factor(self.start, self.G, shift, sigma, self.at, self.L)
        self.normal = self._solve(X)
        self.squares = data.by_sphere(X, self.normal)
        self.squares[self.squares == 0] = 1.0
        self.X = X

    def solve(self, R: Any) -> Any:
        """Return the preconditioned R, along the spheres."""
        Z = self._solve(R)
        Z -= self.data.to_rows(self.data.by_sphere(self.X, Z) / self.squares) * self.normal
        return Z

    def _solve(self, R: Any) -> Any:
        Z = np.empty_like(R)
        _solve(self.start, self.G, self.shift, self.sigma, self.at, self.L, R, Z)
        return Z


@njit(**FLAGS)
def _factor(start: Any, G: Any, shift: Any, sigma: float, at: Any, L: Any) -> None:
    """Factorise I·d/σ + GGᵀ, or I·d + σGᵀG where that is smaller, for every row."""
    r = G.shape[1]
    for i in range(len(start) - 1):
        g = G[start[i] : start[i + 1]]
        q = len(g)
        n = min(q, r)
        M = L[at[i] : at[i + 1]].reshape((n, n))
        for a in range(n):
            for b in range(a + 1):
                total = 0.0
                if q <= r:
                    for k in range(r):
                        total += g[a, k] * g[b, k]
                else:
                    for k in range(q):
                        total += sigma * g[k, a] * g[k, b]
                if a == b:
                    total += shift[i] / sigma if q <= r else shift[i]
                M[a, b] = total
        for b in range(n):
            for a in range(b, n):
                total = M[a, b]
                for k in range(b):
                    total -= M[a, k] * M[b, k]
                M[a, b] = np.sqrt(max(total, 1e-300)) if a == b else total / M[b, b]


@njit(**FLAGS)
def _solve(start: Any, G: Any, shift: Any, sigma: float, at: Any, L: Any, R: Any, Z: Any) -> None:
    """Set every row of Z to its block's inverse times that of R; by Woodbury's formula where that is smaller."""
    r = G.shape[1]
    w = np.empty(r)
    for i in range(len(start) - 1):
        g, x, z = G[start[i] : start[i + 1]], R[i], Z[i]
        q = len(g)
        n = min(q, r)
        M = L[at[i] : at[i + 1]].reshape((n, n))
        if q <= r:
            for a in range(q):
                total = 0.0
                for k in range(r):
                    total += g[a, k] * x[k]
                w[a] = total
        else:
            for k in range(r):
                w[k] = x[k]
        solve_factored(M, n, w)
        if q <= r:
            for k in range(r):
                z[k] = x[k]
            for a in range(q):
                for k in range(r):
                    z[k] -= g[a, k] * w[a]
            for k in range(r):
                z[k] /= shift[i]
        else:
            for k in range(r):
                z[k] = w[k]
