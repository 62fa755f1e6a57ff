"""The league: our solvers and their rivals from the same starts, on shapes that nobody tuned for.

Seconds and products until stationarity is ε of that at the paper's random start, as performance profiles (Dolan and
Moré 2002): for each method the share of the problems on which it is within a factor τ of the best. Rivals with a
parameter are entered once for each value of a grid, and the best of them counts, problem by problem. A run
counts only where it ends as low as the others: within 1 % of the lowest.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from quartic.arrays import Array
from quartic.bench.cases import DATA, RANKS, Cell
from quartic.bench.harness import Row
from quartic.bench.methods import LEAGUE
from quartic.bench.numbers import Number
from quartic.report.panels import Line, Panel

EPSILONS = (1e-2, 1e-3, 1e-6)
#: A run counts where its objective is within this share of the lowest (or has all but vanished).
_AS_LOW = 0.01
_GRAPHS = (("karate", 2), ("polbooks", 3), ("polblogs", 2), ("eu-core", 42), ("cora", 7))
SHAPES = ("helix", "swiss", "sphere", "cube", "cloud", "clusters", "field")
NOISE, KNOWN = (0.0, 0.01, 0.05), (0.02, 0.05, 0.1)


def choose_games(quick: bool = False) -> tuple[Cell, ...]:
    """Return the whole league, or a few minutes of it, in such an order that any first part is a fair sample."""
    kinds = ("planted", 2000), ("lfr", 2000), ("mixture", 2000), ("kernel", 800)
    drawn = [(f"{kind}-{n}-{k}", k) for kind, n in kinds for k in (8, 20)]
    graphs = [*((data, rank) for data in DATA for rank in RANKS), ("orl", 40), *_GRAPHS, *drawn]
    shapes = [(f"{shape}-2000-{known:g}-{noise:g}", 2 if shape == "field" else 3)
              for shape in SHAPES for noise in NOISE for known in KNOWN]  # fmt: skip
    if quick:
        drawn = [("planted-1000-8", 8), ("lfr-1000-8", 8), ("kernel-300-8", 8)]
        graphs = [("coil20", 20), ("reuters", 10), ("karate", 2), *drawn]
        shapes = [("helix-600-0.1-0", 3), ("cloud-600-0.05-0.05", 3), ("field-600-0.1-0.01", 2)]
    families = {"symnmf": graphs, "edmc": shapes, "stress": [s for s in shapes if s[0].endswith("-0.05")]}
    order = random.Random(0)
    placed: list[tuple[float, Cell]] = []
    for family, problems in families.items():
        starts = ("random", "spectral") if family != "stress" else ("spectral",)
        mine = [Cell(what, rank, family, start) for what, rank in problems for start in starts]
        order.shuffle(mine)
        placed += [((k + 0.5) / len(mine), game) for k, game in enumerate(mine)]
    return tuple(game for _, game in sorted(placed, key=lambda one: one[0]))


def profiles(rows: Sequence[Row], family: str, epsilon: float, measure: str) -> dict[str, Array]:
    """Return for each method, problem by problem, its measure over the best one's; infinity where it failed.

    The best entry of a grid stands for its rival. Problems that not all have played are left out.
    """
    found: dict[tuple[str, int], dict[str, float]] = {}
    played: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["case"].startswith(f"{family} "):
            played.setdefault((row["case"], row["seed"]), []).append(row)
    most = max(map(len, played.values()), default=0)
    for (case, seed), runs in played.items():
        if len(runs) < most:
            continue
        lowest = min((row["final"] for row in runs if math.isfinite(row.get("final", math.nan))), default=math.inf)
        floor = 1e-9 * max((row["first"] for row in runs if "first" in row), default=0.0)
        best: dict[str, float] = {}
        for row in runs:
            name, value = row["method"].split(" ")[0], row.get(f"{measure} to {epsilon:g}", math.inf)
            if row.get("final", math.inf) > (1 + _AS_LOW) * lowest + floor:
                value = math.inf
            best[name] = min(best.get(name, math.inf), float(value))
        if math.isfinite(min(best.values(), default=math.inf)):
            found[case, seed] = best
    names = dict.fromkeys(name for best in found.values() for name in best)
    least = [min(best.values()) for best in found.values()]
    return {
        name: np.array(
            [best.get(name, math.inf) / max(low, 1e-12) for best, low in zip(found.values(), least, strict=True)]
        )
        for name in names
    }


def league_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return of each method at each ε the shares of problems within 1.2, 2 and 10 of the best, and its worst ratio."""
    numbers = []
    for family in LEAGUE:
        for epsilon in EPSILONS:
            for measure, words in (("s", "time"), ("products", "products")):
                found = profiles(rows, family, epsilon, measure)
                case = f"{family} ({words}, ε = {epsilon:g}, {len(next(iter(found.values()), ()))} problems)"
                for name, ratio in found.items():
                    shares = {f: float(np.mean(ratio <= f * (1 + 1e-9))) for f in (1.0, 1.2, 2.0, 10.0)}
                    facts = {f"within {factor:g}": share for factor, share in shares.items()}
                    compared = np.log(ratio / found.get("auto", np.inf))
                    if np.isfinite(compared).any():
                        facts["over auto's"] = math.exp(float(np.mean(compared[np.isfinite(compared)])))
                    facts["at worst"] = float(ratio[np.isfinite(ratio)].max(initial=0.0))
                    numbers += [Number(section, case, name, *fact) for fact in facts.items()]
    return numbers


def profile_panels(rows: Sequence[Row]) -> list[Panel]:
    """Return the profiles in time, a panel for each family and ε."""
    at = np.geomspace(1, 30, 300)
    found = {(f, e): profiles(rows, f, e, "s") for f in LEAGUE for e in EPSILONS}
    return [
        Panel(f"{family}, ε = {epsilon:g}", [
            Line(name, at, np.array([(ratio <= factor).mean() for factor in at])) for name, ratio in ratios.items()
        ])
        for (family, epsilon), ratios in found.items() if found[family, EPSILONS[0]]
    ]  # fmt: skip
