"""Projected Gauss–Newton with conjugate gradients for symmetric NMF (SymPGNCG: Hayashi, Aksoy, Ballard and Park)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from quartic.arrays import Array, gram, inner, namespace, times
from quartic.core.problem import Problem
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import COUNT, NoProgress, Requirements, Solver, State, below, checked
from quartic.solvers.lines import CarriedState, refreshed


@dataclass(frozen=True)
class ProjectedGaussNewton(Solver):
    """D = max(X + E, 0) − X, where E nearly solves JᵀJE = −∇f(X) on the face of X; then the best t on X + tD.

    With J(E) = EXᵀ + XEᵀ the derivative of XXᵀ, JᵀJE = 2(E XᵀX + X EᵀX): products with it need no M, only a few
    conjugate gradient steps of 4nr² multiplications each. One product an iteration, for the line.

    Parameters
    ----------
    n_cg : int, default=20
        The most conjugate gradient steps of an iteration.
    forcing : float, default=0.1
        They end where the residual is down to this share.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="pgncg", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "pgncg"
    requires = Requirements(("point_from",), ("only X ≥ 0",))
    state = CarriedState
    checks = checked(n_cg=COUNT, forcing=below(1.0))

    n_cg: int = 20
    forcing: float = 0.1

    def step(self, problem: Problem, state: State) -> CarriedState:
        """Return the best point along the projected direction, or the projected gradient where that is no descent."""
        s = cast(CarriedState, state)
        p = cast(LeastSquaresPoint, s.point)
        for E in (self._solve(p), -p.gradient / (2 * float(p.gram.trace()))):
            D = problem.penalty.prox(p.X + E, 1.0) - p.X
            if inner(p.gradient, D) < 0:
                line = problem.loss.along(p, D)
                t = line.minimizer(1.0)
                if t > 0:
                    point, carried, fresh = refreshed(problem, line.point_within(t), s.carried + 1, s.fresh)
                    return CarriedState(point, t, carried, fresh)
        raise NoProgress("no step along the projected direction decreases the loss: round-off is reached")

    def _solve(self, p: LeastSquaresPoint) -> Array:
        """Return E after a few conjugate gradient steps on JᵀJE = −∇f(X) over the entries that are free."""
        X, G, xp = p.X, p.gradient, namespace(p.X)
        free = (X > 0) | (G < 0)
        R = xp.where(free, -G, 0 * G)
        E, P, rr = 0 * G, R, inner(R, R)
        goal = self.forcing**2 * rr
        for _ in range(self.n_cg):
            if not rr > goal:
                break
            A = xp.where(free, 2 * (times(P, p.gram) + times(X, gram(P, X))), 0 * P)
            bend = inner(P, A)
            if not bend > 1e-14 * inner(P, P) * float(p.gram.trace()):
                break
            E = E + (rr / bend) * P
            R = R - (rr / bend) * A
            before, rr = rr, inner(R, R)
            P = R + (rr / before) * P
        return E
