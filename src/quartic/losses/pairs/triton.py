"""The pass over pairs as one Triton kernel: a block of rows a program, each row's pairs read together, no atomics.

A program holds the sums of its rows in registers, reads their pairs in tiles, and writes each row once. Numbers summed
over all pairs are written one set a program and added by torch: always in the same order. All arithmetic is in float64,
which costs little here: the time goes into reading pairs and fetching the rows they point to.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from quartic.losses.pairs.triton_narrow_pairs import narrow_pass
from quartic.losses.pairs.triton_wide_pairs import wide_pass

_MODES = {
    # its number in the kernels, and how many numbers it sums
    "value_and_gradient": (0, 1),
    "remainder": (1, 2),
    "line": (2, 4),
    "hessian": (3, 0),
    "linearize": (4, 1),
    "product": (5, 0),
    "quartic": (6, 4),
}
# Rows of a program, pairs of a row read together, warps: found by trial on an H200.
SHORT, LONG = (32, 8, 4), (16, 8, 4)


def pairs(
    name: str, X: Any, Y: Any, start: Any, cols: Any, target: Any, weight: Any, out: Any = None, blocks: Any = None
) -> Any:
    """Run the pass of that name; return the numbers summed over pairs, each counted once."""
    mode, numbers = _MODES[name]
    n, width = X.shape
    rows, lanes, warps = SHORT if width <= 4 else LONG
    programs = triton.cdiv(n, rows)
    sums = torch.empty((programs, max(numbers, 1)), dtype=torch.float64, device=X.device)
    arrays = (
        X, Y, start, cols, target, target if weight is None else weight,
        X if out is None else out, X if blocks is None else blocks, sums, n,
    )  # fmt: skip
    settings = {
        "MODE": mode, "WEIGHTED": weight is not None, "NUMBERS": numbers,
        "R": rows, "K": lanes, "WIDTH": width, "num_warps": warps,
    }  # fmt: skip
    if width <= 4:
        narrow_pass[(programs,)](*arrays, **settings)
    else:
        wide_pass[(programs,)](*arrays, width, C=triton.next_power_of_2(width), **settings)
    if not numbers:
        return None
    total = 0.5 * sums.sum(dim=0)  # each pair stands in two rows
    if mode in (0, 1, 4):
        total[0] *= 0.5  # f is half the sum of squares
    return total
