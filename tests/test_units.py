"""Data of any scale give the scaled answer: all is scaled out once, at the start of a run, by powers of two."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, minimize
from quartic.core.units import Units, exponent, shifted
from quartic.init import spectral_start
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import (
    Anchored,
    BoundedDistances,
    CompleteDistances,
    Completion,
    Distances,
    LeastSquares,
    Loss,
    PhaseRetrieval,
    Quadratic,
    RawStress,
    Rectangular,
    Robust,
    Sensing,
    Smooth,
)
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Penalty, Ridge
from quartic.solvers import ADMM, SOLVERS, ConjugateGradient, GradientDescent, SymHALS
from quartic.solvers.registry import why_not

N = 14
RNG = np.random.default_rng(5)
PLACES = RNG.standard_normal((N, 2))
PAIRS = np.array(np.triu_indices(N, 1)).T[::2]
LENGTHS = np.linalg.norm(PLACES[PAIRS[:, 0]] - PLACES[PAIRS[:, 1]], axis=1)
FULL = np.linalg.norm(PLACES[:, None] - PLACES[None], axis=2)
GRAPH = np.kron(np.eye(2), np.ones((N // 2, N // 2))) + 0.1 * (lambda A: A + A.T)(RNG.random((N, N)))
WEIGHTS = RNG.random(len(PAIRS)) + 0.5
KNOWN = (lambda A: ((A + A.T) > 0.8).astype(float))(RNG.random((N, N)))
TABLE = np.random.default_rng(6).random((N // 2, N // 2))
VECTORS = RNG.standard_normal((6 * N, N))
ENERGIES = ((VECTORS @ PLACES) ** 2).sum(axis=1)


def two_to(power, values):
    return np.ldexp(values, power)


def close(found, expected, size=None):
    np.testing.assert_allclose(
        found, expected, rtol=1e-6, atol=1e-9 * (np.abs(expected).max() if size is None else size)
    )


def smooth(k, w, smoothness=None):
    """A function of one's own, which only it knows to be 2^w ½‖M − XXᵀ‖²."""
    M = two_to(2 * k, GRAPH)
    return Smooth(
        lambda X: math.ldexp(0.5 * float(np.sum((X @ X.T - M) ** 2)), w),
        lambda X: two_to(w, (X @ X.T - M) @ X),
        smoothness,
        n=N,
    )


# What the loss is when lengths are 2^k times as long; where there are weights they are 2^w times as large.
LOSSES = {
    "dense": lambda k, w: LeastSquares(two_to(2 * k, GRAPH)),
    "sparse": lambda k, w: LeastSquares(sp.csr_array(two_to(2 * k, GRAPH))),
    "operator": lambda k, w: LeastSquares(
        aslinearoperator(two_to(2 * k, GRAPH)), squared_norm=math.ldexp(float(np.sum(GRAPH**2)), 4 * k)
    ),
    "weighted": lambda k, w: LeastSquares(two_to(2 * k, GRAPH), weights=two_to(w, KNOWN)),
    "distances": lambda k, w: Distances(PAIRS, two_to(2 * k, LENGTHS**2), N),
    "weighted distances": lambda k, w: Distances(PAIRS, two_to(2 * k, LENGTHS**2), N, two_to(w, WEIGHTS)),
    "bounds": lambda k, w: BoundedDistances(
        PAIRS, two_to(2 * k, LENGTHS**2), two_to(2 * k, 1.2 * LENGTHS**2), N, two_to(w, WEIGHTS)
    ),
    "stress": lambda k, w: RawStress(PAIRS, two_to(k, LENGTHS), None, N),
    "completion": lambda k, w: Completion(
        *KNOWN.nonzero(),
        two_to(2 * k, GRAPH[KNOWN > 0]),
        N,
        weights=two_to(w, np.ones(int(KNOWN.sum()))),
        ridge=math.ldexp(0.3, 2 * k + w),
    ),
    "sensing": lambda k, w: Sensing(two_to(w // 4, VECTORS), two_to(2 * k + w // 2, ENERGIES)),
    "sensing, matrices": lambda k, w: Sensing(
        two_to(w // 2, VECTORS[:, :, None] * VECTORS[:, None]), two_to(2 * k + w // 2, ENERGIES)
    ),
    "phase retrieval": lambda k, w: PhaseRetrieval(
        math.ldexp(1.0, w // 4) * (VECTORS[:, : N // 2] + 1j * VECTORS[:, N // 2 :]), two_to(2 * k + w // 2, ENERGIES)
    ),
    "quadratic": lambda k, w: Quadratic(two_to(w, 1 + KNOWN), two_to(2 * k + w, -GRAPH)),
    "rectangular": lambda k, w: Rectangular(two_to(2 * k, TABLE)),
    "rectangular, sparse": lambda k, w: Rectangular(sp.csr_array(two_to(2 * k, TABLE * (TABLE > 0.3)))),
    "rectangular, masked": lambda k, w: Rectangular(
        two_to(2 * k, TABLE), weights=two_to(w, (TABLE < 0.8) * (1 + TABLE))
    ),
    **{
        kind: lambda k, w, kind=kind: Robust(two_to(2 * k, GRAPH), kind, math.ldexp(0.2, 2 * k))
        for kind in ("huber", "pseudo-huber", "logcosh")
    },
    "huber, sparse": lambda k, w: Robust(sp.csr_array(two_to(2 * k, GRAPH * KNOWN)), delta=math.ldexp(0.2, 2 * k)),
    "huber, weighted": lambda k, w: Robust(
        two_to(2 * k, GRAPH), "huber", math.ldexp(0.2, 2 * k), weights=two_to(w, KNOWN)
    ),
    "smooth": lambda k, w: smooth(k, w),
    "smooth, known constant": lambda k, w: smooth(k, w, math.ldexp(1.0, w)),
    "complete": lambda k, w: CompleteDistances(two_to(k, FULL)),
    "anchored": lambda k, w: Anchored(
        Distances(PAIRS, two_to(2 * k, LENGTHS**2), N), [0, 1, 2], two_to(k, PLACES[:3] + np.array([3.0, 1.0]))
    ),
}
UNWEIGHTED = {
    "dense", "sparse", "operator", "distances", "stress", "complete", "anchored", "rectangular", "rectangular, sparse",
    "huber", "pseudo-huber", "logcosh", "huber, sparse",
}  # fmt: skip
FITTED_NONNEGATIVE = {
    "dense", "sparse", "operator", "weighted", "rectangular", "rectangular, masked", "huber", "smooth",
}  # fmt: skip
CASES = [
    (kind, name, nonnegative)
    for kind in LOSSES
    for name in SOLVERS
    for nonnegative in ((False, True) if kind in FITTED_NONNEGATIVE else (False,))
    if why_not(SOLVERS[name](), Problem(LOSSES[kind](0, 0), Nonnegative() if nonnegative else None)) is None
    and not (kind == "stress" and name != "lm")  # whose kernels need constants that raw stress has not
]


@pytest.mark.parametrize(("kind", "name", "nonnegative"), CASES)
def test_the_run_in_other_units_is_the_same_run(kind, name, nonnegative):
    """1e±140 and beyond: every factor is a power of two, so that but for roots and Cardano nothing rounds otherwise."""
    penalty = Nonnegative() if nonnegative else None
    loss = LOSSES[kind](0, 0)
    X0 = np.abs(RNG.standard_normal((loss.n_points, 2))) if nonnegative else RNG.standard_normal((loss.n_points, 2))
    options = {"solver": name, "tol": 1e-9, "max_iter": 12}
    plain = minimize(Problem(loss, penalty), X0, **options)
    for k, w in ((-235, 0), (235, 0), (-100, 0), (100, 0), (-120, 500), (120, -500)):
        if kind == "operator" and abs(k) > 200:
            k = k // 2  # its squared norm must be a number, and no operator shows its entries
        scaled = LOSSES[kind](k, w)
        assert scaled.units()
        moved = minimize(Problem(scaled, penalty), np.ldexp(X0, k), **options)
        value = loss.degree * k + (0 if kind in UNWEIGHTED else w)
        close(np.ldexp(moved.X, -k), plain.X)
        assert moved.status == plain.status
        if abs(value) < 950:
            close(np.ldexp(moved.objective, -value), plain.objective, plain.history.objective[0])
            close(np.ldexp(moved.history.objective, -value), plain.history.objective, plain.history.objective[0])
            close(np.ldexp(moved.stationarity, k - value), plain.stationarity, plain.history.stationarity[0])
            unit = SOLVERS[name]().unit_of_step(Problem(loss, penalty))
            steps = np.ldexp(moved.history.step, unit[1] * value - unit[0] * k)
            close(steps[1:], plain.history.step[1:], np.nan_to_num(plain.history.step).max())


@pytest.mark.parametrize(("kind", "preconditioner"), [
    ("weighted", "none"), ("weighted", "gram"), ("weighted distances", "none"), ("weighted distances", "gram"),
    ("weighted distances", "block"), ("sensing", "none"),
])  # fmt: skip
def test_steps_of_conjugate_gradients_are_in_the_users_units(kind, preconditioner):
    """X + tD is the user's, whatever metric D was made in: the first D is −P⁻¹G, which gives t its unit."""
    solver, X0 = ConjugateGradient(preconditioner), RNG.standard_normal((N, 2))
    plain = minimize(Problem(LOSSES[kind](0, 0)), X0, solver=solver, tol=0, max_iter=6)
    for k, w in ((120, 0), (-120, 500), (0, 480)):
        moved = minimize(Problem(LOSSES[kind](k, w)), np.ldexp(X0, k), solver=solver, tol=0, max_iter=6)
        power = {"none": 2 * k, "gram": 4 * k, "block": 0}[preconditioner]
        value = 4 * k + w if preconditioner != "block" else 0
        close(np.ldexp(moved.history.step[1:], value - power), plain.history.step[1:])


@pytest.mark.parametrize("factor", [1e-140, 1e140])
@pytest.mark.parametrize("name", list(SOLVERS))
def test_factors_that_are_no_powers_of_two(name, factor):
    makers = {
        "lm": lambda s: Distances(PAIRS, LENGTHS**2 * s, N),
        "smacof": lambda s: RawStress(PAIRS, LENGTHS * math.sqrt(s), n_points=N),
    }
    make = makers.get(name, lambda s: LeastSquares(GRAPH * s))
    loss, data = make(1.0), make(factor)
    penalty = None if name in ("gd", "ncg", "tr", "lm", "scaledgd", "smacof") else Nonnegative()
    X0 = np.abs(RNG.standard_normal((N, 2)))
    plain = minimize(Problem(loss, penalty), X0, solver=name, tol=1e-8)
    moved = minimize(Problem(data, penalty), X0 * math.sqrt(factor), solver=name, tol=1e-8)
    assert moved.status == plain.status
    # up to a rotation, which the loss does not see
    X, Y = plain.X, moved.X / math.sqrt(factor)
    np.testing.assert_allclose(Y @ Y.T, X @ X.T, atol=1e-5)


DEGREES = {Ridge: 2, NonnegativeRidge: 2, L1: 1, NonnegativeL1: 1, L0: 0}  # g(tX) = t^degree g(X)


@pytest.mark.parametrize("k", [-235, 235])
@pytest.mark.parametrize("penalty", [Ridge(0.3), NonnegativeRidge(0.3), L1(0.05), NonnegativeL1(0.05), L0(0.05)])
def test_penalties_and_their_weights(penalty, k):
    X0 = np.abs(RNG.standard_normal((N, 2)))
    plain = minimize(Problem(LeastSquares(GRAPH), penalty), X0, tol=1e-6, max_iter=50)
    there = type(penalty)(math.ldexp(penalty.weight, (4 - DEGREES[type(penalty)]) * k))
    moved = minimize(Problem(LOSSES["dense"](k, 0), there), np.ldexp(X0, k), tol=1e-6, max_iter=50)
    np.testing.assert_array_equal(np.ldexp(moved.X, -k), plain.X)
    assert math.ldexp(moved.objective, -4 * k) == plain.objective


@pytest.mark.parametrize("k", [-235, 235])
def test_settings_with_units_kernels_callbacks_references_and_strategies(k, tmp_path):
    X0 = np.abs(RNG.standard_normal((N, 2)))
    plain, far = Problem(LeastSquares(GRAPH), Nonnegative()), Problem(LOSSES["dense"](k, 0), Nonnegative())
    for one, other in (
        (SymHALS(0.5), SymHALS(math.ldexp(0.5, 2 * k))),
        (ADMM(0.5), ADMM(math.ldexp(0.5, 2 * k))),
    ):
        a = minimize(plain, X0, solver=one, tol=0, max_iter=5)
        b = minimize(far, np.ldexp(X0, k), solver=other, tol=0, max_iter=5)
        np.testing.assert_array_equal(np.ldexp(b.X, -k), a.X)
    for one, other in (
        (NormKernel(6.0, 2.0), NormKernel(6.0, math.ldexp(2.0, 2 * k))),
        (GramKernel(1.0, 2.0, 0.5), GramKernel(1.0, 2.0, math.ldexp(0.5, 2 * k))),
    ):
        penalty = Nonnegative() if isinstance(one, NormKernel) else None
        a = minimize(Problem(plain.loss, penalty, one), X0, tol=0, max_iter=5)
        b = minimize(Problem(far.loss, penalty, other), np.ldexp(X0, k), tol=0, max_iter=5)
        close(np.ldexp(b.X, -k), a.X)
    seen = []
    size = minimize(plain, X0, max_iter=0).stationarity
    a = minimize(plain, X0, tol=1e-4, reference=size, solver="inertial")
    b = minimize(
        far, np.ldexp(X0, k), tol=1e-4, reference=math.ldexp(size, 3 * k), callback=seen.append, solver="inertial"
    )
    assert b.n_iter == a.n_iter
    assert seen[-1].objective == b.history.objective[-1]
    assert seen[-1].stationarity == b.history.stationarity[-1] <= seen[-1].target
    np.testing.assert_array_equal(seen[-1].X, b.X)
    for start in (None, spectral_start, lambda problem, rank, generator: np.ldexp(X0, k)):
        found = minimize(far, start, rank=2, tol=1e-6, random_state=0, reference=spectral_start)
        assert found.success
        X = np.ldexp(found.X, -k)
        assert plain.loss.value(X) == pytest.approx(minimize(plain, rank=2, tol=1e-6, random_state=0).objective)
    # a run that goes on from a checkpoint, and one of the same data in other units, which is another run
    path = tmp_path / "run.npz"
    whole = minimize(far, np.ldexp(X0, k), tol=0, max_iter=9)
    minimize(far, np.ldexp(X0, k), tol=0, max_iter=4, checkpoint=path)
    np.testing.assert_array_equal(minimize(far, tol=0, rank=2, max_iter=9, checkpoint=path).X, whole.X)
    with pytest.raises(ValueError, match="another run"):
        minimize(plain, rank=2, checkpoint=path)


def test_data_near_one_are_left_as_they_are():
    """Within the comfortable range nothing is copied or scaled: loss and answer are bit for bit those of before."""
    for k in (-40, 0, 40):
        problem = Problem(LOSSES["dense"](k, 0))
        assert problem.in_good_units() == (problem, Units())
    single = LeastSquares((GRAPH * 1e30).astype(np.float32))
    result = minimize(Problem(single, Nonnegative()), rank=2, tol=1e-4, random_state=0)
    assert result.success
    assert result.X.dtype == np.float32


def test_losses_and_penalties_of_ones_own_are_taken_as_they_are():
    class Own(Penalty):
        smooth = True

        def value(self, X):
            return 0.0

        def prox(self, V, t):
            return V

        def stationarity(self, X, gradient):
            return gradient

    problem = Problem(LOSSES["dense"](235, 0), Own())
    assert problem.in_good_units() == (problem, Units())
    assert Loss.exponents(problem.loss) is None
    with pytest.raises(TypeError, match="cannot be had in other units"):
        Loss.in_units(problem.loss, Units(1, 4))
    assert GradientDescent().in_units(Units(3, 12), problem) == GradientDescent()


def test_exponents_and_shifts():
    assert exponent(np.zeros(3)) is None
    assert exponent([-3.0, 1.0]) == 2
    assert exponent(5e-324) == -1073
    assert shifted(1.0, 2000) == math.inf
    assert shifted(1.0, -2000) == 0.0
    np.testing.assert_array_equal(shifted(np.array([5e-324]), 1074), [1.0])


@pytest.mark.parametrize("k", [-500, -235, 235])
@pytest.mark.parametrize("name", ["inertial", "lbfgs", "pg", "gd", "tr"])
def test_tensors(name, k):
    torch = pytest.importorskip("torch")
    penalty = None if name in ("gd", "tr") else Nonnegative()
    X0 = torch.tensor(np.abs(np.random.default_rng(0).standard_normal((N, 2))))
    options = {"solver": name, "tol": 1e-9, "max_iter": 12}
    plain = minimize(Problem(LeastSquares(torch.tensor(GRAPH)), penalty), X0, **options)
    moved = minimize(
        Problem(LeastSquares(torch.tensor(np.ldexp(GRAPH, 2 * k))), penalty),
        torch.ldexp(X0, torch.tensor(k)),
        **options,
    )
    close(np.ldexp(moved.X.numpy(), -k), plain.X.numpy())
    assert moved.status == plain.status


def test_zero_is_a_saddle_of_tensors_too():
    torch = pytest.importorskip("torch")
    from quartic.core.stopping import objective_falls_from_zero

    for dtype in (torch.float64, torch.float32):
        M = torch.tensor(GRAPH, dtype=dtype)
        assert objective_falls_from_zero(Problem(LeastSquares(M), Nonnegative()))
        assert objective_falls_from_zero(Problem(LeastSquares(M)))
        assert not objective_falls_from_zero(Problem(LeastSquares(-M), Nonnegative()))


# -- starts of data that are small or large, but not so much that they are scaled ------------------------------------


def start_loss(name: str, scale: float) -> Loss:
    if name == "weighted":
        return LeastSquares(scale * GRAPH, weights=KNOWN)
    if name == "distances":
        return Distances(PAIRS, scale * LENGTHS**2)
    if name == "complete":
        return CompleteDistances(math.sqrt(scale) * FULL)
    return Sensing(VECTORS, scale * ((VECTORS @ PLACES) ** 2).sum(axis=1))


@pytest.mark.parametrize("power", [-78, -40, -20, 20, 40, 78])
@pytest.mark.parametrize("name", ["weighted", "distances", "complete", "sensing"])
def test_a_random_start_has_the_scale_of_the_data(name, power):
    expected = start_loss(name, 1.0).random_start(2, False, np.random.default_rng(0))
    X = start_loss(name, 4.0**power).random_start(2, False, np.random.default_rng(0))
    np.testing.assert_allclose(X, 2.0**power * expected, rtol=1e-12)


def test_distances_between_atoms_in_metres_are_fitted():
    loss = Distances(PAIRS, (1e-10 * LENGTHS) ** 2)
    result = minimize(Problem(loss), rank=2, tol=1e-8, random_state=0)
    same = minimize(Problem(Distances(PAIRS, LENGTHS**2)), rank=2, tol=1e-8, random_state=0)
    assert result.success
    assert result.objective <= 1e-40 * same.objective + 1e-12 * loss.value_at_zero
