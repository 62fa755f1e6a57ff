"""Levenberg–Marquardt: Gauss–Newton with damping, for sums of squares."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np

from quartic.arrays import Array, astype, float_type, inner, norm, space_of, squared_norm
from quartic.core.problem import Problem
from quartic.losses.base import Point
from quartic.losses.pairs.loss import (
    LITTLE,
    MOST_COLUMNS,
    PairSquares,
    SumOfSquares,
    diagonal_mean,
    next_damping,
    residual,
    row_blocks_in,
)
from quartic.losses.steps import Line
from quartic.penalties import Penalty
from quartic.solvers.base import Iterations, NoProgress, Requirements, Solver, State
from quartic.solvers.conjugate_gradient import SHIFT, nothing
from quartic.solvers.core import by_way_of_core

# "auto" wants so many pairs a point in the core for each column of X, and at least so many, where there are twice as
# many in all: the first where a core is solved with a column more than wanted (`quartic.solvers.core`), the second
# where it is not. With two thirds of the second, one random start in four on a square ends in a local minimum.
_CORE_FOR_EACH_COLUMN, _CORE_AT_LEAST = (8, 16), (24, 48)
# A rise of the objective within so many times the gradient's round-off times ‖X‖ says nothing; a larger one is answered
# by more damping, up to this much.
_VALUE_ROUND_OFF, _HEAVY = 16.0, 1e8
# A change of the value is known to a digit or two where it is above so many times that.
_VALUE_KNOWN = 1e3
# A quasi-Newton step must lower the objective by this share of what its slope promises, and be no shorter than that.
_SUFFICIENT, _SHORTEST = 1e-4, 1e-6
# Nearer to the gradient's round-off than this every step is looked at by the loop.
_NEAR_ROUND_OFF = 1e3
# Single points are placed anew where the loss no longer falls, and when the gradient has shrunk by this, and by ten
# times more for each time it was done, so often at the most.
_REPLACED, _REPLACED_FIRST = 4, 1e-3
# Quasi-Newton steps come first until the gradient has shrunk by this; where this share of the loss is left, or more,
# they go on, since with noise Gauss–Newton is no quicker; so many of them at the most.
_NEAR, _FITS, _QUASI = 1e-3, 1e-6, 400
# So many of them are remembered. Row blocks are made anew when X has come this share of its norm.
_MEMORY, _STALE = (1, 8), 0.02


@dataclass(frozen=True)
class LMState(State):
    """The iterate, and what the next step takes over; row blocks of JᵀJ, where they are known, are those at the point.

    ``damping`` is μ; ``before`` and ``first`` are the norms of the gradient one step before and at the start;
    ``slow_solves`` says how many times in a row conjugate gradients ran into their limit, ``direct`` whether a sparse
    factorisation is worth it (1 yes, 0 no, −1 not yet asked), ``newton`` whether the equations are those of Newton's
    method, ``core_done`` whether the first phase, on part of the points, is over or not wanted, ``replaced`` how often
    single points were placed anew, ``turns`` how many quasi-Newton steps were made (−1 when they are over or not
    wanted), ``steps`` and ``changes`` what X and the gradient moved by in the last of them; ``inverse`` has inverted
    blocks with which they begin, and ``way`` is how far X has come since those were made.
    """

    blocks: Array = field(default_factory=nothing)
    mean: float = 0.0
    inverse: Array = field(default_factory=nothing)
    way: float = 0.0
    steps: tuple[Array, ...] = ()
    changes: tuple[Array, ...] = ()

    damping: float = 0.0
    before: float = math.inf
    slow_solves: int = 0
    direct: int = -1
    newton: int = 0
    core_done: int = 1
    replaced: int = 0
    first: float = math.inf
    turns: int = -1

    is_measured = True  # every point comes from a pass of its own


@dataclass(frozen=True)
class LevenbergMarquardt(Solver):
    r"""Gauss–Newton with damping: :math:`X^+ = X + tD`, :math:`(J^TJ + \lambda I)D = -\nabla\Psi(X)`.

    J is the derivative of the residuals of a loss ½‖e(X)‖². The equations are solved by conjugate gradients with the
    r × r row blocks of JᵀJ as preconditioner, no further than the last step's progress warrants, or by a sparse
    factorisation. The step t is the exact minimiser of the quartic on the line. λ = μ·(mean diagonal of JᵀJ), and μ
    follows the ratio of the actual to the predicted decrease.

    JᵀJ is the second derivative of the loss but for a term with the residuals. Where those stay, as with noise, the
    loss soon stops falling; from then on conjugate gradients multiply by the whole second derivative: Newton's method.

    Where a point has many more pairs than it needs, the first iteration goes by way of a core: it solves the problem of
    part of the points, who have enough pairs among themselves, at first with one column more than wanted, places the
    others by least squares from their pairs with those placed, and goes on from there with all. If that does not lower
    the objective it is forgotten. Passes over the pairs of the core count by their share.

    Without a core, and after one where noise leaves much of the loss, the way to the neighbourhood of a solution is
    made by limited-memory BFGS that starts from the row blocks, in about half of the passes: its full step needs one,
    as a rule. Where residuals stay, and for raw stress, it goes all the way. Not so where the pairs are those of near
    points, and the equations ill-conditioned.

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
    core : "auto" or float, default="auto"
        Pairs a point within the core; 0 for no core. "auto" takes 8 for each column of X, and 24 at least, where
        there are twice as many in all; for entries of XXᵀ twice that.

    Notes
    -----
    ``quartic bench speed --only edmc`` measures it beside other solvers and libraries.

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
    requires = Requirements(loss=("linearize",), penalty=("smooth", "ridge", "on_line"))
    state = LMState

    damping: float = 1e-2
    forcing: float = 0.3
    max_cg: int = 200
    linear_solver: Literal["auto", "cg", "direct"] = "auto"
    core: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.linear_solver not in ("auto", "cg", "direct"):
            raise ValueError(f'linear_solver must be "auto", "cg" or "direct", got {self.linear_solver!r}')
        if self.core != "auto" and not (isinstance(self.core, int | float) and self.core >= 0):
            raise ValueError(f'core must be "auto" or a number of pairs a point, got {self.core!r}')
        if not (self.damping > 0 and 0 < self.forcing < 1 and self.max_cg >= 1):
            raise ValueError(f"damping and max_cg must be positive and forcing between 0 and 1, got {self}")

    def init(self, problem: Problem, X0: Array) -> LMState:
        """Return the state at X0."""
        loss, wanted = cast(PairSquares, problem.loss), False
        if loss.offers("core") and not (problem.penalty.ridge or loss.ridge) and X0.shape[1] < MOST_COLUMNS:
            wanted = 0 < 2 * self._core_degree(loss, X0.shape[1]) <= loss.mean_degree()
        if wanted or self.linear_solver == "direct" or loss.is_local():
            return LMState(loss.at(X0), damping=self.damping, core_done=int(not wanted))
        return self._prepared(loss, X0, self.damping, int(not loss.quadratic))

    def _prepared(self, loss: SumOfSquares, X: Array, damping: float, newton: int) -> LMState:
        """Return the state at X, from where quasi-Newton steps lead."""
        point, blocks = loss.linearize(X)
        mean = diagonal_mean(blocks, X.shape[1])
        return self._inverted(loss, LMState(point, damping=damping, blocks=blocks, mean=mean, newton=newton), 0.0)

    @staticmethod
    def _inverted(loss: SumOfSquares, s: LMState, ridge: float) -> LMState:
        """Return the state with its blocks inverted, for quasi-Newton steps from here on."""
        space = loss.space
        shift = ridge + SHIFT * space.bare(s.mean)  # not read: a device keeps it
        inverse = row_blocks_in(space).factor_blocks(s.blocks, shift, s.point.X.shape[1])
        return replace(s, inverse=inverse, way=0.0, turns=max(s.turns, 0))

    def step(self, problem: Problem, state: State) -> LMState:
        """Return the state after one damped step; the first may go by way of the core."""
        s, loss = cast(LMState, state), cast(SumOfSquares, problem.loss)
        if not s.core_done:
            ahead = self._by_way_of_core(cast(PairSquares, loss), s)
            if ahead is not None and ahead.point.value < s.point.value:
                return ahead
        if s.turns >= 0 or s.replaced < _REPLACED:
            slope = problem.stationarity(s.point)
            s = replace(s, first=slope) if math.isinf(s.first) else s
            near = slope <= _REPLACED_FIRST * 10.0**-s.replaced * s.first
            if s.replaced < _REPLACED and (near or (s.newton and s.turns < 0)):
                s = self._with_points_replaced(loss, problem.penalty, s)
            if 0 <= s.turns < _QUASI and (s.newton or slope > _NEAR * s.first):
                with suppress(NoProgress):
                    return self._turn(problem, s)
            if s.turns >= 0:
                over = LMState(s.point, s.step, damping=s.damping, newton=s.newton if loss.quadratic else 0)
                s = replace(over, replaced=s.replaced, first=s.first)
        new = self._move(loss, problem.penalty, s)
        problem.begin(new.point)
        rise = problem.objective(new.point) - problem.objective(s.point)
        if not rise > 0 or rise <= _VALUE_ROUND_OFF * s.point.rounding * norm(s.point.X):
            return new
        if s.damping >= _HEAVY:
            raise NoProgress("no damped Gauss–Newton step lowers the objective")
        return replace(s, damping=next_damping(s.damping, -1.0), step=0.0, core_done=1)

    def advance(self, problem: Problem, state: State, most: int, target: float) -> tuple[State, Iterations]:
        """Return the state after several steps where there are few pairs, with little in between them; else after one.

        What is out of the ordinary is left to ``step``.
        """
        s, loss, counted = cast(LMState, state), cast(PairSquares, problem.loss), problem.loss.n_products
        odd: Any = (
            s.newton or s.turns >= 0 or not s.core_done or self.linear_solver == "direct" or problem.penalty.ridge
        )
        odd = odd or (s.slow_solves >= 2 and s.direct) or not loss.offers("descent")
        if odd or not loss.is_small(s.point.X):
            return self.step(problem, s), ()
        p, run = s.point, loss.descent(s.point.X, self.forcing, self.max_cg, s.damping)
        run.earlier, run.slow = float(s.before), s.slow_solves
        if len(s.blocks):
            run.take(float(p.value), p.gradient, s.blocks, float(s.mean))
        else:
            run.look()
        looked, near = loss.n_products - counted, max(target, _NEAR_ROUND_OFF * p.rounding)
        most, goal = (most, near) if run.slope > near else (1, 0.0)
        made, little, failed = run.go(most, goal, slow=2.0 if s.direct else math.inf)
        if not made:
            return self.step(problem, s), ()
        made[0] = *made[0][:3], made[0][3] + looked
        if failed:
            point, blocks = loss.linearize(run.X)
        else:
            point, blocks = loss._point(run.X, run.value, run.gradient), run.blocks
        return LMState(
            point, made[-1][2], blocks=blocks, mean=run.mean, damping=run.damping, before=run.earlier,
            slow_solves=run.slow, direct=s.direct, newton=int(little), replaced=s.replaced, first=s.first,
        ), made  # fmt: skip

    def _turn(self, problem: Problem, s: LMState) -> LMState:
        """Return the state after a quasi-Newton step: the whole of it, or the best on its line where that fails."""
        p, penalty, loss, space = s.point, problem.penalty, cast(PairSquares, problem.loss), problem.loss.space
        G, solve_blocks = penalty.smooth_gradient(p.X, p.gradient), row_blocks_in(space).solve_blocks

        def metric(q: Array, _: Any) -> Array:
            Z: Array = space.xp.empty_like(q)
            solve_blocks(s.inverse, q, Z)
            return Z

        def look(t: float) -> LMState:
            X, way = p.X + t * D, s.way + t * float(length)
            if way <= _STALE * size:
                new = replace(s, point=loss.at(X), step=t, way=way)
            else:
                point, blocks = loss.linearize(X)
                new = replace(s, point=point, step=t, blocks=blocks, mean=diagonal_mean(blocks, X.shape[1]))
                new = self._inverted(loss, new, penalty.ridge or 0.0)
            problem.begin(new.point)  # a device then answers for all that is asked of it at once
            return new

        D = -space.lbfgs.two_loop(G, s.steps, s.changes, metric)
        slope, length, size = inner(G, D), norm(D), norm(p.X)
        new = look(1.0) if s.newton else None
        while new is not None:
            promised, rise = new.step * slope, problem.objective(new.point) - problem.objective(p)
            blurred = rise <= _VALUE_ROUND_OFF * p.rounding * size
            if rise <= _SUFFICIENT * promised or (blurred and problem.stationarity(new.point) <= norm(G)):
                break
            if not loss.quadratic and (blurred or new.step < _SHORTEST):
                raise NoProgress("no quasi-Newton step lowers the objective")
            # on to the vertex of the parabola through what is known of the line, unless more is
            to = min(max(0.5 * promised / (promised - rise), 0.1), 0.5)
            new = None if loss.quadratic else look(to * new.step)
        new = new or look(_exact_step(loss, penalty, p, D)[0])
        change = penalty.smooth_gradient(new.point.X, new.point.gradient) - G
        newton = int(not loss.quadratic or new.step == 1.0 or new.point.value > (1 - LITTLE) * p.value)
        return replace(
            new,
            steps=(*s.steps, D if new.step == 1.0 else new.step * D)[-_MEMORY[newton] :],
            changes=(*s.changes, change)[-_MEMORY[newton] :],
            newton=newton,
            turns=s.turns + 1,
        )

    def _core_degree(self, loss: PairSquares, rank: int) -> float:
        if self.core != "auto":
            return float(self.core)
        kind = 0 if loss.pairs.difference else 1
        return max(_CORE_FOR_EACH_COLUMN[kind] * rank, _CORE_AT_LEAST[kind])

    def _by_way_of_core(self, loss: PairSquares, s: LMState) -> LMState | None:
        """Return where solving for part of the points, and placing the others, leads; None where no part will do."""
        X = s.point.X
        degree = self._core_degree(loss, X.shape[1])
        found = by_way_of_core(loss, X, degree, (self.forcing, self.max_cg, self.damping))
        if found is None:
            return None
        X, damping, left = astype(found[0], float_type(X)), *found[1:]
        if left <= _FITS:
            return LMState(loss.at(X), damping=damping)
        return self._prepared(loss, X, damping, 1)

    def _with_points_replaced(self, loss: SumOfSquares, penalty: Penalty, s: LMState) -> LMState:
        """Return the state with points that fit far worse than the others placed anew, where that lowers the loss."""
        replaced = getattr(loss, "replaced", None)
        X = replaced(s.point) if replaced is not None and penalty.ridge == 0 else None
        s = replace(s, replaced=s.replaced + 1)
        if X is None:
            return s
        point, blocks = loss.linearize(X)
        if not point.value < s.point.value:
            return s
        mean = diagonal_mean(blocks, X.shape[1])
        s = replace(s, point=point, blocks=blocks, mean=mean, before=math.inf, newton=0, steps=(), changes=())
        return s if s.turns < 0 else self._inverted(loss, s, 0.0)

    def _move(self, loss: SumOfSquares, penalty: Penalty, s: LMState) -> LMState:
        p, blocks, mean, ridge, later = s.point, s.blocks, s.mean, penalty.ridge or 0.0, loss.space.later
        if not len(blocks):
            p, blocks = loss.linearize(p.X)
            mean = diagonal_mean(blocks, p.X.shape[1])
        G = p.gradient + ridge * p.X if ridge else p.gradient
        slope = norm(G)
        damping = s.damping * float(mean)
        factors, slow = s.direct, s.slow_solves
        if self.linear_solver == "auto" and slow >= 2 and factors < 0:
            factors = int(factorable(loss, p))
        if self.linear_solver == "direct" or (self.linear_solver == "auto" and slow >= 2 and factors > 0):
            D = direct(loss, p, G, ridge + damping)
        else:
            tolerance = later(lambda g, before: residual(self.forcing, g, before), slope, s.before)

            def product(V: Array, out: Array) -> None:
                if s.newton:
                    out[:] = loss.hessian_product(p, V)
                else:
                    loss.gauss_newton_product(p, V, out)

            D, reached = conjugate_gradients(product, G, blocks, ridge + damping, tolerance, self.max_cg)
            slow = 0 if reached else slow + 1
        predicted = 0.5 * (damping * squared_norm(D) - inner(G, D))  # of the model without damping, at t = 1
        D = astype(D, float_type(p.X))
        if loss.quadratic:
            t, change = _exact_step(loss, penalty, p, D)
            point, blocks = loss.linearize(p.X + t * D)
        else:
            t, change, point, blocks = _backtrack(loss, penalty, p, G, D)
        gain = -change / predicted if predicted > 0 else 0.0
        stays = loss.quadratic and gain > 0.25
        newton = later(lambda f, before: int(f > (1 - LITTLE) * before), point.value, p.value) if stays else 0
        return LMState(
            point,
            step=t,
            blocks=blocks,
            mean=diagonal_mean(blocks, p.X.shape[1]),
            damping=next_damping(s.damping, gain),
            before=slope,
            slow_solves=slow,
            direct=factors,
            newton=1 if s.newton and gain > 0.25 else newton,
            replaced=s.replaced,
            first=s.first,
        )


def _exact_step(loss: SumOfSquares, penalty: Penalty, p: Point, D: Array) -> tuple[float, float]:
    """Return the t > 0 of least Ψ(p + tD), and the change of Ψ at t = 1."""
    line = Line(p, cast(PairSquares, loss).quartic(p, D), lambda t: loss.at(p.X + t * D))
    linear, quadratic = penalty.on_line(p.X, D)
    t = line.minimizer(math.inf, linear, quadratic)
    if not t > 0:
        raise NoProgress("the Gauss–Newton direction no longer descends: round-off is reached")
    return t, line.change(1.0) + linear + quadratic


def _backtrack(loss: SumOfSquares, penalty: Penalty, p: Point, G: Array, D: Array) -> tuple[float, float, Point, Array]:
    """Return the first t of 1, ½, ¼, … with enough decrease, what the change at t says of that at 1, and what is there.

    Values tell the change but where it is lost in their round-off: a remainder costs as much as several of them.
    """
    slope, t = inner(G, D), 1.0
    for _ in range(60):
        X = p.X + t * D
        point, blocks = loss.linearize(X)
        change = point.value - p.value
        if not abs(change) > _VALUE_KNOWN * p.rounding * norm(X):
            change = t * inner(p.gradient, D) + loss.move(p, X).remainder
        change += penalty.change(p.X, X)
        if change <= 1e-4 * t * slope + p.rounding * t * norm(D):
            return t, change if t == 1.0 else 0.0, point, blocks
        t /= 2
    raise NoProgress(f"no step down to {t:.1e} along the Gauss–Newton direction decreases the objective")


# -- the equations of a damped Newton step: by preconditioned conjugate gradients, or by sparse factors --------------

# Sparse factors are tried up to so many unknowns, and so many multiplications within the envelope.
_UNKNOWNS, _WORK = 100_000, 3e10


def conjugate_gradients(
    product: Callable[[Array, Array], None], G: Array, blocks: Array, shift: float, tolerance: float, max_iter: int
) -> tuple[Array, bool]:
    """Solve (A + shift·I) D = −G, preconditioned by the row blocks plus the shift; return D and whether it is solved.

    ``product(V, out)`` writes AV into ``out``. The residual goes down to ``tolerance`` times that of D = 0, in the norm
    of the preconditioner. What is returned after ``max_iter`` steps, or where A turns out not to be positive definite,
    is still a direction of descent.
    """
    space = space_of(G)
    ops, xp = row_blocks_in(space), space.xp
    G = space.astype(G, np.float64)
    D, R, Z, P, H = xp.zeros_like(G), -G, *(xp.empty_like(G) for _ in range(3))
    L = ops.factor_blocks(blocks, shift, G.shape[1])
    first = rz = ops.solve_blocks(L, R, Z)
    P[:] = Z
    for k in range(max_iter):
        product(P, H)
        curvature, rz = ops.advance(rz, shift, P, H, L, D, R, Z)
        if not curvature > 0:
            return D if k else Z, True
        if not rz > tolerance**2 * first:
            return D, True
    return D, False


def direct(loss: SumOfSquares, p: Point, G: Array, shift: float) -> Array:
    """Solve (JᵀJ + shift·I) D = −G by a sparse factorisation."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    if not loss.offers("gauss_newton_matrix"):
        raise TypeError(
            f'linear_solver="direct" needs JᵀJ as a sparse matrix, which {loss.name} has not here; use "cg"'
        )
    A = cast(Any, loss).gauss_newton_matrix(p)
    factors = splu(
        A + shift * sp.eye_array(A.shape[0], format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,  # symmetric and positive definite: no pivoting
        options={"SymmetricMode": True},
    )
    D: Array = factors.solve(-G.astype(np.float64).ravel()).reshape(G.shape)
    return D


def factorable(loss: SumOfSquares, p: Point) -> bool:
    """Return whether sparse factors of JᵀJ stay small, which they do where the graph is local.

    The bound is the work of a factorisation within the envelope of Cuthill and McKee's order: no more than a good
    sparse one needs, by a factor that is small for local graphs.
    """
    import scipy.sparse as sp
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if not loss.offers("gauss_newton_matrix") or p.X.size > _UNKNOWNS:
        return False
    A = (cast(Any, loss).gauss_newton_matrix(p) + sp.eye_array(p.X.size)).tocsr()
    order = reverse_cuthill_mckee(A, symmetric_mode=True)
    A = A[order][:, order]
    A.sort_indices()
    reach = np.arange(len(order)) - A.indices[A.indptr[:-1]]
    return float(np.square(reach.astype(np.float64)).sum()) <= _WORK
