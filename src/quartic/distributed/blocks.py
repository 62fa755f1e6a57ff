"""Blocks of data, each with a recipe, and functions mapped over them.

A block is not a thing but a recipe: a small Dask graph that any worker, or any thread here, can run. What it makes is
kept where there is room, and made anew where there is not, or where the worker that held it has died. Either way the
same numbers come out, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from quartic.archives import machine_memory
from quartic.arrays.threads import limited_to
from quartic.distributed.inputs import is_persisted

Keep = Literal["auto"] | bool

# Kept blocks may take this share of the memory: the rest is for X, for what a block gives, and for the block in work.
SHARE = 0.4


class Blocks(ABC):
    """A sequence of blocks, made once to be looked at, and once more to be kept where there is room for all.

    ``facts`` is what ``inspect`` found of each block, ``kept`` whether they are; otherwise each pass makes them anew.
    """

    def __init__(
        self, recipes: Sequence[Any], prepare: Callable[[Any, int], Any], inspect: Callable[[Any], Any], keep: Keep
    ) -> None:
        self.recipes, self.prepare, self.kept = list(recipes), prepare, False
        if keep is True:
            self._hold()
        self.sizes, self.facts = map(list, zip(*self.map(_with_size, inspect), strict=True))
        room, most = self._limits()
        k = int(np.argmax(self.sizes))
        if not self.kept and self.sizes[k] > most:
            raise ValueError(
                f"block {k} takes {self.sizes[k]:,} bytes, too much for {self.who} with a memory limit of "
                f"{int(most):,}; cut the rows into smaller blocks"
            )
        if keep == "auto" and sum(self.sizes) <= room:
            self._hold()

    who: str

    @abstractmethod
    def _hold(self) -> None:
        """Make all blocks, and keep them."""

    @abstractmethod
    def _limits(self) -> tuple[float, float]:
        """Return how many bytes all blocks, and one block, may take."""

    @abstractmethod
    def map(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield ``function(block, *shared)`` of each block, in their order; arrays go to each worker once."""

    @abstractmethod
    def sum(self, function: Callable[..., tuple[Any, ...]], *shared: Any) -> tuple[Any, ...]:
        """Return the sum of ``function(block, *shared)``, a tuple of numbers and arrays, over all blocks.

        It is a binary tree over neighbours, so that the answer does not depend on who was ready first.
        """

    def __len__(self) -> int:
        """Return how many blocks there are."""
        return len(self.recipes)


def blocks_of(
    recipes: Sequence[Any],
    prepare: Callable[[Any, int], Any],
    inspect: Callable[[Any], Any],
    *,
    source: Any = (),
    client: Any = None,
    keep: Keep = "auto",
    memory_limit: float | str | None = None,
) -> Blocks:
    """Return blocks on the user's cluster, or in threads here where there is none.

    ``prepare(made, k)`` turns what the k-th recipe, a Delayed, makes into the block; what ``inspect`` says of each is
    kept in ``facts``. Where the ``source`` of the recipes, a collection or several, is in the workers' memory already,
    there it stays. ``client``, ``keep`` and ``memory_limit`` are those of `quartic.losses.DaskMatrix`.
    """
    from quartic.distributed.cluster import ClusterBlocks, check_workers, current_client

    client = current_client() if client is None else client
    if client is None or client is False:
        return LocalBlocks(recipes, prepare, inspect, keep, memory_limit)
    if memory_limit is not None:
        raise ValueError(
            "memory_limit is for work without a cluster; of a cluster, give it to the workers (LocalCluster("
            "memory_limit=...), dask worker --memory-limit)"
        )
    check_workers(client)
    return ClusterBlocks(recipes, prepare, inspect, client, True if is_persisted(source) else keep)


class LocalBlocks(Blocks):
    """Blocks worked on by threads of this process.

    Blocks are read, and let go, by whichever thread is free; at most as many are in memory as there are threads, and
    fewer where the limit is low.
    """

    who = "this process"

    def __init__(
        self, recipes: Sequence[Any], prepare: Callable[[Any, int], Any], inspect: Callable[[Any], Any], keep: Keep,
        memory_limit: float | str | None,
    ) -> None:  # fmt: skip
        self.limit, self.threads, self._blocks = _limit(memory_limit), _threads(), []
        if keep is not True:  # the first alone, to see how many may be in memory at once
            self._share_memory(count_bytes(prepare(make(recipes[0]), 0)))
        super().__init__(recipes, prepare, inspect, keep)
        if not self.kept:
            self._share_memory(max(self.sizes))

    _blocks: list[Any]

    def _share_memory(self, largest: int) -> None:
        self.threads = max(1, min(self.threads, int(self.limit // max(2 * largest, 1))))

    def _limits(self) -> tuple[float, float]:
        return SHARE * self.limit, self.limit

    def _hold(self) -> None:
        self._blocks, self.kept = list(self.map(_itself)), True

    def map(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield in order; no more results wait than there are threads."""
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(min(self.threads, len(self)), thread_name_prefix="quartic") as pool:
            try:
                for k in range(len(self)):
                    waiting.append(pool.submit(self._apply, k, function, *shared))
                    if len(waiting) >= self.threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for late in waiting:
                    late.cancel()

    def sum(self, function: Callable[..., tuple[Any, ...]], *shared: Any) -> tuple[Any, ...]:
        """Return the sum over all blocks."""
        return add_all(self.map(function, *shared))

    def _apply(self, k: int, function: Callable[..., Any], *shared: Any) -> Any:
        block = self._blocks[k] if self.kept else self.prepare(make(self.recipes[k]), k)
        return apply(function, block, *shared)


def _itself(block: Any) -> Any:
    return block


def _with_size(block: Any, inspect: Callable[[Any], Any]) -> tuple[int, Any]:
    return count_bytes(block), inspect(block)


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
    try:
        from distributed.system import MEMORY_LIMIT  # knows of control groups
    except ImportError:
        return float(machine_memory())
    return float(MEMORY_LIMIT)


def apply(function: Callable[..., Any], block: Any, *shared: Any) -> Any:
    """Return ``function(block, *shared)``, done in one thread: blocks are what threads share here."""
    with limited_to(1):
        return function(block, *(value.open() if isinstance(value, Shared) else value for value in shared))


def pack(recipe: Any) -> bytes:
    """Return a recipe in bytes, without those of all other blocks, which a collection's pieces carry along."""
    import cloudpickle
    import dask

    packed: bytes = cloudpickle.dumps(dask.optimize(recipe)[0])
    return packed


def make(recipe: Any) -> Any:
    """Return what a recipe makes, made here and now in this thread."""
    return recipe.compute(scheduler="synchronous")


def count_bytes(block: Any) -> int:
    """Return the bytes of an array, a sparse matrix, or an object that holds arrays."""
    if isinstance(block, np.ndarray):
        return int(block.nbytes)
    if sp.issparse(block):
        return sum(int(getattr(block, name).nbytes) for name in ("data", "indices", "indptr") if hasattr(block, name))
    return sum(count_bytes(value) for value in vars(block).values()) if hasattr(block, "__dict__") else 0


def add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sum of two tuples of numbers and arrays, entry by entry."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


def add_all(items: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sum of a sequence of tuples, added as a binary tree over neighbours, of which log₂ n are kept.

    The tree depends on nothing but their number, so that sums made here and on workers are equal to the last bit.
    """
    parts: list[tuple[int, tuple[Any, ...]]] = []
    for item in items:
        rank = 0
        while parts and parts[-1][0] == rank:
            item, rank = add(parts.pop()[1], item), rank + 1
        parts.append((rank, item))
    _, total = parts.pop()
    while parts:
        total = add(parts.pop()[1], total)
    return total


@dataclass(frozen=True)
class Shared:
    """An array in memory that all processes of a machine can map."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    def open(self) -> Any:
        """Return the array; a change of it would stay with whoever makes it."""
        return np.asarray(np.memmap(self.path, dtype=self.dtype, mode="c", shape=self.shape))
