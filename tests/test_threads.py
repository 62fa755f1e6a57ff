"""Threads of our own: the same bits on any number of them, never more than asked for, safe under fork and in crowds."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from quartic import Problem, minimize
from quartic.arrays import threads
from quartic.arrays.workspace import Fresh
from quartic.compiled.sparse import row_pieces, sparse_product
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.losses.factor import numba as factor
from quartic.losses.factor.origin import Origin
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

    from quartic.compiled import sparse

    with pytest.MonkeyPatch.context() as patch:
        for module in (sparse, factor, threads):
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
            squares = factor.stepped(here, A, 0.5, 0.1, True, W), factor.stepped(origin, A, 0.5, 0.1, True, V)
            sums = factor.step_sums(V, W, origin, 0.7, True)
            others = factor.curvature(V, origin), factor.projected_norm(X, A, MX), factor.gram_at(here)
            return Y, MY, factor.gram_at(origin), W, V, *squares, *sums, *others

        first, second = passes(), on_one(passes)
        for a, b in zip(first, second, strict=True):
            assert np.array_equal(a, b)
        Y, MY, S, W, V, square, other, gram, C, ahead, *sums, feasible, curvature, projected, again = first
        assert Y.dtype == MY.dtype == W.dtype == dtype
        np.testing.assert_allclose(Y, x + 0.3 * (x - z), **close)
        np.testing.assert_allclose(MY, mx + 0.3 * (mx - mz), **close)
        y, my = Y.astype(np.float64), MY.astype(np.float64)
        exact = {"rtol": 1e-12, "atol": 1e-12 * n}  # sums are in float64 even of float32
        np.testing.assert_allclose(S, y.T @ y, **exact)
        np.testing.assert_allclose(again, x.T @ x, **exact)
        np.testing.assert_allclose(W, np.maximum(x @ A + 0.5 * mx - 0.1, 0), **close)
        assert square == pytest.approx(float(np.square(W, dtype=np.float64).sum()), rel=1e-12)
        np.testing.assert_allclose(V, np.maximum(y @ A + 0.5 * my - 0.1, 0), **close)
        assert other == pytest.approx(float(np.square(V, dtype=np.float64).sum()), rel=1e-12)
        v, mv, d = V.astype(np.float64), W.astype(np.float64), (V - Y).astype(np.float64)
        np.testing.assert_allclose(gram, v.T @ v, **exact)
        # the origin may differ from the one that is formed by the rounding of its entries
        differences = {"rtol": 10 * rank * np.finfo(dtype).eps, "atol": 10 * n * rank * np.finfo(dtype).eps}
        np.testing.assert_allclose(C, d.T @ d, **differences)
        np.testing.assert_allclose(curvature, C, rtol=1e-12, atol=1e-12 * n)
        beyond = v + 0.7 * (v - x)
        np.testing.assert_allclose(ahead, beyond.T @ beyond, **differences)
        expected = [((mv - my) * d).sum(), (y * d).sum(), (d * d).sum(), (mv * v).sum(), (my * v).sum()]
        scale = n * rank * (1 + np.abs(v).max()) ** 2 * (1 + np.abs(A).max())
        np.testing.assert_allclose(sums, expected, rtol=1e-11, atol=10 * np.finfo(dtype).eps * scale)
        assert feasible == bool((V >= 0).all())
        g = x @ A - 2 * mx
        expected = np.square(np.where(x > 0, g, np.minimum(g, 0))).sum()
        assert projected == pytest.approx(expected, rel=1e3 * float(np.finfo(dtype).eps))

    def test_nan_is_not_feasible(self):
        X = np.ones((100, 3))
        assert factor.step_sums(X, X, Origin.at(X, X)).feasible is True
        X[50, 1] = np.nan
        assert factor.step_sums(X, X, Origin.at(X, X)).feasible is False

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

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
    def test_fork(self, two, graph):
        """A forked child has none of its parent's threads, and makes its own."""
        problem = Problem(LeastSquares(graph), Nonnegative())
        X = minimize(problem, rank=5, max_iter=10, random_state=0).X
        assert threads._team.pool is not None
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                again = minimize(problem, rank=5, max_iter=10, random_state=0).X
                os.write(write, b"1" if np.array_equal(X, again) else b"0")
            finally:
                os._exit(0)
        os.close(write)
        assert os.read(read, 1) == b"1"
        os.waitpid(child, 0)
        os.close(read)


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
        from quartic.compiled import row_chunks
        from quartic.losses import Distances

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

        from quartic.compiled import row_chunks

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
        from quartic.compiled import row_chunks

        seen, original = set(), row_chunks.spread

        def watched(work, n_pieces, multiplications):
            def noted(first, last):
                seen.add(threading.get_ident())
                time.sleep(0.002)
                work(first, last)

            original(noted, n_pieces, multiplications)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_chunks, "spread", watched)
            loss.at(np.random.default_rng(0).standard_normal((loss.n_points, 3)))
        assert len(seen) == 2


class TestCompiling:
    def test_said_once_by_the_logger(self, caplog):
        from types import SimpleNamespace

        from quartic.compiled.compiling import _Teller

        def ours():
            """Stand for a compiled function."""

        ours.__module__ = "quartic.losses.pairs.numba"
        of = {
            name: SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=f)})
            for name, f in {"ours": ours, "theirs": time.sleep}.items()
        }
        teller = _Teller()
        with caplog.at_level("INFO", logger="quartic"):
            teller.on_start(of["theirs"])
            assert not caplog.records
            teller.on_start(of["ours"])
            teller.on_start(of["ours"])
        assert len(caplog.records) == 1
        assert "compiling" in caplog.text

    def test_a_new_function_is_heard_of(self, caplog, monkeypatch):
        from numba import njit

        from quartic.arrays import flags  # noqa: F401
        from quartic.compiled import compiling

        def new(x):
            return x + 1

        new.__module__ = "quartic.test"
        monkeypatch.setattr(compiling.teller, "told", False)
        with caplog.at_level("INFO", logger="quartic"):
            assert njit(new)(1) == 2
        assert "compiling" in caplog.text


def test_bench_floor_and_growth_need_no_extras(tmp_path):
    """They run where scikit-learn, typer, rich, pandas and threadpoolctl cannot be imported."""
    import subprocess
    import sys

    script = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "typer", "rich", "pandas", "threadpoolctl"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
import numpy as np
from quartic.bench.floor import FloorSettings, floor_table, run_floor
from quartic.bench.growth import GrowthSettings, growth_table, run_growth
settings = FloorSettings(graphs=(300,), data=(), points=((200, 2000),), threads=(1,), repeats=2, dtypes=(np.float64,))
print(floor_table(run_floor(settings, lambda line: None)))
rows = run_growth(GrowthSettings(nodes=(2000, 4000), pairs=(20000, 40000), repeats=2), lambda line: None)
print(growth_table(rows))
assert all(row["matrices"] <= row["allowed"] + 0.5 for row in rows), rows
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "graph, n = 300, r = 20 | float64 | 1" in done.stdout
    assert "time grows like size^" in done.stdout
