"""What comes after a fit, and before it: new nodes, known labels and links, nodes in several clusters."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quartic import SymNMF
from quartic.datasets import block_model, planted_graph
from quartic.graphs import normalize, normalize_graph, similarity
from quartic.graphs.similarity import SimilarityGraph
from quartic.metrics import clustering_accuracy

A, LABELS = block_model([60, 80, 100, 120], 0.2, 0.02, random_state=0)
ORDER = np.random.default_rng(0).permutation(len(LABELS))
OLD, NEW = ORDER[:300], ORDER[300:]
SEED = {"random_state": 0}


# -- new nodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [None, "regularized", "symmetric", "walks"])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_array.toarray])
def test_new_nodes_go_where_a_refit_puts_them(normalized, make):
    model = SymNMF(4, normalize=normalized, **SEED).fit(A[OLD][:, OLD])
    refit = SymNMF(4, normalize=normalized, **SEED).fit(A)
    rows = make(A[NEW][:, OLD])
    placed = model.predict(rows)
    assert abs(rows - A[NEW][:, OLD]).max() == 0  # what was handed in is as it was
    ours, theirs = (clustering_accuracy(LABELS[NEW], found) for found in (placed, refit.labels_[NEW]))
    assert ours >= theirs - 0.04
    same = placed == model.transform(rows).argmax(axis=1)
    assert same.mean() > 0.9 if normalized in ("walks", "regularized") else same.all()
    np.testing.assert_array_equal(model.transform(make(A[OLD][:, OLD])), model.embedding_)
    np.testing.assert_array_equal(model.predict(make(A[OLD][:, OLD])), model.labels_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(rows), placed)


def test_what_places_new_nodes_is_made_when_one_comes_and_pickles_without_the_graph():
    rows = A[NEW][:, OLD]
    fitted, used = (SymNMF(4, **SEED).fit(A[OLD][:, OLD]) for _ in range(2))
    assert "tables" not in vars(fitted._placement)
    placed = used.predict(rows)
    for model in (fitted, used):
        copied = pickle.loads(pickle.dumps(model))
        assert list(vars(copied._placement)) == ["tables"]
        np.testing.assert_array_equal(copied.predict(rows), placed)


def test_a_row_is_the_least_squares_fit_of_its_normalised_similarities():
    model = SymNMF(4, normalize="regularized", **SEED).fit(A[OLD][:, OLD])
    old, new = A[OLD][:, OLD].toarray(), A[NEW][:, OLD].toarray()
    degree, mean = old.sum(axis=1), old.sum() / len(OLD)
    S = new / np.sqrt(np.outer(new.sum(axis=1) + mean, degree + mean))
    expected = [nnls(model.embedding_, row)[0] for row in S]
    np.testing.assert_allclose(model.transform(new), expected, atol=1e-10)


def test_edges_among_new_nodes_help():
    """Sparse: of its few edges a node has a fifth to other new ones."""
    G, labels = block_model([150] * 6, 0.05, 0.004, random_state=3)
    order = np.random.default_rng(0).permutation(900)
    old, new = order[:600], order[600:]
    model = SymNMF(6, **SEED).fit(G[old][:, old])
    rows = sp.hstack([G[new][:, old], G[new][:, new]], format="csr")
    for make in (sp.csr_array, sp.csr_array.toarray):
        alone, both = (clustering_accuracy(labels[new], model.predict(make(some))) for some in (rows[:, :600], rows))
        assert both > alone + 0.02
        np.testing.assert_array_equal(model.transform(make(rows)), model.transform(make(rows[:, :600])))
    with pytest.raises(ValueError, match=r"the weight of \(0, \d+\) is -1"):
        model.predict(-rows[:1, :600])
    with pytest.raises(ValueError, match="X has 650 features, but SymNMF is expecting 600"):
        model.predict(rows[:, :650])


def test_new_nodes_are_placed_by_each_other():
    """Half of them have no edge to the old ones, and each has most of its edges to the new of its own cluster."""
    G, labels = block_model([100, 150], 0.3, 0.02, random_state=0)
    old = np.arange(250) % 2 > 0
    B, among = G[~old][:, old].toarray(), G[~old][:, ~old].toarray()
    B[::2] = 0
    model = SymNMF(2, **SEED).fit(G[old][:, old])
    assert clustering_accuracy(labels[~old], model.predict(B)) < 0.9
    for loops in (0.0, 50 * np.eye(len(among))):  # say nothing of where a node belongs
        assert clustering_accuracy(labels[~old], model.predict(np.hstack([B, among + loops]))) > 0.98


@pytest.mark.parametrize("seed", [1, 2])
def test_with_all_their_edges_many_new_nodes_are_placed_as_by_a_refit(seed):
    """The labels of the old, found from a third of the edges, are refined with theirs."""
    G, labels = planted_graph(1000, 8, 5, 0.65, random_state=seed)
    model, refit = SymNMF(8, **SEED).fit(G[:600][:, :600]), SymNMF(8, **SEED).fit(G)
    placed = clustering_accuracy(labels[600:], model.predict(G[600:]))
    assert placed >= clustering_accuracy(labels[600:], refit.labels_[600:]) - 0.01


def test_walks_from_a_new_node_go_through_its_neighbours():
    model = SymNMF(4, normalize="walks", **SEED).fit(A[OLD][:, OLD])
    B = A[NEW][:, OLD].toarray()
    S = B / B.sum(axis=1, keepdims=True) @ normalize_graph(A[OLD][:, OLD], "walks").toarray()
    expected = [nnls(model.embedding_, row)[0] for row in S]
    np.testing.assert_allclose(model.transform(B), expected, atol=1e-9)


@pytest.mark.parametrize("kind", ["self_tuning", "cosine"])
@pytest.mark.parametrize("n_neighbors", ["auto", 5, None])
def test_a_point_handed_in_again_has_its_own_row(kind, n_neighbors):
    F = np.random.default_rng(0).standard_normal((90, 4)) + 3.0 * (kind == "cosine")
    for X in (F, F * 1e-160, sp.csr_array(F)):
        rows = SimilarityGraph(X, kind, n_neighbors).rows(X[20:40])
        np.testing.assert_allclose(rows.toarray(), similarity(X, kind, n_neighbors)[20:40].toarray(), atol=1e-12)


@pytest.mark.parametrize("affinity", ["self_tuning", "cosine"])
def test_features_in_a_pipeline(affinity):
    F, y = make_blobs(240, 5, centers=4, random_state=1)
    model = SymNMF(4, affinity=affinity, **SEED)
    pipe = make_pipeline(StandardScaler(), model).set_output(transform="pandas").fit(F[:180], y[:180])
    assert clustering_accuracy(y[180:], pipe.predict(F[180:])) > 0.95
    assert list(pipe.transform(F[180:]).columns) == ["symnmf0", "symnmf1", "symnmf2", "symnmf3"]


def test_nodes_and_edges_are_added():
    whole = SymNMF(4, **SEED).fit(A[ORDER][:, ORDER])
    model = SymNMF(4, **SEED).partial_fit(A[OLD][:, OLD])
    model.partial_fit(sp.hstack([A[NEW][:, OLD], A[NEW][:, NEW]], format="csr"))
    assert model.labels_.shape == (360,)
    assert abs(model.affinity_matrix_ - whole.affinity_matrix_).max() < 1e-12
    assert model.objective_ <= whole.objective_ * 1.01
    again = model.n_iter_
    model.partial_fit(A[ORDER][:, ORDER])  # nothing has changed
    assert model.n_iter_ <= again
    assert model.get_params()["init"] == "auto"
    with pytest.raises(ValueError, match="360 features as input, in 360 rows"):
        model.partial_fit(A[:10])
    F, y = make_blobs(120, 3, centers=3, random_state=0)
    model = SymNMF(3, affinity="self_tuning", **SEED).partial_fit(F[:80]).partial_fit(F[80:])
    np.testing.assert_array_equal(model.affinity_matrix_.toarray(), similarity(F, "self_tuning").toarray())
    assert clustering_accuracy(y, model.labels_) > 0.95


# -- known beforehand -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hard():
    """A graph whose clusters are found with many errors."""
    return planted_graph(900, 6, degree=4, p_within=0.5, random_state=0)


def test_labels_given_help_with_the_others(hard):
    M, labels = hard
    y = np.full(900, -1)
    known = np.random.default_rng(1).choice(900, 90, replace=False)
    y[known] = labels[known]
    plain, model = SymNMF(6, **SEED).fit(M), SymNMF(6, **SEED).fit(M, y)
    hidden = y < 0
    wrong = 1 - clustering_accuracy(labels[hidden], plain.labels_[hidden])
    assert np.mean(model.labels_[hidden] != labels[hidden]) < wrong
    kept = model.labels_[known] == y[known]
    assert kept.mean() > 0.97
    np.testing.assert_array_equal(model.unmet_["labels"], np.sort(known[~kept]))
    assert plain.unmet_ is None
    assert model.embedding_.shape == (900, 6)


def test_labels_are_worth_more_than_either_clusters_or_spreading_alone():
    """A graph of neighbours, where labels spread well, and weak communities, where clusters are good."""
    F, digits = load_digits(return_X_y=True)
    near = kneighbors_graph(F[:900], 10)
    weak = block_model([40, 70, 100, 130, 160], 0.08, 0.01, random_state=0)
    for graph, truth, gain in ((near.maximum(near.T), digits[:900], 0.003), (*weak, -0.001)):
        graph = sp.csr_array(graph, dtype=float)
        rank, n = truth.max() + 1, len(truth)
        y = np.full(n, -1)
        known = np.random.default_rng(2).choice(n, n // 20, replace=False)
        y[known] = truth[known]
        hidden, scaled = y < 0, normalize(graph)
        seeds = np.eye(rank)[y] * (y >= 0)[:, None]
        spread = np.linalg.solve(np.eye(n) - 0.9 * scaled.toarray(), seeds).argmax(axis=1)
        alone = clustering_accuracy(truth[hidden], SymNMF(rank, **SEED).fit(graph).labels_[hidden])
        ours = np.mean(SymNMF(rank, **SEED).fit(graph, y).labels_[hidden] == truth[hidden])
        assert ours > max(alone, np.mean(spread[hidden] == truth[hidden])) + gain


def test_classes_without_labels_are_found_as_well():
    y = np.where(LABELS >= 2, LABELS, -1)
    y[np.random.default_rng(0).random(360) < 0.8] = -1
    model = SymNMF(4, **SEED).fit(A, y)
    assert np.mean(model.labels_[LABELS >= 2] == LABELS[LABELS >= 2]) > 0.95
    assert clustering_accuracy(LABELS, model.labels_) > 0.95


def test_links(hard):
    M, labels = hard
    rng = np.random.default_rng(0)
    pairs = rng.choice(900, (600, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    plain = SymNMF(6, **SEED).fit(M)
    model = SymNMF(6, **SEED).fit(M, must_link=pairs[same], cannot_link=pairs[~same])
    found = model.labels_[pairs[:, 0]] == model.labels_[pairs[:, 1]]
    assert np.mean(found == same) > 0.9
    assert len(model.unmet_["must_link"]) == np.sum(same & ~found)
    assert len(model.unmet_["cannot_link"]) == np.sum(~same & found)
    assert clustering_accuracy(labels, model.labels_) > clustering_accuracy(labels, plain.labels_)


def test_a_full_y_is_ignored_and_a_wrong_one_refused():
    plain = SymNMF(4, **SEED).fit(A)
    np.testing.assert_array_equal(SymNMF(4, **SEED).fit(A, LABELS).labels_, plain.labels_)
    y = np.full(360, -1)
    np.testing.assert_array_equal(SymNMF(4, **SEED).fit(A, y).labels_, plain.labels_)
    y[0] = 4
    with pytest.raises(ValueError, match="from 0 to n_components − 1 = 3, got 4"):
        SymNMF(4).fit(A, y)
    with pytest.raises(ValueError, match="for each of the 360 nodes"):
        SymNMF(4).fit(A, y[1:])
    for links, words in (([(0, 360)], "names the node 360"), ([(1, 1)], "with itself"), ([0, 1], "pairs")):
        with pytest.raises(ValueError, match=words):
            SymNMF(4).fit(A, must_link=links)
    with pytest.raises(TypeError, match="without weights"):
        SymNMF(4).fit(A, cannot_link=[(0, 1)], weights=A)


@pytest.mark.parametrize("unknown", [-1, math.nan, None])
@pytest.mark.parametrize("dtype", [np.float32, float, object])
def test_labels_may_be_floats_or_objects(dtype, unknown):
    """A column of a frame is of floats as soon as a label is missing in it."""
    known = np.arange(360) % 7 == 0
    expected = SymNMF(4, normalize=None, **SEED).fit(A, np.where(known, LABELS, -1))
    y = np.where(known, LABELS, unknown).astype(dtype)
    model = SymNMF(4, normalize=None, **SEED).fit(A, y)
    assert model.unmet_ is not None
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)
    with pytest.raises(ValueError, match="for each of the 360 nodes"):
        SymNMF(4).fit(A, y[1:])


def test_a_y_that_is_no_labels_is_ignored_but_words_with_gaps_are_not():
    plain = SymNMF(4, **SEED).fit(A).labels_
    measured = np.linspace(-1, 1, 360)  # has −1, but is of no whole numbers
    words = np.array(["north", "south", "east", "west"], dtype=object)[LABELS]
    for y in (LABELS.astype(float), measured, words.astype(str), words):
        np.testing.assert_array_equal(SymNMF(4, **SEED).fit(A, y).labels_, plain)
    words[:9] = None
    with pytest.raises(TypeError, match=r"y must number the clusters, .*pandas.factorize"):
        SymNMF(4).fit(A, words)


def test_links_may_name_the_nodes():
    networkx = pytest.importorskip("networkx")
    G = networkx.relabel_nodes(networkx.from_scipy_sparse_array(A), {i: f"p{i}" for i in range(360)})
    links = np.random.default_rng(0).permutation(360)[:40].reshape(20, 2)
    by_number = SymNMF(4, **SEED).fit(G, must_link=links).labels_
    named = [(f"p{i}", f"p{j}") for i, j in links]
    np.testing.assert_array_equal(SymNMF(4, **SEED).fit(G, must_link=named).labels_, by_number)
    with pytest.raises(ValueError, match="must_link names 'p360', which is none of the 360 nodes; see node_names_"):
        SymNMF(4).fit(G, must_link=[("p0", "p360")])
    with pytest.raises(ValueError, match=r"cannot_link names 'p0', .*give node numbers: these have no names"):
        SymNMF(4).fit(A, cannot_link=[("p0", "p33")])
    with pytest.raises(TypeError, match=r"must_link must be pairs .* of whole node numbers, got float64"):
        SymNMF(4).fit(A, must_link=[(0.0, 1.0)])


def test_a_pair_cannot_belong_together_and_apart():
    with pytest.raises(ValueError, match=r"the pair \(0, 1\) is in must_link and in cannot_link"):
        SymNMF(4).fit(A, must_link=[(0, 1), (2, 3)], cannot_link=[(1, 0)])


# -- several clusters -------------------------------------------------------------------------------------------------


def test_communities_overlap_where_the_graph_does():
    """Thirty nodes of two blocks belong to both; the others to one."""
    rng = np.random.default_rng(0)
    member = np.zeros((210, 2), dtype=bool)
    member[:120, 0] = member[90:, 1] = True
    B = np.triu(rng.random((210, 210)) < np.where(member.astype(int) @ member.T > 0, 0.3, 0.01), 1).astype(float)
    model = SymNMF(2, **SEED).fit(normalize(B + B.T))
    found = np.zeros_like(member)
    for k, nodes in enumerate(model.communities_):
        found[list(nodes), k] = True
    if not found[0, 0]:
        found = found[:, ::-1]
    assert np.mean(found == member) > 0.95
    assert found[90:120].all(axis=1).mean() > 0.9


def test_single_edges_make_no_members():
    """In a sparse graph with overlaps, each of thirty communities is found whole, and nobody else with it."""
    rng = np.random.default_rng(2)
    n, k = 3000, 30
    member = np.zeros((n, k), dtype=bool)
    member[np.arange(n), np.arange(n) % k] = True
    member[np.arange(n // 10), rng.integers(k, size=n // 10)] = True
    P = (member * (8 / member.sum(axis=0))) @ member.T + 1 / n
    B = sp.csr_array(np.triu(rng.random((n, n)) < P, 1), dtype=float)
    sets = SymNMF(k, **SEED).fit(B + B.T).communities_
    for column in member.T:
        true = set(np.flatnonzero(column))
        assert max(2 * len(true & some) / (len(true) + len(some)) for some in sets) > 0.93


def test_a_node_without_edges_is_in_no_community():
    B = sp.block_diag([A, np.zeros((3, 3))], format="csr")
    communities = SymNMF(4, **SEED).fit(B).communities_
    assert len(communities) == 4
    assert not set().union(*communities) & {360, 361, 362}
    assert len(set().union(*communities)) > 340
