"""Points in special positions: nothing is called determined that could be elsewhere, or is off beyond its error."""

import numpy as np
import pytest

from quartic import DistanceCompletion
from quartic.datasets import pair_distances
from quartic.metrics import align

pytestmark = [
    pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # loose points of flat data are slow
]


def fit(T, pairs, seed=0):
    """Return a fit, and by how much each point called determined is off beyond what its standard error allows."""
    d = pair_distances(T, pairs)
    model = DistanceCompletion(T.shape[1], random_state=seed).fit_pairs(pairs, d, n_points=len(T))
    sure = np.flatnonzero(model.determined_)
    if len(sure) == 0:
        return model, np.zeros(0)
    error = np.linalg.norm(align(model.embedding_[sure], T[sure]) - T[sure], axis=1)
    return model, error - 6 * model.standard_errors_[sure] - 2e-6 * np.sqrt(np.mean(d**2))


def known_within(T, radius):
    i, j = np.triu_indices(len(T), 1)
    near = np.linalg.norm(T[i] - T[j], axis=1) < radius
    return np.column_stack([i, j])[near]


@pytest.mark.parametrize("offset", [0.0, 1e-8, 1e-5])
def test_what_hangs_on_points_that_may_be_elsewhere_is_not_determined(offset):
    """On a grid many cuts are flat: what is left beside them must be fixed by the pairs among itself."""
    T = np.stack(np.meshgrid(*[np.arange(6.0)] * 2), -1).reshape(-1, 2)
    for seed in [*range(8), 136, 145, 158, 159]:
        g = np.random.default_rng([seed, 2, 6])
        Y = T + offset * g.standard_normal(T.shape)
        pairs = known_within(Y, g.choice([1.5, 2.1, 2.3, 2.9]))
        _, excess = fit(Y, pairs[g.random(len(pairs)) < g.uniform(0.6, 1)], seed)
        assert (excess <= 0).all()


@pytest.mark.parametrize("d", [2, 3])
def test_a_small_piece_behind_a_thin_wall_is_seen(d):
    """A piece of 1 to 5 per cent of the points, linked to the others only through 5 to 10 per cent in a hyperplane."""
    for seed in range(5):
        g = np.random.default_rng([seed, d, 11])
        n = int(g.integers(150, 400))
        wall, piece = max(d + 2, int(n * g.uniform(0.05, 0.1))), max(1, int(n * g.uniform(0.01, 0.05)))
        T = g.standard_normal((n, d))
        T[:wall, -1] = 0.0
        side = np.zeros(n, dtype=int)
        side[:wall], side[wall : wall + piece] = 2, 1
        pairs = np.column_stack(np.triu_indices(n, 1))
        one, other = side[pairs].T
        pairs = pairs[~((one + other == 1) & (one != other))]
        share = np.where((side[pairs] == 1).any(axis=1), 0.6, g.choice([0.1, 0.3]))
        model, excess = fit(T, pairs[g.random(len(pairs)) < share], seed)
        assert (excess <= 0).all()
        assert model.determined_.sum() >= n - piece - wall


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("offset", [0.0, 1e-12, 1e-8, 1e-6])
def test_points_of_a_smaller_space_are_found_in_it(d, offset):
    """Across a hyperplane that holds all points squares are flat: there a misfit of 1e-8 hides 1e-4."""
    for seed in range(5):
        g = np.random.default_rng([seed, d, 8])
        n = int(g.integers(12, 30))
        T = g.standard_normal((n, d))
        T[:, -1] = offset * g.standard_normal(n)
        pairs = np.column_stack(np.triu_indices(n, 1))
        assert (fit(T, pairs[g.random(len(pairs)) < g.uniform(0.3, 0.6)], seed)[1] <= 0).all()


@pytest.mark.parametrize("offset", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("seed", [37, 71, 80, 87, 101, 111, 217])
def test_a_point_on_the_wrong_side_of_a_line_of_points_is_within_its_error(seed, offset):
    """Reflecting it misses distances by the square of the offset, which counts as met: no small step shows it."""
    g = np.random.default_rng([seed, 2, 9])
    n = int(g.integers(12, 30))
    T = g.standard_normal((n, 2))
    T[:, -1] *= offset
    pairs = np.column_stack(np.triu_indices(n, 1))
    _, excess = fit(T, pairs[g.random(len(pairs)) < g.uniform(0.3, 0.6)], seed)
    assert (excess <= 0).all()


@pytest.mark.parametrize("seed", [0, 176, 268, 336, 352])
def test_a_fold_of_a_grid_that_nearly_fits_is_not_taken_for_the_answer(seed):
    """A fold misses distances by as little as the points are off their places, 1e-8 of the size: that counts as met."""
    g = np.random.default_rng(seed)
    d = 2 if seed % 3 else 3
    shape = g.integers(3, 8 if d == 2 else 5, size=d)
    T = np.stack(np.meshgrid(*[np.arange(float(k)) for k in shape], indexing="ij"), -1).reshape(-1, d)
    T = T + 1e-8 * np.sqrt(np.mean(np.sum((T - T.mean(axis=0)) ** 2, axis=1))) * g.standard_normal(T.shape)
    radius, share, i, j = g.choice([1.1, 1.5, 2.05, 2.3, 2.9]), g.uniform(0.5, 1.0), *np.triu_indices(len(T), 1)
    kept = (np.linalg.norm(T[i] - T[j], axis=1) < radius) & (g.random(len(i)) < share)
    assert (fit(T, np.column_stack([i, j])[kept], seed)[1] <= 0).all()
