"""Tuning of penalties: the best of a grid for each cell and each target, on starts that are not measured afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean

from quartic.bench.contestants import GRIDS, contestant
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import Case, Contestant, run_once, warm_up

# Seeds of the starts that serve for tuning only.
FIRST_SEED = 1000
# While a grid is gone through, a penalty may take so many times what the best of it took so far.
_RACE = 2.0


@dataclass(frozen=True)
class Limits:
    """How long a run may take: ``patience`` times what Dyn-NoLips took, between ``least`` and ``most`` seconds."""

    most: float = 60.0
    patience: float = 10.0
    least: float = 1.0

    def against(self, seconds: float | None) -> float:
        """Return the limit, given what Dyn-NoLips took (None: it never arrived).

        Examples
        --------
        >>> from quartic.bench.tuning import Limits
        >>> Limits().against(2.0), Limits().against(None)
        (20.0, 60.0)
        """
        return self.most if seconds is None else min(self.most, max(self.least, self.patience * seconds))


def seconds_of(rows: list[Row], epsilon: float) -> float | None:
    """Return the seconds to a target in the rows of one run, or None."""
    for row in rows:
        if float(row["epsilon"]) == epsilon and row["seconds"]:
            return float(row["seconds"])
    return None


def tune(
    case: Case,
    name: str,
    store: Store,
    targets: list[float],
    limits: Limits,
    n_starts: int,
    grid: tuple[float, ...] | None = None,
    wall: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> dict[float, float]:
    """Return the penalty that reaches each target first by mean time; a target that none reached is left out.

    Every run is a row of ``store``; what is there is not run again. The grid is gone through from its middle, and a
    penalty that takes over twice what the best took so far is given up.
    """
    grid = GRIDS[name] if grid is None else grid
    hardest = min(targets)
    for seed in range(FIRST_SEED, FIRST_SEED + n_starts):
        base = _run(case, contestant("dyn-nolips"), seed, targets, limits.most, store, wall)
        limit = limits.against(seconds_of(base, hardest))
        best = math.inf
        for parameter in sorted(grid, key=_from_the_middle):
            rows = _run(case, contestant(name, parameter), seed, targets, min(limit, max(limits.least, _RACE * best)),
                        store, wall)  # fmt: skip
            best = min(best, seconds_of(rows, hardest) or math.inf)
    chosen = best_penalties(store.find(data=case.cell.data, rank=case.cell.rank, solver=name), targets, n_starts)
    words = ", ".join(f"{parameter:g} for ε = {epsilon:g}" for epsilon, parameter in chosen.items())
    tried = ", ".join(f"{p:g}" for p in grid)
    say(f"{case.cell.data} r={case.cell.rank}: {name} tuned over {{{tried}}}: {words or 'none reaches a target'}")
    return chosen


def best_penalties(rows: list[Row], targets: list[float], n_starts: int) -> dict[float, float]:
    """Return the penalty with the least mean time to each target, of those that reached it from every tuning start."""
    chosen = {}
    for epsilon in targets:
        times: dict[float, list[float]] = {}
        for row in rows:
            if float(row["epsilon"]) == epsilon and row["seconds"] and int(row["seed"]) < FIRST_SEED + n_starts:
                times.setdefault(float(row["parameter"]), []).append(float(row["seconds"]))
        whole = {parameter: mean(found) for parameter, found in times.items() if len(found) == n_starts}
        if whole:
            chosen[epsilon] = min(whole, key=whole.__getitem__)
    return chosen


def _run(
    case: Case, who: Contestant, seed: int, targets: list[float], limit: float, store: Store, wall: bool
) -> list[Row]:
    key = {"data": case.cell.data, "rank": case.cell.rank, **who.key, "seed": seed}
    if not store.has(**key):
        warm_up(case, who)
        store.add(run_once(case, who, seed, targets, limit, wall))
    return store.find(**key)


def _from_the_middle(parameter: float) -> float:
    """Penalties around 0.03 win as a rule; 0 comes last."""
    return math.inf if parameter == 0 else abs(math.log10(parameter) + 1.5)
