"""A lock between processes, which the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock named by a file; wait for whoever holds it.

    Where the system has no such locks (Windows), nothing is locked: one process at a time, there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.bench.lock import locked
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "lock"):
    ...     pass
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file lets go
