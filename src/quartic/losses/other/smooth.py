"""A loss of one's own: any smooth F(XXᵀ), given by functions."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, as_floats, check_count, check_number, gram, inner, norm
from quartic.core.units import Units, exponent, shifted
from quartic.losses.base import Loss, Point, constant, cube_norm, round_off
from quartic.losses.devices import to_scipy
from quartic.losses.factor.spectrum import sampled_norm_bound, upper_bound_of_spectrum

# ∇F(0) is formed up to this size, and sampled by so many random vectors above.
_DENSE, _SAMPLES = 200, 96
# Sizes of X at which the gradient is held against differences of f: with large data only large X move f visibly.
_SCALES = (1.0, 1e2, 1e-2, 1e4, 1e-4, 1e6, 1e-6, 1e12, 1e20, 1e30, 1e40, 1e50, 1e60, 1e70)
# Differences of ∇F are believed where they are this share of it.
_VISIBLE = 1e-10
# A bound of the round-off in ∇f is used as it is up to this share of ∇f.
_HARMLESS = 1e-7


class Smooth(Loss):
    r"""A function of your own, :math:`f(X) = F(XX^T)`, known by its values and products with its gradient.

    Parameters
    ----------
    F : callable
        ``F(X)`` returns F(XXᵀ) for X (n, r). With ``of="Y"`` it is called as ``F(Y)`` with the whole Y = XXᵀ, for
        trials at small n.
    gradient : callable or True, optional
        ``gradient(X)`` returns the product ∇F(XXᵀ)X, or the gradient of f, which is twice that: the two are told apart
        by a difference quotient when first used, and anything else is refused. It may also return ∇F(XXᵀ) itself as a
        sparse matrix or LinearOperator (n, n). With ``of="Y"``, ``gradient(Y)`` returns ∇F(Y).
        True: F returns the pair (value, gradient). When left out, F must be written with torch or jax, and is
        differentiated.
    smoothness : float, optional
        L_F, the Lipschitz constant of ∇F. When left out it is estimated from a few random points, and the dynamic step
        of ``dyn-nolips``, ``inertial`` and others corrects the estimate; ``nolips``, whose step is fixed, needs it, and
        so does an F that is linear in XXᵀ.
    n : int, optional
        The number of rows of X; needed for a random start, taken from X0 otherwise.
    of : {"X", "Y"}, default="X"
        What F takes.
    strong_convexity : float, default=0
        μ_F.
    infimum : float, optional
        A lower bound of F, for the gap that `quartic.certify` reports.
    device : optional
        Where torch is to differentiate F, if not on the CPU.

    Notes
    -----
    A step is accepted by f(X⁺) − f(X) − ⟨∇f(X), X⁺ − X⟩. Nothing is known of f but its values, whose difference drowns
    in round-off near a solution. There, ½⟨∇f(X⁺) − ∇f(X), X⁺ − X⟩ stands for it, which differs by O(‖X⁺ − X‖³).

    ∇F(0) is formed by n products up to n = 200 and sampled above. Where L_F is estimated it is the largest
    |⟨∇F(τY) − ∇F(0), Y⟩| / (τ‖Y‖²) over random Y ⪰ 0 of the size ‖∇F(0)‖/L_F.

    Scale. What F holds cannot be seen from here, but by ‖∇F(0)‖ and L_F it is known which X the data ask for. Where
    that is far from one a run works in units in which it is not, as with other losses. F itself is called in yours, so
    its values, squares of the data as a rule, must stay within the range of floating point.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, minimize
    >>> from quartic.losses import Smooth
    >>> M = np.diag([3.0, 2.0, 1.0])
    >>> loss = Smooth(lambda X: 0.5 * np.sum((X @ X.T - M) ** 2), lambda X: (X @ X.T - M) @ X, n=3)
    >>> round(minimize(Problem(loss), rank=2, tol=1e-8, random_state=0).objective, 6)
    0.5
    """

    advice = (
        "if the gradient may be wrong, run quartic.diagnostics.check_gradient(loss, X); if the constants may be, "
        "check_relative_smoothness(loss, kernel)"
    )

    def __init__(
        self,
        F: Callable[..., Any],
        gradient: Callable[..., Any] | bool | None = None,
        smoothness: float | None = None,
        *,
        n: int | None = None,
        of: str = "X",
        strong_convexity: float = 0.0,
        infimum: float = -math.inf,
        device: Any = None,
    ) -> None:
        super().__init__(smoothness)
        if not callable(F) or not (callable(gradient) or gradient is True or gradient is None):
            raise TypeError(
                "F must be a function, and gradient a function, True (F returns both) or left out, "
                f"got {type(F).__name__} and {gradient!r}"
            )
        if of not in ("X", "Y"):
            raise ValueError(f'of must be "X" (F takes X) or "Y" (F takes XXᵀ), got {of!r}')
        if n is not None:
            check_count(n, "n")
        check_number(strong_convexity, "strong_convexity", zero=True)
        self.F, self.infimum = F, infimum
        self._function, self._n = UsersFunction(F, gradient, of == "Y", device), n
        self.estimated, self._strong_convexity = smoothness is None, strong_convexity
        self._units = Units()

    # -- the point --------------------------------------------------------------------------------------------------

    def at(self, X: Array) -> Point:
        X = as_floats(X)
        self.count_products()
        return self._point(X, *self._evaluate(X))

    def _evaluate(self, X: Array) -> tuple[float, Array]:
        """Return f(X) and ∇f(X), in the units of this loss."""
        units = self._units
        if not units:
            return self._function(X, self.count_products)
        value, G = self._function(units.X(X), self.count_products)
        return shifted(value, units.value), shifted(G, units.value - units.length)

    def _rounding(self, p: Point) -> float:
        """Return about the norm of the round-off in ∇f(X): what rounding X itself makes of it.

        8 eps·L_F·‖X(XᵀX)‖ bounds it. But L_F is the curvature where it is largest, such as that of log(Y + ε) at
        Y = 0, and may be a billion times that at X. Where the bound could hide what is left of the gradient, X is
        shaken by a few units of round-off, for one product.
        """
        unit = float(np.finfo(p.X.dtype).eps)
        bound = 8 * unit * self.smoothness * cube_norm(p.gram)
        if not bound > _HARMLESS * norm(p.gradient):
            return bound
        signs = np.where(np.cos(np.arange(p.X.size, dtype=np.float64)) < 0, -1, 1).reshape(p.X.shape)
        shaken = self.at(p.X * (1 + 4 * unit * signs).astype(p.X.dtype))
        seen = 2 * norm(shaken.gradient - p.gradient)
        return min(bound, max(seen, round_off(p))) if math.isfinite(seen) else bound

    # -- constants --------------------------------------------------------------------------------------------------

    @constant
    def smoothness(self) -> float:
        """L_F as given, or an estimate from below."""
        return largest_curvature(self, self._at_zero())

    @property
    def strong_convexity(self) -> float:
        return self._strong_convexity

    @constant
    def gradient_norm_at_zero(self) -> float:
        """‖∇F(0)‖, for large n a bound from products with random vectors that fails with a probability of 1e-6."""
        n, apply = self.n_points, self._at_zero()
        size = norm(apply(np.eye(n))) if n <= _DENSE else sampled_norm_bound(apply, n, _SAMPLES)
        if not math.isfinite(size):
            raise ValueError(
                "∇F(0), the gradient of F where XXᵀ is zero, is not finite, and the steps are measured by it: "
                "keep F smooth there, as with log(Y + 1e-6) in place of log(Y)"
            )
        return size

    @constant
    def curvature_at_zero(self) -> float:
        """max(0, λ_max(∇F(0))), for large n an upper bound of it (`quartic.losses.factor.spectrum`)."""
        bound = upper_bound_of_spectrum(self._at_zero(), self.n_points, float(np.finfo(np.float64).eps), _DENSE)
        return min(bound, self.gradient_norm_at_zero)

    def _at_zero(self) -> Callable[[Array], Array]:
        return self.gradient_operator(self.at(np.zeros((self.n_points, 1))))

    # -- scale ------------------------------------------------------------------------------------------------------

    def exponents(self) -> tuple[int | None, int | None] | None:
        """Return log₂ of √(‖∇F(0)‖/L_F), and of L_F; None where ∇F(0) is zero, but for the V it was multiplied by."""
        slope = self.gradient_norm_at_zero
        length = math.sqrt(slope / self.smoothness) if slope > 0 else 0.0
        none = 10 * np.finfo(np.float64).tiny ** 0.25
        return (exponent(length), exponent(self.smoothness)) if none < length < math.inf else None

    def in_units(self, units: Units) -> Self:
        twin, slope, curvature = copy.copy(self), units.value - 2 * units.length, units.value - 4 * units.length
        twin._units = units
        twin._strong_convexity = shifted(float(self._strong_convexity), curvature)
        twin.infimum = shifted(float(self.infimum), units.value)
        twin._constants = {
            name: shifted(value, curvature if name == "smoothness" else slope)
            for name, value in self._constants.items()
        }
        return twin

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    @property
    def n_points(self) -> int:  # type: ignore[override]
        """The number of rows of X."""
        if self._n is None:
            raise ValueError("Smooth does not know the size of X: give n=, or a start X0 of shape (n, r)")
        return self._n

    def check(self, X: Any, name: str = "X") -> Array:
        """Return X as a finite (n, r) array; the first X says what n is, where it was not given.

        F is given what it works with, whatever X came in as: a tensor is brought to the host's memory.
        """
        X = to_scipy(X)
        if self._n is None and np.ndim(X) == 2:
            self._n = int(np.shape(X)[0])
        return super().check(X, name)

    def __repr__(self) -> str:
        return f"<Smooth of {getattr(self.F, '__name__', 'F')}>"

    def fingerprint(self) -> str:
        X = np.cos(np.arange(2.0 * self.n_points)).reshape(-1, 2)
        return f"Smooth {getattr(self.F, '__name__', '')} n={self.n_points} value={self.at(X).value!r}"


class UsersFunction:
    """f(X) = F(XXᵀ) and its gradient, as `Smooth` takes them; ``of_Y``: F takes XXᵀ rather than X."""

    def __init__(self, F: Callable[..., Any], gradient: Callable[..., Any] | bool | None, of_Y: bool, device: Any):
        self.F, self.gradient, self.of_Y, self.device = F, gradient, of_Y, device
        # what is found out on the way: how to differentiate, and by which factor
        self._run: ValueAndGradient | None = None
        self._known_factor: float | None = None

    def __call__(self, X: Array, count: Callable[[int], None]) -> tuple[float, Array]:
        """Return f(X) and ∇f(X); ``count`` is told of calls of F beyond the one."""
        if self.gradient is None:
            return self._differentiated(X)
        argument = X @ X.T if self.of_Y else X
        try:
            value, found = self._pair(argument)
        except Exception as error:
            if not self.of_Y:
                error.add_note(f'Smooth called F with X of shape {X.shape}; where F takes Y = XXᵀ, pass of="Y"')
            raise
        return _number(value), self._gradient_of_f(X, found, count)

    def _differentiated(self, X: Array) -> tuple[float, Array]:
        if self._run is None:
            F = self.F
            f = (lambda X: F(X @ X.T)) if self.of_Y else F
            self._run = differentiate(f, X, self.device)
        value, G = self._run(X)
        return value, as_floats(G)

    def _gradient_of_f(self, X: Array, found: Any, count: Callable[[int], None]) -> Array:
        """Return ∇f(X) from what the user's gradient returned."""
        n, r = X.shape
        matrix = sp.issparse(found) or isinstance(found, LinearOperator)
        if matrix or self.of_Y or (np.shape(found) == (n, n) and n != r):
            if np.shape(found) != (n, n):
                raise ValueError(f"gradient must return ∇F of shape {(n, n)}, got {np.shape(found)}")
            product = found @ X
            transposed = found.T @ X if not isinstance(found, LinearOperator) else product
            return as_floats(np.asarray(product) + np.asarray(transposed))
        G = as_floats(found)
        if G.shape != X.shape:
            raise ValueError(
                f"gradient must return an array of the shape of X, {X.shape}, or ∇F(XXᵀ), {(n, n)}; got {G.shape}"
            )
        return G * self._factor(X, G, count)

    @np.errstate(over="ignore", invalid="ignore")
    def _factor(self, X: Array, G: Array, count: Callable[[int], None]) -> float:
        """Return 1 where the user's gradient is ∇f(X), 2 where it is ∇F(XXᵀ)X; raise where it is neither."""
        if self._known_factor is None:
            ratio = self._rise(X, G, count)
            Y = np.abs(np.random.default_rng(0).standard_normal(X.shape))
            for scale in _SCALES:  # X may be where f is all but constant
                if ratio is None:
                    ratio = self._rise(scale * Y, as_floats(self._pair(scale * Y)[1]), count)
            if ratio is None:
                return 1.0
            factor = 1.0 if abs(ratio - 1) < abs(ratio - 2) else 2.0
            if not abs(ratio - factor) <= 1e-2:
                raise ValueError(
                    f"gradient is neither ∇F(XXᵀ)X nor ∇f(X): along itself F rises {ratio:.4g} times as fast as it "
                    "says (1 and 2 are right); compare the two with quartic.diagnostics.check_gradient"
                )
            self._known_factor = factor
        return self._known_factor

    def _rise(self, X: Array, G: Array, count: Callable[[int], None]) -> float | None:
        """Return how fast f rises along G, as a multiple of ‖G‖; None where differences of f do not tell."""
        size, length = norm(G), norm(X)
        if not (0 < size < math.inf and length > 0):
            return None
        D, ratios = G * (length / size), []
        for t in (1e-3, 1e-4, 1e-5):
            count(2)
            after, before = (_number(self._pair(X + step * D)[0]) for step in (t, -t))
            expected = 2 * t * size * length
            if math.isfinite(after - before) and expected > 1e-9 * max(abs(after), abs(before)):
                ratios.append((after - before) / expected)
        return min(ratios, key=lambda ratio: min(abs(ratio - 1), abs(ratio - 2)), default=None)

    def _pair(self, argument: Array) -> tuple[Any, Any]:
        """Return what the user's functions say of value and gradient."""
        if callable(self.gradient):
            return self.F(argument), self.gradient(argument)
        found = self.F(argument)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise TypeError(
                f"F, given to Smooth with gradient=True, must return the pair (value, gradient), got "
                f"{type(found).__name__}"
            )
        return found[0], found[1]


def _number(value: Any) -> float:
    if np.size(value) != 1:
        raise ValueError(f"F must return one number, got an array of shape {np.shape(value)}")
    try:
        return float(np.asarray(value).reshape(()))
    except (TypeError, ValueError):
        raise TypeError(f"F, given to Smooth, must return one number, got {value!r}; is its return missing?") from None


@np.errstate(all="ignore")
def largest_curvature(loss: Loss, at_zero: Callable[[Array], Array]) -> float:
    """Return the largest curvature of F seen along a few random Y = xxᵀ, at the scale of the data.

    Raise where ∇F is the same wherever it is looked at: in products of such a size anything else is round-off.
    """
    generator, largest, linear = np.random.default_rng(0), 0.0, True
    slope = loss.gradient_norm_at_zero
    for columns in (1, 1, 2, 4):
        # X ≥ 0: there every entry of XXᵀ is positive, and logarithms and roots of them exist
        X = np.abs(generator.standard_normal((loss.n_points, min(columns, loss.n_points))))
        X /= math.sqrt(norm(gram(X)))  # ‖XXᵀ‖ = 1
        product = at_zero(X)
        before, hidden = inner(product, X), _VISIBLE * norm(product) * norm(X)

        def change(tau: float, X: Array = X, before: float = before) -> float:
            return abs(0.5 * inner(loss.at(math.sqrt(tau) * X).gradient, X) / math.sqrt(tau) - before)

        tau, step, seen = 1.0, 1e6, change(1.0)
        while seen <= hidden and tau * step < 1e280:  # large data, beside which τY is not seen
            tau, step = tau * step, step**2
            seen = change(tau)
        if seen <= hidden:
            continue
        linear = False
        for k in range(3):
            curvature = (seen if k == 0 else change(tau)) / tau
            if not (math.isfinite(curvature) and curvature > 0):
                break
            largest = max(largest, curvature)
            tau = slope / curvature if slope > 0 else tau / 10
    if linear:
        raise ValueError(
            "F is linear in XXᵀ (∇F is the same at 0 and at any XXᵀ that was tried): f is least at X = 0 or unbounded "
            "below; if a penalty of your own bounds X give smoothness=, any positive number"
        )
    return largest if largest > 0 else 1.0


#: X ↦ (f(X), ∇f(X)), in NumPy's terms
ValueAndGradient: TypeAlias = Callable[[Array], tuple[float, Array]]


def differentiate(f: Callable[[Any], Any], X: Array, device: Any = None) -> ValueAndGradient:
    """Return X ↦ (f(X), ∇f(X)), or raise a TypeError that says what happened when f was tried on X.

    Neither package is imported here: whoever wrote f with one of them has done so.
    """
    tried = []
    for name, make in (("torch", _with_torch), ("jax", _with_jax)):
        if name not in sys.modules:
            tried.append(f"{name} is not imported")
            continue
        try:
            found = make(f, X, device)
            found(X)
        except Exception as error:  # f is the user's, and may object to a tensor in any way it likes
            tried.append(f"{name}: {type(error).__name__}: {error}")
        else:
            return found
    raise TypeError(
        "gradient was left out, so F must be a function written with torch or jax that returns one number; tried: "
        + "; ".join(tried)
    )


def _with_torch(f: Callable[[Any], Any], X: Array, device: Any) -> ValueAndGradient:
    torch: Any = sys.modules["torch"]

    def run(X: Array, dtype: Any = None) -> tuple[float, Array]:
        x = torch.as_tensor(X, dtype=dtype, device=device).clone().requires_grad_(True)
        value = f(x)
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise TypeError("F did not return a tensor with one number")
        (G,) = torch.autograd.grad(value.reshape(()), x)
        return float(value.detach()), G.detach().cpu().numpy().astype(X.dtype, copy=False)

    try:
        run(X)
    except RuntimeError:  # as a rule the data within f are float32, which torch will not mix with float64
        run(X, torch.float32)
        return lambda X: run(X, torch.float32)
    return run


def _with_jax(f: Callable[[Any], Any], X: Array, device: Any) -> ValueAndGradient:
    jax: Any = sys.modules["jax"]
    both = jax.jit(jax.value_and_grad(f))

    def run(X: Array) -> tuple[float, Array]:
        with _double_precision(jax):
            value, G = both(jax.numpy.asarray(X))
            return float(value), np.array(G, dtype=X.dtype)  # a copy: jax's own arrays are read-only

    return run


def _double_precision(jax: Any) -> AbstractContextManager[Any]:
    """Return a context in which jax keeps float64, which it drops by default."""
    if hasattr(jax, "enable_x64"):
        context: AbstractContextManager[Any] = jax.enable_x64(True)
        return context
    older = getattr(sys.modules.get("jax.experimental"), "enable_x64", nullcontext)
    return older()
