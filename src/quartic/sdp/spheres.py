"""A programme in coordinates in which some of its constraints are spheres: all that a method needs of its data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from quartic.arrays import HOST, Space
from quartic.compiled.flags import FLAGS, njit
from quartic.sdp import passes
from quartic.sdp.problem import SDP


def passes_in(space: Space) -> Any:
    """Return the passes over arrays of a space."""
    if space is HOST:
        return passes
    from quartic.sdp import passes_torch

    return passes_torch


class Spheres:
    r"""The programme in coordinates in which some constraints are spheres, and the others unit-sized.

    A constraint Σ a_i Y_ii = b with positive a and b says that the rows √(a_i/b)·x_i, stacked, have length one. As many
    of these as do not overlap hold by construction; for MaxCut and its like that is all of them. The others are
    ``rest``; 𝒜, b and C below are theirs, in the scaled coordinates.
    """

    def __init__(self, problem: SDP, space: Space = HOST, dtype: type[Any] = np.float64) -> None:
        self.problem, self.space, self.dtype = problem, space, dtype
        P, S = problem.n_pairs, problem.S
        diagonal = np.zeros(len(problem.c), bool)
        diagonal[:P] = problem.i == problem.j
        group = np.full(problem.n_rows, -1)
        length = np.ones(problem.n_rows)
        chosen: list[int] = []
        counts = np.diff(S.indptr)
        signs = sparse.csr_array(((S.data > 0) & diagonal[S.indices], S.indices, S.indptr), shape=S.shape, dtype=float)
        fit = np.flatnonzero((np.asarray(signs.sum(axis=1)).ravel() == counts) & (problem.b > 0) & (counts > 0))
        for k in fit[counts[fit] > 1]:
            places, values = S.indices[S.indptr[k] : S.indptr[k + 1]], S.data[S.indptr[k] : S.indptr[k + 1]]
            rows = problem.i[places]
            if (group[rows] < 0).all():
                group[rows] = len(chosen)
                length[rows] = np.sqrt(problem.b[k] / values)
                chosen.append(int(k))
        single = fit[counts[fit] == 1]
        single = single[np.unique(problem.i[S.indices[S.indptr[single]]], return_index=True)[1]]
        single = single[group[problem.i[S.indices[S.indptr[single]]]] < 0]
        rows = problem.i[S.indices[S.indptr[single]]]
        group[rows] = len(chosen) + np.arange(len(single))
        length[rows] = np.sqrt(problem.b[single] / S.data[S.indptr[single]])
        self.on_sphere = np.r_[np.array(chosen, np.int64), single]
        self.n_spheres = len(self.on_sphere)
        group[group < 0] = self.n_spheres
        self.length = length
        self.rest = np.delete(np.arange(problem.m), self.on_sphere)
        factor = np.ones(len(problem.c))
        factor[:P] = length[problem.i] * length[problem.j]
        c, S = problem.c * factor, sparse.csr_array(S[self.rest] @ sparse.diags_array(factor))
        weight = np.ones(len(c))
        weight[:P][problem.i != problem.j] = math.sqrt(0.5)
        self.size_c = float(np.linalg.norm(c * weight)) or 1.0
        self.unit = min(self.size_c, 1.0)  # what a small value of the objective is
        self.norms = np.sqrt(np.asarray(S.multiply(weight[None]).power(2).sum(axis=1)).ravel())
        self.norms[self.norms == 0] = 1.0
        S = sparse.csr_array(sparse.diags_array(1 / self.norms) @ S)
        self.n_rest, self.n_pairs, self.n_terms, n_vectors = len(self.rest), P, len(c), problem.B.shape[1]
        self.pairs_of, self.vectors = slice(0, P), slice(P, P + n_vectors)
        # both triangles of the pattern, by rows
        twice = problem.i != problem.j
        rows, columns = np.r_[problem.i, problem.j[twice]], np.r_[problem.j, problem.i[twice]]
        pairs = np.r_[np.arange(P), np.flatnonzero(twice)]
        both = sparse.coo_array((pairs, (rows, columns)), shape=(problem.n_rows, problem.n_rows)).tocsr()
        # where the work is done
        put, self.passes = space.adopt, passes_in(space)
        self.start, self.columns, self.pairs = put(both.indptr), put(both.indices), put(both.data)
        self.i, self.j, self.doubled = put(problem.i), put(problem.j), put(np.where(twice[both.data], 1.0, 2.0))
        self.group, self.factor, self.c, self.b = map(put, (group, factor, c, problem.b[self.rest] / self.norms))
        self.squares = put(np.asarray(S.power(2).sum(axis=0)).ravel()[:P])  # of 𝒜's entries, by pairs
        members = np.bincount(group, minlength=self.n_spheres + 1)
        self.some_shared, self.some_free = bool((members[:-1] > 1).any()), bool(members[-1])
        self.eps = float(np.finfo(dtype).eps)
        B = sparse.csr_array(sparse.diags_array(length) @ problem.B)
        self.S, self.St, self.B, self.Bt = (
            self.passes.taken(sparse.csr_array(M), space, kind)
            for M, kind in ((S, np.float64), (S.T, np.float64), (B, dtype), (B.T, dtype))
        )

    # -- X ---------------------------------------------------------------------------------------------------------

    def by_sphere(self, A: Any, B: Any) -> Any:
        """Return ⟨A, B⟩ of the rows of each sphere; of those on none it is zero, the last number."""
        sums = self.passes.sums_by(self.group, self.passes.row_products(A, B), self.n_spheres + 1)
        sums[-1] = 0.0
        return sums

    def to_rows(self, numbers: Any) -> Any:
        """Return the number of its sphere for each row, as a column in X's type."""
        return self.space.astype(numbers[self.group], self.dtype)[:, None]

    def retract(self, X: Any) -> Any:
        """Return X with every sphere's rows scaled to length one."""
        lengths = self.by_sphere(X, X)
        lengths[-1] = 1.0
        return X / self.to_rows(self.space.xp.sqrt(lengths))

    def terms(self) -> Any:
        """Return room for a number for each entry, vector and operator."""
        return self.space.zeros((self.n_terms,), np.float64)

    def measure(self, X: Any) -> Any:
        """Return the entries u of XXᵀ that the programme looks at."""
        u = self.terms()
        self.passes.pair_products(X, self.i, self.j, u[self.pairs_of])
        if self.vectors.start < self.vectors.stop:
            BX = self.Bt @ X
            u[self.vectors] = self.passes.row_products(BX, BX)
        for k, (rows, operator) in enumerate(self._operators(), self.vectors.stop):
            u[k] = np.vdot(X[rows], operator(X[rows]))
        return u

    def _operators(self) -> Iterator[tuple[slice, Any]]:
        for first, last, operator in self.problem.operators:
            rows = slice(first, last)
            scale = self.length[rows][:, None]
            yield rows, lambda D, scale=scale, operator=operator: scale * np.asarray(operator @ (scale * D))

    def weighted(self, v: Any, X: Any) -> Any:
        """Return the gradient of Σ v_p u_p in X."""
        G = self.space.xp.empty_like(X)
        self.add_weighted(self.weights(v), v, X, G, fresh=True)
        return G

    def weights(self, v: Any) -> Any:
        """Return the sparse matrix that is the gradient's, by rows."""
        return self.doubled * v[self.pairs]

    def add_weighted(self, weights: Any, v: Any, X: Any, G: Any, fresh: bool = False) -> None:
        """Set G, or add to it, the gradient of Σ v_p u_p, whose sparse matrix is known."""
        self.passes.weighted_rows(self.start, self.columns, weights, X, G, fresh)
        if self.vectors.start < self.vectors.stop:
            G += 2 * (self.B @ (self.space.astype(v[self.vectors], self.dtype)[:, None] * (self.Bt @ X)))
        for k, (rows, operator) in enumerate(self._operators(), self.vectors.stop):
            G[rows] += 2 * v[k] * operator(X[rows])

    def changes(self, X: Any, D: Any) -> tuple[Any, Any]:
        """Return the first and second order of u along X + tD."""
        first, second, rows = self.terms(), self.terms(), self.passes.row_products
        self.passes.curve_terms(X, D, self.i, self.j, first[self.pairs_of], second[self.pairs_of])
        if self.vectors.start < self.vectors.stop:
            BX, BD = self.Bt @ X, self.Bt @ D
            first[self.vectors], second[self.vectors] = 2 * rows(BX, BD), rows(BD, BD)
        for k, (part, operator) in enumerate(self._operators(), self.vectors.stop):
            product = operator(D[part])
            first[k], second[k] = 2 * np.vdot(X[part], product), np.vdot(D[part], product)
        return first, second

    def residual(self, u: Any) -> Any:
        """Return 𝒜 − b of the constraints that are no spheres."""
        return self.S @ u - self.b if self.n_rest else self.b

    def noise(self, u: Any) -> float:
        """Return what round-off does to ⟨C, XXᵀ⟩: that of X is independent from row to row, that of the sum is not."""
        terms = self.c * u
        return 2 * self.eps * float(self.space.norm(terms)) + 1e-14 * float(abs(terms).sum())

    def first_rank(self) -> int:
        """Return the columns to begin with.

        A solution with √(2m) exists, and with as many every minimum is global but for special data (Boumal and others,
        2016). Most need fewer, far fewer where all constraints are spheres: n^⅖, as in glasses of vector spins, or a
        few more than log n. More are added where they do not suffice, but that is slow.
        """
        largest = max(len(rows) for rows in self.problem.rows_of_components)
        enough = max(1, min(largest, math.ceil(math.sqrt(2 * (self.n_rest + self.n_spheres))) + 1))
        few = max(8 + 2 * math.ceil(math.log2(self.problem.n_rows)), 4 * math.ceil(self.problem.n_rows**0.4 / 4))
        return min(enough, max(few, math.ceil(0.7 * enough)) if self.n_rest else few)


# -- a preconditioner for constraints under a penalty: the part of the Hessian in which each row meets itself ---------


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
