"""How X gets to the workers: through memory they share with the client on one machine, over the network otherwise."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Arrays of fewer bytes go along with the tasks.
_SMALL = 1 << 16
# Files here are memory, on Linux.
_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Shared:
    """An array in memory that all processes of a machine can map."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> Any:
        """Return the array; a change of it would stay with whoever makes it."""
        return np.asarray(np.memmap(self.path, dtype=self.dtype, mode="c", shape=self.shape))


def opened(value: Any) -> Any:
    """Return what was sent."""
    return value.open() if isinstance(value, Shared) else value


class Exchange:
    """Sends arrays to all workers of a client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.folder: str | None = None
        if self.loopback and os.path.isdir(_MEMORY):
            _sweep()
            folder = tempfile.mkdtemp(prefix=f"quartic-{os.getpid()}-", dir=_MEMORY)
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            if all(client.run(os.path.isdir, folder).values()):  # else they are in containers of their own
                self.folder = folder

    @property
    def loopback(self) -> bool:
        """Whether scheduler and workers are on this machine, as far as their addresses say."""
        workers = self.client.scheduler_info()["workers"]
        return all("://127.0.0.1:" in address for address in (self.client.scheduler.address, *workers))

    @property
    def direct(self) -> bool:
        """Whether to talk to workers rather than through the scheduler; elsewhere a client may not reach them."""
        return bool(self.client.direct_to_workers) or "://127.0.0.1:" in self.client.scheduler.address

    @contextmanager
    def sent(self, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Provide handles of the arrays among the values; what they stand for is gone afterwards."""
        made: list[Path] = []
        try:
            yield tuple(self._send(value, made) for value in values)
        finally:
            for path in made:
                path.unlink(missing_ok=True)

    def _send(self, value: Any, made: list[Path]) -> Any:
        if not isinstance(value, np.ndarray) or value.nbytes < _SMALL:
            return value
        if self.folder is not None and shutil.disk_usage(self.folder).free > 2 * value.nbytes:
            handle, path = tempfile.mkstemp(dir=self.folder)
            made.append(Path(path))
            with os.fdopen(handle, "wb") as file:
                np.ascontiguousarray(value).tofile(file)
            return Shared(path, value.shape, value.dtype.str)
        return self.client.scatter(value, broadcast=True, direct=self.direct, hash=False)

    def give_up_sharing(self) -> bool:
        """Send over the network from now on; False where that is done already."""
        shared, self.folder = self.folder is not None, None
        return shared


def _sweep() -> None:
    """Remove what clients left that were killed in the middle of a pass."""
    for folder in Path(_MEMORY).glob("quartic-*-*"):
        number = folder.name.split("-")[1]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(folder, ignore_errors=True)
