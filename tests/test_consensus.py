"""What runs agree on, against all pairs of nodes; trees of clusters, against joins by brute force."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from scipy.special import xlogy

from quartic.clustering.consensus import find_consensus, join_clusters
from quartic.clustering.refinement import BlockModel
from quartic.datasets import block_model, karate
from quartic.metrics import clustering_accuracy


def test_consensus_against_all_pairs():
    A = karate().adjacency
    found = find_consensus(A, 4, n_runs=4, random_state=0)
    same = found.runs[:, :, None] == found.runs[:, None, :]  # of each run, who is with whom
    edges = A.toarray() > 0
    np.testing.assert_allclose(found.together.toarray()[edges], same.mean(axis=0)[edges])
    pairs = [(a, b) for a in range(4) for b in range(a)]
    jaccard = [(same[a] & same[b]).sum(axis=1) / (same[a] | same[b]).sum(axis=1) for a, b in pairs]
    np.testing.assert_allclose(found.stability, np.mean(jaccard, axis=0))
    assert any((found.labels == run).all() for run in found.runs)
    assert (found.runs != found.runs[0]).any()
    again = find_consensus(A, 4, n_runs=4, random_state=0)
    np.testing.assert_array_equal(found.runs, again.runs)


def test_sure_and_unsure():
    A, labels = block_model([60, 60, 60], 0.3, 0.02, random_state=0)
    sure = find_consensus(A, 3, n_runs=4, random_state=0)
    assert clustering_accuracy(labels, sure.labels) == 1
    np.testing.assert_array_equal(sure.stability, 1)
    unsure = find_consensus(A, 5, n_runs=4, random_state=0)  # there are no five
    assert unsure.stability.mean() < 0.9
    with pytest.raises(ValueError, match="n_runs must be at least 2"):
        find_consensus(A, 3, n_runs=1)


def likelihood(model):
    logs = [xlogy(counts, counts).sum() for counts in (model.edges, model.volume, model.size)]
    return logs[0] - 2 * logs[1] + 2 * logs[2]


@pytest.mark.parametrize("seed", range(3))
def test_joins_against_the_likelihood_of_what_is_joined(seed):
    A, _ = block_model([20, 30, 25, 15], 0.3, 0.1, random_state=seed)
    labels = np.random.default_rng(seed).integers(5, size=90)
    model = BlockModel(A, labels, 5)
    gains = model.join_gains()
    for r in range(5):
        for s in range(r):
            joined = np.where(labels == r, s, labels)
            joined -= joined > r
            whole = BlockModel(A, joined, 4)
            assert gains[r, s] == pytest.approx(likelihood(whole) - likelihood(model), abs=1e-8)
            np.testing.assert_allclose(model.joined(r, s).edges, whole.edges)
            np.testing.assert_array_equal(model.joined(r, s).labels, joined)


def test_tree_of_nested_communities():
    rates = 0.02 + 0.1 * np.kron(np.eye(3), np.ones((2, 2))) + 0.3 * np.eye(6)
    labels = np.repeat(np.arange(6), 40)
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((240, 240)) < rates[labels][:, labels], 1).astype(float)
    tree = join_clusters(A + A.T, labels)
    assert is_valid_linkage(tree)
    assert tree[-1, 2:].tolist() == [1, 6]
    assert (np.diff(tree[:, 2]) >= 0).all()
    halves = fcluster(tree, 3, "maxclust")
    assert len(set(halves)) == 3
    np.testing.assert_array_equal(halves[::2], halves[1::2])
    assert join_clusters(A + A.T, np.zeros(240, int)).shape == (0, 4)
