"""A stopwatch for the processor's time that stands still while the referee measures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Watch:
    """Seconds since it was made, those within `paused` left out.

    Processor time of the whole process by default, which other work on the machine disturbs least, and which the
    paper reports; with more than one thread it adds them up, and the clock on the wall is the one to read.

    Parameters
    ----------
    wall : bool, default=False
        Read the clock on the wall instead.

    Examples
    --------
    >>> from quartic.bench.watch import Watch
    >>> watch = Watch()
    >>> with watch.paused():
    ...     _ = sum(range(1000))
    >>> watch.seconds() < watch.seconds() + watch.pause
    True
    """

    def __init__(self, wall: bool = False) -> None:
        self._clock = time.perf_counter if wall else time.process_time
        self.pause = 0.0
        self._started = self._clock()

    def seconds(self) -> float:
        """Return the seconds so far."""
        return self._clock() - self._started - self.pause

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what happens within."""
        began = self._clock()
        try:
            yield
        finally:
            self.pause += self._clock() - began
