"""The least-squares loss ½‖M − XXᵀ‖² of symmetric (nonnegative) matrix factorisation, its points and its steps.

A short way to try a Bregman step: the remainder of a step D is a matter of DᵀD, which costs as much as XᵀX, a third of
the pass over the new X. A Bregman step of the norm kernel is optimal, which gives ⟨∇f(p), X⁺⟩ for nothing; from there
the remainder follows by a difference of sums that are made anyway. The difference loses digits, but says how many.
While steps are long it decides, and DᵀD is made only where it cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from quartic.arrays import HOST, Array, Space, as_floats, eps, trace_inner
from quartic.core.units import Units
from quartic.kernels.norm import NormKernel
from quartic.losses.base import Loss, Point, constant, cube_norm
from quartic.losses.factor.matrix import Matrix, as_matrix
from quartic.losses.factor.passes import Origin, StepSums, passes_in
from quartic.losses.factor.spectrum import negative_part_of_spectrum
from quartic.losses.steps import Line, Move, Trial
from quartic.penalties.base import Penalty

if TYPE_CHECKING:
    from quartic.core.problem import Problem


# A step is short where ‖D‖² is below so many units of round-off of ‖X‖²: see `LeastSquaresMove.estimate`.
SHORT = 2.0**14


def is_short(square: float, size: float, X: Array) -> bool:
    """Tell whether a step D is too short beside X, given ‖D‖² and ‖X‖², for a difference of values to mean much."""
    return not square > SHORT * eps(X) * size


class LeastSquaresPoint(Point):
    """A point of `FullLeastSquares`: X and the product MX; the rest follows, or is what a pass has found out already.

    ``stride`` is ‖D‖² of the step D that came here, as far as is known: the next will be about as long.
    """

    def __init__(
        self,
        loss: FullLeastSquares,
        X: Array,
        MX: Array,
        gram: Array | None = None,
        fit: float | None = None,
        feasible: bool | None = None,
        gradient: Array | None = None,
        projected_norm: float | None = None,
        stride: float = math.inf,
    ) -> None:
        self.loss, self.X, self.MX, self.stride = loss, X, MX, stride
        self._know(gram=gram, fit=fit, feasible=feasible, gradient=gradient, projected_norm=projected_norm)

    def _know(self, **found: Any) -> None:
        """Take over what has been found out: the properties of those names, which are worked out otherwise."""
        vars(self).update((name, value) for name, value in found.items() if value is not None)

    @property
    def space(self) -> Space:
        return self.loss.space

    @property
    def origin(self) -> Origin:
        """Where a step from here starts."""
        return Origin(self.X, self.MX, self.X, self.MX, 0.0)

    @cached_property
    def gram(self) -> Array:
        return self.loss.passes.gram_at(self.origin)

    @cached_property
    def fit(self) -> float:
        """⟨MX, X⟩."""
        return self.space.inner(self.MX, self.X)

    @cached_property
    def value(self) -> float:
        """½‖M − XXᵀ‖²."""
        constant = 0.5 * self.loss.matrix.squared_norm

        def finish(S: Array, fit: float) -> float:
            value = constant + 0.5 * trace_inner(S, S) - fit
            return max(value, 0.0) if math.isfinite(value) else value

        return self.space.later(finish, self.gram, self.fit)

    @cached_property
    def gradient(self) -> Array:
        """2X(XᵀX) − 2MX."""
        G = self.loss.arrays.like(self.origin.X)
        self.loss.passes.stepped(self.origin, self.gram, 0.0, 0.0, 1.0, 0.0, False, G)
        return G

    def combine(self, alpha: float, sigma: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        loss, origin = self.loss, self.origin
        W = loss.arrays.like(origin.X)
        return W, loss.passes.stepped(origin, self.gram, alpha, sigma, b, shift, clip, W)

    @cached_property
    def projected_norm(self) -> float:
        """‖∇ᴾf(X)‖, without forming the gradient."""
        squared = self.loss.passes.projected_norm(self.X, self.gram, self.MX)
        return self.space.root(squared, lambda: self.space.projected(self.X, self.gradient))

    @cached_property
    def rounding(self) -> float:
        """eps·(‖X(XᵀX)‖ + ‖MX‖), twice; near a solution the two are equal."""
        relative = 4 * eps(self.origin.X)
        return self.space.later(lambda S: relative * cube_norm(S), self.gram)

    @property
    def takes_short_steps(self) -> bool:
        """Whether steps have become so short that a difference of values would not tell a good one from a bad one."""
        if self.stride == math.inf:
            return False
        return is_short(float(self.stride), float(self.gram.trace()), self.origin.X)

    def arrays(self) -> dict[str, Array]:
        """X, MX, XᵀX and ⟨MX, X⟩, and the gradient if it is at hand: made anew they might differ in the last bits."""
        kept = {"X": self.X, "MX": self.MX, "gram": self.gram, "fit": np.array(float(self.fit))}
        return kept | {"gradient": self.gradient} if "gradient" in vars(self) else kept


class ExtrapolatedPoint(LeastSquaresPoint):
    """A point p + t(p − q) ahead of p, known by its origin: its arrays are formed only if somebody asks for them."""

    def __init__(self, loss: FullLeastSquares, origin: Origin, gram: Array | None, stride: float) -> None:
        self.loss, self.stride, self._origin = loss, stride, origin
        self._know(gram=gram)

    @property
    def origin(self) -> Origin:
        return self._origin

    @property
    def formed(self) -> bool:
        """Whether X and MX exist."""
        return "_formed" in vars(self)

    @cached_property
    def _formed(self) -> tuple[Array, Array]:
        return self.loss.passes.formed(self._origin, self.loss.arrays)

    @property
    def X(self) -> Array:  # type: ignore[override]
        """The point itself."""
        return self._formed[0]

    @property
    def MX(self) -> Array:  # type: ignore[override]
        """Its product."""
        return self._formed[1]


class FullLeastSquares(Loss):
    """½‖M − XXᵀ‖² over all entries of M: `LeastSquares` without weights, whose notes have the constants.

    One product M X serves the value and the gradient, without an n × n matrix for sparse M:
    f(X) = ½‖M‖² + ½‖XᵀX‖² − ⟨MX, X⟩ and ∇f(X) = 2X(XᵀX) − 2MX.
    """

    name = "LeastSquares"
    quadratic = True
    infimum = 0.0
    smoothness = strong_convexity = 1.0

    def __init__(self, M: Any, squared_norm: float | None = None) -> None:
        super().__init__()
        self._take(as_matrix(M, squared_norm))

    def _take(self, matrix: Matrix) -> Self:
        self.matrix, self.n_points, self.dtype, self.space = matrix, matrix.n, matrix.dtype, matrix.space
        return self

    @property
    def passes(self) -> Any:
        """The passes over X where M is."""
        return passes_in(self.space)

    # -- the point --------------------------------------------------------------------------------------------------

    def product(self, X: Array) -> Array:
        """Return M X, counted."""
        self.count_products()
        return self.matrix.product(X, self.arrays.like(X))

    def rough(self) -> Self:
        """Return the loss with M in single precision where that is much quicker and good enough for a start."""
        return self._with()._take(self.matrix.rough())

    def at(self, X: Array) -> LeastSquaresPoint:
        X = as_floats(X)
        return LeastSquaresPoint(self, X, self.product(X))

    def point_from(self, X: Array, MX: Array) -> LeastSquaresPoint:
        """Return the point at X from its product, made elsewhere."""
        return LeastSquaresPoint(self, X, MX)

    def offers(self, capability: str) -> bool:
        """Tell whether the loss can; its "entries" are those of M, which operators and blocks do not show."""
        return self.matrix.shows_entries if capability == "entries" else super().offers(capability)

    def entries_per_row(self) -> float:
        return self.matrix.entries_per_row()

    def share_of_zeros(self) -> float:
        filled = float((self.matrix.entries() != 0).sum()) if self.matrix.shows_entries else math.inf
        return max(1 - filled / self.n_points**2, 0.0)

    def restore(self, arrays: dict[str, Array]) -> LeastSquaresPoint:
        shape, gradient = arrays["X"].shape, arrays.get("gradient")
        if arrays["MX"].shape != shape or arrays["gram"].shape != (shape[1],) * 2:
            raise ValueError("MX or XᵀX does not go with X")
        X, MX = self.space.adopt(arrays["X"]), self.space.adopt(arrays["MX"])
        if gradient is not None:
            if gradient.shape != shape:
                raise ValueError("the gradient does not go with X")
            gradient = self.space.adopt(gradient)
        gram, fit = self.space.small(arrays["gram"]), float(arrays["fit"])
        return LeastSquaresPoint(self, X, MX, gram, fit, gradient=gradient)

    def extrapolate(self, p: Any, q: Any, t: float, gram: Array | None = None) -> LeastSquaresPoint:
        """Return the point p + t(p − q); the product is linear, so it costs none."""
        origin, S = self.passes.extrapolated(Origin(p.X, p.MX, q.X, q.MX, t), self.arrays)
        if origin.t == 0:
            return LeastSquaresPoint(self, origin.X, origin.MX, S)
        return ExtrapolatedPoint(self, origin, gram, p.stride)

    def move(self, p: Any, X: Array) -> LeastSquaresMove:
        return self._measured(p, as_floats(X), None, curved=True)

    def _measured(self, p: LeastSquaresPoint, X: Array, ahead: float | None, curved: bool) -> LeastSquaresMove:
        """Return the step with what one pass over X and MX finds out about it (``step_sums``)."""
        MX = self.product(X)
        sums = self.passes.step_sums(X, MX, p.origin, ahead, curved)
        new = LeastSquaresPoint(self, X, MX, sums.gram, sums.fit, sums.feasible, stride=sums.length)
        return LeastSquaresMove(p, new, sums)

    def trial(self, problem: Problem, p: Any, step: float, ahead: float | None = None) -> Trial:
        """Return the trial of T_λ(p), with the Gram matrix of the point that the next step starts from.

        Where steps are long, that of the norm kernel is judged without DᵀD: by an estimate, where that is clear.
        """
        kernel, penalty = problem.kernel, problem.penalty
        # exactly this kernel: another, derived from it, may come to its step in its own way
        norm = kernel if type(kernel) is NormKernel and penalty.cut(step) is not None else None
        move = self._measured(p, problem.bregman_step(p, step), ahead, curved=norm is None or p.takes_short_steps)
        problem.begin(move.point)
        if norm is not None and move.sums.curved is None:
            room = float(norm.divergence_of(move)) / step
            most = room + float(move.allowance)
            value, error = move.estimate(slope_of_step(norm, penalty, move, step))
            if abs(value - most) > error:
                return Trial(move.point, value <= most, value / room if room > 0 else 1.0, move.sums.ahead)
        return problem.judge(move, step, move.sums.ahead)

    def replay(self, problem: Problem, p: Point, made: Any, method: str, *settings: Any) -> Any:
        """Return the iterations recorded for a GPU, where X ≥ 0 is the penalty and launching takes most of the time."""
        if made is not None:
            return made
        if not self.matrix.replays(p.X, method) or problem.penalty.cut(1.0) != (True, 0.0, 0.0):
            return None
        from quartic.losses.factor import replay_torch

        if method == "lbfgs":
            return replay_torch.QuasiNewtonReplay(problem, p.X, *settings)
        return replay_torch.InertialReplay(problem, p.X, *settings) if type(problem.kernel) is NormKernel else None

    def along(self, p: Any, D: Array) -> Line:
        """Return the exact quartic of f on p + tD: one product, M D."""
        D = as_floats(D)
        MD = self.product(D)
        space = self.space
        U, C, slope, bend = self.passes.line_sums(p.X, D, p.gram, p.gradient, MD)

        def move(t: float, clip: bool = False) -> LeastSquaresPoint:
            S = space.small(space.bare(p.gram) + t * (space.bare(U) + t * space.bare(C)))
            X, MX, G = (self.arrays.like(p.X) for _ in range(3))
            fit, projected, feasible = self.passes.line_point(p.X, D, p.MX, MD, t, clip, S, X, MX, G)
            size = space.root(projected, lambda: space.projected(X, G))
            return LeastSquaresPoint(self, X, MX, S, fit, feasible, G, size)

        return Line(p, space.later(_quartic, slope, p.gram, U, C, bend), move, lambda t: move(t, clip=True))

    def between(self, p: Any, q: Any) -> Line | None:
        """Return the exact quartic of f on p + t(q − p); the product is linear, so it costs none.

        Only C = DᵀD and ⟨MD, D⟩ of D = q − p have to be added up. Both ends being known, so are then
        XᵀX = S + t(S′ − S − C) + t²C, with S and S′ that of p and of q, and ⟨MX, X⟩ on the way.
        """
        sums = self.passes.step_sums(q.X, q.MX, p.origin, None, True)
        S, new, C = (np.asarray(A) for A in (p.gram, q.gram, sums.curved))
        change = new - S - C
        bend, fit = float(sums.bend), float(p.fit)
        slope = 0.5 * (float(q.fit) - fit - bend)  # ⟨Mp, D⟩
        if is_short(float(sums.length), float(S.trace()), p.X):
            return None  # differences of sums would say nothing
        coefficients = (
            trace_inner(S, change) - 2 * slope,
            trace_inner(S, C) + 0.5 * trace_inner(change, change) - bend,
            trace_inner(change, C),
            0.5 * trace_inner(C, C),
        )

        def move(t: float) -> LeastSquaresPoint:
            X, MX = self.passes.formed(Origin(p.X, p.MX, q.X, q.MX, -t), self.arrays)
            gram = self.space.small(S + t * change + t * t * C)
            return LeastSquaresPoint(self, X, MX, gram, fit + t * (2 * slope + t * bend))

        return Line(p, coefficients, move)

    def hessian_product(self, p: Any, D: Array) -> Array:
        """Return ∇²f(X)[D] = 2(D XᵀX + X(DᵀX + XᵀD) − MD): one product."""
        D = as_floats(D)
        space = self.space
        T = space.bare(space.gram(p.X, D))
        H = space.times(D, 2 * space.bare(p.gram))
        H += space.times(p.X, 2 * (T + T.T))
        H -= 2 * self.product(D)
        return H

    def gradient_operator(self, p: Point) -> Callable[[Array], Array]:
        """Return the map V ↦ X(XᵀV) − MV: one product each time."""

        def apply(V: Array) -> Array:
            V = as_floats(V)
            return p.X @ (p.X.T @ V) - self.product(V)

        return apply

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None]:
        """Return log₂ of the root of ‖M‖."""
        power = self.matrix.exponent()
        return None if power is None else power // 2, None

    def in_units(self, units: Units) -> Self:
        return self._with()._take(self.matrix.scaled(2 * units.length))

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    def gradient_norm_at_zero(self) -> float:
        return math.sqrt(self.matrix.squared_norm)

    @constant
    def curvature_at_zero(self) -> float:
        return min(negative_part_of_spectrum(self.matrix, self.count_products), self.gradient_norm_at_zero)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def size(self) -> tuple[str, float]:
        entries = self.matrix.entries_per_row() * self.n_points
        bytes_each = np.dtype(self.dtype).itemsize
        sparse = entries < 0.5 * float(self.n_points) ** 2
        return f"M with {self.n_points} rows and {entries:.3g} entries", entries * (bytes_each + 4 * sparse)

    def fingerprint(self) -> str:
        sums = f"squared_norm={self.matrix.squared_norm!r} checksum={self.matrix.checksum():.6e}"
        return f"LeastSquares n={self.n_points} {sums}"

    def mean_entry(self) -> float:
        """Return the mean of all n² entries of M."""
        total, products = self.matrix.total()
        self.count_products(products)
        return total / self.n_points**2

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the paper's start, 2·uniform(1e-5, √(mean(M)/r)); where signs are free, a scaled Gaussian."""
        if nonnegative:
            size = self.gradient_norm_at_zero / self.n_points
            return nonnegative_start(self.n_points, rank, self.mean_entry(), size, generator, self.space)
        X: Array = self.space.normal(generator, (self.n_points, rank))
        p = self.at(X)
        # f(tX) − f(0) = ½t⁴‖XᵀX‖² − t²⟨MX, X⟩ is least at t² = ⟨MX, X⟩ / ‖XᵀX‖².
        fit, S = self.space.read(p.fit, p.gram)
        size = trace_inner(S, S)
        scale = math.sqrt(abs(fit) / size) if fit != 0 else math.sqrt(self.gradient_norm_at_zero / float(np.trace(S)))
        return X * scale


def nonnegative_start(
    n: int, rank: int, mean: float, size: float, generator: np.random.Generator, space: Space = HOST
) -> Array:
    """Return the paper's start 2·uniform(1e-5, √(mean/r)) for a matrix with this mean entry.

    The 1e-5 is for similarities. Where they are so small that it would not lie well below √(mean/r), or cancel in the
    mean beside their root mean square ``size``, the bounds follow the scale of the data.
    """
    top = max(math.sqrt(abs(mean) / rank), 2e-5 * math.sqrt(size))
    return space.uniform(generator, min(2e-5, top), 2 * top, (n, rank))


def _quartic(slope: float, S: Array, U: Array, C: Array, bend: float) -> tuple[float, float, float, float]:
    """Return c₁ … c₄ of f on X + tD from S = XᵀX, U = XᵀD + DᵀX, C = DᵀD and bend = ⟨MD, D⟩."""
    quadratic = trace_inner(S, C) + 0.5 * trace_inner(U, U) - bend
    return float(slope), float(quadratic), trace_inner(U, C), 0.5 * trace_inner(C, C)


# Sums over tall arrays are made in blocks; their round-off is within so many units of the size of their terms.
_ROUND_OFF = 32.0


class Estimate(NamedTuple):
    """A number that may be wrong by ``error``."""

    value: float
    error: float


class LeastSquaresMove(Move):
    """A step D from p to X = p + D, known by the sums of one pass.

    With S = pᵀp, C = DᵀD and B = XᵀX − S the remainder is ⟨S, C⟩ + ½‖B‖² − ⟨MD, D⟩. Every term is of second order in
    D, and the round-off in B, eps·‖S‖, enters only times B itself: the remainder is known to eps·‖X‖/‖D‖ of its size,
    where a difference of values would lose it below √eps.
    """

    start: LeastSquaresPoint
    point: LeastSquaresPoint

    def __init__(self, start: LeastSquaresPoint, point: LeastSquaresPoint, sums: StepSums) -> None:
        self.start, self.point, self.sums = start, point, sums

    @cached_property
    def C(self) -> Array:
        """DᵀD, by another pass if the first has not made it, which is rare."""
        sums = self.sums
        if sums.curved is None:
            sums = self.start.loss.passes.step_sums(self.point.X, self.point.MX, self.start.origin, None, True)
        assert sums.curved is not None
        return sums.curved

    @cached_property
    def sizes(self) -> tuple[float, float, float]:
        size = self.start.space.later(np.trace, self.start.gram)
        return size, 2 * self.sums.along, self.sums.length

    @property
    def allowance(self) -> float:
        return self.start.rounding * math.sqrt(max(float(self.sums.length), 0.0))

    def begin(self) -> None:
        """Nothing: the pass has set all of it going."""

    @cached_property
    def remainder(self) -> float:  # type: ignore[override]  # worked out when asked for
        """f(p + D) − f(p) − ⟨∇f(p), D⟩."""
        return self.start.space.later(_remainder, self.start.gram, self.sums.gram, self.C, self.sums.bend)

    def estimate(self, slope: Estimate) -> Estimate:
        """Return the remainder from ⟨∇f(p), X⟩, by differences of sums that were made anyway.

        With 2⟨pS, X⟩ = ⟨∇f(p), X⟩ + 2⟨Mp, X⟩ and 2⟨pS, p⟩ = 2‖S‖² the remainder ½‖XᵀX‖² − ½‖S‖² − ⟨MD, D⟩ − 2⟨pS, D⟩ is
        ½‖XᵀX‖² + (3/2)‖S‖² − ⟨MD, D⟩ − ⟨∇f(p), X⟩ − 2⟨Mp, X⟩. Its terms are of order ‖X‖⁴ where it is of order
        ‖X‖²‖D‖²: good enough for long steps, and it says how good.
        """
        S, sums = self.start.gram, self.sums
        before, after = 1.5 * trace_inner(S, S), 0.5 * trace_inner(sums.gram, sums.gram)
        value = (after + before) - sums.bend - slope.value - 2 * sums.pull
        size = after + before + abs(sums.bend) + 2 * abs(sums.pull)
        return Estimate(value, slope.error + _ROUND_OFF * eps(self.point.X) * size)


def _remainder(S: Array, new: Array, C: Array, bend: float) -> float:
    """Return what f(X + D) − f(X) is beyond the first order, from XᵀX, that of X + D, DᵀD and bend = ⟨MD, D⟩."""
    B = new - S
    return trace_inner(S, C) + 0.5 * trace_inner(B, B) - bend


def slope_of_step(kernel: NormKernel, penalty: Penalty, move: Move, step: float) -> Estimate:
    """Return ⟨∇f(X), X⁺⟩ where X⁺ = T_λ(X), from the optimality of X⁺.

    ∇h(X) − λ∇f(X) − ∇h(X⁺) lies in λ∂g(X⁺), whose inner product with X⁺ is kλg(X⁺) for a g of degree k, and 0 for a
    constraint to a cone: λ⟨∇f(X), X⁺⟩ = (α‖X‖² + σ)⟨X, X⁺⟩ − (α‖X⁺‖² + σ)‖X⁺‖² − kλg(X⁺).
    """
    a, b, c = move.sizes
    new = a + b + c
    before = (kernel.alpha * a + kernel.sigma) * (a + 0.5 * b) / step
    after = (kernel.alpha * new + kernel.sigma) * new / step
    pull = penalty.pull_at(move.point)
    return Estimate(before - after - pull, _ROUND_OFF * eps(move.point.X) * (abs(before) + after + pull))
