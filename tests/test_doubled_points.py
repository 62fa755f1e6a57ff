"""Points at distance 0 from each other are one point: joined where the data agree, and never sure of what is wrong."""

import warnings

import numpy as np
import pytest

from quartic import DistanceCompletion
from quartic.datasets import pair_distances
from quartic.distance.data import join_doubled, read_pairs
from quartic.estimators import DistanceWarning, InconsistentWarning
from quartic.metrics import align
from quartic.rigidity import Determination, assess

pytestmark = pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")


def body(n=9, d=2, seed=0):
    """Points with all distances known."""
    T = np.random.default_rng(seed).standard_normal((n, d))
    return T, np.column_stack(np.triu_indices(n, 1))


def error_of_the_sure(model, T):
    sure = model.determined_
    return np.abs(align(model.embedding_[sure], T[sure]) - T[sure]).max() if sure.any() else 0.0


def some_pairs(seed, d, share=0.35):
    g = np.random.default_rng([seed, d])
    n = int(g.integers(10, 26))
    P = np.column_stack(np.triu_indices(n, 1))
    return g, g.standard_normal((n, d)), P[g.random(len(P)) < share], n


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3])
def test_never_sure_of_what_hangs_on_a_distance_of_nothing(d, apart):
    """A point on d − 1 distances may turn, and squares of the distance to its double are flat where it should be."""
    for seed in range(6):
        g = np.random.default_rng([seed, d])
        T, pairs = body(8, d, seed)
        T = np.vstack([T, T[0] + apart * np.linalg.norm(T[0] - T[1]) * g.standard_normal(d) / d])
        pairs = np.vstack([pairs, [[k, 8] for k in range(d + 1)]])
        pairs = pairs[~((pairs == [1, 8]).all(axis=1))]
        model = DistanceCompletion(d, random_state=seed).fit_pairs(pairs, pair_distances(T, pairs))
        X, rigid = model.embedding_ - model.embedding_[:8].mean(axis=0), T - T[:8].mean(axis=0)
        U, _, V = np.linalg.svd(X[:8].T @ rigid[:8])
        error = np.abs(X @ U @ V - rigid).max(axis=1)
        assert model.determined_[:8].all()
        assert error[model.determined_].max() < 2e-8
        assert not model.determined_[8] or model.standard_errors_[8] < 1e-6
        if apart <= 1e-9:
            assert model.determined_[8]


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("copies", [1, 2, 5])
def test_random_graphs_with_doubled_points(d, copies):
    sure = 0
    for seed in range(25):
        g, T, P, n = some_pairs(seed + 100 * copies, d)
        T[g.choice(n, copies, replace=False)] = T[g.integers(n)]
        model = DistanceCompletion(d, random_state=seed).fit_pairs(P, pair_distances(T, P), n_points=n)
        assert error_of_the_sure(model, T) < 1e-6, seed
        sure += model.determined_.sum()
    assert sure > 60


def test_the_case_that_was_sure_and_wrong():
    g = np.random.default_rng([77, 1020, 3])
    n = int(g.integers(12, 40))
    T, P = g.standard_normal((n, 3)), np.column_stack(np.triu_indices(n, 1))
    P = P[g.random(len(P)) < 0.35]
    g = np.random.default_rng(20)
    T[g.integers(n)] = T[g.integers(n)]
    model = DistanceCompletion(3, random_state=20).fit_pairs(P, pair_distances(T, P), n_points=n)
    assert model.determined_[[3, 10]].all()
    assert error_of_the_sure(model, T) < 1e-10
    assert model.standard_errors_[3] == model.standard_errors_[10] < 1e-10


def test_a_chain_of_zeros_shares_its_distances():
    """No member alone has enough of them."""
    T, pairs = body(8)
    T = np.vstack([T, np.repeat([[3.0, 1.0]], 4, axis=0)])
    links = [[8, 9], [9, 10], [10, 11], [0, 8], [1, 9], [2, 10]]
    pairs = np.vstack([pairs, links])
    names = np.array(list("abcdefghijkl"))
    model = DistanceCompletion(2, align_to=T, random_state=0)
    model.fit_pairs([tuple(names[pair]) for pair in pairs], pair_distances(T, pairs))
    at = [list(model.point_names_).index(name) for name in names]
    np.testing.assert_allclose(model.embedding_[at], T, atol=1e-9)
    assert model.determined_.all()
    assert np.ptp(model.embedding_[at[8:]], axis=0).max() == 0
    assert "3 points joined" in model.start_
    assert model.component_.shape == model.determination_.body.shape == (12,)


@pytest.mark.parametrize("power", [-120, 0, 120])
def test_units_weights_and_starts(power):
    T, pairs = body(8)
    T = np.vstack([T, T[2]]) * 2.0**power
    pairs = np.vstack([pairs, [[2, 8], [0, 8]]])
    weights = np.r_[np.full(len(pairs) - 2, 2.0), 1.0, 0.5]
    for init in ("auto", T + 2.0**power * 0.01):
        model = DistanceCompletion(2, init=init, align_to=T, random_state=0)
        model.fit_pairs(pairs, pair_distances(T, pairs), weights=weights)
        assert np.abs(model.embedding_ - T).max() < 1e-8 * 2.0**power
        assert model.determined_.all()
    weights[-2] = 0.0  # the zero does not count: the point hangs on one distance
    assert not DistanceCompletion(2).fit_pairs(pairs, pair_distances(T, pairs), weights=weights).determined_[8]


def test_contradictions_are_told_and_not_joined():
    T, pairs = body(8)
    pairs = np.vstack([pairs, [[0, 8], [3, 8], [4, 8], [5, 8]]])
    distances = pair_distances(np.vstack([T, T[0]]), pairs)
    distances[-1] += 0.3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, distances)
    assert "joined" not in model.start_
    assert model.rmse_ > 1e-3
    assert not model.determined_[8]
    assert any("8" in str(each.message) for each in caught if issubclass(each.category, DistanceWarning))
    inside = np.array([[0, 1], [1, 2], [0, 2], [0, 3], [1, 3], [2, 3]])  # 0 = 1 = 2, but 0 and 2 are apart
    assert join_doubled(read_pairs(inside, [0, 0, 0.5, 1, 1, 1], 4, None, None, None, None, 2)) is None


def test_of_several_only_the_contradicted_stay_apart():
    T, pairs = body(8)
    T = np.vstack([T, T[0], T[1]])
    pairs = np.vstack([pairs, [[0, 8], [1, 9], [3, 8], [4, 9]]])
    distances = pair_distances(T, pairs)
    distances[-1] += 0.3
    joined = join_doubled(read_pairs(pairs, distances, 10, None, None, None, None, 2))
    assert joined.label[8] == joined.label[0]
    assert len(np.unique(joined.label[[1, 9]])) == 2
    assert joined.data.n_points == 9


def test_anchors_and_zeros():
    T, pairs = body(8)
    T = np.vstack([T, T[0], T[5]])
    pairs = np.vstack([pairs, [[0, 8], [5, 9]]])
    distances = pair_distances(T, pairs)
    anchors = {k: T[k] for k in (0, 1, 2, 8)}  # two of them in one place
    model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, distances, anchors=anchors)
    np.testing.assert_allclose(model.embedding_, T, atol=1e-9)
    assert model.determined_.all()
    assert model.standard_errors_[8] == 0
    anchors[8] = T[8] + 0.5
    with pytest.warns(InconsistentWarning, match="between 0 and 8"):
        model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, distances, anchors=anchors)
    np.testing.assert_array_equal(model.embedding_[8], anchors[8])


def test_only_a_room_of_nothing_is_a_zero():
    T, pairs = body(8)
    pairs = np.vstack([pairs, [[0, 8], [3, 8]]])
    d = pair_distances(np.vstack([T, T[0]]), pairs)
    for width, joins in ((0.0, True), (0.2, False)):
        lower, upper = np.where(np.arange(len(d)) < 20, d * 0.9, d), d + np.r_[np.zeros(len(d) - 2), width, 0.0]
        data = read_pairs(pairs, None, None, None, lower, upper, None, 2)
        assert (join_doubled(data) is not None) == joins
        model = DistanceCompletion(2, random_state=0).fit_pairs(pairs, lower=lower, upper=upper)
        found = model.distances(pairs)
        assert (np.maximum(lower - found, found - upper) < 1e-4).all()
        assert (found[-2] == 0) == joins
    both = read_pairs([[0, 1], [0, 2], [1, 2]], None, 3, None, [0, 1, 2], [0, 3, 4], None, 2)
    assert join_doubled(both).data.lower.tolist() == [2]
    assert join_doubled(both).data.upper.tolist() == [3]


def test_under_known_noise_a_zero_is_a_distance_like_others():
    g = np.random.default_rng(0)
    T, pairs = body(20)
    T = np.vstack([T, T[0] + [0.01, 0.0]])
    pairs = np.vstack([pairs, [[k, 20] for k in range(12)]])
    d = np.maximum(pair_distances(T, pairs) + 0.02 * g.standard_normal(len(pairs)), 0.0)
    d[(pairs == [0, 20]).all(axis=1)] = 0.0
    for noise in (0.02, None):  # without, the noise shows in the others
        model = DistanceCompletion(2, noise=noise, random_state=0).fit_pairs(pairs, d)
        assert "joined" not in model.start_
        off = np.linalg.norm(align(model.embedding_, T) - T, axis=1)
        assert off[20] < 5 * model.standard_errors_[20] < 0.2


def test_new_points_at_distance_zero():
    T, pairs = body(8)
    model = DistanceCompletion(2, align_to=T, random_state=0).fit_pairs(pairs, pair_distances(T, pairs))
    D = np.full((2, 8), np.nan)
    D[0, :4] = np.linalg.norm(T[:4] - T[2], axis=1)
    D[1, [0, 1, 2, 3]] = 0.0  # four places at once
    found = model.transform(D)
    np.testing.assert_array_equal(found[0], model.embedding_[2])
    assert np.linalg.norm(T[:4] - found[1], axis=1).min() > 0.1


@pytest.mark.parametrize(("d", "seed", "twins"), [(4, 9, 2), (4, 15, 10), (4, 0, 5), (4, 1, 5)])
def test_twins_whose_distance_is_unknown_count_as_one(d, seed, twins):
    """What hangs on d + 1 points in d places may be reflected, however well the graph is linked."""
    g = np.random.default_rng([seed, d, 8, 5 if twins == 10 else 10 * twins])
    n = int(g.integers(12, 40))
    T, P = g.standard_normal((n, d)), np.column_stack(np.triu_indices(n, 1))
    T[n - twins :] = T[:twins]
    P = P[pair_distances(T, P) > 0]
    P = P[g.random(len(P)) < g.uniform(0.35, 0.6)]
    model = DistanceCompletion(d, random_state=0).fit_pairs(P, pair_distances(T, P), n_points=n)
    assert error_of_the_sure(model, T) < 1e-6
    assert model.determined_.sum() > d + 1


def test_a_hinge_of_twins_lets_a_piece_turn():
    """Bodies that share a pair of twins turn about one place, and with a point more may turn over."""
    T = np.random.default_rng(0).standard_normal((11, 2))
    T[1] = T[0]

    def joined_at(*shared):
        sides = [*shared, *range(3, 8)], [*shared, *range(8, 11)]
        return np.array([(i, j) for side in sides for i in side for j in side if i < j and (i, j) != (0, 1)])

    pairs = joined_at(0, 1, 2)
    assert assess(pairs, T).determined.tolist() == [True] * 8 + [False] * 3
    assert assess(pairs, T, anchors=[3, 8]).determined.all()  # the distance between anchors is known
    pairs = joined_at(0, 1)
    far = pairs[~((pairs[:, 0] < 2) & np.isin(pairs[:, 1], [3, 8]))]
    everyone, anchors, place = np.ones(11, dtype=bool), np.array([3, 8]), np.array([0, *range(10)])
    found = Determination.of_all(~everyone, 2, 2).proved_by_itself(everyone, far, anchors, place)
    for account in (found, assess(far, T, anchors=anchors)):  # each body may be reflected, or turn about its anchor
        assert account.determined.nonzero()[0].tolist() == [3, 8]
