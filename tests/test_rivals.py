"""Rivals of 2018 to 2026 against formulas written out densely, and the directions that auto took over from them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.baselines.splitting import _sample_rows
from quartic.datasets import planted_graph
from quartic.init import robust_start
from quartic.losses import Completion, Distances, LeastSquares, RawStress, Sensing
from quartic.metrics import normalized_rmse
from quartic.penalties import Nonnegative, NonnegativeL1
from quartic.solvers import (
    ABPG,
    LAI,
    LBFGS,
    SMACOF,
    SNMPBB,
    CoCaIn,
    FaceCG,
    LvSHALS,
    ProjectedGaussNewton,
    ScaledGD,
    SymHALS,
)

RNG = np.random.default_rng(0)
DENSE = RNG.random((25, 25))
FACTOR = np.where(RNG.random((30, 3)) < 0.4, RNG.random((30, 3)), 0.0)
MATRICES = {
    "dense": DENSE + DENSE.T,
    "exact": FACTOR @ FACTOR.T,
    "sparse": sp.csr_array(np.where(DENSE + DENSE.T > 1.3, DENSE + DENSE.T, 0.0)),
    "signed": (DENSE - 0.5) + (DENSE - 0.5).T,
}
ON_FACE = [SNMPBB(), SNMPBB(memory=1), SNMPBB(alternate=False), FaceCG(), ProjectedGaussNewton()]
BREGMAN = [CoCaIn(), ABPG()]


def dense(M):
    return M.toarray() if sp.issparse(M) else M


def value(M, X):
    return 0.5 * np.sum((dense(M) - X @ X.T) ** 2)


def gradient(M, X):
    return 2 * (X @ X.T - dense(M)) @ X


def stationarity(M, X):
    G = gradient(M, X)
    return np.linalg.norm(np.where(X > 0, G, np.minimum(G, 0)))


def start(M, rank=3, seed=1):
    return np.random.default_rng(seed).uniform(0.01, 1.0, (M.shape[0], rank))


def problem(M):
    return Problem(LeastSquares(M), Nonnegative())


def steps(case, solver, X0, count):
    state = solver.init(case, X0)
    states = [state]
    for _ in range(count):
        state = solver.step(case, state)
        states.append(state)
    return states


# -- symmetric NMF ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("solver", [*ON_FACE, *BREGMAN, LAI(), LvSHALS(share=0.5)], ids=repr)
def test_ends_at_a_stationary_point_as_low_as_scipy_finds(solver, kind):
    M = MATRICES[kind]
    X0 = start(M)
    result = minimize(problem(M), X0, solver=solver, tol=1e-6, max_iter=20_000)
    assert result.success, result.message
    assert (result.X >= 0).all()
    assert stationarity(M, result.X) <= 1.01e-6 * stationarity(M, X0)
    assert result.objective == pytest.approx(value(M, result.X), abs=1e-10 * value(M, 0 * X0))
    shape, box = X0.shape, [(0, None)] * X0.size
    found = [
        scipy.optimize.minimize(
            lambda x: (value(M, x.reshape(shape)), gradient(M, x.reshape(shape)).ravel()),
            start(M, seed=seed).ravel(), jac=True, method="L-BFGS-B", bounds=box,
            options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9},
        ).fun
        for seed in range(1, 4)
    ]  # fmt: skip
    assert result.objective <= max(found) + 0.02 * value(M, 0 * X0)


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("solver", [SNMPBB(memory=1), FaceCG(), ProjectedGaussNewton()], ids=repr)
def test_objective_never_rises(solver, kind):
    M = MATRICES[kind]
    values = [value(M, s.point.X) for s in steps(problem(M), solver, start(M), 40)]
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < 0.9 * values[0]


def test_spectral_steps_are_those_of_barzilai_and_borwein():
    M, case = MATRICES["dense"], problem(MATRICES["dense"])
    states = steps(case, SNMPBB(), start(M), 12)
    for k, (before, after) in enumerate(itertools.pairwise(states)):
        s = after.point.X - before.point.X
        y = gradient(M, after.point.X) - gradient(M, before.point.X)
        D = np.maximum(before.point.X - before.alpha * gradient(M, before.point.X), 0) - before.point.X
        t = after.step / before.alpha
        np.testing.assert_allclose(s, t * D, atol=1e-12)
        if np.sum(s * y) > 0:
            expected = np.sum(s * s) / np.sum(s * y) if k % 2 == 0 else np.sum(s * y) / np.sum(y * y)
            assert after.alpha == pytest.approx(expected, rel=1e-8)


def test_the_objective_may_rise_but_not_above_the_last_ten():
    M = planted_graph(120, 4, random_state=0)[0]
    case = problem(M)
    values = [value(M, s.point.X) for s in steps(case, SNMPBB(), case.loss.random_start(4, True, RNG), 60)]
    assert (np.diff(values) > 0).any()
    assert all(v <= max(values[max(0, k - 10) : k]) + 1e-12 for k, v in enumerate(values) if k)


def test_face_directions_are_those_of_bfgs_with_a_memory_of_one():
    """Away from the bound: HG by the update written out, and at the end as L-BFGS with one pair."""
    M = MATRICES["exact"] + 5.0
    case, X0 = problem(M), start(M) + 0.5
    states = steps(case, FaceCG(), X0, 4)
    assert all((s.point.X > 0).all() for s in states[:3])
    X, Y = (s.point.X.ravel() for s in states[1:3])
    s, y = states[1].point.X - X0, gradient(M, states[1].point.X) - gradient(M, X0)
    s, y, G = s.ravel(), y.ravel(), gradient(M, states[1].point.X).ravel()
    A = np.eye(len(s)) - np.outer(s, y) / (s @ y)
    H = (s @ y) / (y @ y) * A @ A.T + np.outer(s, s) / (s @ y)
    q = np.maximum(X - H @ G, 0) - X
    moved = Y - X
    assert moved @ q == pytest.approx(np.linalg.norm(moved) * np.linalg.norm(q), rel=1e-8)
    one = minimize(case, X0, solver=LBFGS(memory=1), tol=1e-8)
    assert minimize(case, X0, solver="face-cg", tol=1e-8).objective == pytest.approx(one.objective, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_face_directions_with_a_penalty_and_in_single_precision(dtype):
    M = MATRICES["dense"].astype(dtype)
    case = Problem(LeastSquares(M), NonnegativeL1(0.3))
    X0 = start(M).astype(dtype)
    result = minimize(case, X0, solver="face-cg", tol=1e-4)
    assert result.success, result.message
    assert result.X.dtype == dtype
    X = result.X.astype(float)
    G = gradient(M.astype(float), X) + 0.3
    G0 = gradient(M.astype(float), X0) + 0.3
    assert np.linalg.norm(np.where(X > 0, G, np.minimum(G, 0))) <= 1.1e-4 * np.linalg.norm(G0)
    assert (X == 0).any()


def test_face_directions_do_not_depend_on_the_number_of_threads():
    from quartic.arrays.threads import limited_to

    M = planted_graph(3000, 12, random_state=1)[0]
    X0 = LeastSquares(M).random_start(12, True, np.random.default_rng(0))
    found = []
    for threads in (1, 2):
        with limited_to(threads):
            found.append(minimize(problem(M), X0, solver="face-cg", tol=0, max_iter=15).X)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("n", "solver"), [(60, "cd"), (300, "face-cg")])
def test_auto_sweeps_few_rows_and_takes_face_directions_for_other_sparse_matrices(n, solver):
    assert minimize(problem(planted_graph(n, 3, random_state=0)[0]), rank=3, max_iter=1).solver == solver


def test_gauss_newton_direction_solves_its_equations():
    M, X = MATRICES["dense"], start(MATRICES["dense"])
    p = LeastSquares(M).at(X)
    E = ProjectedGaussNewton(n_cg=500, forcing=1e-12)._solve(p)
    free = (X > 0) | (p.gradient < 0)
    left = 2 * (E @ (X.T @ X) + X @ (E.T @ X)) + p.gradient
    assert np.abs(left[free]).max() <= 1e-6 * np.abs(p.gradient).max()
    assert not E[~free].any()


def test_low_rank_input_is_the_leading_part_of_the_spectrum():
    Q, _ = np.linalg.qr(RNG.standard_normal((40, 40)))
    values = np.array([9.0, -7.0, 5.0, 4.0, *[0.01] * 36])
    M = (Q * values) @ Q.T
    loss = LeastSquares((M + M.T) / 2)
    basis, found = LAI(columns=2, power=3)._approximate(loss, np.ones((40, 2)))
    np.testing.assert_allclose(np.sort(found), [-7, 4, 5, 9], atol=1e-3)
    np.testing.assert_allclose((basis * found) @ basis.T, (Q[:, :4] * values[:4]) @ Q[:, :4].T, atol=0.02)
    assert loss.n_products == 5 * 2  # five products with four columns, where two are one


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_sampling_all_rows_is_hals(kind):
    M = MATRICES[kind]
    lvs, hals = problem(M), problem(M)
    sampled = steps(lvs, LvSHALS(mu=0.3, share=1.0, sweeps=1), start(M), 6)[-1]
    whole = steps(hals, SymHALS(mu=0.3), start(M), 6)[-1]
    np.testing.assert_array_equal(sampled.point.X, whole.point.X)
    np.testing.assert_array_equal(sampled.Y, whole.Y)


def test_sampled_normal_equations_are_right_on_average():
    """Rows of high leverage are taken for certain, with weight 1; the mean of many draws is the whole."""
    rng = np.random.default_rng(4)
    Y = rng.random((60, 3)) * rng.pareto(1.5, (60, 1))
    M = MATRICES["dense"][rng.integers(25, size=(60, 1)), rng.integers(25, size=60)]
    leverage = np.einsum("ij,jk,ik->i", Y, np.linalg.inv(Y.T @ Y), Y)
    certain = np.flatnonzero(leverage / 3 >= 1 / 15)
    assert 0 < len(certain) < 15
    left, right = np.zeros((3, 3)), np.zeros((60, 3))
    for _ in range(3000):
        rows, weights = _sample_rows(Y, 15, rng)
        assert len(rows) <= 15
        assert (weights[np.searchsorted(rows, certain)] == 1).all()
        left += Y[rows].T @ (weights[:, None] * Y[rows]) / 3000
        right += M[rows].T @ (weights[:, None] * Y[rows]) / 3000
    # the standard error of a mean of 3000 draws of 15 rows each is below a hundredth
    np.testing.assert_allclose(left, Y.T @ Y, rtol=0.05)
    np.testing.assert_allclose(right, M.T @ Y, rtol=0.1)
    short = Y * [1.0, 0.0, 1.0]  # a column of zeros has no leverage
    assert np.isfinite(_sample_rows(short, 15, rng)[1]).all()


def test_sampled_products_are_counted_by_the_entries_they_use():
    M = planted_graph(400, 4, random_state=0)[0]
    case = problem(M)
    solver = LvSHALS(share=0.1, sweeps=5)
    state = solver.init(case, case.loss.random_start(4, True, np.random.default_rng(0)))
    before = case.loss.n_products
    solver.step(case, state)
    # ten samples of a tenth of the rows, whose entries vary a little, and the look at M
    assert 2 <= case.loss.n_products - before <= 4


def test_inertia_of_cocain_keeps_its_condition():
    M = MATRICES["dense"]
    case = problem(M).with_kernel(tight=False)
    solver = CoCaIn()
    moved, uppers = 0, []
    state = solver.init(case, start(M))
    for _ in range(30):
        after = solver.step(case, state)
        theta = 0.5 * (1 + np.sqrt(1 + 4 * state.theta**2))
        y = solver._ahead(case, state, (state.theta - 1) / theta)
        room = (solver.delta - solver.epsilon) * case.kernel.divergence(state.previous.X, state.point.X)
        if y is not state.point:
            moved += 1
            assert case.kernel.divergence(state.point.X, y.X) <= room * (1 + 1e-6)
        uppers.append(after.upper)
        state = after
    assert moved > 5
    assert (np.diff(uppers) >= 0).all()


@pytest.mark.parametrize("name", ["face-cg", "snmpbb", "pgncg", "lai", "lvs-hals", "cocain", "abpg"])
def test_a_run_that_goes_on_from_a_checkpoint_is_the_same_run(name, tmp_path):
    options = {"solver": name, "tol": 1e-12, "X0": start(MATRICES["dense"])}
    case = problem(MATRICES["dense"])
    whole = minimize(case, max_iter=30, **options)
    minimize(case, max_iter=13, checkpoint=tmp_path / "half.npz", **options)
    rest = minimize(case, max_iter=30, checkpoint=tmp_path / "half.npz", **options)
    np.testing.assert_array_equal(whole.X, rest.X)


def test_the_accelerated_method_accelerates():
    """Not a sequence of plain steps: its θ falls, and it needs fewer products than Dyn-NoLips."""
    M = planted_graph(200, 4, random_state=0)[0]
    case = problem(M)
    X0 = case.loss.random_start(6, True, np.random.default_rng(0))
    states = steps(case.with_kernel(tight=False), ABPG(), X0, 8)
    assert states[-1].theta < 0.5
    plain = minimize(case, X0, solver="dyn-nolips", tol=1e-3)
    assert minimize(case, X0, solver="abpg", tol=1e-3).n_products < plain.n_products


# -- completion, sensing, distances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [3, 5])
def test_scaled_gradients_find_an_ill_conditioned_truth(rank):
    """Whatever the condition of the truth, and with columns to spare; plain gradients are far off after as many."""
    Q, _ = np.linalg.qr(RNG.standard_normal((40, 3)))
    truth = Q * np.sqrt([100.0, 10.0, 1.0])
    # with columns to spare all entries are known: with fewer the error may hide in those that are not
    i, j = np.nonzero(np.triu(RNG.random((40, 40)) < (0.7 if rank == 3 else 1.0)))
    case = Problem(Completion(i, j, (truth @ truth.T)[i, j], 40))
    limits = {"tol": 1e-7, "max_iter": 600, "random_state": 3}
    result = minimize(case, rank=rank, solver="scaledgd", **limits)
    error = np.linalg.norm(result.X @ result.X.T - truth @ truth.T) / 100
    plain = minimize(case, rank=rank, solver="gd", **limits)
    assert error <= 1e-3
    assert error < 0.1 * np.linalg.norm(plain.X @ plain.X.T - truth @ truth.T) / 100
    assert (np.diff(result.history.objective) <= 1e-12 * result.history.objective[0]).all()


def test_scaled_gradient_is_the_gradient_times_the_inverse_of_the_gram_matrix():
    A = RNG.standard_normal((60, 15))
    X = RNG.standard_normal((15, 2))
    loss = Sensing(A, ((A @ X) ** 2).sum(axis=1))
    X0 = RNG.standard_normal((15, 2))
    solver = ScaledGD(step_size=0.5, damping=0.0)
    state = solver.step(Problem(loss), solver.init(Problem(loss), X0))
    expected = X0 - 0.5 / loss.smoothness * loss.gradient(X0) @ np.linalg.inv(X0.T @ X0)
    np.testing.assert_allclose(state.point.X, expected, rtol=1e-9)


@pytest.mark.parametrize("relaxation", [1.0, 1.9])
def test_smacof_is_guttmans_transform(relaxation):
    n = 12
    truth, X0 = RNG.standard_normal((2, n, 2))
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if (i + j) % 3])
    d = np.linalg.norm(truth[pairs[:, 0]] - truth[pairs[:, 1]], axis=1) * (1 + 0.1 * RNG.random(len(pairs)))
    w = 0.5 + RNG.random(len(pairs))
    V, B = np.zeros((2, n, n))
    for (i, j), target, weight in zip(pairs, d, w, strict=True):
        edge = np.zeros(n)
        edge[[i, j]] = 1, -1
        V += weight * np.outer(edge, edge)
        B += weight * target / np.linalg.norm(X0[i] - X0[j]) * np.outer(edge, edge)
    transform = np.linalg.pinv(V) @ B @ X0
    case = Problem(RawStress(pairs, d, n_points=n, weights=w))
    solver = SMACOF(relaxation)
    state = solver.step(case, solver.init(case, X0))
    expected = X0 + relaxation * (transform - (X0 - X0.mean(axis=0)))
    np.testing.assert_allclose(state.point.X - state.point.X.mean(axis=0), expected - expected.mean(axis=0), atol=1e-10)
    result = minimize(case, X0, solver=solver, tol=1e-6, max_iter=5000)
    assert result.success, result.message
    assert (np.diff(result.history.objective) <= 1e-12).all()


def test_smacof_says_what_it_is_for():
    with pytest.raises(ValueError, match=r"needs a loss that a graph Laplacian bounds .* but Distances is not"):
        minimize(Problem(Distances([[0, 1]], [1.0])), rank=1, solver="smacof")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_start_solves_sparse_distance_graphs(seed):
    """A random one does not: twenty distances a point, which all methods fit but for a few points."""
    n, rng = 2000, np.random.default_rng(100 + seed)
    truth = rng.standard_normal((n, 3))
    i, j = rng.integers(0, n, (2, 60_000))
    pairs = np.unique(np.stack([i, j], axis=1)[i < j], axis=0)
    pairs = pairs[rng.permutation(len(pairs))[: 10 * n]]
    loss = Distances(pairs, ((truth[pairs[:, 0]] - truth[pairs[:, 1]]) ** 2).sum(axis=1), n)
    result = minimize(Problem(loss), rank=3, tol=1e-6, random_state=seed)
    assert result.success, result.message
    assert result.objective < 1e-6
    assert result.n_products > result.history.n_products[-1] - result.history.n_products[0]  # those of the start count


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_robust_start_is_not_misled_by_gross_errors(share):
    n, rng = 150, np.random.default_rng(7)
    truth = rng.standard_normal((n, 3))
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    d = np.linalg.norm(truth[pairs[:, 0]] - truth[pairs[:, 1]], axis=1) * (1 + 0.01 * rng.standard_normal(len(pairs)))
    wrong = rng.random(len(pairs)) < share
    d[wrong] *= rng.uniform(1.5, 4.0, wrong.sum())
    case = Problem(Distances(pairs, d**2, n))
    robust = robust_start(case, 3, np.random.default_rng(0))
    plain = minimize(case, rank=3, random_state=0).X
    assert normalized_rmse(robust, truth) < 0.01  # that of the noise
    assert normalized_rmse(plain, truth) > 0.05
