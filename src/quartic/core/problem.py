"""A problem: a loss, a penalty, and the geometry to solve it in."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from quartic.arrays import Array
from quartic.core.units import Units
from quartic.kernels import EuclideanKernel, GramKernel, Kernel, NormKernel
from quartic.losses import Loss, Move, Point
from quartic.losses.steps import Trial
from quartic.penalties import Penalty, Zero

_NONE = Zero()


@dataclass(frozen=True)
class Problem:
    """Minimise Ψ(X) = f(X) + g(X), with f(X) = F(XXᵀ).

    Parameters
    ----------
    loss : Loss
        f.
    penalty : Penalty, optional
        g; none when left out.
    kernel : Kernel, optional
        The geometry h. When left out: the Gram kernel where its mirror map exists (no penalty, or ridge), else the
        norm kernel, with the constants that make f 1-smooth; the Euclidean kernel for a loss that has none (L_F = ∞),
        or a penalty that knows no more than its prox and is not convex.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, penalties
    >>> Problem(losses.LeastSquares(np.eye(3)), penalties.Nonnegative()).penalty
    Nonnegative()
    """

    loss: Loss
    penalty: Penalty = None  # type: ignore[assignment]  # None is replaced by Zero() below
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", _NONE if self.penalty is None else self.penalty)
        parts: list[tuple[object, type, str]] = [(self.loss, Loss, "loss"), (self.penalty, Penalty, "penalty")]
        if self.kernel is not None:
            parts.append((self.kernel, Kernel, "kernel"))
        for value, kind, name in parts:
            if not isinstance(value, kind):
                found = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
                hint = f"; did you mean {value.__name__}(...)?" if isinstance(value, type) else ""
                raise TypeError(f"{name} must be a quartic {kind.__name__}, got {found}{hint}")

    @staticmethod
    def check(problem: Any) -> None:
        """Raise unless this is a problem."""
        if not isinstance(problem, Problem):
            found = problem.name if isinstance(problem, Loss) else type(problem).__name__
            raise TypeError(f"problem must be a quartic.Problem, got {found}")

    def objective(self, point: Point) -> float:
        """Return Ψ at a point."""
        return float(point.value) + float(point.once(self.penalty.value_at))

    def stationarity(self, point: Point) -> float:
        """Return the norm of the least element of ∇f + ∂g: the stopping measure."""
        return float(point.once(self.penalty.stationarity_at))

    def begin(self, point: Point) -> None:
        """Set going on a device, without waiting for it, what `objective` and `stationarity` will ask for.

        They are then read together with what decides whether the step to the point is accepted.
        """
        if self.loss.space.deferred:
            _ = point.value, point.rounding, *map(point.once, (self.penalty.value_at, self.penalty.stationarity_at))

    def move(self, start: Point, X: Array) -> Move:
        """Return the loss's step from a point to X, on a device with all that will be asked of it set going."""
        move = self.loss.move(start, X)
        self.begin(move.point)
        if self.loss.space.deferred:
            _ = start.rounding
            move.begin()
        return move

    def geometry(self, tight: bool = True) -> Kernel:
        """Return the kernel, or the best one that fits, with constants that are proven (``tight``) or cheap."""
        if self.kernel is not None:
            return self.kernel
        if math.isinf(self.loss.smoothness):  # no quartic kernel bounds it; a dynamic step finds its own way
            return EuclideanKernel()
        kinds: tuple[type[Kernel], ...] = (GramKernel, NormKernel)
        kind = next((kind for kind in kinds if kind.why_not(self.penalty) is None), None)
        return EuclideanKernel() if kind is None else kind.for_loss(self.loss, tight)

    def counted(self) -> Problem:
        """Return the same problem whose loss counts its products from zero."""
        return replace(self, loss=self.loss.counted())

    def in_good_units(self) -> tuple[Problem, Units]:
        """Return the problem in units in which its data are of size one, and those units.

        Itself, where the data are near enough to that, or where a part of it cannot be had in other units.
        """
        units = self.loss.units()
        if not units:
            return self, units
        penalty = self.penalty.in_units(units)
        kernel = None if self.kernel is None else self.kernel.in_units(units)
        if penalty is None or (self.kernel is not None and kernel is None):
            return self, Units()
        return Problem(self.loss.in_units(units), penalty, kernel), units

    def with_kernel(self, tight: bool = True) -> Problem:
        """Return the same problem with its kernel chosen."""
        return replace(self, kernel=self.geometry(tight))

    def bregman_step(self, point: Point, step: float) -> Array:
        """Return the Bregman iteration map T_λ(X) = argmin_U  g(U) + ⟨∇f(X), U − X⟩ + D_h(U, X)/λ."""
        assert self.kernel is not None
        return self.kernel.iterate(point, self.penalty, step)

    def trial(self, p: Point, step: float, ahead: float | None = None) -> Trial:
        """Return the step from p to T_λ(p), and whether it decreases f enough.

        The next one is to start ``ahead`` times as far beyond T_λ(p) as that is from the iterate before: a loss may
        prepare for that.
        """
        return self.loss.trial(self, p, step, ahead)

    def judge(self, move: Move, step: float, ahead: Array | None = None) -> Trial:
        """Return the trial that a step with T_λ was, with the Gram matrix ``ahead`` of the next one."""
        assert self.kernel is not None
        room = float(self.kernel.divergence_of(move)) / step
        remainder = float(move.remainder)
        enough = remainder <= room + float(move.allowance)
        return Trial(move.point, enough, remainder / room if room > 0 else 1.0, ahead)

    def best_between(self, p: Point, q: Point) -> Point | None:
        """Return the point of least Ψ between two feasible ones, where that costs no product and it is below p."""
        if not self.penalty.has_lines:
            return None
        line = self.loss.between(p, q)
        if line is None:
            return None
        cut = self.penalty.cut(1.0)
        constraint = cut is not None and cut[1:] == (0.0, 0.0)
        linear, quadratic = (0.0, 0.0) if constraint else self.penalty.on_line(p.X, q.X - p.X)
        t = line.minimizer(1.0, float(linear), float(quadratic))
        if not t > 0:
            return None
        best = line.point(t)
        self.begin(best)
        return best if self.objective(best) < self.objective(p) else None
