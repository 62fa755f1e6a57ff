"""Blocks on this machine: a few threads, and no more blocks in memory at once than the limit allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from quartic.distributed.blocks import SHARE, Blocks, Keep, applied, made
from quartic.distributed.sums import PairwiseSum


class LocalBlocks(Blocks):
    """Blocks worked on by threads of this process.

    Blocks are read, and let go, by whichever thread is free; at most as many are in memory as there are threads, and
    fewer where the limit is low.
    """

    def __init__(
        self,
        recipes: Sequence[Any],
        prepare: Callable[[Any, int], Any],
        inspect: Callable[[Any], Any],
        keep: Keep,
        memory_limit: float | str | None,
    ) -> None:
        self.recipes, self.prepare = list(recipes), prepare
        self.limit = _limit(memory_limit)
        self.threads = _threads()
        self._blocks: list[Any] | None = None
        blocks: list[Any] = []
        self.facts, largest = [], 0
        used, room = 0, SHARE * self.limit
        keeping = keep is not False
        # the first alone, to see how many may be in memory at once
        for which in (range(1), range(1, len(self.recipes))):
            for block, size, found in self._each(which, _with_size, inspect):
                self.facts.append(found)
                used, largest = used + size, max(largest, size)
                keeping = keeping and (keep is True or used <= room)
                blocks = [*blocks, block] if keeping else []
                del block
            self._check_room(largest, keeping)
        self.kept = keeping
        self._blocks = blocks if keeping else None

    def _check_room(self, largest: int, keeping: bool) -> None:
        if keeping:
            return
        if largest > self.limit:
            raise ValueError(
                f"a block takes {largest:,} bytes, more than the memory limit of {int(self.limit):,}; cut the rows "
                "into smaller blocks"
            )
        self.threads = max(1, min(self.threads, int(self.limit // max(2 * largest, 1))))

    def __len__(self) -> int:
        return len(self.recipes)

    def map(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the function of each block, in their order."""
        return self._each(range(len(self)), function, *shared)

    def sum(self, function: Callable[..., tuple[Any, ...]], *shared: Any) -> tuple[Any, ...]:
        """Return the sum over all blocks."""
        return PairwiseSum.of(self.map(function, *shared))

    def one(self, k: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the function of one block."""
        return self._apply(k, function, *shared)

    def _apply(self, k: int, function: Callable[..., Any], *shared: Any) -> Any:
        block = self.prepare(made(self.recipes[k]), k) if self._blocks is None else self._blocks[k]
        return applied(function, block, *shared)

    def _each(self, which: range, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield in order; no more results wait than there are threads."""
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(min(self.threads, max(len(which), 1)), thread_name_prefix="quartic") as pool:
            try:
                for k in which:
                    waiting.append(pool.submit(self._apply, k, function, *shared))
                    if len(waiting) >= self.threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for late in waiting:
                    late.cancel()


def _with_size(block: Any, inspect: Callable[[Any], Any]) -> tuple[Any, int, Any]:
    from quartic.distributed.sizes import n_bytes

    return block, n_bytes(block), inspect(block)


def _threads() -> int:
    import dask
    from dask.system import CPU_COUNT

    return max(1, int(dask.config.get("num_workers", None) or CPU_COUNT))


def _limit(memory_limit: float | str | None) -> float:
    if memory_limit is None:
        return _machine_memory()
    from dask.utils import parse_bytes

    try:
        limit = float(parse_bytes(memory_limit))
    except (ValueError, TypeError):
        limit = 0.0
    if not limit > 0:
        raise ValueError(f'memory_limit must be a number of bytes, or words such as "2 GB", got {memory_limit!r}')
    return limit


def _machine_memory() -> float:
    import os

    try:
        from distributed.system import MEMORY_LIMIT  # knows of control groups
    except ImportError:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return float(MEMORY_LIMIT)
