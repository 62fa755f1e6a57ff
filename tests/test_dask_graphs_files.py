"""Similarity graphs by blocks, folders of blocks, and the command on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from blocks_problem import M
from command import invoke
from quartic import SymNMF
from quartic.graphs import similarity
from quartic.io import FileFormatError, read_blocks, write_blocks
from quartic.losses import DaskMatrix, LeastSquares

dask = pytest.importorskip("dask", reason='needs pip install "quartic[distributed]"')
distributed = pytest.importorskip("distributed", reason='needs pip install "quartic[distributed]"')

import dask.array as da  # noqa: E402

from quartic.distributed import in_blocks  # noqa: E402
from quartic.io.blocks import _write, read_block  # noqa: E402

# -- graphs ----------------------------------------------------------------------------------------------------------


def _features(kind: str):
    rng = np.random.default_rng(0)
    sparse = sp.random_array((200, 60), density=0.05, rng=rng, format="csr")
    return {
        "dense": lambda: rng.standard_normal((200, 7)),
        "whole numbers, with ties": lambda: rng.integers(0, 4, (200, 5)).astype(float),
        "of a scale whose squares overflow": lambda: 1e160 * rng.standard_normal((100, 5)),
        "rows of many scales": lambda: rng.random((100, 4)) * 10.0 ** rng.uniform(-90, 90, (100, 1)),
        "copies": lambda: np.repeat(rng.standard_normal((25, 3)), 9, axis=0),
        "five points": lambda: rng.standard_normal((5, 3)),
        "sparse": lambda: sparse,
        "sparse counts": lambda: sp.csr_array((np.rint(9 * sparse.data), sparse.indices, sparse.indptr), sparse.shape),
    }[kind]()


def whole(graph) -> sp.csr_array:
    return sp.csr_array(sp.vstack(dask.compute(*graph.to_delayed().ravel()), format="csr"))


@pytest.mark.parametrize("affinity", ["cosine", "self_tuning"])
@pytest.mark.parametrize(
    "kind",
    [
        "dense", "whole numbers, with ties", "of a scale whose squares overflow", "rows of many scales", "copies",
        "five points", "sparse", "sparse counts",
    ],
)  # fmt: skip
def test_a_graph_by_blocks_is_that_of_one_machine_to_the_last_bit(kind, affinity):
    X = _features(kind)
    here, there = similarity(X, affinity), whole(similarity(in_blocks(X, 3), affinity))
    assert np.array_equal(here.indptr, there.indptr)
    assert np.array_equal(here.indices, there.indices)
    assert np.array_equal(here.data, there.data)


def test_a_graph_on_two_workers_is_that_of_one_machine(client):
    X = _features("dense")
    assert (whole(similarity(in_blocks(X, 4), "self_tuning")) != similarity(X, "self_tuning")).nnz == 0
    persisted = in_blocks(X, 4).persist()
    assert (whole(similarity(persisted, "cosine", normalize=False)) != similarity(X, normalize=False)).nnz == 0


def test_features_on_disk_are_read_by_each_task_that_needs_them(tmp_path):
    X = _features("dense")
    folder = write_blocks(tmp_path / "features", X, rows=60)
    assert (whole(similarity(read_blocks(folder), "self_tuning")) != similarity(X, "self_tuning")).nnz == 0


def test_faulty_features_are_named():
    X = _features("dense")
    X[150, 2] = np.nan
    with pytest.raises(ValueError, match=r"begins with row 133: .*X\[17, 2\] is nan"):
        similarity(in_blocks(X, 3))
    with pytest.raises(ValueError, match="rows and columns"):
        similarity(da.ones((3, 0)))


# -- files ----------------------------------------------------------------------------------------------------------


def _root(array):
    while getattr(array, "base", None) is not None:
        array = array.base
    return type(array).__name__


def test_blocks_on_disk_are_mapped_not_read(tmp_path):
    folder = write_blocks(tmp_path / "graph", M, rows=150)
    block = read_block(str(folder / "block-000001.shape.npy"))
    assert {_root(a) for a in (block.data, block.indices, block.indptr)} == {"mmap"}
    assert (block != M[150:300]).nnz == 0
    assert np.array_equal(np.load(folder / "block-000001.data.npy"), M[150:300].data)  # plain files
    assert (whole(read_blocks(folder)) != M).nnz == 0


@pytest.mark.parametrize("compressed", [True, False])
def test_blocks_that_scipy_wrote_are_read(tmp_path, compressed):
    for k, first in enumerate(range(0, 400, 130)):
        sp.save_npz(tmp_path / f"{k}.npz", M[first : first + 130], compressed=compressed)
    assert (whole(read_blocks(tmp_path)) != M).nnz == 0


@pytest.mark.parametrize("source", ["sparse", "dense", "dask", "iterable"])
def test_every_source_of_blocks(tmp_path, source):
    given = {
        "sparse": lambda: M,
        "dense": lambda: M.toarray(),
        "dask": lambda: in_blocks(M, 3),
        "iterable": lambda: (M[k : k + 100] for k in range(0, 400, 100)),
    }[source]()
    stored = read_blocks(write_blocks(tmp_path / "graph", given)).compute(scheduler="synchronous")
    assert abs((stored if sp.issparse(stored) else sp.csr_array(np.asarray(stored))) - M).max() == 0


def test_a_zarr_store_is_a_matrix_too(tmp_path):
    pytest.importorskip("zarr", reason="needs zarr")
    in_blocks(M.toarray(), 4).to_zarr(str(tmp_path / "graph.zarr"))
    stored = da.from_zarr(str(tmp_path / "graph.zarr"))
    assert DaskMatrix(stored, keep=False).squared_norm == pytest.approx(LeastSquares(M).matrix.squared_norm, rel=1e-14)


def test_faulty_folders_are_named(tmp_path):
    with pytest.raises(FileFormatError, match="no such folder"):
        read_blocks(tmp_path / "nowhere")
    with pytest.raises(FileFormatError, match="a folder without blocks"):
        read_blocks(tmp_path)
    result = _cluster(str(tmp_path), "-k", "2")  # an empty folder needs no Dask to be found empty
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "a folder without blocks of a matrix; name a file" in result.stderr
    folder = write_blocks(tmp_path / "graph", M, rows=200)
    with pytest.raises(ValueError, match="holds blocks already"):
        write_blocks(folder, M)
    _write(folder, 2, M[:5, :300])
    with pytest.raises(FileFormatError, match=r"300 columns, but block-000000\.shape\.npy has 400"):
        read_blocks(folder)
    (folder / "block-000002.data.npy").write_bytes((folder / "block-000001.data.npy").read_bytes()[:-500])
    with pytest.raises(FileFormatError, match=r"block-000002\.shape\.npy: not a block of rows \(cut short"):
        read_blocks(folder)
    for file in [*folder.glob("block-000002.*"), *folder.glob("block-000001.*")]:
        file.unlink()
    sp.save_npz(folder / "0.npz", M[:5])
    with pytest.raises(FileFormatError, match="blocks of several kinds"):
        read_blocks(folder)
    (folder / "0.npz").unlink()
    with pytest.raises(ValueError, match="square"):  # rows that are missing
        LeastSquares(read_blocks(folder))


def test_an_index_outside_the_matrix_is_refused_before_it_is_followed(tmp_path):
    A = M.copy()
    folder = write_blocks(tmp_path / "graph", A, rows=200)
    damaged = sp.csr_array(M[200:])
    damaged.indices[3] = 4_000_000
    _write(folder, 1, damaged)
    for use in (LeastSquares, lambda X: similarity(X, "cosine").compute()):
        with pytest.raises(ValueError, match=r"block-000001\.shape\.npy: .*indices must be < 400"):
            use(read_blocks(folder))
    # and of blocks that come from elsewhere
    halves = [da.from_delayed(dask.delayed(B), (200, 400), dtype=float, meta=M[:0]) for B in (M[:200], damaged)]
    with pytest.raises(ValueError, match="begins with row 200 is damaged"):
        LeastSquares(da.concatenate(halves))


def test_blocks_of_other_machines_and_widths(tmp_path):
    for k, dtype in enumerate((">f8", "<f2", np.longdouble, ">i4", bool)):
        np.save(tmp_path / "0.npy", M[:9].toarray().astype(dtype))
        block = read_block(str(tmp_path / "0.npy"))
        assert block.dtype.isnative, k
        assert read_blocks(tmp_path).dtype == block.dtype
        np.testing.assert_array_equal(block, M[:9].toarray().astype(dtype))
    np.save(tmp_path / "0.npy", np.array([[1j]]))
    with pytest.raises(FileFormatError, match=r"0\.npy: .*real numbers, got dtype complex128"):
        read_blocks(tmp_path)


def test_nothing_is_unpickled(tmp_path):
    np.save(tmp_path / "0.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(FileFormatError, match="not a block of rows"):
        read_blocks(tmp_path)


# -- the command ----------------------------------------------------------------------------------------------------


def _cluster(*arguments: str):
    return invoke("cluster", *arguments)


def test_the_command_works_on_a_cluster_and_on_a_folder(cluster, tmp_path):
    sp.save_npz(tmp_path / "graph.npz", M)
    folder = str(write_blocks(tmp_path / "blocks", M, rows=150))
    answers = []
    for name, arguments in (
        ("one machine", [str(tmp_path / "graph.npz")]),
        ("a cluster", [str(tmp_path / "graph.npz"), "--scheduler", cluster.scheduler_address]),
        ("a folder", [folder]),
        (
            "a folder on a cluster",
            [folder, "--scheduler", cluster.scheduler_address, "--report", str(tmp_path / "r.html")],
        ),
    ):
        out = tmp_path / f"{name}.csv"
        result = _cluster(*arguments, "-k", "4", "-o", str(out))
        assert result.exit_code == 0, result.output
        assert ("dashboard: http" in result.stderr) == ("cluster" in name)
        answers.append(np.genfromtxt(out, delimiter=",", names=True)["cluster"])
    assert all(np.array_equal(answers[0], other) for other in answers[1:])
    assert "read_blocks" in (tmp_path / "r.html").read_text()


def test_the_command_starts_workers(tmp_path):
    """In a process of its own: that it leaves none behind is part of it."""
    features = np.random.default_rng(0).standard_normal((60, 2)) + 9 * np.eye(2)[np.arange(60) % 2]
    np.savetxt(tmp_path / "features.csv", features, delimiter=",")
    command = [sys.executable, "-m", "quartic", "cluster", str(tmp_path / "features.csv"), "-k", "2", "--json"]
    ran = subprocess.run([*command, "--workers", "2"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "dashboard: http://127.0.0.1" in ran.stderr
    assert "Dask: 2 workers, 2 threads" in ran.stderr
    assert json.loads(ran.stdout)["sizes"] == [30, 30]


@pytest.mark.slow
def test_ctrl_c_at_a_terminal_leaves_the_workers_alone_and_the_best_result_is_written(tmp_path):
    """A terminal sends it to all processes in front, workers too."""
    sp.save_npz(tmp_path / "graph.npz", M)
    out = tmp_path / "out.csv"
    command = [sys.executable, "-m", "quartic", "cluster", str(tmp_path / "graph.npz"), "-k", "4", "--tol", "0"]
    command += ["--workers", "2", "--max-iter", "1000000", "--solver", "pg", "-o", str(out)]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not run.stderr.readline().startswith("dashboard"):
        pass
    time.sleep(6)  # before it is at round-off
    os.killpg(run.pid, signal.SIGINT)
    said = run.communicate(timeout=120)[1]
    assert run.returncode == 1, said
    assert "interrupted: the best result so far is written" in said
    assert "Traceback" not in said
    assert out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "tcp://127.0.0.1:1"], "no Dask scheduler answers at tcp://127.0.0.1:1"),
        (["--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], "leave one out"),
        (["--workers", "0"], "--workers: 0 is below 1"),
    ],
)
def test_the_command_says_in_one_line_what_is_wrong(monkeypatch, tmp_path, arguments, message):
    import quartic.cli.cluster as workers

    soon = workers.connect
    monkeypatch.setattr(workers, "connect", lambda address: soon(address, timeout=0.3))
    sp.save_npz(tmp_path / "graph.npz", M)
    result = _cluster(str(tmp_path / "graph.npz"), "-k", "2", "-o", str(tmp_path / "out.csv"), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("arguments", [["--workers", "2"], ["--scheduler", "tcp://127.0.0.1:1"]])
def test_without_dask_the_command_says_so_before_it_reads(monkeypatch, arguments):
    import quartic.cli.cluster as workers

    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    result = _cluster("no-such-file.npz", "-k", "2", *arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert f'{arguments[0]} needs dask.distributed: pip install "quartic[distributed]"' in result.stderr


# -- larger than memory ---------------------------------------------------------------------------------------------

LIMIT = 500 * 2**20  # of each of two workers; one with compiled code loaded, and nothing else, takes two fifths of it


@pytest.mark.slow
def test_a_matrix_twice_the_memory_limit_is_factorised_within_it(tmp_path):
    def blocks():
        """Yield rows of a symmetric band matrix: each row meets its 880 neighbours on either side."""
        n, band = 100_000, 880
        offsets = np.arange(-band, band + 1)
        for first in range(0, n, 2000):
            rows = np.repeat(np.arange(first, first + 2000), len(offsets))
            columns = (rows.reshape(2000, -1) + offsets).ravel() % n
            values = 1 / (1 + np.tile(np.abs(offsets), 2000))
            yield sp.csr_array((values, (rows - first, columns)), shape=(2000, n))

    def peak() -> int:
        """Return the most memory a process ever had, mapped files included.

        A function of this module would make workers import all that the tests do, 120 MB.
        """
        with open("/proc/self/status") as status:
            return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])

    folder = write_blocks(tmp_path / "large", blocks())
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size >= 2 * (2 * LIMIT)
    quiet = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=LIMIT, **quiet) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = set(client.run(os.getpid).values())
        matrix = DaskMatrix(read_blocks(folder))
        assert not matrix.blocks.kept
        model = SymNMF(8, init="random", tol=0, max_iter=5, random_state=0)
        with pytest.warns(UserWarning, match="did not converge"):
            model.fit(matrix)
        most = max(client.run(peak).values())
        assert set(client.run(os.getpid).values()) == pids  # none was killed and started again
    print(f"{size / 2**20:.0f} MB of matrix, limit {LIMIT / 2**20:.0f} MB a worker, peak {most / 2**20:.0f} MB")
    assert most <= LIMIT
    assert np.isfinite(model.embedding_).all()
    assert model.result_.history.objective[-1] < model.result_.history.objective[0]
