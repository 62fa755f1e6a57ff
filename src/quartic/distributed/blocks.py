"""Blocks of data, each with a recipe, and functions mapped over them.

A block is not a thing but a recipe: a small Dask graph that any worker, or any thread here, can run. What it makes is
kept where there is room, and made anew where there is not, or where the worker that held it has died. Either way the
same numbers come out, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from quartic.arrays.threads import limited_to
from quartic.distributed.client import check_workers, current_client
from quartic.distributed.exchange import opened
from quartic.distributed.inputs import is_persisted

Keep = Literal["auto"] | bool

# Kept blocks may take this share of the memory: the rest is for X, for what a block gives, and for the block in work.
SHARE = 0.4


class Blocks(ABC):
    """A sequence of blocks.

    Attributes
    ----------
    facts : list
        What ``inspect`` found of each block when it was first read.
    kept : bool
        Whether blocks stay in memory; otherwise each pass makes them anew.
    """

    facts: list[Any]
    kept: bool

    @abstractmethod
    def map(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield ``function(block, *shared)`` of each block, in their order; arrays go to each worker once."""

    @abstractmethod
    def sum(self, function: Callable[..., tuple[Any, ...]], *shared: Any) -> tuple[Any, ...]:
        """Return the sum of ``function(block, *shared)``, a tuple of numbers and arrays, over all blocks.

        It is a binary tree over neighbours, so that the answer does not depend on who was ready first.
        """

    @abstractmethod
    def one(self, k: int, function: Callable[..., Any], *shared: Any) -> Any:
        """Return ``function(block, *shared)`` of the k-th block."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many blocks there are."""


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

    Parameters
    ----------
    recipes : sequence of Delayed
        One for each block.
    prepare : callable
        ``prepare(made, k)`` turns what the k-th recipe makes into the block.
    inspect : callable
        Its answer for each block is kept in ``facts``.
    source : collection, or sequence of collections
        What the recipes were taken from. Where that is in the workers' memory already, there it stays.
    client : distributed.Client or False, optional
        The cluster; the client made last when left out. False: none, whether there is one or not.
    keep : {"auto", True, False}
        Whether blocks stay in memory. "auto": where they take at most two fifths of it.
    memory_limit : int or str, optional
        Without a cluster: what blocks may take, such as "2 GB"; the machine's memory when left out. On a cluster the
        workers' own limits hold.
    """
    client = current_client() if client is None else client
    if client is None or client is False:
        from quartic.distributed.local import LocalBlocks

        return LocalBlocks(recipes, prepare, inspect, keep, memory_limit)
    if memory_limit is not None:
        raise ValueError(
            "memory_limit is for work without a cluster; of a cluster, give it to the workers (LocalCluster("
            "memory_limit=...), dask worker --memory-limit)"
        )
    from quartic.distributed.cluster import ClusterBlocks

    check_workers(client)
    return ClusterBlocks(recipes, prepare, inspect, client, True if is_persisted(source) else keep)


def applied(function: Callable[..., Any], block: Any, *shared: Any) -> Any:
    """Return ``function(block, *shared)``, done in one thread: blocks are what threads share here."""
    with limited_to(1):
        return function(block, *map(opened, shared))


def made(recipe: Any) -> Any:
    """Return what a recipe makes, made here and now in this thread."""
    return recipe.compute(scheduler="synchronous")
