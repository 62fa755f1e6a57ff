"""Torch tensors in, torch tensors out: the same code, the same answers, few reads from the device."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, certify, minimize
from quartic.arrays import space_of
from quartic.datasets import planted_graph
from quartic.init import random_start, spectral_start
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import Distances, LeastSquares
from quartic.losses.devices import to_scipy
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from quartic.solvers import LevenbergMarquardt

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-torch` installs it and runs these")

DTYPES = {"float64": (np.float64, torch.float64), "float32": (np.float32, torch.float32)}


def graph(n=60, groups=3, seed=0, dtype=np.float64):
    """A symmetric sparse graph of communities."""
    rng = np.random.default_rng(seed)
    member = rng.integers(groups, size=n)
    A = np.triu(rng.random((n, n)) < np.where(member[:, None] == member, 0.6, 0.05), 1)
    A = A + A.T + np.eye(n)
    d = A.sum(axis=1)
    return sp.csr_array(A / np.sqrt(d[:, None] * d)).astype(dtype)


def tensor(A):
    """The same matrix as a tensor, sparse ones as CSR."""
    if not sp.issparse(A):
        return torch.from_numpy(np.array(A))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls CSR a beta feature
        return torch.sparse_csr_tensor(
            torch.from_numpy(A.indptr), torch.from_numpy(A.indices), torch.from_numpy(A.data), A.shape
        )


def start(n, r, seed=1, dtype=np.float64):
    return np.random.default_rng(seed).uniform(0.1, 0.5, (n, r)).astype(dtype)


def both(M, X0, penalty, kernel=None, **settings):
    """Run the same problem on NumPy and on torch, and return both results."""
    ours = minimize(Problem(LeastSquares(M), penalty, kernel), X0, **settings)
    theirs = minimize(Problem(LeastSquares(tensor(M)), penalty, kernel), torch.from_numpy(X0), **settings)
    assert isinstance(theirs.X, torch.Tensor)
    return ours, theirs


def test_the_space_of_tensors_has_its_own_of_everything():
    """But for what is put together of the others: a NumPy body must never meet a tensor."""
    from quartic.arrays.space import Space
    from quartic.arrays.space_torch import DeviceSpace

    inherited = {name for name in vars(Space) if not name.startswith("_")} - set(vars(DeviceSpace))
    assert inherited == {"norm", "root", "projected", "projected_norm"}


def test_a_metric_of_nothing_is_that_of_the_gradient():
    space = space_of(torch.zeros(1))
    inverse = space.regular_inverse(space.zeros((2, 2), np.float64), 1e-3)
    np.testing.assert_array_equal(space.to_host(inverse), np.eye(2))


SYMNMF = ["nolips", "dyn-nolips", "inertial", "lbfgs", "pg", "hals"]


@pytest.mark.parametrize("solver", SYMNMF)
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_symmetric_nmf_is_the_same_run(solver, kind):
    M = graph()
    M = M if kind == "sparse" else M.toarray()
    ours, theirs = both(M, start(60, 3), Nonnegative(), solver=solver, tol=0.0, max_iter=20)
    assert theirs.X.dtype == torch.float64
    np.testing.assert_allclose(theirs.X.numpy(), ours.X, atol=1e-10)
    assert theirs.n_products == ours.n_products
    np.testing.assert_allclose(theirs.history.stationarity, ours.history.stationarity, rtol=1e-8)


@pytest.mark.parametrize("solver", ["inertial", "lbfgs"])
def test_large_factors_are_the_same_run(solver):
    """Whatever is done for memory's sake where X is large must not change the iterates."""
    n = 15_000
    M = planted_graph(n, 16, random_state=0)[0]
    ours, theirs = both(M, start(n, 16), Nonnegative(), solver=solver, tol=0.0, max_iter=20)
    np.testing.assert_allclose(theirs.X.numpy(), ours.X, atol=1e-10)


@pytest.mark.parametrize("solver", SYMNMF)
def test_float32_stays_float32_and_converges(solver):
    M = graph(dtype=np.float32)
    ours, theirs = both(M, start(60, 3, dtype=np.float32), Nonnegative(), solver=solver, tol=1e-3)
    assert theirs.X.dtype == torch.float32
    assert theirs.success == ours.success
    if ours.success:
        assert theirs.objective == pytest.approx(ours.objective, rel=1e-3)


@pytest.mark.parametrize(
    "penalty", [Zero(), L1(0.01), L0(0.001), Ridge(0.1), NonnegativeL1(0.01), NonnegativeRidge(0.1)], ids=repr
)
@pytest.mark.parametrize("kernel", [NormKernel(6.0, 1.0), GramKernel(0.0, 2.0, 1.0)], ids=["norm", "gram"])
def test_every_penalty_and_kernel(penalty, kernel):
    if isinstance(kernel, GramKernel) and not isinstance(penalty, Zero | Ridge):
        pytest.skip("no closed-form map for this pair")
    ours, theirs = both(graph(), start(60, 3), penalty, kernel, solver="dyn-nolips", tol=0.0, max_iter=20)
    np.testing.assert_allclose(theirs.X.numpy(), ours.X, atol=1e-10)
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-12)


@pytest.mark.parametrize(
    ("solver", "most"), [("inertial", 1), ("dyn-nolips", 1), ("nolips", 1), ("pg", 1), ("lbfgs", 2)]
)
def test_reads_from_the_device_are_few(solver, most, monkeypatch):
    """One read a trial step (a product, here); L-BFGS reads once for the line and once for the point on it.

    Whatever hands a tensor's numbers to Python is counted, not only what the package says of itself.
    """
    seen = [0]

    def counted(method):
        def call(*args, **kwargs):
            seen[0] += 1
            return method(*args, **kwargs)

        return call

    for name in ("item", "cpu", "tolist", "__float__", "__bool__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, counted(getattr(torch.Tensor, name)))
    problem = Problem(LeastSquares(tensor(graph(200))), Nonnegative(), NormKernel(6.0, 1.0))
    counts = []
    minimize(
        problem, torch.from_numpy(start(200, 3)), solver=solver, tol=0.0, max_iter=30,
        callback=lambda p: counts.append((seen[0], p.n_products)),
    )  # fmt: skip
    reads, products = np.diff(np.array(counts[2:]), axis=0).T
    # pg compares two trial points; inertial looks for the best point on the way to a trial that failed
    extra = {"pg": 1, "inertial": 2}.get(solver, 0)
    assert (reads <= most * np.maximum(products, 1) + extra).all()
    assert np.median(reads / np.maximum(products, 1)) <= most + (solver == "pg")


# -- distances --------------------------------------------------------------------------------------------------------


def pairs_of(n=80, degree=24, seed=0, rank=3, dtype=np.float64):
    """Random points, and squared distances of random pairs."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, rank))
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = pairs[rng.permutation(len(pairs))[: n * degree // 2]]
    pairs = np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    squared = np.square(points[pairs[:, 0]] - points[pairs[:, 1]]).sum(axis=1)
    return pairs, squared.astype(dtype), points


def distances(torch_too=True, weighted=False, **kwargs):
    pairs, squared, _ = pairs_of(**kwargs)
    weights = np.random.default_rng(5).uniform(0.5, 2, len(pairs)).astype(squared.dtype) if weighted else None
    ours = Distances(pairs, squared, weights=weights)
    theirs = Distances(
        torch.from_numpy(pairs.copy()), torch.from_numpy(squared),
        weights=None if weights is None else torch.from_numpy(weights),
    )  # fmt: skip
    return ours, theirs


EDMC = ["dyn-nolips", "inertial", "gd", "lbfgs", "ncg", LevenbergMarquardt(core=0), "tr"]


@pytest.mark.parametrize("solver", EDMC, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_distances_are_the_same_run(solver, weighted):
    ours, theirs = distances(weighted=weighted)
    X0 = np.random.default_rng(3).standard_normal((80, 3))
    settings = {"solver": solver, "tol": 0.0, "max_iter": 10}
    a, b = minimize(Problem(ours), X0, **settings), minimize(Problem(theirs), torch.from_numpy(X0), **settings)
    # a trust region ends its inner solves by a comparison, which round-off may tip
    tolerance = 1e-6 if solver == "tr" else 1e-8
    np.testing.assert_allclose(b.X.numpy(), a.X, rtol=tolerance, atol=tolerance * np.abs(a.X).max())
    assert a.n_products == b.n_products


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_constants_of_distances(weighted):
    ours, theirs = distances(weighted=weighted)
    for name in ("smoothness", "gradient_norm_at_zero", "gradient_scale", "value_at_zero", "n_pairs", "n_points"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name), rel=1e-12), name


def test_distances_in_float32():
    _, theirs = distances(dtype=np.float32)
    result = minimize(Problem(theirs), rank=3, random_state=0, tol=1e-3)
    assert result.X.dtype == torch.float32
    assert result.success


def test_pairs_given_twice_or_wrong():
    pairs, d = torch.tensor([[0, 1], [1, 0], [1, 2], [0, 2]]), torch.tensor([1.0, 1.0, 2.0, 3.0])
    assert Distances(pairs, d).n_pairs == 3
    with pytest.raises(ValueError, match=r"the pair \(0, 1\) is given twice and differs: 1.0 in row 0, 5.0 in row 1"):
        Distances(pairs, torch.tensor([1.0, 5.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match=r"pairs\[2\] = \[1, 1\] joins a point to itself"):
        Distances(torch.tensor([[0, 1], [1, 2], [1, 1]]), torch.ones(3))
    with pytest.raises(ValueError, match=r"squared\[1\] is nan"):
        Distances(pairs, torch.tensor([1.0, float("nan"), 2.0, 3.0]))
    with pytest.raises(ValueError, match="outside the 2 points"):
        Distances(pairs, d, n_points=2)
    with pytest.raises(TypeError, match="integer indices"):
        Distances(pairs + 0.5, d)


# -- starts -----------------------------------------------------------------------------------------------------------


def planted(n=3000, groups=8, seed=0, dtype=np.float64):
    """The graph of the benchmarks, small: ten neighbours drawn by each node, 85 % within its community."""
    rng = np.random.default_rng(seed)
    member = rng.integers(groups, size=n)
    order, size = np.argsort(member, kind="stable"), np.bincount(member, minlength=groups)
    first = np.cumsum(size) - size
    rows = np.repeat(np.arange(n), 10)
    inside = order[first[member[rows]] + (rng.random(len(rows)) * size[member[rows]]).astype(int)]
    columns = np.where(rng.random(len(rows)) < 0.85, inside, rng.integers(n, size=len(rows)))
    W = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()
    W = W + W.T + sp.eye_array(n)
    d = 1 / np.sqrt(W.sum(axis=1))
    return sp.csr_array(sp.diags_array(d) @ W @ sp.diags_array(d)).astype(dtype), member


def purity(labels, member):
    table = np.zeros((labels.max() + 1, member.max() + 1))
    np.add.at(table, (labels, member), 1)
    return table.max(axis=1).sum() / len(member)


@pytest.mark.parametrize("dtype", DTYPES)
def test_spectral_start_on_the_device_finds_the_communities(dtype):
    M, member = planted(dtype=DTYPES[dtype][0])
    problem = Problem(LeastSquares(tensor(M)), Nonnegative())
    result = minimize(problem, spectral_start, rank=8, reference=random_start, random_state=0)
    assert result.success
    assert result.X.dtype == DTYPES[dtype][1]
    assert result.n_products < 100
    assert purity(result.X.argmax(dim=1).numpy(), member) > 0.99


def test_a_start_of_the_wrong_kind_or_place():
    M = graph()
    problem = Problem(LeastSquares(M), Nonnegative())
    with pytest.raises(TypeError, match=r"X0 is a torch tensor on cpu, but the data are NumPy"):
        minimize(problem, torch.ones(60, 3))
    problem = Problem(LeastSquares(tensor(M)), Nonnegative())
    with pytest.raises(ValueError, match=r"X0 is on meta, but the data are on cpu; pass X0.to\(\"cpu\"\)"):
        minimize(problem, torch.ones(60, 3, device="meta"))
    result = minimize(problem, start(60, 3))  # NumPy is moved
    assert isinstance(result.X, torch.Tensor)
    with pytest.raises(ValueError, match=r"X0\[0, 1\] = -1.0"):
        minimize(problem, torch.tensor([[1.0, -1.0]] * 60, dtype=torch.float64))
    X0 = torch.ones(60, 2)
    X0[2, 0] = float("nan")
    with pytest.raises(ValueError, match=r"must be finite, but X0\[2, 0\] is nan"):
        minimize(problem, X0)


def test_random_starts_repeat():
    problem = Problem(LeastSquares(tensor(graph())), Nonnegative())
    a, b = (minimize(problem, rank=3, random_state=7, max_iter=5).X for _ in range(2))
    assert torch.equal(a, b)


# -- matrices ---------------------------------------------------------------------------------------------------------


def test_matrices_are_checked():
    M = torch.eye(4, dtype=torch.float64)
    bad = M.clone()
    bad[1, 2] = 0.5
    for form in (bad, bad.to_sparse_coo()):
        with pytest.raises(ValueError, match=r"M must be symmetric, but M\[(1, 2|2, 1)\] = 0.[05]"):
            LeastSquares(form)
    bad[1, 2] = float("nan")
    for form in (bad, bad.to_sparse_coo()):
        with pytest.raises(ValueError, match=r"M must be finite, but M\[1, 2\] is nan"):
            LeastSquares(form)
    with pytest.raises(ValueError, match="square symmetric matrix"):
        LeastSquares(torch.ones(3, 4))
    with pytest.raises(TypeError, match="real numbers"):
        LeastSquares(torch.ones(3, 3, dtype=torch.complex64))


def test_sparse_input_need_not_be_canonical():
    M = graph()
    coo = sp.coo_array(M)
    places, values = torch.from_numpy(np.hstack([coo.coords, coo.coords])), torch.from_numpy(np.tile(coo.data / 2, 2))
    twice = torch.sparse_coo_tensor(places, values, M.shape, check_invariants=False)
    X = start(60, 3)
    assert LeastSquares(twice).value(torch.from_numpy(X)) == pytest.approx(LeastSquares(M).value(X), rel=1e-12)


@pytest.fixture(params=[1 << 24, 37], ids=["at once", "in pieces"])
def pieces(request, monkeypatch):
    from quartic.losses.factor import torch_matrix

    monkeypatch.setattr(torch_matrix, "_ENTRIES", request.param)


def wide_graph(n=400, dtype=np.float64):
    """A random symmetric graph with a hub, empty rows at both ends and in between."""
    A = sp.random_array((n, n), density=0.02, rng=np.random.default_rng(3), format="lil")
    A[7] = 1.0
    A = sp.csr_array(A + A.T, dtype=dtype).toarray()
    A[[0, 50, n - 1]] = A[:, [0, 50, n - 1]] = 0
    return sp.csr_array(A)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_entry_without_its_mirror_image_is_named(pieces, dtype):
    A = wide_graph(dtype=dtype)
    rows, columns = sp.coo_array(A).coords
    for at in range(0, A.nnz, 97):
        if rows[at] == columns[at]:
            continue
        i, j = sorted((int(rows[at]), int(columns[at])))
        bad = A.copy()
        bad.data[at] += 0.001
        with pytest.raises(ValueError, match=rf"M must be symmetric, but M\[{i}, {j}\] = .* and M\[{j}, {i}\] = "):
            LeastSquares(tensor(bad))
        bad.data[at] = 0  # there on one side only; the zero is stored
        with pytest.raises(ValueError, match=rf"M\[{i}, {j}\] = (0.0 and|.* = 0.0;)"):
            LeastSquares(tensor(bad))
        bad.data[at] = np.nan
        with pytest.raises(ValueError, match=rf"must be finite, but M\[{rows[at]}, {columns[at]}\] is nan"):
            LeastSquares(tensor(bad))


def test_gaps_that_cancel_in_sums_are_found(pieces):
    """A directed triangle: each row and each column of M − Mᵀ sums to zero."""
    A = wide_graph().tolil()
    for i, j in ((100, 200), (200, 300), (300, 100)):
        A[i, j] += 0.25
    with pytest.raises(ValueError, match=r"M\[(100, 200|200, 300|100, 300)\]"):
        LeastSquares(tensor(sp.csr_array(A)))


@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_round_off_between_mirror_images_passes_and_more_does_not(pieces, dtype, allowed):
    A = wide_graph(dtype=dtype)
    noise = np.random.default_rng(0).uniform(-1, 1, A.nnz) * abs(A.data).max() * allowed
    for factor, fits in ((0.45, True), (3.0, False)):  # the hub's row is suspect either way
        B = A.copy()
        B.data += (factor * noise).astype(dtype)
        if fits:
            LeastSquares(tensor(B))
        else:
            with pytest.raises(ValueError, match="must be symmetric"):
                LeastSquares(tensor(B))


def test_csr_tensors_need_not_be_sorted_nor_their_entries_unique(pieces):
    A = wide_graph()
    counts = np.diff(A.indptr)
    twice = [np.tile(np.arange(a, b), 2)[::-1] for a, b in zip(A.indptr, A.indptr[1:], strict=False)]
    order = np.concatenate(twice)
    parts = np.append(0, 2 * counts.cumsum()), A.indices[order], A.data[order] / 2
    M = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), A.shape, check_invariants=False)
    found = LeastSquares(M).matrix.M
    assert found.col_indices().dtype == torch.int32
    assert (to_scipy(found) != A).nnz == 0


def test_a_canonical_tensor_is_not_copied():
    M = tensor(wide_graph())
    assert LeastSquares(M).matrix.M.values().data_ptr() == M.values().data_ptr()
    assert LeastSquares(M).matrix.M.col_indices().data_ptr() == M.col_indices().data_ptr()


def test_damaged_tensors_are_refused():
    start, columns, values = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2)
    for bad, match in (
        ((start, torch.tensor([0, 5]), values), "has 2 columns, but an entry with the column 5"),
        ((start, torch.tensor([-1, 1]), values), "the column -1"),
        ((torch.tensor([0, 2, 1]), columns, values), "crow_indices must rise from 0 to 2"),
    ):
        with pytest.raises(ValueError, match=match):
            LeastSquares(torch.sparse_csr_tensor(*bad, (2, 2), check_invariants=False))


def test_solvers_that_need_numpy_say_so():
    problem = Problem(LeastSquares(tensor(graph())), Nonnegative())
    with pytest.raises(ValueError, match=r"solver 'cd' needs data in NumPy or SciPy arrays.*solvers that fit: auto"):
        minimize(problem, rank=3, solver="cd")


@pytest.mark.parametrize("solver", ["inertial", "lbfgs", "hals"])
def test_a_resumed_run_is_the_same_run(tmp_path, solver):
    problem = Problem(LeastSquares(tensor(graph())), Nonnegative())
    X0 = torch.from_numpy(start(60, 3))
    whole = minimize(problem, X0, solver=solver, tol=0.0, max_iter=12)
    path = tmp_path / "run.npz"
    minimize(problem, X0, solver=solver, tol=0.0, max_iter=5, checkpoint=path)
    resumed = minimize(problem, X0, solver=solver, tol=0.0, max_iter=12, checkpoint=path)
    assert torch.equal(whole.X, resumed.X)


@pytest.mark.parametrize("solver", ["lm", "ncg", "tr"])
def test_a_resumed_run_over_pairs_is_the_same_run(tmp_path, solver):
    _, loss = distances()
    X0 = torch.from_numpy(np.random.default_rng(3).standard_normal((80, 3)))
    whole = minimize(Problem(loss), X0, solver=solver, tol=0.0, max_iter=6)
    path = tmp_path / "run.npz"
    minimize(Problem(loss), X0, solver=solver, tol=0.0, max_iter=3, checkpoint=path)
    resumed = minimize(Problem(loss), X0, solver=solver, tol=0.0, max_iter=6, checkpoint=path)
    assert torch.equal(whole.X, resumed.X)


# -- errors of a device -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torch_error", ["memory", "device"])
def test_errors_of_the_device_name_sizes_and_cures(monkeypatch, torch_error):
    loss = LeastSquares(tensor(graph()))

    def fail(X, out=None):
        if torch_error == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(loss.matrix, "product", fail)
    problem = Problem(loss, Nonnegative())
    if torch_error == "memory":
        with pytest.raises(MemoryError, match=r"M with 60 rows and .* entries, rank 3 takes about .* GB.*try float32"):
            minimize(problem, rank=3)
    else:
        with pytest.raises(RuntimeError, match=r"M with 60 rows .* illegal memory access was encountered; .*again"):
            minimize(problem, rank=3)


def test_other_errors_pass_through(monkeypatch):
    loss = LeastSquares(tensor(graph()))
    monkeypatch.setattr(loss.matrix, "product", lambda X, out=None: (_ for _ in ()).throw(RuntimeError("mine")))
    with pytest.raises(RuntimeError, match=r"^mine$"):
        minimize(Problem(loss, Nonnegative()), rank=3)


def test_torch_is_not_imported_unless_used():
    code = "import sys, quartic, quartic.losses, quartic.solvers; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


# -- points in the wrong place ----------------------------------------------------------------------------------------


def test_points_in_the_wrong_place_are_placed_anew(monkeypatch):
    from quartic.losses.pairs import distances

    pairs, squared, points = pairs_of(n=400, degree=40)
    loss = Distances(torch.from_numpy(pairs.copy()), torch.from_numpy(squared))
    X = torch.from_numpy(points.copy())
    X[[3, 200]] += 1.5
    assert loss.replaced(loss.at(X)) is None  # few points: not its business
    monkeypatch.setattr(distances, "_MANY", 100)
    np.testing.assert_allclose(loss.replaced(loss.at(X)).numpy(), points, atol=1e-6)
    noisy = torch.from_numpy(points + 1e-3 * np.random.default_rng(0).standard_normal(points.shape))
    assert loss.replaced(loss.at(noisy)) is None


def test_no_certificate_for_tensors_is_said_clearly():
    problem = Problem(LeastSquares(torch.eye(3, dtype=torch.float64)))
    with pytest.raises(TypeError, match="torch tensors"):
        certify(problem, torch.eye(3, dtype=torch.float64)[:, :1])


@pytest.mark.parametrize("bad", [None, 0, 3, (1, 3)])
def test_the_two_loop_recursion_of_tensors_is_that_of_arrays(bad):
    """Also where pairs have no positive curvature, the newest among them."""
    rng = np.random.default_rng(3)
    S, G = rng.standard_normal((4, 700, 3)), rng.standard_normal((700, 3))
    Y = S * rng.uniform(1, 2, (700, 3)) + 0.3 * rng.standard_normal(S.shape)
    if bad is not None:
        Y[np.atleast_1d(bad)] *= -1

    def metric(q, scale):
        return q * (1.0 if scale is None else float(scale)) * np.linspace(1, 2, 3)

    def on_tensor(q, scale):
        return torch.as_tensor(metric(q.numpy(), scale))

    from quartic.compiled import lbfgs, lbfgs_torch

    expected = lbfgs.two_loop(G, tuple(S), tuple(Y), metric)
    found = lbfgs_torch.two_loop(torch.as_tensor(G), tuple(torch.as_tensor(S)), tuple(torch.as_tensor(Y)), on_tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("form", [lambda A: A, lambda A: A.to_sparse_coo(), lambda A: A.to_sparse_csr()])
def test_truth_values_are_numbers_as_in_numpy(form):
    M = np.eye(6) + np.eye(6)[::-1] > 0
    X = np.arange(12.0).reshape(6, 2)
    assert LeastSquares(form(torch.tensor(M))).value(torch.tensor(X)) == pytest.approx(LeastSquares(M).value(X))
