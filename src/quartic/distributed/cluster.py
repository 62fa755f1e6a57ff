"""Blocks on a Dask cluster: kept by its workers or read anew by them, and never lost with a worker.

Two things can be lost when a worker dies. A block has a recipe, and Dask runs it again elsewhere. What was sent along
(X) has none: then the pass is made again, and X is sent again. Nothing outlives a pass but the blocks, so that the
scheduler's memory of what was made from what does not grow with the iterations.
"""

from __future__ import annotations

import warnings
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quartic.distributed.blocks import SHARE, Blocks, Keep, applied, made
from quartic.distributed.exchange import Exchange
from quartic.distributed.sums import add

# A pass is tried this often before the cluster is given up, and this many seconds are given to workers to come back.
_ATTEMPTS, _PATIENCE = 5, 60
# A worker's limit must leave room for X and results beside the largest block.
_ROOM = 0.8


class ClusterBlocks(Blocks):
    """Blocks worked on by the workers of a cluster."""

    def __init__(
        self,
        recipes: Sequence[Any],
        prepare: Callable[[Any, int], Any],
        inspect: Callable[[Any], Any],
        client: Any,
        keep: Keep,
    ) -> None:
        import cloudpickle

        self.client, self._size = client, len(recipes)
        self.exchange = Exchange(client)
        self._recipes = list(recipes)
        self._prepare = prepare
        self._packed = None if keep is True else [cloudpickle.dumps(recipe) for recipe in recipes]
        self._futures: list[Any] = []
        self._read(inspect, keep)
        self.kept = len(self._futures) == self._size

    def __len__(self) -> int:
        return self._size

    # -- reading ----------------------------------------------------------------------------------------------------

    def _read(self, inspect: Callable[[Any], Any], keep: Keep) -> None:
        """Read each block once, no more at a time than there are threads for, and keep them while there is room."""
        limits = [w["memory_limit"] for w in self.client.scheduler_info()["workers"].values()]
        unlimited = not (limits and all(limits))
        room, most = SHARE * sum(limits), _ROOM * min(limits, default=0)
        window = 2 * max(1, sum(self.client.nthreads().values()))
        self.facts, used = [], 0
        keeping = keep is not False
        waiting: deque[Any] = deque()
        for k in range(self._size + window):
            if k < self._size:
                if keeping:
                    self._futures.append(self._keep(k))
                    waiting.append(self._submit("inspect", _inspect, self._futures[k], inspect))
                else:
                    waiting.append(self._on_recipe("inspect", k, _inspect, (inspect,)))
            if k >= window and waiting:
                size, found = self._gathered([waiting.popleft()])[0]
                self.facts.append(found)
                used += size
                if size > most and not unlimited:
                    raise ValueError(
                        f"block {len(self.facts) - 1} takes {size:,} bytes, too much for workers with a memory limit "
                        f"of {min(limits):,}; cut the rows into smaller blocks"
                    )
                if keep == "auto" and keeping and used > room and not unlimited:
                    keeping, self._futures = False, []

    def _keep(self, k: int) -> Any:
        from dask import delayed

        with warnings.catch_warnings():
            # of a matrix in memory the recipe is the data: Dask warns of that, and there is no other way
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return self.client.compute(delayed(self._prepare, pure=False)(self._recipes[k], k))

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

    def one(self, k: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the function of one block."""
        return self._tried(lambda sent: self._gathered([self._of(k, function, sent)])[0], shared)

    def _all(self, function: Callable[..., Any], sent: tuple[Any, ...]) -> list[Any]:
        return [self._of(k, function, sent) for k in range(self._size)]

    def _of(self, k: int, function: Callable[..., Any], sent: tuple[Any, ...]) -> Any:
        name = function.__name__.strip("_")
        if self.kept:
            return self._submit(name, applied, function, self._futures[k], *sent)
        return self._on_recipe(name, k, function, sent)

    def _on_recipe(self, name: str, k: int, function: Callable[..., Any], sent: tuple[Any, ...]) -> Any:
        """Submit reading and working on a block as one task: the block is gone when its task is."""
        assert self._packed is not None
        return self._submit(name, _read_and_apply, self._packed[k], self._prepare, k, function, *sent)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        import uuid

        return self.client.submit(function, *arguments, key=f"quartic-{name}-{uuid.uuid4().hex}", pure=False)

    def _gathered(self, futures: list[Any]) -> list[Any]:
        results: list[Any] = self.client.gather(futures, direct=self.exchange.direct)
        return results

    def _tried(self, run: Callable[[tuple[Any, ...]], Any], shared: tuple[Any, ...]) -> Any:
        """Return ``run`` of what was sent; where a worker took something with it, send and run again."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        fault: BaseException | None = None
        for _ in range(_ATTEMPTS):
            try:
                with self.exchange.sent(shared) as sent:
                    return run(sent)
            except FileNotFoundError as absent:  # a worker that joined from another machine
                if not (str(absent.filename).startswith(str(self.exchange.folder)) and self.exchange.give_up_sharing()):
                    raise
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


def _inspect(block: Any, inspect: Callable[[Any], Any]) -> tuple[int, Any]:
    from quartic.distributed.sizes import n_bytes

    return n_bytes(block), inspect(block)


def _read_and_apply(
    packed: bytes, prepare: Callable[[Any, int], Any], k: int, function: Callable[..., Any], *sent: Any
) -> Any:
    import pickle

    return applied(function, prepare(made(pickle.loads(packed)), k), *sent)
