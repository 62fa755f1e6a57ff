"""What SymHALS, SymANLS and ADMM share: two factors, M ≈ XYᵀ, drawn together by a penalty."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar, cast

import numpy as np

from quartic.arrays import Array, check_number, gram, inner, norm, on_host, squared_norm, trace_inner
from quartic.core.problem import Problem
from quartic.core.units import Units, shifted
from quartic.losses import LeastSquares
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import Requirements, Solver, State

# The iteration has come to rest where a step is this much shorter than X and Y are apart; they are together where that
# is no more than this beside X.
_AT_REST, _TOGETHER = 1e-3, 1e-8
_S = TypeVar("_S", bound=Solver)


def typical_eigenvalue(p: LeastSquaresPoint) -> float:
    """Return |⟨MX, X⟩| / ‖X‖², the scale of M that X sees: the unit of the penalties, so that they are scale-free.

    At a nonnegative random X it is near the largest eigenvalue of a graph, 1 for a normalised one.
    """
    quotient = abs(float(inner(p.MX, p.X))) / float(squared_norm(p.X))
    return quotient if quotient > 0 else p.loss.gradient_norm_at_zero


def with_weight(solver: _S, name: str, units: Units) -> _S:
    """Return the solver with this setting, the weight of a square of X, in other units; None stays the default."""
    weight = getattr(solver, name)
    if weight is None:
        return solver
    there = shifted(float(weight), units.value - 2 * units.length)
    return replace(solver, **{name: there})  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class SplitState(State):
    """X (the point, which is the symmetric answer), the other factor Y, and the weight μ in use."""

    Y: Array
    mu: float

    @property
    def penalised_objective(self) -> float:
        """½‖M − XYᵀ‖² + μ‖X − Y‖², which no step increases; no product is needed."""
        p, Y = cast(LeastSquaresPoint, self.point), self.Y
        fit = 0.5 * p.loss.matrix.squared_norm - inner(p.MX, Y) + 0.5 * trace_inner(p.gram, gram(Y))
        return float(fit + self.mu * squared_norm(p.X - Y))


class PenalisedSolver(Solver):
    """Alternate between the factors of the paper's (P-NMF), ½‖M − XYᵀ‖² + μ‖X − Y‖² over X, Y ≥ 0.

    For one factor, the other fixed, this is a nonnegative least-squares problem for each row on its own, with the
    matrix YᵀY + 2μI and the right-hand side MY + 2μY. Two products an iteration, MX and MY; MX also serves to judge X.
    """

    requires = Requirements(("point_from",), ("only X ≥ 0",))
    state = SplitState

    mu: float | None
    #: μ, where none is given, beside the scale of M
    default_mu: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        if self.mu is not None:
            check_number(self.mu, "mu", zero=True)

    def in_units(self, units: Units, problem: Problem) -> PenalisedSolver:
        """Return the solver with μ, the weight of a square, scaled."""
        return with_weight(self, "mu", units)

    def init(self, problem: Problem, X0: Array) -> SplitState:
        """Return the state X = Y = X0."""
        p = cast(LeastSquaresPoint, problem.loss.at(X0))
        mu = self.default_mu * typical_eigenvalue(p) if self.mu is None else float(self.mu)
        return SplitState(point=p, Y=X0, mu=mu)

    def step(self, problem: Problem, state: State) -> SplitState:
        """Return the state after an update of Y and one of X."""
        state = cast(SplitState, state)
        loss, p, mu = cast(LeastSquares, problem.loss), cast(LeastSquaresPoint, state.point), state.mu
        Y = self._update(state.Y, p.X, p.MX, p.gram, mu)
        X = self._update(p.X, Y, loss.product(Y), gram(Y), mu)
        return SplitState(point=loss.at(X), Y=Y, mu=self._next_mu(mu, X, p.X, Y))

    def _next_mu(self, mu: float, X: Array, before: Array, Y: Array) -> float:
        """Return μ, doubled where the iteration has come to rest with X and Y apart.

        Where M has strongly negative eigenvalues the penalised problem has stationary points with X ≠ Y until μ is
        large enough: with X = Z + E and Y = Z − E it curves along E as ⟨M − ZZᵀ, EEᵀ⟩ + 4μ‖E‖² or more. They are no
        answer to the symmetric problem. A μ that was asked for stays.
        """
        if self.mu is not None:
            return mu
        apart = norm(X - Y)
        return 2 * mu if norm(X - before) <= _AT_REST * apart and apart > _TOGETHER * norm(X) else mu

    def _update(self, X: Array, Y: Array, MY: Array, S: Array, mu: float) -> Array:
        """Return the new X for a fixed Y, with S = YᵀY."""
        return self._minimize_rows(on_host(S) + 2 * mu * np.eye(len(S)), MY + 2 * mu * Y, X)

    @abstractmethod
    def _minimize_rows(self, G: Array, C: Array, X: Array) -> Array:
        """Return an array X⁺ ≥ 0 whose rows have lower ½xᵀGx − cᵀx than those of X, which stays as it is."""
