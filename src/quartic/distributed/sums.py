"""Sums of what blocks give, in an order that depends on nothing but their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def add(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the sum of two tuples of numbers and arrays, entry by entry."""
    return tuple(x + y for x, y in zip(a, b, strict=True))


class PairwiseSum:
    """Adds a sequence as a binary tree over neighbours does, keeping no more than log₂ of it.

    The tree is that of `tree_levels`, so that sums made here and on workers are equal to the last bit.

    Examples
    --------
    >>> from quartic.distributed.sums import PairwiseSum
    >>> PairwiseSum.of((k,) for k in range(7))
    (21,)
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, tuple[Any, ...]]] = []

    def take(self, item: tuple[Any, ...]) -> None:
        """Add the next item."""
        rank = 0
        while self._parts and self._parts[-1][0] == rank:
            item = add(self._parts.pop()[1], item)
            rank += 1
        self._parts.append((rank, item))

    def total(self) -> tuple[Any, ...]:
        """Return the sum."""
        parts = [item for _, item in self._parts]
        total = parts.pop()
        while parts:
            total = add(parts.pop(), total)
        return total

    @classmethod
    def of(cls, items: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the sum of all items, in their order."""
        whole = cls()
        for item in items:
            whole.take(item)
        return whole.total()
