"""How the rows of a list of pairs are cut for several threads: fixed chunks, each with sums of its own.

A pair (i, j) adds to row i and to row j of the result. Two threads must not add to one row at the same time, and which
comes first must not change the bits. So the rows are cut into chunks by the data alone, each chunk fills a result of
its own, and those are added in order; on one thread too. It pays where there are many more pairs than entries of the
result; elsewhere there is one chunk, and the pass is what it would be without this.

Pairs are sorted by row with i ≤ j: a chunk adds to no row before its first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays.checks import Array
from quartic.arrays.threads import spread

# At least so many pairs in a chunk, and so many for each row of the result it fills.
_PAIRS_IN_A_CHUNK, _PAIRS_FOR_A_ROW = 32768, 16
# At most so many chunks.
_MOST = 8
# What a pair costs, in multiplications.
_COST = 10.0


class RowChunks:
    """Where the rows of a list of pairs start, and how they are cut into chunks: worked out once for all passes."""

    def __init__(self, start: NDArray[np.int64]) -> None:
        n, m = len(start) - 1, int(start[-1])
        most = max(1, min(_MOST, m // _PAIRS_IN_A_CHUNK, m // max(1, _PAIRS_FOR_A_ROW * n)))
        n_chunks = 1 << (most.bit_length() - 1)  # a power of two: equal shares for two threads, for four …
        inner = np.searchsorted(start, [m * k / n_chunks for k in range(1, n_chunks)])
        self.start = start
        #: chunk k has the rows ``bounds[k]`` to ``bounds[k + 1]`` − 1
        self.bounds: list[int] = [0, *inner.tolist(), n]
        self._rooms: list[Array] = []

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def each(self, work: Callable[[int], None]) -> None:
        """Call ``work(k)`` for each chunk k, by several threads if it pays."""
        if len(self) == 1:
            work(0)
            return

        def some(first: int, last: int) -> None:
            for k in range(first, last):
                work(k)

        spread(some, len(self), _COST * float(self.start[-1]))

    def take_room(self, size: int) -> Array:
        """Return an array of so many float64, which no other pass has, and which begins at a cache line."""
        try:
            room = self._rooms.pop()
        except IndexError:
            room = np.empty(0)
        if len(room) < size:
            room = np.empty(size + 8)
            room = room[-room.ctypes.data % 64 // 8 :]
        return room

    def leave_room(self, room: Array) -> None:
        """Keep the array for the next pass; those of several threads at a time would add up, and only one is kept."""
        if not self._rooms:
            self._rooms.append(room)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the room."""
        return {**self.__dict__, "_rooms": []}
