"""Penalties, kernels and losses of a user's own: they work with auto, or the error names the method that is missing."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from quartic import Problem, minimize
from quartic.diagnostics import check_gradient, check_mirror
from quartic.kernels import EuclideanKernel, GramKernel, NormKernel
from quartic.losses import Distances, FullLeastSquares, LeastSquares, Loss, Point, Quadratic, RawStress, Rectangular
from quartic.penalties import (
    L0,
    L1,
    Nonnegative,
    NonnegativeL1,
    NonnegativeRidge,
    Penalty,
    Ridge,
    Separable,
    Zero,
)
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((10, 2))
PAIRS = np.array(np.triu_indices(10, 1)).T
SQUARED = np.sum((POINTS[PAIRS[:, 0]] - POINTS[PAIRS[:, 1]]) ** 2, axis=1)
M = np.abs(POINTS) @ np.abs(POINTS).T + np.eye(10)
LOSSES = {
    "least squares": LeastSquares(M),
    "distances": Distances(PAIRS, SQUARED),
    "raw stress": RawStress(PAIRS, np.sqrt(SQUARED)),
    "quadratic": Quadratic(None, -M),
    "rectangular": Rectangular(M[:6]),
}


class RowNorms(Penalty):
    """λ Σ ‖x_i‖, the group lasso: value, prox and stationarity only; no attribute weight."""

    def __init__(self, strength=0.05):
        self.strength = strength

    def value(self, X):
        return self.strength * float(np.linalg.norm(X, axis=1).sum())

    def prox(self, V, t):
        size = np.linalg.norm(V, axis=1, keepdims=True)
        return V * np.maximum(1 - t * self.strength / np.maximum(size, 1e-300), 0)

    def stationarity(self, X, gradient):
        size = np.linalg.norm(X, axis=1, keepdims=True)
        moved = gradient + self.strength * X / np.where(size > 0, size, 1)
        left = np.linalg.norm(gradient, axis=1, keepdims=True)
        held = gradient * np.maximum(1 - self.strength / np.maximum(left, 1e-300), 0)
        return np.where(size > 0, moved, held)


class Bounded(Nonnegative):
    """0 ≤ X ≤ 1: derived from a penalty of ours, and another function."""

    def value(self, X):
        return 0.0 if (X >= 0).all() and (X <= 1).all() else np.inf

    def prox(self, V, t):
        return np.clip(V, 0, 1)

    def stationarity(self, X, gradient):
        G = np.where(X <= 0, np.minimum(gradient, 0), gradient)
        return np.where(X >= 1, np.maximum(G, 0), G)


class Mixed(
    type("Methods", (), {name: vars(Bounded)[name] for name in ("value", "prox", "stationarity")}), Nonnegative
):
    """The same bounds, by methods that come from a class that is no penalty."""


class Renamed(Nonnegative):
    """Derived, and the same function."""


class Price(NonnegativeL1):
    """Derived from a weighted one, with a value of its own: the weights differ by row."""

    def value(self, X):
        return super().value(X) + self.weight * float(X[0].sum())

    def prox(self, V, t):
        U = super().prox(V, t)
        U[0] = np.maximum(V[0] - 2 * t * self.weight, 0)
        return U

    def stationarity(self, X, gradient):
        gradient = gradient.copy()
        gradient[0] += self.weight
        return super().stationarity(X, gradient)


class Smoothed(Penalty):
    """A smooth penalty that is no ridge: Σ log cosh, whose prox is by Newton's method."""

    smooth = True

    def value(self, X):
        return float(np.logaddexp(X, -X).sum())

    def prox(self, V, t):
        U = V / (1 + t)
        for _ in range(50):
            U = U - (t * np.tanh(U) + U - V) / (t * (1 - np.tanh(U) ** 2) + 1)
        return U

    def stationarity(self, X, gradient):
        return gradient + np.tanh(X)


class Counted(Penalty):
    """ℓ0 without a mirror map of its own: not convex."""

    convex = False
    value, prox, stationarity = L0.value, L0.prox, L0.stationarity
    weight = 0.02


def name_of(part):
    return type(part).__name__


OWN = [RowNorms(), Bounded(), Mixed(), Renamed(), Price(0.05), Smoothed(), Counted()]


def first_order_gap(penalty, X, gradient):
    """‖X − prox(X − t∇f, t)‖/t, zero at stationary points whatever ``stationarity`` says."""
    t = 1e-4
    return np.linalg.norm(X - penalty.prox(X - t * gradient, t)) / t


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("penalty", OWN, ids=name_of)
def test_auto_takes_own_penalties(loss, penalty):
    result = minimize(Problem(loss, penalty), rank=2, random_state=0, tol=1e-4, max_iter=3000)
    assert result.success, result.message
    assert result.objective == pytest.approx(loss.value(result.X) + penalty.value(result.X))
    if penalty.convex:
        scale = np.linalg.norm(loss.gradient(2 * result.X))
        assert first_order_gap(penalty, result.X, loss.gradient(result.X)) <= 1e-2 * scale


@pytest.mark.parametrize("penalty", OWN, ids=name_of)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_honours_an_own_penalty_or_refuses_it_by_name(penalty, name):
    """The value that is reported, and that falls, is that of the user's own g."""
    loss = LOSSES["least squares"]
    problem = Problem(loss, penalty)
    if why_not(SOLVERS[name](), problem) is not None:
        with pytest.raises(ValueError, match=rf"solver '{name}' needs .*({type(penalty).__name__}|LeastSquares)"):
            minimize(problem, rank=2, solver=name)
        return
    result = minimize(problem, rank=2, solver=name, random_state=0, max_iter=30)
    assert penalty.value(result.X) < np.inf
    assert result.objective == pytest.approx(loss.value(result.X) + penalty.value(result.X))
    if name not in ("hals", "anls", "admm", "lai", "lvs-hals"):
        assert result.objective <= result.history.objective[0] * (1 + 1e-12)
    if type(penalty) is not Renamed:
        assert name not in ("cd", "hals", "anls", "admm", "beta")


def test_what_follows_from_the_old_function_is_not_inherited():
    X = np.full((2, 1), 2.0)
    assert Bounded().value_at(LeastSquares(np.eye(2)).at(X)) == np.inf
    assert Bounded().cut(1.0) is None
    assert Mixed().cut(1.0) is None
    assert type("Twice", (Mixed,), {"cut": lambda self, t: "own"})().cut(1.0) == "own"
    assert not Bounded().has_lines
    assert Renamed().cut(1.0) == (True, 0.0, 0.0)
    assert Price(1.0).ridge is None
    assert type("Mine", (Ridge,), {"value": lambda self, X: 1.0})(1.0).ridge is None
    assert not type("Mine", (Zero,), {"value": lambda self, X: 1.0})().smooth


# -- mirror maps from prox alone --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [EuclideanKernel(), NormKernel(6.0, 0.5), NormKernel(1e-8, 1e8), NormKernel(1e8, 1e-8)]
)
@pytest.mark.parametrize("t", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_map_by_prox_is_that_of_the_formula(kernel, t, size):
    """The scalar equation of the default against the closed form of the same penalty."""

    def by_prox(penalty):
        class Plain(Penalty):
            def value(self, X):
                return penalty.value(X)

            def prox(self, V, t):
                return penalty.prox(V, t)

            def stationarity(self, X, gradient):
                return penalty.stationarity(X, gradient)

        return Plain()

    V = size * np.random.default_rng(1).standard_normal((6, 2))
    for penalty in (Zero(), L1(0.7), NonnegativeL1(0.7), NonnegativeRidge(0.9), Separable(True, 0.3, 0.4)):
        np.testing.assert_allclose(
            kernel.mirror(V, by_prox(penalty), t), kernel.mirror(V, penalty, t), rtol=1e-12, atol=1e-14 * size
        )


@pytest.mark.parametrize("penalty", [RowNorms(0.5), Smoothed(), Separable(l1=0.3, ridge=0.7)], ids=name_of)
def test_own_mirror_maps_against_brute_force(penalty):
    kernel, V, t = NormKernel(2.0, 0.5), np.random.default_rng(2).standard_normal((3, 2)), 0.8

    def objective(u):
        U = u.reshape(V.shape)
        return kernel.value(U) + t * penalty.value(U) - np.sum(U * V)

    U = kernel.mirror(V, penalty, t)
    found = scipy_minimize(
        objective, U.ravel() + 0.1, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20000}
    )
    assert objective(U.ravel()) <= found.fun + 1e-10
    assert check_mirror(kernel, penalty) < 1e-9


def test_kernels_say_which_method_is_missing():
    with pytest.raises(ValueError, match=r"Counted, which is not convex.*norm_mirror"):
        NormKernel(1.0, 1.0).mirror(np.ones((2, 1)), Counted())
    with pytest.raises(ValueError, match=r"kernel that goes with the penalty.*norm_mirror"):
        minimize(Problem(LOSSES["least squares"], Counted(), NormKernel(6.0, 1.0)), rank=2)
    with pytest.raises(ValueError, match=r"GramKernel with RowNorms"):
        minimize(Problem(LOSSES["least squares"], RowNorms(), GramKernel(0.0, 2.0, 1.0)), rank=2)
    assert isinstance(Problem(LOSSES["least squares"], Counted()).geometry(), EuclideanKernel)

    class Twice(NormKernel):
        """A kernel derived from ours has its maps."""

    result = minimize(Problem(LOSSES["least squares"], RowNorms(), Twice(6.0, 1.0)), rank=2, random_state=0)
    assert result.success


# -- a loss with at() and no more -------------------------------------------------------------------------------------


class Own(Loss):
    """½‖M − XXᵀ‖² by hand: what is abstract, and no more."""

    infimum = 0.0

    def __init__(self):
        super().__init__()
        self.n_points = 10

    def at(self, X):
        self.count_products()
        R = X @ X.T - M
        return Point(X, 0.5 * float(np.sum(R * R)), 2 * R @ X)

    @property
    def smoothness(self):
        return 1.0

    @property
    def gradient_norm_at_zero(self):
        return float(np.linalg.norm(M))


@pytest.mark.parametrize(
    "penalty",
    [Zero(), Nonnegative(), L1(0.1), L0(0.1), Ridge(0.1), NonnegativeL1(0.1), *OWN],
    ids=name_of,
)
def test_auto_takes_an_own_loss(penalty):
    result = minimize(Problem(Own(), penalty), rank=2, random_state=0, max_iter=5000)
    assert result.success, result.message
    like = minimize(Problem(LeastSquares(M), penalty), rank=2, random_state=0, max_iter=5000)
    assert result.objective <= 1.5 * like.objective


class Poisson(Loss):
    """Σ (Y − A log Y) with Y = XXᵀ + offset: counts A_ij of mean (XXᵀ)_ij."""

    def __init__(self, A, offset):
        super().__init__()
        self.A, self.offset, self.n_points = A, offset, len(A)

    def at(self, X):
        self.count_products()
        Y = X @ X.T + self.offset
        return Point(X, float(np.sum(Y - self.A * np.log(Y))), 2 * (1 - self.A / Y) @ X)

    @property
    def smoothness(self):
        return float(self.A.max()) / self.offset**2

    @property
    def gradient_norm_at_zero(self):
        return float(np.linalg.norm(1 - self.A / self.offset))


def counts():
    generator = np.random.default_rng(0)
    truth = generator.gamma(1.0, 1.5, (40, 3))
    A = np.triu(generator.poisson(truth @ truth.T))
    return (A + np.triu(A, 1).T).astype(float)


@pytest.mark.parametrize("offset", [1.0, 1e-3])
@pytest.mark.parametrize("solver", ["auto", "dyn-nolips", "inertial", "pg"])
def test_a_poisson_loss_of_a_dozen_lines_is_solved_to_many_digits(solver, offset):
    """With no more than values and gradients; the same least value as SciPy's solver finds from there."""
    from scipy.optimize import minimize as reference

    problem = Problem(Poisson(counts(), offset), Nonnegative())
    check_gradient(problem.loss, np.abs(np.random.default_rng(1).standard_normal((40, 3))))
    result = minimize(problem, rank=3, solver=solver, tol=1e-8, random_state=0)
    assert result.success, result.message
    assert solver != "auto" or result.solver == "lbfgs"  # a quarter of the inertial method's products
    point = problem.loss.at

    def f(x):
        p = point(x.reshape(40, 3))
        return p.value, p.gradient.ravel()

    best = reference(f, result.X.ravel(), jac=True, bounds=[(0, None)] * 120, options={"gtol": 1e-10})
    assert result.objective == pytest.approx(best.fun, rel=1e-12)


def test_an_own_loss_goes_on_from_a_checkpoint(tmp_path):
    problem, settings = Problem(Poisson(counts(), 0.1), Nonnegative()), {"rank": 2, "random_state": 0, "tol": 1e-6}
    whole = minimize(problem, **settings)
    minimize(problem, max_iter=7, checkpoint=tmp_path / "run.npz", **settings)
    resumed = minimize(problem, checkpoint=tmp_path / "run.npz", **settings)
    assert resumed.n_iter == whole.n_iter > 7
    np.testing.assert_array_equal(resumed.X, whole.X)
    other = Problem(Poisson(counts() + np.eye(40), 0.1), Nonnegative())
    with pytest.raises(ValueError, match="another run"):
        minimize(other, checkpoint=tmp_path / "run.npz", **settings)


class Tilted(FullLeastSquares):
    """½‖M − XXᵀ‖² + tr XXᵀ: derived from one of ours, and another function."""

    def at(self, X):
        p = super().at(X)
        return Point(p.X, float(p.value) + float(np.sum(X * X)), p.gradient + 2 * X)


class Weighed(Distances):
    """Twice the distances' misfit."""

    def at(self, X):
        p = super().at(X)
        return Point(p.X, 2 * float(p.value), 2 * p.gradient)


@pytest.mark.parametrize("loss", [Tilted(M), Weighed(PAIRS, SQUARED)], ids=name_of)
@pytest.mark.parametrize("penalty", [Zero(), Nonnegative(), L1(0.1)], ids=name_of)
@pytest.mark.parametrize("name", ["auto", *SOLVERS])
def test_a_loss_derived_from_one_of_ours_is_its_own_function(loss, penalty, name):
    """What ours know of lines and steps does not hold for it: solvers do without, or say what is missing."""
    problem = Problem(loss, penalty)
    if name != "auto" and why_not(SOLVERS[name](), problem) is not None:
        with pytest.raises(ValueError, match=rf"solver '{name}' needs .*({loss.name}|{name_of(penalty)})"):
            minimize(problem, rank=2, solver=name)
        return
    result = minimize(problem, rank=2, solver=name, random_state=0, tol=1e-3, max_iter=5000)
    assert result.success or name == "nolips", result.message
    assert result.objective == pytest.approx(loss.at(result.X).value + penalty.value(result.X))
    assert result.stationarity == pytest.approx(
        np.linalg.norm(penalty.stationarity(result.X, loss.gradient(result.X))), rel=1e-6, abs=1e-9
    )


MISSING = {"lm": "linearize", "ncg": "along", "tr": "along", "beta": "point_from", "cd": "point_from"}


@pytest.mark.parametrize("name", MISSING)
def test_the_error_names_the_method_and_who_has_it(name):
    penalty = Nonnegative() if name in ("beta", "cd") else None
    with pytest.raises(
        ValueError, match=rf"{name}' needs a loss that .*Own is not: those with a method {MISSING[name]} are "
    ):
        minimize(Problem(Own(), penalty), rank=2, solver=name)
    others = "LeastSquares" if MISSING[name] != "linearize" else "Distances"
    with pytest.raises(ValueError, match=rf"are .*{others}.*solvers that fit: auto, "):
        minimize(Problem(Own(), penalty), rank=2, solver=name)


# -- the family -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usual", "member"),
    [
        (Zero(), Separable()),
        (Nonnegative(), Separable(nonnegative=True)),
        (L1(0.3), Separable(l1=0.3)),
        (NonnegativeL1(0.3), Separable(True, 0.3)),
        (Ridge(0.3), Separable(ridge=0.3)),
        (NonnegativeRidge(0.3), Separable(True, ridge=0.3)),
    ],
    ids=repr,
)
def test_the_usual_penalties_are_members_of_one_family(usual, member):
    X = np.abs(POINTS)
    X[0, 0] = 0.0
    G = RNG.standard_normal(X.shape)
    for name, arguments in {
        "value": (X,), "prox": (G, 0.7), "stationarity": (X, G), "change": (X, X + 1), "cut": (0.7,),
        "norm_mirror": (G, 0.7, 2.0, 0.5), "smooth_gradient": (X, G),
    }.items():  # fmt: skip
        np.testing.assert_array_equal(getattr(usual, name)(*arguments), getattr(member, name)(*arguments))
    assert (usual.smooth, usual.nonnegative, usual.has_lines) == (member.smooth, member.nonnegative, member.has_lines)
    assert type(usual)(*(0.3,) * hasattr(usual, "weight")) == usual
    first, second = (minimize(Problem(LOSSES["least squares"], g), rank=2, random_state=0) for g in (usual, member))
    np.testing.assert_array_equal(first.X, second.X)
    assert first.solver == second.solver


@pytest.mark.parametrize("scale", [1.0, 1e100])
def test_both_weights_at_once(scale):
    penalty = Separable(nonnegative=True, l1=0.3 * scale**1.5, ridge=0.5 * scale)
    result = minimize(Problem(LeastSquares(scale * M), penalty), rank=2, random_state=0, tol=1e-8)
    assert result.success, result.message
    X = result.X
    assert result.objective == pytest.approx(
        0.5 * np.sum((scale * M - X @ X.T) ** 2) + 0.3 * scale**1.5 * X.sum() + 0.25 * scale * np.sum(X * X)
    )
    with pytest.raises(ValueError, match="Separable: l1"):
        Separable(l1=-1.0)


# -- what a part of one's own answers ---------------------------------------------------------------------------------


class Answering(Loss):
    """½‖M − XXᵀ‖², with answers that are wrong in one way."""

    def __init__(self, smoothness=1.0, gradient_norm_at_zero=1.0, answer=Point):
        super().__init__()
        self.n_points, self.answer, self.known = len(M), answer, (smoothness, gradient_norm_at_zero)

    def at(self, X):
        self.count_products()
        R = X @ X.T - M
        return self.answer(X, 0.5 * float(np.sum(R * R)), 2 * R @ X)

    @property
    def smoothness(self):
        return self.known[0]

    @property
    def gradient_norm_at_zero(self):
        return self.known[1]


@pytest.mark.parametrize("solver", ["auto", "nolips", "inertial", "lbfgs"])
@pytest.mark.parametrize(
    ("faults", "error", "words"),
    [
        ({"smoothness": 0}, ValueError, "Answering.smoothness must be a positive number, got 0; return a bound"),
        ({"smoothness": -1.0}, ValueError, "Answering.smoothness must be a positive number, got -1.0"),
        ({"smoothness": np.nan}, ValueError, "Answering.smoothness must be a positive number, got nan"),
        ({"smoothness": None}, TypeError, "Answering.smoothness must be a positive number, got None"),
        ({"gradient_norm_at_zero": np.nan}, ValueError, "Answering.gradient_norm_at_zero must be a nonnegative number"),
        ({"answer": lambda X, f, G: (f, G)}, TypeError, "Answering.at must return a point, .*Point.*, got a tuple"),
        ({"answer": lambda X, f, G: None}, TypeError, "Answering.at must return a point, .*Point.*, got None"),
        ({"answer": lambda X, f, G: Point(X, G[:, 0], G)}, TypeError, "one number for .*, got an array of shape"),
    ],
)
def test_a_loss_that_answers_wrongly_is_named(faults, error, words, solver):
    with pytest.raises(error, match=words):
        minimize(Problem(Answering(**faults), Nonnegative()), rank=2, solver=solver, random_state=0)


def test_other_errors_of_a_loss_pass_through():
    def answer(X, value, gradient):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        minimize(Problem(Answering(answer=answer)), rank=2, random_state=0)
    result = minimize(Problem(Answering(), Nonnegative()), rank=2, random_state=0)
    with pytest.raises(ZeroDivisionError):  # not the loss's
        minimize(Problem(Answering(), Nonnegative()), result.X, tol=0, callback=lambda _: 1 / 0)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("stationarity", lambda X, G: float(np.linalg.norm(G)), "must return an array of the shape of X, .*, got 0.0"),
        ("stationarity", lambda X, G: G[0], r"must return an array of the shape of X, .* shape \(2,\)"),
        ("prox", lambda V, t: None, "must return an array of the shape of X, .*, got None"),
        ("value", lambda X: np.sum(X, axis=1), r"must return one number, g\(X\), got an array of shape \(10,\)"),
    ],
)
def test_a_penalty_that_answers_wrongly_is_named(name, answer, words):
    kind = type("Mine", (RowNorms,), {name: staticmethod(answer)})
    with pytest.raises(TypeError, match=rf"Mine\.{name} {words}"):
        minimize(Problem(LeastSquares(M), kind()), rank=2, random_state=0)
