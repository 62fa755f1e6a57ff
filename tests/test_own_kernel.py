"""A kernel of one's own needs value, gradient and mirror, and then works wherever one of ours does."""

import numpy as np
import pytest

from quartic import Problem, minimize
from quartic.diagnostics import CheckFailed, check_mirror
from quartic.kernels import Kernel, NormKernel
from quartic.losses import Distances, LeastSquares, Rectangular, Robust
from quartic.penalties import L1, Nonnegative, Ridge
from quartic.solvers import SOLVERS


class Rows(Kernel):
    """h(X) = h_N(SX) with S diagonal; value, gradient and mirror only."""

    def __init__(self, scale, alpha=6.0, sigma=1.0):
        self.scale, self.inner = np.asarray(scale)[:, None], NormKernel(alpha, sigma)

    def value(self, X):
        return self.inner.value(self.scale * X)

    def gradient(self, X):
        return self.scale * self.inner.gradient(self.scale * X)

    def mirror(self, V, penalty=None, t=1.0):
        return self.inner.mirror(V / self.scale, penalty, t) / self.scale

    def __repr__(self):
        return f"Rows({self.scale.ravel().tolist()})"


SCALE = np.linspace(0.5, 2, 12)
POINTS = np.random.default_rng(0).standard_normal((12, 2))
PAIRS = np.array(np.triu_indices(12, 1)).T
LOSSES = {
    "least squares": LeastSquares(POINTS @ POINTS.T + np.eye(12)),
    "distances": Distances(PAIRS, np.sum((POINTS[PAIRS[:, 0]] - POINTS[PAIRS[:, 1]]) ** 2, axis=1)),
    "robust": Robust(POINTS @ POINTS.T + np.eye(12), "huber", 0.5),
    "rectangular": Rectangular(np.abs(POINTS[:7]) @ np.abs(POINTS[7:].T)),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("penalty", [None, Nonnegative()], ids=repr)
@pytest.mark.parametrize("solver", ["auto", *(name for name, cls in SOLVERS.items() if cls.requires.kernel)])
def test_every_bregman_solver_takes_it(loss, penalty, solver):
    h = NormKernel.for_loss(loss)
    kernel = Rows(SCALE, h.alpha * 16, h.sigma * 4)  # ‖X‖ ≤ 2‖SX‖, so that the loss is 1-smooth
    # the divergence by subtraction, which is all this kernel has, is good to half precision
    result = minimize(
        Problem(loss, penalty, kernel), rank=2, solver=solver, tol=1e-3, max_iter=500 if solver == "nolips" else 10_000,
        random_state=0,
    )  # fmt: skip
    if solver == "nolips":
        assert (np.diff(result.history.objective) <= 1e-12 * result.history.objective[0]).all()
    else:
        assert result.success, result.message
    if solver == "auto":
        assert result.solver == "inertial"


class Tripled(NormKernel):
    """Derived from one of ours, and another function."""

    def value(self, X):
        return 3 * super().value(X)

    def gradient(self, X):
        return 3 * super().gradient(X)

    def mirror(self, V, penalty=None, t=1.0):
        return super().mirror(V / 3, penalty, t / 3)


@pytest.mark.parametrize("penalty", [None, Nonnegative()], ids=repr)
def test_a_kernel_derived_from_one_of_ours_is_its_own_function(penalty):
    """Steps and distances are those of 3h: a step λ with it is one of λ/3 with h."""
    loss, kernel = LOSSES["least squares"], Tripled(6.0, 1.0)
    X, Y = np.abs(POINTS), np.abs(POINTS[::-1])
    assert kernel.divergence(X, Y) == pytest.approx(3 * NormKernel(6.0, 1.0).divergence(X, Y))
    p = loss.at(X)
    steps = [Problem(loss, penalty, h).bregman_step(p, t) for h, t in ((kernel, 0.3), (NormKernel(6.0, 1.0), 0.1))]
    np.testing.assert_allclose(*steps, rtol=1e-12, atol=1e-14)
    assert minimize(Problem(loss, penalty, kernel), rank=2, random_state=0).success
    with pytest.raises(TypeError, match="give your kernel a for_loss"):
        Tripled.for_loss(loss)


def test_checkpoints_and_float32(tmp_path):
    problem = Problem(LOSSES["least squares"], Nonnegative(), Rows(SCALE))
    whole = minimize(problem, rank=2, tol=0, max_iter=10, random_state=0)
    for limit in (4, 10):
        part = minimize(problem, rank=2, tol=0, max_iter=limit, random_state=0, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(part.X, whole.X)
    with pytest.raises(ValueError, match="kernel"):
        minimize(
            Problem(problem.loss, problem.penalty, Rows(2 * SCALE)), rank=2, random_state=0,
            checkpoint=tmp_path / "run.npz",
        )  # fmt: skip


def test_the_checks_tell_right_from_wrong():
    assert check_mirror(Rows(np.linspace(0.5, 2, 20)), Nonnegative()) < 1e-12
    assert check_mirror(Rows(np.ones(20)), L1(0.3)) < 1e-12
    with pytest.raises(CheckFailed):  # a ridge is no multiple of ½‖SX‖², so the norm kernel's map is not this one's
        check_mirror(Rows(np.linspace(0.5, 2, 20)), Ridge(1.0))
