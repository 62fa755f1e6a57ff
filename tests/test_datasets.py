"""Generators against their definitions, loaders against what is known of the data."""

import os

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from quartic import datasets


def need(load, *arguments):
    try:
        return load(*arguments)
    except datasets.DatasetNotFound as missing:
        pytest.skip(str(missing))


# --- where data are looked for


def test_data_home(monkeypatch, tmp_path):
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path))
    assert datasets.data_home() == tmp_path
    monkeypatch.delenv("QUARTIC_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert datasets.cache_home() == tmp_path / "cache" / "quartic"
    assert datasets.data_home().parent == datasets.cache_home()


LOADERS = {
    "coil20": lambda: datasets.load_features("coil20"),
    "cbcl": lambda: datasets.load_features("cbcl"),
    "orl": lambda: datasets.load_features("orl"),
    "tdt2": lambda: datasets.load_features("tdt2"),
    "reuters": lambda: datasets.load_features("reuters"),
    "polbooks": lambda: datasets.load_graph("polbooks"),
    "dblp": lambda: datasets.load_graph("dblp"),
    "tdt2 similarity": lambda: datasets.load_similarity("tdt2"),
    "coil20 similarity": lambda: datasets.load_similarity("coil20"),
    "protein 1ptq": lambda: datasets.protein("1ptq"),
    "uscities": lambda: datasets.load_points("uscities"),
    "test10-500": datasets.load_sensor_field,
}


@pytest.mark.parametrize("name", LOADERS)
def test_missing_data_are_named_in_one_line(name, monkeypatch, tmp_path):
    monkeypatch.setenv("QUARTIC_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as caught:
        LOADERS[name]()
    message = str(caught.value)
    assert isinstance(caught.value, datasets.DatasetNotFound)
    assert "\n" not in message
    assert name.removesuffix(" similarity") in message
    assert str(tmp_path) in message
    assert "QUARTIC_DATA" in message


@pytest.mark.parametrize("kind", ["graph", "similarity", "features", "points"])
def test_unknown_names_are_told_the_known_ones(kind):
    with pytest.raises(ValueError, match="name must be"):
        getattr(datasets, f"load_{kind}")("nonsense")


# --- loaders


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("coil20", (1440, 16384), 20),
        ("cbcl", (2429, 361), None),
        ("orl", (400, 10304), 40),
        ("tdt2", (9394, 36771), 30),
        ("reuters", (7963, 18933), 25),
    ],
)
def test_features(name, shape, classes):
    data = need(datasets.load_features, name)
    assert data.features.shape == shape
    assert data.features.dtype == np.float64
    assert isinstance(data.features, np.ndarray | sp.csr_array)
    if classes is None:
        assert data.labels is None
    else:
        np.testing.assert_array_equal(np.unique(data.labels), np.arange(classes))
        assert data.labels.shape == shape[:1]


@pytest.mark.parametrize(
    ("name", "n", "norm"), [("tdt2", 9394, 22.9972), ("reuters", 7963, 21.2611), ("orl", 400, 6.85325)]
)
def test_authors_similarities(name, n, norm):
    found = need(datasets.load_similarity, name)
    assert isinstance(found.matrix, sp.csr_array)
    assert found.matrix.shape == (n, n)
    assert found.matrix.has_sorted_indices
    assert np.linalg.norm(found.matrix.data) == pytest.approx(norm, rel=1e-5)
    assert found.labels.min() == 0


def test_coil20_graph_has_ten_components():
    M = need(datasets.load_similarity, "coil20")
    assert M.matrix.shape == (1440, 1440)
    assert sp.csgraph.connected_components(M.matrix)[0] == 10
    assert M.labels.max() == 19


@pytest.mark.parametrize(
    ("name", "n", "edges", "classes"),
    [
        ("karate", 34, 78, 2),
        ("polbooks", 105, 441, 3),
        ("polblogs", 1490, 16715, 2),
        ("eu-core", 1005, 16064, 42),
        ("cora", 2708, 5278, 7),
        ("lfr", 10000, 20777, 120),
        ("dblp", 317080, 1049866, None),
    ],
)
def test_graphs(name, n, edges, classes):
    graph = need(datasets.load_graph, name)
    A = graph.adjacency
    assert A.shape == (n, n)
    assert A.nnz == 2 * edges
    assert A.dtype == np.float64
    assert (A.data == 1).all()
    assert abs(A - A.T).nnz == 0
    if classes is None:
        assert graph.labels is None
        assert graph.membership.shape == (n, 13477)
        assert graph.membership.nnz == 719820
    else:
        np.testing.assert_array_equal(np.unique(graph.labels), np.arange(classes))


def test_karate_is_the_known_one():
    networkx = pytest.importorskip("networkx")
    club, ours = networkx.karate_club_graph(), datasets.karate()
    np.testing.assert_array_equal(ours.adjacency.toarray(), networkx.to_numpy_array(club, weight=None))
    np.testing.assert_array_equal(ours.labels, [club.nodes[i]["club"] != "Mr. Hi" for i in club])


def test_points_and_stanford_benchmark():
    assert need(datasets.load_points, "uscities").shape == (2920, 2)
    assert need(datasets.load_points, "cow").shape == (2601, 3)
    field = need(datasets.load_sensor_field)
    assert field.coordinates.shape == (500, 2)
    assert len(field.pairs) == len(field.distances) == 3537
    assert sorted(field.anchors) == list(range(490, 500))
    error = field.distances / datasets.pair_distances(field.coordinates, field.pairs) - 1
    assert np.std(error) == pytest.approx(0.101, abs=0.002)


@pytest.mark.parametrize(
    ("name", "atoms"), [("1ptq", 402), ("1pht", 814), ("1ax8", 1003), ("1rgs", 2015), ("1crn", 327)]
)
def test_proteins(name, atoms):
    molecule = need(datasets.protein, name)
    assert molecule.coordinates.shape == (atoms, 3)
    path = datasets.data_home() / "proteins" / f"{name}.pdb"
    np.testing.assert_array_equal(datasets.protein(path).coordinates, molecule.coordinates)
    np.testing.assert_array_equal(datasets.protein(name.upper()).coordinates, molecule.coordinates)


# --- generators


GENERATORS = {
    "helix": lambda seed: datasets.helix(50, random_state=seed),
    "swiss_roll": lambda seed: datasets.swiss_roll(50, random_state=seed),
    "random_pairs": lambda seed: datasets.random_pairs(50, 0.3, random_state=seed),
    "planted_graph": lambda seed: datasets.planted_graph(200, 4, random_state=seed)[0].toarray(),
    "block_model": lambda seed: datasets.block_model([30, 40], 0.5, 0.1, random_state=seed)[0].toarray(),
    "sensor_field": lambda seed: datasets.sensor_field(50, 8, noise=0.1, random_state=seed).distances,
}


@pytest.mark.parametrize("name", GENERATORS)
def test_same_seed_same_answer(name):
    make = GENERATORS[name]
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(make(3), make(3))
    np.testing.assert_array_equal(make(3), make(np.random.default_rng(3)))
    one, other = make(3), make(4)
    assert one.shape != other.shape or (one != other).any()
    make(None)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    with pytest.raises(TypeError, match="random_state"):
        make("seed")


def test_helix_and_swiss_roll_lie_on_their_surfaces():
    x, y, z = datasets.helix(2000, random_state=0).T
    t = z / 2
    np.testing.assert_allclose(np.column_stack([x, y]), np.column_stack([np.cos(3 * t), np.sin(3 * t)]))
    assert t.min() >= 0
    assert t.max() <= 2 * np.pi
    assert abs(t.mean() - np.pi) < 5 * 2 * np.pi / np.sqrt(12 * 2000)
    x, h, z = datasets.swiss_roll(2000, random_state=0).T
    t = np.hypot(x, z)
    np.testing.assert_allclose(np.column_stack([x, z]), np.column_stack([t * np.cos(t), t * np.sin(t)]), atol=1e-12)
    assert h.min() >= 0
    assert h.max() <= 21


@pytest.mark.parametrize("n", [2, 3, 7, 50])
def test_pair_numbers_are_a_bijection(n):
    from quartic.datasets.points import unordered_pairs

    found = unordered_pairs(np.arange(n * (n - 1) // 2), n)
    np.testing.assert_array_equal(found, np.column_stack(np.triu_indices(n, 1)))


def test_pair_numbers_beyond_the_digits_of_a_float():
    from quartic.datasets.points import unordered_pairs

    n = 2_000_000_000
    total = n * (n - 1) // 2
    i = np.concatenate([np.arange(50), n // 2 + np.arange(50), [n - 3, n - 2]])
    first = i * (2 * n - i - 1) // 2  # place of (i, i + 1); (i − 1, n − 1) stands just before
    np.testing.assert_array_equal(unordered_pairs(first, n), np.column_stack([i, i + 1]))
    np.testing.assert_array_equal(unordered_pairs(first[1:] - 1, n), np.column_stack([i[1:] - 1, np.full(101, n - 1)]))
    np.testing.assert_array_equal(unordered_pairs(np.array([total - 1]), n), [[n - 2, n - 1]])


@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.4, 0.5, 0.51, 0.97, 1.0])
def test_random_pairs_are_distinct(fraction):
    pairs = datasets.random_pairs(101, fraction, random_state=0)
    assert pairs.dtype == np.int64
    assert pairs.shape == (round(fraction * 5050), 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    key = pairs[:, 0] * 101 + pairs[:, 1]
    assert (np.diff(key) > 0).all()  # sorted, and none twice
    assert pairs.size == 0 or (pairs.min() >= 0 and pairs.max() <= 100)


@pytest.mark.parametrize("fraction", [0.2, 0.8])
def test_random_pairs_are_uniform(fraction):
    generator = np.random.default_rng(5)
    counts = np.zeros((8, 8))
    draws = 4000
    for _ in range(draws):
        i, j = datasets.random_pairs(8, fraction, random_state=generator).T
        counts[i, j] += 1
    seen = counts[np.triu_indices(8, 1)]
    p = round(28 * fraction) / 28
    assert abs(seen / draws - p).max() < 5 * np.sqrt(p * (1 - p) / draws)


def test_pairs_within_by_brute_force():
    X = np.random.default_rng(0).random((80, 3))
    i, j = np.triu_indices(80, 1)
    near = pdist(X) <= 0.4
    pairs = datasets.pairs_within(X, 0.4)
    np.testing.assert_array_equal(pairs, np.column_stack([i, j])[near])
    np.testing.assert_allclose(datasets.pair_distances(X, pairs), pdist(X)[near])
    assert datasets.pairs_within(X, 0.0).shape == (0, 2)


def test_planted_graph():
    n, communities, degree = 20_000, 10, 10
    M, labels = datasets.planted_graph(n, communities, degree, p_within=0.85, random_state=0)
    assert isinstance(M, sp.csr_array)
    assert M.has_sorted_indices
    assert abs(M - M.T).nnz == 0
    assert (M.diagonal() > 0).all()
    np.testing.assert_array_equal(np.bincount(labels), 2000)
    assert (labels[:-1] != labels[1:]).mean() > 0.85  # nodes are not in the order of communities
    # W_ii = 1 makes M_ii = 1/d_i, and D^-1/2 W D^-1/2 leaves √d as it is.
    root = 1 / np.sqrt(M.diagonal())
    np.testing.assert_allclose(M @ root, root)
    upper = sp.triu(M, 1).tocoo()
    row, column = upper.row, upper.col
    inside = (labels[row] == labels[column]).mean()
    assert inside == pytest.approx(0.85, abs=0.01)
    assert len(row) == pytest.approx(n * degree, rel=0.02)


@pytest.mark.parametrize(("n", "communities"), [(1, 1), (5, 5), (7, 2), (10, 1)])
def test_small_planted_graphs(n, communities):
    M, labels = datasets.planted_graph(n, communities, degree=3, random_state=0)
    assert M.shape == (n, n)
    assert np.isfinite(M.data).all()
    assert len(np.unique(labels)) == communities


def test_block_model():
    sizes = [300, 500, 400]
    A, labels = datasets.block_model(sizes, 0.2, 0.03, random_state=0)
    np.testing.assert_array_equal(np.bincount(labels), sizes)
    dense = A.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert set(np.unique(dense)) == {0.0, 1.0}
    assert not dense.diagonal().any()
    same = labels[:, None] == labels
    upper = np.triu(np.ones_like(same), 1)
    for block, p in ((same & upper, 0.2), (~same & upper, 0.03)):
        assert abs(dense[block].mean() - p) < 5 * np.sqrt(p * (1 - p) / block.sum())
    full, _ = datasets.block_model([3, 1, 2], 1.0, 1.0, random_state=0)
    np.testing.assert_array_equal(full.toarray(), 1 - np.eye(6))


def test_block_model_of_many_nodes_is_sparse():
    A, _ = datasets.block_model([100_000] * 2, 1e-5, 1e-6, random_state=0)  # dense, it would take 320 GB
    assert A.nnz == pytest.approx(2 * (1e-5 * 1e10 + 1e-6 * 1e10), rel=0.02)


@pytest.mark.parametrize("shape", ["square", "c"])
@pytest.mark.parametrize("dimension", [2, 3])
def test_sensor_field(shape, dimension):
    field = datasets.sensor_field(400, 15, dimension, shape, n_anchors=5, random_state=0)
    X = field.coordinates
    assert X.shape == (400, dimension)
    assert X.min() >= 0
    assert X.max() <= 1
    assert len(field.pairs) == 3000
    true = datasets.pair_distances(X, field.pairs)
    np.testing.assert_array_equal(field.distances, true)
    # By radius: the known distances are the shortest there are.
    np.testing.assert_allclose(np.sort(true), np.sort(pdist(X))[:3000])
    assert (field.pairs[:, 0] < field.pairs[:, 1]).all()
    assert sorted(field.anchors) == list(range(395, 400))
    np.testing.assert_array_equal(field.anchors[397], X[397])
    notch = (X[:, 0] > 1 / 3) & (abs(X[:, 1] - 0.5) < 1 / 6)
    assert notch.any() == (shape == "square")


def test_sensor_noise_is_relative():
    quiet = datasets.sensor_field(1000, 20, random_state=1)
    loud = datasets.sensor_field(1000, 20, noise=0.1, random_state=1)
    np.testing.assert_array_equal(quiet.pairs, loud.pairs)
    error = loud.distances / quiet.distances - 1
    assert np.std(error) == pytest.approx(0.1, rel=0.05)
    assert (loud.distances > 0).all()
    assert len(datasets.sensor_field(10, 9, random_state=0).pairs) == 45  # every pair


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: datasets.helix(0), ValueError, "n must be at least 1"),
        (lambda: datasets.helix(2.5), TypeError, "integer"),
        (lambda: datasets.random_pairs(10, 1.5), ValueError, "fraction"),
        (lambda: datasets.random_pairs(10, float("nan")), ValueError, "fraction"),
        (lambda: datasets.random_pairs(1, 0.5), ValueError, "at least 2"),
        (lambda: datasets.pairs_within([[0.0]], -1), ValueError, "cutoff"),
        (lambda: datasets.pair_distances([[0.0]], [[0, 1]]), ValueError, r"pairs\[0\] is \[0, 1\]"),
        (lambda: datasets.pair_distances([[0.0]], [0, 1]), ValueError, "shape"),
        (lambda: datasets.planted_graph(3, 4), ValueError, "at most n"),
        (lambda: datasets.planted_graph(10, 2, p_within=2), ValueError, "p_within"),
        (lambda: datasets.block_model([], 0.1, 0.1), ValueError, "at least one block"),
        (lambda: datasets.block_model([3, 0], 0.1, 0.1), ValueError, r"sizes\[1\]"),
        (lambda: datasets.block_model([3], -0.1, 0.1), ValueError, "p_in"),
        (lambda: datasets.sensor_field(10, 10), ValueError, "degree"),
        (lambda: datasets.sensor_field(10, 3, shape="round"), ValueError, "shape"),
        (lambda: datasets.sensor_field(10, 3, dimension=1, shape="c"), ValueError, "2 dimensions"),
        (lambda: datasets.sensor_field(10, 3, n_anchors=11), ValueError, "n_anchors"),
        (lambda: datasets.sensor_field(10, 3, noise=-1), ValueError, "noise"),
    ],
)
def test_bad_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_nothing_is_written_by_looking(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("QUARTIC_DATA", raising=False)
    with pytest.raises(datasets.DatasetNotFound):
        datasets.load_features("orl")
    assert os.listdir(tmp_path) == []
