"""How many times faster is ``auto``? Symmetric NMF on the cells of Table 1, distance completion on the helix.

Symmetric NMF: time to ε = 1e-3 of the random start's projected gradient. μ of SymHALS is the best of a grid by mean
time, each μ from every start. ``auto`` is what `quartic.SymNMF` does: it makes a start of its own, whose time counts;
the inertial method from the random start is shown beside it. Distance completion: time to a normalised RMSE of 1e-6,
sorting of the pairs counted. Methods take turns, start by start, in an order that is shuffled; compiled code is warmed
up; one that needs many times what ``auto`` took (40 times for symmetric NMF, 120 for pymanopt, 300 for others, 3000
with a gradient in NumPy) is out.

SciPy and pymanopt are given our compiled gradient, which is what the goals are for; a column beside it has pymanopt
with cost and gradient as its user would write them in NumPy, for conjugate gradients, the fastest of its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.bench.contestants import contestant
from quartic.bench.edmc import Helix, warm_cases
from quartic.bench.peers_edmc import PEERS, CannotDo, Enough, Keeper, quartic_solver
from quartic.bench.symnmf import Case, Cell, run_once, warm_up
from quartic.bench.timing import Spread
from quartic.datasets import DatasetNotFound

_MU = (1e-3, 1e-2, 1e-1, 1.0)
SYMNMF = {name: contestant(name) for name in ("auto", "inertial", "dyn-nolips")} | {
    f"hals μ={mu:g}": contestant("hals", mu) for mu in _MU
}
EDMC = {
    "auto": quartic_solver("auto"),
    "dyn-nolips, Gram kernel": quartic_solver("dyn-nolips"),
    **{name: run for name, run in PEERS.items() if name.startswith("pymanopt") or "our gradient" in name},
}

Row = dict[str, Any]


@dataclass(frozen=True)
class SpeedSettings:
    """What is measured; seeds from 100, since the starts were tuned on smaller ones."""

    data: tuple[str, ...] = ("coil20", "cbcl", "tdt2", "reuters")
    ranks: tuple[int, ...] = (10, 20, 30, 40)
    helices: tuple[tuple[int, float], ...] = ((2000, 0.1), (2000, 0.05), (5000, 0.1), (5000, 0.05))
    starts: int = 3
    first_seed: int = 100
    epsilon: float = 1e-3
    rmse: float = 1e-6

    @classmethod
    def quick(cls) -> SpeedSettings:
        """Return settings for a few minutes."""
        return cls(data=("coil20", "reuters"), ranks=(10, 30), helices=((1000, 0.1),), starts=2)

    @property
    def seeds(self) -> range:
        """The seeds of the starts."""
        return range(self.first_seed, self.first_seed + self.starts)


def run_speed(settings: SpeedSettings, say: Callable[[str], None]) -> list[Row]:
    """Measure every cell on one thread, and return a row for each."""
    rows = []
    for name in settings.data:
        for rank in settings.ranks:
            try:
                case = Cell(name, rank).load()
            except DatasetNotFound as missing:
                say(str(missing))
                break
            rows.append(symnmf_row(case, settings))
            say(speed_line(rows[-1]))
    for n, known in settings.helices:
        rows.append(edmc_row(Helix(n, known), settings))
        say(speed_line(rows[-1]))
    return rows


def symnmf_row(case: Case, settings: SpeedSettings) -> Row:
    """Return the ratios of one cell."""
    for who in SYMNMF.values():
        warm_up(case, who)
    runs: dict[str, list[Row]] = {name: [] for name in SYMNMF}
    for seed in settings.seeds:
        for name in _order(SYMNMF, seed):
            if any("seconds" not in run for run in runs[name]):
                continue
            limit = 60.0 if name == "auto" else max(1.0, 40 * runs["auto"][0].get("seconds", 60.0))
            runs[name] += run_once(case, SYMNMF[name], seed, [settings.epsilon], limit)
    arrived = {k: v for k, v in runs.items() if len(v) == settings.starts and all("seconds" in run for run in v)}
    seconds = {name: [run["seconds"] for run in mine] for name, mine in arrived.items()}
    hals = min((k for k in seconds if k.startswith("hals")), key=lambda k: float(np.mean(seconds[k])), default=None)
    row: Row = {"case": f"{case.cell.data}, r = {case.cell.rank}", "kind": "symnmf", "best": hals}
    row |= _ratios(seconds, {"hals": hals, "dyn-nolips": "dyn-nolips", "inertial": "inertial"})
    row["products"] = {name: float(np.mean([run["products"] for run in mine])) for name, mine in arrived.items()}
    if "auto" in arrived:
        means = {name: float(np.mean([run["objective"] for run in mine])) for name, mine in arrived.items()}
        row["objective over the best"] = means["auto"] / min(means.values()) - 1
    return row


def edmc_row(case: Helix, settings: SpeedSettings) -> Row:
    """Return the ratios on one helix."""
    methods = dict(EDMC)
    for name, run in EDMC.items():
        for warm in warm_cases():
            try:
                with suppress(Enough):
                    run(warm, 0, 1e-2, Keeper(0.5, wall=False))
            except CannotDo:
                methods.pop(name, None)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for seed in settings.seeds:
        for name in _order(methods, seed):
            if any(not np.isfinite(value) for value in seconds[name]):
                continue
            most = 3000 if "NumPy" in name else 120 if name.startswith("pymanopt") else 300
            limit = 60.0 if name == "auto" else max(1.0, most * seconds["auto"][0])
            keeper = Keeper(limit, wall=False)
            with suppress(Enough):
                methods[name](case, seed, 0.01 * settings.rmse, keeper)
            reached = keeper.first_below(settings.rmse, case.error)
            seconds[name].append(np.inf if reached is None else reached)
    arrived = {k: v for k, v in seconds.items() if len(v) == settings.starts and np.isfinite(v).all()}
    best = {
        "scipy": _fastest(arrived, "scipy"),
        "pymanopt": _fastest({k: v for k, v in arrived.items() if "NumPy" not in k}, "pymanopt"),
        "pymanopt, NumPy": _fastest({k: v for k, v in arrived.items() if "NumPy" in k}, "pymanopt"),
        "dyn-nolips": "dyn-nolips, Gram kernel",
    }
    return {"case": f"helix, n = {case.n}, {100 * case.known:g} %", "kind": "edmc", **_ratios(arrived, best)}


def _order(names: Any, seed: int) -> list[str]:
    others = [name for name in names if name != "auto"]
    np.random.default_rng(seed).shuffle(others)
    return ["auto", *others]


def _fastest(seconds: dict[str, list[float]], part: str) -> str | None:
    return min((k for k in seconds if part in k.lower()), key=lambda k: float(np.mean(seconds[k])), default=None)


def _ratios(seconds: dict[str, list[float]], names: dict[str, str | None]) -> Row:
    """Return, over ``auto``, the ratio of the mean times, and the spread of the ratios start by start."""
    row: Row = {}
    if "auto" not in seconds:
        return row
    for label, name in names.items():
        if name in seconds:
            each = [a / b for a, b in zip(seconds[name], seconds["auto"], strict=True)]
            row[label] = float(np.mean(seconds[name]) / np.mean(seconds["auto"]))
            row[f"{label} spread"] = Spread.of(each)
    return row


_COLUMNS = {
    "symnmf": ("hals", "dyn-nolips", "inertial"),
    "edmc": ("dyn-nolips", "scipy", "pymanopt", "pymanopt, NumPy"),
}


def speed_line(row: Row) -> str:
    """Return one row in Markdown: case, then mean ratio and spread over starts for each column."""
    cells = [row["case"]]
    for name in _COLUMNS[row["kind"]]:
        cells.append(f"{row[name]:.1f} ({row[f'{name} spread'].low:.1f}–{row[f'{name} spread'].high:.1f})"
                     if name in row else "not reached")  # fmt: skip
    if row["kind"] == "symnmf":
        made = row["products"]
        names = [name for name in ("auto", "inertial", row["best"], "dyn-nolips") if name in made]
        cells.append(", ".join(f"{made[name]:.0f}" for name in names))
        over = row.get("objective over the best")
        cells.append("" if over is None else f"{100 * over:+.3f} %")
    return f"| {' | '.join(cells)} |"


def speed_table(rows: list[Row]) -> str:
    """Return both tables, and what they come to."""
    lines = []
    symnmf = [row for row in rows if row["kind"] == "symnmf"]
    if symnmf:
        lines += [
            "| cell | hals (best μ) / auto | dyn-nolips / auto | inertial, random start / auto "
            "| products: auto, inertial, hals, dyn | objective over the best |",
            "|---" * 6 + "|", *map(speed_line, symnmf),
        ]  # fmt: skip
        words = [_summary(symnmf, "hals"), _summary(symnmf, "dyn-nolips")]
        over = max((row.get("objective over the best", np.nan) for row in symnmf), default=np.nan)
        lines += ["", f"{'; '.join(words)}; objective at most {100 * over:+.3f} % over the best.", ""]
    edmc = [row for row in rows if row["kind"] == "edmc"]
    if edmc:
        lines += [
            "| helix | dyn-nolips (Gram) / auto | SciPy L-BFGS-B, given our compiled gradient / auto "
            "| best of pymanopt, given our compiled gradient / auto | best of pymanopt, with NumPy / auto |",
            "|---" * 5 + "|", *map(speed_line, edmc), "",
            f"{'; '.join(_summary(edmc, name) for name in _COLUMNS['edmc'])}.",
        ]  # fmt: skip
    return "\n".join(lines)


def _summary(rows: list[Row], name: str) -> str:
    found = [row[name] for row in rows if name in row]
    return f"{name}: mean {np.mean(found):.1f}, least {np.min(found):.1f}" if found else f"{name}: not reached"
