"""The loop and the first solvers: the convergence theorem, stopping, interrupts, checkpoints, errors."""

import dataclasses
import io
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import quartic
from quartic import Problem, minimize
from quartic.core import loop
from quartic.core.progress import progress_bar
from quartic.kernels import EuclideanKernel, GramKernel, NormKernel
from quartic.losses import Distances, FullLeastSquares, LeastSquares, RawStress
from quartic.penalties import L0, L1, Nonnegative, NonnegativeL1, NonnegativeRidge, Ridge, Zero
from quartic.solvers import SOLVERS, DynNoLips, GradientDescent, InertialNoLips, NoLips, TrustRegion
from strategies import LOSSES, make_loss, seeds, symmetric

# Solvers of problems without constraints
FREE = ("gd", "tr", "ncg", "scaledgd")
CONVEX = [Zero(), Nonnegative(), L1(0.1), NonnegativeL1(0.1), Ridge(0.2), NonnegativeRidge(0.2)]


def planted(n=12, r=3):
    M = np.kron(np.eye(r), np.ones((n // r, n // r)))
    return Problem(LeastSquares(M + 0.1), Nonnegative())


def helix_problem(n=60, share=0.4, seed=0):
    rng = np.random.default_rng(seed)
    t = 2 * np.pi * rng.random(n)
    X = np.c_[np.cos(3 * t), np.sin(3 * t), 2 * t]
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = pairs[rng.random(len(pairs)) < share]
    return Problem(Distances(pairs, ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(1), n))


def problem_for(name):
    """Return the first of a few problems that a solver is for."""
    X, pairs = np.random.default_rng(0).random((12, 3)), np.array(np.triu_indices(12, 1)).T
    stress = Problem(RawStress(pairs, np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)))
    return next(problem for problem in (planted(), helix_problem(), stress) if name in fitting(problem))


def kernel_for(loss, penalty):
    return GramKernel.for_loss(loss) if isinstance(penalty, Zero | Ridge) else NormKernel.for_loss(loss)


# -- the convergence theorem ------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.sampled_from(LOSSES),
    seeds,
    st.sampled_from(CONVEX),
    st.sampled_from(["nolips", "dyn-nolips"]),
    st.integers(1, 4),
)
def test_descent_inequality(kind, seed, penalty, name, rank):
    """Ψ(Xᵏ) − Ψ(Xᵏ⁺¹) ≥ D_h(Xᵏ, Xᵏ⁺¹)/λ_k: the inequality behind the theorem."""
    loss = make_loss(kind, seed)
    kernel = kernel_for(loss, penalty)
    iterates = []
    minimize(
        Problem(loss, penalty, kernel), rank=rank, solver=name, tol=1e-9, max_iter=30, random_state=seed,
        callback=lambda p: iterates.append((p.X, p.objective, p.step)),
    )  # fmt: skip
    for (X, before, _), (Y, after, step) in itertools.pairwise(iterates):
        allowed = 1e-11 * (abs(before) + loss.gradient_norm_at_zero**2 / loss.smoothness)
        assert before - after >= kernel.divergence(X, Y) / step - allowed


@settings(max_examples=25)
@given(st.sampled_from(LOSSES), seeds, st.sampled_from([*CONVEX, L0(0.1)]), st.booleans())
def test_nolips_never_increases_the_objective(kind, seed, penalty, tight):
    loss = make_loss(kind, seed)
    kind_of = GramKernel if isinstance(penalty, Zero | Ridge) else NormKernel
    problem = Problem(loss, penalty, kind_of.for_loss(loss, tight=tight))
    result = minimize(problem, rank=3, solver=NoLips(), tol=0, max_iter=40, random_state=seed)
    objective = result.history.objective
    assert (np.diff(objective) <= 1e-12 * (objective[0] + loss.gradient_norm_at_zero**2)).all()


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("penalty", [*CONVEX, L0(0.05)], ids=repr)
def test_dyn_nolips_is_monotone_and_ends_stationary(kind, penalty):
    loss = make_loss(kind, 11)
    problem = Problem(loss, penalty, kernel_for(loss, penalty) if not isinstance(penalty, L0) else None)
    result = minimize(problem, rank=2, solver="dyn-nolips", tol=1e-6, max_iter=20_000, random_state=1)
    assert result.success, result.message
    objective = result.history.objective
    assert (np.diff(objective) <= 1e-12 * objective[0]).all()
    gradient = loss.gradient(result.X)
    assert np.linalg.norm(penalty.stationarity(result.X, gradient)) == pytest.approx(
        result.stationarity, rel=1e-6, abs=1e-12
    )
    assert result.stationarity <= 1.001e-6 * result.history.stationarity[0]


def test_the_papers_step_rule():
    """Each accepted λ is the tentative one times a power of ½, and the next tentative one is twice the accepted."""
    problem = planted()
    steps = minimize(problem, rank=3, solver="dyn-nolips", tol=1e-6, random_state=0).history.step[1:]
    ratios = np.log2(steps[1:] / steps[:-1])
    assert np.allclose(ratios, np.round(ratios))
    assert ratios.max() <= 1
    assert steps[0] <= 1


@pytest.mark.parametrize("name", ["dyn-nolips", "gd"])
def test_distances_go_on_to_round_off(name):
    """The decrease test works on differences: runs do not stall where f itself has lost its digits."""
    result = minimize(helix_problem(), rank=3, solver=name, tol=1e-14, max_iter=40_000, random_state=0)
    assert result.success, result.message
    assert result.objective <= 1e-22 * result.history.objective[0]


def test_symmetric_nmf_goes_on_to_round_off():
    X = np.abs(np.random.default_rng(0).standard_normal((20, 2)))
    problem = Problem(LeastSquares(X @ X.T), Nonnegative())
    for name in ("dyn-nolips", "pg"):
        result = minimize(problem, rank=2, solver=name, tol=1e-13, max_iter=50_000, random_state=0)
        assert result.success, result.message


# -- what a result says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SOLVERS))
def test_the_referee_measures(name):
    problem = problem_for(name)
    result = minimize(problem, rank=3, solver=name, tol=1e-4, max_iter=300, random_state=0)
    point = problem.loss.at(result.X)
    assert result.objective == pytest.approx(point.value, rel=1e-12)
    assert result.stationarity == pytest.approx(problem.stationarity(point), rel=1e-12)
    history = result.history
    assert len(history) == result.n_iter + 1 == len(history.time) == len(history.step)
    assert (np.diff(history.time) >= 0).all()
    assert (np.diff(history.n_products) >= 0).all()
    assert result.n_products >= history.n_products[-1]
    assert result.solver == name


def fitting(problem):
    from quartic.solvers.registry import why_not

    return [name for name, cls in SOLVERS.items() if why_not(cls(), problem) is None]


@pytest.mark.parametrize("name", list(SOLVERS))
def test_products_are_counted_truthfully(name, monkeypatch):
    problem = problem_for(name)
    made = []
    count = quartic.losses.Loss.count_products

    def spy(self, products=1):
        made.append(products)
        count(self, products)

    monkeypatch.setattr(quartic.losses.Loss, "count_products", spy)
    result = minimize(problem, rank=3, solver=name, max_iter=20, random_state=0)
    assert result.n_products == sum(made) > 0


def test_same_seed_same_answer():
    problem = planted()
    a, b = (minimize(problem, rank=3, random_state=5).X for _ in range(2))
    np.testing.assert_array_equal(a, b)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    minimize(problem, rank=3, random_state=5)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_zero_data_give_zero():
    result = minimize(Problem(LeastSquares(np.zeros((5, 5))), Nonnegative()), rank=2)
    assert result.success
    assert not result.X.any()
    assert result.X.shape == (5, 2)


@pytest.mark.parametrize("sparse", [False, True])
def test_float32_is_kept(sparse):
    M = planted().loss.matrix.M.astype(np.float32)
    problem = Problem(LeastSquares(sp.csr_array(M) if sparse else M), Nonnegative())
    result = minimize(problem, rank=3, tol=1e-3, random_state=0)
    assert result.X.dtype == np.float32
    assert result.success
    exact = 0.5 * np.sum((M.astype(float) - result.X.astype(float) @ result.X.T.astype(float)) ** 2)
    assert result.objective == pytest.approx(exact, rel=1e-6)


# -- stopping ---------------------------------------------------------------------------------------------------------


def test_limits():
    problem = planted()
    result = minimize(problem, rank=3, solver="nolips", tol=0, max_iter=7, random_state=0)
    assert (result.status, result.n_iter, result.success) == ("max_iter", 7, False)
    assert "max_iter = 7" in result.message
    assert minimize(problem, rank=3, max_iter=0, random_state=0).n_iter == 0
    slow = helix_problem()
    result = minimize(slow, rank=3, solver="nolips", tol=0, max_time=0.05, max_iter=10**6, random_state=0)
    assert result.status == "max_time"


def test_the_callers_start_is_neither_changed_nor_returned():
    X0 = START.copy()
    X0.flags.writeable = False
    result = minimize(GOOD, X0, max_iter=0)
    assert not np.shares_memory(result.X, X0)
    assert result.X.flags.writeable


def test_reference_decides_what_tol_means():
    problem = planted()
    loose = minimize(problem, rank=3, tol=1e-2, random_state=0)
    strict = minimize(problem, rank=3, tol=1e-2, reference=1e-3 * loose.history.stationarity[0], random_state=0)
    assert strict.n_iter > loose.n_iter
    assert strict.stationarity <= 1e-5 * loose.history.stationarity[0]


def test_callback_may_stop():
    def stop(progress):
        if progress.n_iter == 3:
            raise StopIteration("enough")

    result = minimize(planted(), rank=3, callback=stop, tol=0, random_state=0)
    assert (result.status, result.n_iter) == ("callback", 3)
    assert "enough" in result.message


def test_callback_exceptions_pass_through_after_the_checkpoint(tmp_path):
    path = tmp_path / "run.npz"

    def fail(progress):
        if progress.n_iter == 3:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        minimize(planted(), rank=3, callback=fail, checkpoint=path, tol=0, random_state=0)
    assert path.exists()
    assert minimize(planted(), rank=3, checkpoint=path, tol=1e-6, random_state=0).n_iter > 3


def test_ctrl_c_returns_the_best_point():
    def interrupt(progress):
        if progress.n_iter == 4:
            raise KeyboardInterrupt

    result = minimize(planted(), rank=3, callback=interrupt, tol=0, random_state=0)
    assert result.status == "interrupted"
    assert result.objective == pytest.approx(result.history.objective.min(), rel=1e-12)


@pytest.mark.parametrize("where", ["product", "stationarity", "confirm"])
def test_ctrl_c_is_caught_wherever_it_arrives(where, monkeypatch):
    """A signal comes between any two lines of Python, not only within a step."""
    problem = planted()
    calls = itertools.count()

    def struck(real):
        def call(*args, **kwargs):
            if next(calls) == 7:
                raise KeyboardInterrupt
            return real(*args, **kwargs)

        return call

    if where == "product":
        monkeypatch.setattr(FullLeastSquares, "product", struck(FullLeastSquares.product))
    elif where == "stationarity":
        monkeypatch.setattr(Problem, "stationarity", struck(Problem.stationarity))
    else:
        calls = itertools.count(7)
        monkeypatch.setattr(loop._Minimization, "_believed", struck(loop._Minimization._believed))
    result = minimize(problem, rank=3, solver="dyn-nolips", random_state=0)
    assert result.status == "interrupted"
    assert len(result.history) == result.n_iter + 1
    assert result.objective == pytest.approx(result.history.objective.min())


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("cd", "lvs-hals", "lm", "smacof")])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_products_that_turn_non_finite_end_the_run_as_such(name, bad, after):
    """Neither as stalled, however often a step was halved, nor as converged; and without a NumPy warning."""
    A = np.random.default_rng(0).random((20, 20))
    M = A + A.T
    made = itertools.count()

    def product(X):
        Y = M @ X
        if next(made) >= after:
            Y[3, 0] = bad
        return Y

    operator = sp.linalg.LinearOperator(
        (20, 20), matvec=lambda x: product(x.reshape(-1, 1)), matmat=product, dtype=float
    )
    penalty = None if name in FREE else Nonnegative()
    problem = Problem(LeastSquares(operator, squared_norm=float((M**2).sum())), penalty)
    result = minimize(problem, np.ones((20, 3)) + np.eye(20, 3), solver=name, tol=1e-12, max_iter=50)
    assert result.status == "non_finite", result.message
    assert "iteration" in result.message
    assert np.isfinite(result.X).all()


def test_non_finite_values_are_caught():
    class Breaks(NoLips):
        def step(self, problem, state):
            new = super().step(problem, state)
            new.point.__dict__["value"] = math.nan
            return new

    result = minimize(planted(), rank=3, solver=Breaks(), random_state=0)
    assert result.status == "non_finite"
    assert "iteration 1" in result.message
    assert np.isfinite(result.X).all()


def test_a_solver_that_cannot_go_on_is_stalled():
    result = minimize(planted(), rank=3, solver=DynNoLips(first_step=1e10, max_halvings=3), random_state=0)
    assert result.status == "stalled"


def test_start_at_a_solution():
    X = np.kron(np.eye(3), np.ones((4, 1)))
    result = minimize(Problem(LeastSquares(X @ X.T), Nonnegative()), X, tol=0)
    assert result.success
    assert result.n_iter == 0


# -- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SOLVERS))
def test_resumed_run_is_the_same_run(name, tmp_path):
    problem = problem_for(name)
    path = tmp_path / "run.npz"
    options = {"rank": 3, "solver": name, "tol": 1e-10, "random_state": 0}
    whole = minimize(problem, max_iter=20, **options)
    minimize(problem, max_iter=9, checkpoint=path, **options)
    resumed = minimize(problem, max_iter=20, checkpoint=path, **options)
    np.testing.assert_array_equal(resumed.X, whole.X)
    assert resumed.n_iter == whole.n_iter
    np.testing.assert_array_equal(resumed.history.objective, whole.history.objective)
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_a_resumed_run_makes_no_start(tmp_path):
    starts = []

    def start(problem, rank, generator):
        starts.append(rank)
        return START

    path = tmp_path / "run.npz"
    for max_iter in (2, 4):
        result = minimize(GOOD, start, rank=3, solver="inertial", tol=0, max_iter=max_iter, checkpoint=path)
    assert starts == [3]
    assert result.n_iter == 4


def test_checkpoints_tell_ranks_and_matrices_of_one_norm_apart(tmp_path):
    path = tmp_path / "run.npz"
    minimize(GOOD, rank=3, max_iter=2, checkpoint=path, random_state=0)
    with pytest.raises(ValueError, match=r"another run: its rank is '3', here '2'"):
        minimize(GOOD, rank=2, checkpoint=path)
    order = np.random.default_rng(0).permutation(12)
    M = GOOD.loss.matrix.M[np.ix_(order, order)]
    for matrix in (M, sp.csr_array(M)):
        with pytest.raises(ValueError, match="another run: its data"):
            minimize(Problem(LeastSquares(matrix), Nonnegative()), rank=3, checkpoint=path)


def test_a_checkpoint_without_a_folder_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere'; make it first"):
        minimize(GOOD, rank=3, checkpoint=tmp_path / "nowhere" / "run.npz")


def test_foreign_checkpoints_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "run.npz"
    minimize(planted(), rank=3, max_iter=3, checkpoint=path, random_state=0)
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=r"another run: its data"):
        minimize(planted(15), rank=3, checkpoint=path, random_state=0)
    with pytest.raises(ValueError, match=r"another run: its solver"):
        minimize(planted(), rank=3, solver="pg", checkpoint=path, random_state=0)
    assert path.read_bytes() == whole
    for broken in (whole[: len(whole) // 2], b"", b"hello", b"\x80\x04K\x01."):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"run\.npz is not a whole quartic checkpoint"):
            minimize(planted(), rank=3, checkpoint=path, random_state=0)
        assert path.read_bytes() == broken
    np.savez(path, header=np.array('{"format": "quartic checkpoint 99", "run": {}, "numbers": {}}'))
    with pytest.raises(ValueError, match="checkpoint 99"):
        minimize(planted(), rank=3, checkpoint=path, random_state=0)


@pytest.mark.parametrize(
    ("part", "other"), [("penalty", {"penalty": NonnegativeL1(0.1)}), ("kernel", {"kernel": NormKernel(7.0, 1.0)})]
)
def test_a_checkpoint_of_another_penalty_or_kernel_is_refused(tmp_path, part, other):
    given = {"rank": 3, "solver": "inertial", "checkpoint": tmp_path / "run.npz", "random_state": 0}
    minimize(dataclasses.replace(planted(), kernel=NormKernel(6.0, 1.0)), max_iter=3, **given)
    with pytest.raises(ValueError, match=f"another run: its {part}"):
        minimize(dataclasses.replace(planted(), **{"kernel": NormKernel(6.0, 1.0)} | other), **given)


# -- errors -----------------------------------------------------------------------------------------------------------

GOOD = planted()
NOTHING = Problem(LeastSquares(np.zeros((12, 12))), Nonnegative())
START = np.ones((12, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minimize(GOOD), r"X0 of shape \(n, r\), or rank=r"),
        (lambda: minimize(GOOD, rank=0), "rank must lie between 1 and the number of points, 12"),
        (lambda: minimize(GOOD, rank=13), "rank must lie between 1"),
        (lambda: minimize(GOOD, START[:5]), r"X0 must have one row for each of the 12 points"),
        (lambda: minimize(GOOD, START[:, 0]), "X0 must be a 2-D array"),
        (lambda: minimize(GOOD, START[:, :0]), "at least one column"),
        (lambda: minimize(GOOD, -START), r"X0 must be nonnegative for Nonnegative, but X0\[0, 0\] = -1.0"),
        (lambda: minimize(GOOD, 0 * START), "all zero"),
        (lambda: minimize(GOOD, np.nan * START), r"X0\[0, 0\] is nan"),
        (lambda: minimize(GOOD, np.inf * START), r"X0\[0, 0\] is inf"),
        (lambda: minimize(GOOD, START, rank=2), "3 columns but rank = 2"),
        (lambda: minimize(GOOD, rank=3, solver="newton"), "unknown solver 'newton'; there are: auto, nolips"),
        (lambda: minimize(GOOD, rank=3, solver="gd"), "'gd' needs a penalty that is smooth.*solvers that fit: auto"),
        (lambda: minimize(helix_problem(), rank=3, solver="pg"), "'pg' needs a penalty that keeps X ≥ 0"),
        (lambda: minimize(GOOD, rank=3, tol=-1), "tol must be"),
        (lambda: minimize(GOOD, rank=3, tol=math.nan), "tol must be"),
        (lambda: minimize(GOOD, rank=3, max_iter=-1), "max_iter must be"),
        (lambda: minimize(GOOD, rank=3, max_time=0), "max_time must be"),
        (lambda: minimize(GOOD, rank=3, reference=-1.0), "reference must be"),
        (lambda: minimize(NOTHING, rank=0), "rank must lie between 1"),
        (lambda: minimize(NOTHING, START[:5]), "X0 must have one row for each of the 12 points"),
        (lambda: minimize(NOTHING, START, rank=2), "3 columns but rank = 2"),
        (lambda: DynNoLips(first_step=-1.0), "first_step must be positive"),
        (lambda: DynNoLips(max_halvings=0), "max_halvings must be at least 1"),
        (lambda: InertialNoLips(growth=0.0), "growth must be positive"),
        (lambda: GradientDescent(sufficient_decrease=2.0), "sufficient_decrease must be positive and below 1"),
        (lambda: TrustRegion(max_inner=0), "max_inner must be at least 1"),
        (
            lambda: minimize(Problem(GOOD.loss, Nonnegative(), GramKernel(1.0, 1.0, 1.0)), rank=3),
            "solvers that fit: lbfgs, face-cg, pg",
        ),
        (
            lambda: minimize(Problem(GOOD.loss, Nonnegative(), GramKernel(1.0, 1.0, 1.0)), rank=3, solver="nolips"),
            "no closed-form mirror map for GramKernel with Nonnegative.*take NormKernel",
        ),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: minimize(GOOD.loss, rank=3),
        lambda: minimize(GOOD, rank=2.5),
        lambda: minimize(GOOD, rank=3, solver=DynNoLips),
        lambda: minimize(GOOD, rank=3, solver=3),
        lambda: minimize(GOOD, rank=3, random_state="x"),
        lambda: Problem(np.eye(3)),
        lambda: Problem(GOOD.loss, Nonnegative),
        lambda: Problem(GOOD.loss, kernel=NormKernel),
        lambda: Problem(GOOD.loss, kernel=3),
    ],
)
def test_wrong_types(call):
    with pytest.raises(TypeError):
        call()


def test_a_kernel_of_ones_own_works():
    from quartic.kernels import Kernel

    class Scaled(Kernel):
        """h(X) = c/2‖X‖²; the inherited divergence subtracts."""

        def value(self, X):
            return 2.0 * float(np.vdot(X, X))

        def gradient(self, X):
            return 4.0 * X

        def mirror(self, V, penalty=None, t=1.0):
            return EuclideanKernel().mirror(V / 4.0, penalty, t / 4.0)

    result = minimize(Problem(GOOD.loss, Nonnegative(), Scaled()), rank=3, solver="dyn-nolips", random_state=0)
    assert result.success


def test_import_is_quick_and_silent():
    heavy = ("numba", "sklearn", "torch", "dask", "plotly", "matplotlib", "rich")
    code = f"import sys, quartic; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == ""


def test_verbose_shows_a_bar_and_silence_is_silent(capsys):
    minimize(planted(), rank=3, random_state=0)
    assert capsys.readouterr() == ("", "")
    minimize(planted(), rank=3, random_state=0, verbose=True)
    assert "objective" in capsys.readouterr().out


def test_the_bar_shows_no_numbers_before_there_are_any():
    from rich.console import Console

    shown = io.StringIO()
    with progress_bar(Console(file=shown, force_terminal=True, width=80)) as show:
        minimize(planted(), rank=3, random_state=0, callback=show)
    assert "…" not in shown.getvalue()  # nothing is cut off
    assert "objective" in shown.getvalue()
    assert "nan" not in shown.getvalue()


@pytest.mark.parametrize("number", [np.float32(1e-3), np.float64(1e-3), np.int64(0), 0, 1])
def test_limits_may_be_numbers_of_any_kind(number):
    assert (
        minimize(GOOD, rank=3, tol=number, reference=number, max_time=np.float32(60), max_iter=np.int32(5)).n_iter <= 5
    )


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in ("lm", "smacof")])
@pytest.mark.parametrize("scale", [2.0**-1040, 2.0**-460, 2.0**-40, 2.0**40, 2.0**460, 2.0**1010])
def test_answers_follow_the_scale_of_the_data(name, scale):
    """The paper's start has a 1e-5 in it, and sums of squares under- and overflow: neither may decide the answer."""
    M = np.kron(np.eye(3), np.ones((3, 3))) * scale
    penalty = None if name in FREE else Nonnegative()
    result = minimize(Problem(LeastSquares(M), penalty), rank=3, solver=name, tol=1e-5, random_state=0)
    assert result.success, result.message
    X = result.X / math.sqrt(scale)
    assert np.linalg.norm(M / scale - X @ X.T) < 1e-2


@pytest.mark.parametrize("name", [name for name in SOLVERS if name not in (*FREE, "lm", "smacof")])
def test_large_starts_do_not_end_at_zero(name):
    """Zero is a saddle: a long step that cuts every entry off lowers the loss, and leads nowhere."""
    A = np.random.default_rng(0).random((30, 30))
    problem = Problem(LeastSquares(A + A.T), Nonnegative())
    result = minimize(problem, 100 * (np.ones((30, 3)) + np.eye(30, 3)), solver=name, tol=1e-12, max_iter=200)
    assert result.objective < 0.5 * problem.loss.value(np.zeros((30, 3)))


def test_penalties_may_pull_to_zero():
    problem = Problem(LeastSquares(np.eye(5)), NonnegativeL1(10.0))
    result = minimize(problem, rank=2, solver="pg", random_state=0)
    assert result.success
    assert not result.X.any()


def test_disconnected_and_rank_edge_cases():
    for n in (1, 2):
        result = minimize(Problem(LeastSquares(np.eye(n)), Nonnegative()), rank=n, random_state=0)
        assert np.isfinite(result.X).all()
    minimize(Problem(LeastSquares(symmetric(0))), rank=12, random_state=0)
