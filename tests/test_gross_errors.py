"""Distances that contradict the others: left out where that is wanted, and never the ground of a sure answer."""

import re

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from command import invoke
from quartic import DistanceCompletion
from quartic.datasets import pair_distances, random_pairs
from quartic.distance import search
from quartic.distance.component import Component, Settings
from quartic.distance.data import read_pairs
from quartic.distance.gross import find_gross_errors
from quartic.estimators import MisfitWarning
from quartic.metrics import normalized_rmse

# points at the rim of a field may have too few distances
pytestmark = pytest.mark.filterwarnings("ignore::quartic.estimators.UndeterminedWarning")
CONTRADICTED = pytest.mark.filterwarnings("ignore::quartic.estimators.InconsistentWarning")


def near_pairs(X, degree):
    """The pairs of the nearest points, so many a point on average."""
    pairs = np.array(np.triu_indices(len(X), 1)).T
    d = pair_distances(X, pairs)
    nearest = np.argsort(d)[: len(X) * degree // 2]
    return pairs[np.sort(nearest)]


def made(kind, share, noise, seed=0):
    """Points, pairs, their distances, and which of them are wrong."""
    rng = np.random.default_rng(seed)
    if kind == "field":
        X = rng.random((150, 2))
        pairs = near_pairs(X, 18)
    else:
        X = rng.standard_normal((150, 3))
        pairs = random_pairs(150, 0.25, random_state=seed)
    d = pair_distances(X, pairs)
    wrong = rng.random(len(d)) < share
    longer = d * rng.uniform(1.4, 3.0, len(d))
    return X, pairs, np.where(wrong, longer, d * (1 + noise * rng.standard_normal(len(d)))), wrong


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "share"), [("field", 0.05), ("cloud", 0.2)])
def test_exact_distances_are_told_from_wrong_ones(kind, share, seed):
    X, pairs, d, wrong = made(kind, share, 0.0, seed)
    model = DistanceCompletion(X.shape[1], robust=True, random_state=0).fit_pairs(pairs, d)
    sure = model.determined_
    assert (
        sure.sum()
        >= DistanceCompletion(X.shape[1], random_state=0).fit_pairs(pairs[~wrong], d[~wrong]).determined_.sum() - 1
    )
    among = sure[pairs].all(axis=1)
    found = {tuple(pair) for pair in model.outliers_.tolist()}
    assert {tuple(pair) for pair in pairs[wrong & among].tolist()} <= found
    assert found <= {tuple(pair) for pair in pairs[wrong | ~among].tolist()}
    assert normalized_rmse(model.embedding_[sure], X[sure]) < 1e-8
    assert model.rmse_ < 1e-8
    assert model.start_.startswith(f"{len(found)} distances left out")


@CONTRADICTED
def test_noise_is_no_gross_error():
    X, pairs, d, wrong = made("cloud", 0.1, 0.02)
    model = DistanceCompletion(3, robust=True, random_state=0).fit_pairs(pairs, d)
    clean = DistanceCompletion(3, random_state=0).fit_pairs(pairs[~wrong], d[~wrong])
    assert normalized_rmse(model.embedding_, X) < 1.1 * normalized_rmse(clean.embedding_, X)
    found = {tuple(pair) for pair in model.outliers_.tolist()}
    assert found <= {tuple(pair) for pair in pairs[wrong].tolist()}
    assert len(found) > 0.95 * wrong.sum()


@CONTRADICTED
def test_data_without_gross_errors_are_fitted_as_ever():
    _, pairs, d, _ = made("cloud", 0.0, 0.02)
    plain, robust = (DistanceCompletion(robust=r, random_state=0).fit_pairs(pairs, d) for r in (False, True))
    assert robust.outliers_.shape == plain.outliers_.shape == (0, 2)
    np.testing.assert_array_equal(robust.embedding_, plain.embedding_)


@pytest.mark.parametrize("unit", [1.0, 1e-40, 1e40])
def test_matrices_anchors_and_units(unit):
    """Points that have distances to anchors alone, one of six wrong."""
    rng = np.random.default_rng(1)
    X = rng.random((30, 2))
    D = np.full((30, 30), np.nan)
    D[8:, :8] = np.linalg.norm(X[8:, None] - X[:8], axis=2)
    wrong = np.array([[rng.integers(8), i] for i in range(8, 30)])
    D[wrong[:, 1], wrong[:, 0]] += 0.7
    anchors = {k: X[k] * unit for k in range(8)}
    model = DistanceCompletion(2, robust=True, random_state=0).fit(D * unit, anchors=anchors)
    np.testing.assert_allclose(model.embedding_, X * unit, atol=1e-7 * unit)
    assert sorted(map(tuple, model.outliers_.tolist())) == sorted(map(tuple, wrong.tolist()))


def test_bounds_are_taken_for_correct():
    X, pairs, d, wrong = made("cloud", 0.1, 0.0)
    free = np.zeros(len(d), dtype=bool)
    free[::4] = True
    exact = np.where(free, np.nan, d)
    true = pair_distances(X, pairs)
    lower, upper = np.where(free, 0.9 * true, np.nan), np.where(free, 1.1 * true, np.nan)
    model = DistanceCompletion(3, robust=True, random_state=0).fit_pairs(pairs, exact, lower=lower, upper=upper)
    assert model.outliers_.tolist() == pairs[wrong & ~free].tolist()
    assert normalized_rmse(model.embedding_, X) < 1e-4


def test_a_point_in_a_wrong_place_is_placed_anew():
    """With few distances a point may lean on its wrong ones, all of its right ones then being called wrong."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    pairs = random_pairs(600, 0.045, random_state=0)
    d = pair_distances(X, pairs)
    wrong = rng.random(len(d)) < 0.1
    d[wrong] = rng.uniform(0, 8, wrong.sum())
    data = read_pairs(pairs, d, 600, None, None, None, None, 3)
    found = find_gross_errors(Component.of_all(data, None, None), 3, np.random.default_rng(0))
    assert (found & ~wrong).sum() <= 2
    assert (found | ~wrong | (abs(d - pair_distances(X, pairs)) < 0.1)).all()


# -- what is said without it ------------------------------------------------------------------------------------------


@CONTRADICTED
@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("kind", ["field", "cloud"])
def test_a_fit_to_wrong_distances_is_not_sure(kind, share):
    X, pairs, d, _ = made(kind, share, 0.01)
    with pytest.warns(MisfitWarning, match="robust=True"):
        model = DistanceCompletion(X.shape[1], random_state=0).fit_pairs(pairs, d)
    assert normalized_rmse(model.embedding_, X) > 0.02
    assert not model.determined_.any()


@CONTRADICTED
@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")
@pytest.mark.parametrize("kind", ["field", "cloud"])
def test_much_noise_is_noise_where_it_is_given(kind):
    X, pairs, d, _ = made(kind, 0.0, 0.2)
    model = DistanceCompletion(X.shape[1], random_state=0).fit_pairs(pairs, d)
    assert model.rmse_ > 0.1 * np.sqrt(np.mean(d**2))
    assert not model.determined_.any()
    noise = float(np.std(d - pair_distances(X, pairs)))
    model = DistanceCompletion(X.shape[1], noise=noise, random_state=0).fit_pairs(pairs, d)
    assert model.determined_.sum() >= 0.95 * len(X)


@pytest.mark.parametrize("n", [6, 30, 450])
def test_equal_distances_fit_nowhere(n):
    """No points of the plane are alike far apart; many arrangements are as good, none is the answer."""
    with pytest.warns(MisfitWarning, match="too few dimensions|far more"):
        model = DistanceCompletion(2, random_state=0).fit(np.ones((n, n)) - np.eye(n))
    assert not model.determined_.any()


def test_too_few_dimensions_are_said():
    D = squareform(pdist(np.random.default_rng(0).random((12, 2))))
    with pytest.warns(MisfitWarning, match="too few dimensions|far more"):
        assert not DistanceCompletion(1, random_state=0).fit(D).determined_.any()
    X = np.random.default_rng(0).random((40, 6))  # of features fewer dimensions are wanted
    assert DistanceCompletion(2, metric="euclidean", random_state=0).fit(X).determined_.all()


def test_distances_that_are_no_geometry():
    U = np.triu(np.random.default_rng(0).uniform(1, 2, (30, 30)), 1)
    with pytest.warns(MisfitWarning, match="too few dimensions|far more"):
        assert not DistanceCompletion(2, random_state=0).fit(U + U.T).determined_.any()


def test_robust_is_true_or_false():
    with pytest.raises(ValueError, match="robust must be True or False, got 'yes'"):
        DistanceCompletion(robust="yes").fit(squareform(pdist(np.eye(4))))


def test_the_command_lists_what_it_left_out(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((12, 2))
    lines = [f"p{i},p{j},{np.linalg.norm(X[i] - X[j]):.9f}" for i in range(12) for j in range(i)]
    lines[20] = lines[20].rsplit(",", 1)[0] + ",3.5"
    (tmp_path / "d.csv").write_text("\n".join(["i,j,d", *lines]))
    done = invoke("locate", tmp_path / "d.csv", "-d", 2, "--robust", "-o", tmp_path / "points.csv")
    first, second, _ = lines[20].split(",")
    assert re.search(f"Left out, since they contradict the others: ({first}–{second}|{second}–{first})[.]", done.output)
    assert "65 of the 66 given distances are met" in done.output


def test_a_minimum_elsewhere_is_another_answer_and_the_same_one_moved_is_none():
    """Of four equal distances in the plane two are diagonals of the square that fits best: which two is free."""
    pairs = np.array(np.triu_indices(4, 1)).T
    data = read_pairs(pairs, np.ones(6), 4, None, None, None, None, 2)
    found = search.Search(Component.of_all(data, None, None), Settings(2), np.random.default_rng(0))
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]) * np.sqrt(0.625)
    found.offer(found.run(square))
    X, objective = found.X, found.best_objective
    everyone, no_one = np.ones(4, dtype=bool), np.empty(0, dtype=np.int64)
    for Y in (X, X @ np.array([[0.0, 1.0], [1.0, 0.0]]) + 3.0):
        assert len(found.answer(Y).sides(everyone, no_one)[0]) == 0
    assert found.fits_as_well(objective, X[[0, 2, 1, 3]])
    assert len(found.answer(X[[0, 2, 1, 3]]).sides(everyone, no_one)[0]) == 4
    assert not found.fits_as_well(20 * objective, 2 * X)


def test_the_refits_share_one_limit_of_time():
    begun = Settings(2, max_time=5.0).begin()
    assert begun.begin().deadline == begun.deadline < np.inf
