"""What the multipliers y prove: a bound on the optimum from the lowest eigenvalues of Z = C − 𝒜*(y)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import lsqr

from quartic.arrays import HOST, Array, Space
from quartic.arrays.subspace import FAILURE, lowest_eigenpairs
from quartic.sdp.problem import SDP
from quartic.sdp.spheres import passes_in

# Components up to this size are formed; their bounds hold for certain, up to round-off that is allowed for.
_DENSE = 2500
# Up to this size a factorisation is tried where polynomials would take long, for so small a part of the largest.
_FACTORISED, _FINE = 6000, 3e-8
# Steps that Chebyshev's polynomials may take.
_MOST_STEPS = 100_000
# Attempts at a combination of the constraints that is positive definite.
_TRIALS = 20
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Lowest:
    """The lowest eigenvalues of a symmetric matrix of the programme, over all components."""

    bound: float  # no eigenvalue lies below, with probability ``confidence``
    value: float  # about the lowest eigenvalue
    confidence: float  # 1, or a little less where random vectors gave the bound
    directions: Array  # (n_rows, k), eigenvectors of negative eigenvalues, where there are any
    local: Any = None  # (n_rows,), what to add to the diagonal so that about none is negative; of a part: all alike


class Slack:
    """The matrix Σ v_p E_p, where E_p is the p-th entry, vector or operator of a programme."""

    def __init__(self, problem: SDP, v: Array, space: Space = HOST) -> None:
        self.problem, self.space = problem, space
        P, T = problem.n_pairs, problem.B.shape[1]
        n = problem.n_rows
        # an entry off the diagonal stands for two, one on it for itself: half of each, and half of its mirror image
        upper = sparse.csr_array((0.5 * v[:P], (problem.i, problem.j)), shape=(n, n))
        self.sparse = sparse.csr_array(upper + upper.T)
        self.low, self.high = v[P : P + T], v[P + T :]

    def product(self, D: Array) -> Array:
        """Return the matrix times D."""
        product: Array = Part(self, np.arange(self.problem.n_rows), None).product(D)
        return product

    def lowest(self, wanted: float, generator: np.random.Generator, k: int = 1) -> Lowest:
        """Return the lowest eigenvalues, known well enough to tell whether the lowest is above −``wanted``.

        On the face of the positive semidefinite matrices that the constraints confine Y to.
        """
        problem = self.problem
        diagonal = self.sparse.diagonal()
        sizes = np.bincount(problem.components)
        single = sizes[problem.components] == 1
        bound = value = float(diagonal[single].min(initial=math.inf))
        confidence, directions, local = 1.0, [], np.where(single, np.maximum(-diagonal, 0.0), 0.0)
        if value < 0:
            column = np.zeros((problem.n_rows, 1))
            column[np.flatnonzero(single)[np.argmin(diagonal[single])]] = 1.0
            directions.append(column)
        for c in np.flatnonzero(sizes > 1):
            rows = problem.rows_of_components[c]
            n = len(rows)
            small = n <= _DENSE
            part = Part(self, rows, problem.faces.get(int(c)), HOST if small else self.space)
            fine = not small and 0 < wanted < _FINE * part.highest and n <= _FACTORISED and part.space is HOST
            proven = None
            if fine:  # with a small shift first: what is allowed for round-off comes on top of it
                formed = part.formed()
                proven = _proven(formed, 0.1 * wanted) or _proven(formed, wanted)
            if proven is not None:
                found = Lowest(-proven, -proven, 1.0, np.zeros((n, 0)))
            else:
                found = _dense_lowest(part.formed(), k) if small else _sparse_lowest(part, wanted, generator, k)
            bound, value = min(bound, found.bound), min(value, found.value)
            confidence = min(confidence, found.confidence)
            local[rows] = max(-found.bound, 0.0) if found.local is None else found.local
            if found.directions.shape[1]:
                whole = np.zeros((problem.n_rows, found.directions.shape[1]))
                whole[rows] = found.directions
                directions.append(whole)
        columns = np.concatenate(directions, axis=1) if directions else np.zeros((problem.n_rows, 0))
        return Lowest(bound, value, confidence, columns, local)


class Part:
    """A symmetric matrix between some rows, sparse and of low rank and operators, on a face; multiplied in a space."""

    def __init__(self, slack: Slack, rows: Any, face: Array | None, space: Space = HOST) -> None:
        problem, self.space, self.n, self.passes = slack.problem, space, len(rows), passes_in(space)
        whole = len(rows) == problem.n_rows
        Z = slack.sparse if whole else sparse.csr_array(slack.sparse[rows][:, rows])
        used = np.flatnonzero(slack.low)
        B, w = sparse.csr_array((problem.B if whole else problem.B[rows])[:, used]), slack.low[used]
        self.others = []
        for weight, (first, last, operator) in zip(slack.high, problem.operators, strict=True):
            at = int(np.searchsorted(rows, first))
            if weight and at < len(rows) and rows[at] == first:  # all of its rows are here
                self.others.append((slice(at, at + last - first), float(weight), operator))
        self.sparse, self.Z = Z, tuple(space.adopt(part) for part in (Z.indptr, Z.indices, Z.data))
        self.B, self.Bt = (self.passes.taken(sparse.csr_array(M), space, np.float64) for M in (B, B.T))
        self.w, self.face = space.adopt(w), None if face is None else space.adopt(face)
        self.plain = face is None and not len(w) and not self.others
        # no eigenvalue is above (Gershgorin), or not much
        self.highest = float(abs(Z).sum(axis=1).max()) + float(np.abs(w) @ np.asarray(B.power(2).sum(axis=0)).ravel())
        if self.others and self.n > _DENSE:
            few = lowest_eigenpairs(self.product, self.n, 1, lambda *_: False, np.random.default_rng(0), 20, 0)
            self.highest = max(1.1 * few.highest, 1e-300)

    def product(self, D: Any) -> Any:
        """Return the matrix times D; what is off the face is left as it is."""
        U = self.face
        inside = None if U is None else U.T @ D
        D = D if U is None else D - U @ inside
        out = self.space.xp.empty_like(D)
        self.passes.weighted_rows(*self.Z, D, out, True)
        if len(self.w):
            out += self.B @ (self.w[:, None] * (self.Bt @ D))
        for rows, weight, operator in self.others:
            out[rows] += weight * np.asarray(operator @ D[rows])
        return out if U is None else out - U @ (U.T @ out) + U @ inside

    def formed(self) -> Array:
        """Return the matrix itself."""
        Z = self.sparse.toarray()
        if len(self.w):
            B = self.B.toarray()
            Z += (B * self.w) @ B.T
        for rows, weight, operator in self.others:
            M = np.asarray(operator @ np.eye(rows.stop - rows.start))
            Z[rows, rows] += 0.5 * weight * (M + M.T)
        if self.face is not None:
            U = self.face
            ZU = Z @ U
            Z = Z - ZU @ U.T - U @ ZU.T + U @ (U.T @ ZU + np.eye(U.shape[1])) @ U.T
        return 0.5 * (Z + Z.T)

    def recurrence(self, centre: float, factor: float) -> Callable[[Any, Any], None]:
        """Return the function of ``new`` and ``old`` that sets old to factor·(Z − centre)·new − old."""
        shifted = sparse.csr_array(factor * (self.sparse - centre * sparse.eye_array(self.n)))
        parts = [self.space.adopt(part) for part in (shifted.indptr, shifted.indices, shifted.data)]

        def step(new: Any, old: Any) -> None:
            old *= -1.0
            if self.plain:
                self.passes.weighted_rows(*parts, new, old, False)
            else:
                old += (self.product(new) - centre * new) * factor

        return step


def _dense_lowest(Z: Array, k: int) -> Lowest:
    n = len(Z)
    if not np.isfinite(Z).all():
        return Lowest(-math.inf, -math.inf, 1.0, np.zeros((n, 0)))
    last = min(k, n) - 1
    values, vectors = linalg.eigh(Z, subset_by_index=[0, last], check_finite=False)
    noise = 4 * n * _EPS * float(np.linalg.norm(Z, np.inf))
    return Lowest(float(values[0]) - noise, float(values[0]), 1.0, vectors[:, values < 0])


def _proven(Z: Array, shift: float) -> float | None:
    """Return a δ, a little more than ``shift``, with Z + δI ⪰ 0, by Cholesky's factorisation; None where it fails.

    If the factorisation of Z + δI − c·I succeeds in floating point, with c = γ/(1 − γ)·tr(Z + δI), γ = (n + 1)·½eps and
    a little for the diagonal, then Z + δI is positive definite (Rump, 2006).
    """
    n = len(Z)
    slack = 0.55 * (n + 4) * _EPS * (float(np.abs(Z.diagonal()).sum()) + n * shift)
    failed = lapack.dpotrf(Z + shift * np.eye(n), lower=1, overwrite_a=1)[1]
    return None if failed else shift + slack


def _sparse_lowest(Z: Part, wanted: float, generator: np.random.Generator, k: int) -> Lowest:
    """Return the lowest eigenvalues of a matrix that is too large to be formed.

    Chebyshev's polynomials prove that no eigenvalue is below a coarse threshold, then a finer one, down to −``wanted``;
    where there is one below the threshold, the vectors they leave show it: eight, but four at the last, since those
    take but a sixth more steps. Where it is not known what is wanted,
    Lanczos' method gives what it can.
    """
    if wanted <= 0:
        space = Z.space
        found = lowest_eigenpairs(
            lambda D: space.to_host(Z.product(space.adopt(D))), Z.n, k, lambda value, bound, _: value < 0, generator
        )
        return Lowest(found.bound, float(found.values[0]), found.confidence, found.vectors[:, found.values < 0])
    bound, stage, tried = -math.inf, 1e-2 * Z.highest, 0
    while True:
        stage = max(stage, wanted)
        better, block, local = _chebyshev_bound(Z, stage, generator, 4 if stage <= wanted else 8)
        tried += 1
        bound = max(bound, better)
        values, vectors = _ritz(Z, block)
        if stage <= wanted or values[0] < -stage or better == -math.inf:
            last = int(np.sum(values[:k] < 0))
            return Lowest(bound, float(values[0]), 1 - tried * FAILURE, vectors[:, :last], local)
        stage *= 1e-2


def _ritz(Z: Part, block: Any) -> tuple[Array, Array]:
    """Return eigenvalues of Z in the range of a few columns, and the vectors."""
    space = Z.space
    block = space.xp.linalg.qr(block / abs(block).max())[0]
    values, turn = np.linalg.eigh(space.read(space.gram(block, Z.product(block)))[0])
    return values, space.to_host(space.times(block, turn))


def _chebyshev_bound(Z: Part, wanted: float, generator: np.random.Generator, s: int) -> tuple[float, Any, Array | None]:
    r"""Return a bound on all eigenvalues that holds with probability 1 − `FAILURE`, whatever the spectrum.

    T_k, Chebyshev's polynomial on [−⅕ ``wanted``, ``high``], is at most 1 there and grows like a cosh outside: an
    eigenvector v with an eigenvalue λ outside shows in T_k(Z)q as \|T_k(λ)⟨q, v⟩\| ≤ ‖T_k(Z)q‖. Each of s random unit
    vectors has \|⟨q, v⟩\| ≥ δ but for a probability of δ√(2n/π), so that one of them has but for the s-th power of it.
    The three-term recurrence is stable, and needs no orthogonalisation however many steps it takes. Also return
    T_k(Z)q, in which eigenvectors of eigenvalues below −⅕ ``wanted`` stand out, and where they do: the same inequality
    for the rows of T_k(Z)q, as if each saw but one eigenvalue, tells how far that is below.
    """
    space, high = Z.space, Z.highest
    low = -0.2 * wanted
    centre, radius = 0.5 * (high + low), 0.5 * (high - low)
    delta = FAILURE ** (1 / s) / math.sqrt(2 * Z.n / math.pi)
    old = space.normal(generator, (Z.n, s))
    old /= space.xp.sqrt(Z.passes.row_products(old.T, old.T))
    if high <= 0:
        return -math.inf, old, None
    steps = math.ceil(math.acosh(4 / delta) / math.acosh((centre + wanted) / radius))
    if steps > _MOST_STEPS:
        return -math.inf, old, None
    new = (Z.product(old) - centre * old) / radius
    step = Z.recurrence(centre, 2 / radius)
    for _ in range(steps - 1):
        step(new, old)
        old, new = new, old
    largest = math.sqrt(float(Z.passes.row_products(new.T, new.T).max())) / delta
    if not math.isfinite(largest):
        return -math.inf, old, None
    seen = np.sqrt(np.maximum(space.to_host(Z.passes.row_products(new, new)) * Z.n / s, 1.0))
    local = np.maximum(radius * np.cosh(np.arccosh(seen) / steps) - centre + low, 0.0)
    return centre - radius * math.cosh(math.acosh(max(largest, 1.0)) / steps) * (1 + 1e-12), new, local


# -- the bound --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A lower bound on the minimum, how sure it is, and where it comes from."""

    value: float
    confidence: float
    reason: str
    lowest: Lowest
    y: Array


class Bounds:
    """Bounds of one programme: what follows from its constraints is worked out once."""

    def __init__(self, problem: SDP, generator: np.random.Generator, space: Space = HOST) -> None:
        self.problem, self.generator, self.space = problem, generator, space
        entries = problem.c.copy()
        entries[: problem.n_pairs][problem.i != problem.j] *= 0.5
        self.one_c = 1 + float(np.abs(entries).max(initial=0))

    def slack(self, y: Array) -> Slack:
        """Return Z = C − 𝒜*(y)."""
        return Slack(self.problem, self.problem.c - self.problem.S.T @ y, self.space)

    @cached_property
    def weights(self) -> tuple[Array, float] | None:
        """Multipliers w and t > 0 with 𝒜*(w) ⪰ tI: then t·tr Y ≤ bᵀw for every feasible Y."""
        problem = self.problem
        identity = np.zeros(len(problem.c))
        identity[: problem.n_pairs] = problem.i == problem.j
        seen = np.zeros(problem.n_rows, bool)
        seen[problem.i[problem.i == problem.j]] = True
        if problem.B.shape[1]:
            seen[problem.B.indices] = True
        if not seen.all() or not problem.m:
            return None
        target = identity
        for _ in range(_TRIALS if problem.n_rows <= _DENSE else 1):
            w = lsqr(problem.S.T, target, atol=1e-14, btol=1e-14, iter_lim=500)[0]
            for trial in (np.round(w, 10), w) if target is identity else ():
                if np.abs(problem.S.T @ trial - identity).max(initial=0) <= 1e-12:
                    return trial, 1.0 - 1e-11
            lowest = Slack(problem, problem.S.T @ w).lowest(-1e-2, self.generator)
            if lowest.bound > 1e-6:
                return w, lowest.bound
            # more of what is missing most: of the lowest eigenvector
            u = lowest.directions[:, 0] if lowest.directions.shape[1] else np.zeros(problem.n_rows)
            more = np.zeros(len(identity))
            more[: problem.n_pairs] = u[problem.i] * u[problem.j] * np.where(problem.i == problem.j, 1.0, 2.0)
            target = target + (1 - lowest.value) * more
        return None

    @property
    def trace(self) -> float:
        """What the trace of a feasible Y cannot exceed."""
        found = self.weights
        implied = max(float(self.problem.b @ found[0]), 0.0) / found[1] if found is not None else math.inf
        given = self.problem.trace_bound
        return implied if given is None else min(given, implied)

    def at(self, y: Array, tol: float, scale: float, feasible: Array | None = None, k: int = 1) -> Bound:
        """Return the best bound that y gives, accurate to tol · scale where that is possible.

        ``feasible`` is another y, with C − 𝒜*(y) positive definite, to mix with.
        """
        problem = self.problem
        trace = self.trace
        wanted = 0.5 * tol * min(scale / trace, self.one_c) if 0 < trace < math.inf else 0.0
        lowest = self.slack(y).lowest(wanted, self.generator, k)
        dual = float(problem.b @ y)
        value = dual - len(y) * _EPS * float(np.abs(problem.b * y).sum())
        if lowest.bound >= 0:
            return Bound(value, lowest.confidence, "C − 𝒜*(y) is positive semidefinite", lowest, y)
        best, reason = -math.inf, "C − 𝒜*(y) has negative eigenvalues, and no bound on the trace of Y is known"
        slacks = [k for k, size in enumerate(problem.blocks) if size < 0]
        if trace < math.inf and (trace < (problem.trace_bound or math.inf) or not slacks):
            best, reason = value + trace * lowest.bound, f"tr Y ≤ {trace:.6g}"
        if feasible is not None and math.isfinite(lowest.bound):
            other = self.slack(feasible).lowest(0.0, self.generator)
            if other.bound > 0:  # the lowest eigenvalue is concave: that of the mixture is positive
                share = min(-lowest.bound / (other.bound - lowest.bound) * (1 + 1e-6), 1.0)
                mixed = (1 - share) * y + share * feasible
                value = float(problem.b @ mixed) - len(y) * _EPS * float(np.abs(problem.b * mixed).sum())
                if value > best:
                    best, reason = value, "a combination of multipliers that is feasible"
        return Bound(best, lowest.confidence, reason, lowest, y)
