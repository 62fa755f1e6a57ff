"""SymHALS, SymANLS, LAI, LvS-HALS and ADMM: two factors, M ≈ XYᵀ, drawn together by a penalty."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from quartic.arrays import Array, gram, inner, norm, orthonormal, space_of, squared_norm
from quartic.arrays.subspace import inverse_of_gram
from quartic.baselines.nnls import solve_nnls
from quartic.core.problem import Problem
from quartic.core.units import Units, shifted
from quartic.losses import FullLeastSquares
from quartic.losses.factor.loss import LeastSquaresPoint
from quartic.solvers.base import COUNT, NONNEGATIVE, POSITIVE, Requirements, Solver, State, checked

# X and Y are together where ‖X − Y‖ is no more than this beside X.
_TOGETHER = 1e-8
# The alternating methods have come to rest where a step is this much shorter than X and Y are apart.
_AT_REST = 1e-3
# μ of the others and ρ of ADMM, where none is given, beside the scale of M.
_DEFAULT_MU, _DEFAULT_RHO = 0.1, 0.2
# It is doubled where ‖X − Y‖ has not come down by this factor for so many iterations.
_NEARER, _PATIENCE = 0.9, 50
# The approximation has done its work where stationarity on M itself is no longer down to this share after a step.
_FALLS = 0.9
_SEED = 1


def estimate_eigenvalue(p: LeastSquaresPoint) -> float:
    """Return |⟨MX, X⟩| / ‖X‖², the scale of M that X sees: the unit of the penalties, so that they are scale-free.

    At a nonnegative random X it is near the largest eigenvalue of a graph, 1 for a normalised one.
    """
    quotient = abs(float(inner(p.MX, p.X))) / float(squared_norm(p.X))
    return quotient if quotient > 0 else p.loss.gradient_norm_at_zero


def _in_units(weight: float | None, units: Units) -> float | None:
    """Return the weight of a square of X in other units; None stays the default."""
    return None if weight is None else shifted(float(weight), units.value - 2 * units.length)


@dataclass(frozen=True, kw_only=True)
class SplitState(State):
    """X (the point, which is the symmetric answer), the other factor Y, and the weight μ in use."""

    Y: Array
    mu: float


@dataclass(frozen=True)
class SymHALS(Solver):
    """Hierarchical alternating least squares on the penalised problem (Zhu, Li, Liu and Li 2018).

    It lowers the paper's (P-NMF), ½‖M − XYᵀ‖² + μ‖X − Y‖² over X, Y ≥ 0. For one factor, the other fixed, this is a
    nonnegative least-squares problem for each row on its own, with the matrix YᵀY + 2μI and the right-hand side
    MY + 2μY. One column after the other, once each for Y and for X,
    x_k ← max(0, (MY + 2μY − Σ_{l≠k} x_l (YᵀY)_lk)_k / ((YᵀY)_kk + 2μ)) for k = 1 … r, and the same for Y. The penalised
    objective never rises. Two products an iteration, MX and MY; MX also serves to judge X, the symmetric answer, on
    ½‖M − XXᵀ‖².

    Parameters
    ----------
    mu : float, optional
        μ ≥ 0. The default is 0.1 times ⟨MX₀, X₀⟩/‖X₀‖², which follows the scale of M, and is doubled where the
        iteration comes to rest with X ≠ Y, as it does where M has strongly negative eigenvalues. With μ = 0 nothing
        draws X and Y together, and the limit is as a rule not stationary for the symmetric problem; a large μ makes
        short steps.

    Examples
    --------
    >>> from quartic import SymNMF
    >>> from quartic.datasets import karate
    >>> SymNMF(2, solver="hals", random_state=0).fit(karate().adjacency).result_.success
    True
    """

    name = "hals"
    requires = Requirements(("point_from",), ("only X ≥ 0",))
    state = SplitState
    checks = checked(mu=NONNEGATIVE)

    mu: float | None = None

    def in_units(self, units: Units, problem: Problem) -> SymHALS:
        return replace(self, mu=_in_units(self.mu, units))

    def init(self, problem: Problem, X0: Array) -> SplitState:
        p = cast(LeastSquaresPoint, problem.loss.at(X0))
        mu = _DEFAULT_MU * estimate_eigenvalue(p) if self.mu is None else float(self.mu)
        return SplitState(point=p, Y=X0, mu=mu)

    def step(self, problem: Problem, state: State) -> SplitState:
        state = cast(SplitState, state)
        loss, p, mu = cast(FullLeastSquares, problem.loss), cast(LeastSquaresPoint, state.point), state.mu
        Y = self._update(state.Y, p.X, p.MX, p.gram, mu)
        other = loss.point_from(Y, loss.product(Y))
        X = self._update(p.X, Y, other.MX, other.gram, mu)
        new = loss.at(X)
        problem.begin(new)  # before a number is asked for: a device then answers for all of them at once
        return SplitState(point=new, Y=Y, mu=self._next_mu(mu, X, p.X, Y))

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
        G = 1.0 * space_of(X).bare(S)  # not read: a device keeps it
        diagonal = G.reshape(-1)[:: len(G) + 1]
        diagonal += 2 * mu
        return self._minimize_rows(G, MY + 2 * mu * Y, X)

    def _minimize_rows(self, G: Array, C: Array, X: Array) -> Array:
        """Return an array X⁺ ≥ 0 whose rows have lower ½xᵀGx − cᵀx than those of X, which stays as it is."""
        space = space_of(X)
        X = space.copy(X)
        space.sweep_rows(X, G, C)
        return X


@dataclass(frozen=True)
class SymANLS(SymHALS):
    """Alternating nonnegative least squares on the penalised problem (Zhu, Li, Liu and Li 2018).

    It minimises ½‖M − XYᵀ‖² + μ‖X − Y‖² over Y ≥ 0, exactly, then over X ≥ 0. Each half is a nonnegative least-squares
    problem with n right-hand sides, solved by block principal pivoting from the last passive sets. The penalised
    objective never rises. X is the symmetric answer, judged on ½‖M − XXᵀ‖².

    Parameters
    ----------
    mu : float, optional
        μ ≥ 0, as in `SymHALS`.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="anls", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "anls"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))

    def _minimize_rows(self, G: Array, C: Array, X: Array) -> Array:
        return solve_nnls(G, C, X)


@dataclass(frozen=True, kw_only=True)
class RandomisedState(SplitState):
    """Factors, the weight μ, what stands for M, and how many rounds were made with it; −1 once M itself is used."""

    listed = ("approximation",)

    approximation: tuple[Array, ...] = ()
    rounds: int = 0

    def check(self, shape: tuple[int, int]) -> None:
        """Raise unless Q and Λ go with an X of this shape."""
        found: Any = self.approximation
        shapes = [tuple(A.shape) for A in found] if isinstance(found, tuple) else None
        if shapes and (len(shapes) != 2 or shapes[0] != (shape[0], *shapes[1])):
            raise ValueError("the approximation of M does not go with X")


class RandomisedHALS(SymHALS):
    """Sweeps on cheaper normal equations, made at random, then on those of `SymHALS` (Hayashi et al. 2024).

    X is judged on M after ``sweeps`` of them; once stationarity no longer falls, sweeps go on with M.
    """

    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))
    state = RandomisedState

    sweeps: int

    def init(self, problem: Problem, X0: Array) -> RandomisedState:
        s, loss = super().init(problem, X0), cast(FullLeastSquares, problem.loss)
        found = self._approximate(loss, X0)
        return RandomisedState(
            point=s.point, Y=s.Y, mu=s.mu, approximation=found or (), rounds=-1 if found is None else 0
        )

    def step(self, problem: Problem, state: State) -> RandomisedState:
        s, loss = cast(RandomisedState, state), cast(FullLeastSquares, problem.loss)
        if s.rounds < 0:
            after = super().step(problem, s)
            return RandomisedState(point=after.point, Y=after.Y, mu=after.mu, rounds=-1)
        X, Y, mu = s.point.X, s.Y, s.mu
        generator, used = np.random.default_rng((_SEED, s.rounds)), 0.0
        for _ in range(self.sweeps):
            before = X
            MX, S, part = self._equations(loss, s, X, generator)
            Y = self._update(Y, X, MX, S, mu)
            MY, S, other = self._equations(loss, s, Y, generator)
            X = self._update(X, Y, MY, S, mu)
            mu, used = self._next_mu(mu, X, before, Y), used + part + other
        loss.count_products(math.ceil(used))
        point = loss.at(X)
        if problem.stationarity(point) <= _FALLS * problem.stationarity(s.point):
            return replace(s, point=point, Y=Y, mu=mu, rounds=s.rounds + 1)
        return RandomisedState(point=point, Y=Y, mu=mu, rounds=-1)

    def _approximate(self, loss: FullLeastSquares, X0: Array) -> tuple[Array, ...] | None:
        """Return what is made once and stands for M; None where products are not finite, which the run will say."""
        return ()

    @abstractmethod
    def _equations(
        self, loss: Any, s: RandomisedState, Y: Array, generator: np.random.Generator
    ) -> tuple[Array, Array, float]:
        """Return what stands for MY and for YᵀY, and what part of a product that took beyond those counted."""


@dataclass(frozen=True)
class LAI(RandomisedHALS):
    """Sweeps of `SymHALS` with a low-rank approximation of M in its place, then with M.

    After Hayashi, Aksoy, Ballard and Park 2024. M ≈ QΛQᵀ by randomised subspace iteration with ``columns``·r columns. A
    product with it takes 4nr²·columns multiplications whatever M is: cheap where M is dense. X is judged on M after
    ``sweeps`` of them; once that no longer improves, sweeps go on with M. The passes of the subspace iteration are
    counted as the products they are.

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
    checks = checked(mu=NONNEGATIVE, columns=COUNT, power=NONNEGATIVE, sweeps=COUNT)

    columns: int = 2
    power: int = 2
    sweeps: int = 10

    def _approximate(self, loss: FullLeastSquares, X0: Array) -> tuple[Array, ...] | None:
        """Return Q (n, l) with orthonormal columns and the diagonal of Λ, the eigenvalues of largest size."""
        n, rank = X0.shape
        width = min(self.columns * rank, n)
        Q: Array = np.random.default_rng(_SEED).standard_normal((n, width)).astype(X0.dtype)
        for _ in range(self.power + 1):
            Q = loss.product(Q)
            if not np.isfinite(Q).all():
                return None
            Q = orthonormal(Q)
        small = gram(Q, loss.product(Q))
        if not np.isfinite(small).all():
            return None
        values, U = np.linalg.eigh(small)
        # a product with l columns is l/r of those that are counted
        loss.count_products((self.power + 2) * (-(-width // rank) - 1))
        return np.ascontiguousarray(Q @ U.astype(Q.dtype)), values.astype(Q.dtype)

    def _equations(
        self, loss: Any, s: RandomisedState, Y: Array, generator: np.random.Generator
    ) -> tuple[Array, Array, float]:
        Q, values = s.approximation
        return Q @ (values[:, None] * (Q.T @ Y)), gram(Y), 0.0


@dataclass(frozen=True)
class LvSHALS(RandomisedHALS):
    """Sweeps of `SymHALS` on a share of the rows, drawn by their leverage in the fixed factor, then on all of them.

    After Hayashi, Aksoy, Ballard and Park 2024. With Y fixed, ½‖M − XYᵀ‖² is a least-squares problem with a row for
    each of Y, whose leverage is ℓ_i = y_iᵀ(YᵀY)⁻¹y_i, of sum r. Of s rows those with ℓ_i/r ≥ 1/s are taken as they
    are, the others drawn in proportion to ℓ and weighed by 1/(s′p_i), so that both sides of the normal equations are
    right on average. The penalty μ‖X − Y‖² is never sampled. Products are counted by the entries of M they use.

    Parameters
    ----------
    mu : float, optional
        μ ≥ 0, as in `SymHALS`.
    share : float, default=0.05
        s, as a share of all rows, but at least 4r; with 1 it is `SymHALS`.
    sweeps : int, default=10
        Sweeps between two looks at M.

    Examples
    --------
    >>> from quartic import SymNMF, datasets
    >>> SymNMF(2, solver="lvs-hals", random_state=0).fit(datasets.karate().adjacency).result_.success
    True
    """

    name = "lvs-hals"
    requires = Requirements(("on_host", "point_from", "entries"), ("only X ≥ 0",))
    checks = checked(mu=NONNEGATIVE, share=POSITIVE, sweeps=COUNT)

    share: float = 0.05
    sweeps: int = 10

    def _equations(
        self, loss: Any, s: RandomisedState, Y: Array, generator: np.random.Generator
    ) -> tuple[Array, Array, float]:
        size = max(math.ceil(self.share * len(Y)), 4 * Y.shape[1])
        if size >= len(Y):
            return loss.product(Y), gram(Y), 0.0
        rows, weights = _sample_rows(Y, size, generator)
        M, Z = loss.matrix.M[rows], Y[rows]
        weighed = weights[:, None].astype(Y.dtype) * Z
        return np.ascontiguousarray(M.T @ weighed), gram(weighed, Z), M.size / loss.matrix.M.size


def _sample_rows(Y: Array, size: int, generator: np.random.Generator) -> tuple[Any, Array]:
    """Return rows of Y, each once, and their weights: those of high leverage for certain, others by chance."""
    values, Q = np.linalg.eigh(gram(Y))
    kept = values > len(values) * float(np.finfo(Y.dtype).eps) * values[-1]
    leverage = np.square(Y @ (Q[:, kept] / np.sqrt(values[kept]))).sum(axis=1).astype(np.float64)
    certain = leverage * size >= leverage.sum()
    n_left, rest = size - int(certain.sum()), np.where(certain, 0.0, leverage)
    weights = certain.astype(np.float64)
    if n_left > 0 and rest.sum() > 0:
        p = rest / rest.sum()
        drawn = generator.choice(len(Y), n_left, p=p)
        np.add.at(weights, drawn, 1 / (n_left * p[drawn]))
    rows = np.flatnonzero(weights)
    return rows, weights[rows]


@dataclass(frozen=True, kw_only=True)
class ADMMState(State):
    """Y ≥ 0 (the point, which is the symmetric answer), its twin X of free sign, the multipliers Λ, and ρ in use.

    ``apart`` is the least ‖X − Y‖ under this ρ, which has not shrunk for as many iterations as were ``waited``.
    """

    X: Array
    dual: Array
    rho: float
    apart: float = math.inf
    waited: int = 0


@dataclass(frozen=True)
class ADMM(Solver):
    """Alternating directions for ½‖M − XYᵀ‖² over Y ≥ 0, X = Y, with multipliers Λ (Lu, Hong and Wang 2017).

    | X ← (MY + ρY + Λ)(YᵀY + ρI)⁻¹
    | Λ ← Λ + ρ(Y − X)
    | Y ← argmin over Y ≥ 0 of ½‖M − XYᵀ‖² + ½ρ‖Y − X + Λ/ρ‖²

    The update of Y is a nonnegative least-squares problem, solved exactly. (The proof of convergence asks for a
    proximal term and a ρ that grows with n besides, with steps too short to be of use.) Y is the symmetric answer,
    judged on ½‖M − YYᵀ‖², which may go up and down on the way. Two products an iteration, MX and MY.

    Parameters
    ----------
    rho : float, optional
        ρ > 0. The default is 0.2 times ⟨MX₀, X₀⟩/‖X₀‖², which follows the scale of M, and is doubled where X and Y do
        not draw nearer for long, as they do not where M has strongly negative eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic import Problem, losses, minimize, penalties
    >>> problem = Problem(losses.LeastSquares(np.kron(np.eye(2), np.ones((3, 3)))), penalties.Nonnegative())
    >>> minimize(problem, rank=2, solver="admm", random_state=0).objective < 1e-3
    True
    """

    name = "admm"
    requires = Requirements(("on_host", "point_from"), ("only X ≥ 0",))
    state = ADMMState
    checks = checked(rho=POSITIVE)

    rho: float | None = None

    def in_units(self, units: Units, problem: Problem) -> ADMM:
        return replace(self, rho=_in_units(self.rho, units))

    def init(self, problem: Problem, X0: Array) -> ADMMState:
        p = cast(LeastSquaresPoint, problem.loss.at(X0))
        rho = _DEFAULT_RHO * estimate_eigenvalue(p) if self.rho is None else float(self.rho)
        return ADMMState(point=p, X=X0, dual=np.zeros_like(X0), rho=rho)

    def step(self, problem: Problem, state: State) -> ADMMState:
        state = cast(ADMMState, state)
        loss, p, rho = cast(FullLeastSquares, problem.loss), cast(LeastSquaresPoint, state.point), state.rho
        C = p.MX + rho * p.X + state.dual
        X = C @ inverse_of_gram(p.gram, rho).astype(C.dtype, copy=False)
        dual = state.dual + rho * (p.X - X)
        S = gram(X)
        Y = solve_nnls(S + rho * np.eye(len(S)), loss.product(X) + rho * X - dual, p.X)
        return self._watched(state, ADMMState(point=loss.at(Y), X=X, dual=dual, rho=rho))

    def _watched(self, before: ADMMState, state: ADMMState) -> ADMMState:
        """Return the state with ρ doubled where X and Y have not drawn nearer for long.

        With ρ below the negative curvature of ½‖M − XYᵀ‖² the iteration goes round in circles. A ρ that was asked for
        stays.
        """
        if self.rho is not None:
            return state
        apart = norm(state.X - state.point.X)
        if apart <= _NEARER * before.apart or apart <= _TOGETHER * norm(state.X):
            return replace(state, apart=apart)
        if before.waited < _PATIENCE:
            return replace(state, apart=before.apart, waited=before.waited + 1)
        return replace(state, rho=2 * state.rho)
