"""Functions of the user's, F and its gradient in any of the ways they may be given, as one: X ↦ f(X), ∇f(X)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from quartic.arrays import Array, as_floats, norm
from quartic.losses.other.autodiff import ValueAndGradient, differentiate

# Sizes of X at which the gradient is held against differences of f: with large data only large X move f visibly.
_SCALES = (1.0, 1e2, 1e-2, 1e4, 1e-4, 1e6, 1e-6, 1e12, 1e20, 1e30, 1e40, 1e50, 1e60, 1e70)


class UsersFunction:
    """f(X) = F(XXᵀ) and its gradient, as `quartic.losses.Smooth` takes them.

    Parameters
    ----------
    F, gradient : callable; callable, True or None
        As `Smooth` takes them.
    of_Y : bool
        Whether F takes XXᵀ rather than X.
    device
        Where torch is to differentiate.
    """

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
        value, found = self.F(argument) if self.gradient is True else (self.F(argument), self._gradient(argument))
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
                    ratio = self._rise(scale * Y, as_floats(self._gradient(scale * Y)), count)
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
            after, before = self._value(X + t * D), self._value(X - t * D)
            expected = 2 * t * size * length
            if math.isfinite(after - before) and expected > 1e-9 * max(abs(after), abs(before)):
                ratios.append((after - before) / expected)
        return min(ratios, key=lambda ratio: min(abs(ratio - 1), abs(ratio - 2)), default=None)

    def _value(self, X: Array) -> float:
        return _number(self.F(X)[0] if self.gradient is True else self.F(X))

    def _gradient(self, X: Array) -> Any:
        if self.gradient is True:
            return self.F(X)[1]
        assert callable(self.gradient)
        return self.gradient(X)


def _number(value: Any) -> float:
    if np.size(value) != 1:
        raise ValueError(f"F must return one number, got an array of shape {np.shape(value)}")
    return float(np.asarray(value).reshape(()))
