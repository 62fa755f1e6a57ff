"""Semidefinite programmes on torch tensors: the same iterates as NumPy's, float32, and the errors."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

torch = pytest.importorskip("torch", reason="torch is not installed")

from quartic.arrays import HOST  # noqa: E402
from quartic.arrays.space_torch import DeviceSpace  # noqa: E402
from quartic.sdp import SDP, LowRank, maxcut, solve_sdp  # noqa: E402
from quartic.sdp import solve as solving  # noqa: E402
from quartic.sdp.bound import Slack  # noqa: E402
from quartic.sdp.lowrank import Lagrangian  # noqa: E402
from quartic.sdp.spheres import Spheres  # noqa: E402
from sdp_problems import random_graph, theta  # noqa: E402

CPU = DeviceSpace(torch.device("cpu"))


@pytest.fixture
def on_tensors(monkeypatch):
    """device="cpu" is NumPy's; here it is torch's."""
    monkeypatch.setattr(solving, "device_for", lambda device: None if device is None else torch.device(device))


def cut_graph(n=400, seed=0):
    i, j = random_graph(n, 3 * n, seed)
    W = sparse.coo_array((np.random.default_rng(seed).choice([-1.0, 1.0], len(i)), (i, j)), shape=(n, n))
    return sparse.csr_array(W + W.T)


def mixed():
    """Single and shared spheres, free rows, entries and a vector in the constraints."""
    rng = np.random.default_rng(3)
    C = rng.standard_normal((7, 7))
    A = [[(0, 0, 2.0)], [(1, 1, 1.0), (2, 2, 3.0)], [(0, 1, 1.0), (3, 4, -2.0), (5, 5, 1.0)], LowRank(np.arange(7.0))]
    return SDP(C + C.T, A, [1.0, 2.0, 0.3, 0.7])


def test_every_part_of_the_lagrangian_is_numpys():
    problem, rng = mixed(), np.random.default_rng(0)
    X, D = rng.standard_normal((2, 7, 3))
    found = []
    for space in (HOST, CPU):
        data = Spheres(problem, space)
        L = Lagrangian(data, space.adopt(np.array([0.3, -0.4])), 0.8)
        L.slots = None  # on a device rows are scaled by numbers
        point = L.at(data.retract(space.adopt(X)))
        T = space.adopt(D) - data.to_rows(data.by_sphere(point.X, space.adopt(D))) * point.X
        H = space.xp.empty_like(T)
        curvature = L.hessian_product(point, data.weights(point.v), T, H)
        direction, length, reached = L.newton_direction(point, 0.7, 1e-3)
        numbers = [point.value, point.slope, curvature, length, reached, L.search(point, direction)]
        found.append([*map(np.asarray, map(space.to_host, (point.u, point.gradient, H, direction))), numbers])
    for here, there in zip(*found, strict=True):
        assert np.allclose(here, there, rtol=1e-11, atol=1e-12)


def test_bound_of_a_large_matrix_is_the_same_on_tensors():
    n = 2600  # above the size that is formed
    problem = SDP(cut_graph(n), [[(i, i, 1.0)] for i in range(n)], np.ones(n))
    v = problem.c.copy()
    true = np.linalg.eigvalsh(Slack(problem, v).sparse.toarray())[0]
    for space in (HOST, CPU):
        low = Slack(problem, v, space).lowest(1e-3, np.random.default_rng(0), 4)
        assert low.bound <= true <= low.value
        assert low.value < 0.9 * true
        assert low.directions.shape == (n, 4)
        v[problem.i == problem.j] -= true - 1e-9  # now positive semidefinite
        assert -1.2e-3 <= Slack(problem, v, space).lowest(1e-3, np.random.default_rng(0)).bound <= 1e-9
        v = problem.c.copy()


@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-6), (np.float32, 1e-4)])
def test_maxcut_on_tensors(on_tensors, dtype, tol):
    W = cut_graph()
    here = maxcut(W, tol=1e-6)
    there = maxcut(W, tol=tol, device="cpu", dtype=dtype)
    assert there.result.success
    assert there.result.method == "low-rank"
    assert there.result.gap <= tol
    assert there.bound == pytest.approx(here.bound, rel=2 * tol)
    assert there.bound >= here.result.primal - 1e-9
    assert there.value <= there.bound


def test_augmented_lagrangian_on_tensors(on_tensors):
    problem = theta(12, 20)
    there = solve_sdp(problem, method="low-rank", device="cpu", tol=1e-5)
    assert there.primal == pytest.approx(solve_sdp(problem).primal, rel=1e-3)


def test_float32_on_the_host():
    W = cut_graph()
    found = maxcut(W, tol=1e-4, dtype=np.float32)
    assert found.result.success
    assert found.result.X[0].dtype == np.float64
    assert found.bound == pytest.approx(maxcut(W).bound, rel=2e-4)


def test_what_a_device_cannot_do(on_tensors):
    problem = SDP(aslinearoperator(np.eye(3)), [np.eye(3)], [1.0])
    with pytest.raises(ValueError, match="operators"):
        solve_sdp(problem, device="cpu")
    with pytest.raises(ValueError, match="low-rank"):
        solve_sdp(mixed(), device="cpu", method="interior")
    with pytest.raises(ValueError, match="dtype"):
        solve_sdp(mixed(), dtype=np.float16)
