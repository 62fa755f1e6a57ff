"""Distances of people whom nobody here prepared for: each case once went wrong, or was refused without need."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from quartic import DistanceCompletion
from quartic.datasets import pair_distances
from quartic.estimators import FlatWarning, InconsistentWarning, MisfitWarning, UndeterminedWarning
from quartic.rigidity import assess


def test_masked_entries_are_unknown():
    points = np.random.default_rng(0).random((12, 2))
    D = cdist(points, points)
    far = D > 0.8
    masked = np.ma.masked_array(np.where(far, 99.0, D), far)
    model = DistanceCompletion(2, random_state=0).fit(masked)
    assert model.determined_.all()
    assert np.abs(cdist(model.embedding_, model.embedding_) - D).max() < 1e-9
    with pytest.raises(ValueError, match="distances\\[1\\] is nan"):
        DistanceCompletion(1).fit_pairs([[0, 1], [1, 2]], np.ma.masked_array([1.0, 9.0], [False, True]))


@pytest.mark.filterwarnings("ignore::quartic.estimators.MisfitWarning")
@pytest.mark.parametrize("wrong", [{3: [0.5, 0.0]}, {0: [0.3, 0.3], 1: [-0.3, 0.1]}])
def test_anchors_that_no_distance_contradicts_directly_are_checked_too(wrong):
    """No distance is known between two anchors: that one is wrong shows in how well the others do without them."""
    rng = np.random.default_rng(0)
    points = rng.random((12, 2))
    pairs = np.column_stack(np.triu_indices(12, 1))
    pairs = pairs[(pairs >= 4).any(axis=1)]
    anchors = {k: points[k] + wrong.get(k, 0.0) for k in range(4)}
    with pytest.warns(InconsistentWarning, match="anchors contradict the distances"):
        DistanceCompletion(2, random_state=0).fit_pairs(pairs, pair_distances(points, pairs), anchors=anchors)
    noisy = pair_distances(points, pairs) * (1 + 0.03 * rng.standard_normal(len(pairs)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        DistanceCompletion(2, random_state=0).fit_pairs(pairs, noisy, anchors={k: points[k] for k in range(4)})
    assert not any("anchors contradict" in str(warning.message) for warning in told)


def test_what_cannot_hold_points_together_is_refused():
    pairs = np.column_stack(np.triu_indices(4, 1))
    with pytest.raises(ValueError, match="only lower bounds"):
        DistanceCompletion(2).fit_pairs(pairs, lower=np.ones(6))
    with pytest.raises(ValueError, match="every weight is 0"):
        DistanceCompletion(2).fit_pairs(pairs, np.ones(6), weights=np.zeros(6))


@pytest.mark.parametrize(("n", "d", "extent"), [(5, 3, 2), (12, 3, 2), (8, 2, 1), (9, 3, 1)])
def test_complete_distances_of_flat_points_determine_all(n, d, extent):
    points = np.zeros((n, d))
    points[:, :extent] = np.random.default_rng(n).random((n, extent))
    with pytest.warns(FlatWarning):
        model = DistanceCompletion(d, random_state=0).fit(cdist(points, points))
    assert model.determined_.all()


def test_pieces_of_a_plane_may_turn_about_a_line_they_share():
    """In space, two plane bodies that share five points of a line: all lie in one plane, and need not."""
    points = np.zeros((13, 3))
    points[:5, 0] = np.arange(5.0)
    points[5:, :2] = np.random.default_rng(0).random((8, 2)) + 0.5
    points[9:, 1] *= -1.0
    pairs = np.column_stack(np.triu_indices(13, 1))
    apart = (pairs.min(axis=1) >= 5) & (pairs.min(axis=1) < 9) & (pairs.max(axis=1) >= 9)
    account = assess(pairs[~apart], points)
    assert not (account.determined[5:9].any() and account.determined[9:].any())
    with pytest.warns(UndeterminedWarning):  # the answer need not be flat
        model = DistanceCompletion(3, random_state=0).fit_pairs(pairs[~apart], pair_distances(points, pairs[~apart]))
    assert model.determined_.sum() == 9


def test_no_run_that_was_given_up_is_the_answer():
    """The other side of a cut led to the same minimum, lower by a rounding error, and said it was not converged."""
    rng = np.random.default_rng(0)
    points = rng.random((30, 3))
    pairs = np.argwhere(np.triu(rng.random((30, 30)) < 0.4, 1))
    for _ in range(3):
        distances = pair_distances(points, pairs) + 0.01 * rng.standard_normal(len(pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        DistanceCompletion(random_state=0, noise=0.01).fit_pairs(pairs, np.abs(distances))


def test_pairs_of_weight_zero_do_not_count_in_the_misfit():
    points = np.random.default_rng(0).random((12, 2))
    pairs = np.column_stack(np.triu_indices(12, 1))
    distances, weights = pair_distances(points, pairs), np.ones(len(pairs))
    distances[::3], weights[::3] = 9.0, 0.0
    model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, distances, weights=weights)
    assert model.determined_.all()
    assert model.rmse_ < 1e-12


@pytest.mark.filterwarnings("error::quartic.estimators.MisfitWarning")
def test_weights_say_which_distances_may_be_missed_by_far():
    """A tenth of the distances are a hundred times as noisy, their weights say so, yet those were called wrong."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((80, 3))
    pairs = np.argwhere(np.triu(rng.random((80, 80)) < 0.3, 1))
    distances = pair_distances(points, pairs)
    noise = np.where(rng.random(len(pairs)) < 0.1, 0.3, 0.003)
    noisy = np.abs(distances + noise * rng.standard_normal(len(pairs)))
    model = DistanceCompletion(3, random_state=0)
    with pytest.warns(InconsistentWarning):
        model.fit_pairs(pairs, noisy, weights=(noise * distances) ** -2.0)
    assert model.determined_.all()
    assert -model.score_pairs(pairs, distances) < 0.003


@pytest.mark.filterwarnings("ignore::quartic.estimators.InconsistentWarning")
@pytest.mark.parametrize("d", [1, 2])
def test_points_of_more_dimensions_are_not_determined_in_fewer(d):
    """All were called determined, although a third of each distance was missing, and nothing was said."""
    rng = np.random.default_rng(0)
    points = rng.random((20, d + 1))
    pairs = np.argwhere(np.triu(rng.random((20, 20)) < 0.7, 1))
    distances = pair_distances(points, pairs)
    with pytest.warns(MisfitWarning, match="too few dimensions|far more"):
        model = DistanceCompletion(d, random_state=0).fit_pairs(pairs, distances)
    assert not model.determined_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MisfitWarning)  # noise as large, where it is given
        noisy = distances * rng.uniform(0.7, 1.3, len(pairs))
        noise = float(np.std(noisy - distances))
        model = DistanceCompletion(d + 1, noise=noise, random_state=0).fit_pairs(pairs, noisy)
    assert model.determined_.all()


@pytest.mark.filterwarnings("ignore::quartic.estimators.UndeterminedWarning", "ignore::quartic.estimators.FlatWarning")
@pytest.mark.parametrize("seed", [3, 6, 7])
def test_flat_points_with_rounded_distances_are_not_sure_in_space(seed):
    """Out of their plane they may be off by the root of what is rounded; starts that end there differ by so much."""
    rng = np.random.default_rng(seed)
    points = np.c_[rng.uniform(0, 10, (40, 2)), np.zeros(40)]
    pairs = np.argwhere(np.triu(np.ones((40, 40)), 1))
    pairs = pairs[rng.random(len(pairs)) < 0.4]
    model = DistanceCompletion(3, random_state=0).fit_pairs(pairs, pair_distances(points, pairs).round(6))
    assert not model.determined_.any()
