"""Threads of our own: the same bits on any number of them, never more than asked for, safe under fork and in crowds."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit
from threadpoolctl import threadpool_info, threadpool_limits

from quartic import Problem, SymNMF, minimize
from quartic.arrays import threads
from quartic.arrays.space import HOST, Fresh
from quartic.compiled import flags as compiling
from quartic.compiled.clock import solving_time
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.losses.factor import numba as factor
from quartic.losses.factor.numba import row_pieces, sparse_product
from quartic.losses.factor.passes import Origin
from quartic.penalties import Nonnegative


@pytest.fixture
def two(monkeypatch):
    """Two threads, however many the machine and the environment allow, and no work too small for them."""
    monkeypatch.setattr(threads, "max_threads", lambda: 2)
    monkeypatch.setattr(threads, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(threads, "_team", threads._Team())
    with threadpool_limits(2):  # a run uses no more than BLAS is allowed
        yield


@pytest.fixture(scope="module")
def graph():
    return planted_graph(3000, 6, random_state=0)[0]


def on_one(f):
    with threads.limited_to(1):
        return f()


def used_by(f):
    """Return how many threads took part in the spread work of f."""
    seen = set()
    original = threads.spread

    def watched(work, n_pieces, multiplications):
        def noted(first, last):
            seen.add(threading.get_ident())
            time.sleep(0.002)  # long enough for another thread to take a turn
            return work(first, last)

        return original(noted, n_pieces, multiplications)

    from quartic.losses.factor import matrix

    with pytest.MonkeyPatch.context() as patch:
        for module in (matrix, factor, threads):
            patch.setattr(module, "spread", watched)
        f()
    return len(seen)


class TestSpread:
    def test_every_piece_once(self, two):
        done = np.zeros(1000, int)

        def work(first, last):
            done[first:last] += 1

        threads.spread(work, 1000, 1e9)
        assert (done == 1).all()

    def test_error_of_a_helper_arrives(self, two):
        def work(first, last):
            time.sleep(0.001)
            if last == 100:
                raise ZeroDivisionError("here")

        with pytest.raises(ZeroDivisionError, match="here"):
            threads.spread(work, 100, 1e9)
        assert threads._team.busy == 0
        assert threads._team.callers == 0

    def test_small_work_stays(self, two, monkeypatch):
        monkeypatch.setattr(threads, "_WORTH_A_THREAD", 400_000)
        idents = []
        threads.spread(lambda first, last: idents.append((threading.get_ident(), first, last)), 10, 1000.0)
        assert idents == [(threading.get_ident(), 0, 10)]

    def test_a_crowd_gets_no_more_helpers_than_processors(self, two):
        """Four callers at the same time on two processors: all help is taken by then, and each works alone."""
        barrier, most, lock = threading.Barrier(4), [], threading.Lock()

        def work(first, last):
            with lock:
                most.append(threads._team.busy)
            time.sleep(0.005)

        def call():
            barrier.wait()
            threads.spread(work, 8, 1e9)

        with ThreadPoolExecutor(4) as crowd:
            list(crowd.map(lambda _: call(), range(4)))
        assert max(most) <= 1
        assert threads._team.busy == 0


class TestSameBits:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("index", [np.int32, np.int64])
    @pytest.mark.parametrize("rank", [1, 3, 20, 37, 100])
    def test_sparse_product(self, two, graph, dtype, index, rank):
        M = sp.csr_array(graph.astype(dtype))
        start, cols, values = M.indptr.astype(index), M.indices.astype(index), M.data
        X = np.random.default_rng(rank).standard_normal((M.shape[0], rank)).astype(dtype)
        answers = [np.full_like(X, np.nan) for _ in range(2)]
        sparse_product(start, cols, values, row_pieces(start), X, answers[0])
        on_one(lambda: sparse_product(start, cols, values, row_pieces(start), X, answers[1]))
        assert np.array_equal(*answers)
        exact = M.astype(np.float64) @ X.astype(np.float64)
        assert np.abs(answers[0] - exact).max() <= 50 * np.finfo(dtype).eps * np.abs(exact).max()

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("rank", [1, 37])
    def test_sparse_product_with_what_lies_far(self, two, graph, dtype, rank, monkeypatch):
        """Asking for rows ahead, up to the last entry, changes nothing."""
        M = sp.csr_array(graph.astype(dtype))
        X = np.random.default_rng(rank).standard_normal((M.shape[0], rank)).astype(dtype)
        answers = [np.full_like(X, np.nan) for _ in range(2)]
        for answer, far in zip(answers, (math.inf, 0), strict=True):
            monkeypatch.setattr(factor, "_FAR", far)
            sparse_product(M.indptr, M.indices, M.data, row_pieces(M.indptr), X, answer)
        assert np.array_equal(*answers)

    def test_sparse_product_empty_rows(self, two):
        M = sp.csr_array(([1.0, 2.0], ([3, 0], [0, 3])), shape=(600, 600))
        X, Y = np.ones((600, 5)), np.full((600, 5), np.nan)
        sparse_product(M.indptr, M.indices, M.data, row_pieces(M.indptr), X, Y)
        assert np.array_equal(Y, M @ X)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize(("n", "rank"), [(1, 1), (5, 3), (64, 4), (1000, 7), (3001, 20), (2500, 33), (70, 70)])
    def test_factor_passes(self, two, dtype, n, rank):
        """Each fused pass against NumPy in float64, and against itself on one thread."""
        rng = np.random.default_rng(n + rank)
        X, Z, MX, MZ = (rng.standard_normal((n, rank)).astype(dtype) for _ in range(4))
        A = rng.standard_normal((rank, rank))
        wide = [a.astype(np.float64) for a in (X, Z, MX, MZ)]
        x, z, mx, mz = wide
        close = {"rtol": 200 * np.finfo(dtype).eps, "atol": 500 * rank * np.finfo(dtype).eps}

        def passes():
            W, V = (np.full_like(X, np.nan) for _ in range(2))
            origin, here = Origin(X, MX, Z, MZ, 0.3), Origin.at(X, MX)
            Y, MY = factor.formed(origin, Fresh())
            numbers = A, 0.2, 0.3, -0.25, 0.1, True
            squares = factor.stepped(here, *numbers, W), factor.stepped(origin, *numbers, V)
            sums = factor.step_sums(V, W, origin, 0.7, True)
            others = factor.projected_norm(X, A, MX), factor.gram_at(here)
            return Y, MY, factor.gram_at(origin), W, V, *squares, *sums, *others

        first, second = passes(), on_one(passes)
        for a, b in zip(first, second, strict=True):
            assert np.array_equal(a, b)
        Y, MY, S, W, V, square, other, gram, C, ahead, *sums, feasible, projected, again = first
        assert Y.dtype == MY.dtype == W.dtype == dtype
        np.testing.assert_allclose(Y, x + 0.3 * (x - z), **close)
        np.testing.assert_allclose(MY, mx + 0.3 * (mx - mz), **close)
        y, my = Y.astype(np.float64), MY.astype(np.float64)
        exact = {"rtol": 1e-12, "atol": 1e-12 * n}  # sums are in float64 even of float32
        np.testing.assert_allclose(S, y.T @ y, **exact)
        np.testing.assert_allclose(again, x.T @ x, **exact)
        front = 0.2 * np.trace(A) + 0.3
        np.testing.assert_allclose(W, np.maximum(front * x - 0.25 * (2 * x @ A - 2 * mx) - 0.1, 0), **close)
        assert square == pytest.approx(float(np.square(W, dtype=np.float64).sum()), rel=1e-12)
        np.testing.assert_allclose(V, np.maximum(front * y - 0.25 * (2 * y @ A - 2 * my) - 0.1, 0), **close)
        assert other == pytest.approx(float(np.square(V, dtype=np.float64).sum()), rel=1e-12)
        v, mv, d = V.astype(np.float64), W.astype(np.float64), (V - Y).astype(np.float64)
        np.testing.assert_allclose(gram, v.T @ v, **exact)
        # the origin may differ from the one that is formed by the rounding of its entries
        differences = {"rtol": 10 * rank * np.finfo(dtype).eps, "atol": 10 * n * rank * np.finfo(dtype).eps}
        np.testing.assert_allclose(C, d.T @ d, **differences)
        beyond = v + 0.7 * (v - x)
        np.testing.assert_allclose(ahead, beyond.T @ beyond, **differences)
        expected = [((mv - my) * d).sum(), (y * d).sum(), (d * d).sum(), (mv * v).sum(), (my * v).sum()]
        scale = n * rank * (1 + np.abs(v).max()) ** 2 * (1 + np.abs(A).max())
        np.testing.assert_allclose(sums, expected, rtol=1e-11, atol=10 * np.finfo(dtype).eps * scale)
        assert feasible == bool((V >= 0).all())
        g = 2 * x @ A - 2 * mx
        expected = np.square(np.where(x > 0, g, np.minimum(g, 0))).sum()
        assert projected == pytest.approx(expected, rel=1e3 * float(np.finfo(dtype).eps))

    def test_nan_is_not_feasible(self):
        X = np.ones((100, 3))
        assert factor.step_sums(X, X, Origin.at(X, X), None, False).feasible is True
        X[50, 1] = np.nan
        assert factor.step_sums(X, X, Origin.at(X, X), None, False).feasible is False

    @pytest.mark.parametrize("dense", [False, True])
    @pytest.mark.parametrize("solver", ["inertial", "dyn-nolips", "lbfgs"])
    def test_a_whole_run(self, two, graph, dense, solver):
        M = graph[:500][:, :500]
        M = M.toarray() if dense else M

        def run():
            problem = Problem(LeastSquares(M), Nonnegative())
            return minimize(problem, rank=6, solver=solver, max_iter=30, random_state=0, tol=0)

        assert used_by(run) == 2
        first, second = run(), on_one(run)
        assert np.array_equal(first.X, second.X)
        assert first.objective == second.objective


class TestLimits:
    def test_one_means_one(self, two, graph):
        problem = Problem(LeastSquares(graph), Nonnegative())
        with threads.limited_to(1):
            assert used_by(lambda: minimize(problem, rank=4, max_iter=3, random_state=0)) == 1

    def test_inner_limits_cannot_raise_outer_ones(self, two):
        with threads.limited_to(1), threads.limited_to(2):
            assert threads.n_threads() == 1

    def test_threadpoolctl_is_respected(self, two, graph):
        problem = Problem(LeastSquares(graph), Nonnegative())
        with threadpool_limits(1):
            assert used_by(lambda: minimize(problem, rank=4, max_iter=3, random_state=0)) == 1

    def test_blas_gets_its_threads_back(self, graph):
        def found():
            return sorted(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")

        inside = []
        problem = Problem(LeastSquares(graph), Nonnegative())
        with threadpool_limits(2, user_api="blas"):
            before = found()
            minimize(problem, rank=4, max_iter=2, random_state=0, callback=lambda p: inside.append(found()))
            assert found() == before
            with pytest.raises(ZeroDivisionError):
                minimize(problem, rank=4, random_state=0, callback=lambda p: 1 / 0)
            assert found() == before
        assert all(count == 1 for counts in inside for count in counts)

    def test_environment(self, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
        assert threads.max_threads.__wrapped__() == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "1000")
        assert threads.max_threads.__wrapped__() <= (os.cpu_count() or 1)

    def test_bad_limit(self):
        with pytest.raises(ValueError, match="at least 1, got 0"), threads.limited_to(0):
            pass


class TestCrowds:
    def test_eight_threads_at_once(self, two, graph):
        def run(seed):
            return minimize(Problem(LeastSquares(graph), Nonnegative()), rank=5, max_iter=15, random_state=seed).X

        alone = [run(seed) for seed in range(8)]
        with ThreadPoolExecutor(8) as crowd:
            together = list(crowd.map(run, range(8)))
        for a, b in zip(alone, together, strict=True):
            assert np.array_equal(a, b)
        assert threads._team.busy == threads._team.callers == 0

    def test_the_same_bits_in_six_threads_as_alone(self, two):
        """With the estimator, whose start sums over all rows by BLAS; the limits of the main thread are in the way."""
        graphs = [planted_graph(6000, 6, random_state=seed)[0] for seed in range(6)]

        def fit(seed):
            return SymNMF(6, random_state=seed).fit(graphs[seed]).embedding_

        alone = [fit(seed) for seed in range(6)]
        with ThreadPoolExecutor(6) as crowd:
            together = list(crowd.map(fit, range(6)))
        for a, b in zip(alone, together, strict=True):
            assert np.array_equal(a, b)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


class TestBlas:
    def test_one_thread_whichever_thread_asks(self, two):
        """threadpoolctl heeds the first thread that ever set a limit, and no other until that one is gone."""
        inside, twos = [], blas_threads()  # two each, but for a library that another package built for one

        def ask():
            with threads.one_blas_thread():
                inside.append(blas_threads())
            inside.append(blas_threads())

        ask()
        with ThreadPoolExecutor(1) as other:
            other.submit(ask).result()
        ones = [1] * len(twos)
        assert inside == [ones, twos, ones, twos]

    def test_the_last_of_several_gives_back(self, two):
        """They overlap, and end in the order they began."""
        twos = blas_threads()
        seen, first, second = [], threads.one_blas_thread(), threads.one_blas_thread()
        with ThreadPoolExecutor(1) as other:
            first.__enter__()
            other.submit(second.__enter__).result()
            first.__exit__(None, None, None)
            seen.append(blas_threads())
            other.submit(second.__exit__, None, None, None).result()
        assert seen == [[1] * len(twos)]
        assert blas_threads() == twos

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs shared libraries as on Linux")
    def test_a_library_loaded_later_is_limited_too(self, tmp_path):
        """In a process of its own, which can load a second copy of NumPy's BLAS after the first run."""
        script = f"""
import ctypes, shutil, sys, types
import numpy as np
from threadpoolctl import ThreadpoolController, threadpool_info
from quartic.arrays.threads import one_blas_thread
def counts():
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {{library["filepath"]: library["num_threads"] for library in found}}
with one_blas_thread():
    known = counts()
source = next(path for path in known if "openblas" in path)
copy = shutil.copy(source, {str(tmp_path)!r} + "/libopenblas_late.so")
ctypes.CDLL(copy)
sys.modules["late"] = types.ModuleType("late")  # a library comes with a module
# builds of OpenBLAS differ in what their functions are called, and threadpoolctl knows all of it
late = next(library for library in ThreadpoolController().lib_controllers if library.filepath == copy)
late.set_num_threads(2)
assert counts()[copy] == 2, counts()
with one_blas_thread():
    assert set(counts().values()) == {{1}}, counts()
assert counts()[copy] == 2, counts()
"""
        if not any("openblas" in library["filepath"] for library in threadpool_info()):
            pytest.skip("needs NumPy with OpenBLAS, of which it can load a copy")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
class TestFork:
    def test_a_child_fits(self, two, graph):
        """A forked child has none of its parent's threads, and makes its own."""
        problem = Problem(LeastSquares(graph), Nonnegative())
        X = minimize(problem, rank=5, max_iter=10, random_state=0).X
        assert threads._team.pool is not None
        assert in_child(lambda: np.array_equal(X, minimize(problem, rank=5, max_iter=10, random_state=0).X))

    def test_a_fit_goes_on_while_another_thread_forks(self):
        """OpenBLAS ends its threads at a fork, and a call of another thread that uses them never returns.

        The first fit is in the main thread, which then alone may set limits, if threadpoolctl is asked in its own way.
        """
        script = """
import os, threading, time
from threadpoolctl import threadpool_limits
from quartic import SymNMF
from quartic.datasets import planted_graph
threadpool_limits(2)
M, _ = planted_graph(3000, 6, degree=20, random_state=0)
fit = lambda: SymNMF(6, random_state=0).fit(M)
fit()
over = threading.Event()
def work():
    while not over.is_set():
        fit()
thread = threading.Thread(target=work, daemon=True)
thread.start()
end = time.monotonic() + 15
for _ in range(400):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    if time.monotonic() > end:
        break
over.set()
thread.join(40)
os._exit(3 if thread.is_alive() else 0)
"""
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=180, env=environment
        )
        assert done.returncode == 0, done.stderr or "the fit hangs"

    def test_a_property_under_way_in_another_thread_is_not_locked_in_the_child(self, graph, monkeypatch):
        """Python 3.11 has one lock for a cached property of all objects."""
        from quartic.losses.factor import numba as sparse
        from quartic.losses.factor.matrix import SparseMatrix

        begun, go_on, original = threading.Event(), threading.Event(), sparse.row_pieces

        def slow(start):
            begun.set()
            go_on.wait(60)
            return original(start)

        with monkeypatch.context() as patch:
            patch.setattr(sparse, "row_pieces", slow)
            other = threading.Thread(target=lambda: SparseMatrix(graph)._pieces)
            other.start()
            assert begun.wait(60)
        try:
            assert in_child(lambda: len(SparseMatrix(graph)._pieces) > 0)
        finally:
            go_on.set()
            other.join()

    def test_limits_that_a_child_inherits(self, two, graph):
        """Forked while another thread's run holds BLAS at one thread, it gives back what BLAS had after its own run."""
        problem = Problem(LeastSquares(graph), Nonnegative())
        begun, go_on, twos = threading.Event(), threading.Event(), blas_threads()
        assert 2 in twos

        def wait(progress):
            begun.set()
            go_on.wait(60)

        def fit():
            inside = []
            minimize(problem, rank=3, max_iter=1, random_state=0, callback=lambda p: inside.append(blas_threads()))
            return inside == [[1] * len(twos)] and blas_threads() == twos

        other = threading.Thread(
            target=minimize, args=(problem,), kwargs={"rank": 3, "max_iter": 1, "random_state": 0, "callback": wait}
        )
        other.start()
        try:
            assert begun.wait(60)
            assert in_child(fit)
        finally:
            go_on.set()
            other.join()
        assert blas_threads() == twos

    def test_a_run_that_forks_is_the_childs_too(self, two, graph):
        """A callback forks: the child goes on with the run, still at one thread, and gives back at its end."""
        problem = Problem(LeastSquares(graph), Nonnegative())
        twos, children = blas_threads(), []

        def fork(progress):
            if not children:
                children.append(os.fork())

        result = minimize(problem, rank=3, max_iter=2, tol=0, random_state=0, callback=fork)
        if children[0] == 0:
            os._exit(0 if blas_threads() == twos and threads._blas.runs == 0 and result.n_iter == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
        assert blas_threads() == twos


def in_child(f):
    """Tell whether f() is true in a forked child, which has half a minute for it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(30)
            code = 0 if f() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_arrays_still_held_are_not_used_again(graph):
    """Iterates that a callback keeps stay as they were, though the run uses its arrays again."""
    kept = []
    problem = Problem(LeastSquares(graph), Nonnegative())
    minimize(problem, rank=8, max_iter=20, random_state=0, callback=lambda p: kept.append((p.X, p.X.copy())))
    assert len(kept) > 10
    for X, copy in kept:
        assert np.array_equal(X, copy)


class TestPairs:
    """Passes over pairs: chunks of rows with sums of their own."""

    @pytest.fixture(params=[np.float64, np.float32])
    def loss(self, request, monkeypatch):
        from quartic.losses import Distances
        from quartic.losses.pairs import pairs as row_chunks

        monkeypatch.setattr(row_chunks, "_PAIRS_IN_A_CHUNK", 500)  # several chunks of a small problem
        monkeypatch.setattr(row_chunks, "_PAIRS_FOR_A_ROW", 4)
        rng = np.random.default_rng(0)
        pairs = np.array([(i, j) for i in range(120) for j in range(i + 1, 120) if rng.random() < 0.6])
        return Distances(pairs, rng.random(len(pairs)).astype(request.param), weights=rng.random(len(pairs)))

    def passes(self, loss):
        rng = np.random.default_rng(1)
        X, D = (rng.standard_normal((loss.n_points, 3)).astype(loss.dtype) for _ in range(2))
        p, H = loss.at(X), np.empty_like(D)
        move, line = loss.move(p, X + D), loss.along(p, D)
        new, blocks = loss.linearize(X)
        loss.gauss_newton_product(p, D, H)
        return {
            "at": (p.value, p.gradient),
            "move": (move.remainder, move.point.value, move.point.gradient),
            "along": (*line.coefficients, line.point(0.3).gradient),
            "linearize": (new.value, new.gradient, blocks),
            "product": (H,),
            "hessian": (loss.hessian_product(p, D),),
            "quartic": loss.quartic(p, D),
        }

    def test_same_bits_on_two_threads(self, two, loss):
        together, alone = self.passes(loss), on_one(lambda: self.passes(loss))
        for name, values in together.items():
            for a, b in zip(values, alone[name], strict=True):
                assert np.array_equal(a, b), name

    def test_chunks_change_nothing_but_round_off(self, loss, monkeypatch):
        from dataclasses import replace

        from quartic.losses.pairs import pairs as row_chunks

        cut = self.passes(loss)
        assert len(loss.pairs.chunks) > 1
        monkeypatch.setattr(row_chunks, "_PAIRS_IN_A_CHUNK", 10**9)
        uncut = loss.with_pairs(replace(loss.pairs))
        whole = self.passes(uncut)
        assert len(uncut.pairs.chunks) == 1
        for name, values in cut.items():
            for a, b in zip(values, whole[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5 if loss.dtype == np.float32 else 1e-10, atol=1e-8)
                assert np.asarray(a).dtype == np.asarray(b).dtype

    def test_several_threads_take_part(self, two, loss):
        from quartic.losses.pairs import numba as passes

        seen, original = set(), passes.spread

        def watched(work, n_pieces, multiplications):
            def noted(first, last):
                seen.add(threading.get_ident())
                time.sleep(0.002)
                work(first, last)

            original(noted, n_pieces, multiplications)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes, "spread", watched)
            loss.at(np.random.default_rng(0).standard_normal((loss.n_points, 3)))
        assert len(seen) == 2


def compilation_of(module):
    """Return what numba's event says when a function of that module is compiled."""

    def function():
        """Stand for a compiled function."""

    function.__module__ = module
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


class TestCompiling:
    def test_said_once_on_a_machine(self, caplog, tmp_path, monkeypatch):
        """Not in each of the processes that compile some part or other; again after an upgrade."""
        marker = tmp_path / "cache" / "told"
        ours, theirs = compilation_of("quartic.losses.pairs.numba"), compilation_of("time")
        with caplog.at_level("INFO", logger="quartic"):
            for _process in range(3):
                listener = compiling._Listener(marker)
                for event in (theirs, ours, ours):
                    listener.on_start(event)
                    listener.on_end(event)
            assert [record.message.split(":")[0] for record in caplog.records] == ["compiling for this machine"]
            monkeypatch.setattr(compiling, "__version__", "99.0")
            compiling._Listener(marker).on_start(ours)
            compiling.end_compiling()
        assert len(caplog.records) == 2

    def test_said_once_a_process_where_nothing_can_be_kept(self, caplog, tmp_path):
        (tmp_path / "file").write_text("in the way of a folder")
        with caplog.at_level("INFO", logger="quartic"):
            for marker in (tmp_path / "file" / "told", None):
                listener = compiling._Listener(marker)
                for _ in range(2):
                    listener.on_start(compilation_of("quartic.losses.pairs.numba"))
                    listener.on_end(None)
        assert len(caplog.records) == 2

    def test_processes_that_compile_at_once_do_not_mix_up_their_code(self, tmp_path, monkeypatch):
        """Numba numbers the files of a function: two that have read the same index take the same number."""
        from quartic.compiled.flags import _CacheFile

        mine, theirs = (_CacheFile(str(tmp_path), "function", "stamp") for _ in range(2))
        write = mine._save_data

        def write_after_theirs(name, data):
            with monkeypatch.context() as context:
                context.setattr(theirs, "_load_index", dict)  # read before mine was written
                theirs.save("of doubles", "code for doubles")
            write(name, data)

        monkeypatch.setattr(mine, "_save_data", write_after_theirs)
        mine.save("of floats", "code for floats")
        for key in ("of floats", "of doubles"):
            assert mine.load(key) in (None, key.replace("of", "code for"))

    def test_what_is_compiled_is_kept_apart(self):
        from quartic.compiled.flags import _CacheFile
        from quartic.losses.pairs.numba import pair_rows

        assert type(pair_rows._cache._cache_file) is _CacheFile

    def test_a_new_function_is_heard_of(self, caplog, monkeypatch):
        def new(x):
            return x + 1

        new.__module__ = "quartic.test"
        monkeypatch.setattr(compiling.listener, "told", False)
        monkeypatch.setattr(compiling.listener, "marker", None)
        with caplog.at_level("INFO", logger="quartic"):
            assert njit(new)(1) == 2
        assert "compiling" in caplog.text

    def test_compiling_is_no_part_of_solving(self):
        """A callback sets off a compilation: the run says how long it took without that."""

        def slow_to_compile(x):
            for k in range(10):
                x = x * 0.5 + np.sqrt(np.abs(np.sin(x) + k)) - np.cos(x) ** 3
            return x

        compiled, spent = njit(slow_to_compile), []

        def compile_now(progress):
            began = time.perf_counter()
            compiled(1.0)
            spent.append(time.perf_counter() - began)

        began = time.perf_counter()
        result = minimize(
            Problem(LeastSquares(np.ones((4, 4)))), np.eye(4, 1) * 2, solver="gd", max_iter=3, callback=compile_now
        )
        whole = time.perf_counter() - began
        assert max(spent) > 0.05  # it was compiled, within the run
        assert result.time <= whole - 0.8 * max(spent)

    def test_the_clock_stops_while_one_compilation_sets_off_another(self):
        begin, end = compiling.begin_compiling, compiling.end_compiling
        wall, solving = time.perf_counter(), solving_time()
        begin()
        begin()
        time.sleep(0.01)
        end()
        time.sleep(0.01)
        end()
        assert solving_time() - solving <= time.perf_counter() - wall - 0.02


def test_threads_are_shared_among_runs():
    assert [threads.share_of(*given) for given in ((4, 2), (4, 10), (1, 1), (None, 3))] == [2, 1, 1, None]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("rank", "filled"), [(5, 1.0), (60, 1.0), (60, 0.03)])
def test_gram_matrices_and_inner_products_are_the_same_bits_on_any_number_of_threads(rank, filled, dtype, two):
    """Many rows, cut into pieces; with many columns of which few entries are not zero, by those alone."""
    rng = np.random.default_rng(3)
    A, B = (np.where(rng.random((20_000, rank)) < filled, rng.standard_normal((20_000, rank)), 0) for _ in range(2))
    A, B, C = A.astype(dtype), B.astype(dtype), rng.standard_normal((rank, rank)).astype(dtype)
    found = []
    for count in (1, 2):
        with threads.limited_to(count):
            found.append((HOST.gram(A), HOST.gram(A, B), HOST.inner(A, B), HOST.times(A, C)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    single = [1e-12, 1e-12, 1e-12, np.finfo(dtype).eps]  # AC is made in the type of A
    A, B, C = (M.astype(np.float64) for M in (A, B, C))
    exact = A.T @ A, A.T @ B, np.sum(A * B), A @ C
    for got, expected, relative in zip(found[0], exact, single, strict=True):
        np.testing.assert_allclose(got, expected, atol=50 * relative * np.linalg.norm(A) * np.linalg.norm(B))
