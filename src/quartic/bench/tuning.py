"""Tuning of penalties: the best of a grid for each cell and each target, on starts that are not measured afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any

from quartic.bench.contestants import contestant
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import Case, Contestant, run_once, warm_up
from quartic.bench.turns import Entry, Say, take_turns

if TYPE_CHECKING:
    from quartic.bench.table1 import Table1Settings

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

    def asked(self, most: float | None = None, patience: float | None = None) -> Limits:
        """Return these limits but for those that are given."""
        return replace(
            self,
            most=self.most if most is None else most,
            patience=self.patience if patience is None else patience,
        )


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
    settings: Table1Settings,
    say: Say = lambda _: None,
    progress: Say = lambda _: None,
) -> dict[float, float]:
    """Return the penalty that reaches each target first by mean time; a target that none reached is left out.

    Every run is a row of ``store``; what is there is not run again. The grid is gone through from its middle, and a
    penalty that takes over twice what the best took so far is given up.
    """
    title, targets, limits = case.cell.title, list(settings.epsilons), settings.limits
    grid, hardest = dict(settings.grids)[name], min(settings.epsilons)
    base = contestant("dyn-nolips")

    def race(who: Contestant, seed: int) -> list[dict[str, Any]]:
        rows = store.find(**case.cell.key, seed=seed)
        limit = limits.most
        if who.name == name:
            limit = limits.against(seconds_of([row for row in rows if row["solver"] == base.name], hardest))
            times = [seconds_of([row], hardest) for row in rows if row["solver"] == name]
            limit = min(limit, max(limits.least, _RACE * min((t for t in times if t is not None), default=math.inf)))
        warm_up(case, who)
        return run_once(case, who, seed, targets, limit, settings.threads > 1)

    order = [base, *(contestant(name, parameter) for parameter in sorted(grid, key=_from_the_middle))]
    entries = [Entry(f"tuning {who.name}", who.key, partial(race, who)) for who in order]
    seeds = range(FIRST_SEED, FIRST_SEED + settings.tuning_starts)
    # Whoever else tunes the same waits, and then finds it done.
    with store.alone(f"{case.cell.data}-{case.cell.rank}-{name}"):
        take_turns(store, title, case.cell.key, (), seeds, progress, first=entries)
    chosen = best_penalties(store.find(**case.cell.key, solver=name), targets, settings.tuning_starts)
    words = ", ".join(f"{parameter:g} for ε = {epsilon:g}" for epsilon, parameter in chosen.items())
    tried = ", ".join(f"{p:g}" for p in grid)
    say(f"{title}: {name} tuned over {{{tried}}}: {words or 'none reaches a target'}")
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


def _from_the_middle(parameter: float) -> float:
    """Penalties around 0.03 win as a rule; 0 comes last."""
    return math.inf if parameter == 0 else abs(math.log10(parameter) + 1.5)
