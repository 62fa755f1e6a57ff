"""Checkpoints: runs that are killed lose nothing; files that are cut, foreign, old or hostile are refused and kept."""

import errno
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quartic import Problem, minimize
from quartic.core import checkpoint, loop, stopping
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS

SCRIPT = Path(__file__).parent / "faults" / "killed_runs.py"


def killed(folder, kills, *names):
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, str(kills), "0", *names], capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(told, kills):
    for row in told:
        assert row["same"], row  # X, history, status, iterations: as if nothing had happened
        assert row["kills"] == kills
        assert row["left"] == []  # what was half written is swept up


def test_killed_runs_end_where_others_do(tmp_path):
    check(killed(tmp_path, 5, "inertial", "lm"), 5)


@pytest.mark.slow
def test_runs_killed_fifty_times_end_where_others_do(tmp_path):
    told = killed(tmp_path, 50, *SOLVERS)
    check(told, 50)
    assert sum(row["within a write"] for row in told) > 50  # the kills did meet half-written files


# -- files that are not what they should be ---------------------------------------------------------------------------

M = np.kron(np.eye(3), np.ones((4, 4))) + 0.1
PROBLEM = Problem(LeastSquares(M), Nonnegative())
OPTIONS = {"rank": 3, "random_state": 0, "tol": 1e-10}


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "run.npz"
    minimize(PROBLEM, max_iter=5, checkpoint=path, **OPTIONS)
    return path


def refused(path, words):
    """The file is refused by name, and left as it is; nothing else is left beside it."""
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words) as caught:
        minimize(PROBLEM, checkpoint=path, **OPTIONS)
    assert str(path) in str(caught.value)
    assert "the file was left as it is" in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_cut_short_anywhere(kept):
    whole = kept.read_bytes()
    for length in [*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1]:
        kept.write_bytes(whole[:length])
        refused(kept, "is not a whole quartic checkpoint")


def test_one_byte_changed_anywhere(kept):
    """Refused, or of no consequence: a changed byte never changes the run."""
    whole, expected = kept.read_bytes(), minimize(PROBLEM, max_iter=9, **OPTIONS).X
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(300):
        at = int(rng.integers(len(whole)))
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        kept.write_bytes(changed)
        try:
            found = minimize(PROBLEM, max_iter=9, checkpoint=kept, **OPTIONS).X
        except ValueError as error:
            assert str(kept) in str(error)  # noqa: PT017  # either outcome is right
            assert kept.read_bytes() == bytes(changed)
            n_refused += 1
        else:
            np.testing.assert_array_equal(found, expected)
    assert n_refused > 200


def rewritten(path, **changes):
    """Write the checkpoint with other arrays; None takes one out."""
    with np.load(path) as stored:
        arrays = dict(stored)
    arrays.update(changes)
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def header_of(path):
    with np.load(path) as stored:
        return json.loads(str(stored["header"]))


def test_older_and_newer_formats(kept):
    for written in ("quartic checkpoint 1", "quartic checkpoint 4"):
        rewritten(kept, header=np.array(json.dumps(header_of(kept) | {"format": written})))
        refused(kept, f"holds {written!r}, this version reads 'quartic checkpoint 3'")


def test_nothing_is_half_read(kept):
    """A zip file that is sound, but lacks a part, or holds one of another shape or kind."""
    whole = kept.read_bytes()
    with np.load(kept) as stored:
        names = [name for name in stored.files if name != "header"]
    for name in names:
        kept.write_bytes(whole)
        rewritten(kept, **{name: None})
        refused(kept, "is not a whole quartic checkpoint")
    for changes in (
        {"history": np.zeros(3)},
        {"history": np.array("text")},
        {"state.point.point.X": np.zeros((12, 2))},
        {"state.point.point.X": np.array("text")},
        {"best.point.X": np.zeros((2, 3))},
        {"state.unheard": np.zeros(1)},
        {"header": np.array("{}")},
        {"header": np.array("[1]")},
        {"header": np.array(json.dumps(header_of(kept) | {"numbers": {}}))},
        {"header": np.array(json.dumps(header_of(kept) | {"numbers": {"time": "soon"}}))},
        {"header": np.array(json.dumps(header_of(kept) | {"run": 3}))},
        {"header": None},
    ):
        kept.write_bytes(whole)
        rewritten(kept, **changes)
        refused(kept, "is not a whole quartic checkpoint")


def test_foreign_and_hostile_files(kept):
    for content in (b"", b"hello", b"PK\x03\x04", b"\x93NUMPY", b"\x80\x04cos\nsystem\n(S'touch x'\ntR."):
        kept.write_bytes(content)
        refused(kept, "is not a whole quartic checkpoint")
    with kept.open("wb") as file:  # an array of Python objects would be unpickled
        np.savez(file, header=np.array([{"a": 1}], dtype=object))
    refused(kept, "Python objects, which are not read")
    # a header that asks for more memory than there is
    claim = io.BytesIO()
    np.lib.format.write_array_header_1_0(claim, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("header.npy", claim.getvalue())
    refused(kept, "cut short")
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../header.npy", claim.getvalue())
    refused(kept, "leads out of the archive")


def test_strays_of_the_living_are_left(kept):
    """Another process may be writing just now."""
    mine = kept.with_name(f".{kept.name}.{os.getpid()}.abc.tmp")
    other = kept.with_name(".other.npz.1.abc.tmp")
    dead = kept.with_name(f".{kept.name}.{2**22 + 1}.abc.tmp")  # above the largest number a process can have
    for stray in (mine, other, dead):
        stray.write_bytes(b"half")
    checkpoint.sweep(kept)
    assert mine.exists()
    assert other.exists()
    assert not dead.exists()


# -- a checkpoint that cannot be written ------------------------------------------------------------------------------


def test_a_full_disk_costs_the_checkpoint_not_the_result(tmp_path, monkeypatch):
    def full(path, *kept):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(loop, "_CHECKPOINT_EVERY", 0.0)
    monkeypatch.setattr(checkpoint, "save", full)
    whole = minimize(PROBLEM, **OPTIONS)
    with pytest.warns(RuntimeWarning, match=r"could not be written .*No space left.*; the run goes on without"):
        result = minimize(PROBLEM, checkpoint=tmp_path / "run.npz", **OPTIONS)
    np.testing.assert_array_equal(result.X, whole.X)
    assert result.success


def test_patience_goes_on_where_it_was(tmp_path, monkeypatch):
    """How long a run has not gained is part of its state: a run that goes on stalls in the same iteration."""
    monkeypatch.setattr(stopping, "_PATIENCE", 10)
    A = np.random.default_rng(0).random((30, 30))
    problem = Problem(LeastSquares(A + A.T), Nonnegative())
    options = {"rank": 3, "solver": "hals", "tol": 0.0, "random_state": 0, "max_iter": 10_000}
    whole = minimize(problem, **options)
    assert whole.status == "stalled" or whole.success
    path = tmp_path / "run.npz"
    for stop in range(whole.n_iter - 8, whole.n_iter, 3):
        minimize(problem, checkpoint=path, **(options | {"max_iter": stop}))
    again = minimize(problem, checkpoint=path, **options)
    assert (again.n_iter, again.status) == (whole.n_iter, whole.status)
    np.testing.assert_array_equal(again.X, whole.X)
