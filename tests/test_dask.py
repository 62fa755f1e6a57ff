"""Data in blocks: on a cluster of two processes, in threads, on disk; workers and clients that die."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from quartic import Problem, SymNMF, minimize
from quartic.datasets import helix, pair_distances, random_pairs
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative

dask = pytest.importorskip("dask", reason='needs dask: pip install "quartic[distributed]"')
distributed = pytest.importorskip("distributed", reason='needs distributed: pip install "quartic[distributed]"')

import dask.array as da  # noqa: E402

from quartic.distributed import connect, in_blocks  # noqa: E402
from quartic.losses.dask_distances import DaskDistances  # noqa: E402
from quartic.losses.dask_matrix import DaskMatrix  # noqa: E402

QUIET = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


def symmetric_graph(n: int = 400, seed: int = 0) -> sp.csr_array:
    """Four groups, and noise between them."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=min(0.03, 20 / n), rng=rng, format="csr")
    within = sp.random_array((n // 4, n // 4), density=min(0.3, 40 / n), rng=rng, format="csr")
    A = A + sp.block_diag([within] * 4, format="csr")
    return sp.csr_array(A + A.T)


M = symmetric_graph()
X0 = 0.1 * np.random.default_rng(1).random((400, 4))


def run(loss, **options):
    return minimize(Problem(loss, Nonnegative()), X0, **options)


# -- the same answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["inertial", "dyn-nolips", "lbfgs", "hals", "nolips"])
def test_twenty_iterations_on_two_workers_are_those_of_one_machine(client, solver):
    there = run(LeastSquares(in_blocks(M, 5)), solver=solver, tol=0, max_iter=20)
    here = run(LeastSquares(M), solver=solver, tol=0, max_iter=20)
    assert np.abs(there.X - here.X).max() <= 1e-10 * np.abs(here.X).max()
    assert there.n_products == here.n_products


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["sparse", "dense", "cut into columns"])
def test_every_kind_of_block_kept_or_read_anew(client, kind, keep):
    A = {
        "sparse": lambda: in_blocks(M, 3),
        "dense": lambda: in_blocks(M.toarray(), 3),
        "cut into columns": lambda: da.from_array(M.toarray(), chunks=(150, 130)),
    }[kind]()
    matrix = DaskMatrix(A, keep=keep)
    assert matrix.blocks.kept is keep
    there = run(LeastSquares(matrix), solver="inertial", tol=0, max_iter=20)
    here = run(LeastSquares(M), solver="inertial", tol=0, max_iter=20)
    assert np.abs(there.X - here.X).max() <= 1e-10


def test_objectives_agree_when_converged(client):
    there, here = (run(LeastSquares(A), solver="lbfgs", tol=1e-8) for A in (in_blocks(M, 2), M))
    assert there.success
    assert here.success
    assert there.objective == pytest.approx(here.objective, rel=1e-6)


def test_threads_do_without_a_cluster():
    matrix = DaskMatrix(in_blocks(M, 7), keep=False, memory_limit="10 MB")
    assert not matrix.blocks.kept
    there, here = (run(LeastSquares(A), tol=0, max_iter=20) for A in (matrix, M))
    assert np.abs(there.X - here.X).max() <= 1e-10


def test_float32_stays_float32(client):
    A = M.astype(np.float32)
    matrix = DaskMatrix(in_blocks(A, 3))
    assert matrix.dtype == np.float32
    assert matrix.product(X0.astype(np.float32)).dtype == np.float32
    assert run(LeastSquares(matrix), tol=1e-2).X.dtype == np.float32


def test_blocks_that_the_user_has_persisted_are_used_where_they_are(client):
    A = in_blocks(M, 4).persist()
    matrix = DaskMatrix(A, keep=False)
    assert matrix.blocks.kept  # there is no recipe but the workers' memory
    assert np.array_equal(matrix.product(X0), M @ X0)


def test_facts_of_the_matrix(client):
    there, here = DaskMatrix(in_blocks(M, 6)), LeastSquares(M).matrix
    assert there.squared_norm == pytest.approx(here.squared_norm, rel=1e-14)
    assert there.total()[0] == pytest.approx(here.total()[0], rel=1e-14)
    assert there.entries_per_row() == here.entries_per_row()
    assert there.checksum() == pytest.approx(here.checksum(), rel=1e-12)


def test_a_solver_that_needs_entries_says_so(client):
    with pytest.raises(ValueError, match="spread over blocks"):
        run(LeastSquares(in_blocks(M, 3)), solver="cd")


def test_duplicate_entries_count_as_their_sum():
    rows = sp.csr_array((np.ones(4), [0, 0, 1, 1], [0, 2, 4]), shape=(2, 2))  # (0,0) twice, (1,1) twice
    loss = LeastSquares(in_blocks(rows, 1))
    assert loss.matrix.squared_norm == 8.0


def test_the_scheduler_forgets_each_pass(client, cluster):
    loss = LeastSquares(in_blocks(M, 4))
    run(loss, tol=0, max_iter=5)
    _settled(cluster)
    early = len(cluster.scheduler.tasks)
    run(loss, tol=0, max_iter=25)
    _settled(cluster)
    assert len(cluster.scheduler.tasks) <= early


def _settled(cluster, seconds: float = 10.0) -> None:
    """Wait until releases sent to the scheduler have arrived."""
    end, before = time.monotonic() + seconds, -1
    while time.monotonic() < end and before != len(cluster.scheduler.tasks):
        before = len(cluster.scheduler.tasks)
        time.sleep(0.2)


# -- what dies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_a_worker_killed_in_mid_run_changes_nothing(keep):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster, distributed.Client(cluster):
        whole = run(LeastSquares(DaskMatrix(in_blocks(M, 5), keep=keep)), tol=0, max_iter=25)
        killed = []

        def kill(progress):
            if progress.n_iter == 6:
                killed.append(min(distributed.default_client().run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        again = run(LeastSquares(DaskMatrix(in_blocks(M, 5), keep=keep)), tol=0, max_iter=25, callback=kill)
    assert killed
    assert again.n_iter == 25
    assert np.array_equal(again.X, whole.X)


def test_the_only_worker_killed_takes_x_with_it_and_the_pass_is_made_again():
    wide = 0.1 * np.random.default_rng(1).random((4000, 4))  # more than goes along with a task
    A = symmetric_graph(4000)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **QUIET) as cluster, distributed.Client(cluster):
        matrix = DaskMatrix(in_blocks(A, 3))

        def kill(progress):
            if progress.n_iter == 2:
                os.kill(next(iter(distributed.default_client().run(os.getpid).values())), signal.SIGKILL)

        there = minimize(Problem(LeastSquares(matrix), Nonnegative()), wide, tol=0, max_iter=4, callback=kill)
    here = minimize(Problem(LeastSquares(A), Nonnegative()), wide, tol=0, max_iter=4)
    assert np.abs(there.X - here.X).max() <= 1e-10


RESUMABLE = """
import sys, time
import numpy as np
sys.path.insert(0, {tests!r})
import quartic.loop
from quartic import Problem, minimize
from quartic.distributed import connect, in_blocks
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from test_dask import M, X0
quartic.loop._CHECKPOINT_EVERY = 0.2
address, path, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
with connect(address):
    def tell(progress):
        print(progress.n_iter, flush=True)
        time.sleep(pause)
    result = minimize(
        Problem(LeastSquares(in_blocks(M, 4)), Nonnegative()), X0, tol=0, max_iter=40, checkpoint=path, callback=tell
    )
    np.save(path + ".npy", result.X)
    print("done", flush=True)
"""


def test_a_client_killed_and_started_again_goes_on_where_it_was(cluster, tmp_path):
    address, path = cluster.scheduler_address, tmp_path / "run"
    script = RESUMABLE.format(tests=str(Path(__file__).parent))

    def start(pause: float):
        command = [sys.executable, "-c", script, address, str(path), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    first = start(0.1)
    seen = [int(next(first.stdout)) for _ in range(15)]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert not path.with_suffix(".npy").exists()
    second = start(0.0)
    said, _ = second.communicate(timeout=120)
    lines = said.split()
    assert second.returncode == 0
    assert lines[-1] == "done"
    went_on_at = int(lines[0])
    # saved every 0.2 s, an iteration takes 0.1 s and a little: three iterations are an interval
    assert 1 < went_on_at
    assert went_on_at >= seen[-1] - 3
    with distributed.Client(cluster):
        whole = run(LeastSquares(in_blocks(M, 4)), tol=0, max_iter=40)
    assert np.array_equal(np.load(f"{path}.npy"), whole.X)


# -- errors ---------------------------------------------------------------------------------------------------------------


def test_an_unreachable_scheduler_is_one_clear_error():
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1 within"):
        connect("tcp://127.0.0.1:1", timeout=0.3)


def test_a_scheduler_without_workers_is_one_clear_error():
    with (
        distributed.LocalCluster(n_workers=0, **QUIET) as cluster,
        distributed.Client(cluster),
        pytest.raises(ConnectionError, match="has no workers"),
    ):
        LeastSquares(in_blocks(M, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ModuleNotFoundError(\"No module named 'quartic'\", name='quartic')", "has no module 'quartic': install"),
        ("class _version: __version__ = '0.0.1'", "answers quartic 0.0.1, but this is"),
    ],
)
def test_a_worker_without_the_package_or_with_another_version_is_one_clear_error(tmp_path, text, message):
    (tmp_path / "quartic").mkdir()
    (tmp_path / "quartic" / "__init__.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with distributed.LocalCluster(n_workers=0, **QUIET) as cluster:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny"]
        command += ["--no-dashboard", "--nthreads", "1", "--local-directory", str(tmp_path)]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(1, timeout=60)
                with pytest.raises(ModuleNotFoundError, match=message):
                    LeastSquares(in_blocks(M, 3))
        finally:
            worker.terminate()
            worker.wait(30)


def _glued(*parts):
    """Blocks that say they are 400 wide, whatever they are."""
    return da.concatenate([da.from_delayed(dask.delayed(p), (len(p.toarray()), 400), p.dtype) for p in parts])


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_blocks_of_unequal_width_are_one_clear_error(request, where):
    if where == "cluster":
        request.getfixturevalue("client")
    with pytest.raises(ValueError, match=r"must be 400 wide.*block 1 has the shape \(200, 399\)"):
        LeastSquares(_glued(M[:200], M[200:, :399]))


def test_a_block_with_other_rows_than_it_says_is_an_error():
    parts = [da.from_delayed(dask.delayed(M[:200]), (200, 400), float)]
    parts.append(da.from_delayed(dask.delayed(M[200:399]), (200, 400), float))
    with pytest.raises(ValueError, match="block 1 of M is said to have 200 rows"):
        LeastSquares(da.concatenate(parts))


def test_faulty_entries_are_named(client):
    A = M.copy()
    A.data[A.indptr[250]] = np.nan
    with pytest.raises(ValueError, match=rf"M\[250, {A.indices[A.indptr[250]]}\] is nan"):
        LeastSquares(in_blocks(A, 3))
    B = M.tolil()
    B[7, 300] = 5.0
    with pytest.raises(ValueError, match=r"M\[(7, 300|300, 7)\] = .* pass \(M \+ M.T\) / 2"):
        LeastSquares(in_blocks(sp.csr_array(B), 3))


def test_asymmetry_of_the_size_of_round_off_is_allowed_as_in_memory():
    A = M.toarray() * (1 + 1e-13 * np.random.default_rng(0).standard_normal((400, 400)))
    LeastSquares(A)
    LeastSquares(in_blocks(A, 3))
    A[5, 6] += 1e-8 * np.abs(A).max()
    with pytest.raises(ValueError, match="symmetric"):
        LeastSquares(in_blocks(A, 3))


def test_other_faults_of_the_array():
    with pytest.raises(ValueError, match="square"):
        LeastSquares(da.ones((4, 5)))
    with pytest.raises(TypeError, match="real numbers"):
        LeastSquares(da.ones((4, 4), dtype=complex))
    unknown = da.from_array(M.toarray(), chunks=(100, 400))
    unknown = unknown[unknown[:, 0] >= 0]
    with pytest.raises(ValueError, match=r"square|unknown size"):
        LeastSquares(unknown)
    with pytest.raises(ValueError, match='"2 GB"'):
        DaskMatrix(in_blocks(M, 3), memory_limit="much")
    with pytest.raises(TypeError, match="Dask array"):
        DaskMatrix(M)
    with pytest.raises(ValueError, match="smaller blocks"):
        DaskMatrix(in_blocks(M.toarray(), 2), keep=False, memory_limit=1000)


def test_a_memory_limit_is_the_workers_on_a_cluster(client):
    with pytest.raises(ValueError, match="give it to the workers"):
        DaskMatrix(in_blocks(M, 3), memory_limit="1 GB")


def test_blocks_too_large_for_a_worker_are_an_error_before_they_kill_it():
    A = da.ones((2000, 2000), chunks=(1000, 2000))
    limited = {"memory_limit": "18 MB", "processes": False}
    with (
        dask.config.set({"distributed.worker.memory.pause": False, "distributed.worker.memory.spill": False}),
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **QUIET, **limited) as cluster,
        distributed.Client(cluster),
        pytest.raises(ValueError, match="too much for workers with a memory limit"),
    ):
        LeastSquares(A)


def test_no_more_blocks_in_memory_than_the_limit_allows():
    alive, most = set(), [0]

    class Rows(np.ndarray):
        def __del__(self):
            alive.discard(id(self))

    def make(k):
        rows = np.ones((100, 1000)).view(Rows)
        alive.add(id(rows))
        most[0] = max(most[0], len(alive))
        return rows

    parts = [da.from_delayed(dask.delayed(make, pure=False)(k), (100, 1000), float) for k in range(10)]
    with dask.config.set(num_workers=8):
        matrix = DaskMatrix(da.concatenate(parts), memory_limit=3_400_000)  # four blocks, two of which may be at work
    assert not matrix.blocks.kept
    most[0] = 0
    matrix.product(np.ones((1000, 2)))
    assert 1 <= most[0] <= 3


# -- distances in chunks --------------------------------------------------------------------------------------------------

N = 150
POINTS = helix(N, random_state=0)
PAIRS = np.random.default_rng(3).permutation(random_pairs(N, 0.3, random_state=0))
SQUARED = pair_distances(POINTS, PAIRS) ** 2
WEIGHTS = np.random.default_rng(4).uniform(0.5, 1.5, len(PAIRS))


def chunked(weights=None, pieces=5):
    size = -(-len(PAIRS) // pieces)
    w = None if weights is None else da.from_array(weights, chunks=size)
    return Distances(da.from_array(PAIRS, chunks=(size, 2)), da.from_array(SQUARED, chunks=size + 3), weights=w)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_every_pass_over_chunks_is_that_over_all_pairs(client, weights):
    there, here = chunked(weights), Distances(PAIRS, SQUARED, weights=weights)
    assert isinstance(there, DaskDistances)
    rng = np.random.default_rng(0)
    X, D = rng.standard_normal((2, N, 3))
    p, q = there.at(X), here.at(X)
    close = {"rtol": 1e-11, "atol": 1e-11}
    assert np.allclose(p.value, q.value, **close)
    assert np.allclose(p.gradient, q.gradient, **close)
    a, b = there.move(p, X + 0.1 * D), here.move(q, X + 0.1 * D)
    assert np.allclose([a.point.value, a.remainder], [b.point.value, b.remainder], **close)
    assert np.allclose(a.point.gradient, b.point.gradient, **close)
    a, b = there.along(p, D), here.along(q, D)
    assert np.allclose(a.coefficients, b.coefficients, **close)
    assert np.allclose(a.point(0.3).gradient, b.point(0.3).gradient, **close)
    assert np.allclose(there.hessian_product(p, D), here.hessian_product(q, D), **close)
    (p, A), (q, B) = there.linearize(X), here.linearize(X)
    assert np.allclose(p.gradient, q.gradient, **close)
    assert np.allclose(A, B, **close)
    one, two = np.empty_like(D), np.empty_like(D)
    there.gauss_newton_product(p, D, one)
    here.gauss_newton_product(q, D, two)
    assert np.allclose(one, two, **close)
    assert abs(there.gauss_newton_matrix(p) - here.gauss_newton_matrix(q)).max() <= 1e-10
    assert np.allclose(there.quartic(p, D), here.quartic(q, D), **close)
    for name in ("smoothness", "gradient_norm_at_zero", "value_at_zero", "gradient_scale", "n_pairs", "n_points"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-12)


@pytest.mark.parametrize("solver", ["lm", "inertial", "ncg", "tr", "gd"])
def test_twenty_iterations_over_chunks_are_those_over_all_pairs(client, solver):
    start = np.random.default_rng(5).standard_normal((N, 3))
    there, here = (
        minimize(Problem(loss), start, solver=solver, tol=0, max_iter=20)
        for loss in (chunked(), Distances(PAIRS, SQUARED))
    )
    assert np.abs(there.X - here.X).max() <= 1e-10 * np.abs(here.X).max()


def test_sums_are_the_same_bits_in_threads_and_on_workers(cluster):
    X = np.random.default_rng(0).standard_normal((N, 3))
    off = chunked(pieces=7).at(X)
    with distributed.Client(cluster):
        on = chunked(pieces=7).at(X)
    assert on.value == off.value
    assert np.array_equal(on.gradient, off.gradient)


def test_a_dataframe_of_pairs():
    dd = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"w": WEIGHTS, "i": PAIRS[:, 0], "j": PAIRS[:, 1], "d2": SQUARED})
    frame = dd.from_pandas(table, npartitions=3)
    X = np.random.default_rng(0).standard_normal((N, 3))
    here = Distances(PAIRS, SQUARED, weights=WEIGHTS)
    there = DaskDistances(frame, "d2", weights="w", ends=("i", "j"))
    assert there.value(X) == pytest.approx(here.value(X), rel=1e-13)
    also = Distances(frame[["i", "j", "d2"]], frame["d2"], weights=frame["w"])
    assert also.value(X) == pytest.approx(here.value(X), rel=1e-13)
    with pytest.raises(ValueError, match="no column 'd3'; it has"):
        DaskDistances(frame, "d3")


def test_empty_chunks_do_no_harm():
    frame = da.concatenate([da.from_array(PAIRS, chunks=(900, 2)), da.zeros((0, 2), dtype=int)])
    values = da.concatenate([da.from_array(SQUARED, chunks=900), da.zeros(0)])
    X = np.random.default_rng(0).standard_normal((N, 3))
    assert Distances(frame, values).value(X) == pytest.approx(Distances(PAIRS, SQUARED).value(X), rel=1e-13)


def test_faulty_chunks_are_named():
    size = 500
    bad = SQUARED.copy()
    bad[size + 7] = -1.0
    with pytest.raises(ValueError, match=r"chunk 1: squared\[7\] = -1.0 is negative"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), bad)
    again = np.vstack([PAIRS, PAIRS[:50, ::-1]])
    with pytest.raises(ValueError, match="stands in more than one chunk"):
        Distances(da.from_array(again, chunks=(size, 2)), np.concatenate([SQUARED, SQUARED[:50]]))
    with pytest.raises(ValueError, match="outside the 10 points"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), SQUARED, n_points=10)
    with pytest.raises(ValueError, match=r"shape \(m, 2\)"):
        Distances(da.ones((4, 3)), SQUARED)
    with pytest.raises(ValueError, match="one number for each pair"):
        Distances(da.from_array(PAIRS, chunks=(size, 2)), SQUARED[:-1])


# -- estimators -----------------------------------------------------------------------------------------------------------


def test_symnmf_of_a_graph_in_blocks(client):
    there, here = (SymNMF(4, random_state=0).fit(A) for A in (in_blocks(M, 4), M))
    assert there.objective_ == pytest.approx(here.objective_, rel=1e-9)
    assert np.array_equal(there.labels_, here.labels_)
    assert there.n_features_in_ == 400
    there.plot_similarity()
    with pytest.raises(TypeError, match="weights are for matrices in memory"):
        SymNMF(4).fit(in_blocks(M, 4), weights=M)


def test_symnmf_of_features_in_blocks(client):
    X = np.random.default_rng(0).standard_normal((90, 3)) + 6 * np.eye(3)[np.arange(90) % 3]
    there, here = (
        SymNMF(3, affinity="self_tuning", random_state=0).fit(A) for A in (da.from_array(X, chunks=(25, 3)), X)
    )
    assert np.array_equal(there.labels_, here.labels_)


def test_distance_completion_of_chunks(client):
    from quartic import DistanceCompletion

    points = helix(400, random_state=0)
    pairs = random_pairs(400, 0.4, random_state=0)  # 160 a point: thinned to begin with
    d = pair_distances(points, pairs)
    size = 7000
    model = DistanceCompletion(3, random_state=0, align_to=points)
    model.fit_pairs(da.from_array(pairs, chunks=(size, 2)), da.from_array(d, chunks=size))
    assert "minimised over all" in model.start_
    assert model.rmse_ < 1e-7
    assert model.determined_.all()
    assert np.abs(model.embedding_ - points).max() < 1e-6
    known = {k: points[k] for k in range(5)}
    held = DistanceCompletion(3, random_state=0)
    held.fit_pairs(da.from_array(pairs, chunks=(size, 2)), da.from_array(d, chunks=size), anchors=known)
    assert np.abs(held.embedding_ - points).max() < 1e-6
    with pytest.raises(TypeError, match="bounds and refine are for pairs in memory"):
        DistanceCompletion(3).fit_pairs(da.from_array(pairs, chunks=(size, 2)), d, lower=d)
