"""What the multipliers y prove: a bound on the optimum from the lowest eigenvalues of Z = C − 𝒜*(y)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import lsqr

from quartic.arrays import Array
from quartic.compiled.lanczos import FAILURE, lowest_eigenpairs
from quartic.sdp.passes import chebyshev_step
from quartic.sdp.problem import SDP

# Components up to this size are formed; their bounds hold for certain, up to round-off that is allowed for.
_DENSE = 2500
# Up to this size all eigenvalues are computed.
_EIGENVALUES = 900
# Steps that Chebyshev's polynomials may take.
_MOST_STEPS = 100_000
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Lowest:
    """The lowest eigenvalues of a symmetric matrix of the programme, over all components.

    Attributes
    ----------
    bound : float
        No eigenvalue lies below, with probability ``confidence``.
    value : float
        About the lowest eigenvalue.
    confidence : float
        1, or a little less where Lanczos' method or Chebyshev's polynomials gave the bound.
    directions : array (n_rows, k)
        Eigenvectors of negative eigenvalues, where there are any.
    """

    bound: float
    value: float
    confidence: float
    directions: Array


class Slack:
    """The matrix Σ v_p E_p, where E_p is the p-th entry, vector or operator of a programme."""

    def __init__(self, problem: SDP, v: Array) -> None:
        self.problem, self.v = problem, v
        P, T = problem.n_pairs, problem.B.shape[1]
        n = problem.n_rows
        # an entry off the diagonal stands for two, one on it for itself: half of each, and half of its mirror image
        upper = sparse.csr_array((0.5 * v[:P], (problem.i, problem.j)), shape=(n, n))
        self.sparse = sparse.csr_array(upper + upper.T)
        self.low, self.high = v[P : P + T], v[P + T :]

    def product(self, D: Array) -> Array:
        """Return the matrix times D."""
        problem = self.problem
        out = self.sparse @ D
        if len(self.low):
            out += problem.B @ (self.low[:, None] * (problem.B.T @ D))
        for weight, (first, last, operator) in zip(self.high, problem.operators, strict=True):
            if weight:
                out[first:last] += weight * np.asarray(operator @ D[first:last])
        return out

    def lowest(self, wanted: float, generator: np.random.Generator, k: int = 1) -> Lowest:
        """Return the lowest eigenvalues, known well enough to tell whether the lowest is above −``wanted``.

        On the face of the positive semidefinite matrices that the constraints confine Y to.
        """
        problem = self.problem
        diagonal = self.sparse.diagonal()
        sizes = np.bincount(problem.components)
        single = sizes[problem.components] == 1
        bound = value = float(diagonal[single].min(initial=math.inf))
        confidence, directions = 1.0, []
        if value < 0:
            column = np.zeros((problem.n_rows, 1))
            column[np.flatnonzero(single)[np.argmin(diagonal[single])]] = 1.0
            directions.append(column)
        for c in np.flatnonzero(sizes > 1):
            rows = problem.rows_of_components[c]
            low, lowest, sure, vectors = self._of_component(int(c), rows, wanted, generator, k)
            bound, value, confidence = min(bound, low), min(value, lowest), min(confidence, sure)
            if vectors.shape[1]:
                whole = np.zeros((problem.n_rows, vectors.shape[1]))
                whole[rows] = vectors
                directions.append(whole)
        found = np.concatenate(directions, axis=1) if directions else np.zeros((problem.n_rows, 0))
        return Lowest(bound, value, confidence, found)

    def _of_component(
        self, c: int, rows: Array, wanted: float, generator: np.random.Generator, k: int
    ) -> tuple[float, float, float, Array]:
        n = len(rows)
        face = self.problem.face(c)
        if n <= _DENSE:
            Z = self._formed(rows)
            if face is not None:
                Z = _on_face(Z, face)
            return _dense_lowest(Z, wanted, k)
        whole = np.zeros(self.problem.n_rows)
        plain = n == len(whole) and face is None and not len(self.low) and not len(self.high)

        def product(D: Array) -> Array:
            if n == len(whole):
                return self.product(D)
            padded = np.zeros((len(whole), D.shape[1]))
            padded[rows] = D
            return self.product(padded)[rows]

        apply = product if face is None else _projected(product, face)
        return _sparse_lowest(apply, n, wanted, generator, k, self.sparse if plain else None)

    def _formed(self, rows: Array) -> Array:
        problem = self.problem
        Z = self.sparse[rows][:, rows].toarray()
        B = problem.B[rows].toarray() if len(self.low) else np.zeros((len(rows), 0))
        Z += (B * self.low) @ B.T
        local = np.full(problem.n_rows, -1)
        local[rows] = np.arange(len(rows))
        for weight, (first, last, operator) in zip(self.high, problem.operators, strict=True):
            place = local[first:last]
            if weight and (place >= 0).all():
                M = np.asarray(operator @ np.eye(last - first))
                Z[np.ix_(place, place)] += 0.5 * weight * (M + M.T)
        return Z


def _on_face(Z: Array, U: Array) -> Array:
    """Return Z restricted to the complement of the orthonormal U; the range of U gets a large eigenvalue."""
    ZU = Z @ U
    inside = U.T @ ZU
    Z = Z - ZU @ U.T - U @ ZU.T + U @ (inside @ U.T)
    return 0.5 * (Z + Z.T) + (1 + float(np.abs(Z).sum(axis=1).max())) * (U @ U.T)


def _projected(product: Callable[[Array], Array], U: Array) -> Callable[[Array], Array]:
    def apply(D: Array) -> Array:
        inside = U.T @ D
        out = product(D - U @ inside)
        return out - U @ (U.T @ out) + U @ inside

    return apply


def _dense_lowest(Z: Array, wanted: float, k: int) -> tuple[float, float, float, Array]:
    """Return bound, value, confidence and eigenvectors of negative eigenvalues."""
    n = len(Z)
    if not np.isfinite(Z).all():
        return -math.inf, -math.inf, 1.0, np.zeros((n, 0))
    if n > _EIGENVALUES and wanted > 0:
        proven = _proven(Z, wanted)
        if proven is not None:
            return -proven, -proven, 1.0, np.zeros((n, 0))
    last = min(k, n) - 1
    values, vectors = linalg.eigh(Z, subset_by_index=[0, last], check_finite=False)
    noise = 4 * n * _EPS * float(np.linalg.norm(Z, np.inf))
    bound = float(values[0]) - noise
    if bound < 0 <= float(values[0]):  # perhaps round-off is all there is to it
        proven = _proven(Z, 0.0)
        bound = 0.0 if proven == 0.0 else bound
    return bound, float(values[0]), 1.0, vectors[:, values < 0]


def _proven(Z: Array, shift: float) -> float | None:
    """Return a δ ≥ 0, a little more than ``shift``, with Z + δI ⪰ 0, by Cholesky's factorisation; None where it fails.

    If the factorisation of Z + δI − c·I succeeds in floating point, with c = (n + 1)·eps·tr(Z + δI), then Z + δI is
    positive definite (Rump, 2006). With a shift of 0 the answer is 0 or None.
    """
    n = len(Z)
    trace = float(np.abs(Z.diagonal()).sum()) + n * shift
    slack = 2 * (n + 2) * _EPS * trace
    trial = Z + (shift if shift > 0 else -slack) * np.eye(n)
    if lapack.dpotrf(trial, lower=1, overwrite_a=1)[1]:
        return None
    return shift + slack if shift > 0 else 0.0


def _sparse_lowest(
    product: Callable[[Array], Array], n: int, wanted: float, generator: np.random.Generator, k: int, matrix: Any
) -> tuple[float, float, float, Array]:
    """Return bound, value, confidence and eigenvectors of negative eigenvalues; ``matrix`` if products are with one.

    A few steps of Lanczos' method show eigenvalues that are clearly negative. If there are none, Chebyshev's
    polynomials prove that none is below −``wanted``, or show those that are.
    """

    def enough(value: float, bound: float, highest: float) -> bool:
        return bound >= -wanted or value < -4 * wanted

    found = lowest_eigenpairs(product, n, k, enough, generator, steps=80, dense=0)
    bound, values, vectors = found.bound, found.values, found.vectors
    if wanted > 0 and bound < -wanted and values[0] > -4 * wanted:
        high = found.highest + (found.highest - float(values[0])) * 0.05
        better, block = _chebyshev_bound(product, n, wanted, high, generator, matrix)
        bound = max(bound, better)
        Q = np.linalg.qr(block)[0]
        ritz, turn = np.linalg.eigh(Q.T @ product(Q))
        if ritz[0] < values[0]:
            values, vectors = ritz[:k], Q @ turn[:, :k]
    return bound, float(values[0]), 1 - 2 * FAILURE, vectors[:, values < 0]


def _chebyshev_bound(
    product: Callable[[Array], Array],
    n: int,
    wanted: float,
    high: float,
    generator: np.random.Generator,
    matrix: Any = None,
) -> tuple[float, Array]:
    r"""Return a bound on all eigenvalues that holds with probability 1 − `FAILURE`, whatever the spectrum.

    T_k, Chebyshev's polynomial on [−½ ``wanted``, ``high``], is at most 1 there and grows like a cosh outside: an
    eigenvector v with an eigenvalue λ outside shows in T_k(Z)q as \|T_k(λ)⟨q, v⟩\| ≤ ‖T_k(Z)q‖. Each of s random unit
    vectors has \|⟨q, v⟩\| ≥ δ but for a probability of δ√(2n/π), so that one of them has but for the s-th power of it.
    The three-term recurrence is stable, and needs no orthogonalisation however many steps it takes. Also return
    T_k(Z)q, in which eigenvectors of eigenvalues below −½ ``wanted`` stand out.
    """
    s = 8
    low = -0.5 * wanted
    centre, radius = 0.5 * (high + low), 0.5 * (high - low)
    delta = FAILURE ** (1 / s) / math.sqrt(2 * n / math.pi)
    steps = math.ceil(math.acosh(4 / delta) / math.acosh((centre + wanted) / radius))
    old = generator.standard_normal((n, s))
    old /= np.linalg.norm(old, axis=0)
    if steps > _MOST_STEPS:
        return -math.inf, old
    new = (product(old) - centre * old) / radius
    for _ in range(steps - 1):
        if matrix is not None:
            chebyshev_step(matrix.indptr, matrix.indices, matrix.data, centre, 2 / radius, new, old)
        else:
            old = (product(new) - centre * new) * (2 / radius) - old
        old, new = new, old
    largest = float(np.linalg.norm(new, axis=0).max()) / delta
    if not math.isfinite(largest):
        return -math.inf, old
    return centre - radius * math.cosh(math.acosh(max(largest, 1.0)) / steps) * (1 + 1e-12), new


# -- the bound --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A lower bound on the minimum, how sure it is, and where it comes from."""

    value: float
    confidence: float
    reason: str
    lowest: Lowest


class Bounds:
    """Bounds of one programme: what follows from its constraints is worked out once."""

    def __init__(self, problem: SDP, generator: np.random.Generator) -> None:
        self.problem, self.generator = problem, generator
        self._weights: tuple[Array, float] | str | None = "unknown"

    def slack(self, y: Array) -> Slack:
        """Return Z = C − 𝒜*(y)."""
        return Slack(self.problem, self.problem.c - self.problem.S.T @ y)

    @property
    def weights(self) -> tuple[Array, float] | None:
        """Multipliers w and t > 0 with 𝒜*(w) ⪰ tI: then t·tr Y ≤ bᵀw for every feasible Y."""
        if isinstance(self._weights, str):
            self._weights = self._find_weights()
        return self._weights

    @property
    def trace(self) -> float:
        """What the trace of a feasible Y cannot exceed."""
        found = self.weights
        implied = max(float(self.problem.b @ found[0]), 0.0) / found[1] if found is not None else math.inf
        given = self.problem.trace_bound
        return implied if given is None else min(given, implied)

    def _find_weights(self) -> tuple[Array, float] | None:
        problem = self.problem
        identity = np.zeros(len(problem.c))
        identity[: problem.n_pairs] = problem.i == problem.j
        seen = np.zeros(problem.n_rows, bool)
        seen[problem.i[problem.i == problem.j]] = True
        if problem.B.shape[1]:
            seen[problem.B.indices] = True
        if not seen.all() or not problem.m:
            return None
        w = lsqr(problem.S.T, identity, atol=1e-14, btol=1e-14, iter_lim=500)[0]
        rounded = np.round(w, 10)
        for trial in (rounded, w):
            v = problem.S.T @ trial
            if np.abs(v - identity).max(initial=0) <= 1e-12:
                return trial, 1.0 - 1e-11
        lowest = Slack(problem, problem.S.T @ w).lowest(-1e-2, self.generator)
        return (w, lowest.bound) if lowest.bound > 1e-6 else None

    def at(self, y: Array, tol: float, scale: float, feasible: Array | None = None, k: int = 1) -> Bound:
        """Return the best bound that y gives, accurate to tol · scale where that is possible.

        ``feasible`` is another y, with C − 𝒜*(y) positive definite, to mix with.
        """
        problem = self.problem
        trace = self.trace
        wanted = 0.5 * tol * scale / trace if 0 < trace < math.inf else 0.0
        lowest = self.slack(y).lowest(wanted, self.generator, k)
        dual = float(problem.b @ y)
        value = dual - len(y) * _EPS * float(np.abs(problem.b * y).sum())
        if lowest.bound >= 0:
            return Bound(value, lowest.confidence, "C − 𝒜*(y) is positive semidefinite", lowest)
        best, reason = -math.inf, "C − 𝒜*(y) has negative eigenvalues, and no bound on the trace of Y is known"
        slacks = [k for k, size in enumerate(problem.blocks) if size < 0]
        if trace < math.inf and (trace < (problem.trace_bound or math.inf) or not slacks):
            best, reason = value + trace * lowest.bound, f"tr Y ≤ {trace:.6g}"
        if feasible is not None and math.isfinite(lowest.bound):
            other = self.slack(feasible).lowest(0.0, self.generator)
            if other.bound > 0:
                share = min(-lowest.bound / (other.bound - lowest.bound) * (1 + 1e-6), 1.0)
                mixed = (1 - share) * y + share * feasible
                value = float(problem.b @ mixed) - len(y) * _EPS * float(np.abs(problem.b * mixed).sum())
                if value > best and self.slack(mixed).lowest(0.0, self.generator).bound >= 0:
                    best, reason = value, "a combination of multipliers that is feasible"
        return Bound(best, lowest.confidence, reason, lowest)
