"""Every loss made of torch tensors is the loss made of NumPy's arrays, which keeps the contract: on each device here.

A loss is one line in ``LOSSES``: ``put`` makes its data tensors, or leaves them as they are.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from quartic import Problem, minimize
from quartic.losses import (
    Anchored,
    BoundedDistances,
    CompleteDistances,
    Completion,
    Distances,
    LeastSquares,
    PhaseRetrieval,
    Quadratic,
    RawStress,
    Rectangular,
    Robust,
    Sensing,
)
from quartic.penalties import Nonnegative, Zero
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not
from strategies import some_pairs, symmetric
from test_contract import N, entries, gaussians, intensities, oblong, sampling, sensed, squares, weights

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-torch` installs it and runs these")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def products(X, Z):
    """Return 𝒜(XXᵀ)Z for 𝒜Y = ½Y + diag(Y), of arrays and tensors alike."""
    return 0.5 * X @ (X.T @ Z) + (X * X).sum(1)[:, None] * Z


def matrix(dtype, seed, share=1.0):
    return symmetric(seed, N, share).astype(dtype)


def known(dtype, seed):
    return np.where(oblong(dtype, seed + 1) > 0.2, oblong(dtype, seed) + 1, 0).astype(dtype)


def completed(put, dtype, seed, **more):
    i, j, values = entries(dtype, seed)
    return Completion(put(i), put(j), put(values), N, **more)


LOSSES = {
    "least squares": lambda put, dtype, seed: LeastSquares(put(matrix(dtype, seed))),
    "least squares, sparse": lambda put, dtype, seed: LeastSquares(put(sp.csr_array(matrix(dtype, seed, 0.3)))),
    "known entries": lambda put, dtype, seed: LeastSquares(put(matrix(dtype, seed)), weights=put(weights(dtype, seed))),
    "known entries, sparse": lambda put, dtype, seed: LeastSquares(
        put(sp.csr_array(matrix(dtype, seed))), weights=put(sp.csr_array(weights(dtype, seed)))
    ),
    "completion": completed,
    "completion, weights and ridge": lambda put, dtype, seed: completed(
        put, dtype, seed, weights=put(np.abs(entries(dtype, seed)[2]) + dtype(0.3)), ridge=0.3
    ),
    "sensing, vectors": lambda put, dtype, seed: Sensing(
        put(gaussians(dtype, seed, 40, N)), put(sensed(gaussians(dtype, seed, 40, N), seed))
    ),
    "sensing, matrices": lambda put, dtype, seed: Sensing(
        put(gaussians(dtype, seed, 40, N, N)), put(sensed(gaussians(dtype, seed, 40, N, N), seed))
    ),
    "phase retrieval, real": lambda put, dtype, seed: PhaseRetrieval(
        put(gaussians(dtype, seed, 40, N)), put(intensities(gaussians(dtype, seed, 40, N), seed))
    ),
    "phase retrieval, complex": lambda put, dtype, seed: PhaseRetrieval(
        put(sampling(dtype, seed)), put(intensities(sampling(dtype, seed), seed))
    ),
    "phase retrieval, real from complex": lambda put, dtype, seed: PhaseRetrieval(
        put(sampling(dtype, seed)), put(intensities(sampling(dtype, seed), seed)), real=True
    ),
    "quadratic": lambda put, dtype, seed: Quadratic(None, put(matrix(dtype, seed))),
    "quadratic, weights": lambda put, dtype, seed: Quadratic(put(weights(dtype, seed)), put(matrix(dtype, seed))),
    "quadratic, sparse": lambda put, dtype, seed: Quadratic(
        put(sp.csr_array(weights(dtype, seed))), put(sp.csr_array(matrix(dtype, seed, 0.3)))
    ),
    "quadratic, products": lambda put, dtype, seed: Quadratic(products, put(matrix(dtype, seed))),
    "distances": lambda put, dtype, seed: Distances(put(some_pairs(seed, N)), put(squares(dtype, seed)), N),
    "robust, huber": lambda put, dtype, seed: Robust(put(matrix(dtype, seed)), "huber", 3.0),
    "robust, pseudo-huber": lambda put, dtype, seed: Robust(put(matrix(dtype, seed)), "pseudo-huber", 0.7),
    "robust, logcosh": lambda put, dtype, seed: Robust(put(matrix(dtype, seed)), "logcosh", 0.7),
    "robust, known entries": lambda put, dtype, seed: Robust(
        put(matrix(dtype, seed)), "logcosh", 0.7, weights=put(weights(dtype, seed))
    ),
    "rectangular": lambda put, dtype, seed: Rectangular(put(oblong(dtype, seed))),
    "rectangular, known entries": lambda put, dtype, seed: Rectangular(
        put(oblong(dtype, seed)), weights=put(known(dtype, seed))
    ),
}

every_loss = pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)
every_device = pytest.mark.parametrize("device", DEVICES)


def putter(device):
    def put(A):
        if not sp.issparse(A):
            return torch.from_numpy(np.array(A)).to(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls CSR a beta feature
            parts = (torch.from_numpy(part) for part in (A.indptr, A.indices, A.data))
            return torch.sparse_csr_tensor(*parts, A.shape).to(device)

    return put


def both(make, device, dtype=np.float64, seed=0):
    return make(lambda A: A, dtype, seed), make(putter(device), dtype, seed)


def some_points(loss, rank=2):
    size = np.sqrt(loss.gradient_norm_at_zero / loss.smoothness)
    X, D = np.random.default_rng(0).standard_normal((2, loss.n_points, rank)) * size
    return X.astype(loss.dtype), D.astype(loss.dtype)


def same(found, wanted, rtol):
    """Compare a tensor with an array, relative to the largest entry."""
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=0, atol=rtol * np.abs(wanted).max())


@every_loss
@every_device
def test_points_lines_and_steps(make, device):
    ours, theirs = both(make, device)
    X, D = some_points(ours)
    x, d = torch.from_numpy(X).to(device), torch.from_numpy(D).to(device)
    p, q = ours.at(X), theirs.at(x)
    assert float(q.value) == pytest.approx(p.value, rel=1e-12)
    same(q.gradient, p.gradient, 1e-12)
    assert float(q.rounding) == pytest.approx(p.rounding, rel=1e-6)
    for t in (1.0, 1e-6):  # a remainder keeps its digits however short the step
        here, there = ours.move(p, X + t * D), theirs.move(q, x + t * d)
        assert float(there.remainder) == pytest.approx(here.remainder, rel=1e-7)
        same(there.point.gradient, here.point.gradient, 1e-11)
        assert float(there.length) == pytest.approx(here.length, rel=1e-7)
    same(theirs.extrapolate(q, theirs.at(d), 0.3).gradient, ours.extrapolate(p, ours.at(D), 0.3).gradient, 1e-11)
    same(theirs.restore({k: np.asarray(to_host(A)) for k, A in q.arrays().items()}).gradient, p.gradient, 1e-12)
    if ours.quadratic:
        here, there = ours.along(p, D), theirs.along(q, d)
        np.testing.assert_allclose([float(c) for c in there.coefficients], here.coefficients, rtol=1e-10)
        same(there.point(0.7).gradient, here.point(0.7).gradient, 1e-11)
        assert float(there.point(0.7).value) == pytest.approx(here.point(0.7).value, rel=1e-10)
        same(theirs.hessian_product(q, d), ours.hessian_product(p, D), 1e-11)
    if hasattr(ours, "linearize"):
        (_, A), (_, B) = ours.linearize(X), theirs.linearize(x)
        same(B, A, 1e-12)
        H, h = np.empty_like(X), torch.empty_like(x)
        ours.gauss_newton_product(p, D, H)
        theirs.gauss_newton_product(q, d, h)
        same(h, H, 1e-12)
    diagonal = ours.curvature_diagonal(p)
    if diagonal is not None:
        same(theirs.curvature_diagonal(q), diagonal, 1e-12)


def to_host(A):
    return A.cpu() if isinstance(A, torch.Tensor) else A


@every_loss
@every_device
def test_constants_units_and_counts(make, device):
    ours, theirs = both(make, device)
    for name in ("smoothness", "strong_convexity", "gradient_norm_at_zero", "curvature_at_zero", "infimum"):
        assert float(getattr(theirs, name)) == pytest.approx(getattr(ours, name), rel=1e-9, abs=1e-12), name
    assert theirs.n_points == ours.n_points
    assert theirs.n_products == ours.n_products
    units = ours.units().__class__(3, 14)  # 8·X and 2¹⁴·f, that is 4·F in the data's own units
    X, _ = some_points(ours)
    a, b = ours.in_units(units), theirs.in_units(units)
    assert float(b.value(8 * X)) == pytest.approx(a.value(8 * X), rel=1e-12)
    assert theirs.units() == ours.units()
    assert make(putter(device), np.float64, 1).fingerprint() != theirs.fingerprint()


@every_loss
@every_device
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("penalty", [Zero(), Nonnegative()], ids=repr)
def test_runs_end_where_numpy_does(make, device, dtype, penalty):
    """By the solver `auto` takes and two others, from the same start; the answer is a tensor of the data's type."""
    ours, theirs = both(make, device, dtype)
    X0, _ = some_points(ours)
    X0 = np.abs(X0) if penalty.nonnegative else X0
    for name in ("auto", "dyn-nolips", "inertial"):
        a = minimize(Problem(ours, penalty), X0, solver=name, tol=1e-3, max_iter=5000)
        b = minimize(Problem(theirs, penalty), torch.from_numpy(X0).to(device), solver=name, tol=1e-3, max_iter=5000)
        assert b.success == a.success, (name, b.message)
        assert b.X.dtype == {np.float32: torch.float32, np.float64: torch.float64}[dtype]
        assert b.X.device.type == device
        # both are within the tolerance of a stationary point, not always of the same one to more digits than that
        scale = abs(a.history.objective[0]) - abs(a.objective)
        if a.solver == b.solver:  # auto may take another on another device, and end in another local minimum
            assert b.objective == pytest.approx(a.objective, rel=1e-2, abs=1e-3 * abs(scale))


@every_loss
@every_device
@pytest.mark.parametrize("penalty", [Zero(), Nonnegative()], ids=repr)
def test_every_solver_that_fits_makes_the_same_steps(make, device, penalty, no_way_to_numpy):
    ours, theirs = both(make, device)
    X0, _ = some_points(ours)
    X0 = np.abs(X0) if penalty.nonnegative else X0
    for name, kind in SOLVERS.items():
        a, b = (why_not(kind(), Problem(loss, penalty)) for loss in (ours, theirs))
        if a is not None or b is not None:
            assert b is not None, f"{name} needs no more of NumPy's arrays than of tensors"
            continue
        # two steps where X ≥ 0: an entry within round-off of its bound may be free here and not there
        settings = {"solver": name, "tol": 0.0, "max_iter": 2 if penalty.nonnegative else 4}
        b = minimize(Problem(theirs, penalty), torch.from_numpy(X0).to(device), **settings)
        a = minimize(Problem(ours, penalty), X0, **settings)
        if not (penalty.nonnegative and name == "lbfgs"):
            same(b.X, a.X, 1e-5)


@every_loss
@every_device
@pytest.mark.parametrize("nonnegative", [False, True])
def test_starts_are_of_the_data(make, device, nonnegative):
    """Random numbers differ from device to device, and with them a start; its size is that of the data."""
    ours, theirs = both(make, device)
    for kind in ("random_start", "default_start"):
        X = getattr(theirs, kind)(2, nonnegative, np.random.default_rng(0))
        assert isinstance(X, torch.Tensor)
        assert X.device.type == device
        assert not nonnegative or bool((X >= 0).all())
        Y = getattr(ours, kind)(2, nonnegative, np.random.default_rng(0))
        assert 0.01 < float(X.norm()) / np.linalg.norm(Y) < 100
    result = minimize(Problem(theirs, Nonnegative() if nonnegative else None), rank=2, tol=1e-3, random_state=0)
    assert result.success
    assert isinstance(result.X, torch.Tensor)


def test_a_signal_comes_back_from_tensors():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(16) + 1j * rng.standard_normal(16)
    A = rng.standard_normal((96, 16)) + 1j * rng.standard_normal((96, 16))
    loss = PhaseRetrieval(torch.from_numpy(A), torch.from_numpy(np.abs(A @ z) ** 2))
    result = minimize(Problem(loss), rank=1, tol=1e-9, random_state=0)
    np.testing.assert_allclose(loss.signal(result.X, like=z), z, atol=1e-6)


@pytest.mark.parametrize("solver", ["inertial", "lbfgs"])
@pytest.mark.parametrize("name", ["sensing, vectors", "quadratic, weights", "rectangular", "robust, huber"])
def test_a_resumed_run_is_the_same_run(tmp_path, name, solver):
    loss = LOSSES[name](putter("cpu"), np.float64, 0)
    problem = Problem(loss)
    if why_not(SOLVERS[solver](), problem) is not None:
        pytest.skip(f"{solver} does not fit")
    X0 = torch.from_numpy(some_points(loss)[0])
    whole = minimize(problem, X0, solver=solver, tol=0.0, max_iter=12)
    for limit in (5, 12):
        part = minimize(problem, X0, solver=solver, tol=0.0, max_iter=limit, checkpoint=tmp_path / "run.npz")
    assert torch.equal(whole.X, part.X)


PAIRS = torch.tensor([[0, 1], [1, 2], [0, 2]])
ONES = torch.ones(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BoundedDistances(PAIRS, ONES, ONES), "BoundedDistances works on the CPU"),
        (lambda: RawStress(PAIRS, ONES), "RawStress works on the CPU"),
        (lambda: Anchored(Distances(PAIRS, ONES), [0], [[0.0]]), "Anchored works on the CPU"),
        (lambda: CompleteDistances(torch.eye(3)), "CompleteDistances works on the CPU"),
        (lambda: Robust(torch.eye(3).to_sparse_csr()), r"pass M.to_dense\(\)"),
        (lambda: Sensing(torch.ones(2, 4).to_sparse_csr(), torch.ones(2)), "dense tensor"),
        (lambda: Sensing(aslinearoperator(np.ones((2, 3))), torch.ones(2)), r"b.cpu\(\).numpy\(\)"),
        (lambda: Rectangular(torch.eye(3).to_sparse_csr()), "dense tensor"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_what_stays_on_the_host_says_so(make, words):
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize("kind", ["huber", "pseudo-huber", "logcosh"])
def test_the_formulas_of_robust_losses_are_the_compiled_ones(kind):
    from quartic.losses.other import robust_passes, robust_torch

    e = np.random.default_rng(0).standard_normal(4000) * 3
    which = robust_passes.KINDS.index(kind)
    tangents = np.array([robust_passes.tangent(which, x) for x in e])
    value, slope = robust_torch.tangent(kind, torch.from_numpy(e))
    np.testing.assert_allclose(np.column_stack([value, slope]), tangents, rtol=1e-12, atol=1e-15)
