"""The compiled passes over pairs, beside sums written out in NumPy."""

import dataclasses
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quartic.arrays import threads
from quartic.arrays.threads import limited_to
from quartic.losses import BoundedDistances, CompleteDistances, Distances, LeastSquares, RawStress
from quartic.losses.pairs import numba as passes
from quartic.losses.pairs import pairs as row_chunks

N = 60
# every rank with a loop of its own and one without; entries of XXᵀ with a diagonal; weights; both types
KINDS = [
    (1, True, False, np.float64), (2, True, True, np.float64), (3, True, False, np.float64),
    (4, True, False, np.float64), (6, True, True, np.float64), (3, False, True, np.float64),
    (6, False, True, np.float64), (3, True, True, np.float32), (33, True, True, np.float64),
    (70, False, True, np.float64),
]  # fmt: skip


def make(difference, weighted, dtype):
    rng = np.random.default_rng(0)
    i, j = np.nonzero(np.triu(rng.random((N, N)) < 0.5, 1 if difference else 0))
    values, weights = rng.random(len(i)), rng.random(len(i)) + 0.1
    if difference:
        return Distances(np.column_stack([i, j]), values.astype(dtype), N, weights if weighted else None)
    M, W = np.zeros((N, N)), np.zeros((N, N))
    M[i, j], W[i, j] = values, weights
    return LeastSquares(M + np.triu(M, 1).T, weights=W + np.triu(W, 1).T)


def written_out(loss, X, D):
    """Return what the passes return, by sums over pairs in float64."""
    X, D = X.astype(np.float64), D.astype(np.float64)
    i, j, n, r = loss.rows, loss.cols, loss.n_points, X.shape[1]
    w = np.ones(len(i)) if loss.weight is None else loss.weight.astype(np.float64)
    b = loss.target.astype(np.float64)
    J = np.zeros((len(i), n, r))  # the derivative of q
    JD = np.zeros((len(i), n, r))  # that of ⟨J, D⟩
    for A, Y in ((J, X), (JD, D)):
        if loss.pairs.difference:
            np.add.at(A, (np.arange(len(i)), i), 2 * (Y[i] - Y[j]))
            np.add.at(A, (np.arange(len(i)), j), -2 * (Y[i] - Y[j]))
        else:
            np.add.at(A, (np.arange(len(i)), i), Y[j])
            np.add.at(A, (np.arange(len(i)), j), Y[i])
    q, change = (np.einsum("pik,ik->p", J, X) / 2 - b), np.einsum("pik,ik->p", J, D)
    bend = np.einsum("pik,ik->p", JD, D) / 2
    sums = lambda factor, A: np.einsum("p,pik->ik", factor, A)  # noqa: E731
    after = q + change + bend
    rows, columns = np.tril_indices(r)
    return {
        "value": 0.5 * np.sum(w * q * q),
        "gradient": sums(w * q, J),
        "value after": 0.5 * np.sum(w * after**2),
        "gradient after": sums(w * after, J + JD),
        "remainder": np.sum(w * (0.5 * (after**2 - q**2) - q * change)),
        "quartic": [
            np.sum(w * q * change), np.sum(w * (0.5 * change**2 + q * bend)), np.sum(w * change * bend),
            np.sum(0.5 * w * bend**2),
        ],
        "hessian": sums(w * change, J) + sums(w * q, JD),
        "product": sums(w * change, J),
        "blocks": np.einsum("p,pik,pil->ikl", w, J, J)[:, rows, columns],
        "along": sums(w * q, J) + 0.5 * (sums(w * q, JD) + sums(w * change, J))
        + 0.25 * (sums(w * change, JD) + sums(w * bend, J)) + 0.125 * sums(w * bend, JD),
    }  # fmt: skip


def computed(loss, X, D):
    p, H = loss.at(X), np.empty_like(D)
    move, line = loss.move(p, X + D), loss.along(p, D)
    q, blocks = loss.linearize(X)
    loss.gauss_newton_product(p, D, H)
    assert np.isclose(q.value, p.value, rtol=1e-6)
    np.testing.assert_allclose(q.gradient, p.gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(line.coefficients, loss.quartic(p, D), rtol=1e-6)
    return {
        "value": p.value,
        "gradient": p.gradient,
        "value after": move.point.value,
        "gradient after": move.point.gradient,
        "remainder": move.remainder,
        "quartic": loss.quartic(p, D),
        "hessian": loss.hessian_product(p, D),
        "product": H,
        "blocks": blocks,
        "along": line.point(0.5).gradient,
    }


@pytest.mark.parametrize(("rank", "difference", "weighted", "dtype"), KINDS)
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("chunks", [1, 4])
def test_what_the_sums_written_out_are(rank, difference, weighted, dtype, far, chunks, monkeypatch):
    if far:
        monkeypatch.setattr(passes, "_NEAR", 0)
    monkeypatch.setattr(row_chunks, "_PAIRS_IN_A_CHUNK", 10**9 if chunks == 1 else 50)
    monkeypatch.setattr(row_chunks, "_PAIRS_FOR_A_ROW", 1)
    monkeypatch.setattr(row_chunks, "_MOST_CHUNKS", chunks)
    loss = make(difference, weighted, dtype)
    assert len(loss.pairs.chunks) == chunks
    rng = np.random.default_rng(1)
    X, D = (rng.standard_normal((N, rank)).astype(dtype) for _ in range(2))
    ours, wanted = computed(loss, X, D), written_out(loss, X, D)
    for name, value in wanted.items():
        size = np.abs(value).max()
        np.testing.assert_allclose(ours[name], value, rtol=0, atol=(1e-13 if dtype == np.float64 else 1e-6) * size)
    assert ours["gradient"].dtype == dtype


def test_float32_far_from_the_cache_is_as_good_as_its_points(monkeypatch):
    """Sums in float32 records differ from those in float64 by round-off of float32, not by more."""
    rng = np.random.default_rng(0)
    pairs = np.column_stack(np.triu_indices(150, 1))
    loss = Distances(pairs, rng.random(len(pairs)).astype(np.float32))
    X = rng.standard_normal((150, 3)).astype(np.float32)
    near = loss.at(X)
    monkeypatch.setattr(passes, "_NEAR", 0)
    far = loss.at(X)
    assert near.value == pytest.approx(far.value, rel=1e-14)  # values are in float64
    gap = np.abs(near.gradient - far.gradient).max()
    assert 0 < gap < 1e-6 * np.abs(near.gradient).max()


@pytest.mark.parametrize("step", [1.0, 1e-6, 1e-12])
@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e40])
def test_the_remainder_keeps_its_digits(step, scale, monkeypatch):
    """However short the step, and with records far from the cache as near: as in exact arithmetic."""
    from fractions import Fraction

    loss = make(True, True, np.float64)
    loss = loss.with_pairs(dataclasses.replace(loss.pairs, target=loss.target * scale**2))
    rng = np.random.default_rng(1)
    X = scale * rng.standard_normal((N, 3))
    Y = X + scale * step * rng.standard_normal((N, 3))
    exact = Fraction(0)
    for i, j, b, w in zip(loss.rows, loss.cols, loss.target, loss.weight, strict=True):
        u = [Fraction(X[i, k]) - Fraction(X[j, k]) for k in range(3)]
        v = [Fraction(Y[i, k]) - Fraction(Y[j, k]) - u[k] for k in range(3)]
        q, change = sum(a * a for a in u) - Fraction(b), 2 * sum(a * c for a, c in zip(u, v, strict=True))
        bend = sum(c * c for c in v)
        exact += Fraction(w) * ((change + bend) ** 2 / 2 + q * bend)
    p = loss.at(X)
    assert loss.move(p, Y).remainder == pytest.approx(float(exact), rel=1e-11)
    monkeypatch.setattr(passes, "_NEAR", 0)
    assert loss.move(p, Y).remainder == pytest.approx(float(exact), rel=1e-11)
    assert loss.move(p, X).remainder == 0.0


@pytest.mark.parametrize("order", ["C", "F"])
def test_points_in_any_order_in_memory(order):
    loss = make(True, False, np.float64)
    X = np.random.default_rng(1).standard_normal((N, 3))
    np.testing.assert_array_equal(loss.at(np.asarray(X, order=order)).gradient, loss.at(X).gradient)


def test_a_pass_does_not_disturb_another_of_the_same_loss(monkeypatch):
    """Several runs may share a loss, and go on at the same time."""
    monkeypatch.setattr(passes, "_NEAR", 0)
    loss = make(True, False, np.float64)
    rng = np.random.default_rng(1)
    points = [rng.standard_normal((N, 3)) for _ in range(40)]
    wanted = [loss.at(X).gradient for X in points]
    with ThreadPoolExecutor(4) as pool:
        for found, gradient in zip(pool.map(lambda X: loss.at(X).gradient, points * 5), wanted * 5, strict=True):
            assert np.array_equal(found, gradient)


def test_a_loss_travels_without_the_memory_of_its_passes():
    loss = make(True, False, np.float64)
    X = np.random.default_rng(1).standard_normal((N, 3))
    before = len(pickle.dumps(loss))
    p = loss.at(X)
    other = pickle.loads(pickle.dumps(loss))
    assert len(pickle.dumps(loss)) < before + 3000
    assert other.at(X).value == p.value


class TestOtherLosses:
    """Bounds, raw stress and complete distances: the same bits on two threads."""

    @pytest.fixture(params=["bounds", "stress", "complete"])
    def loss(self, request, monkeypatch):
        monkeypatch.setattr(row_chunks, "_PAIRS_IN_A_CHUNK", 100)
        monkeypatch.setattr(row_chunks, "_PAIRS_FOR_A_ROW", 2)
        rng = np.random.default_rng(0)
        if request.param == "complete":
            P = rng.standard_normal((N, 2))
            return CompleteDistances(np.linalg.norm(P[:, None] - P, axis=2) + np.where(np.eye(N), 0, 0.1))
        pairs = np.column_stack(np.triu_indices(N, 1))
        lower = rng.random(len(pairs))
        if request.param == "stress":
            return RawStress(pairs, lower, weights=rng.random(len(pairs)))
        return BoundedDistances(pairs, lower, lower + rng.random(len(pairs)))

    def passes(self, loss, X, D):
        p, H = loss.at(X), np.empty_like(D)
        move = loss.move(p, X + D)
        new, blocks = loss.linearize(X)
        loss.gauss_newton_product(p, D, H)
        return [p.value, p.gradient, move.remainder, move.point.gradient, new.value, new.gradient, blocks, H]

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_threads_and_chunks(self, loss, dtype, monkeypatch):
        monkeypatch.setattr(threads, "max_threads", lambda: 2)
        monkeypatch.setattr(threads, "_WORTH_A_THREAD", 1)
        monkeypatch.setattr(threads, "_team", threads._Team())
        rng = np.random.default_rng(1)
        X, D = (rng.standard_normal((N, 3)).astype(dtype) for _ in range(2))
        together = self.passes(loss, X, D)
        assert len(loss.pairs.chunks) > 1
        with limited_to(1):
            alone = self.passes(loss, X, D)
        for a, b in zip(together, alone, strict=True):
            assert np.array_equal(a, b)
        monkeypatch.setattr(row_chunks, "_MOST_CHUNKS", 1)
        whole = loss.with_pairs(dataclasses.replace(loss.pairs))
        assert len(whole.pairs.chunks) == 1
        for a, b in zip(together, self.passes(whole, X, D), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=(1e-13 if dtype == np.float64 else 1e-6) * np.abs(b).max())


def test_blocks_of_more_columns_than_a_vector_where_all_distances_are_known():
    rng = np.random.default_rng(0)
    D = np.linalg.norm((P := rng.standard_normal((20, 3)))[:, None] - P, axis=2)
    i, j = np.triu_indices(20, 1)
    X = 5 + rng.standard_normal((20, 40))
    (p, ours), (q, wanted) = (
        loss.linearize(X) for loss in (CompleteDistances(D), Distances(np.column_stack([i, j]), D[i, j] ** 2))
    )
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
    np.testing.assert_allclose(p.gradient, q.gradient, rtol=0, atol=1e-12 * np.abs(q.gradient).max())
