"""Pairs in chunks: every pass is that over all pairs, on two workers and in threads."""

from __future__ import annotations

import numpy as np
import pytest

from quartic import DistanceCompletion, Problem, minimize
from quartic.datasets import helix, pair_distances, random_pairs
from quartic.losses import DaskDistances, Distances

dask = pytest.importorskip("dask", reason='needs pip install "quartic[distributed]"')
distributed = pytest.importorskip("distributed", reason='needs pip install "quartic[distributed]"')

import dask.array as da  # noqa: E402

N = 150
POINTS = helix(N, random_state=0)
PAIRS = np.random.default_rng(3).permutation(random_pairs(N, 0.3, random_state=0))
SQUARED = pair_distances(POINTS, PAIRS) ** 2
WEIGHTS = np.random.default_rng(4).uniform(0.5, 1.5, len(PAIRS))


def chunked(weights=None, pieces=5):
    size = -(-len(PAIRS) // pieces)
    w = None if weights is None else da.from_array(weights, chunks=size)
    return Distances(da.from_array(PAIRS, chunks=(size, 2)), da.from_array(SQUARED, chunks=size + 3), weights=w)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_every_pass_over_chunks_is_that_over_all_pairs(client, weights):
    there, here = chunked(weights), Distances(PAIRS, SQUARED, weights=weights)
    assert len(there.pairs.blocks) == 5
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((2, N, 3))
    p, q = there.at(X), here.at(X)
    close = {"rtol": 1e-11, "atol": 1e-11}
    assert np.allclose(p.value, q.value, **close)
    assert np.allclose(p.gradient, q.gradient, **close)
    a, b = there.move(p, X + 0.1 * D), here.move(q, X + 0.1 * D)
    assert np.allclose([a.point.value, a.remainder], [b.point.value, b.remainder], **close)
    assert np.allclose(a.point.gradient, b.point.gradient, **close)
    a, b = there.along(p, D), here.along(q, D)
    assert np.allclose(a.coefficients, b.coefficients, **close)
    assert np.allclose(a.point(0.3).gradient, b.point(0.3).gradient, **close)
    assert np.allclose(there.hessian_product(p, D), here.hessian_product(q, D), **close)
    (p, A), (q, B) = there.linearize(X), here.linearize(X)
    assert np.allclose(p.gradient, q.gradient, **close)
    assert np.allclose(A, B, **close)
    one, two = np.empty_like(D), np.empty_like(D)
    there.gauss_newton_product(p, D, one)
    here.gauss_newton_product(q, D, two)
    assert np.allclose(one, two, **close)
    assert abs(there.gauss_newton_matrix(p) - here.gauss_newton_matrix(q)).max() <= 1e-10
    assert np.allclose(there.quartic(p, D), here.quartic(q, D), **close)
    for name in ("smoothness", "gradient_norm_at_zero", "value_at_zero", "gradient_scale", "n_pairs", "n_points"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-12)


@pytest.mark.parametrize(
    ("solver", "where"),
    [*((name, "threads") for name in ("lm", "inertial", "ncg", "tr", "gd", "lbfgs")), ("lm", "cluster")],
)
def test_twenty_iterations_over_chunks_are_those_over_all_pairs(request, solver, where):
    if where == "cluster":
        request.getfixturevalue("client")
    start = np.random.default_rng(5).standard_normal((N, 3))
    there, here = (
        minimize(Problem(loss), start, solver=solver, tol=0, max_iter=20)
        for loss in (chunked(), Distances(PAIRS, SQUARED))
    )
    assert np.abs(there.X - here.X).max() <= 1e-10 * np.abs(here.X).max()


def test_sums_are_the_same_bits_in_threads_and_on_workers(cluster):
    X = np.random.default_rng(0).standard_normal((N, 3))
    off = chunked(pieces=7).at(X)
    with distributed.Client(cluster):
        on = chunked(pieces=7).at(X)
    assert on.value == off.value
    assert np.array_equal(on.gradient, off.gradient)


def test_a_dataframe_of_pairs():
    dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"w": WEIGHTS, "i": PAIRS[:, 0], "j": PAIRS[:, 1], "d2": SQUARED})
    frame = dd.from_pandas(table, npartitions=3)
    X = np.random.default_rng(0).standard_normal((N, 3))
    here = Distances(PAIRS, SQUARED, weights=WEIGHTS)
    there = DaskDistances(frame, "d2", weights="w", ends=("i", "j"))
    assert there.value(X) == pytest.approx(here.value(X), rel=1e-13)
    also = Distances(frame[["i", "j", "d2"]], frame["d2"], weights=frame["w"])
    assert also.value(X) == pytest.approx(here.value(X), rel=1e-13)
    with pytest.raises(ValueError, match="no column 'd3'; it has"):
        DaskDistances(frame, "d3")


def test_empty_chunks_do_no_harm():
    frame = da.concatenate([da.from_array(PAIRS, chunks=(900, 2)), da.zeros((0, 2), dtype=int)])
    values = da.concatenate([da.from_array(SQUARED, chunks=900), da.zeros(0)])
    X = np.random.default_rng(0).standard_normal((N, 3))
    assert Distances(frame, values).value(X) == pytest.approx(Distances(PAIRS, SQUARED).value(X), rel=1e-13)


def test_faulty_chunks_are_named():
    size = 500
    bad = SQUARED.copy()
    bad[size + 7] = -1.0
    with pytest.raises(ValueError, match=r"chunk 1: squared\[7\] = -1.0 is negative"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), bad)
    again = np.vstack([PAIRS, PAIRS[:50, ::-1]])
    with pytest.raises(ValueError, match="stands in more than one chunk"):
        Distances(da.from_array(again, chunks=(size, 2)), np.concatenate([SQUARED, SQUARED[:50]]))
    with pytest.raises(ValueError, match="outside the 10 points"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), SQUARED, n_points=10)
    with pytest.raises(ValueError, match=r"shape \(m, 2\)"):
        Distances(da.ones((4, 3)), SQUARED)
    with pytest.raises(ValueError, match="one number for each pair"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), SQUARED[:-1])


def test_distance_completion_of_chunks(client):
    points = helix(400, random_state=0)
    pairs = random_pairs(400, 0.4, random_state=0)  # 160 a point: thinned to begin with
    d = pair_distances(points, pairs)
    size = 7000
    model = DistanceCompletion(3, random_state=0, align_to=points)
    model.fit_pairs(da.from_array(pairs, chunks=(size, 2)), da.from_array(d, chunks=size))
    assert "minimised over all" in model.start_
    assert model.rmse_ < 1e-7
    assert model.determined_.all()
    assert np.abs(model.embedding_ - points).max() < 1e-6
    known = {k: points[k] for k in range(5)}
    held = DistanceCompletion(3, random_state=0)
    held.fit_pairs(da.from_array(pairs, chunks=(size, 2)), da.from_array(d, chunks=size), anchors=known)
    assert np.abs(held.embedding_ - points).max() < 1e-6
    with pytest.raises(TypeError, match="bounds, refine and robust are for pairs in memory"):
        DistanceCompletion(3).fit_pairs(da.from_array(pairs, chunks=(size, 2)), d, lower=d)
