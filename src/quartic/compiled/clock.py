"""A clock that stands still while numba compiles: what a machine does once is no part of solving."""

from __future__ import annotations

import threading
import time


class _Compiling(threading.local):
    """What this thread has spent on compiling; one function's compilation may set off another's."""

    seconds = 0.0
    depth = 0
    began = 0.0


_compiling = _Compiling()


def begin_compiling() -> None:
    """Stop the clock."""
    if _compiling.depth == 0:
        _compiling.began = time.perf_counter()
    _compiling.depth += 1


def end_compiling() -> None:
    """Let the clock go on."""
    _compiling.depth -= 1
    if _compiling.depth == 0:
        _compiling.seconds += time.perf_counter() - _compiling.began


def compiling_time() -> float:
    """Return the seconds that this thread has spent on compiling."""
    return _compiling.seconds


def solving_time() -> float:
    """Return seconds, as `time.perf_counter` does, without those this thread has spent on compiling."""
    return time.perf_counter() - _compiling.seconds
