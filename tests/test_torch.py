"""Torch tensors in, torch tensors out: the same code, the same answers, few reads from the device."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import LeastSquares
from quartic.ops import waiting
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero

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
def test_reads_from_the_device_are_few(solver, most):
    """One read a trial step (a product, here); L-BFGS reads once for the line and once for the point on it."""
    problem = Problem(LeastSquares(tensor(graph(200))), Nonnegative(), NormKernel(6.0, 1.0))
    counts = []
    minimize(
        problem, torch.from_numpy(start(200, 3)), solver=solver, tol=0.0, max_iter=30,
        callback=lambda p: counts.append((waiting.reads(), p.n_products)),
    )  # fmt: skip
    reads, products = np.diff(np.array(counts[2:]), axis=0).T
    extra = 1 if solver == "pg" else 0  # it compares two trial points
    assert (reads <= most * np.maximum(products, 1) + extra).all()
