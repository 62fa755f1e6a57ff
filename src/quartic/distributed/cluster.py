"""Blocks on a Dask cluster: kept by its workers or read anew by them, and never lost with a worker.

Two things can be lost when a worker dies. A block has a recipe, and Dask runs it again elsewhere. What was sent along
(X) has none: then the pass is made again, and X is sent again. Nothing outlives a pass but the blocks, so that the
scheduler's memory of what was made from what does not grow with the iterations.
"""

from __future__ import annotations

import math
import os
import pickle
import shutil
import sys
import tempfile
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from quartic._version import __version__
from quartic.distributed.blocks import SHARE, Blocks, Keep, Shared, add, apply, make, pack

INSTALL = 'pip install "quartic[distributed]"'
# A pass is tried this often before the cluster is given up, and this many seconds are given to workers to come back.
_ATTEMPTS, _PATIENCE = 5, 60
# A worker's limit must leave room for X and results beside the largest block.
_ROOM = 0.8
# What a worker takes before it holds anything: Python, SciPy, compiled code.
_BARE = 250 << 20
# Arrays of fewer bytes go along with the tasks.
_SMALL = 1 << 16
# Files here are memory, on Linux.
_MEMORY = "/dev/shm"


def connect(scheduler: str, timeout: float = 10.0) -> Any:
    """Return a client of the Dask scheduler at an address, after a check of its workers.

    Parameters
    ----------
    scheduler : str
        Such as ``tcp://10.0.0.1:8786``.
    timeout : float, default=10
        Seconds to wait for it.

    Returns
    -------
    distributed.Client

    Raises
    ------
    ConnectionError
        If no scheduler answers, or no worker has joined.
    ModuleNotFoundError
        If a worker lacks quartic, or has another version of it.

    Examples
    --------
    >>> from quartic.distributed import connect
    >>> connect("tcp://127.0.0.1:1", timeout=0.2)                                # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    ConnectionError: no Dask scheduler answers at tcp://127.0.0.1:1
    """
    try:
        from distributed import Client
    except ImportError as missing:
        raise ImportError(f"a Dask cluster needs dask.distributed: {INSTALL}") from missing
    try:
        client = Client(scheduler, timeout=timeout)
    except (OSError, ValueError) as fault:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler} within {timeout:g} s; is it running, and is the address "
            "reachable from here?"
        ) from fault
    try:
        check_workers(client)
    except BaseException:
        client.close()
        raise
    return client


def current_client() -> Any | None:
    """Return the client the user has made, None where there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def check_workers(client: Any) -> None:
    """Raise one clear error if the cluster cannot be used: gone, empty, or without this package."""
    if client.status != "running":
        raise ConnectionError(
            f"the Dask client is {client.status}: its scheduler does not answer; make a new Client, and with "
            "checkpoint= the run goes on where it was"
        )
    if not client.scheduler_info()["workers"]:
        raise ConnectionError(f"the scheduler at {client.scheduler.address} has no workers; start some and try again")
    # Evaluated there as text: a function of this package could not even be unpickled where the package is missing.
    found = client.run(eval, "__import__('quartic')._version.__version__", on_error="return")
    for worker, version in found.items():
        if isinstance(version, ModuleNotFoundError):
            raise ModuleNotFoundError(
                f"the worker at {worker} has no module {version.name!r}: install quartic {__version__} where the "
                f"workers run ({INSTALL})"
            )
        if version != __version__:
            said = repr(version) if isinstance(version, BaseException) else f"quartic {version}"
            raise ModuleNotFoundError(
                f"the worker at {worker} answers {said}, but this is quartic {__version__}; install the same version "
                "where the workers run"
            )


class ClusterBlocks(Blocks):
    """Blocks worked on by the workers of a cluster."""

    who = "workers"

    def __init__(
        self, recipes: Sequence[Any], prepare: Callable[[Any, int], Any], inspect: Callable[[Any], Any], client: Any,
        keep: Keep,
    ) -> None:  # fmt: skip
        self.client, self.exchange = client, Exchange(client)
        self._packed: dict[int, bytes] = {}
        self._futures: list[Any] = []
        super().__init__(recipes, prepare, inspect, keep)

    def _limits(self) -> tuple[float, float]:
        limits = [worker["memory_limit"] for worker in self.client.scheduler_info()["workers"].values()]
        if not (limits and all(limits)):
            return math.inf, math.inf
        return SHARE * sum(max(limit - _BARE, 0) for limit in limits), _ROOM * min(limits)

    def _hold(self) -> None:
        from dask import delayed

        prepare = delayed(self.prepare, pure=False)
        with _recipes_may_be_large():
            self._futures = [self.client.compute(prepare(recipe, k)) for k, recipe in enumerate(self.recipes)]
        self.kept = True
        self._packed.clear()

    # -- passes -----------------------------------------------------------------------------------------------------

    def map(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the function of each block, in their order."""
        return iter(self._tried(lambda sent: self._gathered(self._all(function, sent)), shared))

    def sum(self, function: Callable[..., tuple[Any, ...]], *shared: Any) -> tuple[Any, ...]:
        """Return the sum over all blocks, made by the workers."""

        def run(sent: tuple[Any, ...]) -> tuple[Any, ...]:
            level = self._all(function, sent)
            while len(level) > 1:
                pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
                level = [pair[0] if len(pair) == 1 else self._submit("sum", add, *pair) for pair in pairs]
            total: tuple[Any, ...] = self._gathered(level)[0]
            return total

        total: tuple[Any, ...] = self._tried(run, shared)
        return total

    def _all(self, function: Callable[..., Any], sent: tuple[Any, ...]) -> list[Any]:
        return [self._of(k, function, sent) for k in range(len(self))]

    def _of(self, k: int, function: Callable[..., Any], sent: tuple[Any, ...]) -> Any:
        """Submit work on a block; reading and working on one that is not kept is one task: then it is gone with it."""
        name = function.__name__.strip("_")
        if self.kept:
            return self._submit(name, apply, function, self._futures[k], *sent)
        if k not in self._packed:
            self._packed[k] = pack(self.recipes[k])
        with _recipes_may_be_large():
            return self._submit(name, _read_and_apply, self._packed[k], self.prepare, k, function, *sent)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, key=f"quartic-{name}-{uuid.uuid4().hex}", pure=False)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        results: list[Any] = self.client.gather(futures, direct=self.exchange.direct)
        return results

    def _tried(self, run: Callable[[tuple[Any, ...]], Any], shared: tuple[Any, ...]) -> Any:
        """Return ``run`` of what was sent; where a worker took something with it, send and run again."""
        from asyncio import CancelledError

        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        fault: BaseException | None = None
        for _ in range(_ATTEMPTS):
            try:
                with self.exchange.sent(shared) as sent:
                    return run(sent)
            except FileNotFoundError as absent:  # a worker that joined from another machine
                if self.exchange.folder is None or not str(absent.filename).startswith(self.exchange.folder):
                    raise
                self.exchange.folder = None
            except KilledWorker as killed:
                raise MemoryError(
                    f"a block has brought down its workers again and again ({killed}); it probably needs more memory "
                    "than they have: cut the rows into smaller blocks"
                ) from killed
            except (FutureCancelledError, CancelledError, CommClosedError, TimeoutError, ConnectionError) as lost:
                fault = lost
                self._wait_for_workers()
        raise ConnectionError(
            f"the cluster lost its workers {_ATTEMPTS} times in one pass over the data, last with {fault!r}; look at "
            "the workers' logs, and with checkpoint= the run goes on where it was"
        ) from fault

    def _wait_for_workers(self) -> None:
        from asyncio import CancelledError

        if self.client.status == "running":
            try:
                self.client.wait_for_workers(1, timeout=_PATIENCE)
                return
            except (TimeoutError, OSError, CancelledError):
                pass
        raise ConnectionError(
            f"the Dask cluster at {self.client.scheduler.address} no longer answers, or has no workers; with "
            "checkpoint= the run goes on where it was once there is one again"
        )


@contextmanager
def _recipes_may_be_large() -> Iterator[None]:
    """Keep Dask from warning that tasks are large: of a matrix in memory the recipe is the data, there is no other."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        yield


def _read_and_apply(
    packed: bytes, prepare: Callable[[Any, int], Any], k: int, function: Callable[..., Any], *sent: Any
) -> Any:
    return apply(function, prepare(make(pickle.loads(packed)), k), *sent)


class Exchange:
    """Sends arrays to all workers of a client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.folder: str | None = None
        addresses = client.scheduler.address, *client.scheduler_info()["workers"]
        if all("://127.0.0.1:" in address for address in addresses) and os.path.isdir(_MEMORY):
            _sweep()
            folder = tempfile.mkdtemp(prefix=f"quartic-{os.getpid()}-", dir=_MEMORY)
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            if all(client.run(os.path.isdir, folder).values()):  # else they are in containers of their own
                self.folder = folder

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


def _sweep() -> None:
    """Remove what clients left that were killed in the middle of a pass."""
    for folder in Path(_MEMORY).glob("quartic-*-*"):
        number = folder.name.split("-")[1]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(folder, ignore_errors=True)
