"""Ratios measured side by side: things take turns, again and again, and the median of the ratios counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it.

    Examples
    --------
    >>> from quartic.bench.timing import Spread
    >>> str(Spread.of([1.0, 1.1, 1.2, 1.3, 5.0]))
    '1.20 (1.10–1.30)'
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Return the median and the quartiles of some values."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(median, low, high)

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


def in_turns(
    jobs: dict[str, Callable[[], object]], threads: int, repeats: int, least: float = 0.002
) -> dict[str, list[float]]:
    """Return the seconds of each job in each of ``repeats`` rounds; in a round the jobs take turns.

    A short job is done several times in its turn, so that a turn takes ``least`` seconds at least. On one thread the
    processor's time is read, which other work on the machine disturbs least; on several, the clock on the wall.
    """
    clock = time.thread_time if threads == 1 else time.perf_counter
    times: dict[str, int] = {}
    for name, job in jobs.items():  # once to warm up, once to see how long it takes
        job()
        began = clock()
        job()
        times[name] = max(1, min(1000, round(least / max(clock() - began, 1e-9))))
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            began = clock()
            for _ in range(times[name]):
                job()
            found[name].append((clock() - began) / times[name])
    return found


def ratios(above: list[float], below: list[float]) -> Spread:
    """Return the spread of the ratios round by round."""
    return Spread.of([a / b for a, b in zip(above, below, strict=True)])


@contextmanager
def threads_fixed(count: int) -> Iterator[None]:
    """Limit our own threads, and keep BLAS at one, as a run does: its threads, waiting, would be in the way of ours."""
    from quartic.arrays.threads import limited_to

    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        with limited_to(count):
            yield
        return
    with threadpool_limits(1, user_api="blas"), limited_to(count):
        yield
