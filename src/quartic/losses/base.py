"""What a loss f(X) = F(XXᵀ) must offer, and its points: X with what one product gives there."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from quartic.arrays import (
    Array,
    as_floats,
    astype,
    check_number,
    eps,
    finite_matrix,
    gram,
    inner,
    norm,
    space_of,
    trace_inner,
)
from quartic.arrays.checks import count
from quartic.arrays.space import HOST, Fresh, Space, Workspace
from quartic.core.parts import drop_stale, is_stale
from quartic.core.units import Units, shift_to_one, shifted
from quartic.losses.steps import Line, Move, Trial

if TYPE_CHECKING:
    from quartic.core.problem import Problem


# The scale of a random start is doubled at most so often (L_F is an upper bound), and halved: not into the saddle at 0.
_DOUBLINGS, _HALVINGS = 60, 4
# The round-off of a gradient that nothing more is known of, in units of eps of its size.
_ROUND_OFF = 8.0


class Point:
    """X, f(X) and ∇f(X); all come from one product, made when the point was. Losses that know more derive from it.

    Parameters
    ----------
    X : array (n, r)
    value : float
        f(X).
    gradient : array (n, r)
        ∇f(X).
    rounding : callable, optional
        Called with the point when first asked, it returns about the norm of the round-off in ``gradient``: below it a
        gradient, or a decrease predicted by it, means nothing. When left out, that is a few units of round-off of
        ‖∇f(X)‖ + |f(X)|/‖X‖, which is the size of what adds up to a gradient unless f is a difference of larger terms.
    """

    X: Array

    def __init__(
        self, X: Array, value: float, gradient: Array, rounding: Callable[[Point], float] | None = None
    ) -> None:
        if gradient.shape != X.shape:
            raise ValueError(f"the gradient at X must have its shape {tuple(X.shape)}, got {tuple(gradient.shape)}")
        self.X, self._known_value, self._known_gradient = X, value, gradient
        self._estimate = round_off if rounding is None else rounding

    @property
    def value(self) -> float:
        """f(X)."""
        return self._known_value

    @property
    def gradient(self) -> Array:
        """∇f(X)."""
        return self._known_gradient

    @cached_property
    def rounding(self) -> float:
        """About the norm of the round-off in the gradient."""
        return self._estimate(self)

    @property
    def space(self) -> Space:
        """Where X lives."""
        return space_of(self.X)

    @cached_property
    def gram(self) -> Array:
        """XᵀX, in float64."""
        return self.space.gram(self.X)

    @cached_property
    def feasible(self) -> bool:
        """Whether X ≥ 0, without a NaN."""
        return self.space.later(lambda low: low >= 0, self.space.least(self.X))

    @cached_property
    def projected_norm(self) -> float:
        """‖∇ᴾf(X)‖: of the gradient where X > 0, of its negative part where X = 0."""
        squared = self.space.projected_norm(self.X, self.gradient)
        return self.space.root(squared, lambda: self.space.projected(self.X, self.gradient))

    def combine(self, alpha: float, sigma: float, b: float, shift: float, clip: bool) -> tuple[Array, float]:
        """Return W = (α‖X‖² + σ)X + b∇f(X) − shift, cut off below zero if ``clip``, and ‖W‖²."""
        W = self.space.front(self.gram, alpha, sigma) * self.X + b * self.gradient
        W -= shift
        if clip:
            self.space.clip_in_place(W)
        return W, self.space.inner(W, W)

    @cached_property
    def _measures(self) -> dict[Callable[[Point], float], float]:
        return {}

    def once(self, measure: Callable[[Point], float]) -> float:
        """Return ``measure(self)``, worked out when it is first asked for: a penalty measures a point once."""
        known = self._measures.get(measure)
        if known is None:
            known = self._measures[measure] = measure(self)
        return known

    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint must keep for `Loss.restore` to rebuild this very point, bit for bit."""
        return {"X": self.X, "value": np.asarray(float(self.value)), "gradient": self.gradient}


def round_off(p: Point) -> float:
    """Return a few units of round-off of ‖∇f(X)‖ + |f(X)|/‖X‖."""
    size = float(norm(p.X))
    return _ROUND_OFF * eps(p.X) * (float(norm(p.gradient)) + (abs(float(p.value)) / size if size > 0 else 0.0))


def cube_norm(S: Array) -> float:
    """Return ‖X(XᵀX)‖ = √tr(S³) from S = XᵀX on the host; 0 where S is zero or not finite."""
    size = 1.0
    if not 1e-90 < trace_inner(S, S) < 1e90:  # cubes over- and underflow long before S does
        size = HOST.norm(S)
        if not 0 < size < math.inf:
            return 0.0
        S = S / size
    return size * math.sqrt(size) * math.sqrt(max(trace_inner(S @ S, S), 0.0))


class ProductCounter:
    """Counts products with the data."""

    def __init__(self) -> None:
        self.count = 0


class constant:
    """A number that follows from the data: worked out when first asked for, and known to all copies of the loss."""

    def __init__(self, work: Callable[[Any], float]) -> None:
        self.work, self.__doc__ = work, work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, loss: Any, owner: type | None = None) -> float:
        if loss is None:
            return self  # type: ignore[return-value]
        known: dict[str, float] = loss._constants
        if self.name not in known:
            known[self.name] = self.work(loss)
        return known[self.name]


class Loss(ABC):
    """A loss f(X) = F(XXᵀ) with F smooth and convex.

    A loss of your own needs ``n_points``, ``at`` and the constants ``smoothness`` and ``gradient_norm_at_zero``. Every
    product with the data (or pass over the pairs) goes through ``count_products``, so that a run can say truthfully how
    many it took. What else is here has a default; what a loss knows better it overrides, ``move`` first. Whether value
    and gradient go together, `quartic.diagnostics.check_gradient` tells. A class derived from one of ours that changes
    ``at`` takes over no formula that followed from it, only the constants.

    Examples
    --------
    Counts A_ij of mean (XXᵀ)_ij, A symmetric, with F(Y) = Σ (Y + c) − A log(Y + c). It serves X ≥ 0: where signs are
    free, Y has negative entries, and the logarithm must be continued there.

    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Loss, Point
    >>> from quartic.penalties import Nonnegative
    >>> class Poisson(Loss):
    ...     def __init__(self, A, c=0.1):
    ...         super().__init__()
    ...         self.A, self.c, self.n_points = A, c, len(A)
    ...     def at(self, X):
    ...         self.count_products()
    ...         Y = X @ X.T + self.c
    ...         return Point(X, float(np.sum(Y - self.A * np.log(Y))), 2 * (1 - self.A / Y) @ X)
    ...     @property
    ...     def smoothness(self):  # F'' = A / (Y + c)²
    ...         return float(self.A.max()) / self.c**2
    ...     @property
    ...     def gradient_norm_at_zero(self):
    ...         return float(np.linalg.norm(1 - self.A / self.c))
    >>> counts = np.kron(np.eye(2), np.full((3, 3), 4.0))
    >>> X = minimize(Problem(Poisson(counts), Nonnegative()), rank=2, tol=1e-8, random_state=0).X
    >>> bool(np.abs(X @ X.T - counts).max() < 0.2)
    True
    """

    n_points: int
    #: what users call it, in messages: the class, or the function that makes it
    name: ClassVar[str]
    #: whether F is quadratic, so that ``along`` is exact
    quadratic: bool = False
    #: what F(Y) is known not to fall below, for any Y ⪰ 0
    infimum: float = -math.inf
    #: whether the constants below are guesses, good enough for a dynamic step only
    estimated: bool = False
    #: what a user should look at when no step descends
    advice: str = ""
    #: whether f(XQ) = f(X) for every rotation Q, as for every F(XXᵀ); points held in place end that
    rotations: bool = True
    #: f is about the size of X to this power where X fits the data
    degree: int = 4
    #: the type the data are kept in: float64 or float32
    dtype: type[np.floating[Any]] = np.float64
    #: whether some directions are far steeper than others, as where constraints are penalised
    stiff: bool = False
    #: where the arrays of this loss live: in the host's memory, or on a torch device
    space: Space = HOST
    #: where the tall arrays of points come from
    arrays: Fresh = Fresh()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        formulas = (
            "quadratic", "infimum", "restore", "extrapolate", "between", "move", "trial", "replay", "along",
            "hessian_product", "curvature_diagonal", "gradient_operator", "exponents", "in_units", "fingerprint",
            "random_start", "best_scale", "default_start",
        )  # fmt: skip
        drop_stale(cls, Loss, ("at",), formulas)

    def __init__(self, smoothness: float | None = None) -> None:
        self._counter = ProductCounter()
        self._constants: dict[str, float] = {}
        if smoothness is not None:
            check_number(smoothness, "smoothness")
            self._constants["smoothness"] = float(smoothness)

    @property
    def translations(self) -> bool:
        """Whether f(X + 1cᵀ) = f(X) for every c, as for sums over differences of rows."""
        return False

    # -- the point --------------------------------------------------------------------------------------------------

    @abstractmethod
    def at(self, X: Array) -> Point:
        """Return the point at X: one product."""

    def restore(self, arrays: dict[str, Array]) -> Point:
        """Return the point that ``Point.arrays`` described, without a product; points of one's own need one's own."""
        if arrays["gradient"].shape != arrays["X"].shape or len(arrays["X"]) != self.n_points:
            raise ValueError("the gradient does not go with X")
        return self._point(self.space.adopt(arrays["X"]), float(arrays["value"]), self.space.adopt(arrays["gradient"]))

    def _point(self, X: Array, value: float, gradient: Array) -> Point:
        """Return the point with these, whose gradient is known up to `_rounding`."""
        return Point(X, value, gradient, self._rounding)

    def _rounding(self, p: Point) -> float:
        """Return about the norm of the round-off in the gradient at a point."""
        return round_off(p)

    def extrapolate(self, p: Point, q: Point, t: float, gram: Array | None = None) -> Point:
        """Return the point at p + t(p − q); free of products where the loss allows it.

        ``gram`` is its Gram matrix where the trial that led to p has made it.
        """
        return self.at(p.X + t * (p.X - q.X))

    def between(self, p: Point, q: Point) -> Line | None:
        """Return f on the line p + t(q − p), where that costs no product and q is not too near; else None."""
        return None

    def move(self, p: Point, X: Array) -> Move:
        """Return the step from p to X with its remainder f(X) − f(p) − ⟨∇f(p), X − p⟩: one product.

        This default subtracts; where the values no longer tell the two points apart, ½⟨∇f(X) − ∇f(p), X − p⟩ stands for
        the remainder, from which it differs by O(‖X − p‖³). A formula in X − p is better, and overrides it.
        """
        new = self.at(X)
        D = new.X - p.X
        remainder = new.value - p.value - inner(p.gradient, D)
        if abs(remainder) <= 0.01 * math.sqrt(eps(new.X)) * (abs(p.value) + abs(new.value)):
            remainder = 0.5 * inner(new.gradient - p.gradient, D)
        return Move(p, new, remainder, D)

    def trial(self, problem: Problem, p: Point, step: float, ahead: float | None = None) -> Trial:
        """Return the trial of a Bregman step from p, judged; see `quartic.Problem.trial`.

        A loss that comes to the same verdict in a shorter way overrides this default.
        """
        return problem.judge(problem.move(p, problem.bregman_step(p, step)), step)

    def replay(self, problem: Problem, p: Point, made: Any, method: str, *settings: Any) -> Any:
        """Return the iterations of a solver recorded for a device (``made``, if they serve), None where there are none.

        `quartic.losses.factor.replay_torch` has them for symmetric NMF on a GPU.
        """
        return None

    def along(self, p: Point, D: Array) -> Line:
        """Return f on the line p + tD: one product, then everything on the line is free."""
        raise TypeError(f"{self.name} is not a quartic on lines (its F is not quadratic)")

    def hessian_product(self, p: Point, D: Array) -> Array:
        """Return the second derivative ∇²f(p)[D], as an array of D's shape: one product."""
        raise TypeError(f"{self.name} offers no products with its second derivative")

    def curvature_diagonal(self, p: Point) -> Array | None:
        """Return about the diagonal of ∇²f(p), positive and of X's shape; None where a loss has no cheap one."""
        return None

    def gradient_operator(self, p: Point) -> Callable[[Array], Array]:
        """Return the map V ↦ ∇F(XXᵀ)V for V (n, k), with X that of the point: the certificates of optimality need it.

        ∇f([X, εV]) = 2∇F(XXᵀ + ε²VVᵀ)[X, εV]. This default takes ε so small that ε²VVᵀ is lost beside XXᵀ, or beside
        any data where X = 0, while the last columns, which are linear in ε, keep all their digits. It costs a product
        with r + k columns.
        """

        def apply(V: Array) -> Array:
            V = as_floats(V)
            size, unit = norm(V), np.finfo(V.dtype)
            if size == 0.0:
                return np.zeros_like(V)
            for tiny in (float(unit.tiny), float(np.finfo(np.float32).tiny)):  # F may compute in single precision
                small = (float(unit.eps) * norm(p.X) or tiny**0.25) / size
                G = self.at(np.hstack([p.X.astype(V.dtype, copy=False), small * V])).gradient[:, p.X.shape[1] :]
                if G.any():
                    break
            return G / (2 * small)

        return apply

    def _natural_length(self) -> float:
        """Return √(‖∇F(0)‖/L_F), the ‖X‖ at which ∇F may have changed by as much as it is at 0."""
        size = math.sqrt(self.gradient_norm_at_zero / self.smoothness)
        return size if 0 < size < math.inf else 1.0

    def value(self, X: Array) -> float:
        """Return f(X)."""
        return float(self.at(self.check(X)).value)

    def gradient(self, X: Array) -> Array:
        """Return ∇f(X)."""
        return self.at(self.check(X)).gradient

    def offers(self, capability: str) -> bool:
        """Tell whether the loss has a method, or a property, that not every loss has.

        ``along`` and ``hessian_product`` are there where F is quadratic; "rotations" means that f(XQ) = f(X) for every
        rotation Q, "on_host" that the data are NumPy or SciPy arrays.
        """
        if capability == "rotations":
            return self.rotations
        if capability == "on_host":
            return self.space is HOST
        exact = self.quadratic or capability not in ("along", "hessian_product")
        return exact and defines(type(self), capability)

    def entries_per_row(self) -> float | None:
        """Return about how many entries of the data a product touches a row of X; None where that says little."""
        return None

    def share_of_zeros(self) -> float:
        """Return the share of zeros among the entries of the data, stored or not; 0 where that says little."""
        return 0.0

    # -- constants --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """L_F: ∇F is Lipschitz with this constant."""

    @property
    def strong_convexity(self) -> float:
        """μ_F: F is strongly convex with this constant (0: merely convex)."""
        return 0.0

    @property
    @abstractmethod
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖, the Frobenius norm."""

    @property
    def curvature_at_zero(self) -> float:
        """max(0, λ_max(∇F(0))), or an upper bound of it."""
        return self.gradient_norm_at_zero

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None] | None:
        """Return log₂ of the size of the X that the data ask for, and of the weights; None for nothing but zeros.

        None in place of the pair says that the loss cannot be had in other units; it is then taken as it is.
        """
        return None

    def units(self) -> Units:
        """Return units in which data and weights are of size one; those of the user where they are near enough."""
        found = self.exponents()
        if found is None:
            return Units()
        length, weight = (shift_to_one(power, self.dtype) for power in found)
        return Units(length, self.degree * length + weight)

    def in_units(self, units: Units) -> Self:
        """Return the loss f̃(X̃) = 2^value · f(X̃ / 2^length); it shares the counter of products."""
        raise TypeError(f"{self.name} cannot be had in other units")

    def is_local(self) -> bool:
        """Tell whether the data join near points only, which makes least squares ill-conditioned; True if unknown."""
        return True

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{self.name} of {self.size()[0]}>"

    def fingerprint(self) -> str:
        """Return a few words that tell this data from other data, for checkpoints: kind, n, and f at a fixed point."""
        X = np.abs(np.cos(np.arange(2.0 * self.n_points))).reshape(-1, 2)
        return f"{type(self).__name__} n={self.n_points} value={self.at(X).value!r}"

    def random_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return a random X (n, rank) of the best scale."""
        return self.best_scale(self._gaussian(rank, nonnegative, generator))

    def best_scale(self, X: Array) -> Array:
        """Return tX with about the least f(tX): from the scale that the constants suggest, doubled or halved."""
        t = self._natural_length() / math.sqrt(norm(gram(X)))
        lowest = float(self.at(t * X).value)
        for factor, most in ((2.0, _DOUBLINGS), (0.5, _HALVINGS)):
            for _ in range(most):
                value = float(self.at(factor * t * X).value)
                if not value < lowest:  # nor where it is NaN
                    break
                t, lowest = factor * t, value
        return t * X

    def _gaussian(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        X: Array = self.space.normal(generator, (self.n_points, rank))
        return abs(X) if nonnegative else X

    def default_start(self, rank: int, nonnegative: bool, generator: np.random.Generator) -> Array:
        """Return the start `minimize` takes when none is given: a random one, or one that the data suggest."""
        return self.random_start(rank, nonnegative, generator)

    def size(self) -> tuple[str, float]:
        """Return the data's sizes in words, and about how many bytes they take."""
        return count(self.n_points, "point"), 0.0

    def check(self, X: Any, name: str = "X") -> Array:
        """Return X as a finite (n, r) array, no coarser than the data, or raise an error that says what is wrong."""
        clean = finite_matrix(self.space.take(X, name), name)
        if clean.shape[0] != self.n_points:
            raise ValueError(
                f"{name} must have one row for each of the {self.n_points} points of the data, "
                f"got shape {tuple(clean.shape)}"
            )
        if clean.shape[1] == 0:
            raise ValueError(f"{name} must have at least one column (the rank), got shape {tuple(clean.shape)}")
        return clean if self.dtype == np.float32 else astype(clean, np.float64)

    @property
    def n_products(self) -> int:
        """How many products with the data were made so far."""
        return self._counter.count

    def counted(self) -> Self:
        """Return the same loss for one run: with its own counter and workspace; data and constants are shared."""
        twin = copy.copy(self)
        twin.arrays = Workspace()
        twin._counter = ProductCounter()
        return twin

    def _with(self, power: int | None = None, **data: Any) -> Self:
        """Return the same loss of other data: whatever was worked out from the old ones is forgotten.

        L_F alone is kept where it is known to become 2^``power`` times what it was.
        """
        twin = copy.copy(self)
        for name in list(vars(twin)):
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(twin, name)
        known = self._constants.get("smoothness")
        twin._constants = {} if known is None or power is None else {"smoothness": shifted(known, power)}
        for name, value in data.items():
            setattr(twin, name, value)
        return twin

    def count_products(self, products: int = 1) -> None:
        """Take note of so many products with the data."""
        self._counter.count += products


def defines(kind: type[Loss], method: str) -> bool:
    """Tell whether a class of losses has a method, other than the one of `Loss` that says it is missing."""
    own = getattr(kind, method, None)
    return own is not None and own is not getattr(Loss, method, None) and not is_stale(kind, method, ("at",))
