"""DistanceCompletion: answers against the truth, honest accounts, and errors that say what is wrong."""

import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from quartic import DistanceCompletion
from quartic.datasets import (
    DatasetNotFound,
    helix,
    load_points,
    load_sensor_field,
    pair_distances,
    pairs_within,
    protein,
    random_pairs,
    sensor_field,
)
from quartic.estimators import (
    DistanceWarning,
    DuplicateWarning,
    FlatWarning,
    InconsistentWarning,
    MisfitWarning,
    UndeterminedWarning,
)
from quartic.metrics import align, normalized_rmse, rmsd
from quartic.rigidity import assess


def points(n=60, r=3, seed=0):
    return np.random.default_rng(seed).random((n, r))


def partial(X, share=0.5, seed=0):
    """Return D with NaN where unknown."""
    D = squareform(pdist(X))
    i, j = random_pairs(len(X), 1 - share, random_state=seed).T
    D[i, j] = D[j, i] = np.nan
    return D


def or_skip(load, *args):
    try:
        return load(*args)
    except DatasetNotFound as missing:
        pytest.skip(str(missing))


# -- one answer, whatever the form of the data ----------------------------------------------------------------------


def test_matrix_sparse_and_pairs_give_the_same_points():
    X = points()
    D = partial(X)
    known = ~np.isnan(D)
    sparse = sp.csr_array(np.where(known, D, 0.0))
    i, j = np.nonzero(np.triu(known, 1))
    models = [
        DistanceCompletion(random_state=0).fit(D),
        DistanceCompletion(random_state=0).fit(sparse),
        DistanceCompletion(random_state=0).fit(sp.triu(sparse)),
        DistanceCompletion(random_state=0).fit_pairs(np.column_stack([j, i]), D[i, j]),
    ]
    for model in models:
        np.testing.assert_array_equal(model.embedding_, models[0].embedding_)
        assert model.rmse_ < 1e-8
        assert model.determined_.all()
        assert normalized_rmse(model.embedding_, X) < 1e-8
    full = models[0].distances()
    np.testing.assert_allclose(full, squareform(pdist(X)), atol=1e-7)
    np.testing.assert_allclose(models[0].distances([[0, 1], [5, 2]]), full[[0, 5], [1, 2]])
    assert models[0].score(D) == pytest.approx(-models[0].rmse_)
    assert models[0].score(np.asarray(full)) == pytest.approx(0, abs=1e-8)


def test_frame_is_centred_principal_and_deterministic():
    X = points(seed=3) * [3.0, 2.0, 1.0]
    a = DistanceCompletion(random_state=0).fit(partial(X)).embedding_
    b = DistanceCompletion(random_state=1).fit(partial(X)).embedding_
    np.testing.assert_allclose(a.mean(axis=0), 0, atol=1e-12)
    S = a.T @ a
    np.testing.assert_allclose(S, np.diag(np.diag(S)), atol=1e-9 * S[0, 0])
    assert (np.diff(np.diag(S)) < 0).all()
    assert (a[np.abs(a).argmax(axis=0), range(3)] > 0).all()
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_same_seed_same_answer_whatever_the_jobs():
    D = partial(points(40))
    runs = [DistanceCompletion(init="random", n_init=3, n_jobs=k, random_state=5).fit(D) for k in (None, 2)]
    np.testing.assert_array_equal(runs[0].embedding_, runs[1].embedding_)


@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")  # a random start may end anywhere
@pytest.mark.parametrize("init", ["random", "mds", "landmark", "eigenmap", "relaxed", "auto"])
def test_every_start_reaches_the_answer_on_easy_data(init):
    X = points(150, 2, seed=1)
    pairs = pairs_within(X, 0.45)
    model = DistanceCompletion(2, init=init, random_state=0).fit_pairs(pairs, pair_distances(X, pairs))
    if init in ("random", "eigenmap"):  # nothing is promised but a stationary point
        assert model.result_.success
    else:
        assert normalized_rmse(model.embedding_, X) < 1e-8
    assert model.start_


@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")
@pytest.mark.parametrize("solver", ["lm", "ncg", "lbfgs", "dyn-nolips"])
def test_solvers(solver):
    X = helix(80, random_state=0)
    pairs = random_pairs(80, 0.5, random_state=0)
    model = DistanceCompletion(solver=solver, random_state=0).fit_pairs(pairs, pair_distances(X, pairs))
    assert normalized_rmse(model.embedding_, X) < 1e-6


def test_a_start_that_is_given():
    X = points(30)
    model = DistanceCompletion(init=X + 0.01, random_state=0).fit(partial(X))
    assert model.rmse_ < 1e-8
    with pytest.raises(ValueError, match="init must have one row"):
        DistanceCompletion(init=X[:5]).fit(partial(X))


def test_complete_distances_and_features():
    X = points(50, 5, seed=2)
    with pytest.warns(FlatWarning, match="5 dimensions"):
        exact = DistanceCompletion(7, random_state=0).fit(squareform(pdist(X)))
    assert normalized_rmse(exact.embedding_, X) < 1e-7
    model = DistanceCompletion(2, metric="euclidean", random_state=0).fit(X)
    assert model.embedding_.shape == (50, 2)
    # no worse than the principal components, the classical answer
    Y = X - X.mean(axis=0)
    principal = Y @ np.linalg.svd(Y)[2][:2].T
    i, j = np.triu_indices(50, 1)

    def loss(Z):
        return np.sum((np.sum((Z[i] - Z[j]) ** 2, axis=1) - np.sum((X[i] - X[j]) ** 2, axis=1)) ** 2)

    assert loss(model.embedding_) < loss(principal)


def test_large_complete_matrices_are_read_in_place():
    """The answer is that of the list of pairs, and nothing of the size of the matrix is made on the way."""
    rng = np.random.default_rng(0)
    X = rng.random((450, 3))
    D = squareform(pdist(X) * (1 + 0.02 * rng.standard_normal(450 * 449 // 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentWarning)
        model = DistanceCompletion(random_state=0).fit(D)
        i, j = np.triu_indices(450, 1)
        listed = DistanceCompletion(random_state=0).fit_pairs(np.column_stack([i, j]), D[i, j])
    np.testing.assert_allclose(align(model.embedding_, listed.embedding_), listed.embedding_, atol=1e-6)
    assert model.rmse_ == pytest.approx(listed.rmse_, rel=1e-6)
    assert model.determined_.all()
    big = squareform(pdist(rng.random((2000, 2))))
    DistanceCompletion(2, random_state=0).fit(big[:500, :500])  # compile, so that only data are counted below
    tracemalloc.start()
    exact = DistanceCompletion(2, random_state=0).fit(big)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert exact.rmse_ < 1e-8
    assert peak < 5 * big.nbytes  # a block of 32 MB and a few copies of it, checked against the list of pairs' 200 MB


# -- local graphs: where random starts fail -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degree", "shape", "seed"), [(14, "square", 0), (14, "square", 2), (20, "c", 2), (20, "c", 3)]
)
def test_sensor_fields_to_machine_precision(degree, shape, seed):
    field = sensor_field(1000, degree, shape=shape, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeterminedWarning)
        model = DistanceCompletion(2, random_state=0).fit_pairs(field.pairs, field.distances, n_points=1000)
    sure = model.determined_
    assert sure.mean() > 0.95
    error = align(model.embedding_[sure], field.coordinates[sure]) - field.coordinates[sure]
    assert np.abs(error).max() < 1e-6


def test_auto_says_what_it_did_and_goes_on_where_the_first_start_fails():
    field = sensor_field(1000, 14, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeterminedWarning)
        first = DistanceCompletion(2, init="landmark", random_state=0).fit_pairs(field.pairs, field.distances)
        model = DistanceCompletion(2, random_state=0).fit_pairs(field.pairs, field.distances)
    assert "landmarks" in model.start_
    assert model.result_.objective <= max(first.result_.objective, 1e-16)
    if first.rmse_ > 1e-6:
        assert "more dimensions" in model.start_
        assert model.rmse_ < 1e-8


def test_protein():
    X = or_skip(protein, "1ptq").coordinates
    pairs = pairs_within(X, 6.0)
    model = DistanceCompletion(random_state=0).fit_pairs(pairs, pair_distances(X, pairs))
    assert np.mean(np.linalg.norm(align(model.embedding_, X) - X, axis=1) < 0.05) >= 0.998
    noisy = pair_distances(X, pairs) * (1 + 0.02 * np.random.default_rng(0).standard_normal(len(pairs)))
    with pytest.warns(InconsistentWarning, match="triangle"):
        model = DistanceCompletion(random_state=0).fit_pairs(pairs, noisy)
    assert rmsd(model.embedding_, X) < 1


# -- anchors, bounds, weights ---------------------------------------------------------------------------------------


def test_anchors_stay_exactly_there():
    X = points(60, 2) + 100
    anchors = {k: X[k] for k in (4, 17, 33)}
    model = DistanceCompletion(2, random_state=0).fit(partial(X), anchors=anchors)
    for k, place in anchors.items():
        np.testing.assert_array_equal(model.embedding_[k], place)
    np.testing.assert_allclose(model.embedding_, X, atol=1e-6)
    assert model.chirality_ == "the anchors decide"


def test_anchors_alone_place_a_point():
    """No distance between the anchors is given: their places say it."""
    anchors = {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [0.0, 1.0]}
    d = np.linalg.norm(np.array(list(anchors.values())) - [0.3, 0.4], axis=1)
    model = DistanceCompletion(2, random_state=0).fit_pairs([[0, 3], [1, 3], [2, 3]], d, anchors=anchors)
    np.testing.assert_allclose(model.embedding_[3], [0.3, 0.4], atol=1e-7)
    assert model.determined_.all()


@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")
def test_anchors_that_contradict_distances_are_kept_with_a_warning():
    X = points(20, 2)
    places = {0: X[0], 1: X[1] + 0.1, 2: X[2]}
    D = squareform(pdist(X))
    with pytest.warns(InconsistentWarning, match="distances between anchors"):
        model = DistanceCompletion(2, random_state=0).fit(D, anchors=places)
    np.testing.assert_array_equal(model.embedding_[1], places[1])


def test_distances_between_anchors_may_differ_by_noise_that_is_known():
    X = points(12, 2)
    D = pdist(X)
    D += 0.001 * np.random.default_rng(0).uniform(-1, 1, len(D))
    D[1] += 0.003  # between 0 and 2
    D, places = squareform(D), dict(enumerate(X[:3]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".* distances between anchors")
        DistanceCompletion(2, noise=0.001, random_state=0).fit(D, anchors=places)
    with pytest.raises(InconsistentWarning, match=r"3 distances .* the most between 0 and 2 \(by 0\.00"):
        DistanceCompletion(2, random_state=0).fit(D, anchors=places)


def test_anchors_that_are_no_dict_are_named():
    with pytest.raises(TypeError, match=r"anchors must be a dict .*, got tuple"):
        DistanceCompletion(2).fit(squareform(pdist(points(5, 2))), anchors=([0, 1], [[0, 0, 0], [1, 0, 0]]))


def test_stanford_benchmark():
    field = or_skip(load_sensor_field)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistanceCompletion(2, random_state=0).fit_pairs(
            field.pairs, field.distances, anchors=field.anchors, weights="noise"
        )
    error = np.linalg.norm(model.embedding_ - field.coordinates, axis=1)[:490]
    assert np.median(error) < 0.02


@pytest.mark.filterwarnings("ignore::quartic.estimators.UndeterminedWarning")
def test_bounds_are_kept():
    X = points(60, 3)
    i, j = np.triu_indices(60, 1)
    d = pdist(X)
    pairs = np.column_stack([i, j])
    lower, upper = 0.9 * d, 1.1 * d
    lower[::3] = upper[::3] = d[::3]
    upper[1::6] = np.nan  # a lower bound only
    model = DistanceCompletion(random_state=0).fit_pairs(pairs, lower=lower, upper=upper)
    found = model.distances(pairs)
    assert (found >= lower - 1e-4).all()
    assert (found <= np.nan_to_num(upper, nan=np.inf) + 1e-4).all()
    D = squareform(np.where(lower == upper, d, np.nan))
    np.fill_diagonal(D, 0)
    same = DistanceCompletion(random_state=0).fit(D, lower=squareform(lower), upper=squareform(upper))
    assert same.rmse_ < 1e-4


@pytest.mark.filterwarnings("ignore::quartic.estimators.InconsistentWarning")
def test_noise_weights_and_stress_are_better_under_noise():
    X = helix(300, random_state=0)
    pairs = random_pairs(300, 0.3, random_state=0)
    d = pair_distances(X, pairs) * (1 + 0.1 * np.random.default_rng(0).standard_normal(44_850 * 3 // 10))
    plain, weighted, stress = (
        normalized_rmse(model.fit_pairs(pairs, d, weights=weights).embedding_, X)
        for model, weights in (
            (DistanceCompletion(random_state=0), None),
            (DistanceCompletion(random_state=0), "noise"),
            (DistanceCompletion(random_state=0, refine="stress"), None),
        )
    )
    assert weighted < 0.5 * plain
    assert stress < 0.5 * plain


def test_weights_of_zero_leave_a_pair_out():
    X = points(30, 2)
    D = partial(X, 0.8)
    wrong, weights = D.copy(), np.ones_like(D)
    i, j = np.argwhere(np.triu(~np.isnan(D), 1))[7]
    wrong[i, j] = wrong[j, i] = 3 * D[i, j]
    weights[i, j] = weights[j, i] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistanceCompletion(2, random_state=0).fit(wrong, weights=weights)
    assert normalized_rmse(model.embedding_, X) < 1e-7


# -- the frame ------------------------------------------------------------------------------------------------------


def test_align_to():
    X = points(40, 3) + 5
    model = DistanceCompletion(align_to=X, random_state=0).fit(partial(X))
    np.testing.assert_allclose(model.embedding_, X, atol=1e-6)
    some = DistanceCompletion(align_to={k: X[k] for k in range(5)}, random_state=0).fit(partial(X))
    np.testing.assert_allclose(some.embedding_, X, atol=1e-6)
    with pytest.raises(ValueError, match="align_to"):
        DistanceCompletion(align_to=X[:3]).fit(partial(X))


def test_signs_choose_the_mirror_image():
    X = points(40, 3)
    D = partial(X)
    simplex = [0, 1, 2, 3]
    for sign in (1, -1):
        model = DistanceCompletion(signs=[[*simplex, sign]], random_state=0).fit(D)
        E = model.embedding_
        assert np.sign(np.linalg.det(E[1:4] - E[0])) == sign
        assert "1 of 1" in model.chirality_
    free = DistanceCompletion(random_state=0).fit(D)
    assert "both" in free.chirality_
    E, M = free.embedding_, free.mirror_image_
    np.testing.assert_allclose(pdist(E), pdist(M))
    assert np.linalg.det(E[1:4] - E[0]) * np.linalg.det(M[1:4] - M[0]) < 0
    with pytest.warns(InconsistentWarning, match="1 of 3 signs"):
        DistanceCompletion(signs=[[0, 1, 2, 3, 1], [0, 1, 2, 3, 1], [0, 1, 2, 3, -1]], random_state=0).fit(D)


# -- what the data do not fix ---------------------------------------------------------------------------------------


def test_two_components_come_back_apart_and_labelled():
    X, Y = points(20, 2), points(12, 2, seed=1)
    D = np.full((33, 33), np.nan)
    D[:20, :20], D[20:32, 20:32] = squareform(pdist(X)), squareform(pdist(Y))
    with pytest.warns(UndeterminedWarning, match="3 components"):
        model = DistanceCompletion(2, random_state=0).fit(D)
    np.testing.assert_array_equal(model.component_, [0] * 20 + [1] * 12 + [2])
    np.testing.assert_array_equal(model.determined_, [True] * 20 + [False] * 13)
    assert model.rmse_ < 1e-8
    E = model.embedding_
    low, high = ([E[part].min(axis=0) for part in (slice(20), slice(20, 32), slice(32, 33))],
                 [E[part].max(axis=0) for part in (slice(20), slice(20, 32), slice(32, 33))])  # fmt: skip
    for a in range(3):
        for b in range(a):
            assert ((low[a] > high[b]) | (low[b] > high[a])).any()  # their boxes do not meet


def test_a_point_with_one_distance():
    D = np.full((21, 21), np.nan)
    D[:20, :20] = squareform(pdist(points(20, 2)))
    D[20, 0] = 0.5
    with pytest.warns(UndeterminedWarning, match=r"20 of 21 points .* 1 point has fewer than"):
        model = DistanceCompletion(2, random_state=0).fit(D)
    assert not model.determined_[20]
    assert model.determined_[:20].all()
    assert model.distances([[0, 20]])[0] == pytest.approx(0.5)


def test_points_on_a_line():
    D = squareform(pdist(np.arange(20.0)[:, None] ** 1.5))
    with pytest.warns(FlatWarning, match="on a line"):
        model = DistanceCompletion(2, random_state=0).fit(D)
    np.testing.assert_allclose(model.distances(), D, atol=1e-5)


def test_duplicates_that_agree():
    X = points(15, 2)
    i, j = np.triu_indices(15, 1)
    pairs = np.concatenate([np.column_stack([i, j]), np.column_stack([j, i])[:4]])
    with pytest.warns(DuplicateWarning, match="4 pairs are given more than once"):
        model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, pair_distances(X, pairs))
    assert normalized_rmse(model.embedding_, X) < 1e-8


@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")
def test_triangle_inequality():
    D = squareform(pdist(points(10, 2)))
    D[0, 1] = D[1, 0] = 2.0
    with pytest.warns(InconsistentWarning, match=r"break the triangle inequality, \(0, 1, \d\)"):
        model = DistanceCompletion(2, random_state=0).fit(D)
    assert np.isfinite(model.embedding_).all()


@pytest.mark.filterwarnings("ignore::quartic.estimators.InconsistentWarning")
def test_a_wrong_distance_is_pointed_at():
    X = points(100, 2)
    pairs = random_pairs(100, 0.3, random_state=0)
    d = pair_distances(X, pairs)
    d[10:13] *= 1.5
    with pytest.warns(MisfitWarning, match="missed by far more"):
        DistanceCompletion(2, random_state=0).fit_pairs(pairs, d)


def test_all_distances_zero():
    with pytest.warns(FlatWarning, match="in one place"):
        model = DistanceCompletion(2, random_state=0).fit(np.zeros((4, 4)))
    np.testing.assert_array_equal(model.embedding_, 0)


def test_standard_errors_are_the_spread_of_answers():
    X = points(40, 2, seed=4)
    i, j = np.triu_indices(40, 1)
    pairs, d = np.column_stack([i, j])[::2], pdist(X)[::2]
    anchors = {k: X[k] for k in range(3)}
    found, said = [], None
    for seed in range(40):
        noisy = d + 0.005 * np.random.default_rng(seed).standard_normal(len(d))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DistanceCompletion(2, random_state=0, init=X).fit_pairs(pairs, np.abs(noisy), anchors=anchors)
        found.append(model.embedding_)
        said = model.standard_errors_ if said is None else said
    spread = np.sqrt(np.mean(np.sum((np.array(found) - X) ** 2, axis=2), axis=0))
    assert (said[:3] == 0).all()
    # 40 draws of two coordinates: each spread is known to 8 %, their mean ratio far better
    assert np.mean(said[3:] / spread[3:]) == pytest.approx(1.0, abs=0.15)


# -- errors ---------------------------------------------------------------------------------------------------------

GOOD = squareform(pdist(np.random.default_rng(0).random((6, 2))))


def changed(value, *where):
    D = GOOD.copy()
    for i, j in where:
        D[i, j] = value
    return D


@pytest.mark.parametrize(
    ("D", "known", "match"),
    [
        (changed(-1.0, (0, 1), (1, 0)), {}, "negative"),
        (np.full((5, 5), np.nan), {}, "no known distance"),
        (changed(9.0, (0, 1)), {}, r"not symmetric: D\[0, 1\] = 9.0"),
        (sp.csr_array(changed(9.0, (0, 1))), {}, r"not symmetric: the pair \(0, 1\)"),
        (changed(1.0, (2, 2)), {}, r"D\[2, 2\]"),
        (changed(np.inf, (0, 1), (1, 0)), {}, r"D\[0, 1\] is inf; put NaN"),
        (sp.csr_array(changed(np.inf, (1, 0))), {}, r"D\[1, 0\] is inf; put NaN"),
        (GOOD[:4], {}, "square"),
        (GOOD, {"anchors": {9: [0.0, 0.0]}}, "anchor 9 is outside the 6 points"),
        (GOOD, {"anchors": {0: [0.0, 0.0, 0.0]}}, "n_components = 2"),
        (GOOD, {"anchors": {0: [0.0, np.nan]}}, "finite"),
        (GOOD, {"anchors": {0: [1.0, 1.0], 1: [1.0, 1.0]}}, "same place"),
        (GOOD, {"anchors": {k: [float(k), 0.0] for k in range(6)}}, "nothing to find"),
        (GOOD, {"lower": GOOD + 1, "upper": GOOD}, "above upper"),
        (GOOD, {"weights": "loud"}, "noise"),
        (GOOD, {"weights": np.ones((3, 3))}, "shape of D"),
    ],
)
def test_bad_matrices(D, known, match):
    with pytest.raises(ValueError, match=match):
        DistanceCompletion(2).fit(D, **known)


def test_features_that_are_not_finite_are_named():
    with pytest.raises(ValueError, match=r"X\[0, 1\] is NaN; fill it in .*, or leave row 0 out"):
        DistanceCompletion(2, metric="euclidean").fit(changed(np.nan, (0, 1), (3, 2)))


@pytest.mark.parametrize(
    ("pairs", "distances", "known", "match"),
    [
        ([[0, 1], [1, 0]], [1.0, 2.0], {}, "given twice and differs"),
        ([[0, 0]], [1.0], {}, "itself"),
        ([[0, 1]], [np.nan], {}, r"distances\[0\] is nan"),
        ([[0, 1]], [-1.0], {}, "negative"),
        ([[0, 1]], None, {}, "give distances"),
        ([[0, 5]], [1.0], {"n_points": 3}, "outside the 3 points"),
        ([[0, 1], [1, 2]], [1.0], {}, r"shape \(2,\)"),
        (np.empty((0, 2), dtype=int), [], {}, "no pairs"),
        ([[0, 1]], [3.0], {"lower": [1.0], "upper": [2.0]}, "outside its bounds"),
        ([[0, 1]], None, {"upper": [2.0]}, "all points in one place"),
    ],
)
def test_bad_pairs(pairs, distances, known, match):
    with pytest.raises(ValueError, match=match):
        DistanceCompletion(2).fit_pairs(pairs, distances, **known)


def test_bad_parameters():
    with pytest.raises(TypeError, match="dict"):
        DistanceCompletion(2).fit(GOOD, anchors=[[0.0, 0.0]])
    with pytest.raises((ImportError, ValueError), match="torch"):
        DistanceCompletion(device="cuda").fit(GOOD)
    with pytest.raises(ValueError, match="init"):
        DistanceCompletion(init="best").fit(GOOD)
    with pytest.raises(ValueError, match="signs"):
        DistanceCompletion(2, signs=[[0, 1, 2]]).fit(GOOD)
    with pytest.raises(ValueError, match="unknown solver"):
        DistanceCompletion(2, solver="best").fit(GOOD)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        DistanceCompletion(2, max_iter=0, init="random", random_state=0).fit(GOOD)


# -- names ----------------------------------------------------------------------------------------------------------


def test_points_may_have_names():
    X = points(12, 2, seed=4)
    names = np.array([f"p{k:02d}" for k in np.random.default_rng(0).permutation(12)])
    pairs = np.column_stack(np.triu_indices(12, 1))[::-1]
    d = pair_distances(X, pairs)
    anchors = {k: X[k] for k in (3, 5, 8)}
    plain = DistanceCompletion(2, random_state=0).fit_pairs(pairs, d, anchors=anchors)
    assert plain.point_names_ is None
    for given in (names[pairs], names[pairs].astype(object), names[pairs].tolist()):
        model = DistanceCompletion(2, random_state=0)
        model.fit_pairs(given, d, anchors={names[k]: place for k, place in anchors.items()})
        found = dict(zip(model.point_names_, model.embedding_, strict=True))
        np.testing.assert_allclose([found[name] for name in names], plain.embedding_, atol=1e-8)
        np.testing.assert_allclose(model.distances(names[pairs]), d, atol=1e-8)
        assert model.score_pairs(names[pairs], d) == pytest.approx(0, abs=1e-8)
    aligned = DistanceCompletion(2, align_to={names[k]: X[k] for k in (3, 5, 8)}, random_state=0)
    aligned.fit_pairs(names[pairs], d)
    assert np.abs(aligned.embedding_[list(aligned.point_names_).index(names[1])] - X[1]).max() < 1e-6


def test_names_in_a_frame():
    pd = pytest.importorskip("pandas")
    X = points(8, 2)
    names = list("abcdefgh")
    frame = pd.DataFrame(squareform(pdist(X)), columns=names)
    model = DistanceCompletion(2, random_state=0).fit(frame, anchors={"b": X[1], "e": X[4], "h": X[7]})
    assert model.point_names_.tolist() == names
    np.testing.assert_allclose(model.embedding_, X, atol=1e-7)
    listed = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [1.0, 2.0]})
    with pytest.raises(
        ValueError, match=r"a list of pairs, not a matrix; use fit_pairs\(D\[\['from', 'to'\]\], D\['km'\]\)"
    ):
        DistanceCompletion(2).fit(listed)


def test_faults_are_told_by_name():
    triangle, d = [("a", "b"), ("b", "c"), ("c", "a")], [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="anchors has 'lamp', but no pair has a point of that name; there are 'a'"):
        DistanceCompletion(2).fit_pairs(triangle, d, anchors={"lamp": [0.0, 0.0]})
    with pytest.raises(ValueError, match="anchors has names, but the points have none"):
        DistanceCompletion(2).fit_pairs([[0, 1], [1, 2], [0, 2]], d, anchors={"a": [0.0, 0.0]})
    with pytest.raises(TypeError, match="7 is among the names"):
        DistanceCompletion(2).fit_pairs(np.array([("a", "b"), ("b", 7)], dtype=object), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"given twice and differs.*0 is a, 1 is b"):
        DistanceCompletion(2).fit_pairs([*triangle, ("b", "a")], [*d, 2.0])
    with pytest.warns(UndeterminedWarning, match="fewer than 3 distances: point {tail}"):
        DistanceCompletion(2, random_state=0).fit_pairs([*triangle, ("c", "{tail}")], [*d, 1.0])


# -- scikit-learn ---------------------------------------------------------------------------------------------------


def test_pickle_clone_and_pandas():
    D = partial(points(30))
    model = DistanceCompletion(random_state=0).fit(D)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_array_equal(clone(model).fit(D).embedding_, model.embedding_)
    pytest.importorskip("pandas")
    frame = DistanceCompletion(random_state=0).set_output(transform="pandas").fit_transform(D)
    assert list(frame.columns) == ["distancecompletion0", "distancecompletion1", "distancecompletion2"]
    assert list(model.get_feature_names_out()) == list(frame.columns)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([DistanceCompletion(), DistanceCompletion(metric="euclidean")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# -- size -----------------------------------------------------------------------------------------------------------


def test_us_cities():
    X = or_skip(load_points, "uscities")
    pairs = random_pairs(len(X), 0.05, random_state=0)
    model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, pair_distances(X, pairs))
    assert np.abs(align(model.embedding_, X) - X).max() < 1e-6


@pytest.mark.slow
def test_a_hundred_thousand_points_in_memory_of_the_pairs():
    code = (
        "import resource, warnings\n"
        "from quartic import DistanceCompletion\n"
        "from quartic.datasets import helix, pair_distances, random_pairs\n"
        "from quartic.metrics import normalized_rmse\n"
        "X = helix(100_000, random_state=0)\n"
        "pairs = random_pairs(100_000, 4e-4, random_state=0)\n"
        "warnings.simplefilter('ignore')\n"
        "model = DistanceCompletion(random_state=0).fit_pairs(pairs, pair_distances(X, pairs))\n"
        "print(normalized_rmse(model.embedding_, X, 10**6), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    error, peak = done.stdout.split()
    assert float(error) < 1e-6
    assert int(peak) * (1 if sys.platform == "darwin" else 1024) < 4e9


def test_exact_distances_give_points_to_round_off():
    """A fit within the tolerance goes on to round-off, and still counts as converged."""
    for seed in range(3):
        field = sensor_field(300, 20, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistanceWarning)
            model = DistanceCompletion(2, random_state=0).fit_pairs(field.pairs, field.distances, n_points=300)
        sure = model.determined_
        found = align(model.embedding_[sure], field.coordinates[sure])
        assert model.result_.success
        assert np.abs(found - field.coordinates[sure]).max() < 1e-11


@pytest.mark.parametrize("refine", [None, "stress"])
def test_an_interrupted_run_ends_the_whole_search(refine):
    """What Ctrl-C does in a script or a notebook: the run under way ends, and no other is begun."""
    from quartic.core.result import Status

    truth = helix(40, random_state=0)
    pairs = random_pairs(40, 0.4, random_state=0)
    seen = []

    def once(progress):
        seen.append(progress.n_iter)
        if len(seen) == 12:
            raise KeyboardInterrupt

    model = DistanceCompletion(2, n_init=3, random_state=0, callback=once, refine=refine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_pairs(pairs, pair_distances(truth, pairs))
    assert len(seen) == 12
    assert model.result_.status is Status.INTERRUPTED
    assert "interrupted" in model.result_.message
    assert model.embedding_.shape == (40, 2)
    assert np.isfinite(model.embedding_).all()


def test_a_callback_sees_every_iteration_and_may_end_the_search():
    truth = helix(40, random_state=0)
    pairs = random_pairs(40, 0.4, random_state=0)
    distances, seen = pair_distances(truth, pairs), []
    whole = DistanceCompletion(3, random_state=0, callback=seen.append).fit_pairs(pairs, distances)
    assert len(seen) == whole.n_iter_ > 3
    before = list(seen)

    def stop(progress):
        seen.append(progress)
        if len(seen) == len(before) + 3:
            raise StopIteration

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistanceCompletion(3, n_init=4, random_state=0, callback=stop).fit_pairs(pairs, distances)
    assert len(seen) == len(before) + 3
    assert model.embedding_.shape == (40, 3)
    assert model.result_.status == "callback"
    assert "stopped by the callback" in model.result_.message
    with pytest.raises(TypeError, match="callback must be a function"):
        DistanceCompletion(3, callback=1).fit_pairs(pairs, distances)
    with pytest.raises(ValueError, match="n_jobs must be an integer, or None, and not 0"):
        DistanceCompletion(3, n_jobs=0).fit_pairs(pairs, distances)


# -- never sure of what is wrong ------------------------------------------------------------------------------------


def two_bodies(middle, d=2, seed=0):
    """Two bodies that share d + 1 points, which lie in one hyperplane but for the first of them, off it by `middle`."""
    g = np.random.default_rng(seed)
    shared = np.column_stack([np.zeros(d + 1), g.uniform(0, 2, (d + 1, d - 1))])
    if d == 2:
        shared[:, 1] = [1.0, 0.0, 2.0]
    shared[0, 0] = middle
    low, high = np.full(d, 0.0), np.full(d, 2.0)
    left, right = (
        g.uniform(low - np.eye(d)[0] * 3, high - np.eye(d)[0] * 3, (6, d)),
        g.uniform(low + 1, high + 1, (6, d)),
    )
    T = np.vstack([shared, left, right])
    sides = [*range(d + 7)], [*range(d + 1), *range(d + 7, d + 13)]
    P = np.array(sorted({(i, j) for side in sides for i in side for j in side if i < j}))
    return T, P


def error_of_the_sure(model, T):
    sure = model.determined_
    return np.abs(align(model.embedding_[sure], T[sure]) - T[sure]).max() if sure.any() else 0.0


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_bodies_that_share_a_flat_set_fit_in_two_ways(d, seed):
    T, P = two_bodies(0.0, d, seed)
    with pytest.warns(UndeterminedWarning, match="may sit elsewhere"):
        model = DistanceCompletion(d, random_state=seed).fit_pairs(P, pair_distances(T, P))
    assert np.count_nonzero(model.determined_) == d + 7
    assert model.determined_[: d + 1].all()
    assert model.determination_.may_flip[~model.determined_].all()
    assert error_of_the_sure(model, T) < 1e-9


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("middle", [1e-9, 1e-6, 1e-3, 0.03, 0.1, 0.2])
def test_nearly_flat_cuts_are_tried_from_both_sides(d, middle):
    for seed in range(3):
        T, P = two_bodies(middle, d, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndeterminedWarning)
            model = DistanceCompletion(d, random_state=seed).fit_pairs(P, pair_distances(T, P))
        assert error_of_the_sure(model, T) < 1e-6
        assert model.rmse_ < 1e-7 * np.sqrt(np.mean(pair_distances(T, P) ** 2))  # met, as far as the tolerance goes
        if middle > 1e-4:
            assert model.determined_.all()


def test_a_flat_cut_under_noise_is_open():
    """The side of the second body hangs on an offset of 0.02: open where the noise is 0.05, clear where it is 1e-4."""
    for seed in range(8):
        T, P = two_bodies(0.02, seed=seed)
        d = pair_distances(T, P)
        noise = np.random.default_rng(seed).standard_normal(len(d))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rough = DistanceCompletion(2, random_state=0).fit_pairs(P, np.abs(d + 0.05 * noise))
            fine = DistanceCompletion(2, random_state=0).fit_pairs(P, d + 1e-4 * noise)
        assert error_of_the_sure(rough, T) < 0.3  # on the wrong side it is 3
        assert fine.determined_.all()
        assert error_of_the_sure(fine, T) < 1e-2


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("share", [0.03, 0.08])
def test_a_thin_wall_between_dense_halves_leaves_one_of_them_open(d, share):
    """Few points part the others, all of them in one hyperplane: generic theorems, and most proofs, see nothing."""
    g = np.random.default_rng(0)
    T = g.uniform(-1, 1, (600, d))
    T[: int(600 * share), 0] = 0.0
    side = np.sign(T[:, 0])
    P = np.column_stack(np.triu_indices(600, 1))
    P = P[(side[P[:, 0]] * side[P[:, 1]] >= 0) & (g.random(len(P)) < 0.4)]
    with pytest.warns(UndeterminedWarning):
        model = DistanceCompletion(d, random_state=0).fit_pairs(P, pair_distances(T, P))
    assert not (model.determined_[side < 0].any() and model.determined_[side > 0].any())
    assert model.determined_.sum() > 200
    assert error_of_the_sure(model, T) < 1e-9


def test_starts_that_end_alike_in_a_local_minimum_are_not_taken_for_noise():
    g = np.random.default_rng([4, 5])
    n = int(g.integers(10, 36))
    T, P = g.standard_normal((n, 2)), np.column_stack(np.triu_indices(n, 1))
    P = P[g.random(len(P)) < g.uniform(0.2, 0.5)]
    held = g.choice(n, int(g.integers(1, 5)), replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeterminedWarning)
        model = DistanceCompletion(2, random_state=4).fit_pairs(
            P, pair_distances(T, P), n_points=n, anchors={int(i): T[i] for i in held}
        )
    assert model.rmse_ < 1e-9
    assert error_of_the_sure(model, T) < 1e-9


def test_anchors_on_both_sides_of_a_flat_cut_decide():
    T, P = two_bodies(0.0)
    anchors = {k: T[k] for k in (3, 4, 9, 10)}
    model = DistanceCompletion(2, random_state=0).fit_pairs(P, pair_distances(T, P), anchors=anchors)
    assert model.determined_.all()
    assert np.abs(model.embedding_ - T).max() < 1e-7
    one_side = {k: T[k] for k in (3, 4, 5)}
    with pytest.warns(UndeterminedWarning):
        model = DistanceCompletion(2, random_state=0).fit_pairs(P, pair_distances(T, P), anchors=one_side)
    assert model.determined_[:9].all()
    assert not model.determined_[9:].any()


@pytest.mark.parametrize("d", [2, 3])
def test_sparse_random_graphs_are_never_wrong_on_determined_points(d):
    n_sure = 0
    for n in range(12, 40, 3):
        T = np.random.default_rng([d, n]).random((n, d))
        P = random_pairs(n, 0.35, random_state=n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistanceWarning)
            model = DistanceCompletion(d, random_state=0).fit_pairs(P, pair_distances(T, P), n_points=n)
        assert error_of_the_sure(model, T) < 1e-5
        n_sure += np.count_nonzero(model.determined_)
    assert n_sure > 150  # of 255, most of which are determined in theory


@pytest.mark.filterwarnings("ignore::quartic.estimators.InconsistentWarning")
def test_a_fit_above_the_noise_is_not_called_determined():
    """From one bad start, and with a noise that is far below the misfit."""
    X = points(80, 2, seed=1)
    pairs = pairs_within(X, 0.5)
    d = pair_distances(X, pairs) * (1 + 0.05 * np.random.default_rng(0).standard_normal(len(pairs)))
    plain = DistanceCompletion(2, random_state=0).fit_pairs(pairs, d)
    known = DistanceCompletion(2, noise=0.03, random_state=0).fit_pairs(pairs, d)
    assert plain.determined_.all()  # cliques show the noise
    assert known.determined_.all()
    with pytest.warns(MisfitWarning, match="more than the noise that was given|far more"):
        model = DistanceCompletion(2, noise=1e-3, init=X, random_state=0).fit_pairs(pairs, d)
    assert not model.determined_.any()
    assert model.determination_.unexplained
    folded = np.random.default_rng(3).permutation(X)  # a start from which a local minimum is reached
    with pytest.warns(MisfitWarning):
        model = DistanceCompletion(2, init=folded, random_state=0).fit_pairs(pairs, d)
    assert not model.determined_.any()


def test_bounds_link_points_and_fix_none():
    X = points(60, 3)
    pairs = random_pairs(60, 0.5, random_state=0)
    d = pair_distances(X, pairs)
    with pytest.warns(UndeterminedWarning, match="pairs with room between their bounds") as caught:
        model = DistanceCompletion(random_state=0).fit_pairs(pairs, lower=0.95 * d, upper=1.05 * d)
    text = str(caught[0].message)
    assert "no distance at all" not in text
    assert "components" not in text
    assert model.determination_.n_components == 1
    assert not model.determined_.any()


def test_the_mirror_image_leaves_anchors_where_they_are():
    X = points(40, 3)
    for k in (1, 2, 3, 5):
        anchors = {i: X[i] for i in range(k)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DistanceWarning)
            model = DistanceCompletion(random_state=0).fit(partial(X), anchors=anchors)
        E, M = model.embedding_, model.mirror_image_
        np.testing.assert_allclose(M[:k], X[:k], atol=1e-9)
        np.testing.assert_allclose(pdist(E), pdist(M), atol=1e-9)
        if k > 3:
            np.testing.assert_array_equal(E, M)  # there is no other answer
        else:
            assert np.linalg.det(E[1:4] - E[0]) * np.linalg.det(M[1:4] - M[0]) < 0


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_without_redundant_distances_nothing_shows_the_noise(d):
    """A simplex meets any distances: what was rounded is off though nothing is left; with one more point it shows."""
    T = np.random.default_rng(d).standard_normal((d + 2, d))
    for n in (d + 1, d + 2):
        pairs = np.column_stack(np.triu_indices(n, 1))
        rounded = pair_distances(T, pairs).round(2)
        model = DistanceCompletion(d, random_state=0).fit_pairs(pairs, rounded)
        assert np.isinf(model.standard_errors_).all() == (n == d + 1)
        told = DistanceCompletion(d, noise=0.003, random_state=0).fit_pairs(pairs, rounded).standard_errors_
        off = np.linalg.norm(align(model.embedding_, T[:n]) - T[:n], axis=1)
        assert (off < 6 * told).all()
        assert told.max() < 0.1
    exact = DistanceCompletion(d, random_state=0).fit_pairs(pairs, pair_distances(T, pairs))
    assert exact.standard_errors_.max() < 1e-12


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
def test_the_noise_shows_where_there_are_redundant_distances():
    """A point on d distances has none of its own, and takes the noise of the others."""
    g = np.random.default_rng(1)
    T = g.standard_normal((9, 2))
    body = np.column_stack(np.triu_indices(8, 1))
    pairs = np.vstack([body, [[0, 8], [1, 8]]])
    d = pair_distances(T, pairs) + 0.01 * g.standard_normal(len(pairs))
    errors = DistanceCompletion(2, random_state=0).fit_pairs(pairs, d).standard_errors_
    assert 0.003 < errors.min() < errors.max() < 0.1


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("weights", [None, "noise"])
def test_standard_errors_with_loose_points_around(weights, anchored):
    """Isolated and pendant points add unknowns and no knowledge; the noise is that of the model that is documented."""
    g = np.random.default_rng(4)
    n, loose, runs = 30, 20, 60
    X = g.random((n + 2 * loose, 2))
    i, j = np.triu_indices(n, 1)
    pairs = np.column_stack([i, j])[g.random(len(i)) < 0.5]
    pairs = np.vstack([pairs, np.column_stack([np.arange(loose), n + np.arange(loose)])])
    d = pair_distances(X, pairs)
    anchors = {k: X[k] for k in range(3)} if anchored else None
    found, said = [], []
    for seed in range(runs):
        noise = np.random.default_rng(seed).standard_normal(len(d))
        noisy = np.abs(d + 0.005 * noise if weights is None else d * (1 + 0.02 * noise))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DistanceCompletion(2, random_state=0, init=X).fit_pairs(
                pairs, noisy, n_points=len(X), weights=weights, anchors=anchors
            )
        E = model.embedding_[:n]
        found.append(E if anchored else align(E, X[:n]))
        if seed < 10:
            said.append(model.standard_errors_)
    assert np.isinf(said[0][n:]).all()
    spread = np.sqrt(np.mean(np.sum((np.array(found) - X[:n]) ** 2, axis=2), axis=0))
    held = spread > 0
    # 60 draws of two coordinates know each spread to 6.5 %, and their mean far better
    ratio = np.mean(said, axis=0)[:n][held] / spread[held]
    assert 0.9 < ratio.mean() < 1.1
    assert ratio.min() > 0.75
    assert ratio.max() < 1.3


# -- new points, scores, scikit-learn's conventions -----------------------------------------------------------------


def test_new_points_are_placed_without_fitting_again():
    T = points(80, 3, seed=5)
    old, new = T[:60], T[60:]
    model = DistanceCompletion(align_to=old, random_state=0).fit(partial(old))
    before = model.embedding_.copy()
    D = np.linalg.norm(new[:, None] - old[None], axis=2)
    rng = np.random.default_rng(0)
    D[rng.random(D.shape) < 0.7] = np.nan
    np.testing.assert_allclose(model.transform(D), new, atol=1e-7)
    np.testing.assert_allclose(model.transform(sp.csr_array(np.nan_to_num(D))), new, atol=1e-7)
    np.testing.assert_array_equal(model.embedding_, before)
    noisy = D * (1 + 0.01 * rng.standard_normal(D.shape))
    assert np.sqrt(np.mean((model.transform(noisy) - new) ** 2)) < 0.02
    with pytest.warns(UndeterminedWarning, match="20 of 20 new points"):  # bounds leave room
        found = model.transform(np.full(D.shape, np.nan), lower=0.95 * D, upper=1.05 * D)
    distances = np.linalg.norm(found[:, None] - old[None], axis=2)
    known = ~np.isnan(D)
    assert (distances >= 0.95 * D - 1e-6)[known].all()
    assert (distances <= 1.05 * D + 1e-6)[known].all()
    np.testing.assert_array_equal(model.transform(partial(old, 0.9)), before)  # at distance 0 of themselves


def test_new_points_that_are_left_open_or_wrong_are_named():
    T = points(20, 2)
    model = DistanceCompletion(2, align_to=T, random_state=0).fit(squareform(pdist(T)))
    D = np.full((2, 20), np.nan)
    D[0, :5] = np.linalg.norm(T[:5] - 0.5, axis=1)
    D[1, :2] = np.linalg.norm(T[:2] - 0.5, axis=1)
    with pytest.warns(UndeterminedWarning, match="1 of 2 new points have fewer than 3 exact distances.*: 1;"):
        found = model.transform(D)
    np.testing.assert_allclose(found[0], 0.5, atol=1e-8)
    D[1] = np.nan
    with pytest.raises(ValueError, match="row 1 holds no known distance"):
        model.transform(D)
    with pytest.raises(ValueError, match="20"):
        model.transform(D[:, :7])


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")  # one distance leaves a point open
@pytest.mark.parametrize("seed", range(4))
def test_new_points_next_to_old_ones(seed):
    """Steps to a distance that is next to nothing halve it each time, along one line."""
    T = points(8, 3, seed=seed)
    D = np.full((1, 8), np.nan)
    D[0, seed] = 1e-9
    model = DistanceCompletion(align_to=T, random_state=0).fit(squareform(pdist(T)))
    np.testing.assert_allclose(model.transform(D), T[[seed]], atol=1e-6)


def test_features_of_new_points():
    X = points(40, 2, seed=6)
    model = DistanceCompletion(2, metric="euclidean", align_to=X[:30], random_state=0).fit(X[:30])
    np.testing.assert_allclose(model.transform(X[30:]), X[30:], atol=1e-6)


def test_cross_validation_and_metadata():
    from sklearn.model_selection import cross_val_score
    from sklearn.utils.metadata_routing import get_routing_for_object

    T = points(60, 3, seed=7)
    D = squareform(pdist(T))
    right = cross_val_score(DistanceCompletion(3, random_state=0), D, cv=2)
    with pytest.warns(MisfitWarning, match="too few dimensions|far more"):
        flat = cross_val_score(DistanceCompletion(1, random_state=0), D, cv=2)
    assert (right > -1e-6).all()
    assert (flat < -0.05).all()
    model = DistanceCompletion(random_state=0).fit(X=D)
    assert model.score(X=D) == pytest.approx(0.0, abs=1e-7)
    requests = get_routing_for_object(model)
    assert set(requests.fit.requests) == {"anchors", "weights", "lower", "upper"}
    assert set(requests.score.requests) == set()
    pairs = random_pairs(60, 0.3, random_state=0)
    assert model.score_pairs(pairs, pair_distances(T, pairs)) > -1e-7
    with pytest.raises(ValueError, match="one number for each"):
        model.score_pairs(pairs, [1.0])


def test_pairs_given_the_other_way_round_are_left_as_they_are():
    X = np.random.default_rng(0).random((9, 2))
    pairs = np.column_stack(np.triu_indices(9, 1))[:, ::-1].astype(np.int64).copy()
    kept = pairs.copy()
    model = DistanceCompletion(2, random_state=0).fit_pairs(
        pairs, np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    )
    assert (pairs == kept).all()
    assert model.rmse_ < 1e-10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_diagonal_of_round_off_is_zero(dtype):
    """As ‖x‖² − 2⟨x, y⟩ + ‖y‖² leaves it; what is more than that is refused."""
    X = np.random.default_rng(0).random((30, 2))
    D = cdist(X, X).astype(dtype)
    D[3, 3] = 0.5 * np.sqrt(np.finfo(dtype).eps)
    given = D.copy()
    model = DistanceCompletion(2, random_state=0).fit(D)
    np.testing.assert_array_equal(D, given)
    np.testing.assert_allclose(model.distances(), cdist(X, X), atol=3 * np.sqrt(np.finfo(dtype).eps))
    assert model.score(D) > -np.sqrt(np.finfo(dtype).eps)
    D[3, 3] = 0.01
    with pytest.raises(ValueError, match=r"D\[3, 3\] = 0.0\d*, but a point has distance 0 to itself"):
        DistanceCompletion(2).fit(D)


def test_single_precision_may_round_the_two_sides_apart():
    X = np.random.default_rng(0).random((30, 2))
    D = cdist(X, X).astype(np.float32)
    D[np.triu_indices(30, 1)] *= np.float32(1 + 3e-7)
    model = DistanceCompletion(2, random_state=0).fit(D)
    assert model.rmse_ < 1e-6
    with pytest.raises(ValueError, match="D is not symmetric"):
        DistanceCompletion(2).fit(D.astype(np.float64))


def noisy_points(seed, sigma=None):
    """Return few points, some distances with noise, and its standard deviation."""
    g = np.random.default_rng(seed)
    n, d = int(g.choice([8, 10, 12, 20])), 2 + seed % 2
    X, pairs = g.random((n, d)), np.column_stack(np.triu_indices(n, 1))
    pairs = pairs[g.random(len(pairs)) < g.uniform(0.45, 0.95)]
    sigma = float(g.choice([1e-3, 5e-3, 2e-2])) if sigma is None else sigma
    return X, pairs, np.abs(pair_distances(X, pairs) + sigma * g.standard_normal(len(pairs))), sigma


@pytest.mark.filterwarnings("ignore::quartic.estimators.UndeterminedWarning")
@pytest.mark.filterwarnings("error::quartic.estimators.DistanceWarning")
def test_noise_that_is_known_explains_what_few_distances_miss():
    n_sure = n_fixed = 0
    for seed in range(30):
        X, pairs, d, sigma = noisy_points(seed)
        model = DistanceCompletion(X.shape[1], noise=sigma, random_state=0).fit_pairs(pairs, d, n_points=len(X))
        sure = model.determined_
        if sure.any():
            off = np.linalg.norm(align(model.embedding_[sure], X[sure]) - X[sure], axis=1)
            assert (off <= 6 * np.maximum(model.standard_errors_[sure], sigma)).all()
        n_sure, n_fixed = n_sure + sure.sum(), n_fixed + assess(pairs, X).determined.sum()
    assert n_sure > 0.9 * n_fixed


@pytest.mark.parametrize(("seed", "n_sure"), [(1249, 0), (1766, 3), (2711, 4), (3725, 9)])
def test_what_fits_in_two_ways_within_the_noise_is_not_determined(seed, n_sure):
    """With a distance or two more than it takes, exact ones would determine most of these points."""
    X, pairs, d, sigma = noisy_points(seed, 1e-3)
    with pytest.warns(UndeterminedWarning):
        model = DistanceCompletion(X.shape[1], noise=sigma, random_state=0).fit_pairs(pairs, d, n_points=len(X))
    assert error_of_the_sure(model, X) < 6 * sigma
    assert model.determined_.sum() == n_sure


def test_a_misfit_is_counted_once_and_anchors_stay_determined():
    X = points(12, 2, seed=1)
    pairs = np.array([pair for pair in np.column_stack(np.triu_indices(12, 1)) if 11 not in pair or 0 in pair])
    d = pair_distances(X, pairs)
    d[3] += 0.5
    model = DistanceCompletion(2, noise=1e-3, random_state=0)
    with pytest.warns(DistanceWarning) as caught:
        model.fit_pairs(pairs, d, anchors={k: X[k] for k in (5, 6, 7)})
    assert np.flatnonzero(model.determined_).tolist() == [5, 6, 7]
    said = [str(each.message) for each in caught]
    assert any(text.startswith("3 of 12 points are determined in the frame of the anchors. ") for text in said)
    assert any("so that 8 points are not called determined" in text for text in said)
    summary = model.determination_.summary()
    assert "puts 8 in doubt: 0, 1, 2, 3, 4, 8, 9, 10." in summary
    assert "cannot move" not in summary
    few = assess(np.array([[0, 1], [1, 2]]), X[:3], anchors=[0])
    assert few.summary().startswith("1 of 3 points is determined, but 1 anchor fixes")
