"""The end of every pass over pairs: numbers summed over all pairs of a program."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def store_numbers(sums, n1, n2, n3, n4, NUMBERS: tl.constexpr):
    """Write the first 0, 1, 2 or all 4 numbers of this program."""
    mine = sums + tl.program_id(0).to(tl.int64) * NUMBERS
    if NUMBERS > 0:
        tl.store(mine, tl.sum(tl.sum(n1, 1), 0))
    if NUMBERS > 1:
        tl.store(mine + 1, tl.sum(tl.sum(n2, 1), 0))
    if NUMBERS > 2:
        tl.store(mine + 2, tl.sum(tl.sum(n3, 1), 0))
        tl.store(mine + 3, tl.sum(tl.sum(n4, 1), 0))
