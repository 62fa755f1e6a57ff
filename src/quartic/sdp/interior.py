"""A primal-dual interior-point method for small programmes: no low rank, but every digit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas, lapack

from quartic.arrays import Array
from quartic.arrays.subspace import lowest_eigenpairs
from quartic.core.result import Status
from quartic.sdp.passes import schur_entries
from quartic.sdp.problem import SDP, symmetric
from quartic.sdp.run import Iterate

# How many operations of BLAS take the time of one of `schur_entries`.
_BLAS_ADVANTAGE = 20.0
# Without any gain for so many iterations the last digits are lost in round-off.
_PATIENCE = 10
# X or y, divided by their objective, prove that there is no solution when they solve 𝒜(X) = 0, 𝒜*(y) + Z = 0 so well.
_PROOF = 1e-8
# The dual residual counts as none below this.
_EXACT = 1e-12
# Up to this size all eigenvalues are cheaper than the lowest, which takes so many products.
_SMALL, _LANCZOS = 60, 20


class _Block:
    """The rows of one component of Y, and its part of C and of the A_k, by entries on or above the diagonal.

    Of S (m, entries) an entry off the diagonal counts twice. Constraints with so many entries here that they are
    multiplied out are ``dense``, the fullest first; the others' are in ``entries``, as `schur_entries` takes them. On a
    face Y = VXVᵀ with V the ``basis``.
    """

    def __init__(self, problem: SDP, rows: Array, c: Array, S: Any, chosen: Array) -> None:
        self.rows, self.c, self.S, n = rows, c[chosen], sparse.csr_array(S[:, chosen]), len(rows)
        self.row, self.column = np.searchsorted(rows, problem.i[chosen]), np.searchsorted(rows, problem.j[chosen])
        counts = np.diff(self.S.indptr)
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        after = np.cumsum(counts[order][::-1])[::-1]
        full = counts[order] * after * 8.0 > 4.0 * n * n * np.minimum(n, 2 * counts[order]) / _BLAS_ADVANTAGE
        n_dense = int(np.argmin(full)) if not full.all() else len(full)
        self.dense, self.others = order[:n_dense], np.sort(order[n_dense:])
        few = sparse.csr_array(self.S[self.others])
        owner, start, p = np.repeat(self.others, np.diff(few.indptr)), few.indptr.astype(np.int64), few.indices
        # off the diagonal an entry counts twice, on it two of four terms are the same
        self.entries = self.others, start, owner, self.row[p], self.column[p], 0.5 * few.data
        U = problem.faces.get(int(problem.components[rows[0]]))
        self.basis = None if U is None else linalg.qr(U)[0][:, U.shape[1] :]

    @property
    def n(self) -> int:
        """The size of X."""
        return len(self.rows) if self.basis is None else self.basis.shape[1]

    def matrix(self, v: Array) -> Array:
        """Return the symmetric matrix M with ⟨M, X⟩ = Σ v_p Y_p."""
        M = symmetric(len(self.rows), self.row, self.column, v)
        return M if self.basis is None else self.basis.T @ M @ self.basis

    def whole(self, U: Array) -> Array:
        """Return VUVᵀ."""
        return U if self.basis is None else self.basis @ U @ self.basis.T

    def measure(self, U: Array) -> Array:
        """Return all ⟨A_k, VUVᵀ⟩."""
        return self._products(self.whole(U))

    def _products(self, U: Array) -> Array:
        return self.S @ (0.5 * (U[self.row, self.column] + U[self.column, self.row]))

    def add_schur(self, M: Array, X: Array, W: Array) -> None:
        """Add the matrix of y ↦ 𝒜(X 𝒜*(y) W), on and above its diagonal."""
        X, W = self.whole(X), self.whole(W)
        start, entries = self.S.indptr, self.S.indices
        for place, k in enumerate(self.dense):
            p = entries[start[k] : start[k + 1]]
            A = symmetric(len(self.rows), self.row[p], self.column[p], self.S.data[start[k] : start[k + 1]])
            support = np.flatnonzero(A.any(axis=0))
            U = (X[:, support] @ A[np.ix_(support, support)]) @ W[support]
            later = np.r_[self.dense[place:], self.others]
            M[np.minimum(k, later), np.maximum(k, later)] += self._products(U)[later]
        schur_entries(self.entries, X, W, M)


@dataclass
class _Numbers:
    """The components of one row, nonnegative numbers: what is a matrix for a `_Block` is a vector here."""

    rows: Array
    c: Array
    S: Any

    basis = None

    @property
    def n(self) -> int:
        return len(self.rows)

    def matrix(self, v: Array) -> Array:
        return v

    def measure(self, x: Array) -> Array:
        return self.S @ x

    def add_schur(self, M: Array, x: Array, w: Array) -> None:
        M += (self.S @ sparse.diags_array(x * w) @ self.S.T).toarray()


class _Scaled:
    """The programme with rows, C and b of norm one, its blocks, and its nonnegative numbers.

    ``active`` are the constraints that are used: those that say that Y lies in a face, or that follow from others, are
    left out.
    """

    def __init__(self, problem: SDP, active: Array) -> None:
        weight = np.where(problem.i == problem.j, 1.0, math.sqrt(0.5))
        self.active = active
        S = sparse.csr_array(problem.S[active])
        self.norms = np.sqrt(np.asarray((S.multiply(weight[None])).power(2).sum(axis=1)).ravel())
        self.norms[self.norms == 0] = 1.0
        S = sparse.csr_array(sparse.diags_array(1 / self.norms) @ S)
        b = problem.b[active] / self.norms
        self.size_b = float(np.linalg.norm(b)) or 1.0
        self.size_c = float(np.linalg.norm(problem.c * weight)) or 1.0
        self.b, c = b / self.size_b, problem.c / self.size_c
        # where numbers are small DIMACS' errors, relative to 1 + the largest, would be met by anything
        self.one_b = float(np.abs(problem.b).max(initial=0)) or 1.0
        self.one_c = float(np.abs(problem.c * weight**2).max(initial=0)) or 1.0
        self.m = len(active)
        columns = sparse.csc_array(S)
        owner = problem.components[problem.i]
        by_owner = np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=1))[:-1])
        self.blocks: list[Any] = []
        singles = []
        for rows, chosen in zip(problem.rows_of_components, by_owner, strict=False):
            if len(rows) > 1:
                block = _Block(problem, rows, c, columns, np.sort(chosen))
                self.blocks += [block] if block.n else []  # where the constraints say Y = 0 there is nothing to find
            elif len(chosen):  # a row that nothing looks at is zero
                singles.append((rows[0], chosen[0]))
        if singles:
            alone, at = np.array(singles, np.int64).T
            self.blocks.append(_Numbers(alone, c[at], sparse.csc_array(columns[:, at])))
        self.room: Any = None
        self.C = [block.matrix(block.c) for block in self.blocks]
        self.size = sum(block.n for block in self.blocks)

    def measure(self, X: list[Any]) -> Array:
        """Return 𝒜(X)."""
        total = np.zeros(self.m)
        for block, part in zip(self.blocks, X, strict=True):
            total += block.measure(part)
        return total

    def products(self, X: list[Any], W: list[Any]) -> Array:
        """Return the matrix of y ↦ 𝒜(X 𝒜*(y) W), on and above its diagonal."""
        if self.room is None:  # once: fresh memory takes longer than what is written there
            self.room = np.empty((self.m, self.m)), np.empty((self.m, self.m))
        M: Array = self.room[0]
        M.fill(0.0)
        for block, left, right in zip(self.blocks, X, W, strict=True):
            block.add_schur(M, left, right)
        return M


def independent(problem: SDP) -> Array:
    """Return constraints to work with: those that others say already, on the face if there is one, are left out.

    By Cholesky's factorisation with pivots of the matrix of ⟨A_k, A_l⟩ there: right-hand sides that are rounded leave
    no Y that meets them all. One whose right-hand side does not follow
    from those of the others stays: it will prove that there is no solution.
    """
    active = np.setdiff1d(np.arange(problem.m), problem.facing)
    if not len(active):
        return active
    data = _Scaled(problem, active)
    ones: list[Any] = [_identity(block) for block in data.blocks]
    products = data.products(ones, ones)
    scale = 1 / np.sqrt(np.maximum(products.diagonal(), 1e-24))
    L, pivots, rank, _ = lapack.dpstrf(products.T * np.outer(scale, scale), tol=1e-13, lower=1)
    chosen, others, b = pivots[:rank] - 1, pivots[rank:] - 1, data.b * scale
    mix = linalg.solve_triangular(L[:rank, :rank], L[rank:, :rank].T, lower=True, trans=1)
    room = np.abs(b).max() + np.abs(mix).T @ np.abs(b[chosen])
    return np.delete(active, others[np.abs(b[others] - mix.T @ b[chosen]) <= 1e-8 * room])


def interior(problem: SDP, tol: float, start: dict[str, Array] | None = None) -> Iterator[Iterate]:
    r"""Follow the central path by Mehrotra's predictor and corrector in the direction of Helmberg, Kojima and Monteiro.

    With Z = C − 𝒜*(y) ⪰ 0 the dual slack, every iteration solves the linearised equations 𝒜(X) = b,
    Z + 𝒜*(y) = C, XZ = σμI for (dX, dy, dZ) and goes as far as X and Z stay positive definite. X and Z need not be
    feasible on the way. Where they run away, X or y divided by their objective prove that the programme is unbounded or
    infeasible.
    """
    path = _Path(_Scaled(problem, independent(problem)))
    if start is not None:
        path.restore(start)
    best, least, furthest, waited, feasible = math.inf, np.full(3, math.inf), 1.0, 0, None
    kept: Iterate | None = None
    while True:
        error = path.measure()
        if path.dual_error < 1e-9 and (feasible is None or path.gap > 1e-4):
            feasible = path.y
        iterate = path.iterate(problem, feasible)
        verdict = path.verdict()
        if verdict is not None:
            yield replace(iterate, verdict=verdict)
            return
        if error < best:
            best, kept = error, iterate
        now = np.array([path.primal_error, path.dual_error, path.products])
        away = max(-path.primal, path.dual)  # where there is no solution, one of them goes to infinity
        waited = 0 if (now < 0.9 * least).any() or away > 1.2 * furthest else waited + 1
        least, furthest = np.minimum(least, now), max(furthest, away)
        if error <= 0.01 * tol:
            yield replace(iterate, done=True)
            return
        yield iterate
        if waited > _PATIENCE or not path.advance():
            assert kept is not None
            verdict = path.verdict(100 * _PROOF)  # round-off may keep it from the better proof
            yield replace(kept, done=True) if verdict is None else replace(iterate, verdict=verdict)
            return


class _Path:
    """Where the method stands: X and Z by blocks, y."""

    def __init__(self, data: _Scaled) -> None:
        self.data = data
        size = [1.0 if isinstance(block, _Numbers) else math.sqrt(block.n) for block in data.blocks]
        dual = 10 * max([1.0, *size])
        primal = dual * max([1.0, *(n * float(np.abs(data.b).max(initial=0)) for n in size)])
        self.X: list[Any] = [primal * _identity(block) for block in data.blocks]
        self.Z: list[Any] = [dual * _identity(block) for block in data.blocks]
        self.y: Array = np.zeros(data.m) if data.size else data.b  # where Y = 0 is all there is, b is the proof

    def state(self) -> dict[str, Array]:
        """Return all that a run needs to go on from here."""
        return {"y": self.y, **{f"{name}{k}": M for name in "XZ" for k, M in enumerate(getattr(self, name))}}

    def restore(self, state: dict[str, Array]) -> None:
        """Go to where another run was."""
        here = self.state()
        if {name: M.shape for name, M in here.items()} != {name: np.shape(state.get(name, 0)) for name in here}:
            raise ValueError("the arrays are not those of this programme")
        self.X, self.Z = ([state[f"{name}{k}"] for k in range(len(self.X))] for name in "XZ")
        self.y = state["y"]

    def measure(self) -> float:
        """Work out residuals and objectives; return the largest relative error."""
        data = self.data
        self.primal = sum(map(_inner, data.C, self.X))
        self.dual = float(data.b @ self.y)
        self.rp = data.b - data.measure(self.X)
        self.Rd = [block.matrix(block.c - block.S.T @ self.y) - Z for block, Z in zip(data.blocks, self.Z, strict=True)]
        self.products = sum(map(_inner, self.X, self.Z))
        self.primal_error = float(np.linalg.norm(self.rp * data.norms)) * data.size_b / data.one_b
        self.dual_error = math.sqrt(sum(_inner(R, R) for R in self.Rd))
        scale = min(1 / (data.size_b * data.size_c), 1.0) + abs(self.primal) + abs(self.dual)
        self.gap = max(abs(self.primal - self.dual), self.products) / scale
        error = max(self.primal_error, self.dual_error * data.size_c / data.one_c, self.gap)
        return error if math.isfinite(error) else math.inf

    def verdict(self, proof: float = _PROOF) -> Status | None:
        """Tell a proof that there is no solution: y with 𝒜*(y) ⪯ 0 < bᵀy, or X ⪰ 0 with 𝒜(X) = 0 > ⟨C, X⟩."""
        data = self.data
        far = math.sqrt(sum(_inner(C - R, C - R) for C, R in zip(data.C, self.Rd, strict=True)))
        if self.dual > 0 and far < proof * self.dual:
            return Status.INFEASIBLE
        if self.primal < 0 and float(np.linalg.norm(data.b - self.rp)) < -proof * self.primal:
            return Status.UNBOUNDED
        return None

    def advance(self) -> bool:
        """Make one step; return False where round-off does not let it be made."""
        data = self.data
        try:
            factors, slack_factors = (list(map(_factor, part)) for part in (self.X, self.Z))
        except linalg.LinAlgError:
            return False
        W = list(map(_inverse, slack_factors))
        solve = _solver(data.products(self.X, W), data.room[1])
        if solve is None:
            return False
        mu, base, inverse = self.products / data.size, data.b, data.measure(W)
        exact = self.dual_error < _EXACT
        if not exact:
            base = base + data.measure(list(map(_product, self.X, self.Rd, W)))

        def direction(sigma: float, second: list[Any] | None) -> _Step:
            right = base - sigma * mu * inverse
            dy = solve(right if second is None else right + data.measure(second))
            dX, dZ = [], []
            for k, (block, X, V) in enumerate(zip(data.blocks, self.X, W, strict=True)):
                change = block.matrix(-(block.S.T @ dy))
                dZ.append(change if exact else self.Rd[k] + change)
                U = sigma * mu * V - X - _product(X, dZ[k], V)
                U = U if second is None else U - second[k]
                dX.append(0.5 * (U + U.T))
            return _Step(dX, dy, dZ)

        affine = direction(0.0, None)
        a, b = self._lengths(affine, factors, slack_factors, 1.0)
        left = 0.0
        for X, Z, dX, dZ in zip(self.X, self.Z, affine.X, affine.Z, strict=True):
            left += _inner(X, Z) + a * _inner(dX, Z) + b * _inner(X, dZ) + a * b * _inner(dX, dZ)
        share = max(left / self.products, 0.0)
        exponent = max(1.0, 3 * min(a, b) ** 2) if mu > 1e-6 else 1.0
        sigma = min(1.0, max(share**exponent, 1e-6))
        step = direction(sigma, list(map(_product, affine.X, affine.Z, W)))
        a, b = self._lengths(step, factors, slack_factors, 0.9 + 0.09 * min(a, b))
        if not max(a, b) > 1e-7 or not np.isfinite(step.y).all():
            return False
        self.X = [X + a * dX for X, dX in zip(self.X, step.X, strict=True)]
        self.Z = [Z + b * dZ for Z, dZ in zip(self.Z, step.Z, strict=True)]
        self.y = self.y + b * step.y
        return True

    def _lengths(self, step: _Step, factors: list[Any], slack_factors: list[Any], margin: float) -> tuple[float, float]:
        """Return how far X and Z may go, at most 1, to keep 1 − ``margin`` of their distance to the boundary."""
        a = b = 1.0
        for X, dX, L in zip(self.X, step.X, factors, strict=True):
            a = min(a, _length(X, dX, L, margin))
        for Z, dZ, L in zip(self.Z, step.Z, slack_factors, strict=True):
            b = min(b, _length(Z, dZ, L, margin))
        return a, b

    def iterate(self, problem: SDP, feasible: Array | None) -> Iterate:
        """Return this place in the user's units."""
        data, X, state = self.data, self.X, self.state()
        unit = data.size_b * data.size_c

        def factor() -> Array:
            parts = list(map(_root, X))
            whole = np.zeros((problem.n_rows, max([1, *(part.shape[1] for part in parts)])))
            for block, part in zip(data.blocks, parts, strict=True):
                whole[block.rows, : part.shape[1]] = part if block.basis is None else block.basis @ part
            return math.sqrt(data.size_b) * whole

        def multipliers(y: Array) -> Array:
            full = np.zeros(problem.m)
            full[data.active] = data.size_c * y / data.norms
            return full

        return Iterate(
            unit * self.primal, unit * self.dual, self.primal_error, self.dual_error, factor, multipliers(self.y),
            None if feasible is None else multipliers(feasible), lambda: state,
        )  # fmt: skip


@dataclass
class _Step:
    X: list[Any]
    y: Array
    Z: list[Any]


def _inner(A: Array, B: Array) -> float:
    return float(np.vdot(A, B))


# of a block's matrices, or the vectors of numbers


def _identity(block: _Block | _Numbers) -> Array:
    return np.ones(block.n) if isinstance(block, _Numbers) else np.eye(block.n)


def _product(A: Array, B: Array, C: Array) -> Array:
    return A * B * C if A.ndim == 1 else A @ B @ C


def _factor(X: Array) -> Array:
    return X if X.ndim == 1 else linalg.cholesky(X, lower=True, check_finite=False)


def _inverse(L: Array) -> Array:
    """Return (LLᵀ)⁻¹."""
    if L.ndim == 1:
        return 1 / L
    half, _ = lapack.dpotri(L, lower=1)
    return np.tril(half) + np.tril(half, -1).T


def _length(X: Array, dX: Array, L: Array, margin: float) -> float:
    """Return min(1, margin · the largest t with X + t dX ⪰ 0), by the lowest eigenvalue of L⁻¹ dX L⁻ᵀ."""
    if X.ndim == 1:
        return min(1.0, margin * float((-X[dX < 0] / dX[dX < 0]).min(initial=math.inf)))

    def product(v: Array) -> Array:
        v = linalg.solve_triangular(L, v, lower=True, trans=1, check_finite=False)
        return linalg.solve_triangular(L, dX @ v, lower=True, check_finite=False)

    found = lowest_eigenpairs(product, len(X), 1, lambda *_: False, np.random.default_rng(0), _LANCZOS, _SMALL)
    lowest = float(found.values[0]) - found.residual
    t = 1.0 if lowest >= 0 else min(1.0, -margin / lowest)
    for _ in range(30):  # Lanczos' method may have stopped early
        if lapack.dpotrf(X + t * dX, lower=1, overwrite_a=1)[1] == 0:
            return t
        t *= 0.8
    return 0.0


def _root(X: Array) -> Array:
    """Return F with FFᵀ = X, without the columns that are nothing but round-off."""
    if X.ndim == 1:
        return np.sqrt(X)[:, None]
    values, vectors = np.linalg.eigh(X)
    kept = values > 1e-13 * max(float(values[-1]), 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])


def _solver(M: Array, trial: Array) -> Any:
    """Return a function that solves with M, which may be singular but for round-off; None where that is hopeless.

    M is known on and above its diagonal; it is scaled in place to have ones there. ``trial`` is room for its factor.
    """
    diagonal = M.diagonal().copy()
    if not len(M):
        return lambda right: right
    if not np.isfinite(diagonal).all() or (diagonal < 0).any():
        return None
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    M *= scale
    M *= scale[:, None]
    for shift in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        np.copyto(trial, M)
        trial.flat[:: len(M) + 1] += shift
        L, failed = lapack.dpotrf(trial.T, lower=1, overwrite_a=1, clean=0)  # the transpose has LAPACK's order
        if failed:
            continue

        def solve(right: Array, L: Array = L) -> Array:
            right = scale * right
            x = lapack.dpotrs(L, right, lower=1)[0]
            left = right - blas.dsymv(1.0, M.T, x, lower=1)
            for _ in range(3):  # iterative refinement, as long as it helps
                if _inner(left, left) <= 1e-28 * _inner(right, right):
                    break
                change = lapack.dpotrs(L, left, lower=1)[0]
                after = left - blas.dsymv(1.0, M.T, change, lower=1)
                if not _inner(after, after) < _inner(left, left):
                    break
                x, left = x + change, after
            return scale * x

        return solve
    return None
