"""Workers and clients that die, and data that cannot be used: the run goes on, or one clear error says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from blocks_problem import QUIET, M, run, symmetric_graph
from quartic import Problem, minimize
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative

dask = pytest.importorskip("dask", reason='needs pip install "quartic[distributed]"')
distributed = pytest.importorskip("distributed", reason='needs pip install "quartic[distributed]"')

import dask.array as da  # noqa: E402

from quartic.distributed import connect, in_blocks  # noqa: E402
from quartic.distributed.blocks import pack  # noqa: E402
from quartic.distributed.inputs import row_recipes  # noqa: E402

# -- what dies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_a_worker_killed_in_mid_run_changes_nothing(keep):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **QUIET) as cluster, distributed.Client(cluster):
        whole = run(LeastSquares(DaskMatrix(in_blocks(M, 5), keep=keep)), tol=0, max_iter=12)
        killed = []

        def kill(progress):
            if progress.n_iter == 4:
                killed.append(min(distributed.default_client().run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        again = run(LeastSquares(DaskMatrix(in_blocks(M, 5), keep=keep)), tol=0, max_iter=12, callback=kill)
    assert killed
    assert again.n_iter == 12
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
import quartic.core.loop
from quartic import Problem, minimize
from quartic.distributed import connect, in_blocks
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative
from blocks_problem import M, X0
quartic.core.loop._CHECKPOINT_EVERY = 0.2
address, path, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
with connect(address):
    def tell(progress):
        print(progress.n_iter, flush=True)
        time.sleep(pause)
    result = minimize(
        Problem(LeastSquares(in_blocks(M, 4)), Nonnegative()), X0, tol=0, max_iter=30, checkpoint=path, callback=tell
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
    assert went_on_at > 1
    assert went_on_at >= seen[-1] - 3
    with distributed.Client(cluster):
        whole = run(LeastSquares(in_blocks(M, 4)), tol=0, max_iter=30)
    assert np.array_equal(np.load(f"{path}.npy"), whole.X)


# -- errors ---------------------------------------------------------------------------------------------------------


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
        (
            "raise ModuleNotFoundError(\"No module named 'quartic'\", name='quartic')",
            "has no module 'quartic': install",
        ),
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
    with pytest.raises(TypeError, match="weights are for matrices in memory"):
        LeastSquares(in_blocks(M, 3), weights=M)
    with pytest.raises(ValueError, match="smaller blocks"):
        DaskMatrix(in_blocks(M.toarray(), 2), keep=False, memory_limit=1000)


def test_a_memory_limit_is_the_workers_on_a_cluster(client):
    with pytest.raises(ValueError, match="give it to the workers"):
        DaskMatrix(in_blocks(M, 3), memory_limit="1 GB")


def test_blocks_too_large_for_a_worker_are_an_error_before_they_kill_it():
    A = da.ones((2000, 2000), chunks=(1000, 2000))
    with (
        dask.config.set({"distributed.worker.memory.pause": False, "distributed.worker.memory.spill": False}),
        distributed.LocalCluster(n_workers=1, processes=False, memory_limit="18 MB", dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        pytest.raises(ValueError, match="too much for workers with a memory limit"),
    ):
        LeastSquares(A)


def test_what_a_worker_takes_itself_is_no_room_for_blocks():
    """Two fifths of the limit were kept, beside 200 MB of compiled code: small workers were killed for it."""
    quiet = {"distributed.worker.memory.pause": False, "distributed.worker.memory.spill": False}
    local = {"n_workers": 1, "processes": False, "memory_limit": "290 MB", "dashboard_address": ":0"}
    with dask.config.set(quiet), distributed.LocalCluster(**local) as cluster, distributed.Client(cluster):
        assert not DaskMatrix(in_blocks(np.ones((1300, 1300)), 10)).blocks.kept  # 13 MB, where 11 have room
        small = DaskMatrix(da.ones((1000, 1000), chunks=((800, 100, 100), 1000)))
        assert small.blocks.kept  # though three blocks like the first would not be


def test_the_recipe_of_a_block_does_not_carry_the_others():
    """Pieces of a Dask array share one graph: with ten blocks ten copies of the matrix were sent, and kept here."""
    recipes = row_recipes(in_blocks(np.ones((1000, 100)), 10), "M")[0]
    assert len(pack(recipes[3])) < 2 * 80_000


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
