"""The harness: one clock, one file of runs, one loop in which all methods take turns.

Methods are interleaved, in another order for each start, because machines drift: what slows one down meets all alike.
Every run is kept as soon as it ends, so that a loop that was interrupted goes on where it was, and several processes
may share one file, each with cases or starts of its own.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Say = Callable[[str], object]
Run = Callable[[int], Mapping[str, Any] | None]

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "networkx", "pymanopt")


def describe_machine(threads: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return machine, versions, threads, date and commit, each in words."""
    versions = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    processor = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    beside = os.environ.get("QUARTIC_PROCESSES")  # told by whoever shares a run out
    return {
        "machine": f"{processor}, {os.cpu_count()} cores" + (f"; {beside} processes at once, pinned" if beside else ""),
        "versions": ", ".join(versions),
        "threads": ", ".join(f"{name} {count}" for name, count in (threads or {}).items()) or "not fixed",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
    }


def _commit() -> str:
    """Return the commit of the package's source, with a plus where it was changed since; QUARTIC_COMMIT may tell."""
    if told := os.environ.get("QUARTIC_COMMIT"):
        return told

    def git(*words: str) -> str:
        run = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(run, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        # A package installed inside someone else's repository is not of that repository's commit.
        if git("ls-files", "__init__.py"):
            return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", "..") else "")
    return "installed package"


@contextmanager
def one_thread() -> Iterator[dict[str, int]]:
    """Hold BLAS, OpenMP, numba and ourselves to one thread, and yield what each library was found to use."""
    import numba
    import sklearn.cluster  # noqa: F401  # loads its OpenMP, so that the limit reaches it
    from threadpoolctl import threadpool_info, threadpool_limits

    from quartic.arrays.threads import limited_to

    with ExitStack() as stack:
        stack.callback(numba.set_num_threads, numba.get_num_threads())
        numba.set_num_threads(1)
        stack.enter_context(limited_to(1))
        stack.enter_context(threadpool_limits(1))
        found = {f"{pool['internal_api']} ({pool['prefix']})": pool["num_threads"] for pool in threadpool_info()}
        yield {**dict(sorted(found.items())), "numba": 1}


class Watch:
    """Processor seconds since it was made, those within `paused` left out: what other work disturbs least."""

    def __init__(self) -> None:
        self.pause, self.started = 0.0, time.process_time()

    def seconds(self) -> float:
        """Return the seconds so far."""
        return time.process_time() - self.started - self.pause

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what happens within."""
        began = time.process_time()
        try:
            yield
        finally:
            self.pause += time.process_time() - began


class Store:
    """The runs of one section, ``<folder>/<name>.jsonl``: a line of JSON for each run, there whole or not at all.

    Several processes may add to one file: a line is appended by one write. Of a run that is there twice the first
    counts, and a line cut short when the machine stopped is not read. Lines with ``settings`` say under what conditions
    the runs of their ``session`` were made.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self.path = Path(folder) / f"{name}.jsonl"
        self.section = name.partition("-")[0]
        self.sessions: dict[str, Row] = {}
        self._session = ""
        runs: dict[tuple[Any, ...], Row] = {}
        for line in self.path.read_bytes().splitlines() if self.path.is_file() else ():
            with suppress(ValueError):  # part of a JSON object is never one
                found = json.loads(line)
                if "settings" in found:
                    self.sessions[found["session"]] = found
                else:
                    runs.setdefault((found["case"], found["method"], found["seed"]), found)
        self.rows = list(runs.values())

    def open(self, settings: Any, record: Mapping[str, str]) -> Store:
        """Take up what is there, if it was made with the same settings, and note who goes on with it."""
        asked: Row = json.loads(json.dumps(settings))
        for kept in (session["settings"] for session in self.sessions.values() if self.rows):
            if other := sorted(k for k in {*asked, *kept} if asked.get(k) != kept.get(k)):
                was = ", ".join(f"{k} = {kept.get(k)!r}" for k in other)
                cure = "delete it, or name another results folder"
                raise ValueError(f"{self.path} was made with other settings ({was}); {cure}")
        lasting = json.dumps([asked, {name: value for name, value in record.items() if name != "date"}])
        self._session = f"{zlib.crc32(lasting.encode()):08x}"
        if self._session not in self.sessions:
            self.sessions[self._session] = {"session": self._session, "settings": asked, **record}
            self._append(self.sessions[self._session])
        return self

    def find(self, **wanted: Any) -> list[Row]:
        """Return the runs whose columns have these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in wanted.items())]

    def add(self, case: str, method: str, seed: int, measured: Mapping[str, Any]) -> None:
        """Write a run, which is safe on disk when this returns."""
        self.rows.append({"case": case, "method": method, "seed": seed, **measured, "session": self._session})
        self._append(self.rows[-1])

    def _append(self, line: Row) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:  # one write; a line before it that was cut short is ended
            file.write(b"\n" + json.dumps(line, ensure_ascii=False).encode() + b"\n")
            os.fsync(file.fileno())


def take_turns(
    store: Store, case: str, methods: Mapping[str, Run], seeds: Iterable[int], progress: Say, first: Sequence[str] = ()
) -> None:
    """Run every method from every start, and keep what they return; nothing is kept of one that returns None.

    Those in ``first`` go before the others, whose limits may depend on them; the rest are shuffled for each start.
    """
    for seed in seeds:
        others = [name for name in methods if name not in first]
        random.Random(seed).shuffle(others)
        for name in (*first, *others):
            if not store.find(case=case, method=name, seed=seed):
                progress(f"{case}: {name}, start {seed}")
                if (measured := methods[name](seed)) is not None:
                    store.add(case, name, seed, measured)
