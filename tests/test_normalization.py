"""The matrix of a graph that is factorised: its formulas, the choice among them, and what it is good for."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_circles
from sklearn.neighbors import kneighbors_graph

from quartic import SymNMF
from quartic.compiled.graphs import follow_walks
from quartic.datasets import block_model, karate, planted_graph
from quartic.graphs import as_adjacency, normalize, normalize_graph, similarity
from quartic.graphs.normalization import choose_normalization
from quartic.metrics import nmi

UNEQUAL = [30, 60, 90, 120, 150, 200, 250, 300]


def weighted_graph(n=60, seed=0):
    """A random graph with weights, a component of its own, and two nodes without edges."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.1), 1)
    A[:, -2:] = 0
    A[: n - 6, n - 6 : n - 2] = 0
    A[n - 6, n - 5] = A[n - 5, n - 4] = A[n - 4, n - 3] = 0.5
    return A + A.T


def walks_by_powers(A, n_steps):
    degree = A.sum(axis=1)
    inverse = np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0)
    P, power, total = inverse[:, None] * A, np.eye(len(A)), 0
    for _ in range(n_steps):
        power = power @ P
        total = total + power
    return np.log(np.maximum(1, degree.sum() / n_steps * total * inverse))


def test_formulas_on_a_graph_with_isolated_nodes():
    A = weighted_graph()
    degree = A.sum(axis=1)
    regular = degree + degree.mean()
    np.testing.assert_allclose(normalize_graph(A).toarray(), A / np.sqrt(np.outer(regular, regular)), rtol=1e-13)
    np.testing.assert_array_equal(normalize_graph(A, "symmetric").toarray(), normalize(A).toarray())
    walks = normalize_graph(A, "walks")
    assert abs(walks - walks.T).max() == 0
    np.testing.assert_allclose(walks.toarray(), walks_by_powers(A, 10), atol=1e-8)
    assert not walks.toarray()[-2:].any()
    assert abs(normalize_graph(A, None) - as_adjacency(A)).max() == 0


def test_walks_cut_short_are_close_to_whole_ones():
    """With 400 of 1,200 nodes followed, the rest counts as mixed; a row keeps its hundred largest."""
    A, _ = block_model(UNEQUAL, 0.08, 0.008, random_state=1)
    exact = walks_by_powers(A.toarray(), 10)
    walks = normalize_graph(A, "walks")
    assert walks.nnz <= 200 * len(exact)
    kept = walks.toarray() > 0
    assert kept.sum(axis=1).min() >= 100
    assert np.abs(walks.toarray() - exact)[kept].max() < 0.25
    largest = np.sort(exact, axis=1)[:, -90]
    assert kept[exact > largest[:, None]].mean() > 0.9


def test_walks_are_followed_at_the_likeliest_nodes_the_first_of_equals():
    """On a torus, where equals abound and every sum is exact."""
    ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
    A = sp.csr_array(np.kron(ring, np.eye(12)) + np.kron(np.eye(12), ring))
    n, n_steps, front, cap = 144, 8, 20, 15
    counts, columns, values = np.zeros(n, np.int64), np.empty((n, cap), np.int64), np.empty((n, cap))
    scale, mixed = np.full(n, n / n_steps), np.full(n, 1 / n_steps)
    follow_walks(0, n, A.indptr, A.indices, A.data / 4, scale, mixed, n_steps, front, counts, columns, values)
    for i in range(n):
        here, total, lost = {i: 1.0}, {}, 0.0
        for _ in range(n_steps):
            mass = {}
            for j, weight in here.items():
                for neighbor in A[[j]].indices.tolist():
                    mass[neighbor] = mass.get(neighbor, 0.0) + weight / 4
            largest = set(sorted(mass, key=mass.get, reverse=True)[:front])
            here = {j: weight for j, weight in mass.items() if j in largest}
            lost += 1 - sum(here.values())
            for j, weight in here.items():
                total[j] = total.get(j, 0.0) + weight
        found = {j: weight * n / n_steps + lost / n_steps for j, weight in total.items()}
        largest = set(sorted((j for j in found if found[j] > 1), key=found.get, reverse=True)[:cap])
        expected = [(j, np.log(weight)) for j, weight in found.items() if j in largest]
        assert columns[i, : counts[i]].tolist() == [j for j, _ in expected]
        np.testing.assert_allclose(values[i, : counts[i]], [weight for _, weight in expected], rtol=1e-13)


@pytest.mark.parametrize(
    ("graph", "kind"),
    [
        (karate().adjacency, "regularized"),
        (block_model([60, 60], 0.2, 0.02, random_state=0)[0], "walks"),
        (block_model([150, 150], 0.6, 0.3, random_state=0)[0], "regularized"),  # more neighbours than walks keep
        (similarity(make_blobs(90, random_state=0)[0], "self_tuning", normalize=False), "symmetric"),
        (similarity(make_blobs(90, random_state=0)[0], "self_tuning"), None),
        (similarity(make_blobs(150, random_state=0)[0], "self_tuning")[:120, :120], "symmetric"),  # a fold
        (normalize(block_model([60, 60], 0.2, 0.02, random_state=0)[0]), None),
        (planted_graph(150, 3, random_state=0)[0], None),
        (as_adjacency(np.ones((9, 9))), None),
        (as_adjacency(np.kron(np.eye(3), [[0, -1], [-1, 0]])), None),
        (sp.csr_array((5, 5)), None),
    ],
)
def test_choice(graph, kind):
    assert choose_normalization(sp.csr_array(graph)) == kind


@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_array.toarray])
def test_what_is_normalised_is_left_alone(make):
    M = make(similarity(make_blobs(120, 4, random_state=0)[0], "self_tuning"))
    model = SymNMF(3, random_state=0).fit(M)
    assert model.normalize_ is None
    assert abs(model.affinity_matrix_ - M).max() == 0
    np.testing.assert_array_equal(model.embedding_, SymNMF(3, normalize=None, random_state=0).fit(M).embedding_)


@pytest.mark.parametrize("kind", ["regularized", "symmetric", "walks"])
@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_array.toarray])
def test_the_estimator_factorises_that_matrix(kind, make):
    A = make(sp.coo_array(weighted_graph().astype(np.float32)))
    model = SymNMF(3, normalize=kind, random_state=0).fit(A)
    assert model.normalize_ == kind
    assert model.embedding_.dtype == np.float32
    expected = normalize_graph(A, kind).toarray()
    M = model.affinity_matrix_
    np.testing.assert_allclose(M.toarray() if sp.issparse(M) else M, expected, rtol=1e-6)
    assert not model.embedding_[-2:].any()


def test_unequal_communities_and_hubs():
    """As it is, the largest block of a block model takes several columns, and hubs rule where degrees are unequal."""
    A, labels = block_model(UNEQUAL, 0.08, 0.008, random_state=1)
    assert nmi(labels, SymNMF(8, random_state=0).fit_predict(A)) > 0.93
    rng = np.random.default_rng(0)
    hubs = np.r_[np.full(20, 8.0), np.ones(180)]
    weight = np.where(labels[:, None] == labels, 0.06, 0.006)[:400, :400] * np.outer(np.tile(hubs, 2), np.tile(hubs, 2))
    B = np.triu(rng.random((400, 400)) < weight, 1).astype(float)
    truth = labels[:400]
    ours, raw = (SymNMF(5, normalize=kind, random_state=0).fit_predict(B + B.T) for kind in ("auto", None))
    assert nmi(truth, ours) > nmi(truth, raw) + 0.1


@pytest.mark.parametrize("draw", range(3))
def test_walks_give_way_where_another_matrix_is_likelier(draw):
    """Two rings of neighbours that no edge joins: walks are too short to see one whole, and would halve the inner one.

    Where they are asked for, only the run begun from whole rings keeps them so (`BlockModel.with_components_apart`).
    """
    X, rings = make_circles(600, noise=0.05, factor=0.5, random_state=draw)
    A = kneighbors_graph(X, 10)
    A = sp.csr_array(A.maximum(A.T))
    assert choose_normalization(A) == "walks"
    for seed in range(3):
        model = SymNMF(2, random_state=seed).fit(A)
        assert model.normalize_ == "symmetric"
        assert nmi(rings, model.labels_) == pytest.approx(1)
        by_walks = SymNMF(2, normalize="walks", random_state=seed).fit_predict(A)
        assert nmi(rings, by_walks) == pytest.approx(1)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), normalize(A).toarray())


def test_errors():
    with pytest.raises(ValueError, match=r"the weight of \(0, 2\) is -1"):
        normalize_graph([[0, 1, -1], [1, 0, 0], [-1, 0, 0]])
    with pytest.raises(ValueError, match="kind must be one of 'regularized'"):
        normalize_graph(np.eye(3), "plain")
    with pytest.raises(ValueError, match="undirected"):
        SymNMF(2, normalize="walks").fit(np.triu(np.ones((4, 4))))
    with pytest.raises(ValueError, match="normalize must be one of 'auto'"):
        SymNMF(2, normalize="plain").fit(np.eye(4))
    with pytest.raises(ValueError, match="affinity='cosine' makes a normalised one"):
        SymNMF(2, affinity="cosine", normalize="walks").fit(np.ones((4, 3)))


@pytest.mark.parametrize("kind", ["auto", "regularized", "symmetric", "walks"])
def test_in_blocks(kind):
    pytest.importorskip("dask", reason='needs pip install "quartic[distributed]"')
    from quartic.distributed import in_blocks

    A = sp.csr_array(weighted_graph())
    there = normalize_graph(in_blocks(A, 3), kind)
    expected = normalize_graph(A, "regularized" if kind == "auto" else kind).toarray()
    np.testing.assert_array_equal(sp.csr_array(there.compute(scheduler="synchronous")).toarray(), expected)
    M = planted_graph(150, 3, random_state=0)[0]
    blocks = in_blocks(M, 2)
    assert normalize_graph(blocks, "auto") is blocks


def test_tensors():
    torch = pytest.importorskip("torch", reason='needs pip install "quartic[gpu]"')
    A = weighted_graph()
    ours, theirs = (SymNMF(3, random_state=0, normalize="walks").fit(G) for G in (A, torch.from_numpy(A)))
    assert isinstance(theirs.embedding_, torch.Tensor)
    assert theirs.normalize_ == "walks"
    np.testing.assert_array_equal(theirs.affinity_matrix_.to_dense().numpy(), ours.affinity_matrix_.toarray())


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kind", ["auto", "regularized", "symmetric"])
def test_tensors_are_normalised_where_they_are(kind, dense, monkeypatch):
    torch = pytest.importorskip("torch", reason='needs pip install "quartic[gpu]"')
    from quartic.graphs import torch_similarity
    from quartic.losses.devices import moved
    from quartic.losses.factor import torch_matrix

    monkeypatch.setattr(torch_matrix, "_ENTRIES", 50)
    monkeypatch.setattr(torch_similarity, "walk_matrix", None)
    monkeypatch.setattr(torch_similarity, "_ROWS", 7)
    loops = weighted_graph() + np.eye(len(weighted_graph()))
    loops[:, 3] = loops[3] = 0  # a node without edges
    for A in (weighted_graph(), loops, normalize_graph(loops, "symmetric").toarray(), -loops):
        given = A if dense else sp.csr_array(A)
        chosen = choose_normalization(as_adjacency(A)) if kind == "auto" else kind
        if A.min() < 0 and kind != "auto":
            with pytest.raises(ValueError, match=r"the weight of \(\d+, \d+\) is -"):
                normalize_graph(moved(given, "cpu"), kind)
            continue
        found = normalize_graph(moved(given, "cpu"), kind)
        assert (found.layout == torch.strided) == dense
        np.testing.assert_allclose(found.to_dense().numpy(), normalize_graph(A, chosen).toarray(), rtol=1e-14)
    given = loops if dense else sp.csr_array(loops)
    ours, theirs = (SymNMF(3, normalize=kind, random_state=0).fit(G) for G in (given, moved(given, "cpu")))
    assert theirs.normalize_ == ours.normalize_
    theirs.embedding_ = torch.from_numpy(ours.embedding_)
    np.testing.assert_allclose(theirs.transform(loops[:4]), ours.transform(loops[:4]), atol=1e-12)
