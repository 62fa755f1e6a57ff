"""The progress bar of ``verbose=True``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quartic.core.loop import Progress


@contextmanager
def progress_bar(console: Any = None, *, transient: bool = False) -> Iterator[Callable[[Progress], None]]:
    """Show one run after the other: iteration, objective, stationarity, the time so far and the time left.

    The bar is how far stationarity has come, in powers of ten, from the first iterate to the target.
    """
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    # the time left: stationarity falls by a steady factor an iteration, more or less
    columns = BarColumn(bar_width=8), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    with RichProgress(*columns, console=console, transient=transient) as bar:
        task, run = bar.add_task("starting", total=1.0), _Run()

        def show(progress: Progress) -> None:
            run.see(progress)
            words = f"{progress.n_iter}: objective {progress.objective:.3e}, stationarity {progress.stationarity:.1e}"
            bar.update(task, completed=run.done, description=words)

        yield show


class _Run:
    """How far the run under way has come."""

    def __init__(self) -> None:
        self.first, self.n_iter, self.done = math.nan, 0, 0.0

    def see(self, progress: Progress) -> None:
        """Take note of an iterate; a smaller number of iterations than before belongs to the next run."""
        if progress.n_iter <= self.n_iter or math.isnan(self.first):
            self.first = progress.stationarity
        self.n_iter = progress.n_iter
        first, target, now = self.first, progress.target, progress.stationarity
        way = math.log(first / target) if 0 < target < first else math.inf
        gone = math.log(first / now) if 0 < now < first else 0.0
        self.done = min(1.0, gone / way)
