"""Levenberg–Marquardt: Gauss–Newton with damping, for sums of squares."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np

from quartic.arrays import Array
from quartic.losses.line import Line
from quartic.losses.point import Point
from quartic.losses.sum_of_squares import SumOfSquares
from quartic.ops import inner, norm, squared_norm
from quartic.penalties import Penalty
from quartic.problem import Problem
from quartic.solvers.base import NoProgress, Requirements, Solver, State
from quartic.solvers.normal_equations import conjugate_gradients, direct, factorable, mean_diagonal
from quartic.solvers.smooth import on_line, ridge_weight

# "auto" samples so many pairs a point for each column of X, and at least so many, where there are twice as many. With
# two thirds of that, one random start in four on a square ends in a local minimum that all pairs do not have.
_SAMPLE_FOR_EACH_COLUMN, _SAMPLE_AT_LEAST = 16, 48
# The sample is left when the gradient has shrunk by this, or a step makes the loss smaller by less than this share.
_SAMPLE_TOLERANCE, _SAMPLE_GAIN, _SAMPLE_STEPS = 1e-8, 1e-2, 60
# Damping is relative to the mean diagonal of JᵀJ. The gauge makes JᵀJ singular, so it never goes down to nothing.
_LEAST_DAMPING, _MOST_DAMPING = 1e-13, 1e8
# Where a step lowers the loss by less than this share, residuals are there to stay and their curvature counts.
_NEWTON_GAIN = 1e-2
# The equations are never solved to a smaller residual, relative to where they start.
_LEAST_RESIDUAL = 1e-3


@dataclass(frozen=True)
class LMState(State):
    """The iterate, and what the next step takes over.

    Attributes
    ----------
    blocks : array (n, r(r+1)/2)
        The row blocks of JᵀJ at the point, packed.
    damping : float
        μ.
    earlier : float
        The norm of the gradient one step before.
    slow_solves : int
        How many times in a row conjugate gradients ran into their limit.
    direct : int
        Whether a sparse factorisation is worth it: 1 yes, 0 no, −1 not yet asked.
    newton : int
        1 where the equations are those of Newton's method.
    sampled : int
        1 when the first phase, on a sample of the pairs, is over or not wanted.
    """

    blocks: Array = field(default_factory=lambda: np.empty((0, 0)))
    damping: float = 0.0
    earlier: float = math.inf
    slow_solves: int = 0
    direct: int = -1
    newton: int = 0
    sampled: int = 1


@dataclass(frozen=True)
class LevenbergMarquardt(Solver):
    r"""Gauss–Newton with damping: :math:`X^+ = X + tD`, :math:`(J^TJ + \lambda I)D = -\nabla\Psi(X)`.

    J is the derivative of the residuals of a loss ½‖e(X)‖². The equations are solved by conjugate gradients with the
    r × r row blocks of JᵀJ as preconditioner, no further than the last step's progress warrants, or by a sparse
    factorisation. The step t is the exact minimiser of the quartic on the line. λ = μ·(mean diagonal of JᵀJ), and μ
    follows the ratio of the actual to the predicted decrease.

    JᵀJ is the second derivative of the loss but for a term with the residuals. Where those stay, as with noise, the
    loss soon stops falling; from then on conjugate gradients multiply by the whole second derivative: Newton's method.

    Where there are many more pairs than unknowns the first iteration solves the problem on a sample of the pairs:
    from far away a few dozen of them a point show the way as well as hundreds, at a fraction of the cost. If that
    does not lower the objective it is forgotten. Passes over the sample count by their share of the pairs.

    Parameters
    ----------
    damping : float, default=1e-2
        μ of the first step.
    forcing : float, default=0.3
        The residual, relative to its start, at which conjugate gradients stop at the latest when far away.
    max_cg : int, default=200
        Limit on the steps of conjugate gradients in one iteration.
    linear_solver : {"auto", "cg", "direct"}, default="auto"
        "auto" turns to the factorisation when conjugate gradients ran into their limit twice in a row and the graph
        is local enough for sparse factors.
    sample : "auto" or float, default="auto"
        Pairs a point in the first phase; 0 for none. "auto" takes 16 for each column of X, and 48 at least, where
        there are twice as many.

    Notes
    -----
    Measured by ``benchmarks/edmc_helix.py``.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Distances
    >>> corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    >>> loss = Distances(pairs, [1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
    >>> minimize(Problem(loss), rank=2, solver="lm", tol=1e-10, random_state=0).objective < 1e-20
    True
    """

    name = "lm"
    requires = Requirements(sum_of_squares=True, smooth=True)
    state = LMState

    damping: float = 1e-2
    forcing: float = 0.3
    max_cg: int = 200
    linear_solver: Literal["auto", "cg", "direct"] = "auto"
    sample: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.linear_solver not in ("auto", "cg", "direct"):
            raise ValueError(f'linear_solver must be "auto", "cg" or "direct", got {self.linear_solver!r}')
        if self.sample != "auto" and not (isinstance(self.sample, int | float) and self.sample >= 0):
            raise ValueError(f'sample must be "auto" or a number of pairs a point, got {self.sample!r}')
        if not (self.damping > 0 and 0 < self.forcing < 1 and self.max_cg >= 1):
            raise ValueError(f"damping and max_cg must be positive and forcing between 0 and 1, got {self}")

    def init(self, problem: Problem, X0: Array) -> LMState:
        """Return the state at X0."""
        ridge_weight(problem.penalty)
        loss = cast(SumOfSquares, problem.loss)
        degree = self._degree(X0.shape[1])
        wanted = degree > 0 and loss.mean_degree() >= 2 * degree
        return replace(self._start(loss, X0), sampled=int(not wanted))

    def step(self, problem: Problem, state: State) -> LMState:
        """Return the state after one damped Gauss–Newton step; the first may be a whole solve on a sample."""
        s, loss = cast(LMState, state), cast(SumOfSquares, problem.loss)
        if not s.sampled:
            ahead = self._on_sample(loss, problem.penalty, s)
            if problem.objective(ahead.point) < problem.objective(s.point):
                return ahead
            s = replace(s, sampled=1)
        return self._move(loss, problem.penalty, s)

    def _degree(self, rank: int) -> float:
        return max(_SAMPLE_FOR_EACH_COLUMN * rank, _SAMPLE_AT_LEAST) if self.sample == "auto" else float(self.sample)

    def _start(self, loss: SumOfSquares, X: Array) -> LMState:
        point, blocks = loss.linearize(X)
        return LMState(point, blocks=blocks, damping=self.damping)

    def _on_sample(self, loss: SumOfSquares, penalty: Penalty, s: LMState) -> LMState:
        """Return where a solve on a sample of the pairs leads; the penalty is scaled down with the loss."""
        part = loss.sample(self._degree(s.point.X.shape[1]))
        share = part.mean_degree() / loss.mean_degree()
        ridge = share * ridge_weight(penalty)
        t = self._start(part, s.point.X)
        target = _SAMPLE_TOLERANCE * norm(t.point.gradient)
        for _ in range(_SAMPLE_STEPS):
            before = t.point.value
            try:
                t = self._move(part, penalty, t, ridge)
            except NoProgress:
                break
            if norm(t.point.gradient) <= target or t.point.value > (1 - _SAMPLE_GAIN) * before:
                break
        loss._count(math.ceil(part.n_products * share))
        return replace(self._start(loss, t.point.X), damping=t.damping)

    def _move(self, loss: SumOfSquares, penalty: Penalty, s: LMState, ridge: float | None = None) -> LMState:
        ridge = ridge_weight(penalty) if ridge is None else ridge
        p = s.point
        G = p.gradient + ridge * p.X if ridge else p.gradient
        slope = norm(G)
        scale = mean_diagonal(s.blocks, p.X.shape[1])
        damping = s.damping * scale
        factors, slow = s.direct, s.slow_solves
        if self.linear_solver == "auto" and slow >= 2 and factors < 0:
            factors = int(factorable(loss, p))
        if self.linear_solver == "direct" or (self.linear_solver == "auto" and slow >= 2 and factors > 0):
            D = direct(loss, p, G, ridge + damping)
        else:
            residual = max(_LEAST_RESIDUAL, min(self.forcing, slope / s.earlier))

            def product(V: Array, out: Array) -> None:
                if s.newton:
                    out[:] = loss.hessian_product(p, V)
                else:
                    loss.gauss_newton_product(p, V, out)

            found = conjugate_gradients(product, G, s.blocks, ridge + damping, residual, self.max_cg)
            D, slow = found.D, 0 if found.reached else slow + 1
        predicted = 0.5 * (damping * squared_norm(D) - inner(G, D))  # of the model without damping, at t = 1
        D = D.astype(p.X.dtype, copy=False)
        t, change = _exact_step(loss, p, D, ridge) if loss.quadratic else _backtrack(loss, penalty, p, G, D)
        gain = -change / predicted if predicted > 0 else 0.0
        factor = 0.2 if gain > 0.75 else 3.0 if gain < 0.25 else 1.0
        point, blocks = loss.linearize(p.X + t * D)
        newton = loss.quadratic and gain > 0.25 and point.value > (1 - _NEWTON_GAIN) * p.value
        return LMState(
            point,
            step=t,
            blocks=blocks,
            damping=min(max(s.damping * factor, _LEAST_DAMPING), _MOST_DAMPING),
            earlier=slope,
            slow_solves=slow,
            direct=factors,
            newton=int(newton or (s.newton and gain > 0.25)),
        )


def _exact_step(loss: SumOfSquares, p: Point, D: Array, ridge: float) -> tuple[float, float]:
    """Return the t > 0 of least Ψ(p + tD), and the change of Ψ at t = 1."""
    line = Line(p, loss.quartic(p, D), lambda t: loss.at(p.X + t * D))
    linear, quadratic = on_line(ridge, p.X, D)
    t = line.minimizer_with(linear, quadratic)
    if not t > 0:
        raise NoProgress("the Gauss–Newton direction no longer descends: round-off is reached")
    return t, line.change(1.0) + linear + quadratic


def _backtrack(loss: SumOfSquares, penalty: Penalty, p: Point, G: Array, D: Array) -> tuple[float, float]:
    """Return the first t of 1, ½, ¼, … with enough decrease, and what the change at t says of that at 1."""
    slope, t = inner(G, D), 1.0
    for _ in range(60):
        X = p.X + t * D
        _, remainder = loss.advance(p, X)
        change = t * inner(p.gradient, D) + remainder + penalty.change(p.X, X)
        if change <= 1e-4 * t * slope + p.rounding * t * norm(D):
            return t, change if t == 1.0 else 0.0
        t /= 2
    raise NoProgress(f"no step down to {t:.1e} along the Gauss–Newton direction decreases the objective")
