"""What the runs of one fit share: one limit of time, and an end for all of them when one is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from quartic.compiled.clock import compiling_time
from quartic.core.loop import Progress
from quartic.core.result import Result, Status

Fit = TypeVar("Fit")

# A run that is begun at the very end gets this many seconds: its start, and hardly an iteration.
_LEAST = 1e-3


class Course:
    """The course of a fit; ``ended`` is status and message once Ctrl-C or the callback has ended it, else None."""

    def __init__(self, max_time: float | None, callback: Callable[[Progress], object] | None) -> None:
        self.max_time, self.callback, self.began = max_time, callback, time.perf_counter()
        self.ended: tuple[Status, str] | None = None
        self._here = threading.local()
        self._here.compiled = compiling_time()

    def spent(self) -> float:
        """Return the seconds since it began, without those in which this thread has compiled since it came to it."""
        if not hasattr(self._here, "compiled"):
            self._here.compiled = compiling_time()
        compiled: float = compiling_time() - self._here.compiled
        return time.perf_counter() - self.began - compiled

    def left(self) -> float | None:
        """Return the seconds that are left, compilation aside; None where there is no limit."""
        return None if self.max_time is None else max(self.max_time - self.spent(), _LEAST)

    def has_spent(self, share: float) -> bool:
        """Tell whether this share of the time is over."""
        return self.max_time is not None and self.spent() >= share * self.max_time

    def is_over(self) -> bool:
        """Tell whether nothing more should be begun."""
        return self.ended is not None or self.has_spent(1.0)

    def interrupt(self) -> None:
        """Take note of a Ctrl-C between runs, or while others are under way."""
        self.ended = Status.INTERRUPTED, "interrupted; the best run so far is returned"

    def unless_over(self, fit: Callable[[], Fit]) -> Fit | None:
        """Return what another fit gives; None where no time is left for it, or Ctrl-C ends it."""
        if self.is_over():
            return None
        try:
            return fit()
        except KeyboardInterrupt:
            self.interrupt()
            return None

    def see(self, progress: Progress) -> None:
        """See an iteration of a run, which ends when the fit has been ended."""
        if self.ended is not None:
            raise StopIteration
        if self.callback is not None:
            self.callback(progress)

    def make(self, run: Callable[[int, Any], Result], seeds: list[int], jobs: int) -> list[Result]:
        """Return ``run(seed, callback)`` for each seed, ``jobs`` at a time; when the fit is over, of those begun.

        The first is made in any case.
        """
        watch = self.see if self.callback is not None or jobs > 1 else None

        def one(k: int) -> list[Result]:
            if k and self.is_over():
                return []
            result = run(seeds[k], watch)
            if result.status in (Status.INTERRUPTED, Status.CALLBACK) and self.ended is None:
                self.ended = result.status, result.message
            return [result]

        results: list[Result] = []
        if jobs > 1:
            with ThreadPoolExecutor(jobs) as pool:
                runs: list[Future[list[Result]]] = []
                try:
                    for k in range(len(seeds)):
                        runs.append(pool.submit(one, k))
                    wait(runs)
                except KeyboardInterrupt:  # it comes to this thread alone
                    if not runs:
                        raise
                    self.interrupt()
            return [result for made in runs for result in made.result()]
        for k in range(len(seeds)):
            try:
                results += one(k)
            except KeyboardInterrupt:  # before the first iteration of a run
                if not results:
                    raise
                self.interrupt()
        return results
