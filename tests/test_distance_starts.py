"""Starts from partial distances: exact where they must be, close where they can be, components apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from quartic import DistanceCompletion, Problem, datasets, minimize
from quartic.datasets import pair_distances, random_pairs
from quartic.distance import framework, moves, patches
from quartic.distance.component import Component, Search, Settings
from quartic.distance.patches import register, start_from_patches
from quartic.init import classical_mds, eigenmap_start, shortest_path_start
from quartic.init.distances import distance_graph, place_apart, smallest_eigenvectors
from quartic.init.relaxed import relaxing_helps, sampled_start
from quartic.losses import Distances
from quartic.metrics import align
from quartic.penalties import L1, Nonnegative, NonnegativeL1, Separable

STARTS = [
    shortest_path_start,
    lambda *args, **kwargs: shortest_path_start(*args, **kwargs, n_landmarks=None),
    eigenmap_start,
]
NAMES = ["landmarks", "all paths", "eigenmap"]


def aligned_error(Y, X):
    """Root mean square distance after the best rigid motion, relative to the extent of X."""
    return np.linalg.norm(align(Y, X) - X) / np.linalg.norm(X - X.mean(axis=0))


def sensor_field(n, degree, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    radius = np.sqrt(degree / n / np.pi) if d == 2 else (degree / n * 0.75 / np.pi) ** (1 / 3)
    pairs = cKDTree(X).query_pairs(radius, output_type="ndarray")
    return pairs, pair_distances(X, pairs), X


# Classical scaling


@pytest.mark.parametrize("n", [1, 2, 3, 40, 300])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_classical_mds_is_exact_for_euclidean_distances(n, d):
    X = np.random.default_rng(n).standard_normal((n, d))
    D = cdist(X, X)
    Y = classical_mds(D, d)
    assert Y.shape == (n, d)
    np.testing.assert_allclose(cdist(Y, Y), D, atol=1e-7)  # square roots of eigenvalues exact to 1e-15
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-9)


def test_classical_mds_equals_the_dense_eigenproblem():
    D = np.abs(np.random.default_rng(0).standard_normal((400, 400)))
    D = D + D.T
    np.fill_diagonal(D, 0)
    centring = np.eye(400) - 1 / 400
    values, vectors = scipy.linalg.eigh(-0.5 * centring @ D**2 @ centring)
    expected = vectors[:, -3:] * np.sqrt(values[-3:])
    Y = classical_mds(D, 3)
    np.testing.assert_allclose(Y @ Y.T, expected @ expected.T, atol=1e-6 * np.abs(expected).max() ** 2)
    np.testing.assert_array_equal(classical_mds(D, 3), Y)


def test_classical_mds_leaves_missing_dimensions_at_zero():
    x = np.arange(200.0)
    Y = classical_mds(np.abs(x[:, None] - x), 3)
    assert np.abs(Y[:, 1:]).max() < 1e-3
    np.testing.assert_allclose(np.abs(np.diff(Y[:, 0])), 1.0, atol=1e-8)


def test_classical_mds_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="square"):
        classical_mds(np.ones((2, 3)), 2)
    with pytest.raises(ValueError, match=r"D\[0, 1\] is nan"):
        classical_mds(np.array([[0.0, np.nan], [1.0, 0.0]]), 2)
    with pytest.raises(ValueError, match="n_components"):
        classical_mds(np.zeros((2, 2)), 0)


# Shortest paths


@pytest.mark.parametrize("n_landmarks", [10, None])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_all_distances_known_gives_the_points_back(d, n_landmarks):
    X = np.random.default_rng(1).standard_normal((60, d))
    pairs = np.column_stack(np.triu_indices(60, 1))
    Y = shortest_path_start(pairs, cdist(X, X)[pairs[:, 0], pairs[:, 1]], 60, d, n_landmarks=n_landmarks)
    np.testing.assert_allclose(cdist(Y, Y), cdist(X, X), atol=1e-6)


@pytest.mark.parametrize(("d", "tolerance"), [(2, 0.06), (3, 0.15)])
def test_a_sensor_field_is_nearly_recovered(d, tolerance):
    pairs, distances, X = sensor_field(1500, 22, d, seed=5)
    full = aligned_error(shortest_path_start(pairs, distances, 1500, d, n_landmarks=None), X)
    landmarks = aligned_error(shortest_path_start(pairs, distances, 1500, d), X)
    assert full < tolerance
    assert landmarks < 1.3 * full + 0.01


def test_landmarks_lie_apart():
    from quartic.init.distances import _landmark_paths

    pairs, distances, _ = sensor_field(400, 20, 2)
    graph = distance_graph(pairs, distances, 400)
    landmarks, paths = _landmark_paths(graph, 12, np.random.default_rng(0))
    everything = dijkstra(graph, directed=False)
    np.testing.assert_allclose(paths, everything[landmarks])
    for k in range(1, 12):
        nearest = everything[landmarks[:k]].min(axis=0)
        assert nearest[landmarks[k]] == pytest.approx(nearest.max())


# Eigenmaps


@pytest.mark.parametrize("way", ["dense", "factors", "iteration"])
def test_eigenvectors_are_those_of_the_laplacian(way, monkeypatch):
    from quartic.init import distances as eigenmap

    # A strip, so that the smallest eigenvalues lie apart.
    pairs, distances, X = sensor_field(500, 22, 2)
    keep = (X[:, 1] < 0.55)[pairs].all(axis=1)
    graph = distance_graph(pairs[keep], distances[keep], 500)
    inside = np.flatnonzero(X[:, 1] < 0.55)
    graph = graph[inside][:, inside]
    monkeypatch.setattr(eigenmap, "DENSE_LIMIT", 10_000 if way == "dense" else 0)
    if way == "iteration":
        monkeypatch.setattr(eigenmap, "elimination_is_cheap", lambda adjacency, d: False)
    U = smallest_eigenvectors(graph, 2, np.random.default_rng(0))
    W = (graph.toarray() > 0) * 1.0
    _, V = scipy.linalg.eigh(np.diag(W.sum(axis=1)) - W)
    overlap = np.linalg.svd(U.T @ V[:, 1:3])[1]
    assert overlap.min() > 1 - 1e-5


@pytest.mark.parametrize("d", [2, 3])
def test_eigenmap_keeps_the_shape_of_a_sensor_field(d):
    pairs, distances, X = sensor_field(1500, 24, d, seed=5)
    Y = eigenmap_start(pairs, distances, 1500, d)
    assert aligned_error(Y, X) < 0.4  # the rim is drawn in; a random start has 1.4 or so
    fitted = np.sum((Y[pairs[:, 0]] - Y[pairs[:, 1]]) ** 2, axis=1)
    # The scale is the best one: no common factor improves the fit of squared distances.
    assert np.sum(fitted * distances**2) / np.sum(fitted**2) == pytest.approx(1.0, rel=1e-9)


def test_eigenmap_keeps_the_scale_where_the_fit_has_to_be_cut():
    from quartic.init.distances import _fitted

    # A line has no second dimension: the fitted M has rank one, and the second direction is kept small but not lost.
    rng = np.random.default_rng(0)
    x, noise = rng.random(60), rng.standard_normal(60)
    pairs = np.array([(i, j) for i in range(60) for j in range(i)])
    distances = np.abs(x[pairs[:, 0]] - x[pairs[:, 1]])
    Y = _fitted(np.column_stack([x, noise]), distance_graph(pairs, distances, 60), 2, rng)
    fitted = np.sum((Y[pairs[:, 0]] - Y[pairs[:, 1]]) ** 2, axis=1)
    assert np.sum(fitted * distances**2) / np.sum(fitted**2) == pytest.approx(1.0, rel=1e-6)
    assert (np.ptp(Y, axis=0) > 0.1).all()


# Common to all


def test_of_a_repeated_pair_the_shortest_distance_counts():
    pairs = np.array([[0, 1], [1, 0], [0, 1], [1, 2], [2, 2]])
    graph = distance_graph(pairs, np.array([3.0, 2.0, 5.0, 1.0, 7.0]), 3).toarray()
    np.testing.assert_array_equal(graph, [[0, 2, 0], [2, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize("start", STARTS, ids=NAMES)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_components_come_back_apart(start, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, d))
    within = [(i, j) for i in range(30) for j in range(i) if (i < 12) == (j < 12) and i < 22]
    pairs = np.array(within)
    distances = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    Y = start(pairs, distances, 30, d, random_state=0)
    labels = np.array([0] * 12 + [1] * 10 + list(range(2, 10)))
    assert np.isfinite(Y).all()
    D = cdist(Y, Y)
    assert D[labels[:, None] != labels].min() > 0.99 * distances.mean()
    boxes = [(Y[labels == k].min(axis=0), Y[labels == k].max(axis=0)) for k in range(10)]
    for a in range(10):
        for b in range(a):
            assert ((boxes[a][0] > boxes[b][1]) | (boxes[b][0] > boxes[a][1])).any()


@pytest.mark.parametrize("start", STARTS, ids=NAMES)
def test_odd_input_still_gives_a_start(start):
    assert start(np.empty((0, 2), dtype=int), np.empty(0), 3, 2).shape == (3, 2)
    assert start(np.empty((0, 2), dtype=int), np.empty(0), 0, 2).shape == (0, 2)
    two = start(np.array([[0, 1]]), np.array([3.0]), 2, 3)
    assert np.linalg.norm(two[0] - two[1]) == pytest.approx(3.0)
    # Zero distances, a pair given twice, distances that break the triangle inequality.
    odd = start(np.array([[0, 1], [1, 0], [1, 2], [0, 2], [2, 3]]), np.array([0.0, 0.0, 1.0, 9.0, 1.0]), 4, 2)
    assert np.isfinite(odd).all()
    zero = start(np.array([[0, 1], [1, 2]]), np.zeros(2), 3, 2)
    assert np.isfinite(zero).all()


@pytest.mark.parametrize("start", STARTS, ids=NAMES)
def test_scale_and_seed(start):
    pairs, distances, _ = sensor_field(500, 20, 2, seed=2)
    one = start(pairs, distances, 500, 2, random_state=3)
    np.testing.assert_array_equal(start(pairs, distances, 500, 2, random_state=3), one)
    scaled = start(pairs, 1e6 * distances, 500, 2, random_state=3)
    np.testing.assert_allclose(scaled, 1e6 * one, atol=1e-5 * np.abs(scaled).max())


@pytest.mark.parametrize("start", STARTS, ids=NAMES)
@pytest.mark.parametrize(
    ("pairs", "distances", "words"),
    [
        ([[0, 5]], [1.0], r"pairs\[0\] = \[0, 5\] is outside the 3 points"),
        ([[0, 1]], [-1.0], r"distances\[0\] = -1.0 is negative"),
        ([[0, 1]], [np.nan], r"distances\[0\] is nan"),
        ([[0, 1]], [1.0, 2.0], "one number for each pair"),
        ([[0.5, 1.0]], [1.0], "integer indices"),
    ],
)
def test_bad_input_is_named(start, pairs, distances, words):
    with pytest.raises((TypeError, ValueError), match=words):
        start(np.array(pairs), np.array(distances), 3, 2)


def test_too_few_landmarks():
    with pytest.raises(ValueError, match="n_landmarks must be more than n_components"):
        shortest_path_start(np.array([[0, 1]]), np.ones(1), 2, 3, n_landmarks=3)


def test_many_single_points_are_laid_out_in_a_square_not_a_line():
    Y = place_apart(np.zeros((400, 2)), np.arange(400), gap=1.0)
    assert len(np.unique(Y, axis=0)) == 400
    assert np.ptp(Y, axis=0).max() <= 21


def test_bandwidth_tells_local_from_random():
    pairs, distances, _ = sensor_field(2000, 15, 2)
    assert framework.elimination_is_cheap(distance_graph(pairs, distances, 2000), 2)
    random = np.random.default_rng(0).integers(0, 2000, size=(15_000, 2))
    assert not framework.elimination_is_cheap(distance_graph(random, np.ones(15_000), 2000), 2)


# Patches


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(("wrong", "tolerance"), [(False, 1e-9), (True, 1e-3)])
def test_patches_in_any_frames_are_put_together(d, wrong, tolerance):
    rng = np.random.default_rng(d)
    X = rng.random((300, d))
    members = [np.flatnonzero(np.linalg.norm(X - c, axis=1) < 0.45) for c in rng.random((40, d))]
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in members]  # about half of them reflect
    places = [X[at] @ Q + rng.standard_normal(d) for at, Q in zip(members, turns, strict=True)]
    if wrong:
        places[3] = rng.random(places[3].shape)  # a whole patch
        places[7][:3] += 0.3  # and some points of another
    patch = np.repeat(np.arange(len(members)), [len(at) for at in members])
    found = register(np.concatenate(members), patch, np.concatenate(places), 301, 1e-7)
    inside = np.isin(np.arange(301), np.concatenate(members))
    assert np.array_equal(np.isfinite(found[:, 0]), inside)
    assert inside.sum() > 250
    sure = np.isin(np.arange(300), np.concatenate([at for k, at in enumerate(members) if k not in (3, 7)]))
    assert aligned_error(found[:300][sure], X[sure]) < tolerance


@pytest.mark.filterwarnings("ignore::quartic.estimators.UndeterminedWarning")  # a point at the rim may hang on two
@pytest.mark.parametrize("shape", ["square", "c"])
def test_a_field_is_found_from_patches(shape):
    field = datasets.sensor_field(1500, 20, shape=shape, random_state=1)
    model = DistanceCompletion(2, init="patches", random_state=0).fit_pairs(field.pairs, field.distances)
    assert model.determined_.sum() > 1490
    assert aligned_error(model.embedding_[model.determined_], field.coordinates[model.determined_]) < 1e-6


def test_points_that_patches_have_wrong_are_placed_by_their_neighbours(monkeypatch):
    pairs, distances, X = sensor_field(900, 20, 2)
    component = Component(900, np.sort(pairs, axis=1), *[distances] * 3, None)
    search = Search(component, Settings(2), np.random.default_rng(0))
    register = patches.register

    def with_strays(*given):
        Y = register(*given)
        Y[[7, 300, 301, 800]] += [3.0, -2.0]
        return Y

    monkeypatch.setattr(patches, "register", with_strays)
    assert aligned_error(start_from_patches(search, 2), X) < 1e-5


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
def test_patches_may_be_solved_in_other_processes(monkeypatch):
    pairs, distances, _ = sensor_field(700, 20, 2)
    monkeypatch.setattr(patches, "_IN_PROCESSES", 0)
    here, there = (
        DistanceCompletion(2, init="patches", random_state=0, n_jobs=n_jobs).fit_pairs(pairs, distances)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(here.embedding_, there.embedding_)
    assert here.n_iter_ == there.n_iter_


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_time_for_patches_still_gives_points():
    field = datasets.sensor_field(800, 12, random_state=0)
    model = DistanceCompletion(2, init="patches", max_time=1e-3, random_state=0)
    assert np.isfinite(model.fit_pairs(field.pairs, field.distances).embedding_).all()


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_points_that_no_patch_holds_are_placed_by_their_neighbours():
    """A chain has no patch of enough distances, and a tail hangs on a field."""
    chain = np.column_stack([np.arange(40), np.arange(1, 41)])
    model = DistanceCompletion(2, init="patches", random_state=0).fit_pairs(chain, np.ones(40))
    assert model.rmse_ < 1e-6
    field = datasets.sensor_field(300, 14, random_state=0)
    pairs = np.concatenate([field.pairs, [[0, 300], [300, 301], [301, 302]]])
    distances = np.concatenate([field.distances, [0.1, 0.2, 0.1]])
    model = DistanceCompletion(2, init="patches", random_state=0).fit_pairs(pairs, distances)
    assert model.rmse_ < 1e-6


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")  # noise breaks triangles
@pytest.mark.parametrize(("seed", "noise"), [(100, 0.1), (105, 0.1), (105, None)])
def test_a_folded_start_is_mended_though_noise_would_explain_it(seed, noise):
    """Of points on a circle, most of whose links go to a few hubs, the first start folds some over."""
    rng = np.random.default_rng(seed)
    n, hubs = 200, 12
    angle = rng.uniform(0, 2 * np.pi, n)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    pairs = random_pairs(n, 6 / (n - 1), rng)
    to_hubs = np.column_stack([np.repeat(np.arange(hubs, n), 6), rng.integers(hubs, size=6 * (n - hubs))])
    pairs = np.unique(np.sort(np.concatenate([pairs, to_hubs]), axis=1), axis=0)
    d = np.abs(pair_distances(truth, pairs) + 0.1 * rng.standard_normal(len(pairs)))
    lowest = minimize(Problem(Distances(pairs, d**2, n)), truth, tol=1e-8).objective
    model = DistanceCompletion(2, noise=noise, random_state=0).fit_pairs(pairs, d)
    assert model.result_.objective <= (1 + 1e-9) * lowest


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
@pytest.mark.parametrize("noise", [None, 0.1])
@pytest.mark.parametrize(("share", "times"), [(0.06, 3), (0.03, 10)])
def test_under_noise_a_well_linked_graph_takes_two_runs_and_no_more(share, times, noise):
    """Few pairs take the second run through more dimensions."""
    n = 1000
    pairs = random_pairs(n, share, random_state=0)
    d = pair_distances(np.random.default_rng(0).standard_normal((n, 3)), pairs)
    d = np.abs(d + 0.1 * np.random.default_rng(1).standard_normal(len(d)))
    alone = minimize(Problem(Distances(pairs, d**2, n)), rank=3, tol=1e-8, random_state=0)
    model = DistanceCompletion(noise=noise, random_state=0).fit_pairs(pairs, d)
    assert model.result_.objective <= (1 + 1e-9) * alone.objective
    assert model.determined_.all()
    assert model.result_.n_products <= times * alone.n_products
    assert model.start_.count(";") == 1, model.start_  # a start, and another


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
def test_starts_that_agree_do_not_account_for_more_noise_than_is_said():
    pairs = random_pairs(105, 0.5, random_state=0)
    d = pair_distances(np.random.default_rng(0).standard_normal((105, 3)), pairs)
    d = np.abs(d + 0.1 * np.random.default_rng(1).standard_normal(len(d)))
    for noise in (0.05, 0.1):
        model = DistanceCompletion(noise=noise, random_state=0).fit_pairs(pairs, d)
        assert model.determined_.all() == (noise == 0.1)


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")  # noise breaks triangles
def test_large_local_graphs_start_from_patches_and_hold_their_anchors():
    field = datasets.sensor_field(3500, 18, shape="c", n_anchors=40, noise=0.05, random_state=2)
    model = DistanceCompletion(2, random_state=0).fit_pairs(field.pairs, field.distances, anchors=field.anchors)
    assert model.start_.startswith("overlapping patches, registered")
    error = np.linalg.norm(model.embedding_ - field.coordinates, axis=1)
    assert not error[list(field.anchors)].any()
    assert np.median(error) < 0.05 * field.distances.max()


# Branch and prune


def chain_with_intervals(n, seed):
    """A random chain in space: neighbours of first and second order exact, other near pairs within intervals."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((n, 3)) + np.array([0.3, 0.0, 0.0])
    X = np.cumsum(steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
    pairs = cKDTree(X).query_pairs(2.5, output_type="ndarray")
    d = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    room = np.where(pairs[:, 1] - pairs[:, 0] <= 2, 0.0, 0.1 * rng.random(len(d)))
    return Component(n, pairs, d - room, d + 0.1 * (room > 0), d, None)


@pytest.mark.parametrize("seed", range(3))
def test_points_built_up_one_at_a_time_meet_their_bounds(seed):
    component = chain_with_intervals(50, seed)
    search = Search(component, Settings(3), np.random.default_rng(seed))
    assert moves.build_up(search)
    assert component.are_nearly_met(component.errors(search.X))


def test_places_are_those_at_the_distances_asked_for():
    rng = np.random.default_rng(0)
    Y, truth = rng.standard_normal((2, 1, 4, 3)), rng.standard_normal((2, 5, 3))
    squares = np.sum((truth[:, :, None] - Y) ** 2, axis=3)
    d = np.sqrt(squares)
    found, _ = moves.fit_places(truth + 0.1 * rng.standard_normal(truth.shape), Y, d, d)
    np.testing.assert_allclose(found, truth, atol=1e-6)


def test_one_bound_that_is_broken_is_seen_among_thousands():
    rng = np.random.default_rng(0)
    X, pairs = rng.random((60, 3)), np.column_stack(np.triu_indices(60, 1))
    d = pair_distances(X, pairs)
    component = Component(60, pairs, d - 0.01, d + 0.01, d, None)
    assert component.are_met(component.errors(X))
    component.lower[5] = d[5] + 1e-4
    assert component.are_nearly_met(component.errors(X))
    assert not component.are_met(component.errors(X))


def test_points_that_hang_on_nothing_are_not_built_up():
    component = Component(5, np.array([[0, 1], [2, 3], [3, 4]]), np.ones(3), np.full(3, 2.0), np.full(3, 1.5), None)
    search = Search(component, Settings(2), np.random.default_rng(0))
    assert not moves.build_up(search)
    assert search.best is None


def cloud(n, degree, seed, weights=False):
    rng = np.random.default_rng(seed)
    P, pairs = rng.random((n, 3)), random_pairs(n, degree / (n - 1), random_state=seed)
    w = rng.uniform(0.5, 2.0, len(pairs)) if weights else None
    return P, pairs, pair_distances(P, pairs) ** 2, w


@pytest.mark.parametrize("weights", [False, True])
def test_the_centred_distances_of_random_pairs(weights):
    _, pairs, squared, w = cloud(60, 15, 0, weights)
    W, d = np.zeros((60, 60)), np.zeros((60, 60))
    i, j = pairs.T
    W[i, j] = W[j, i] = 1.0 if w is None else w / w.mean()
    d[i, j] = d[j, i] = squared
    mean = (W * d).sum(axis=1) / W.sum(axis=1)
    B = -0.5 * W * (d - mean[:, None] - mean + (W * d).sum() / len(pairs) / 2)
    V = np.random.default_rng(1).standard_normal((60, 4))
    product, noise = Distances(pairs, squared, 60, w).pairs.centred()
    np.testing.assert_allclose(product(V), B @ V, atol=1e-12)
    np.testing.assert_allclose(noise, 2 * np.sqrt((B**2).sum() / 60))


@pytest.mark.parametrize("degree", [28, 40])
def test_random_pairs_are_started_from_their_eigenvectors(degree):
    """Three random starts of these end in local minima, or take three times as many passes."""
    _, pairs, squared, _ = cloud(2000, degree, degree)
    problem = Problem(Distances(pairs, squared))
    for seed in range(3):
        assert sampled_start(problem, 3, np.random.default_rng(seed)) is not None
        result = minimize(problem, rank=3, tol=1e-8, random_state=seed)
        assert result.objective < 1e-9
        assert result.n_products < 80


@pytest.mark.parametrize("penalty", [Nonnegative(), NonnegativeL1(0.1), L1(0.1), Separable(True)])
def test_few_distances_start_within_the_penalty(penalty):
    """More columns first, turned and cut, would leave X ≥ 0, where alone these penalties are finite."""
    truth, pairs = np.random.default_rng(0).random((150, 2)), random_pairs(150, 0.05, random_state=0)
    loss = Distances(pairs, pair_distances(truth, pairs) ** 2, 150)
    assert relaxing_helps(Problem(loss))
    result = minimize(Problem(loss, penalty), rank=2, random_state=0, max_iter=20)
    assert np.isfinite(result.history.objective).all()
    assert result.objective < result.history.objective[0]


def test_what_is_no_sample_of_all_pairs_has_no_such_start():
    P = np.random.default_rng(0).random((1000, 2))
    near = cKDTree(P).query_pairs(0.09, output_type="ndarray")
    assert 12 < 2 * len(near) / 1000 < 48
    assert (
        sampled_start(Problem(Distances(near, pair_distances(P, near) ** 2, 1000)), 2, np.random.default_rng(0)) is None
    )
    _, pairs, squared, _ = cloud(1000, 14, 0)  # eigenvectors of so few are noise
    assert sampled_start(Problem(Distances(pairs, squared, 1000)), 3, np.random.default_rng(0)) is None
