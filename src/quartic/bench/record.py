"""Where and with what something was measured: machine, versions, threads, date, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "networkx", "pymanopt")

Record = dict[str, str]


def describe_machine(threads: dict[str, int] | None = None) -> Record:
    """Return machine, versions, threads, date and commit, each in words.

    Parameters
    ----------
    threads : dict, optional
        What `fixed_threads` yields.

    Examples
    --------
    >>> from quartic.bench import describe_machine
    >>> record = describe_machine({"numba": 1})
    >>> record["threads"]
    'numba 1'
    """
    import quartic

    versions = [f"Python {platform.python_version()}", f"quartic {quartic.__version__}"]
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} not installed")
    beside = os.environ.get("QUARTIC_PROCESSES")  # told by whoever shares a run out
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory()}, {platform.system()}"
        + (f"; {beside} processes measured at the same time, each on a core of its own" if beside else ""),
        "versions": ", ".join(versions),
        "threads": ", ".join(f"{name} {count}" for name, count in (threads or {}).items()) or "not fixed",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return "memory unknown"
    return f"{size / 2**30:.0f} GiB"


def _commit() -> str:
    """Return the commit the package's source is at, with a plus where it was changed since; or that there is none.

    A copy of the source without its repository may be told by the variable QUARTIC_COMMIT.
    """
    import quartic

    if told := os.environ.get("QUARTIC_COMMIT"):
        return told

    folder = Path(quartic.__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()

    try:
        # A package installed inside someone else's repository is not of that repository's commit.
        if not git("ls-files", "__init__.py"):
            return "installed package"
        return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return "installed package"
