"""A primal-dual interior-point method for small programmes: no low rank, but every digit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack

from quartic.arrays import Array
from quartic.core.result import Status
from quartic.sdp.passes import schur_entries
from quartic.sdp.problem import SDP
from quartic.sdp.run import Iterate

# How many operations of BLAS take the time of one of `schur_entries`.
_BLAS_ADVANTAGE = 20.0
# Without any gain for so many iterations the last digits are lost in round-off.
_PATIENCE = 6
# X or y, divided by their objective, prove that there is no solution when they solve 𝒜(X) = 0, 𝒜*(y) + Z = 0 so well.
_PROOF = 1e-8
# Up to this size all eigenvalues are cheaper than the lowest.
_SMALL = 60


@dataclass
class _Block:
    """The rows of one component of Y, and its part of C and of the A_k, by entries on or above the diagonal."""

    rows: Array
    row: Array
    column: Array
    c: Array
    S: Any  # (m, entries), csr; an entry off the diagonal counts twice
    order: Any  # the constraints with entries here, the fullest first
    dense: int  # how many of them are multiplied out
    basis: Array | None  # of the face that Y lies in: Y = VXVᵀ

    @classmethod
    def of(cls, problem: SDP, rows: Array, c: Array, S: Any, chosen: Array) -> _Block:
        local = np.zeros(problem.n_rows, np.int64)
        local[rows] = np.arange(len(rows))
        part = sparse.csr_array(S[:, chosen])
        counts = np.diff(part.indptr)
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        after = np.cumsum(counts[order][::-1])[::-1]
        n = len(rows)
        full = counts[order] * after * 8.0 > 4.0 * n * n * np.minimum(n, 2 * counts[order]) / _BLAS_ADVANTAGE
        dense = int(np.argmin(full)) if not full.all() else len(full)
        U = problem.face(int(problem.components[rows[0]]))
        basis = None if U is None else linalg.qr(U)[0][:, U.shape[1] :]
        return cls(rows, local[problem.i[chosen]], local[problem.j[chosen]], c[chosen], part, order, dense, basis)

    @property
    def n(self) -> int:
        """The size of X."""
        return len(self.rows) if self.basis is None else self.basis.shape[1]

    def matrix(self, v: Array) -> Array:
        """Return the symmetric matrix M with ⟨M, X⟩ = Σ v_p Y_p."""
        M = self._in_rows(v)
        return M if self.basis is None else self.basis.T @ M @ self.basis

    def _in_rows(self, v: Array) -> Array:
        M = np.zeros((len(self.rows), len(self.rows)))
        M[self.row, self.column] = np.where(self.row == self.column, v, 0.5 * v)
        M[self.column, self.row] = M[self.row, self.column]
        return M

    def whole(self, U: Array) -> Array:
        """Return VUVᵀ."""
        return U if self.basis is None else self.basis @ U @ self.basis.T

    def measure(self, U: Array) -> Array:
        """Return all ⟨A_k, VUVᵀ⟩."""
        U = self.whole(U)
        return self.S @ (0.5 * (U[self.row, self.column] + U[self.column, self.row]))

    def add_schur(self, M: Array, X: Array, W: Array) -> None:
        """Add the matrix of y ↦ 𝒜(X 𝒜*(y) W)."""
        X, W = self.whole(X), self.whole(W)
        start, entries = self.S.indptr, self.S.indices
        for place, k in enumerate(self.order[: self.dense]):
            v = np.zeros(len(self.row))
            v[entries[start[k] : start[k + 1]]] = self.S.data[start[k] : start[k + 1]]
            A = self._in_rows(v)
            support = np.flatnonzero(A.any(axis=0))
            U = (X[:, support] @ A[np.ix_(support, support)]) @ W[support]
            later = self.order[place:]
            found = (self.S @ (0.5 * (U[self.row, self.column] + U[self.column, self.row])))[later]
            M[k, later] += found
            M[later[1:], k] += found[1:]
        half = np.where(self.row == self.column, 1.0, 0.5)[entries] * self.S.data
        schur_entries(self.order, self.dense, start, self.row[entries], self.column[entries], half, X, W, M)


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
        self.size_b = max(1.0, float(np.linalg.norm(b)))
        self.size_c = max(1.0, float(np.linalg.norm(problem.c * weight)))
        self.b, c = b / self.size_b, problem.c / self.size_c
        self.one_b = 1 + float(np.abs(problem.b).max(initial=0))
        self.one_c = 1 + float(np.abs(problem.c * weight**2).max(initial=0))
        self.m = len(active)
        columns = sparse.csc_array(S)
        owner = problem.components[problem.i]
        by_owner = np.split(np.argsort(owner, kind="stable"), np.cumsum(np.bincount(owner, minlength=1))[:-1])
        self.blocks, singles = [], []
        for rows, chosen in zip(problem.rows_of_components, by_owner, strict=False):
            if len(rows) > 1:
                self.blocks.append(_Block.of(problem, rows, c, columns, np.sort(chosen)))
            else:
                singles.append((rows[0], chosen[0] if len(chosen) else -1))
        self.lp_rows = np.array([row for row, _ in singles], np.int64)
        at = np.array([p for _, p in singles], np.int64)
        self.lp_c = np.where(at >= 0, c[at] if len(c) else 0.0, 0.0) if len(at) else np.zeros(0)
        self.lp_S = sparse.csc_array(columns[:, np.maximum(at, 0)]) if len(at) else sparse.csc_array((self.m, 0))
        self.C = [block.matrix(block.c) for block in self.blocks]
        self.size = sum(block.n for block in self.blocks) + len(self.lp_rows)

    def measure(self, X: list[Any], x: Array) -> Array:
        total = self.lp_S @ x
        for block, part in zip(self.blocks, X, strict=True):
            total += block.measure(part)
        return total

    def slack(self, y: Array) -> tuple[list[Any], Array]:
        """Return C − 𝒜*(y)."""
        return [block.matrix(block.c - block.S.T @ y) for block in self.blocks], self.lp_c - self.lp_S.T @ y


def interior(problem: SDP, active: Array, tol: float, start: dict[str, Array] | None = None) -> Iterator[Iterate]:
    r"""Follow the central path by Mehrotra's predictor and corrector in the direction of Helmberg, Kojima and Monteiro.

    With Z = C − 𝒜*(y) ⪰ 0 the dual slack, every iteration solves the linearised equations 𝒜(X) = b,
    Z + 𝒜*(y) = C, XZ = σμI for (dX, dy, dZ) and goes as far as X and Z stay positive definite. X and Z need not be
    feasible on the way. Where they run away, X or y divided by their objective prove that the programme is unbounded or
    infeasible.
    """
    problem = problem.explicit()
    path = _Path(_Scaled(problem, active))
    if start is not None:
        path.restore(start)
    best, least, waited, feasible = math.inf, np.full(3, math.inf), 0, None
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
        waited = 0 if (now < 0.9 * least).any() and error > 1e-3 * best else waited + 1
        least = np.minimum(least, now)
        if error <= 0.01 * tol:
            yield replace(iterate, done=True)
            return
        yield iterate
        if waited > _PATIENCE or not path.advance():
            assert kept is not None
            yield replace(kept, done=True)
            return


class _Path:
    """Where the method stands: X and Z by blocks, x and z of the nonnegative numbers, y."""

    def __init__(self, data: _Scaled) -> None:
        self.data = data
        size = [math.sqrt(block.n) for block in data.blocks]
        wide = max([1.0, *size])
        primal = 10 * wide * max([1.0, *(n * float(np.abs(data.b).max(initial=0)) for n in size)])
        dual = 10 * wide
        self.X: list[Any] = [primal * np.eye(block.n) for block in data.blocks]
        self.Z: list[Any] = [dual * np.eye(block.n) for block in data.blocks]
        self.x: Array = np.full(len(data.lp_rows), primal)
        self.z: Array = np.full(len(data.lp_rows), dual)
        self.y: Array = np.zeros(data.m)

    def state(self) -> dict[str, Array]:
        """Return all that a run needs to go on from here."""
        blocks = {f"{name}{k}": M for name, Ms in (("X", self.X), ("Z", self.Z)) for k, M in enumerate(Ms)}
        return {"x": self.x, "z": self.z, "y": self.y, **blocks}

    def restore(self, state: dict[str, Array]) -> None:
        """Go to where another run was."""
        here = self.state()
        if {name: M.shape for name, M in here.items()} != {name: np.shape(state.get(name, 0)) for name in here}:
            raise ValueError("the arrays are not those of this programme")
        self.x, self.z, self.y = state["x"], state["z"], state["y"]
        self.X = [state[f"X{k}"] for k in range(len(self.X))]
        self.Z = [state[f"Z{k}"] for k in range(len(self.Z))]

    def measure(self) -> float:
        """Work out residuals and objectives; return the largest relative error."""
        data = self.data
        self.primal = float(data.lp_c @ self.x) + sum(map(_inner, data.C, self.X))
        self.dual = float(data.b @ self.y)
        self.rp = data.b - data.measure(self.X, self.x)
        free, free_lp = data.slack(self.y)
        self.Rd = [S - Z for S, Z in zip(free, self.Z, strict=True)]
        self.rd = free_lp - self.z
        self.products = float(self.x @ self.z) + sum(map(_inner, self.X, self.Z))
        self.primal_error = float(np.linalg.norm(self.rp * data.norms)) * data.size_b / data.one_b
        self.dual_error = math.sqrt(_inner(self.rd, self.rd) + sum(_inner(R, R) for R in self.Rd))
        scale = 1 / (data.size_b * data.size_c) + abs(self.primal) + abs(self.dual)
        self.gap = max(abs(self.primal - self.dual), self.products) / scale
        error = max(self.primal_error, self.dual_error * data.size_c / data.one_c, self.gap)
        return error if math.isfinite(error) else math.inf

    def verdict(self) -> Status | None:
        """Tell a proof that there is no solution: y with 𝒜*(y) ⪯ 0 < bᵀy, or X ⪰ 0 with 𝒜(X) = 0 > ⟨C, X⟩."""
        data = self.data
        if self.dual > 0:
            far = sum(_inner(C - R, C - R) for C, R in zip(data.C, self.Rd, strict=True))
            far += float(np.sum((data.lp_c - self.rd) ** 2))
            if math.sqrt(far) < _PROOF * self.dual:
                return Status.INFEASIBLE
        if self.primal < 0 and float(np.linalg.norm(data.b - self.rp)) < -_PROOF * self.primal:
            return Status.UNBOUNDED
        return None

    def advance(self) -> bool:
        """Make one step; return False where round-off does not let it be made."""
        data = self.data
        try:
            factors = [linalg.cholesky(X, lower=True, check_finite=False) for X in self.X]
            slack_factors = [linalg.cholesky(Z, lower=True, check_finite=False) for Z in self.Z]
        except linalg.LinAlgError:
            return False
        W = [_inverse(L) for L in slack_factors]
        M = np.zeros((data.m, data.m))
        for block, X, V in zip(data.blocks, self.X, W, strict=True):
            block.add_schur(M, X, V)
        if len(self.x):
            M += (data.lp_S @ sparse.diags_array(self.x / self.z) @ data.lp_S.T).toarray()
        solve = _solver(M)
        if solve is None:
            return False
        mu = self.products / data.size
        base = data.b + data.measure(
            [X @ R @ V for X, R, V in zip(self.X, self.Rd, W, strict=True)], self.x * self.rd / self.z
        )
        inverse = data.measure(W, 1 / self.z)

        def direction(sigma: float, first: _Step | None) -> _Step:
            right = base - sigma * mu * inverse
            if first is not None:
                corrections = [dX @ dZ @ V for dX, dZ, V in zip(first.X, first.Z, W, strict=True)]
                right = right + data.measure(corrections, first.x * first.z / self.z)
            dy = solve(right)
            change, change_lp = [block.matrix(block.S.T @ dy) for block in data.blocks], data.lp_S.T @ dy
            dZ = [R - A for R, A in zip(self.Rd, change, strict=True)]
            dz = self.rd - change_lp
            dX = []
            for k, (X, V) in enumerate(zip(self.X, W, strict=True)):
                inner = X @ dZ[k]
                inner = inner + first.X[k] @ first.Z[k] if first is not None else inner
                U = sigma * mu * V - X - inner @ V
                dX.append(0.5 * (U + U.T))
            second = 0.0 if first is None else first.x * first.z
            dx = (sigma * mu - self.x * dz - second) / self.z - self.x
            return _Step(dX, dx, dy, dZ, dz)

        affine = direction(0.0, None)
        a, b = self._lengths(affine, factors, slack_factors, 1.0)
        left = float((self.x + a * affine.x) @ (self.z + b * affine.z))
        for X, Z, dX, dZ in zip(self.X, self.Z, affine.X, affine.Z, strict=True):
            left += _inner(X, Z) + a * _inner(dX, Z) + b * _inner(X, dZ) + a * b * _inner(dX, dZ)
        share = max(left / self.products, 0.0)
        exponent = max(1.0, 3 * min(a, b) ** 2) if mu > 1e-6 else 1.0
        sigma = min(1.0, max(share**exponent, 1e-6))
        step = direction(sigma, affine)
        margin = 0.9 + 0.09 * min(a, b)
        a, b = self._lengths(step, factors, slack_factors, margin)
        if not max(a, b) > 1e-7 or not np.isfinite(step.y).all():
            return False
        self.X = [X + a * dX for X, dX in zip(self.X, step.X, strict=True)]
        self.Z = [Z + b * dZ for Z, dZ in zip(self.Z, step.Z, strict=True)]
        self.x, self.z, self.y = self.x + a * step.x, self.z + b * step.z, self.y + b * step.y
        return True

    def _lengths(self, step: _Step, factors: list[Any], slack_factors: list[Any], margin: float) -> tuple[float, float]:
        """Return how far X and Z may go, at most 1, to keep 1 − ``margin`` of their distance to the boundary."""
        a = _to_zero(self.x, step.x, margin)
        b = _to_zero(self.z, step.z, margin)
        for X, dX, L in zip(self.X, step.X, factors, strict=True):
            a = min(a, _to_boundary(X, dX, L, margin))
        for Z, dZ, L in zip(self.Z, step.Z, slack_factors, strict=True):
            b = min(b, _to_boundary(Z, dZ, L, margin))
        return a, b

    def iterate(self, problem: SDP, feasible: Array | None) -> Iterate:
        """Return this place in the user's units."""
        data, X, x = self.data, self.X, self.x
        unit = data.size_b * data.size_c

        def factor() -> Array:
            parts = [_root(part) for part in X]
            width = max([1, *(part.shape[1] for part in parts)])
            whole = np.zeros((problem.n_rows, width))
            for block, part in zip(data.blocks, parts, strict=True):
                whole[block.rows, : part.shape[1]] = part if block.basis is None else block.basis @ part
            whole[data.lp_rows, 0] = np.sqrt(x)
            return math.sqrt(data.size_b) * whole

        def multipliers(y: Array) -> Array:
            full = np.zeros(problem.m)
            full[data.active] = data.size_c * y / data.norms
            return full

        return Iterate(
            unit * self.primal, unit * self.dual, self.primal_error, self.dual_error, factor, multipliers(self.y),
            None if feasible is None else multipliers(feasible), self.state(),
        )  # fmt: skip


@dataclass
class _Step:
    X: list[Any]
    x: Array
    y: Array
    Z: list[Any]
    z: Array


def _inner(A: Array, B: Array) -> float:
    return float(np.vdot(A, B))


def _inverse(L: Array) -> Array:
    """Return (LLᵀ)⁻¹."""
    half, _ = lapack.dpotri(L, lower=1)
    return np.tril(half) + np.tril(half, -1).T


def _solver(M: Array) -> Any:
    """Return a function that solves with M, which may be singular but for round-off; None where that is hopeless.

    M is scaled in place to have ones on its diagonal.
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
        trial = M.copy()
        trial.flat[:: len(M) + 1] += shift
        L, failed = lapack.dpotrf(trial.T, lower=1, overwrite_a=1, clean=0)  # the transpose has LAPACK's order
        if failed:
            continue

        def solve(right: Array, L: Array = L) -> Array:
            right = scale * right
            x = lapack.dpotrs(L, right, lower=1)[0]
            for _ in range(3):  # iterative refinement
                x = x + lapack.dpotrs(L, right - M @ x, lower=1)[0]
            return scale * x

        return solve
    return None


def _to_zero(x: Array, dx: Array, margin: float) -> float:
    falling = dx < 0
    return min(1.0, margin * float((-x[falling] / dx[falling]).min(initial=math.inf)))


def _to_boundary(X: Array, dX: Array, L: Array, margin: float) -> float:
    """Return min(1, margin · the largest t with X + t dX ⪰ 0), by the lowest eigenvalue of L⁻¹ dX L⁻ᵀ."""
    n = len(X)

    def product(v: Array) -> Array:
        v = linalg.solve_triangular(L, v, lower=True, trans=1, check_finite=False)
        return linalg.solve_triangular(L, dX @ v, lower=True, check_finite=False)

    if n <= _SMALL:
        lowest = float(np.linalg.eigvalsh(product(np.eye(n)))[0])
    else:
        lowest = _lanczos_lowest(product, n)
    t = 1.0 if lowest >= 0 else min(1.0, -margin / lowest)
    for _ in range(30):  # Lanczos' method may have stopped early
        if lapack.dpotrf(X + t * dX, lower=1, overwrite_a=1)[1] == 0:
            return t
        t *= 0.8
    return 0.0


def _lanczos_lowest(product: Any, n: int) -> float:
    """Return about the lowest eigenvalue, and rather less than more."""
    steps = 30
    Q, a, b = np.zeros((steps + 1, n)), np.zeros(steps), np.zeros(steps)
    q = np.random.default_rng(0).standard_normal(n)
    Q[0] = q / np.linalg.norm(q)
    for k in range(steps):
        w = product(Q[k])
        a[k] = w @ Q[k]
        for _ in range(2):
            w -= Q[: k + 1].T @ (Q[: k + 1] @ w)
        b[k] = np.linalg.norm(w)
        if k >= 5 and (k % 4 == 1 or k == steps - 1 or b[k] < 1e-12):
            values, vectors = linalg.eigh_tridiagonal(a[: k + 1], b[:k])
            residual = float(b[k] * abs(vectors[-1, 0]))
            if residual <= 0.05 * abs(values[0]) + 1e-3 or k == steps - 1:
                return float(values[0]) - residual
        if b[k] < 1e-12:
            break
        Q[k + 1] = w / b[k]
    return float(linalg.eigh_tridiagonal(a[: k + 1], b[:k])[0][0])


def _root(X: Array) -> Array:
    """Return F with FFᵀ = X, without the columns that are nothing but round-off."""
    values, vectors = np.linalg.eigh(X)
    kept = values > 1e-13 * max(float(values[-1]), 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])
