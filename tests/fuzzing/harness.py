"""Give every reader thousands of spoiled files: each is read, or refused by an error of ours, soon and in memory.

``python tests/fuzzing/harness.py --count 10000 --json fuzz.json`` runs all formats, each in a process of its own.
"""

import argparse
import contextlib
import json
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzzing.mutations import spoil
from fuzzing.seeds import formats
from quartic.io import arrays, tables

SECONDS = 10  # that one file may take
MEMORY = 3 * 2**30  # that a process may have in address space beyond what it has at the start


class TooSlow(BaseException):
    pass


class Child:
    """The process that reads files by SciPy, kept from file to file; one that died is replaced at the next file."""

    def __init__(self):
        self.process = None

    def ask(self, seconds, **request):
        if self.process is None or self.process.poll() is not None:
            script = Path(arrays.__file__).with_name("scipy_child.py")
            command = [sys.executable, "-P", str(script), str(arrays.child_memory())]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, **pipes)
        watchdog = threading.Timer(min(seconds, SECONDS - 3), self.process.kill)
        watchdog.start()
        answer = ""
        try:
            self.process.stdin.write(f"{json.dumps(request)}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            pass
        finally:  # also where time is up, after which the answer would be taken for that of the next request
            watchdog.cancel()
            if not answer:
                self.close()
        return json.loads(answer) if answer else {"message": "SciPy crashed on it, or took far too long"}

    def close(self):
        if self.process is not None:
            self.process.kill()
            with contextlib.suppress(BrokenPipeError):  # what it did not read any more
                self.process.communicate()
            self.process = None


@dataclass
class Outcome:
    """What became of the files of one format."""

    format: str
    tried: int = 0
    read: int = 0
    refused: int = 0
    slowest: float = 0.0
    peak_mib: float = 0.0
    faults: list = field(default_factory=list)
    errors: Counter = field(default_factory=Counter)


def fault_in(error, path):
    """Return what is wrong with an error, or None: it must be ours, and name the file."""
    if not isinstance(error, ValueError | TypeError | OSError) or isinstance(error, UnicodeError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, Warning) or path.name not in str(error) or len(str(error)) > 8000:
        return f"{type(error).__name__} without the file's name, or too long: {str(error)[:300]}"
    return None


def fuzz(name, count, seed, folder):
    """Read ``count`` spoiled files of a format; those that SciPy reads, by one process while it lives."""
    child = Child()
    arrays.ask_child, asked = child.ask, arrays.ask_child
    try:
        return _fuzz(name, count, seed, folder)
    finally:
        child.close()
        arrays.ask_child = asked


def _fuzz(name, count, seed, folder):
    suffix, contents, readers = formats(folder)[name]
    outcome = Outcome(name)
    path = folder / f"spoiled{suffix}"
    for content in contents:  # the sound ones are read, by one reader at least
        path.write_bytes(content)
        assert any(_outcome(reader, path)[0] is None for reader in readers), name
    for k in range(count):
        rng = np.random.default_rng([seed, k, *name.encode()])
        content = spoil(contents[int(rng.integers(len(contents)))], name, contents, rng)
        path.write_bytes(content)
        reader = readers[int(rng.integers(len(readers)))]
        tables._SHORT = 0 if k % 2 else len(content)  # by pyarrow, or row by row
        started = time.perf_counter()
        error, trace = _outcome(reader, path)
        outcome.slowest = max(outcome.slowest, time.perf_counter() - started)
        outcome.tried += 1
        if error is None:
            outcome.read += 1
            continue
        outcome.refused += 1
        outcome.errors[type(error).__name__] += 1
        fault = fault_in(error, path)
        if fault is not None:
            outcome.faults.append(
                {"number": k, "reader": reader.__name__, "fault": fault[:500], "trace": trace[-1500:]}
            )
    outcome.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return outcome


def _outcome(reader, path):
    def too_slow(number, frame):
        raise TooSlow(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _check(reader(path))
    except (Exception, TooSlow) as error:
        return error, traceback.format_exc()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None, ""


def _check(found):
    """Whatever was read must be sound: finite numbers, indices in range, a name for each."""
    for name in ("adjacency", "X"):
        matrix = getattr(found, name, None)
        if matrix is not None:
            values = matrix.data if hasattr(matrix, "indptr") else np.asarray(matrix)
            assert np.isfinite(values).all(), "not finite"
    if hasattr(found, "adjacency"):
        found.adjacency.check_format(full_check=True)
        assert found.adjacency.shape == (len(found.names),) * 2
    if hasattr(found, "block"):
        assert (found.block.shape, found.block.dtype) == (found.shape, found.dtype)
        if hasattr(found.block, "indptr"):
            found.block.check_format(full_check=True)
        with np.errstate(all="ignore"):  # numbers are not looked at, but all of them must be there
            # not column by column: how wide a block may be is only known beside the others
            np.sum(found.block.data if hasattr(found.block, "indptr") else found.block)
    if hasattr(found, "pairs"):
        assert found.pairs.min() >= 0
        assert found.pairs.max() < found.n_points
    if hasattr(found, "coordinates"):
        assert np.isfinite(found.coordinates).all()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", help="one format only, in this process")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.format:
            _limit_memory()
            print(json.dumps(vars(fuzz(given.format, given.count, given.seed, Path(folder)))))
            return
        names = list(formats(Path(folder)))
    told = []
    for name in names:
        command = [sys.executable, "-X", "faulthandler", __file__, "--format", name, "--count", str(given.count)]
        done = subprocess.run([*command, "--seed", str(given.seed)], capture_output=True, text=True)
        if done.returncode:
            told.append({"format": name, "tried": 0, "faults": [{"fault": f"died: {done.stderr[-2000:]}"}]})
        else:
            told.append(json.loads(done.stdout))
        row = told[-1]
        print(f"{name:12} {row['tried']:7} tried, {row.get('read', 0):6} read, {row.get('refused', 0):6} refused, "
              f"{len(row['faults'])} faults, slowest {row.get('slowest', 0):.2f} s", flush=True)  # fmt: skip
        for fault in row["faults"][:3]:
            print("   ", fault.get("number"), fault.get("reader"), fault["fault"][:300])
    if given.json:
        given.json.write_text(json.dumps(told, indent=1))
    sys.exit(any(row["faults"] for row in told))


def _limit_memory():
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


if __name__ == "__main__":
    main()
