"""The low-rank method: Y = XXᵀ with tall X, on a product of spheres, by an augmented Lagrangian and Newton's method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quartic.arrays import HOST, Array, eps
from quartic.core.result import Status
from quartic.sdp.bound import Bound, Bounds, Slack
from quartic.sdp.run import Iterate
from quartic.sdp.spheres import Blocks, Slots, Spheres

# Products that one Newton step may take.
_MOST_PRODUCTS = 500
# Updates of the multipliers without a gain in feasibility after which it is time for a proof that there is none.
_HOPELESS = 6
# Times that multipliers are lowered for the sake of the bound.
_REPAIRS = 2
# What the penalty may grow by.
_STIFFEST = 1e10


@dataclass
class _Point:
    """A point X with all that the augmented Lagrangian needs there."""

    X: Any
    u: Any
    residual: Any
    value: float
    v: Any  # weights of the entries in the gradient
    gradient: Any  # along the spheres
    mu: Any  # of the spheres; the last one is zero
    slope: float  # its norm


class Lagrangian:
    """⟨C, XXᵀ⟩ − yᵀ(𝒜(XXᵀ) − b) + ½σ‖𝒜(XXᵀ) − b‖² on the spheres."""

    def __init__(self, data: Spheres, y: Any, sigma: float) -> None:
        self.data, self.y, self.sigma = data, y, sigma
        self.sums = data.space.zeros((data.n_spheres + 1,), np.float64)
        self.slots = Slots(data) if data.n_rest and data.space is HOST else None

    def value(self, u: Any) -> float:
        """Return the Lagrangian where the entries are u."""
        residual = self.data.residual(u)
        return float(self.data.c @ u - self.y @ residual + 0.5 * self.sigma * (residual @ residual))

    def at(self, X: Any) -> _Point:
        """Return the point X."""
        data = self.data
        u = data.measure(X)
        residual = data.residual(u)
        v = data.c - data.St @ (self.y - self.sigma * residual) if data.n_rest else data.c
        G = data.weighted(v, X)
        mu = data.by_sphere(X, G)
        G -= data.to_rows(mu) * X
        return _Point(X, u, residual, self.value(u), v, G, mu, float(data.space.norm(G)))

    def hessian_product(self, point: _Point, weights: Any, D: Any, H: Any) -> float:
        """Set H to the Hessian along the spheres times D, and return ⟨D, H⟩; ``weights`` are those of the gradient."""
        data, X = self.data, point.X
        data.add_weighted(weights, point.v, D, H, fresh=True)
        if data.n_rest:
            w = self.sigma * (data.St @ (data.S @ data.changes(X, D)[0]))
            data.add_weighted(data.weights(w), w, X, H)
        return float(data.passes.make_tangent(X, data.group, point.mu, D, H, self.sums))

    def row_scales(self, point: _Point) -> Any:
        """Return about the Hessian's diagonal, a number for each row; without what ``slots`` are there for."""
        data, sums_by, n = self.data, self.data.passes.sums_by, len(point.X)
        v, same = point.v[data.pairs_of], data.i == data.j
        scales = sums_by(data.i[same], 2 * v[same], n) - point.mu[data.group]
        if data.n_rest and self.slots is None:
            lengths = data.passes.row_products(point.X, point.X)
            squares = data.squares * (self.sigma / point.X.shape[1])
            squares[same] *= 4
            scales = scales + sums_by(data.i, squares * lengths[data.j], n)
            scales += sums_by(data.j[~same], (squares * lengths[data.i])[~same], n)
        floor = 1e-3 * float(abs(scales).mean())
        return data.space.xp.clip(scales, floor if floor > 0 else 1.0, None)

    def newton_direction(self, point: _Point, radius: float, forcing: float) -> tuple[Any, float, bool]:
        """Return about the minimiser of the quadratic model within the radius (Steihaug's conjugate gradients).

        Also its length in the norm of the row scales, and whether that is the radius.
        """
        data, passes = self.data, self.data.passes
        weights, scale = data.weights(point.v), self.row_scales(point)
        R = data.space.copy(point.gradient)
        blocks = None if self.slots is None else Blocks(data, self.slots, point.X, scale, self.sigma)
        D, H = R * 0, data.space.xp.empty_like(R)
        P = -R / data.space.astype(scale, data.dtype)[:, None] if blocks is None else -blocks.solve(R)
        rz = -float(data.space.inner(R, P))
        length2 = cross = 0.0
        p2 = rz
        for _ in range(_MOST_PRODUCTS):
            curvature = self.hessian_product(point, weights, P, H)
            step = rz / curvature if curvature > 0 else math.inf
            if curvature <= 0 or length2 + 2 * step * cross + step * step * p2 >= radius**2:
                tau = (-cross + math.sqrt(max(cross * cross + p2 * (radius**2 - length2), 0.0))) / p2
                return D + tau * P, radius, True
            length2 += 2 * step * cross + step * step * p2
            plain, following = passes.conjugate_step(step, P, H, D, R, scale)
            if math.sqrt(plain) <= forcing * point.slope:
                break
            Z = None if blocks is None else blocks.solve(R)
            following = following if Z is None else float(np.vdot(R, Z))
            beta, rz = following / rz, following
            if Z is None:
                passes.next_direction(beta, R, scale, P)
            else:
                P *= beta
                P -= Z
            cross, p2 = beta * (cross + step * p2), rz + beta * beta * p2
        return D, math.sqrt(max(length2, 0.0)), False

    def search(self, point: _Point, D: Any) -> float:
        """Return a t with a low value at the retraction of X + tD.

        Along that curve u_p(t) = (a + bt + ct²)/(ℓ_i(t)ℓ_j(t)): after one pass, each value costs as much as u.
        """
        data = self.data
        first, second = data.changes(point.X, D)
        squares, cross = data.by_sphere(D, D), 2 * data.by_sphere(point.X, D)
        gi, gj = data.group[data.i], data.group[data.j]
        others = data.n_terms > data.n_pairs

        def value(t: float) -> float:
            if others:
                return self.value(data.measure(data.retract(point.X + t * D)))
            inverse = 1 / data.space.xp.sqrt(1 + t * cross + t * t * squares)
            u = point.u + t * first + t * t * second
            return self.value(u * inverse[gi] * inverse[gj])

        return _least(value, point.value, data.noise(point.u))


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
        data, space = self.data, self.data.space
        n = data.problem.n_rows
        if start is not None:
            X, y, sigma = space.adopt(start["X"]), space.adopt(start["y"]), float(start["sigma"])
            if X.ndim != 2 or len(X) != n or y.shape != data.b.shape or start["X"].dtype != data.dtype:
                raise ValueError("the arrays are not those of this programme")
        else:
            X = space.astype(space.normal(self.generator, (n, rank)), data.dtype)
            X, y, sigma = data.retract(X / math.sqrt(rank)), data.b * 0, 0.0
        self.lagrangian = Lagrangian(data, y, sigma)
        if start is None and data.n_rest:
            u = data.measure(X)
            residual = data.residual(u)
            # small: a penalty that outweighs the objective ties X to where it began, and it grows soon enough
            size = max(abs(float(data.c @ u)), data.size_c)
            self.lagrangian.sigma = 0.01 * size / max(float(residual @ residual), 1e-3)
        self.penalty = self.lagrangian.sigma
        self.point = self.lagrangian.at(X)
        self.first = max(self.point.slope, data.size_c * 1e-3)
        self.radius, self.tried = math.inf, math.inf
        self.gain, self.full, self.before = math.inf, False, math.inf

    def step(self) -> None:
        """Make one Newton step, as exact as the last one was good (Eisenstat and Walker)."""
        lagrangian, point = self.lagrangian, self.point
        if point.slope == 0.0:
            self.gain = 0.0
            return
        if self.radius == math.inf:
            scale = lagrangian.row_scales(point)
            self.radius = 0.3 * math.sqrt(float(scale @ self.data.passes.row_products(point.X, point.X)))
        forcing = min(max((point.slope / self.before) ** 2, 1e-4), 0.1)
        self.before = point.slope
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
        """Leave out columns that are nearly zero after a rotation, but for two; the multipliers must not notice."""
        X, space = self.point.X, self.data.space
        values, vectors = np.linalg.eigh(space.read(space.gram(X))[0])
        least = 0.01 * self.tol * self.bounds.one_c / self.lagrangian.sigma if self.data.n_rest else math.inf
        self.full = bool(values[0] > 1e-3 * values[-1])
        keep = values > min(1e-7 * values[-1], least)
        if np.count_nonzero(~keep) > 2:
            keep[np.flatnonzero(~keep)[-2:]] = True
            self.point = self.lagrangian.at(self.data.retract(space.times(X, np.ascontiguousarray(vectors[:, keep]))))

    def escape(self, directions: Array) -> bool:
        """Add columns along directions in which Z is negative, if that gains more than the last Newton step did.

        Or if it gains anything where no column is nearly zero: one that is could take the direction in itself.
        """
        data, X, space = self.data, self.point.X, self.data.space
        V = (directions / data.length[:, None]).astype(data.dtype)
        k = V.shape[1]
        if not k:
            return False
        V *= math.sqrt(len(X)) / np.linalg.norm(V) / 4
        wide = space.xp.concatenate([X, space.zeros((len(X), k), data.dtype)], 1)
        D = space.xp.concatenate([X * 0, space.adopt(V)], 1)
        point = self.lagrangian.at(wide)
        t = self.lagrangian.search(point, D)
        following = self.lagrangian.at(data.retract(wide + t * D))
        if not point.value - following.value > max(0.0 if self.full else self.gain, 10 * data.noise(point.u)):
            return False
        self.point = following
        return True

    def multipliers(self) -> Array:
        """Return y of all constraints, in the user's units."""
        data, point, here = self.data, self.point, self.data.space.to_host
        y = np.zeros(data.problem.m)
        y[data.on_sphere] = here(point.mu)[:-1] / (2 * data.problem.b[data.on_sphere])
        y[data.rest] = here(self.lagrangian.y - self.lagrangian.sigma * point.residual) / data.norms
        return y

    def infeasibility(self) -> float:
        """Return the first of the DIMACS errors, relative to the largest b."""
        data = self.data
        worst = float(np.abs(data.problem.b).max(initial=0)) or 1.0
        return float(np.linalg.norm(data.space.to_host(self.point.residual) * data.norms)) / worst

    def iterate(self, bound: Bound | None = None, done: bool = False) -> Iterate:
        """Return this point in the user's units."""
        data, point, here = self.data, self.point, self.data.space.to_host
        primal, y = float(data.c @ point.u), self.multipliers() if bound is None else bound.y
        relative = point.slope * float(data.space.norm(point.X)) / (1 + abs(primal))
        L = self.lagrangian

        def state() -> dict[str, Array]:
            return {"X": here(point.X), "y": here(L.y), "sigma": np.array(L.sigma)}

        return Iterate(
            primal, float(data.problem.b @ y), self.infeasibility(), relative,
            lambda: here(point.X).astype(np.float64) * data.length[:, None], y, None, state, done, None, bound,
        )  # fmt: skip

    def unbounded(self) -> bool:
        """Tell whether X proves that the programme is unbounded: ⟨C, XXᵀ⟩ < 0 and 𝒜(XXᵀ) = 0, relatively."""
        data, problem, here = self.data, self.data.problem, self.data.space.to_host
        if not data.some_free or not self.point.value < -1e6 * data.size_c:
            return False
        size = np.sqrt(np.asarray(problem.S.power(2).sum(axis=1)).ravel())
        left = problem.S @ here(self.point.u * data.factor) / np.where(size > 0, size, 1.0)
        return float(np.linalg.norm(left)) < -1e-6 * float(data.c @ self.point.u) / data.size_c

    def infeasible(self) -> bool:
        """Tell whether the residual proves that no Y ⪰ 0 satisfies the constraints.

        Where ½‖𝒜(XXᵀ) − b‖² is stationary, its negative gradient in 𝒜 are multipliers of a programme without objective;
        a positive bound of that one is the proof.
        """
        data, problem, here = self.data, self.data.problem, self.data.space.to_host
        mu = data.by_sphere(self.point.X, data.weighted(data.St @ self.point.residual, self.point.X))
        y = np.zeros(problem.m)
        y[data.on_sphere] = here(mu)[:-1] / (2 * problem.b[data.on_sphere])
        y[data.rest] = -here(self.point.residual) / data.norms
        value = float(problem.b @ y)
        lowest = Slack(problem, -(problem.S.T @ y)).lowest(0.0, self.generator).bound
        trace = min(self.bounds.trace, 1e8)
        return value > 0 and value + trace * min(lowest, 0.0) > 0

    def prove(self) -> tuple[Bound, Array]:
        """Return the best bound that the multipliers give, and directions in which Z is negative.

        Where every row has a length of its own, multipliers of those rows alone are lowered in which negative
        eigenvectors live, as long as that costs less than the gap that is allowed.
        """
        data, b, primal = self.data, self.data.problem.b, float(self.data.c @ self.point.u)
        scale = data.unit + abs(primal)
        first = best = self.bounds.at(self.multipliers(), self.tol, scale, k=8)
        if data.some_free or data.some_shared or data.n_rest:
            return best, first.lowest.directions
        own = data.on_sphere[data.space.to_host(data.group)]
        for _ in range(_REPAIRS):
            y = best.y.copy()
            y[own] -= best.lowest.local * data.length**2 / b[own]
            if primal - best.value <= self.tol * scale or not primal - float(b @ y) <= 0.5 * self.tol * scale:
                break
            better = self.bounds.at(y, self.tol, scale, k=8)
            if not better.value > best.value:
                break
            best = better
        return best, first.lowest.directions


def low_rank(
    data: Spheres,
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
    run = _Method(data, bounds, tol, generator)
    run.begin(data.first_rank() if rank is None else rank, start)
    constrained = data.n_rest > 0
    # in double precision half of the gap costs little more, and the value is good to the digits that tol names
    aim, enough = tol if eps(run.point.X) > 1e-10 else 0.5 * tol, 0.05 * tol
    wanted, previous, least, failures, hopeless = 0.1, math.inf, math.inf, 0, 0
    yield run.iterate()
    while True:
        run.step()
        primal = float(data.c @ run.point.u)
        if run.unbounded():
            yield replace(run.iterate(), verdict=Status.UNBOUNDED)
            return
        scale = data.unit + abs(primal)
        stuck = run.gain <= data.noise(run.point.u)
        residual = run.point.residual  # what the penalty comes to tells what a better X could be worth
        idle = constrained and run.gain <= 1e-4 * run.lagrangian.sigma * float(residual @ residual)
        quiet = run.point.slope <= wanted * run.first or idle or stuck
        bound = None
        if constrained and quiet:
            infeasible = run.infeasibility()
            run.lagrangian.y = run.lagrangian.y - run.lagrangian.sigma * run.point.residual
            if infeasible > 0.25 * previous:
                # once X is feasible, a lower penalty: what a negative direction gains, round-off would hide
                run.lagrangian.sigma *= 10 if infeasible > enough else 0.25
            hopeless = hopeless + 1 if infeasible > max(0.9 * previous, tol) else 0
            if hopeless > _HOPELESS or run.lagrangian.sigma > _STIFFEST * run.penalty:
                yield replace(run.iterate(done=True), verdict=Status.INFEASIBLE if run.infeasible() else None)
                return
            previous = infeasible
            run.point = run.lagrangian.at(run.point.X)
            wanted = max(0.3 * wanted, 1e-10)
            quiet = infeasible <= enough  # the value is off by as much, times the multipliers
        if quiet and (run.gain <= min(0.3 * tol * scale, run.tried) or stuck):
            run.shrink()
            bound, directions = run.prove()
            run.tried = min(max(tol * scale / max(primal - bound.value, tol * scale), 0.05), 0.5) * run.gain
            done = primal - bound.value <= aim * scale and -bound.lowest.bound <= tol * bounds.one_c
            done &= run.infeasibility() <= tol  # which columns that were dropped may have raised
            if done or (stuck and failures > 3):
                yield run.iterate(bound, True)
                return
            failures = 0 if -bound.lowest.bound < 0.7 * least else failures + stuck
            least = min(least, -bound.lowest.bound)
            if run.escape(directions):
                run.tried, failures = math.inf, 0
        yield run.iterate()
