"""Similarity graphs and estimators on torch tensors, against the same on NumPy."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from quartic import DistanceCompletion, Problem, SymNMF, minimize, select_rank
from quartic.arrays import to_host
from quartic.datasets import block_model, karate, pair_distances, planted_graph, random_pairs
from quartic.graphs import normalize_graph, similarity
from quartic.losses import Distances

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-torch` installs it and runs these")


def features(n=300, d=5, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((4, d)) * 6
    return centres[rng.integers(4, size=n)] + rng.standard_normal((n, d))


def dense(W):
    assert W.layout == torch.sparse_csr
    return W.to_dense().numpy()


@pytest.mark.parametrize("kind", ["cosine", "self_tuning"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("n_neighbors", ["auto", 12, None])
def test_the_same_graph(kind, normalize, n_neighbors):
    X = features()
    ours = similarity(X, kind, n_neighbors, normalize).toarray()
    theirs = similarity(torch.from_numpy(X), kind, n_neighbors, normalize)
    np.testing.assert_allclose(dense(theirs), ours, atol=1e-12)


@pytest.mark.parametrize("kind", ["cosine", "self_tuning"])
@pytest.mark.parametrize("cores", [False, True])
def test_tiles_groups_and_split_factors_do_not_show(kind, cores, monkeypatch):
    from quartic.graphs import torch_similarity

    X = features(3000, d=7)
    whole = similarity(X, kind).toarray()
    monkeypatch.setattr(torch_similarity, "_GROUP", 4)
    monkeypatch.setattr(torch_similarity, "_TILE", 32 * 3008 * 70)
    monkeypatch.setattr(torch_similarity, "_GATHERED", 20_000)
    monkeypatch.setattr(torch_similarity, "_has_tensor_cores", lambda A: cores)
    np.testing.assert_allclose(dense(similarity(torch.from_numpy(X), kind)), whole, atol=1e-14)


def test_the_smallest_of_rows():
    from quartic.graphs.torch_similarity import smallest

    rng = np.random.default_rng(0)
    for width in (5, 100, 2048, 32 * 1024):
        A = torch.from_numpy(rng.integers(0, 3 * width, (6, width)).astype(float))  # with ties
        values, columns = smallest(A, 5)
        assert torch.equal(A.gather(1, columns), values)
        assert all(len(set(row)) == 5 for row in columns.tolist())
        assert torch.equal(values.sort(dim=1)[0], A.sort(dim=1)[0][:, :5])


@pytest.mark.parametrize("kind", ["cosine", "self_tuning"])
def test_ties_go_to_the_lowest_index(kind):
    """Integers on a grid: most distances and cosines tie."""
    X = np.random.default_rng(0).integers(-3, 4, (500, 2)).astype(float)
    for n_neighbors in (3, 9, 40):
        ours = similarity(X, kind, n_neighbors).toarray()
        for dtype in (torch.float64, torch.float32):
            theirs = similarity(torch.from_numpy(X).to(dtype), kind, n_neighbors)
            np.testing.assert_allclose(dense(theirs), ours, atol=1e-6 if dtype == torch.float32 else 1e-14)
            assert ((dense(theirs) > 0) == (ours > 0)).all()


@pytest.mark.parametrize("kind", ["cosine", "self_tuning"])
def test_float32_stays_float32_and_loses_no_digits_but_its_own(kind):
    """Tight clusters far from each other: products in float32 cannot tell the points of a cluster apart."""
    rng = np.random.default_rng(0)
    X = (100 * rng.standard_normal((4, 6)))[rng.integers(4, size=400)] + 1e-3 * rng.standard_normal((400, 6))
    X = X.astype(np.float32)
    W = similarity(torch.from_numpy(X), kind)
    assert W.dtype == torch.float32
    np.testing.assert_allclose(dense(W), similarity(X, kind).toarray(), rtol=3e-7)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
def test_copies_and_zero_rows(size):
    X = features(80)
    X[:30] = X[0]  # more copies than candidates
    X[40:50] = X[40]
    for kind in ("cosine", "self_tuning"):
        W = similarity(torch.from_numpy(size * X), kind)
        np.testing.assert_allclose(dense(W), similarity(size * X, kind).toarray(), atol=1e-14)
    X[3:60:2] = 0
    np.testing.assert_allclose(
        dense(similarity(torch.from_numpy(X), "cosine")), similarity(X, "cosine").toarray(), atol=1e-14
    )
    words = np.random.default_rng(0).poisson(0.05, (200, 60)).astype(float)  # most have fewer neighbours than are kept
    W = dense(similarity(torch.from_numpy(words), "cosine", 30))
    np.testing.assert_allclose(W, similarity(words, "cosine", 30).toarray(), atol=1e-14)
    same = similarity(torch.ones((100, 3)), "self_tuning")
    np.testing.assert_allclose(dense(same), similarity(np.ones((100, 3)), "self_tuning").toarray(), rtol=1e-6)


def test_estimator_on_tensors_and_numpy():
    X = features()
    kwargs = {"affinity": "self_tuning", "random_state": 0}
    ours = SymNMF(4, **kwargs).fit(X)
    tensor = SymNMF(4, **kwargs).fit(torch.from_numpy(X))
    assert isinstance(tensor.embedding_, torch.Tensor)
    assert tensor.memberships_.sum(dim=1).numpy() == pytest.approx(np.ones(len(X)))
    there_and_back = SymNMF(4, device="cpu:0", **kwargs).fit(X)
    assert isinstance(there_and_back.embedding_, np.ndarray)
    assert sp.issparse(there_and_back.affinity_matrix_)
    for model in (tensor, there_and_back):
        assert model.objective_ == pytest.approx(ours.objective_, rel=1e-2)
        same = np.asarray(model.labels_)[:, None] == np.asarray(model.labels_)
        assert (same == (ours.labels_[:, None] == ours.labels_)).mean() > 0.98


def test_precomputed_graphs():
    W = karate().adjacency
    ours = SymNMF(2, random_state=0).fit(W)
    theirs = SymNMF(2, random_state=0, device="cpu:0").fit(W)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-2)


def test_locating_on_a_device():
    rng = np.random.default_rng(0)
    points = rng.random((120, 3))
    pairs = np.array(np.triu_indices(120, 1)).T
    pairs = pairs[rng.random(len(pairs)) < 0.3]
    d = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    model = DistanceCompletion(3, random_state=0, device="cpu:0").fit_pairs(pairs, d)
    assert isinstance(model.embedding_, np.ndarray)
    assert model.rmse_ < 1e-7


@pytest.mark.filterwarnings("ignore::quartic.estimators.DistanceWarning")
def test_only_runs_over_all_points_of_a_field_go_to_the_device(monkeypatch):
    rng = np.random.default_rng(0)
    points = rng.random((700, 2))
    pairs = np.array(np.triu_indices(700, 1)).T
    d = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    near = d < (20 / (np.pi * 700)) ** 0.5
    made = []

    def count(pairs, *given):
        made.append((len(pairs), isinstance(pairs, torch.Tensor)))
        return Distances(pairs, *given)

    monkeypatch.setattr("quartic.distance.component.Distances", count)
    model = DistanceCompletion(2, init="patches", random_state=0, device="cpu:0").fit_pairs(pairs[near], d[near])
    assert model.rmse_ < 1e-9
    assert [size for size, on_device in made if on_device] == [np.count_nonzero(near)]
    assert len(made) > 5  # patches there were


def test_devices_that_are_not_there():
    X = features(20)
    with pytest.raises(ValueError, match="is no device of torch"):
        SymNMF(2, device="nonsense").fit(np.eye(5))
    with pytest.raises(ValueError, match="but X is a tensor on meta"):
        SymNMF(2, device="cpu").fit(torch.from_numpy(X).to("meta"))
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="sees no CUDA device"):
            SymNMF(2, device="cuda").fit(np.eye(5))
        with pytest.raises(ValueError, match="sees no CUDA device"):
            DistanceCompletion(2, device="cuda").fit(np.ones((4, 4)) - np.eye(4))


def graphs_of_each_kind():
    A = block_model([60, 60], 0.2, 0.02, random_state=0)[0]
    return {
        "walks": A,
        "regularized": karate().adjacency,
        "symmetric": similarity(features(90), "self_tuning", normalize=False),
        "normalised": similarity(features(90), "self_tuning"),
        "dense": sp.csr_array(np.ones((30, 30))),
        "negative": A - 3 * sp.eye_array(120),
        "isolated": sp.block_diag([A, sp.csr_array((5, 5))], format="csr"),
    }


@pytest.mark.parametrize("name", list(graphs_of_each_kind()))
@pytest.mark.parametrize("layout", ["csr", "coo", "dense"])
def test_a_tensor_is_normalised_as_the_matrix_is(name, layout):
    A = sp.csr_array(graphs_of_each_kind()[name], dtype=np.float64)
    tensor = torch.from_numpy(A.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls CSR a beta feature
        tensor = {"csr": tensor.to_sparse_csr, "coo": tensor.to_sparse, "dense": lambda: tensor}[layout]()
    for kind in ("auto", "regularized", "symmetric", "walks"):
        if name == "negative" and kind != "auto":
            with pytest.raises(ValueError, match="the weight of"):
                normalize_graph(tensor, kind)
            continue
        ours, theirs = normalize_graph(A, kind), normalize_graph(tensor, kind)
        np.testing.assert_allclose(theirs.to_dense().numpy(), ours.toarray(), atol=1e-14)


def test_distances_of_random_pairs_have_the_same_start():
    rng = np.random.default_rng(0)
    points, pairs = rng.random((1200, 3)), random_pairs(1200, 0.027, random_state=0)
    squared, w = pair_distances(points, pairs) ** 2, rng.uniform(0.5, 2.0, len(pairs))
    V = rng.standard_normal((1200, 5))
    for weights in (None, w):
        here = Distances(pairs, squared, 1200, weights).pairs
        there = Distances(
            *map(torch.from_numpy, (pairs, squared)), 1200, None if weights is None else torch.from_numpy(w)
        )
        (ours, noise), (theirs, again) = here.centred(), there.pairs.centred()
        np.testing.assert_allclose(theirs(torch.from_numpy(V)).numpy(), ours(V), atol=1e-12)
        np.testing.assert_allclose(again, noise)
    result = minimize(Problem(Distances(*map(torch.from_numpy, (pairs, squared)))), rank=3, tol=1e-8, random_state=0)
    assert result.objective < 1e-9
    assert result.n_products < 80


@pytest.mark.parametrize("normalize", ["auto", "regularized", "walks", None])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalised", [False, True])
def test_all_that_a_fit_leaves_behind_is_there_for_tensors(normalize, sparse, normalised, no_way_to_numpy):
    """Labels, places of new nodes, communities, figures: as for the same graph in NumPy."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="the report extra is not installed")
    graph = planted_graph(120, 4, random_state=0)[0]
    if not normalised:
        graph = sp.csr_array((graph > 0).astype(float))
    G = torch.from_numpy(graph.toarray())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls CSR a beta feature
        M = G.to_sparse_csr() if sparse else G
        rows = M.to_dense()[:5].to_sparse_csr() if sparse else G[:5]
    ours = SymNMF(4, normalize=normalize, random_state=0).fit(graph if sparse else graph.toarray())
    theirs = SymNMF(4, normalize=normalize, random_state=0).fit(M)
    assert adjusted_rand_score(to_host(theirs.labels_), ours.labels_) > 0.9
    assert theirs.memberships_.shape == (120, 4)
    assert len(theirs.communities_) == 4
    assert all(theirs.communities_)
    np.testing.assert_array_equal(theirs.predict(M), to_host(theirs.labels_))
    assert adjusted_rand_score(to_host(theirs.predict(rows)), to_host(theirs.labels_[:5])) > 0.9
    assert theirs.transform(rows).shape == (5, 4)
    assert np.isfinite(theirs.score(rows))
    theirs.plot_similarity()
    theirs.plot_memberships()
    plt.close("all")


def test_nodes_are_added_and_ranks_chosen_from_tensors(no_way_to_numpy):
    G = torch.from_numpy(planted_graph(120, 4, random_state=0)[0].toarray())
    more = SymNMF(4, random_state=0).fit(G).partial_fit(torch.cat([G[:3], torch.zeros(3, 3, dtype=G.dtype)], dim=1))
    assert isinstance(more.embedding_, torch.Tensor)
    np.testing.assert_array_equal(to_host(more.labels_[-3:]), to_host(more.labels_[:3]))
    X = torch.from_numpy(features())
    for affinity in ("self_tuning", "cosine"):
        model = SymNMF(4, affinity=affinity, random_state=0).fit(X.abs())
        assert model.partial_fit(X[:5].abs()).embedding_.shape == (305, 4)
        np.testing.assert_array_equal(to_host(model.labels_[-5:]), to_host(model.labels_[:5]))
    assert select_rank(G, range(2, 7), random_state=0).best == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_may_be_tensors_wherever_they_are(dtype, no_way_to_numpy):
    rng = np.random.default_rng(0)
    points = rng.random((60, 3))
    pairs = random_pairs(60, 0.5, random_state=1)
    d = torch.from_numpy(pair_distances(points, pairs)).to(dtype)
    ends = torch.from_numpy(pairs)
    D = torch.full((60, 60), torch.nan, dtype=dtype)
    D[ends[:, 0], ends[:, 1]] = d
    whole = torch.cdist(torch.from_numpy(points), torch.from_numpy(points)).to(dtype)
    for model in (
        DistanceCompletion(random_state=0).fit_pairs(ends, d, n_points=60),
        DistanceCompletion(random_state=0).fit_pairs(ends, d, n_points=60, weights=torch.ones_like(d)),
        DistanceCompletion(random_state=0).fit_pairs(ends, n_points=60, lower=d, upper=d),
        DistanceCompletion(random_state=0).fit(D),
        DistanceCompletion(random_state=0).fit(whole),
        DistanceCompletion(metric="euclidean").fit(torch.from_numpy(points).to(dtype)),
    ):
        assert isinstance(model.embedding_, np.ndarray)
        np.testing.assert_allclose(model.distances(ends), d.numpy(), atol=5e-3)
        assert model.score_pairs(ends, d) > -5e-3
    assert model.transform(torch.from_numpy(points[:4]).to(dtype)).shape == (4, 3)


def test_large_components_share_no_cluster():
    """Walks halve one of two rings of neighbours; the run begun from whole rings is one on tensors too."""
    X, rings = make_circles(600, noise=0.05, factor=0.5, random_state=0)
    A = kneighbors_graph(X, 10)
    A = torch.from_numpy(A.maximum(A.T).toarray()).to_sparse_csr()
    model = SymNMF(2, normalize="walks", random_state=0).fit(A)
    assert torch.is_tensor(model.labels_)
    assert adjusted_rand_score(rings, model.labels_.numpy()) == 1
