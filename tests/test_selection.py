"""How many clusters: the right number where it is known, and each criterion against brute force."""

import sys
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform

from quartic import RankSelection, select_rank
from quartic.clustering.selection import (
    _best_prediction,
    _cophenetic,
    _leading_eigenvalues,
    _most_stable,
    _Pairs,
)
from quartic.datasets import block_model, karate, planted_graph
from quartic.graphs import normalize

SEED = {"random_state": 0}


# -- the right number -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_five_planted_communities(seed):
    M, _ = planted_graph(500, 5, random_state=seed)
    found = select_rank(M, range(2, 9), n_runs=4, random_state=seed)
    assert found.best == 5
    assert found.votes == {"eigengap": 5, "stability": 5, "held_out": 5}


def test_five_blocks_of_raw_ones():
    A, _ = block_model([60] * 5, 0.3, 0.05, random_state=1)
    assert select_rank(A, range(2, 9), n_runs=4, **SEED).best == 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_karate(seed):
    assert select_rank(karate().adjacency, range(2, 7), random_state=seed).best == 2


@pytest.mark.parametrize(("seed", "normalized"), [(0, False), (1, False), (0, True)])  # of (1, True) 11 are found
def test_thirteen_communities_with_hubs(seed, normalized):
    """Of unequal sizes, degrees drawn from a power law; the raw matrix has two eigenvalues that stand out."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(13, 900, p=rng.dirichlet(np.full(13, 8.0)))
    pull = rng.pareto(2.5, 900) + 0.3
    chance = np.where(labels[:, None] == labels, 0.15, 0.006) * np.outer(pull, pull) / pull.mean() ** 2
    B = np.triu(rng.random((900, 900)) < chance, 1).astype(float)
    A = normalize(B + B.T) if normalized else B + B.T
    assert abs(select_rank(A, range(2, 20), n_runs=3, random_state=seed).best - 13) <= 1


def test_no_communities():
    M, _ = planted_graph(300, 1, random_state=0)
    found = select_rank(M, range(1, 5), n_runs=4, **SEED)
    assert found.best == 1
    assert np.isnan(found.stability[0])
    assert np.isnan(found.cophenetic[0])


# -- the criteria -----------------------------------------------------------------------------------------------------


def test_held_out_error_against_all_pairs():
    """The zeros are never listed; here they are."""
    rng = np.random.default_rng(0)
    A = sp.random_array((30, 30), density=0.2, rng=rng)
    A = sp.csr_array(A + A.T)
    X = rng.random((30, 3))
    pairs, share = _Pairs(A), 0.3
    held = pairs.draw(share, rng)
    M, Y = A.toarray(), X @ X.T
    expected = 0.0
    for i, j, out in zip(pairs.i, pairs.j, held, strict=True):
        expected += (M[i, j] - Y[i, j]) ** 2 if out else 0.0
    for i in range(30):
        for j in range(i + 1, 30):
            expected += share * Y[i, j] ** 2 if M[i, j] == 0 else 0.0
    expected /= share * (np.triu(M, 1) ** 2).sum()
    assert pairs.error(X, held, share) == pytest.approx(expected, rel=1e-12)


def test_what_is_factorised_has_M_as_its_mean():
    A = sp.csr_array(karate().adjacency + sp.eye_array(34))
    pairs, rng, draws = _Pairs(A), np.random.default_rng(0), 400
    mean = sum(pairs.without(pairs.draw(0.2, rng), 0.2).toarray() for _ in range(draws)) / draws
    M = A.toarray()
    np.testing.assert_array_equal(np.diag(mean), np.diag(M))
    np.testing.assert_array_equal(mean == 0, M == 0)
    np.testing.assert_allclose(mean, mean.T, atol=1e-12)
    # an entry is 1/0.8 with probability 0.8: deviation 0.5, and five of its standard errors
    assert abs(mean - M).max() < 5 * 0.5 / np.sqrt(draws)


def test_held_out_pairs_are_not_seen():
    pairs = _Pairs(sp.csr_array(karate().adjacency))
    held = pairs.draw(0.3, np.random.default_rng(0))
    assert 0 < held.sum() < len(held)
    rest = pairs.without(held, 0.3).toarray()
    assert (rest[pairs.i[held], pairs.j[held]] == 0).all()
    assert (rest[pairs.j[held], pairs.i[held]] == 0).all()


def test_lanczos_against_all_eigenvalues():
    M, _ = planted_graph(400, 5, random_state=0)
    expected = np.linalg.eigvalsh(M.toarray())[::-1][:9]
    np.testing.assert_allclose(_leading_eigenvalues(M, 9, np.random.default_rng(0)), expected, atol=1e-6)


def test_cophenetic_against_the_consensus_matrix():
    labels = np.random.default_rng(0).integers(3, size=(5, 20))
    consensus = (labels[:, :, None] == labels[:, None, :]).mean(axis=0)
    distances = squareform(1 - consensus)
    expected = cophenet(linkage(distances, "average"), distances)[0]
    assert _cophenetic(labels) == pytest.approx(expected)
    assert expected < 0.9
    assert _cophenetic(np.tile(labels[0], (4, 1))) == pytest.approx(1.0)
    assert _cophenetic(np.zeros((3, 5), dtype=int)) == 1.0


def test_votes():
    ranks = np.array([2, 3, 5])
    assert _most_stable(ranks, np.array([1.0, 0.995, 0.9])) == 3
    assert _most_stable(ranks, np.array([np.nan, 0.5, 0.9])) == 5
    # rank 5 is the best on average, but not more than its doubt allows; rank 2 is worse in every run
    errors = np.array([[2.0, 2.1, 2.0], [1.0, 1.2, 1.0], [1.1, 1.0, 1.0]])
    assert _best_prediction(ranks, errors) == 3


def test_the_median_decides():
    found = select_rank(karate().adjacency, range(2, 7), n_runs=3, **SEED)
    assert found.best == np.median(list(found.votes.values()))
    np.testing.assert_allclose(found.held_out, found.held_out_errors.mean(axis=1))
    np.testing.assert_allclose(found.held_out_se, found.held_out_errors.std(axis=1, ddof=1) / np.sqrt(3))
    np.testing.assert_allclose(found.eigengap, found.eigenvalues[1:6] - found.eigenvalues[2:7])


# -- use --------------------------------------------------------------------------------------------------------------


def same(one, other):
    for name in ("eigenvalues", "stability", "cophenetic", "held_out_errors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    return one.best == other.best


def test_jobs_and_seeds():
    first = select_rank(karate().adjacency, [2, 3], n_runs=3, **SEED)
    assert same(first, select_rank(karate().adjacency, [3, 2, 2], n_runs=3, n_jobs=2, **SEED))
    other = select_rank(karate().adjacency, [2, 3], n_runs=3, random_state=1)
    assert not np.array_equal(first.held_out_errors, other.held_out_errors)


def test_input_as_it_comes():
    A = karate().adjacency
    expected = select_rank(A, [2, 3], n_runs=2, **SEED)
    for M in (A.toarray(), pd.DataFrame(A.toarray()), nx.from_scipy_sparse_array(A)):
        assert same(expected, select_rank(M, [2, 3], n_runs=2, **SEED))


def test_all_ranks_of_a_small_matrix():
    M = np.kron(np.eye(2), np.ones((2, 2))) + 0.1
    found = select_rank(M, range(1, 5), n_runs=2, **SEED)
    assert len(found.eigenvalues) == 4
    assert np.isnan(found.eigengap[-1])


def test_table_and_plot():
    found = select_rank(karate().adjacency, range(1, 4), n_runs=2, **SEED)
    assert isinstance(found, RankSelection)
    marked = [line for line in found.table().splitlines() if line.startswith("*")]
    assert len(marked) == 1
    assert int(marked[0].split()[1]) == found.best
    figure = found.plot()
    assert [axes.get_title() for axes in figure.axes] == ["Eigenvalues", "Stability over seeds", "Held-out error"]
    np.testing.assert_array_equal(figure.axes[2].lines[0].get_ydata(), found.held_out)
    figure.draw_without_rendering()
    sys.modules["matplotlib.pyplot"].close(figure)


def test_plot_is_the_figure_that_pyplot_saves(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib")
    plt.switch_backend("agg")
    found = select_rank(karate().adjacency, [2, 3], n_runs=2, **SEED)
    figure = found.plot()
    try:
        assert plt.gcf() is figure
        plt.savefig(tmp_path / "ranks.png")
        image = plt.imread(tmp_path / "ranks.png")[..., :3]
        assert (image.min(axis=2) < 0.5).mean() > 0.005  # lines and letters, not a blank page
    finally:
        plt.close(figure)


def test_plot_without_matplotlib(monkeypatch):
    found = select_rank(karate().adjacency, [2], n_runs=2, **SEED)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install"):
        found.plot()


def test_memory_is_sparse():
    """The pairs of 20,000 nodes would take 1.6 GB."""
    M, _ = planted_graph(20_000, 3, degree=5, random_state=0)
    tracemalloc.start()
    try:
        found = select_rank(M, [3], n_runs=2, max_iter=20, **SEED)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.best == 3
    assert peak < 100e6


@pytest.mark.parametrize(
    ("M", "ranks", "settings", "error", "words"),
    [
        (np.ones((4, 4)), [], {}, ValueError, "ranks is empty"),
        (np.ones((4, 4)), [0], {}, ValueError, "between 1 and the number of nodes, 4, got 0"),
        (np.ones((4, 4)), [2, 5], {}, ValueError, "got 5"),
        (np.ones((4, 4)), [2.0], {}, TypeError, "integers, got 2.0"),
        (np.ones((4, 4)), [2], {"n_runs": 1}, ValueError, "n_runs"),
        (np.ones((4, 4)), [2], {"held_out": 1.0}, ValueError, "held_out"),
        (np.ones((4, 4)), [2], {"solver": "newton"}, ValueError, "unknown solver"),
        (np.eye(4), [2], {}, ValueError, "zero off its diagonal"),
        (np.triu(np.ones((4, 4))), [2], {}, ValueError, "undirected"),
        (np.ones((4, 3)), [2], {}, ValueError, "square"),
    ],
)
def test_errors(M, ranks, settings, error, words):
    with pytest.raises(error, match=words):
        select_rank(M, ranks, **settings)
