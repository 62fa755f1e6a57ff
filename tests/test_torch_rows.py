"""Rows of a matrix divided among processes: the same answers as in one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blocks_problem import X0, M
from quartic import Problem, minimize
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

torch = pytest.importorskip("torch", reason="torch is not installed; `make test-torch` installs it and runs these")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    program = [str(Path(__file__).with_name("torch_rows_program.py")), str(folder)]
    done = subprocess.run([*command, *program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return [np.load(folder / f"{rank}.npz") for rank in range(2)]


@pytest.mark.parametrize("dense", [False, True])
def test_the_same_run_as_in_one_process(found, dense):
    from quartic.init import spectral_start
    from quartic.losses.devices import moved

    one = LeastSquares(moved(M.toarray() if dense else M, "cpu"))
    problem = Problem(one, Nonnegative())
    for solver in ("inertial", "lbfgs", "hals"):
        X = minimize(problem, torch.from_numpy(X0), solver=solver, tol=0.0, max_iter=20).X.numpy()
        np.testing.assert_allclose(found[0][f"{solver} {dense}"], X, atol=1e-10)
    X = minimize(problem, spectral_start, rank=4, random_state=0).X.numpy()
    np.testing.assert_allclose(found[0][f"spectral {dense}"], X, atol=1e-6)
    facts = [one.matrix.squared_norm, one.matrix.total()[0], one.matrix.checksum()]
    np.testing.assert_allclose(found[0][f"facts {dense}"], facts, rtol=1e-12)


def test_all_processes_have_the_same(found):
    assert set(found[0]) == set(found[1])
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_faults_are_told_by_all(found):
    for part in found:
        for dense in (False, True):
            assert "M must be symmetric, but M[" in str(part[f"bad {dense}"])
            assert "20, 300" in str(part[f"bad {dense}"])
        assert "process 1: rows must be finite, but rows[249, " in str(part["infinite False"])
        assert "the processes have different X" in str(part["seeds"])


def test_without_a_group():
    from quartic.losses.blocks.torch_rows import RowBlocks

    with pytest.raises(RuntimeError, match="start them with torchrun"):
        RowBlocks(torch.eye(3))
