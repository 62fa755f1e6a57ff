"""LAI: symmetric NMF of a low-rank approximation of M, refined on M itself (Hayashi, Aksoy, Ballard and Park 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from quartic.arrays import Array, gram, orthonormal
from quartic.baselines.splitting import SplitState, SymHALS, convert_weight
from quartic.core.problem import Problem
from quartic.core.units import Units
from quartic.losses import FullLeastSquares
from quartic.solvers.base import COUNT, NONNEGATIVE, Requirements, Solver, State, checked

# The approximation has done its work where stationarity on M itself is no longer down to this share after a step.
_FALLS = 0.9
_SEED = 1


@dataclass(frozen=True, kw_only=True)
class LAIState(SplitState):
    """Factors X and Y, the weight μ, and M ≈ QΛQᵀ as Q and the diagonal of Λ; no pair of them once M itself is used."""

    listed = ("approximation",)

    approximation: tuple[Array, ...] = ()

    def check(self, shape: tuple[int, int]) -> None:
        """Raise unless Q and Λ go with an X of this shape."""
        found: Any = self.approximation
        shapes = [tuple(A.shape) for A in found] if isinstance(found, tuple) else None
        if shapes and (len(shapes) != 2 or shapes[0] != (shape[0], *shapes[1])):
            raise ValueError("the approximation of M does not go with X")


@dataclass(frozen=True)
class LAI(Solver):
    """Sweeps of `SymHALS` with a low-rank approximation of M in its place, then with M.

    M ≈ QΛQᵀ by randomised subspace iteration with ``columns``·r columns. A product with it takes 4nr²·columns
    multiplications whatever M is: cheap where M is dense. X is judged on M after ``sweeps`` of them; once that no
    longer improves, sweeps go on with M. The passes of the subspace iteration are counted as the products they are.

    Parameters
    ----------
    mu : float, optional
        μ ≥ 0, as in `SymHALS`.
    columns : int, default=2
        Columns of Q, as a multiple of the rank.
    power : int, default=2
        Subspace iterations after the first.
    sweeps : int, default=10
        Sweeps between two looks at M.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="lai", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "lai"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))
    state = LAIState
    checks = checked(mu=NONNEGATIVE, columns=COUNT, power=NONNEGATIVE, sweeps=COUNT)

    mu: float | None = None
    columns: int = 2
    power: int = 2
    sweeps: int = 10

    def in_units(self, units: Units, problem: Problem) -> LAI:
        return convert_weight(self, "mu", units)

    def init(self, problem: Problem, X0: Array) -> LAIState:
        """Return the state X = Y = X0, with M approximated."""
        first = SymHALS(self.mu).init(problem, X0)
        found = _approximate(cast(FullLeastSquares, problem.loss), X0, self.columns, self.power)
        return LAIState(point=first.point, Y=X0, mu=first.mu, approximation=found)

    def step(self, problem: Problem, state: State) -> LAIState:
        """Return the state after a few sweeps with QΛQᵀ and a look at M, or after one with M."""
        s, hals = cast(LAIState, state), SymHALS(self.mu)
        if not s.approximation:
            after = hals.step(problem, s)
            return LAIState(point=after.point, Y=after.Y, mu=after.mu)
        Q, values = s.approximation
        X, Y, mu = s.point.X, s.Y, s.mu
        for _ in range(self.sweeps):
            before = X
            Y = hals._update(Y, X, Q @ (values[:, None] * (Q.T @ X)), gram(X), mu)
            X = hals._update(X, Y, Q @ (values[:, None] * (Q.T @ Y)), gram(Y), mu)
            mu = hals._next_mu(mu, X, before, Y)
        point = problem.loss.at(X)
        falls = problem.stationarity(point) <= _FALLS * problem.stationarity(s.point)
        return LAIState(point=point, Y=Y, mu=mu, approximation=s.approximation if falls else ())


def _approximate(loss: FullLeastSquares, X0: Array, columns: int, power: int) -> tuple[Array, ...]:
    """Return Q (n, l) with orthonormal columns and the diagonal of Λ, the eigenvalues of largest size."""
    n, rank = X0.shape
    width = min(columns * rank, n)
    Q: Array = np.random.default_rng(_SEED).standard_normal((n, width)).astype(X0.dtype)
    for _ in range(power + 1):
        Q = loss.product(Q)
        if not np.isfinite(Q).all():
            return ()  # the run will say what is wrong with the products
        Q = orthonormal(Q)
    small = gram(Q, loss.product(Q))
    if not np.isfinite(small).all():
        return ()
    values, U = np.linalg.eigh(small)
    loss._count((power + 2) * (-(-width // rank) - 1))  # a product with l columns is l/r of those that are counted
    return np.ascontiguousarray(Q @ U.astype(Q.dtype)), values.astype(Q.dtype)
