"""What L-BFGS remembers on a face: the recursion, and the passes along lines."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.arrays import threads
from quartic.bench.growth import peak_memory
from quartic.compiled import lbfgs as face
from quartic.core.checkpoint import pack_state, unpack_state
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.losses.factor import numba as line
from quartic.penalties import Nonnegative, NonnegativeL1, NonnegativeRidge
from quartic.solvers import LBFGS
from quartic.solvers.lbfgs import LBFGSState

DTYPES = [np.float64, np.float32]


def close(dtype):
    return {"rtol": 1e3 * np.finfo(dtype).eps, "atol": 1e2 * np.finfo(dtype).eps}


def on_two(monkeypatch, work):
    """Run with two threads, on any machine, and with pieces that are worth it."""
    monkeypatch.setattr(threads, "max_threads", lambda: 2)
    monkeypatch.setattr(threads, "_WORTH_A_THREAD", 1)
    with threads.limited_to(2):
        return work()


def faces(shape, seed, share=0.3):
    """Some X ≥ 0 with zeros, and a gradient that holds most of them there."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(shape) < share, rng.random(shape), 0)
    held = np.where(rng.random(shape) < 0.05, -rng.random(shape), rng.random(shape))
    return X, np.where(X > 0, rng.standard_normal(shape), held)


class Walk:
    """Pairs as L-BFGS keeps them, and beside them copies that are cut off at each face."""

    def __init__(self, shape, dtype, most=4):
        self.shape, self.dtype, self.most = shape, dtype, most
        self.steps = self.changes = ()
        self.X = self.G = np.zeros(shape, dtype)
        self.whole = []

    def go(self, seed, share=0.3, changed=1.0):
        """Go to another point, where a share of the entries has changed."""
        X, G = (A.astype(self.dtype) for A in faces(self.shape, seed, share))
        here = np.random.default_rng(seed + 1000).random(self.shape) < changed
        self.X, self.G = np.where(here, X, self.X), np.where(here, G, self.G)
        self.free = (self.X > 0) | (self.G < 0)
        self.whole = [(s * self.free, y * self.free) for s, y in self.whole]

    def remember(self, seed):
        """Add a pair whose curvature is positive, as a rule."""
        rng = np.random.default_rng(seed)
        D = np.where(self.free, rng.standard_normal(self.shape), 0).astype(self.dtype)
        after = (self.G + 0.5 * (D * (1 + rng.random(self.shape)) + 0.1 * rng.standard_normal(self.shape))).astype(
            self.dtype
        )
        Y = np.where(self.free, (after.astype(np.float64) - self.G) / 0.5, 0).astype(self.dtype)
        self.steps, self.changes = (*self.steps, D)[-self.most :], (*self.changes, Y)[-self.most :]
        self.whole = [*self.whole, (D.copy(), Y.copy())][-self.most :]

    def direction(self, steps, changes):
        loss = LeastSquares(sp.eye_array(len(self.X), dtype=self.dtype, format="csr"))
        state = LBFGSState(loss.at(self.X), steps=steps, changes=changes)
        return LBFGS()._direction(Problem(loss, Nonnegative()), state, self.G)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_pairs", [0, 1, 2, 3, 7])
def test_the_direction_is_that_of_the_two_loop_recursion(dtype, n_pairs, monkeypatch):
    walk = Walk((3000, 5), dtype, most=7)
    for k in range(n_pairs):
        walk.go(k, changed=0.1 if k else 1.0)
        walk.direction(walk.steps, walk.changes)
        walk.remember(k + 100)
    walk.go(50, changed=0.1 if n_pairs else 1.0)
    X, G = walk.X, walk.G
    before = tuple(tuple(A.copy() for A in kept) for kept in (walk.steps, walk.changes))
    D, slope, longest = walk.direction(walk.steps, walk.changes)
    again, *numbers = on_two(monkeypatch, lambda: walk.direction(*before))
    assert numbers == [slope, longest]
    assert np.array_equal(D, again)  # the same bits
    for s, y, (S, Y) in zip(walk.steps, walk.changes, walk.whole, strict=True):  # what left the face is forgotten
        assert np.array_equal(s, S)
        assert np.array_equal(y, Y)

    def metric(q, scale):
        return q * (np.linalg.norm(X) / np.linalg.norm(q) if scale is None else scale)

    x, g = X.astype(np.float64), G.astype(np.float64)
    S, Y = ([np.float64(pair[k]) for pair in walk.whole] for k in (0, 1))
    q = face.two_loop(g * walk.free, tuple(S), tuple(Y), metric)
    expected = np.maximum(x - q, 0) - x
    np.testing.assert_allclose(D, expected, rtol=1e4 * np.finfo(dtype).eps, atol=1e4 * np.finfo(dtype).eps)
    assert slope == pytest.approx(float((g * expected).sum()), rel=1e-3 if dtype == np.float32 else 1e-9)
    falling = expected < 0
    assert longest == pytest.approx(float((-x[falling] / expected[falling]).min()), rel=1e-5)


def test_the_two_loop_recursion_is_bfgs():
    rng = np.random.default_rng(2)
    S, g = rng.standard_normal((4, 20, 3)), rng.standard_normal((20, 3))
    Y = S * rng.uniform(1, 2, (20, 3))
    found = face.two_loop(g, tuple(S), tuple(Y), lambda q, scale: scale * q)
    np.testing.assert_allclose(found.ravel(), bfgs(S.reshape(4, -1), Y.reshape(4, -1), g.ravel()), rtol=1e-9)
    assert np.array_equal(face.two_loop(g, (), (), lambda q, scale: q), g)


def bfgs(S, Y, g):
    """H g by the BFGS formula itself, with matrices."""
    scale = S[-1] @ Y[-1] / (Y[-1] @ Y[-1])
    H = scale * np.eye(len(g))
    for s, y in zip(S, Y, strict=True):
        V = np.eye(len(g)) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    return H @ g


def test_pairs_without_curvature_are_left_out():
    rng = np.random.default_rng(1)
    S, g = rng.standard_normal((4, 20, 1)), rng.standard_normal((20, 1))
    Y = S * rng.uniform(1, 2, (20, 1))
    bent = Y.copy()
    bent[1] = -Y[1]
    bent[3] = 0
    found = face.two_loop(g, tuple(S), tuple(bent), lambda q, scale: scale * q)
    np.testing.assert_allclose(found[:, 0], bfgs(S[[0, 2], :, 0], Y[[0, 2], :, 0], g[:, 0]), rtol=1e-10)
    assert np.array_equal(face.two_loop(g, tuple(S), tuple(-Y), lambda q, scale: q if scale is None else 0 * q), g)


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (63, 3), (2000, 17), (300, 40)])
def test_passes_along_a_line(shape, dtype, monkeypatch):
    rng = np.random.default_rng(0)
    X, D, MX, MD = (rng.standard_normal(shape).astype(dtype) for _ in range(4))
    X = np.maximum(X, 0)
    D *= dtype(1e-8)
    D = np.where(X == 0, abs(D), D)
    D[rng.random(shape) < 0.5] = 0
    x, d, md = (A.astype(np.float64) for A in (X, D, MD))
    A = (x + 0.3 * d).T @ (x + 0.3 * d)

    def run():
        arrays = [np.empty_like(X) for _ in range(3)]
        return (*arrays, *line.line_point(X, D, MX, MD, 0.3, True, A, *arrays))

    first = run()
    for a, b in zip(first, on_two(monkeypatch, run), strict=True):
        assert np.array_equal(a, b)
    new, Mnew, after, fit, projected, feasible = first
    y = np.maximum(x + 0.3 * d, 0)
    scale = shape[0] * shape[1] * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(new, y, atol=1e-15 + 4 * np.finfo(dtype).eps * 4)
    np.testing.assert_allclose(Mnew, MX.astype(np.float64) + 0.3 * md, atol=20 * np.finfo(dtype).eps)
    g = 2 * y @ A - 2 * (MX.astype(np.float64) + 0.3 * md)
    np.testing.assert_allclose(after, g, atol=20 * scale)
    assert projected == pytest.approx(float(np.square(np.where(y > 0, g, np.minimum(g, 0))).sum()), rel=1e2 * scale)
    assert fit == pytest.approx(float((Mnew.astype(np.float64) * new).sum()), rel=1e-9)
    assert feasible is True


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1.0, 1e-8, 0.0])
@pytest.mark.parametrize("few", [0, 25_000])
def test_the_quartic_of_a_line_keeps_its_digits_for_short_steps(size, dtype, few, monkeypatch):
    """Each coefficient against its definition: none is a difference of larger ones."""
    monkeypatch.setattr(line, "_FEW_COLUMNS", 0)
    monkeypatch.setattr(line, "_FEW_ENTRIES", few)
    rng = np.random.default_rng(0)
    M = rng.standard_normal((30, 30))
    loss = LeastSquares((M + M.T).astype(dtype))
    X, D = rng.standard_normal((30, 3)).astype(dtype), (size * rng.standard_normal((30, 3))).astype(dtype)
    found = loss.along(loss.at(X), D).coefficients
    x, d, m = (A.astype(np.float64) for A in (X, D, loss.matrix.M))
    R, U, C = x @ x.T - m, x @ d.T + d @ x.T, d @ d.T
    exact = (R * U).sum(), (R * C).sum() + 0.5 * (U * U).sum(), (U * C).sum(), 0.5 * (C * C).sum()
    np.testing.assert_allclose(found, exact, rtol=200 * np.finfo(dtype).eps)


def test_bounds_that_are_reached_are_met():
    """Also where round-off leaves a little: such an entry would count as free."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 3))
    out = [np.empty_like(X) for _ in range(3)]
    for _ in range(50):
        t = 1 / rng.uniform(0.1, 10)
        line.line_point(X, -X / t, X, X, t, True, np.eye(3), *out)
        assert not out[0].any()
    feasible = line.line_point(X, -X / t, X, X, 2 * t, False, np.eye(3), *out)[2]
    assert feasible is False
    assert np.array_equal(out[0] < 0, X > 0)


# -- whole runs -------------------------------------------------------------------------------------------------------

GRAPH = planted_graph(600, 6, random_state=0)[0]


@pytest.mark.parametrize("penalty", [Nonnegative(), NonnegativeL1(0.01), NonnegativeRidge(0.1)], ids=repr)
def test_runs_on_faces_converge(penalty):
    loss = LeastSquares(GRAPH)
    result = minimize(Problem(loss, penalty), rank=6, solver="lbfgs", tol=1e-9, random_state=0)
    other = minimize(Problem(loss, penalty), result.X, solver="inertial", tol=0, max_iter=5)
    assert result.success
    assert np.diff(result.history.objective).max() <= 1e-9
    assert result.objective <= other.objective * (1 + 1e-12)


def test_a_resumed_run_is_the_same_run(tmp_path):
    problem, options = Problem(LeastSquares(GRAPH), Nonnegative()), {"rank": 6, "solver": "lbfgs", "random_state": 0}
    whole = minimize(problem, max_iter=40, tol=0, **options)
    path = tmp_path / "run.npz"
    for stop in (1, 9, 23, 40):
        last = minimize(problem, max_iter=stop, tol=0, checkpoint=path, **options)
    assert np.array_equal(last.X, whole.X)
    assert np.array_equal(last.history.objective, whole.history.objective)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: {"steps": (s.steps[0].astype(np.float32), *s.steps[1:])}, "does not go with X"),
        (lambda s: {"changes": (s.changes[0][:5], *s.changes[1:])}, "changes is float64 of shape"),
        (lambda s: {"steps": s.steps[1:]}, "2 steps, but 3 changes"),
        (lambda s: {"steps": s.steps[0]}, "no tuples"),
    ],
)
def test_pairs_that_lead_astray_are_refused(spoil, words):
    problem, solver = Problem(LeastSquares(GRAPH), Nonnegative()), LBFGS()
    state = solver.init(problem, problem.loss.random_start(4, True, np.random.default_rng(0)))
    for _ in range(3):
        state = solver.step(problem, state)
    kind, shape = type(state), (600, 4)
    unpack_state(kind, pack_state(state), problem.loss, shape)
    with pytest.raises(ValueError, match=words):
        unpack_state(kind, pack_state(dataclasses.replace(state, **spoil(state))), problem.loss, shape)


@pytest.mark.parametrize("n", [1000, 5000, 20_000])
def test_memory_is_bounded(n):
    """The input, twelve arrays of the size of X, and two for each remembered pair: also while faces change."""
    problem = Problem(LeastSquares(planted_graph(n, 20, random_state=0)[0]), Nonnegative())
    X = problem.loss.random_start(20, True, np.random.default_rng(0))
    # the least of a few: compiled code that is loaded on the way is not the run's
    assert min(peak_memory(problem, LBFGS(), X, 30) for _ in range(6)) <= 26 * X.nbytes


def test_entries_on_their_way_to_zero_are_set_to_it():
    """Steps shorter than D scale what D brings to zero, and do not end it: the face would stay whole meanwhile."""
    M, labels = planted_graph(600, 6, random_state=0)
    X0 = (labels[:, None] == np.arange(6)) / np.sqrt(np.bincount(labels))
    X0 = 0.9 * np.maximum(X0, 0.1 * np.sqrt((X0 * X0).mean()))
    problem, positive = Problem(LeastSquares(M / M.sum(axis=1).mean()), Nonnegative()), []
    minimize(problem, X0, solver="face-cg", max_iter=2, callback=lambda p: positive.append((p.X > 0).mean()))
    assert positive[-1] < 0.6
