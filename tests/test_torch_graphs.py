"""Similarity graphs and estimators on torch tensors, against the same on NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.datasets import block_model, karate, pair_distances, random_pairs
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
def test_tiles_do_not_show(kind, monkeypatch):
    from quartic.graphs import torch_similarity

    X = torch.from_numpy(features())
    whole = dense(similarity(X, kind))
    monkeypatch.setattr(torch_similarity, "_COLUMNS", 64)
    monkeypatch.setattr(torch_similarity, "_TILE", 64 * 37)
    np.testing.assert_allclose(dense(similarity(X, kind)), whole, atol=1e-14)


def test_float32_stays_float32():
    W = similarity(torch.from_numpy(features()).float(), "self_tuning")
    assert W.dtype == torch.float32
    np.testing.assert_allclose(dense(W), similarity(features(), "self_tuning").toarray(), atol=1e-3)


def test_copies_and_zero_rows():
    X = features(40)
    X[:9] = X[0]
    ours, theirs = similarity(X, "self_tuning").toarray(), similarity(torch.from_numpy(X), "self_tuning")
    assert np.isfinite(dense(theirs)).all()
    # of copies any may stay, so that only the set of row sums is the same
    np.testing.assert_allclose(np.sort(dense(theirs).sum(axis=1)), np.sort(ours.sum(axis=1)), atol=1e-12)
    X[3] = 0
    assert (dense(similarity(torch.from_numpy(X), "cosine"))[3] == 0).all()


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
    points, pairs = rng.random((400, 3)), random_pairs(400, 0.08, random_state=0)
    squared, w = pair_distances(points, pairs) ** 2, rng.uniform(0.5, 2.0, len(pairs))
    V = rng.standard_normal((400, 5))
    for weights in (None, w):
        here = Distances(pairs, squared, 400, weights).pairs
        there = Distances(
            *map(torch.from_numpy, (pairs, squared)), 400, None if weights is None else torch.from_numpy(w)
        )
        (ours, noise), (theirs, again) = here.passes.centred(here), there.pairs.passes.centred(there.pairs)
        np.testing.assert_allclose(theirs(torch.from_numpy(V)).numpy(), ours(V), atol=1e-12)
        np.testing.assert_allclose(again, noise)
    result = minimize(Problem(Distances(*map(torch.from_numpy, (pairs, squared)))), rank=3, tol=1e-8, random_state=0)
    assert result.objective < 1e-9
    assert result.n_products < 80
