"""The progress bar of ``verbose=True``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quartic.loop import Progress


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """Show how far stationarity has come, in powers of ten, from the first iterate to the target."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        BarColumn(),
        TextColumn("iteration {task.fields[n_iter]}  objective {task.fields[objective]:.6e}"),
        TextColumn("stationarity {task.fields[stationarity]:.2e}"),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns) as bar:
        task = bar.add_task("", total=1.0, n_iter=0, objective=math.nan, stationarity=math.nan)
        first: list[float] = []

        def show(progress: Progress) -> None:
            if not first:
                first.append(progress.stationarity)
            way = math.log(first[0] / progress.target) if 0 < progress.target < first[0] else math.inf
            done = math.log(first[0] / progress.stationarity) if 0 < progress.stationarity < first[0] else 0.0
            bar.update(
                task,
                completed=min(1.0, done / way),
                n_iter=progress.n_iter,
                objective=progress.objective,
                stationarity=progress.stationarity,
            )

        yield show
