"""How many clusters: the right number where it is known, and each criterion against brute force."""

import math
import sys
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.neighbors import kneighbors_graph

from quartic import RankSelection, select_rank
from quartic.clustering.refinement import BlockModel
from quartic.clustering.selection import _leading_eigenvalues, has_neighbors
from quartic.datasets import block_model, karate, planted_graph
from quartic.graphs import normalize, similarity
from strips import strips

SEED = {"random_state": 0}


# -- the right number -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_five_planted_communities(seed):
    M, _ = planted_graph(500, 5, random_state=seed)
    found = select_rank(M, range(2, 9), random_state=seed)
    assert found.best == 5
    assert found.votes == {"eigengap": 5, "communities": 5}


def test_five_blocks_of_raw_ones():
    A, _ = block_model([60] * 5, 0.3, 0.05, random_state=1)
    assert select_rank(A, range(2, 9), **SEED).best == 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_karate(seed):
    assert select_rank(karate().adjacency, range(2, 7), random_state=seed).best == 2


@pytest.mark.parametrize(("seed", "normalized"), [(0, False), (1, False), (0, True), (1, True)])
def test_thirteen_communities_with_hubs(seed, normalized):
    """Of unequal sizes, degrees drawn from a power law; the raw matrix has two eigenvalues that stand out."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(13, 900, p=rng.dirichlet(np.full(13, 8.0)))
    pull = rng.pareto(2.5, 900) + 0.3
    chance = np.where(labels[:, None] == labels, 0.15, 0.006) * np.outer(pull, pull) / pull.mean() ** 2
    B = np.triu(rng.random((900, 900)) < chance, 1).astype(float)
    A = normalize(B + B.T) if normalized else B + B.T
    assert abs(select_rank(A, range(2, 20), random_state=seed).best - 13) <= 1


@pytest.mark.parametrize("normalized", [False, True])
def test_twelve_small_communities(normalized):
    """Of ten nodes each, about: the spectrum shows nine."""
    A, _ = block_model([9, 8, 11, 12, 10, 13, 8, 10, 12, 7, 10, 5], 0.78, 0.035, random_state=100)
    assert abs(select_rank(normalize(A) if normalized else A, range(2, 25), **SEED).best - 12) <= 1


def test_communities_whose_sizes_follow_a_power_law():
    G = nx.LFR_benchmark_graph(1000, 3, 1.5, 0.1, average_degree=10, min_community=20, seed=200)
    k = len({min(G.nodes[node]["community"]) for node in G})
    assert abs(select_rank(G, range(2, 2 * k), **SEED).best - k) <= 0.1 * k


@pytest.mark.parametrize("seed", range(4))
def test_no_communities(seed):
    M, _ = planted_graph(300, 1, random_state=seed)
    found = select_rank(M, range(1, 5), random_state=seed)
    assert found.best == 1


@pytest.mark.parametrize("k", [2, 20, 45])
def test_many_planted_communities(k):
    """Of which Schwarz's criterion for the rates between blocks finds too few."""
    A, _ = block_model([max(40, 200 // k)] * k, 9 / max(40, 200 // k), 6 / (k * max(40, 200 // k)), random_state=k)
    assert select_rank(A, range(1, 2 * k + 6), **SEED).best == k


@pytest.mark.parametrize(("k", "dimension", "spread"), [(4, 3, 1.0), (7, 3, 1.2), (12, 6, 1.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_neighbours_of_gaussian_clusters(k, dimension, spread, weighted):
    """Any part of such a cluster is a block: likelihoods see no end."""
    X, _ = make_blobs(100 * k, dimension, centers=k, cluster_std=spread, random_state=12)
    A = kneighbors_graph(X, 10)
    found = select_rank(similarity(X, "self_tuning") if weighted else A.maximum(A.T), range(2, 2 * k + 3), **SEED)
    assert found.neighbors
    assert found.best == k


# -- the criteria -----------------------------------------------------------------------------------------------------


def test_weights_that_are_noise_change_nothing():
    """As numbers of edges they left 2 of 6 communities."""
    A, _ = block_model([100] * 6, 0.09, 0.006, random_state=0)
    upper = sp.triu(A, 1, format="coo")
    upper.data = np.random.default_rng(0).lognormal(0, 1.5, upper.nnz)
    assert select_rank(sp.csr_array(upper + upper.T), range(2, 13), random_state=0).best == 6


def test_lanczos_against_all_eigenvalues():
    M, _ = planted_graph(400, 5, random_state=0)
    expected = np.linalg.eigvalsh(M.toarray())[::-1][:9]
    np.testing.assert_allclose(_leading_eigenvalues(M, 9, np.random.default_rng(0)), expected, atol=1e-6)


def ways(cells, total):
    """The logarithm of the ways to share out ``total`` things among ``cells``."""
    return math.log(math.comb(int(cells + total - 1), int(total)))


def test_evidence_against_factorials():
    """At the largest rank nothing has been joined, and labels are those of the blocks, which leave no doubt."""
    A, labels = block_model([40, 30, 30], 0.5, 0.02, random_state=0)
    found = select_rank(A, [3], **SEED)
    e = np.array([[int(A[labels == r][:, labels == s].sum()) for s in range(3)] for r in range(3)])
    m, n, size, kappa = A.nnz // 2, 100, [40, 30, 30], e.sum(axis=1)
    log = lambda k: math.log(math.factorial(int(k)))  # noqa: E731
    inside, ends = np.diag(e) // 2, kappa - np.diag(e)
    shared = sum(log(i) + i * math.log(2) for i in inside) - log(n) - math.log(math.comb(n - 1, 2))
    shared += sum(log(s) + log(s - 1) - log(s + k - 1) for s, k in zip(size, kappa, strict=True))
    between = m - inside.sum()
    # All pairings of the ends, and the share of them with no pair inside.
    pairings = log(2 * between) - between * math.log(2) - log(between)
    pairings += between * math.log(1 - ((ends / (2 * between)) ** 2).sum())
    stay = math.lgamma(inside.sum() + 1) + math.lgamma(between + 1) - math.lgamma(m + 2)
    for k, i in zip(kappa, inside, strict=True):
        stay += math.lgamma(k / 2 + 1) - math.lgamma(i + 1) - math.lgamma(k / 2 - i + 1)
    communities = stay + sum(map(log, ends)) - pairings - ways(3, 2 * m)
    assert found.communities[0] == pytest.approx((shared + communities) / (2 * m), rel=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_triangles_of_blocks_are_explained_and_those_of_neighbours_are_not(seed):
    A, labels = block_model([150] * 4, 0.08, 0.01, random_state=seed)
    assert not has_neighbors(BlockModel(A, labels, 4))
    X, y = make_blobs(600, 4, centers=4, random_state=seed)
    K = sp.csr_array(kneighbors_graph(X, 10).maximum(kneighbors_graph(X, 10).T))
    assert has_neighbors(BlockModel(K, y, 4))


def test_negative_weights_leave_the_eigenvalues():
    A, _ = block_model([40, 40], 0.4, 0.05, random_state=0)
    A = sp.csr_array(A - 0.05 * (np.ones((80, 80)) - np.eye(80)))
    found = select_rank(A, range(1, 4), **SEED)
    assert list(found.votes) == ["eigengap"]
    assert np.isnan(found.communities).all()


def test_the_likelihood_decides():
    found = select_rank(karate().adjacency, range(2, 7), **SEED)
    assert found.best == found.votes["communities"] == found.ranks[found.communities.argmax()]
    np.testing.assert_allclose(found.eigengap, found.eigenvalues[1:6] - found.eigenvalues[2:7])


# -- use --------------------------------------------------------------------------------------------------------------


def same(one, other):
    for name in ("eigenvalues", "communities"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    return one.best == other.best


def test_seeds_and_runs():
    first = select_rank(karate().adjacency, [2, 3, 5], **SEED)
    assert same(first, select_rank(karate().adjacency, [5, 3, 2, 2], **SEED))
    more = select_rank(karate().adjacency, [2, 3, 5], n_runs=3, **SEED)
    assert (more.communities >= first.communities).all()


def test_input_as_it_comes():
    A = karate().adjacency
    expected = select_rank(A, [2, 3], **SEED)
    for M in (A.toarray(), pd.DataFrame(A.toarray()), nx.from_scipy_sparse_array(A)):
        assert same(expected, select_rank(M, [2, 3], **SEED))


def test_all_ranks_of_a_small_matrix():
    M = np.kron(np.eye(2), np.ones((2, 2))) + 0.1
    found = select_rank(M, range(1, 5), **SEED)
    assert len(found.eigenvalues) == 4
    assert np.isnan(found.eigengap[-1])


def test_table_and_plot():
    found = select_rank(karate().adjacency, range(1, 4), **SEED)
    assert isinstance(found, RankSelection)
    marked = [line for line in found.table().splitlines() if line.startswith("*")]
    assert len(marked) == 1
    assert int(marked[0].split()[1]) == found.best
    figure = found.plot()
    assert [axes.get_title() for axes in figure.axes] == ["Eigenvalues", "Likelihood of communities"]
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_ydata(), found.communities)
    figure.draw_without_rendering()
    sys.modules["matplotlib.pyplot"].close(figure)


def test_plot_is_the_figure_that_pyplot_saves(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib")
    plt.switch_backend("agg")
    found = select_rank(karate().adjacency, [2, 3], **SEED)
    figure = found.plot()
    try:
        assert plt.gcf() is figure
        plt.savefig(tmp_path / "ranks.png")
        image = plt.imread(tmp_path / "ranks.png")[..., :3]
        assert (image.min(axis=2) < 0.5).mean() > 0.005  # lines and letters, not a blank page
    finally:
        plt.close(figure)


def test_plot_without_matplotlib(monkeypatch):
    found = select_rank(karate().adjacency, [2], **SEED)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install"):
        found.plot()


def test_memory_is_sparse():
    """The pairs of 20,000 nodes would take 1.6 GB."""
    M, _ = planted_graph(20_000, 3, degree=5, random_state=0)
    tracemalloc.start()
    try:
        found = select_rank(M, [3], max_iter=20, **SEED)
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
        (np.ones((4, 4)), [2], {"n_runs": 0}, ValueError, "n_runs"),
        (np.ones((4, 4)), [2], {"solver": "newton"}, ValueError, "unknown solver"),
        (np.eye(4), [2], {}, ValueError, "zero off its diagonal"),
        (np.triu(np.ones((4, 4))), [2], {}, ValueError, "undirected"),
        (np.ones((4, 3)), [2], {}, ValueError, "square"),
    ],
)
def test_errors(M, ranks, settings, error, words):
    with pytest.raises(error, match=words):
        select_rank(M, ranks, **settings)


def test_a_normalised_graph_is_judged_as_the_graph_itself():
    """Of weights too: factors of the nodes are taken out of both."""
    rng = np.random.default_rng(0)
    A, _ = block_model([30, 40, 60, 80], 0.3, 0.03, random_state=0)
    W = sp.triu(A, 1, format="csr")
    W.data = rng.gamma(3, 1, W.nnz)
    W = sp.csr_array(W + W.T)
    plain, even = (select_rank(G, range(2, 9), **SEED) for G in (W, normalize(W)))
    assert plain.best == even.best == 4
    np.testing.assert_allclose(plain.communities, even.communities, rtol=1e-5)


def test_what_communities_share_is_no_community():
    """Two circles and the people in both: three blocks, of rank two."""
    rng = np.random.default_rng(0)
    belongs = np.repeat([[1, 0], [0, 1], [1, 1]], [70, 70, 40], axis=0)
    B = np.triu(rng.random((180, 180)) < 1 - 0.6 ** (belongs @ belongs.T) * 0.98, 1).astype(float)
    found = select_rank(B + B.T, range(2, 7), **SEED)
    assert found.ranks[found.communities.argmax()] == 3
    assert found.votes["communities"] == found.best == 2


@pytest.mark.parametrize("n_pieces", [40, 150])
def test_small_components_are_no_clusters(n_pieces):
    rng = np.random.default_rng(4)
    pieces = [np.ones((m, m)) - np.eye(m) for m in rng.integers(2, 8, size=n_pieces)]
    blocks = block_model([60] * 12, 0.12, 0.006, random_state=4)[0]
    A = sp.block_diag([blocks, *pieces, np.zeros((20, 20))], format="csr")
    assert select_rank(A, range(2, 25), **SEED).best == 12


def test_as_many_clusters_as_large_components():
    """Strips of neighbours: the largest gap follows a few of the long ones, 2 and 3 of 6 at these draws."""
    for seed in (2, 3):
        assert select_rank(strips(seed)[0], range(2, 13), random_state=0).best == 6


def test_components_that_are_all_small_are_clusters():
    A = sp.block_diag([np.ones((4, 4)) - np.eye(4)] * 6, format="csr")
    assert select_rank(A, range(2, 9), **SEED).best == 6
