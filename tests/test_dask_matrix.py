"""A matrix in row blocks: the same answers on two workers, in threads and on one machine."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp

from blocks_problem import X0, M, run
from quartic import Problem, SymNMF, minimize
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative

dask = pytest.importorskip("dask", reason='needs pip install "quartic[distributed]"')
distributed = pytest.importorskip("distributed", reason='needs pip install "quartic[distributed]"')

import dask.array as da  # noqa: E402

from quartic.distributed import in_blocks  # noqa: E402


@pytest.mark.parametrize("solver", ["inertial", "lbfgs", "hals"])
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
    assert np.allclose(matrix.product(X0), M @ X0, rtol=1e-13, atol=0)


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


@pytest.mark.parametrize("power", [-460, 460])
def test_data_of_any_scale_give_the_scaled_answer(power):
    scaled = LeastSquares(in_blocks(sp.csr_array((np.ldexp(M.data, power), M.indices, M.indptr), M.shape), 3))
    there = minimize(Problem(scaled, Nonnegative()), np.ldexp(X0, power // 2), solver="inertial", tol=0, max_iter=5)
    here = run(LeastSquares(M), solver="inertial", tol=0, max_iter=5)
    assert np.abs(np.ldexp(there.X, -power // 2) - here.X).max() <= 1e-10


def test_sums_are_a_tree_over_neighbours():
    from quartic.distributed.blocks import add_all

    assert add_all((k,) for k in range(7)) == (21,)
    assert add_all((f"({k})",) for k in range(3)) == ("(0)(1)(2)",)
