"""Memory: L-BFGS in other metrics and with pairs from the inertial path, and Anderson's mixing."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from product_ideas.rules import Rules
from quartic.arrays import inner, norm
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.refresh import refreshed


@dataclass(frozen=True)
class MemoryState(State):
    """The iterate and the pairs (s, y)."""

    steps: tuple[Any, ...] = ()
    changes: tuple[Any, ...] = ()
    carried: int = 0
    fresh: float = math.inf


@dataclass(frozen=True)
class Memory(Solver):
    """L-BFGS on the free entries with an exact search, as `quartic.solvers.LBFGS`, written plainly.

    Parameters
    ----------
    memory : int
        Pairs kept.
    metric : str
        The first metric: "one" (a multiple of the identity), "columns" (over diag XᵀX + shift), "whole" (over XᵀX +
        shift, entries at the bound left out afterwards), "rows" (over the part of XᵀX + shift that is free in a row).
    shift : float
        Beside the mean diagonal entry of XᵀX.
    first : int
        So many steps of the inertial method come first, and give the first pairs.
    """

    name = "memory"
    requires = Requirements()
    state = MemoryState

    memory: int = 7
    metric: str = "one"
    shift: float = 0.1
    first: int = 0

    def init(self, problem: Any, X0: Any) -> MemoryState:
        if not self.first:
            return MemoryState(problem.loss.at(X0))
        inertial = Rules()
        s = inertial.init(problem, X0)
        path = [s.point]
        for _ in range(self.first):
            s = inertial.step(problem, s)
            path = [*path, s.point][-self.memory - 1 :]
        pairs = [(b.X - a.X, b.gradient - a.gradient) for a, b in itertools.pairwise(path)]
        return MemoryState(s.point, steps=tuple(s for s, _ in pairs), changes=tuple(y for _, y in pairs))

    def step(self, problem: Any, state: Any) -> MemoryState:
        s, p = state, state.point
        G = p.gradient
        free = (p.X > 0) | (G < 0)
        D = np.maximum(p.X - self._two_loop(p, G, s, free), 0) - p.X
        if not inner(G, D) < 0:
            if not s.steps:
                raise NoProgress("the gradient no longer descends")
            return self.step(problem, MemoryState(p, s.step, carried=s.carried, fresh=s.fresh))
        falls = D < 0
        upper = float((-p.X[falls] / D[falls]).min()) if falls.any() else math.inf
        line = problem.loss.along(p, D)
        t = line.minimizer_with(0.0, 0.0, upper)
        if not t > 0:
            raise NoProgress("the line search finds no lower point")
        new = line.point(t)
        np.maximum(new.X, 0, out=new.X)
        moved, change = t * D, new.gradient - G
        steps, changes = s.steps, s.changes
        if inner(moved, change) > 1e-12 * norm(moved) * norm(change):
            steps, changes = (*steps, moved)[-self.memory :], (*changes, change)[-self.memory :]
        new, carried, fresh = refreshed(problem, new, s.carried + 1, s.fresh)
        return MemoryState(new, t, steps, changes, carried, fresh)

    def _two_loop(self, p: Any, G: Any, s: Any, free: Any) -> Any:
        q, used = np.where(free, G, 0), []
        pairs = [(np.where(free, a, 0), np.where(free, b, 0)) for a, b in zip(s.steps, s.changes, strict=True)]
        for a, y in reversed(pairs):
            bend = inner(a, y)
            if bend > 1e-10 * norm(a) * norm(y):
                share = inner(a, q) / bend
                q = q - share * y
                used.append((a, y, bend, share))
        H = self._first_metric(p, free)
        Q = H(q)
        if used:
            a, y, bend, _ = used[0]
            Q = Q * (bend / inner(y, H(y)))
        else:
            Q = Q * (norm(p.X) / norm(Q))
        for a, y, bend, share in reversed(used):
            Q = Q + (share - inner(y, Q) / bend) * a
        return Q

    def _first_metric(self, p: Any, free: Any) -> Any:
        if self.metric == "one":
            return lambda q: q
        S = np.asarray(p.gram)
        S = S + self.shift * np.trace(S) / len(S) * np.eye(len(S))
        if self.metric == "columns":
            return lambda q: q / np.diag(S)
        if self.metric == "whole":
            inverse = np.linalg.inv(S)
            return lambda q: np.where(free, q @ inverse, 0)
        return lambda q: solve_free_rows(q, S, free)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_free_rows(Q: Any, S: Any, free: Any) -> Any:
    """Return Z with S_FF z_F = q_F for each row, F its free entries; 0 elsewhere."""
    n, r = Q.shape
    Z = np.zeros_like(Q)
    L, index, z = np.empty((r, r)), np.empty(r, np.int64), np.empty(r)
    for i in range(n):
        m = 0
        for k in range(r):
            if free[i, k]:
                index[m] = k
                m += 1
        for a in range(m):
            for b in range(a + 1):
                total = S[index[a], index[b]]
                for c in range(b):
                    total -= L[a, c] * L[b, c]
                L[a, b] = math.sqrt(total) if a == b else total / L[b, b]
        for a in range(m):
            total = Q[i, index[a]]
            for c in range(a):
                total -= L[a, c] * z[c]
            z[a] = total / L[a, a]
        for a in range(m - 1, -1, -1):
            total = z[a]
            for c in range(a + 1, m):
                total -= L[c, a] * z[c]
            z[a] = total / L[a, a]
            Z[i, index[a]] = z[a]
    return Z


@dataclass(frozen=True)
class MixedState(State):
    """The iterate, the last points Y with their images T(Y) and steps, the step to try, and the objective."""

    starts: tuple[Any, ...] = ()
    lengths: tuple[float, ...] = ()
    images: tuple[Any, ...] = ()
    next_step: float = 1.0
    objective: float = math.inf
    failed: int = 0
    successes: int = 0


@dataclass(frozen=True)
class Anderson(Rules):
    """Y is the affine combination of the last images T_λ(Y_j) whose residuals (T_λ(Y_j) − Y_j)/λ nearly cancel.

    The product M Y follows by the same combination, so that an iteration costs one. Where the objective rises the
    memory is dropped and the step taken from X.
    """

    name = "anderson"
    state = MixedState

    memory: int = 5
    ridge: float = 1e-8

    def init(self, problem: Any, X0: Any) -> MixedState:
        p = problem.loss.at(X0)
        return MixedState(p, objective=problem.objective(p))

    def step(self, problem: Any, state: Any) -> MixedState:
        s = state
        if len(s.images) > 1:
            Y = self._mixed(problem, s)
            found = self._trial(problem, Y, s)
            if found is not None and not problem.objective(found[0]) > s.objective:
                return self._next(problem, s, Y, found)
            s = replace(s, starts=(), lengths=(), images=())
        found = self._trial(problem, s.point, s)
        if found is None:
            raise NoProgress("no step decreases the objective enough")
        return self._next(problem, s, s.point, found)

    def _mixed(self, problem: Any, s: MixedState) -> Any:
        residuals = [(b.X - a.X) / step for a, b, step in zip(s.starts, s.images, s.lengths, strict=True)]
        A = np.array([[inner(u, v) for v in residuals] for u in residuals])
        A += self.ridge * np.trace(A) / len(A) * np.eye(len(A))
        weights = np.linalg.solve(A, np.ones(len(A)))
        weights /= weights.sum()
        X = sum(w * b.X for w, b in zip(weights, s.images, strict=True))
        MX = sum(w * b.MX for w, b in zip(weights, s.images, strict=True))
        return LeastSquaresPoint(problem.loss, X, MX)

    def _next(self, problem: Any, s: Any, Y: Any, found: Any) -> MixedState:
        new, step, following, successes, failed = found
        kept = ((*s.starts, Y), (*s.lengths, step), (*s.images, new))
        memory = (values[-self.memory :] for values in kept)
        return MixedState(new, step, *memory, following, problem.objective(new), failed, successes)
