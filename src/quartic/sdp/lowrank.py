"""The low-rank method: Y = XXᵀ with tall X, on a product of spheres, by an augmented Lagrangian and Newton's method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from quartic.arrays import Array
from quartic.core.result import Status
from quartic.sdp.bound import Bound, Bounds, Slack
from quartic.sdp.passes import (
    conjugate_step,
    curve_terms,
    make_tangent,
    next_direction,
    pair_products,
    weighted_rows,
)  # fmt: skip
from quartic.sdp.problem import SDP
from quartic.sdp.run import Iterate

# Products that one Newton step may take.
_MOST_PRODUCTS = 500
# Updates of the multipliers without a gain in feasibility after which it is time for a proof that there is none.
_HOPELESS = 6


class Spheres:
    r"""The programme in coordinates in which some constraints are spheres, and the others unit-sized.

    A constraint Σ a_i Y_ii = b with positive a and b says that the rows √(a_i/b)·x_i, stacked, have length one. As many
    of these as do not overlap hold by construction; for MaxCut and its like that is all of them. The others are
    ``rest``; 𝒜, b and C below are theirs, in the scaled coordinates.
    """

    def __init__(self, problem: SDP, active: Array) -> None:
        self.problem = problem
        P, S = problem.n_pairs, problem.S
        diagonal = np.zeros(len(problem.c), bool)
        diagonal[:P] = problem.i == problem.j
        group = np.full(problem.n_rows, -1)
        length = np.ones(problem.n_rows)
        chosen: list[int] = []
        counts = np.diff(S.indptr)
        signs = sparse.csr_array(((S.data > 0) & diagonal[S.indices], S.indices, S.indptr), shape=S.shape, dtype=float)
        fit = active[(np.asarray(signs.sum(axis=1)).ravel() == counts)[active] & (problem.b > 0)[active]]
        fit = fit[counts[fit] > 0]
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
        self.group, self.length = group, length
        self.rest = np.setdiff1d(active, self.on_sphere)
        self.i, self.j = problem.i, problem.j
        factor = np.ones(len(problem.c))
        factor[:P] = length[self.i] * length[self.j]
        self.B = sparse.csr_array(sparse.diags_array(length) @ problem.B)
        self.factor = factor  # from the entries of XXᵀ here to those of Y
        c, S = problem.c * factor, sparse.csr_array(S[self.rest] @ sparse.diags_array(factor))
        weight = np.ones(len(c))
        weight[:P][self.i != self.j] = math.sqrt(0.5)
        self.one_c = 1 + float(np.abs(problem.c * weight**2).max(initial=0))
        self.size_c = float(np.linalg.norm(c * weight)) or 1.0
        self.norms = np.sqrt(np.asarray(S.multiply(weight[None]).power(2).sum(axis=1)).ravel())
        self.norms[self.norms == 0] = 1.0
        self.c = c
        self.S = sparse.csr_array(sparse.diags_array(1 / self.norms) @ S)
        self.St = sparse.csr_array(self.S.T)
        self.b = problem.b[self.rest] / self.norms
        # both triangles of the pattern, by rows
        twice = self.i != self.j
        rows, columns = np.r_[self.i, self.j[twice]], np.r_[self.j, self.i[twice]]
        pairs = np.r_[np.arange(P), np.flatnonzero(twice)]
        order = np.lexsort((columns, rows))
        self.start = np.searchsorted(rows[order], np.arange(problem.n_rows + 1))
        self.columns, self.pairs = columns[order], pairs[order]
        self.doubled = np.where(self.columns == rows[order], 2.0, 1.0)

    # -- X ---------------------------------------------------------------------------------------------------------

    def retract(self, X: Array) -> Array:
        """Return X with every sphere's rows scaled to length one."""
        lengths = np.bincount(self.group, np.einsum("ij,ij->i", X, X), self.n_spheres + 1)
        lengths[-1] = 1.0
        return X / np.sqrt(lengths)[self.group][:, None]

    def measure(self, X: Array) -> Array:
        """Return the entries u of XXᵀ that the programme looks at."""
        u = np.empty(len(self.c))
        P, T = len(self.i), self.B.shape[1]
        pair_products(X, self.i, self.j, u[:P])
        u[P : P + T] = ((self.B.T @ X) ** 2).sum(axis=1)
        for k, (rows, operator) in enumerate(self._operators()):
            u[P + T + k] = np.vdot(X[rows], operator(X[rows]))
        return u

    def _operators(self) -> Iterator[tuple[slice, Any]]:
        for first, last, operator in self.problem.operators:
            rows = slice(first, last)
            scale = self.length[rows][:, None]
            yield rows, lambda D, scale=scale, operator=operator: scale * np.asarray(operator @ (scale * D))

    def weighted(self, v: Array, X: Array) -> Array:
        """Return the gradient of Σ v_p u_p in X."""
        G = np.empty_like(X)
        weighted_rows(self.start, self.columns, self.weights(v), X, G, True)
        self.add_others(v, X, G)
        return G

    def weights(self, v: Array) -> Array:
        """Return the sparse matrix that is the gradient's, by rows."""
        return self.doubled * v[self.pairs]

    def add_others(self, v: Array, X: Array, G: Array) -> None:
        """Add to G what vectors and operators contribute to the gradient."""
        P, T = len(self.i), self.B.shape[1]
        if T:
            G += 2 * (self.B @ (v[P : P + T, None] * (self.B.T @ X)))
        for weight, (rows, operator) in zip(v[P + T :], self._operators(), strict=True):
            G[rows] += 2 * weight * operator(X[rows])

    def changes(self, X: Array, D: Array) -> tuple[Array, Array]:
        """Return the first and second order of u along X + tD."""
        first, second = np.empty(len(self.c)), np.empty(len(self.c))
        P, T = len(self.i), self.B.shape[1]
        curve_terms(X, D, self.i, self.j, first[:P], second[:P])
        BX, BD = self.B.T @ X, self.B.T @ D
        first[P : P + T], second[P : P + T] = 2 * (BX * BD).sum(axis=1), (BD**2).sum(axis=1)
        for k, (rows, operator) in enumerate(self._operators()):
            product = operator(D[rows])
            first[P + T + k], second[P + T + k] = 2 * np.vdot(X[rows], product), np.vdot(D[rows], product)
        return first, second

    def first_rank(self) -> int:
        """Return the columns to begin with: a solution with about √(2m) exists, most have far fewer."""
        return min(self.most_rank(), 8 + math.ceil(math.log2(self.problem.n_rows)))

    def most_rank(self) -> int:
        """Return the columns with which every minimum is global, but for special data (Boumal and others, 2016)."""
        largest = max(len(rows) for rows in self.problem.rows_of_components)
        return max(1, min(largest, math.ceil(math.sqrt(2 * (len(self.rest) + self.n_spheres))) + 1))


@dataclass
class _Point:
    """A point X with all that the augmented Lagrangian needs there."""

    X: Array
    u: Array
    residual: Array
    value: float
    v: Array  # weights of the entries in the gradient
    gradient: Array  # along the spheres
    mu: Array  # of the spheres; the last one is zero
    slope: float  # its norm


class Lagrangian:
    """⟨C, XXᵀ⟩ − yᵀ(𝒜(XXᵀ) − b) + ½σ‖𝒜(XXᵀ) − b‖² on the spheres."""

    def __init__(self, data: Spheres, y: Array, sigma: float) -> None:
        self.data, self.y, self.sigma = data, y, sigma
        self.sums = np.zeros(data.n_spheres + 1)
        self.n_products = 0

    def value(self, u: Array) -> float:
        """Return the Lagrangian where the entries are u."""
        data = self.data
        residual = data.S @ u - data.b
        return float(data.c @ u - self.y @ residual + 0.5 * self.sigma * residual @ residual)

    def at(self, X: Array) -> _Point:
        """Return the point X."""
        data = self.data
        u = data.measure(X)
        residual = data.S @ u - data.b
        v = data.c - data.St @ (self.y - self.sigma * residual)
        value = float(data.c @ u - self.y @ residual + 0.5 * self.sigma * residual @ residual)
        G = data.weighted(v, X)
        mu: Any = np.bincount(data.group, np.einsum("ij,ij->i", X, G), data.n_spheres + 1)
        mu[-1] = 0.0
        R = G - mu[data.group][:, None] * X
        self.n_products += 1
        return _Point(X, u, residual, value, v, R, mu, float(np.linalg.norm(R)))

    def hessian_product(self, point: _Point, weights: Array, D: Array, H: Array) -> float:
        """Set H to the Hessian along the spheres times D, and return ⟨D, H⟩; ``weights`` are those of the gradient."""
        data, X = self.data, point.X
        weighted_rows(data.start, data.columns, weights, D, H, True)
        data.add_others(point.v, D, H)
        if len(data.b):
            first, _ = data.changes(X, D)
            w = self.sigma * (data.St @ (data.S @ first))
            weighted_rows(data.start, data.columns, data.weights(w), X, H, False)
            data.add_others(w, X, H)
        self.n_products += 1
        return float(make_tangent(X, data.group, point.mu, D, H, self.sums))

    def row_scales(self, point: _Point) -> Array:
        """Return about the Hessian's diagonal, a number for each row."""
        data = self.data
        P = len(data.i)
        diagonal = np.zeros(len(data.group))
        same = data.i == data.j
        diagonal[data.i[same]] = 2 * point.v[:P][same]
        scales = diagonal - point.mu[data.group]
        if len(data.b):
            squares = np.asarray(data.S.power(2).sum(axis=0)).ravel()[:P] * self.sigma / point.X.shape[1]
            lengths = np.einsum("ij,ij->i", point.X, point.X)
            scales = scales + np.bincount(data.i, squares * lengths[data.j] * np.where(same, 4, 1), len(lengths))
            scales += np.bincount(data.j[~same], (squares * lengths[data.i])[~same], len(lengths))
        floor = 1e-3 * float(np.abs(scales).mean())
        scales = np.maximum(scales, floor if floor > 0 else 1.0)
        shared = np.bincount(data.group, minlength=data.n_spheres + 1)
        shared[-1] = 0
        if (shared > 1).any():  # one number for all rows of a sphere keeps directions along it
            mean = np.bincount(data.group, scales, data.n_spheres + 1) / np.maximum(shared, 1)
            scales = np.where(shared[data.group] > 1, mean[data.group], scales)
        return scales

    def newton_direction(self, point: _Point, radius: float, forcing: float) -> tuple[Array, float, bool]:
        """Return about the minimiser of the quadratic model within the radius (Steihaug's conjugate gradients).

        Also its length in the norm of the row scales, and whether that is the radius.
        """
        weights, scale = self.data.weights(point.v), self.row_scales(point)
        R = point.gradient.copy()
        D, H, P = np.zeros_like(R), np.empty_like(R), -R / scale[:, None]
        rz = -float(np.vdot(R, P))
        length2 = cross = 0.0
        p2 = rz
        for _ in range(_MOST_PRODUCTS):
            curvature = self.hessian_product(point, weights, P, H)
            step = rz / curvature if curvature > 0 else math.inf
            if curvature <= 0 or length2 + 2 * step * cross + step * step * p2 >= radius**2:
                tau = (-cross + math.sqrt(max(cross * cross + p2 * (radius**2 - length2), 0.0))) / p2
                return D + tau * P, radius, True
            length2 += 2 * step * cross + step * step * p2
            plain, following = conjugate_step(step, P, H, D, R, scale)
            if math.sqrt(plain) <= forcing * point.slope:
                break
            beta = following / rz
            rz = following
            next_direction(beta, R, scale, P)
            cross, p2 = beta * (cross + step * p2), rz + beta * beta * p2
        return D, math.sqrt(length2), False

    def search(self, point: _Point, D: Array) -> float:
        """Return a t with a low value at the retraction of X + tD.

        Along that curve u_p(t) = (a + bt + ct²)/(ℓ_i(t)ℓ_j(t)): after one pass, each value costs as much as u.
        """
        data = self.data
        first, second = data.changes(point.X, D)
        P = len(data.i)
        squares = np.bincount(data.group, np.einsum("ij,ij->i", D, D), data.n_spheres + 1)
        cross = 2 * np.bincount(data.group, np.einsum("ij,ij->i", point.X, D), data.n_spheres + 1)
        squares[-1] = cross[-1] = 0.0
        gi, gj = data.group[data.i], data.group[data.j]
        others = len(data.c) > P

        def value(t: float) -> float:
            inverse = 1 / np.sqrt(1 + t * cross + t * t * squares)
            u = point.u + t * first + t * t * second
            u[:P] *= inverse[gi] * inverse[gj]
            if others:
                return self.value(data.measure(data.retract(point.X + t * D)))
            return self.value(u)

        noise = 1e-14 * float(np.abs(data.c * point.u).sum())
        return _least(value, point.value, noise)


def _least(value: Any, here: float, noise: float) -> float:
    """Return about the t > 0 with the least value: doubled or halved from 1, then refined by a parabola.

    Where round-off hides all changes it is 1, Newton's own; where nothing is lower it is 0.
    """
    t, best = 1.0, value(1.0)
    if abs(best - here) <= noise:
        return 1.0
    if best < here:
        while t < 64:
            further = value(2 * t)
            if not further < best:
                break
            t, best = 2 * t, further
    else:
        while not best < here:
            t *= 0.25
            if t < 1e-12:
                return 0.0
            best = value(t)
    low, high = value(0.5 * t), value(1.5 * t)
    curve = low - 2 * best + high
    if curve > 0:
        guess = t * (1 + 0.25 * (low - high) / curve)
        if 0.5 * t < guess < 1.5 * t and value(guess) < best:
            return guess
    if low < best:
        return 0.5 * t
    return 1.5 * t if high < best else t


# -- the method -------------------------------------------------------------------------------------------------------


class _Method:
    """The state of a run: a point of the Lagrangian, its radius of trust, the last attempt at a proof."""

    def __init__(self, data: Spheres, bounds: Bounds, tol: float, generator: np.random.Generator) -> None:
        self.data, self.bounds, self.tol, self.generator = data, bounds, tol, generator

    def begin(self, rank: int, start: dict[str, Array] | None) -> None:
        """Take a random start, or that of a checkpoint."""
        data = self.data
        n = data.problem.n_rows
        if start is not None:
            X, y, sigma = start["X"], start["y"], float(start["sigma"])
            if X.ndim != 2 or len(X) != n or y.shape != data.b.shape:
                raise ValueError("the arrays are not those of this programme")
        else:
            X = self.generator.standard_normal((n, rank)) / math.sqrt(rank)
            X = data.retract(X)
            y, sigma = np.zeros(len(data.b)), 0.0
        self.lagrangian = Lagrangian(data, y, sigma)
        if start is None and len(data.b):
            u = data.measure(X)
            residual = data.S @ u - data.b
            self.lagrangian.sigma = (
                10 * max(abs(float(data.c @ u)), data.size_c) / max(float(residual @ residual), 1e-3)
            )
        self.point = self.lagrangian.at(X)
        self.first = max(self.point.slope, data.size_c * 1e-3)
        self.radius, self.tried = math.inf, math.inf
        self.gain = math.inf

    def step(self, forcing: float) -> None:
        """Make one Newton step."""
        lagrangian, point = self.lagrangian, self.point
        if point.slope == 0.0:
            self.gain = 0.0
            return
        if self.radius == math.inf:
            scale = lagrangian.row_scales(point)
            self.radius = 0.3 * math.sqrt(float(scale @ np.einsum("ij,ij->i", point.X, point.X)))
        D, length, reached = lagrangian.newton_direction(point, self.radius, forcing)
        t = lagrangian.search(point, D)
        if t == 0.0:
            self.radius = 0.1 * length
            self.gain = 0.0
            return
        if reached and t >= 1:
            self.radius = 2 * t * length
        elif t < 0.5:
            self.radius = max(2 * t * length, 0.25 * self.radius)
        before = point.value
        self.point = lagrangian.at(self.data.retract(point.X + t * D))
        self.gain = before - self.point.value

    def shrink(self) -> None:
        """Leave out columns that are nearly zero after a rotation, but for one."""
        X = self.point.X
        values, vectors = np.linalg.eigh(X.T @ X)
        keep = values > 1e-7 * values[-1]
        if np.count_nonzero(~keep) > 2:
            keep[np.flatnonzero(~keep)[-2:]] = True
            self.point = self.lagrangian.at(self.data.retract(np.ascontiguousarray(X @ vectors[:, keep])))

    def escape(self, directions: Array) -> bool:
        """Add columns along directions in which Z is negative, if that gains more than the last Newton step did."""
        data, X = self.data, self.point.X
        V = directions / data.length[:, None]
        k = V.shape[1]
        if not k:
            return False
        wide = np.hstack([X, np.zeros((len(X), k))])
        D = np.hstack([np.zeros_like(X), V * (math.sqrt(len(X)) / np.linalg.norm(V) / 4)])
        point = self.lagrangian.at(wide)
        t = self.lagrangian.search(point, D)
        following = self.lagrangian.at(data.retract(wide + t * D))
        if not point.value - following.value > max(self.gain, 1e-12 * abs(point.value)):
            return False
        self.point = following
        return True

    def multipliers(self) -> Array:
        """Return y of all constraints, in the user's units."""
        data, point = self.data, self.point
        y = np.zeros(data.problem.m)
        y[data.on_sphere] = point.mu[:-1] / (2 * data.problem.b[data.on_sphere])
        y[data.rest] = (self.lagrangian.y - self.lagrangian.sigma * point.residual) / data.norms
        return y

    def infeasibility(self) -> float:
        """Return the first of the DIMACS errors."""
        data = self.data
        worst = float(np.abs(data.problem.b).max(initial=0))
        return float(np.linalg.norm(self.point.residual * data.norms)) / (1 + worst)

    def iterate(self, bound: Bound | None = None, done: bool = False) -> Iterate:
        """Return this point in the user's units."""
        data, point = self.data, self.point
        primal, y = float(data.c @ point.u), self.multipliers()
        state = {"X": point.X, "y": self.lagrangian.y, "sigma": np.array(self.lagrangian.sigma)}
        relative = point.slope * float(np.linalg.norm(point.X)) / (1 + abs(primal))
        return Iterate(
            primal, float(data.problem.b @ y), self.infeasibility(), relative,
            lambda: point.X * data.length[:, None], y, None, state, done, None, bound,
        )  # fmt: skip

    def unbounded(self) -> bool:
        """Tell whether X proves that the programme is unbounded: ⟨C, XXᵀ⟩ < 0 and 𝒜(XXᵀ) = 0, relatively."""
        data, problem = self.data, self.data.problem
        if not (self.data.group == data.n_spheres).any() or not self.point.value < -1e6 * data.size_c:
            return False
        size = np.sqrt(np.asarray(problem.S.power(2).sum(axis=1)).ravel())
        left = problem.S @ (self.point.u * data.factor) / np.where(size > 0, size, 1.0)
        return float(np.linalg.norm(left)) < -1e-6 * float(data.c @ self.point.u) / data.size_c

    def infeasible(self) -> bool:
        """Tell whether the residual proves that no Y ⪰ 0 satisfies the constraints.

        Where ½‖𝒜(XXᵀ) − b‖² is stationary, its negative gradient in 𝒜 are multipliers of a programme without objective;
        a positive bound of that one is the proof.
        """
        data, problem, X = self.data, self.data.problem, self.point.X
        G = data.weighted(data.St @ self.point.residual, X)
        mu = np.bincount(data.group, np.einsum("ij,ij->i", X, G), data.n_spheres + 1)
        y = np.zeros(problem.m)
        y[data.on_sphere] = mu[:-1] / (2 * problem.b[data.on_sphere])
        y[data.rest] = -self.point.residual / data.norms
        value = float(problem.b @ y)
        lowest = Slack(problem, -(problem.S.T @ y)).lowest(0.0, self.generator).bound
        trace = min(self.bounds.trace, 1e8)
        return value > 0 and value + trace * min(lowest, 0.0) > 0

    def prove(self, k: int) -> Bound:
        """Return the bound that the multipliers give."""
        primal = float(self.data.c @ self.point.u)
        return self.bounds.at(self.multipliers(), self.tol, 1 + abs(primal), k=k)


def low_rank(
    problem: SDP,
    active: Array,
    tol: float,
    rank: int | None,
    bounds: Bounds,
    generator: np.random.Generator,
    start: dict[str, Array] | None = None,
) -> Iterator[Iterate]:
    r"""Minimise over X by Newton's method on the spheres; constraints that are none by an augmented Lagrangian.

    The multipliers of the spheres are known in closed form at any point, those of the other constraints are updated
    when the Lagrangian is as good as stationary. When both X and the multipliers are good enough, the lowest eigenvalue
    of Z = C − 𝒜*(y) decides: a bound that is close enough ends the run, negative eigenvectors are new columns of X.
    """
    data = Spheres(problem, active)
    run = _Method(data, bounds, tol, generator)
    run.begin(data.first_rank() if rank is None else rank, start)
    constrained = len(data.b) > 0
    wanted, previous, failures, hopeless = 0.1, math.inf, 0, 0
    yield run.iterate()
    while True:
        relative = run.point.slope / run.first
        run.step(min(0.1, max(relative, 1e-4)))
        primal = float(data.c @ run.point.u)
        if run.unbounded():
            yield replace(run.iterate(), verdict=Status.UNBOUNDED)
            return
        scale = 1 + abs(primal)
        stuck = run.gain <= 1e-14 * scale
        quiet = run.point.slope <= wanted * run.first or stuck
        bound = None
        if constrained and quiet:
            infeasible = run.infeasibility()
            run.lagrangian.y = run.lagrangian.y - run.lagrangian.sigma * run.point.residual
            if infeasible > 0.25 * previous:
                run.lagrangian.sigma *= 3
            hopeless = hopeless + 1 if infeasible > max(0.9 * previous, tol) else 0
            if hopeless > _HOPELESS:
                yield replace(run.iterate(done=True), verdict=Status.INFEASIBLE if run.infeasible() else None)
                return
            previous = infeasible
            run.point = run.lagrangian.at(run.point.X)
            wanted = max(0.3 * wanted, 1e-10)
            quiet = infeasible <= 0.5 * tol
        if quiet and run.gain <= 0.1 * tol * scale and (run.point.slope <= 0.3 * run.tried or stuck):
            run.tried = run.point.slope
            run.shrink()
            bound = run.prove(4)
            done = primal - bound.value <= tol * scale and -bound.lowest.bound <= tol * data.one_c
            if done or (stuck and failures > 3):
                yield run.iterate(bound, True)
                return
            failures += stuck
            if run.escape(bound.lowest.directions):
                run.tried, failures = math.inf, 0
        yield run.iterate()
