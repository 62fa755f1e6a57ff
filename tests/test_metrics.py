"""Measures against brute force and scikit-learn."""

from itertools import permutations

import numpy as np
import pytest

from quartic.metrics import align, ari, clustering_accuracy, nmi, normalized_rmse, purity, rmsd


@pytest.mark.parametrize(("classes", "clusters"), [(4, 4), (3, 5), (5, 3), (1, 4), (4, 1)])
def test_accuracy_and_purity_by_brute_force(classes, clusters):
    generator = np.random.default_rng(classes * 10 + clusters)
    true, pred = generator.integers(classes, size=50), generator.integers(clusters, size=50)
    names = range(max(classes, clusters))
    best = max(np.mean(np.array(way)[pred] == true) for way in permutations(names))
    assert clustering_accuracy(true, pred) == pytest.approx(best, abs=1e-15)
    pure = sum(np.bincount(true[pred == c]).max() for c in np.unique(pred)) / 50
    assert purity(true, pred) == pytest.approx(pure, abs=1e-15)


def test_names_of_labels_do_not_matter():
    true = np.array([0, 0, 1, 1, 2, 2, 2])
    pred = np.array(["x", "x", "z", "z", "y", "y", "z"])
    for measure in (clustering_accuracy, purity, nmi, ari):
        value = measure(true, pred)
        assert isinstance(value, float)
        assert measure(true + 100, pred) == value
        assert measure(true, true) == 1.0
        assert value < 1.0
    assert clustering_accuracy(true, pred) == 6 / 7


def test_information_measures_are_those_of_scikit_learn():
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    generator = np.random.default_rng(1)
    true, pred = generator.integers(4, size=200), generator.integers(6, size=200)
    assert nmi(true, pred) == pytest.approx(normalized_mutual_info_score(true, pred), abs=1e-14)
    assert ari(true, pred) == pytest.approx(adjusted_rand_score(true, pred), abs=1e-14)
    # Labels given as floats must not be taken for a regression.
    assert ari(true.astype(float), pred / 7) == ari(true, pred)


@pytest.mark.parametrize("measure", [clustering_accuracy, purity, nmi, ari])
@pytest.mark.parametrize(
    ("true", "pred", "words"),
    [
        ([0, 1], [0], "same length"),
        ([], [], "non-empty"),
        ([[0, 1]], [[0, 1]], "1-D"),
        ([0, 1], [0, np.nan], r"labels_pred\[1\]"),
    ],
)
def test_bad_labels(measure, true, pred, words):
    with pytest.raises(ValueError, match=words):
        measure(true, pred)


def all_pairs_rmse(X, Y):
    i, j = np.triu_indices(len(X), 1)
    found, true = np.linalg.norm(X[i] - X[j], axis=1), np.linalg.norm(Y[i] - Y[j], axis=1)
    return np.sqrt(np.mean((found - true) ** 2) / np.mean(true**2))


@pytest.mark.parametrize("n", [2, 3, 100, 1500])
def test_rmse_over_all_pairs(n):
    generator = np.random.default_rng(n)
    X, Y = generator.standard_normal((n, 3)), generator.standard_normal((n, 2))
    assert normalized_rmse(X, Y) == pytest.approx(all_pairs_rmse(X, Y), rel=1e-12)


def test_rmse_blocks_meet(monkeypatch):
    import quartic.metrics

    monkeypatch.setattr(quartic.metrics, "BLOCK", 64)
    generator = np.random.default_rng(0)
    X, Y = generator.standard_normal((37, 3)), generator.standard_normal((37, 3))
    assert normalized_rmse(X, Y) == pytest.approx(all_pairs_rmse(X, Y), rel=1e-12)


def test_rmse_of_a_sample(monkeypatch):
    import quartic.metrics

    generator = np.random.default_rng(0)
    Y = generator.standard_normal((500, 3))
    X = Y + 0.1 * generator.standard_normal((500, 3))
    exact = normalized_rmse(X, Y)
    monkeypatch.setattr(quartic.metrics, "ALL_PAIRS_UP_TO", 499)
    sampled = normalized_rmse(X, Y, n_sample=10**6)
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=0.01)  # 1e6 draws of terms whose spread is about their mean
    assert sampled == normalized_rmse(X, Y, n_sample=10**6)
    assert sampled != normalized_rmse(X, Y, n_sample=10**6, random_state=1)


def test_rmse_ignores_rigid_motion_and_unit():
    generator = np.random.default_rng(2)
    Y = generator.standard_normal((200, 3))
    Q = np.linalg.qr(generator.standard_normal((3, 3)))[0]
    assert normalized_rmse(Y @ Q + 5, Y) < 1e-14
    for unit in (1e-180, 1e180):
        assert normalized_rmse(1.25 * unit * Y, unit * Y) == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [
        (np.ones((3, 2)), np.ones((3, 2)), "zero"),
        (np.ones((3, 2)), np.ones((4, 2)), "same points"),
        (np.ones((1, 2)), np.ones((1, 2)), "two points"),
        (np.array([[np.nan, 1], [1, 1]]), np.eye(2), "finite"),
    ],
)
def test_rmse_names_the_fault(X, Y, words):
    with pytest.raises(ValueError, match=words):
        normalized_rmse(X, Y)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_align_undoes_a_rigid_motion(dimension):
    generator = np.random.default_rng(dimension)
    Y = generator.standard_normal((20, dimension))
    Q = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
    X = Y @ Q + generator.standard_normal(dimension)
    np.testing.assert_allclose(align(X, Y), Y, atol=1e-12)
    if np.linalg.det(Q) > 0:
        X[:, 0] *= -1  # now only a reflection helps
    assert rmsd(X, Y) < 1e-12
    assert rmsd(X, Y, reflection=False) > 0.1


def test_align_is_optimal_and_does_not_scale():
    from scipy.spatial.transform import Rotation

    generator = np.random.default_rng(3)
    X, Y = generator.standard_normal((15, 3)), generator.standard_normal((15, 3))
    # scipy's own solution of the problem without reflection
    rotation, distance = Rotation.align_vectors(Y - Y.mean(0), X - X.mean(0))
    np.testing.assert_allclose(align(X, Y, reflection=False), rotation.apply(X - X.mean(0)) + Y.mean(0), atol=1e-10)
    assert rmsd(X, Y, reflection=False) == pytest.approx(distance / np.sqrt(15), rel=1e-10)
    moved = align(X, Y)
    np.testing.assert_allclose(np.linalg.norm(moved[0] - moved[1]), np.linalg.norm(X[0] - X[1]))
    assert rmsd(X, Y) <= rmsd(X, Y, reflection=False)
    assert rmsd(X, Y, superpose=False) == pytest.approx(np.sqrt(((X - Y) ** 2).sum() / 15))


def test_align_names_the_fault():
    for call in (align, rmsd, lambda X, Y: rmsd(X, Y, superpose=False)):
        with pytest.raises(ValueError, match="same shape"):
            call(np.ones((3, 2)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="no points"):
        align(np.ones((0, 2)), np.ones((0, 2)))
