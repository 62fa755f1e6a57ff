"""Table 1 in Markdown: seconds and ratios beside the paper's, and where the order of methods differs."""

from __future__ import annotations

import math
from statistics import geometric_mean

from quartic.bench.contestants import PAPER_NAMES, SOLVERS
from quartic.bench.paper_numbers import TITLES, in_paper, paper_seconds
from quartic.bench.store import Row
from quartic.bench.symnmf import Cell
from quartic.bench.table1 import cells_of, complete_starts, mean_seconds, was_run


def heading(solver: str) -> str:
    """Return the name of a column: ours, and the paper's where it differs."""
    name = PAPER_NAMES.get(solver, solver)
    return solver if name.lower() == solver else f"{solver} (paper: {name})"


def seconds_table(rows: list[Row], epsilon: float) -> str:
    """Return the table of seconds, the paper's in brackets.

    Examples
    --------
    >>> from quartic.bench.table1_text import seconds_table
    >>> row = {"data": "coil20", "rank": "20", "solver": "dyn-nolips", "parameter": "", "seed": "0"}
    >>> row |= {"epsilon": "0.001", "seconds": "0.5"}
    >>> print(seconds_table([row], 1e-3))
    | data | r | starts | dyn-nolips (paper: NoLips) |
    |---|---|---|---|
    | Coil-20 | 20 | 1 | 0.5 (23.7) |
    """
    return _table(rows, lambda cell, solver: mean_seconds(rows, cell, solver, epsilon), _paper_seconds, "{:.3g}")


def ratio_table(rows: list[Row], epsilon: float) -> str:
    """Return the table of times as multiples of Dyn-NoLips's, the paper's in brackets."""

    def ratio(cell: Cell, solver: str) -> float | None:
        base = mean_seconds(rows, cell, "dyn-nolips", epsilon)
        own = mean_seconds(rows, cell, solver, epsilon)
        return None if base is None or own is None else own / base

    return _table(rows, ratio, _paper_ratio, "{:.2f}")


def comparison(rows: list[Row], epsilon: float) -> str:
    """Return, for each solver, in how many cells it arrived and how it did beside Dyn-NoLips, here and in the paper."""
    cells = cells_of(rows)
    lines = [
        "| solver | cells reached | in the paper | faster than dyn-nolips in | in the paper "
        "| time / dyn-nolips, geometric mean | in the paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for solver in _solvers(rows):
        if solver == "dyn-nolips":
            continue
        here, paper = [], []
        run = [cell for cell in cells if was_run(rows, cell, solver)]
        known = [cell for cell in run if in_paper(cell.data, cell.rank, solver)]
        for cell in run:
            base, own = (mean_seconds(rows, cell, name, epsilon) for name in ("dyn-nolips", solver))
            if base is not None and own is not None:
                here.append(own / base)
            elif own is not None:
                here.append(math.nan)
        paper = [ratio for cell in known if (ratio := _paper_ratio(cell, solver)) is not None]
        ratios = [value for value in here if value == value]
        lines.append(
            f"| {heading(solver)} | {len(here)} of {len(run)} | {f'{len(paper)} of {len(known)}' if known else ''} | "
            f"{sum(value < 1 for value in ratios)} | {sum(value < 1 for value in paper) if known else ''} | "
            f"{_mean(ratios)} | {_mean(paper) if known else ''} |"
        )
    return "\n".join(lines)


def fastest(rows: list[Row], epsilon: float) -> str:
    """Return one line a cell on who was fastest, and how far ``auto`` was from that."""
    lines = [
        "| data | r | fastest | seconds | auto / fastest | fastest of the paper's solvers |",
        "|---|---|---|---|---|---|",
    ]
    for cell in cells_of(rows):
        times = {
            solver: seconds
            for solver in _solvers(rows)
            if (seconds := mean_seconds(rows, cell, solver, epsilon)) is not None
        }
        if len(times) < 2:
            continue
        first = min(times, key=times.__getitem__)
        theirs = [solver for solver in times if solver in PAPER_NAMES]
        behind = f"{times['auto'] / times[first]:.2f}" if "auto" in times else "–"
        best = min(theirs, key=times.__getitem__) if theirs else "–"
        lines.append(
            f"| {TITLES.get(cell.data, cell.data)} | {cell.rank} | {first} | {times[first]:.2f} | {behind} | {best} |"
        )
    return "\n".join(lines)


def penalties_table(tuning: list[Row], epsilons: list[float], n_starts: int) -> str:
    """Return the penalties chosen in each cell."""
    from quartic.bench.tuning import best_penalties

    names = [name for name in SOLVERS if any(row["solver"] == name and row["parameter"] for row in tuning)]
    lines = ["| data | r | " + " | ".join(f"{n}, ε = {e:g}" for n in names for e in epsilons) + " |"]
    lines.append("|---|---|" + "---|" * (len(names) * len(epsilons)))
    for cell in cells_of(tuning):
        words = []
        for name in names:
            here = [r for r in tuning if (r["data"], int(r["rank"]), r["solver"]) == (cell.data, cell.rank, name)]
            chosen = best_penalties(here, epsilons, n_starts)
            words += [f"{chosen[e]:g}" if e in chosen else "–" for e in epsilons]
        lines.append(f"| {TITLES.get(cell.data, cell.data)} | {cell.rank} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def _table(rows, ours, paper, form) -> str:  # type: ignore[no-untyped-def]
    solvers = _solvers(rows)
    lines = [
        "| data | r | starts | " + " | ".join(heading(s) for s in solvers) + " |",
        "|---|---|---|" + "---|" * len(solvers),
    ]
    for cell in cells_of(rows):
        starts = len(complete_starts(rows, cell))
        words = []
        for solver in solvers:
            own = ours(cell, solver)
            word = form.format(own) if own is not None else "–" if was_run(rows, cell, solver) else "not run"
            if in_paper(cell.data, cell.rank, solver):
                theirs = paper(cell, solver)
                word += f" ({'–' if theirs is None else f'{theirs:.3g}'})"
            words.append(word)
        lines.append(f"| {TITLES.get(cell.data, cell.data)} | {cell.rank} | {starts} | " + " | ".join(words) + " |")
    return "\n".join(lines)


def _solvers(rows: list[Row]) -> list[str]:
    there = {row["solver"] for row in rows}
    # A solver that never reached a target in tuning has no rows of its own, but a column all the same.
    return [name for name in SOLVERS if name in there or len(there) > 6]


def _paper_seconds(cell: Cell, solver: str) -> float | None:
    return paper_seconds(cell.data, cell.rank, solver)


def _paper_ratio(cell: Cell, solver: str) -> float | None:
    own, base = paper_seconds(cell.data, cell.rank, solver), paper_seconds(cell.data, cell.rank, "dyn-nolips")
    return None if own is None or base is None else own / base


def _mean(values: list[float]) -> str:
    return f"{geometric_mean(values):.2f}" if values else "–"
