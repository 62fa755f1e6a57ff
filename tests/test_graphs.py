"""Similarity graphs against brute force, and against the authors' own files."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import datasets
from quartic.graphs import as_adjacency, normalize, similarity

KINDS = ("cosine", "self_tuning")


def brute_force(X, kind, k, normalized=True):
    """The definition, word for word, in dense memory."""
    X = np.asarray(X, dtype=float)
    n = len(X)
    if kind == "cosine":
        length = np.linalg.norm(X, axis=1)
        length[length == 0] = 1
        W = np.maximum((X @ X.T) / np.outer(length, length), 0)
    else:
        D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
        sigma = np.sort(D, axis=1)[:, min(7, n) - 1]
        W = np.exp(-(D**2) / np.outer(sigma, sigma))
    kept = np.zeros_like(W)
    for i in range(n):
        best = np.argsort(-W[i], kind="stable")[:k]
        kept[i, best] = W[i, best]
    W = np.maximum(kept, kept.T)
    if not normalized:
        return W
    degree = W.sum(axis=1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return scale[:, None] * W * scale


def check_form(W, n):
    assert isinstance(W, sp.csr_array)
    assert W.shape == (n, n)
    assert W.dtype == np.float64
    assert W.has_sorted_indices
    assert np.isfinite(W.data).all()
    assert (W.data > 0).all()
    assert abs(W - W.T).nnz == 0


@pytest.fixture(params=["dense", "sparse"])
def stored(request):
    return np.asarray if request.param == "dense" else sp.csr_array


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("k", ["auto", 1, 5, 60, 1000, None])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_brute_force(kind, k, normalized, stored):
    X = np.random.default_rng(0).standard_normal((60, 9))
    W = similarity(stored(X), kind, n_neighbors=k, normalize=normalized)
    check_form(W, 60)
    number = {"auto": 6, None: 60}.get(k, k)
    np.testing.assert_allclose(W.toarray(), brute_force(X, kind, number, normalized), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_indices_are_of_32_bits_as_scikit_learn_wants_them(kind):
    W = similarity(np.random.default_rng(0).random((30, 4)), kind, n_neighbors=5)
    assert W.indices.dtype == W.indptr.dtype == np.int32


@pytest.mark.parametrize("kind", KINDS)
def test_many_tiles_and_blocks(kind, stored, monkeypatch):
    from quartic.graphs import neighbors

    X = np.random.default_rng(1).random((150, 12)) * (np.random.default_rng(2).random((150, 12)) < 0.4)
    whole = similarity(stored(X), kind)
    monkeypatch.setattr(neighbors, "TILE", 16)
    monkeypatch.setattr(neighbors, "BLOCK", 7)
    tiled = similarity(stored(X), kind)
    assert (tiled != whole).nnz == 0  # to the last bit: order of work must not show
    np.testing.assert_allclose(tiled.toarray(), brute_force(X, kind, 8), rtol=0, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 8, 15, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_few_points(kind, n, stored):
    X = np.random.default_rng(n).random((n, 3))
    W = similarity(stored(X), kind)
    check_form(W, n)
    if n == 1:
        assert W.toarray() == 1
    else:
        np.testing.assert_allclose(W.toarray(), brute_force(X, kind, int(np.log2(n)) + 1), rtol=0, atol=1e-13)


def test_ties_go_to_the_lowest_index(stored):
    # 3/√18 = 1/√2: equal cosines whose floats need not be. All of rows 1.. tie for row 0.
    X = np.array([[1, 0, 0], [1, 1, 0], [3, 0, 3], [7, 7, 0], [5, 0, 5], [11, 11, 0]])
    W = similarity(stored(X), "cosine", n_neighbors=3, normalize=False)
    # Row 0 takes 1 and 2; rows 3, 4, 5 have each other or their parallel, and 0 only by their own choice.
    assert set(W[[0]].indices.tolist()) >= {0, 1, 2}
    square = sp.csr_array(X) @ sp.csr_array(X).T
    square = square.toarray() ** 2 / np.outer((X**2).sum(1), (X**2).sum(1))  # exact ratios decide
    expected = np.zeros((6, 6), dtype=bool)
    for i in range(6):
        expected[i, np.argsort(-square[i], kind="stable")[:3]] = True
    np.testing.assert_array_equal(W.toarray() > 0, expected | expected.T)


def test_ties_of_distances_on_a_grid(stored):
    X = np.array([[i, j] for i in range(6) for j in range(6)])
    D = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    scale = np.sort(D, axis=1)[:, 6]
    key = D.astype(float) ** 2 / scale  # exact integers over exact integers
    expected = np.zeros((36, 36), dtype=bool)
    for i in range(36):
        expected[i, np.argsort(key[i], kind="stable")[:6]] = True
    W = similarity(stored(X), "self_tuning", normalize=False)
    np.testing.assert_array_equal(W.toarray() > 0, expected | expected.T)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_near_duplicates_keep_their_digits(offset, stored):
    # ‖a‖² + ‖b‖² − 2⟨a,b⟩ would lose every digit of distances of 1e-6 at an offset of 1e6.
    X = np.random.default_rng(3).random((40, 4)) * 1e-3 + offset
    W = similarity(stored(X), "self_tuning")
    np.testing.assert_allclose(W.toarray(), brute_force(X, "self_tuning", 6), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("kind", KINDS)
def test_scale_does_not_matter(kind, scale, stored):
    X = np.random.default_rng(4).random((30, 5))
    expected = similarity(stored(X), kind).toarray()
    np.testing.assert_allclose(similarity(stored(X * scale), kind).toarray(), expected, rtol=0, atol=1e-12)


def test_cosine_takes_rows_of_any_scale(stored):
    generator = np.random.default_rng(5)
    X = generator.random((30, 5))
    scaled = X * 10.0 ** generator.integers(-200, 200, size=(30, 1))
    np.testing.assert_allclose(
        similarity(stored(scaled)).toarray(), similarity(stored(X)).toarray(), rtol=0, atol=1e-12
    )


def test_copies_of_a_point(stored):
    generator = np.random.default_rng(6)
    X = np.concatenate([np.repeat(generator.random((1, 3)), 10, axis=0), generator.random((20, 3))])
    W = similarity(stored(X), "self_tuning", n_neighbors=None, normalize=False)
    check_form(W, 30)
    nearest = np.sqrt(((X[10:] - X[0]) ** 2).sum(axis=1)).min()
    np.testing.assert_allclose(W.toarray()[:10, :10], 1.0)
    sigma = np.sort(np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)), axis=1)[:, 6]
    expected = np.exp(-((X[0] - X[15]) ** 2).sum() / (nearest * sigma[15]))
    np.testing.assert_allclose(W[3, 15], expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_constant_features(kind, stored):
    W = similarity(stored(np.full((20, 3), 0.1)), kind)
    check_form(W, 20)
    assert (W.sum(axis=1) > 0).all()
    full = similarity(stored(np.full((20, 3), 0.1)), kind, n_neighbors=None, normalize=False)
    np.testing.assert_allclose(full.toarray(), 1.0)


def test_empty_documents_are_isolated(stored):
    X = np.array([[0, 0, 0], [1, 2, 0], [0, 0, 0], [2, 1, 0], [0, 0, 4]])
    W = similarity(stored(X))
    check_form(W, 5)
    np.testing.assert_allclose(W.toarray(), brute_force(X, "cosine", 3), rtol=0, atol=1e-15)
    assert W[[0, 2]].nnz == 0
    assert W[4, 4] == 1
    nothing = similarity(stored(np.zeros((4, 2))))
    assert nothing.shape == (4, 4)
    assert nothing.nnz == 0
    check_form(similarity(stored(np.zeros((4, 2))), "self_tuning"), 4)


def test_negative_cosines_are_no_similarity(stored):
    W = similarity(stored(np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.1]])), n_neighbors=None, normalize=False)
    check_form(W, 3)
    assert W.nnz == 5


@pytest.mark.parametrize("form", ["coo", "csc", "lil", "matrix", "int", "float32", "frame", "unsorted"])
@pytest.mark.parametrize("kind", KINDS)
def test_forms_of_input(kind, form):
    X = np.random.default_rng(7).integers(0, 3, size=(40, 6)).astype(float)
    forms = {
        "coo": lambda: sp.coo_array(X),
        "csc": lambda: sp.csc_array(X),
        "lil": lambda: sp.lil_array(X),
        "matrix": lambda: sp.csr_matrix(X),
        "int": lambda: X.astype(np.uint8),
        "float32": lambda: X.astype(np.float32),
        "frame": lambda: pytest.importorskip("pandas").DataFrame(X),
        "unsorted": lambda: unsorted(X),
    }
    given = forms[form]()
    before = given.indices.copy() if form == "unsorted" else None
    assert abs(similarity(given, kind) - similarity(X, kind)).max() < 1e-15
    if form == "unsorted":
        np.testing.assert_array_equal(given.indices, before)  # the caller's matrix is left alone


def unsorted(X):
    """Rows stored backwards, with one duplicate."""
    A = sp.csr_array(X)
    indices, data = A.indices.copy(), A.data.copy()
    for a, b in zip(A.indptr[:-1], A.indptr[1:], strict=True):
        indices[a:b], data[a:b] = indices[a:b][::-1].copy(), data[a:b][::-1].copy()
    return sp.csr_array((data, indices, A.indptr), shape=A.shape)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([1.0, 2.0],), ValueError, "2-D"),
        (([[1.0], [np.nan]],), ValueError, r"\[1, 0\] is nan"),
        ((sp.csr_array([[1.0], [np.inf]]),), ValueError, r"\[1, 0\] is inf"),
        ((np.zeros((0, 3)),), ValueError, "no rows"),
        ((sp.csr_array((0, 3)),), ValueError, "no rows"),
        ((np.zeros((3, 0)),), ValueError, "no columns"),
        (([["a", "b"]],), TypeError, "real numbers"),
        ((np.eye(2) * 1j,), TypeError, "real numbers"),
        ((sp.csr_array(np.eye(2) * 1j),), TypeError, "real numbers"),
        ((np.eye(3), "gauss"), ValueError, "'cosine', 'self_tuning'"),
        ((np.eye(3), "cosine", -1), ValueError, "at least 1"),
        ((np.eye(3), "cosine", 0), ValueError, "at least 1"),
        ((np.eye(3), "cosine", 2.5), TypeError, "integer"),
        ((np.eye(3), "cosine", True), TypeError, "integer"),
        ((np.eye(3), "cosine", "all"), TypeError, "integer"),
        ((np.eye(3), "cosine", 2, "yes"), TypeError, "normalize"),
    ],
)
def test_bad_input_is_named(arguments, error, words):
    with pytest.raises(error, match=words):
        similarity(*arguments)


def need(load, *arguments):
    try:
        return load(*arguments)
    except datasets.DatasetNotFound as missing:
        pytest.skip(str(missing))


def test_orl_equals_the_authors_file():
    X, theirs = need(datasets.load_features, "orl"), need(datasets.load_similarity, "orl")
    W = similarity(X.features, "self_tuning")
    np.testing.assert_array_equal(W.indptr, theirs.matrix.indptr)
    np.testing.assert_array_equal(W.indices, theirs.matrix.indices)
    np.testing.assert_allclose(W.data, theirs.matrix.data, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(X.labels, theirs.labels)


@pytest.mark.parametrize("name", ["tdt2", "reuters"])
def test_documents_equal_the_authors_file_but_for_ties(name):
    data = need(datasets.load_features, name)
    theirs = need(datasets.load_similarity, name)
    np.testing.assert_array_equal(data.labels, theirs.labels)
    X, n = data.features, data.features.shape[0]
    W = similarity(X, normalize=False)
    ours, other = (W > 0).astype(int), (theirs.matrix > 0).astype(int)
    differ = sp.coo_array(ours - other)
    differ.eliminate_zeros()
    assert differ.nnz < 0.002 * theirs.matrix.nnz
    # An edge that only one of the two has ties with the last one kept by one of its ends.
    length = np.sqrt((X * X).sum(axis=1))
    cosine = (X[differ.row] * X[differ.col]).sum(axis=1) / (length[differ.row] * length[differ.col])
    ends = np.unique(np.concatenate([differ.row, differ.col]))
    C = (X[ends] @ X.T).toarray() / np.outer(length[ends], length)
    last = np.zeros(n)
    last[ends] = -np.sort(-C, axis=1)[:, n.bit_length() - 1]
    tie = np.minimum(abs(cosine - last[differ.row]), abs(cosine - last[differ.col]))
    assert tie.max() < 1e-14
    # Rows no tie has touched, nor their neighbours', are equal to round-off.
    touched = np.zeros(n, dtype=bool)
    touched[ends] = True
    near = touched | ((ours + other) @ touched.astype(float) > 0)
    gap = abs(normalize(W) - theirs.matrix)[np.flatnonzero(~near)]
    assert (~near).sum() > 0.5 * n
    assert gap.max() < 1e-13


def test_memory_stays_far_below_n_squared():
    pytest.importorskip("resource", reason="peak memory is read through the resource module, which Windows lacks")
    code = """
import resource, sys
import numpy as np, scipy.sparse as sp
from quartic.graphs import similarity
n, kind = 12_000, sys.argv[1]
if sys.argv[2] == "sparse":
    generator = np.random.default_rng(0)
    X = sp.csr_array((np.ones(10 * n), (np.repeat(np.arange(n), 10), generator.integers(0, 1000, 10 * n))), (n, 1000))
else:
    X = np.random.default_rng(0).random((n, 5))
similarity(X[:100], kind)
scale = 1024 if sys.platform != "darwin" else 1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
W = similarity(X, kind)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale - before)
"""
    for arguments in (("cosine", "sparse"), ("self_tuning", "dense")):
        run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert int(run.stdout) < 12_000**2 * 8 / 8  # a dense matrix would take 1.15e9 bytes


def test_normalize():
    generator = np.random.default_rng(8)
    W = generator.random((12, 12))
    W = W + W.T
    W[3] = W[:, 3] = 0
    for given in (W, sp.coo_array(W), sp.csc_matrix(W)):
        M = normalize(given)
        check_form(M, 12)
        assert M[[3]].nnz == 0
        degree = W.sum(axis=1)
        live = degree > 0
        np.testing.assert_allclose(M.toarray()[live][:, live] @ np.sqrt(degree[live]), np.sqrt(degree[live]))
    A = sp.csr_array(W)
    before = A.data.copy()
    normalize(A)
    np.testing.assert_array_equal(A.data, before)


@pytest.mark.parametrize(
    ("W", "words"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0.0, 1.0], [1.0, -3.0]]), "row 1 of W sums to -2"),
        (sp.csr_array([[0.0, np.nan], [1.0, 0.0]]), "row 0"),
        (np.array([[np.inf]]), "finite"),
    ],
)
def test_normalize_names_the_fault(W, words):
    with pytest.raises(ValueError, match=words):
        normalize(W)


def test_as_adjacency_of_networkx():
    networkx = pytest.importorskip("networkx")
    G = networkx.Graph()
    G.add_edge("b", "a", weight=2.5)
    G.add_edge("a", "c")
    G.add_node("alone")
    A = as_adjacency(G)
    check_form(A, 4)
    np.testing.assert_array_equal(A.toarray(), networkx.to_numpy_array(G))
    club = networkx.karate_club_graph()
    np.testing.assert_array_equal(as_adjacency(club).toarray(), networkx.to_numpy_array(club))
    many = networkx.MultiGraph([(0, 1), (0, 1)])
    np.testing.assert_array_equal(as_adjacency(many).toarray(), [[0, 2], [2, 0]])
    with pytest.raises(ValueError, match="undirected"):
        as_adjacency(networkx.DiGraph([(0, 1)]))
    with pytest.raises(ValueError, match="no nodes"):
        as_adjacency(networkx.Graph())


def test_as_adjacency_of_pandas():
    pandas = pytest.importorskip("pandas")
    W = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    frame = pandas.DataFrame(W, index=list("abc"), columns=list("abc"))
    for given in (frame, frame[["c", "a", "b"]], pandas.DataFrame(W), pandas.DataFrame(W, index=list("xyz"))):
        np.testing.assert_array_equal(as_adjacency(given).toarray(), W)
    thin = pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(W))
    np.testing.assert_array_equal(as_adjacency(thin).toarray(), W)
    with pytest.raises(TypeError, match="real numbers"):
        as_adjacency(pandas.DataFrame({"a": ["x"]}))


def test_an_edge_list_in_a_frame_is_refused_with_the_code_that_makes_a_graph_of_it():
    """And the code works."""
    pandas, networkx = pytest.importorskip("pandas"), pytest.importorskip("networkx")
    from quartic import SymNMF

    ends = {"who": ["ann", "bob", "cid", "ann"], "whom": ["bob", "cid", "ann", "dee"]}
    for X, weights in (
        (pandas.DataFrame(ends), [1, 1, 1, 1]),
        (pandas.DataFrame({**ends, "hours": [1.0, 2.0, 3.0, 4.0]}), [1, 2, 3, 4]),
        (pandas.DataFrame({"source": [0, 1, 2, 0], "target": [1, 2, 0, 3], "weight": [4, 3, 2, 1]}), [4, 3, 2, 1]),
        (pandas.DataFrame({"kind": list("xyxx"), **ends}).rename(columns={"who": "from", "whom": "to"}), [1, 1, 1, 1]),
    ):
        for use in (as_adjacency, SymNMF(2).fit):
            with pytest.raises(ValueError, match="seems to be an edge list, not a matrix; pass the graph: ") as caught:
                use(X)
        code = str(caught.value).split("pass the graph: ")[1]
        graph = eval(code, {"networkx": networkx, "X": X})
        A = as_adjacency(graph)
        assert [A[0, 1], A[1, 2], A[0, 2], A[0, 3]] == weights


def test_as_adjacency_of_matrices():
    W = np.array([[1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for given in (W, W.tolist(), *(getattr(sp, f"{form}_array")(W) for form in ("csr", "csc", "coo", "lil", "dok"))):
        A = as_adjacency(given)
        check_form(A, 3)
        np.testing.assert_array_equal(A.toarray(), W)
    nearly = W.copy()
    nearly[0, 1] += 1e-15
    check_form(as_adjacency(nearly), 3)
    A = sp.csr_array(W)
    as_adjacency(A).data[:] = 7
    np.testing.assert_array_equal(A.toarray(), W)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (np.ones((2, 3)), ValueError, "square"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), ValueError, r"\(0, 1\) is 1 and that of \(1, 0\) is 2"),
        (np.array([[np.nan]]), ValueError, "finite"),
        (sp.csr_array([[0.0, np.inf], [np.inf, 0.0]]), ValueError, r"\(0, 1\) is inf"),
        (np.ones(3), ValueError, "2-D"),
        (sp.csr_array(np.eye(2) * 1j), TypeError, "real numbers"),
        ("graph", TypeError, "read it first: a graph by quartic.io.read_graph"),
    ],
)
def test_as_adjacency_names_the_fault(given, error, words):
    with pytest.raises(error, match=words):
        as_adjacency(given)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_sparse_features_of_any_size_have_the_graph_of_dense_ones(scale):
    X = scale * sp.random_array((60, 30), density=0.3, rng=np.random.default_rng(1)).tocsr()
    W = similarity(X, "self_tuning").toarray()
    np.testing.assert_allclose(W, similarity(X.toarray(), "self_tuning").toarray(), rtol=0, atol=1e-12)
