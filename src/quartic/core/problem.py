"""A problem: a loss, a penalty, and the geometry to solve it in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from quartic.arrays import Array, is_torch
from quartic.core.units import Units
from quartic.kernels import EuclideanKernel, GramKernel, Kernel, NormKernel
from quartic.losses import Loss, Move, Point
from quartic.penalties import Nonnegative, Penalty, Ridge, Zero

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
        norm kernel, with the constants that make f 1-smooth; the Euclidean kernel for a loss that has none (L_F = ∞).

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem
    >>> from quartic.losses import LeastSquares
    >>> from quartic.penalties import Nonnegative
    >>> Problem(LeastSquares(np.eye(3)), Nonnegative()).penalty
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

    def objective(self, point: Point) -> float:
        """Return Ψ at a point."""
        return float(point.value) + float(self._kept(point, "penalty", lambda: self.penalty.value_at(point)))

    def stationarity(self, point: Point) -> float:
        """Return the norm of the least element of ∇f + ∂g: the stopping measure."""
        return float(self._kept(point, "stationarity", lambda: self.penalty.stationarity_at(point)))

    def move(self, start: Point, X: Array, **hints: Any) -> Move:
        """Return the loss's step from a point to X.

        On a device the objective and the stationarity there are set going at once, so that they are read together with
        what decides whether the step is accepted.
        """
        move = self.loss.move(start, X, **hints)
        self.anticipate(move.point)
        if is_torch(X):
            _ = start.rounding
            if "sizes" not in move.__dict__:
                _ = move.S, move.T, move.C
        return move

    def anticipate(self, point: Point) -> None:
        """Set going on a device, without waiting for it, what `objective` and `stationarity` will ask for."""
        if not is_torch(point.X):
            return
        _ = point.value, point.rounding
        self._kept(point, "penalty", lambda: self.penalty.value_at(point))
        self._kept(point, "stationarity", lambda: self.penalty.stationarity_at(point))

    def _kept(self, point: Point, name: str, measure: Callable[[], float]) -> float:
        """Return a measure of the point by this penalty, taken once."""
        kept = point.__dict__.get(f"_{name}")
        if kept is None or kept[0] is not self.penalty:
            kept = point.__dict__[f"_{name}"] = (self.penalty, measure())
        value: float = kept[1]
        return value

    def geometry(self, tight: bool = True) -> Kernel:
        """Return the kernel, or the best one that fits, with constants that are proven (``tight``) or cheap."""
        if self.kernel is not None:
            return self.kernel
        if math.isinf(self.loss.smoothness):  # no quartic kernel bounds it; a dynamic step finds its own way
            return EuclideanKernel()
        kind = GramKernel if type(self.penalty) in (Zero, Ridge) else NormKernel
        return kind.for_loss(self.loss, tight)

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

    def bregman_move(self, start: Point, step: float, ahead: float | None = None) -> Move:
        """Return the step to T_λ(X), for `sufficient_decrease`.

        The next one will start ``ahead`` times as far beyond T_λ(X) as that is from the last iterate.
        """
        assert self.kernel is not None
        X = self.bregman_step(start, step)
        if not self.loss.lean_moves:
            return self.move(start, X)
        return self.move(start, X, ahead=ahead, rough=self.kernel.knows_slope(self.penalty))

    def sufficient_decrease(self, move: Move, step: float) -> bool:
        """Tell whether f(X⁺) ≤ f(X) + ⟨∇f(X), X⁺ − X⟩ + D_h(X⁺, X)/λ, the condition (suff_decrease) of the paper.

        X⁺ must be T_λ(X).
        """
        return self.judge(move, step)[0]

    def judge(self, move: Move, step: float) -> tuple[bool, float]:
        """Tell whether the decrease is sufficient, and which part of D_h(X⁺, X)/λ the remainder takes up.

        An estimate of the remainder decides where it is clear enough.
        """
        assert self.kernel is not None
        room = float(self.kernel.divergence_of(move)) / step
        most = room + float(move.allowance)
        if move.rough:
            remainder = move.estimate(self.kernel.slope(move, self.penalty, step))
            if abs(remainder.value - most) > remainder.error:
                return remainder.value <= most, remainder.value / room if room > 0 else 1.0
        exact = float(move.remainder)
        return exact <= most, exact / room if room > 0 else 1.0

    def best_between(self, p: Point, q: Point) -> Point | None:
        """Return the point of least Ψ between two feasible ones, where that costs no product and it is below p."""
        if type(self.penalty).on_line is Penalty.on_line:
            return None
        line = self.loss.between(p, q)
        if line is None:
            return None
        constraint = type(self.penalty) in (Zero, Nonnegative)
        linear, quadratic = (0.0, 0.0) if constraint else self.penalty.on_line(p.X, q.X - p.X)
        t = line.minimizer_with(float(linear), float(quadratic), 1.0)
        if not t > 0:
            return None
        best = line.point(t)
        self.anticipate(best)
        return best if self.objective(best) < self.objective(p) else None
