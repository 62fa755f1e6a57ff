"""A preconditioner for constraints under a penalty: the part of the Hessian in which each row meets itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from quartic.compiled.flags import FLAGS, njit
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
        self.data, self.X, self.start, self.shift = data, X, slots.start, shift
        self.G = np.ascontiguousarray(slots.gradients @ X, np.float64)
        sizes = np.minimum(np.diff(slots.start), X.shape[1])
        self.at = np.r_[0, np.cumsum(sizes**2)]
        self.inverses = np.empty(int(self.at[-1]))
        _invert(self.start, self.G, shift, sigma, self.at, self.inverses)
        self.normal = self._solve(X)
        self.squares = data.by_sphere(X, self.normal)
        self.squares[self.squares == 0] = 1.0

    def solve(self, R: Any) -> Any:
        """Return the preconditioned R, along the spheres."""
        Z = self._solve(R)
        Z -= self.data.to_rows(self.data.by_sphere(self.X, Z) / self.squares) * self.normal
        return Z

    def _solve(self, R: Any) -> Any:
        Z = np.empty(R.shape)
        _solve(self.start, self.G, self.shift, self.at, self.inverses, R.astype(np.float64, copy=False), Z)
        return Z.astype(R.dtype, copy=False)


@njit(**FLAGS)
def _invert(start: Any, G: Any, shift: Any, sigma: float, at: Any, inverses: Any) -> None:
    """Invert I·d/σ + GGᵀ, or I·d + σGᵀG where that is smaller, for every row."""
    for i in range(len(start) - 1):
        g = G[start[i] : start[i + 1]]
        few = len(g) <= G.shape[1]
        M = g @ g.T if few else sigma * (g.T @ g)
        for a in range(len(M)):
            M[a, a] += shift[i] / sigma if few else shift[i]
        if len(M):
            inverses[at[i] : at[i + 1]] = np.linalg.inv(M).ravel()


@njit(**FLAGS)
def _solve(start: Any, G: Any, shift: Any, at: Any, inverses: Any, R: Any, Z: Any) -> None:
    """Set every row of Z to its block's inverse times that of R; by Woodbury's formula where that is smaller."""
    for i in range(len(start) - 1):
        g = G[start[i] : start[i + 1]]
        n = min(len(g), G.shape[1])
        inverse = inverses[at[i] : at[i + 1]].reshape((n, n))
        if len(g) > n:
            Z[i] = inverse @ R[i]
        elif n:
            Z[i] = (R[i] - (inverse @ (g @ R[i])) @ g) / shift[i]
        else:
            Z[i] = R[i] / shift[i]
