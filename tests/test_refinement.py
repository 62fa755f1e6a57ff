"""Labels refined by a block model: its likelihood against the formula, moves against brute force, what they mend."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from quartic import SymNMF
from quartic.clustering import refinement
from quartic.clustering.refinement import BlockModel, Placement
from quartic.datasets import block_model, karate, planted_graph
from quartic.graphs import similarity
from quartic.metrics import nmi
from strips import strips


def weighted(seed=0, n=40, k=4):
    rng = np.random.default_rng(seed)
    A = np.triu((rng.random((n, n)) < 0.25) * rng.integers(1, 4, (n, n)), 1).astype(float)
    A = A + A.T + np.diag((rng.random(n) < 0.2) * 2.0)
    A[-1] = A[:, -1] = 0
    return A, rng.integers(k, size=n)


def likelihood(A, labels, k):
    """The formula of the module, pair by pair."""
    A = A * (A.sum() / (A * A).sum())
    e = np.array([[A[np.ix_(labels == r, labels == s)].sum() for s in range(k)] for r in range(k)])
    kappa, size = e.sum(axis=1), np.bincount(labels, minlength=k)
    total = 2 * sum(count * np.log(count / len(labels)) for count in size if count)
    return total + sum(
        e[r, s] * np.log(e[r, s] / (kappa[r] * kappa[s])) for r in range(k) for s in range(k) if e[r, s] > 0
    )


@pytest.mark.parametrize("seed", range(3))
def test_likelihood_grows_and_counts_are_those_of_the_labels(seed):
    A, labels = block_model([30, 40, 50], 0.2, 0.05, random_state=seed)
    A, begin = A.toarray(), np.where(np.random.default_rng(seed).random(120) < 0.3, 0, labels)
    model = BlockModel(A, begin, 3).refine()
    assert likelihood(A, model.labels, 3) > likelihood(A, begin, 3)
    anew = BlockModel(A, model.labels, 3)
    for name in ("edges", "volume", "size"):
        np.testing.assert_allclose(getattr(model, name), getattr(anew, name), atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_those_of_the_mean_field(seed):
    """The formula of the module, node by node."""
    A, labels = block_model([50, 70, 80], 0.25, 0.04, random_state=seed)
    A = A.toarray() * np.random.default_rng(seed).integers(1, 3, A.shape)
    A = np.triu(A, 1) + np.triu(A, 1).T
    begin = np.where(np.random.default_rng(seed).random(200) < 0.3, 0, labels)
    found = BlockModel(A, begin, 3).refine().labels
    B, q = A * (A.sum() / (A * A).sum()), np.eye(3)[begin]
    for _ in range(100):
        e, new = q.T @ B @ q, np.empty_like(q)
        e = e + 5 * np.outer(e.sum(axis=0), e.sum(axis=0)) / np.outer(e.sum(axis=0), e.sum(axis=0)).mean()
        for i in range(200):
            logs = [B[i] @ q @ np.log(e[r] / e[r].sum()) + np.log(q[:, r].sum()) for r in range(3)]
            new[i] = np.exp(logs - np.logaddexp.reduce(logs))
        q = (q + new) / 2
    sure = q.max(axis=1) > 0.9
    np.testing.assert_array_equal(found[sure], q.argmax(axis=1)[sure])
    assert sure.mean() > 0.9
    assert (found != begin).any()


def test_counts_of_a_sweep_are_those_of_all_nodes(monkeypatch):
    """Though after the first one only the nodes in doubt are gone over."""
    A, labels = block_model([60, 60, 80], 0.25, 0.05, random_state=0)
    begin = np.where(np.random.default_rng(0).random(200) < 0.2, 0, labels)
    seen, memberships = [], refinement._memberships

    def spy(to, edges, size):
        seen.append((edges.copy(), size, memberships(to, edges, size)))
        return seen[-1][-1]

    monkeypatch.setattr(refinement, "_memberships", spy)
    model = BlockModel(A, begin, 3)
    B, q = model.graph.toarray(), np.eye(3)[begin]
    first = memberships(B @ q, model.edges, model.size)
    model.refine()
    rows = np.flatnonzero(np.abs(first - q).max(axis=1) >= 1e-3)
    assert 10 < len(rows) < 190
    assert len(seen) > 3
    new = first[rows]
    for edges, size, following in seen:
        q[rows] = (q[rows] + new) / 2
        q[q < 1e-3] = 0
        np.testing.assert_allclose(edges, q.T @ B @ q, rtol=1e-9)
        np.testing.assert_allclose(size, q.sum(axis=0))
        new = following


def test_what_stays():
    A, labels = weighted()
    fixed = np.arange(0, 40, 3)
    found = BlockModel(A, labels, 4).refine(fixed).labels
    np.testing.assert_array_equal(found[fixed], labels[fixed])
    assert found[-1] == labels[-1]  # has no edges
    assert (found != labels).any()
    assert set(BlockModel(A, labels, 4).refine().labels) == {0, 1, 2, 3}
    np.testing.assert_array_equal(
        BlockModel(sp.csr_array((5, 5)), np.arange(5) % 2, 2).refine().labels, np.arange(5) % 2
    )


def test_new_nodes_go_where_likelihood_grows_most():
    A, labels = block_model([60, 90, 120], 0.15, 0.02, random_state=0)
    old = np.arange(270) % 10 > 0
    inside, rows = A[old][:, old].toarray(), A[~old][:, old].toarray()
    model, size = BlockModel(inside, labels[old], 3), np.bincount(labels[old])
    alike = size[labels[old]] ** -1.0 * np.ones((len(inside), 1))  # the same share for each cluster
    found = Placement(model, alike).likeliest(rows)
    assert (found == labels[~old]).mean() > 0.95
    for row, label in zip(rows, found, strict=True):
        B = np.block([[inside, row[:, None]], [row, 0.0]])
        gains = [likelihood(B, np.append(labels[old], r), 3) - 2 * np.log(size[r] / size.sum()) for r in range(3)]
        assert max(gains) - gains[label] < 0.5  # to first order
    one = np.zeros((1, old.sum()))
    one[0, 0] = 1e-9  # an edge that says nothing by itself, to a node all of whose similarities are in the third
    assert Placement(model, (labels[old] == 2)[None] * np.ones_like(alike)).likeliest(one).tolist() == [2]


@pytest.mark.parametrize("mixing", [0.2, 0.3])
def test_communities_of_unequal_sizes(mixing):
    """Where the factor alone halves the largest: it is 0.1 and more below."""
    G = nx.LFR_benchmark_graph(1000, 3, 1.5, mixing, average_degree=10, min_community=20, seed=200)
    labels = np.array([min(G.nodes[node]["community"]) for node in G])
    A = nx.to_scipy_sparse_array(G, dtype=float)
    A.setdiag(0)
    model = SymNMF(len(np.unique(labels)), random_state=0).fit(A)
    assert nmi(labels, model.labels_) > nmi(labels, model.embedding_.argmax(axis=1)) + 0.05
    np.testing.assert_array_equal(model.predict(A), model.labels_)


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        (karate().adjacency, {"normalize": None}),
        (karate().adjacency, {"normalize": "symmetric"}),
        (similarity(np.random.default_rng(0).random((60, 3)), "self_tuning", n_neighbors=None), {}),
    ],
)
def test_where_labels_are_the_largest_entries(graph, settings):
    model = SymNMF(3, random_state=0, **settings).fit(graph)
    np.testing.assert_array_equal(model.labels_, model.embedding_.argmax(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_a_normalised_graph_are_refined(seed):
    M, labels = planted_graph(1000, 8, degree=5, p_within=0.6, random_state=seed)
    model = SymNMF(8, random_state=0).fit(M)
    assert model.normalize_ is None
    assert nmi(labels, model.labels_) > nmi(labels, model.embedding_.argmax(axis=1)) + 0.02
    paper = SymNMF(8, random_state=0, normalize=None).fit(M)
    np.testing.assert_array_equal(paper.labels_, model.embedding_.argmax(axis=1))


def test_no_cluster_is_lost():
    """Eight clusters of fifty points in three groups: the model finds fewer likelier."""
    X, _ = make_blobs(50, random_state=1)
    model = SymNMF(8, random_state=0).fit(X)
    assert set(model.labels_) == set(range(8))
    A, labels = block_model([40, 40], 0.4, 0.05, random_state=0)
    begin = labels.copy()
    at = np.flatnonzero(labels == 0)
    two = at[[4, 5]]
    A = A.tolil()
    A[two[0], two[1]] = A[two[1], two[0]] = 1
    begin[at[:4]], begin[two] = 1, 2  # wrong, and two nodes with an edge that are no cluster
    labels[two] = 2
    np.testing.assert_array_equal(BlockModel(A, begin, 3).refine().labels, labels)


def without_an_edge_inside(A, labels):
    """Nodes with edges that have none to their cluster."""
    A = sp.csr_array(A)
    A.setdiag(0)
    A.eliminate_zeros()
    inside = (A @ np.eye(labels.max() + 1)[labels])[np.arange(len(labels)), labels]
    return np.flatnonzero((inside == 0) & (A.sum(axis=1) > 0))


@pytest.mark.parametrize("k", [2, 5, 6, 7])
def test_a_node_has_an_edge_to_its_cluster(k):
    """Though the block model finds nodes alike that have the same neighbours and no edge to each other."""
    novel = nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float)
    model = SymNMF(k, random_state=0).fit(novel)
    assert len(without_an_edge_inside(novel, model.labels_)) == 0


def test_a_node_without_an_edge_to_its_cluster_goes_to_its_neighbours():
    star = np.zeros((9, 9))
    star[0, 1:6] = star[6, 7:] = star[0, 6] = 1.0
    star += star.T
    begin = np.array([0, 1, 1, 1, 1, 1, 2, 3, 3])
    for fixed in ((), [0, 1, 6]):
        found = BlockModel(star, begin, 4)._with_edges_inside(fixed).labels
        np.testing.assert_array_equal(found[list(fixed)], begin[list(fixed)])
        assert set(found) == {0, 1, 2, 3}
        left = np.setdiff1d(without_an_edge_inside(star, found), fixed)
        assert (np.bincount(found)[found[left]] == 1).all()


def weigh(A, labels, draw, seed):
    """Weights of a graph's edges, drawn for edges inside clusters and for others."""
    upper = sp.triu(A, 1, format="coo")
    i, j = upper.coords
    weights = draw(np.random.default_rng(seed), labels[i] == labels[j])
    half = sp.csr_array((weights, (i, j)), shape=A.shape)
    return sp.csr_array(half + half.T)


@pytest.mark.parametrize(
    ("p", "draw"),
    [
        ((0.15, 0.03), lambda rng, inside: rng.exponential(1, len(inside))),  # weights tell nothing
        ((0.15, 0.03), lambda rng, inside: rng.lognormal(0, 1, len(inside))),
        ((0.12, 0.12), lambda rng, inside: rng.exponential(np.where(inside, 5, 1))),  # nothing else tells
        ((0.15, 0.08), lambda rng, inside: rng.lognormal(np.where(inside, 1, 0), 1)),
        ((0.12, 0.08), lambda rng, inside: 1.0 + rng.poisson(np.where(inside, 4, 1))),
    ],
)
def test_weights_are_read_as_what_they_tell(p, draw):
    """Refined labels are better than the largest entries, whatever the weights are."""
    found = []
    for seed in range(10):
        A, labels = block_model([60] * 5, *p, random_state=seed)
        A = weigh(A, labels, draw, seed)
        model = SymNMF(5, random_state=seed).fit(A)
        found.append((nmi(labels, model.embedding_.argmax(axis=1)), nmi(labels, model.labels_)))
    before, after = np.mean(found, axis=0)
    assert after > before + 0.02


def test_what_levels_of_weights_tell():
    """By the formula of the module; and graph and weights are likelier together where weights tell."""
    A, labels = block_model([30, 50], 0.3, 0.2, random_state=0)
    B = weigh(A, labels, lambda rng, inside: rng.integers(1, np.where(inside, 5, 3)).astype(float), 0)
    model = BlockModel(B, labels, 2, levels=True)
    i, j, weights = sp.find(B)
    np.testing.assert_array_equal(model.graph.data, 1.0)
    for level, weight in enumerate(np.unique(weights)):
        share = (weights == weight).mean()
        logs = [
            np.log(((weights == weight)[side].sum() + 5 * share) / (side.sum() + 5))
            for side in (labels[i] == labels[j], labels[i] != labels[j])
        ]
        assert model.odds[np.searchsorted(model.cuts, weight)] == pytest.approx(logs[0] - logs[1], rel=1e-12)
        assert np.searchsorted(model.cuts, weight) == level
    mixed = BlockModel(
        weigh(A, labels, lambda rng, inside: rng.integers(1, 5, len(inside)) * 1.0, 0), labels, 2, levels=True
    )
    even = BlockModel(A, labels, 2, levels=True)
    np.testing.assert_array_equal(even.odds, 0)
    counts = BlockModel(A, labels, 2)
    np.testing.assert_allclose(even.evidence(), counts.evidence(), rtol=1e-12)
    assert model.evidence() > mixed.evidence()
    assert model.likelihood() > mixed.likelihood()


def test_new_nodes_go_where_weights_tell():
    A, labels = block_model([60, 60], 0.2, 0.2, random_state=1)
    A = weigh(A, labels, lambda rng, inside: np.where(inside, 1.0, 2.0) + rng.random(len(inside)) / 2, 1)
    old = np.arange(120) % 6 > 0
    model = BlockModel(A[old][:, old], labels[old], 2, levels=True)
    placed = Placement(model, np.ones((old.sum(), old.sum()))).likeliest(A[~old][:, old])
    np.testing.assert_array_equal(placed, labels[~old])


def test_known_labels_are_not_moved():
    A, labels = block_model([40, 40], 0.3, 0.1, random_state=0)
    y = np.where(np.arange(80) % 8 == 0, 1 - labels, -1)  # wrong on purpose
    model = SymNMF(2, random_state=0).fit(A, y)
    kept = np.setdiff1d(np.flatnonzero(y >= 0), model.unmet_["labels"])
    np.testing.assert_array_equal(model.labels_[kept], y[kept])
    np.testing.assert_array_equal(model.embedding_[y >= 0].argmax(axis=1), model.labels_[y >= 0])


def test_small_components_do_not_choose_the_matrix():
    """Columns on pieces of a few nodes are likely, and worthless: the rule must look at the clusters."""
    A, labels = block_model([60] * 12, 0.12, 0.006, random_state=4)
    rng = np.random.default_rng(4)
    pieces = [sp.csr_array(1.0 - np.eye(rng.integers(2, 8))) for _ in range(150)]
    model = SymNMF(12, random_state=0).fit(sp.block_diag([A, *pieces, sp.csr_array((20, 20))], format="csr"))
    assert model.normalize_ == "walks"
    assert nmi(labels, model.labels_[: len(labels)]) > 0.95


def test_small_components_and_nodes_without_edges_go_to_the_largest_cluster():
    A, labels = block_model([30, 50, 40], 0.4, 0.02, random_state=0)
    whole = sp.block_diag([A, np.ones((3, 3)) - np.eye(3), sp.csr_array((2, 2))], format="csr")
    begin = np.r_[labels, 0, 0, 2, 0, 2]
    np.testing.assert_array_equal(BlockModel(whole, begin, 3).refine().labels, np.r_[labels, np.ones(5)])
    known = BlockModel(whole, begin, 3).refine([0])  # then that is what says where they belong
    np.testing.assert_array_equal(known.labels[-2:], begin[-2:])
    alone = np.where(np.arange(len(begin)) < len(labels), begin, 3)  # a cluster of theirs is not taken away
    np.testing.assert_array_equal(BlockModel(whole, alone, 4).refine().labels, alone)
    model = SymNMF(3, random_state=0).fit(A)
    largest = np.bincount(model.labels_).argmax()
    for new in (np.zeros((2, 120)), np.zeros((2, 122))):
        np.testing.assert_array_equal(model.predict(new), [largest] * 2)


def test_worth_counts_large_components_only():
    A, labels = block_model([30, 30], 0.4, 0.02, random_state=0)
    both = sp.block_diag([A, np.ones((2, 2)) - np.eye(2)], format="csr")
    alone = BlockModel(A, labels, 2)
    assert BlockModel(both, np.r_[labels, 0, 0], 2).worth() == pytest.approx(alone.likelihood(), rel=1e-12)
    assert alone.worth() == pytest.approx(alone.likelihood(), rel=1e-12)


def test_trees_are_not_refined_into_one_large_cluster():
    """Ten trees of 60 nodes, and a few edges between them: labels found 0.70, and memberships led to 0.48."""
    trees = [nx.to_scipy_sparse_array(nx.random_labeled_tree(60, seed=seed), dtype=float) for seed in range(10)]
    ends = np.random.default_rng(0).integers(600, size=(2, 30))
    A = sp.block_diag(trees, format="csr") + sp.csr_array((np.ones(30), ends), shape=(600, 600))
    model = SymNMF(10, random_state=0).fit(sp.csr_array(A.maximum(A.T)))
    truth = np.repeat(range(10), 60)
    assert nmi(truth, model.labels_) > nmi(truth, model.embedding_.argmax(axis=1)) - 0.02
    assert np.bincount(model.labels_).max() < 150


@pytest.mark.parametrize("seed", range(3))
def test_no_cluster_has_two_large_components(seed):
    """A long component was cut instead, whatever the matrix: it is likelier, and the lower objective."""
    A, labels = strips(seed)
    model = SymNMF(6, random_state=0).fit(A)
    assert nmi(labels, model.labels_) == pytest.approx(1)
    assert np.mean(model.labels_ == model.embedding_.argmax(axis=1)) > 0.98


def test_components_apart_by_hand():
    """Two cliques in one cluster, and one of twelve nodes cut in two that are joined again; a pair has no say."""
    A = sp.block_diag([np.ones((n, n)) - np.eye(n) for n in (6, 6, 12, 2)], format="csr")
    labels = np.repeat([0, 0, 1, 2, 0], [6, 6, 6, 6, 2])
    apart = BlockModel(A, labels, 3).with_components_apart()
    np.testing.assert_array_equal(apart.labels, np.repeat([0, 1, 2, 0], [6, 6, 12, 2]))
    assert apart.with_components_apart() is apart
    few = BlockModel(A, np.minimum(labels, 1), 2)  # three large ones, two clusters
    assert few.with_components_apart() is few
    empty = BlockModel(A, np.repeat([0, 1, 0], [12, 12, 2]), 3).with_components_apart()
    np.testing.assert_array_equal(empty.labels, np.repeat([0, 1, 2, 0], [6, 6, 12, 2]))


def test_dense_matrices_are_not_made_sparse_to_see_that_they_are_dense(monkeypatch):
    """Of 10,000 nodes on a GPU that took a thousand times as long as the fit."""
    monkeypatch.setattr("quartic.clustering.similarity_input.to_scipy", lambda M: pytest.fail("M was moved"))
    W = np.random.default_rng(0).random((60, 3)) ** 3
    assert SymNMF(3, random_state=0).fit(W @ W.T).result_.success
