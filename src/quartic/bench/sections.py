"""The sections that are races: the paper's table and figures, how much faster we are, other libraries, the league.

All are run by one loop: cases, methods, starts, one referee. A section differs by who takes part, what is to be
reached, and what its runs come to.

The league has our solvers and their rivals from the same starts, on shapes that nobody tuned for: seconds and products
until stationarity is ε of that at the paper's random start, as performance profiles (Dolan and Moré 2002), for each
method the share of the problems on which it is within a factor τ of the best. Rivals with a parameter are entered once
for each value of a grid, and the best of them counts, problem by problem. A run counts only where it ends as low as
the others: within 1 % of the lowest.
"""

from __future__ import annotations

import math
import os
import random
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.bench.cases import DATA, PAPER, RANKS, Cell, Recorder
from quartic.bench.harness import Row, Say, Store, describe_machine, one_thread, take_turns
from quartic.bench.methods import EDMC, GRIDS, LEAGUE, METHODS, SOLVERS, SYMNMF, Answer, CannotDo, Method, methods_of
from quartic.bench.numbers import Number, best_of, headline, summarise
from quartic.datasets import DatasetNotFound
from quartic.metrics import nmi
from quartic.plots import Axes, Line, Panel, average

_LEAGUE_EPSILONS = (1e-2, 1e-3, 1e-6)
#: A run counts where its objective is within this share of the lowest (or has all but vanished).
_AS_LOW = 0.01
_GRAPHS = (("karate", 2), ("polbooks", 3), ("polblogs", 2), ("eu-core", 42), ("cora", 7))
SHAPES = ("helix", "swiss", "sphere", "cube", "cloud", "clusters", "field")
NOISE, KNOWN = (0.0, 0.01, 0.05), (0.02, 0.05, 0.1)

#: The paper's ε, and what it becomes where squared norms are compared, as the authors' code does.
EPSILONS = (1e-3, 0.0316)
#: Those that set the time that others may take; ours are also those that stop by themselves.
OURS = ("SymNMF.fit", "DistanceCompletion.fit_pairs")
_BY_THEMSELVES = (*OURS, "quartic cluster", "quartic locate")
_HEADLINES = {OURS[0]: "all", "inertial, random start": "all, same start", OURS[1]: "all helices",
              "minimize, auto": "all helices, minimize"}  # fmt: skip
_FAMILIES = ("SymHALS, spectral start", "SymHALS", "pymanopt")


@dataclass(frozen=True)
class Settings:
    """What a section runs: cases, methods by name, starts from a first seed on, and for how long.

    A run ends when the ``targets`` are reached (where there are none, those of the case) or after ``seconds``; with
    ``patience``, after so many times what the pacemaker took from the same start, at least ``least``. ``curve``: a run
    is followed to its end. ``tol`` is that of our solvers.
    """

    name: str
    cases: tuple[Cell, ...]
    methods: tuple[str, ...]
    starts: int = 10
    first_start: int = 0
    targets: tuple[float, ...] = ()
    seconds: float = 60.0
    patience: float = 0.0
    least: float = 1.0
    curve: bool = False
    tol: float = 0.0
    pacemakers: tuple[str, ...] = (*OURS, "dyn-nolips")

    def must_agree(self) -> Row:
        """Return what the runs of one file share, whatever part of it was asked for."""
        part = ("name", "cases", "methods", "starts", "first_start")
        return {name: value for name, value in asdict(self).items() if name not in part}


def settings_of(name: str, quick: bool = False) -> Settings:
    """Return what a section runs: hours as a rule, a few minutes where it is to be quick."""
    cells = tuple(Cell(data, rank) for data in DATA for rank in RANKS)
    few = (Cell("coil20", 20), Cell("cbcl", 10), Cell("tdt2", 10), Cell("reuters", 10))
    exact = (Cell.helix(2000), Cell.helix(5000), Cell.helix(2000, 0.05), Cell.helix(5000, 0.05))
    noisy = Cell.helix(2000, 0.1, 0.05), Cell.helix(5000, 0.1, 0.05)
    tuned = with_penalties(SOLVERS)
    roughly = with_penalties(SOLVERS, (1e-2, 1e-1))
    # seeds from 100, since the starts were tuned on smaller ones
    rivals = tuple(dict.fromkeys(name for entries in LEAGUE.values() for name in entries))
    race: dict[str, Any] = {"first_start": 100, "targets": (1e-3,), "patience": 100.0, "tol": 1e-8}
    racers = [name for name in (*SYMNMF, *EDMC) if name not in (*tuned, *METHODS)]
    speed, peers = (
        tuple(name for name in racers if not any(word in name for word in leave))
        for leave in (("scikit-learn", "NetworkX"), ("μ=", "random", "Dyn"))
    )
    whole = {
        "table1": Settings("table1", cells, tuned, targets=EPSILONS, patience=10.0),
        "figure1": Settings("figure1", (Cell("coil20", 20), Cell("cbcl", 20), Cell("tdt2", 30), Cell("reuters", 30)),
                            roughly, seconds=20.0, curve=True, tol=1e-7),
        "figure2": Settings("figure2", exact, METHODS, targets=(1e-4, 1e-6, 1e-8, 1e-9), curve=True, tol=1e-12),
        "speed": Settings("speed", (*cells, *exact, *noisy), speed, 3, **race),
        "peers": Settings("peers", (Cell("coil20", 20), Cell("tdt2", 30), Cell("reuters", 25), Cell.helix(2000),
                                    Cell.helix(300, 1.0)), peers, 3, **race),
        "league": Settings("league", choose_games(quick), rivals, 1, targets=_LEAGUE_EPSILONS, seconds=12.0,
                           patience=4.0, least=0.5, tol=1e-9, pacemakers=("auto",)),
    }  # fmt: skip
    shorter: dict[str, dict[str, Any]] = {
        "table1": {"cases": few, "starts": 2, "methods": roughly, "seconds": 10.0, "patience": 3.0, "least": 0.5},
        "figure1": {"cases": few, "starts": 1, "seconds": 3.0},
        "figure2": {"cases": (Cell.helix(2000), Cell.helix(2000, 0.05)), "starts": 2, "seconds": 10.0},
        "speed": {"cases": (*few[:1], Cell("reuters", 30), Cell.helix(1000), Cell.helix(1000, 0.1, 0.05)), "starts": 2},
        "peers": {"cases": (Cell("coil20", 20), Cell.helix(600), Cell.helix(150, 1.0)), "starts": 1, "seconds": 10.0},
        "league": {"seconds": 5.0},
    }  # fmt: skip
    return replace(whole[name], name=f"{name}-quick", **shorter[name]) if quick else whole[name]


def with_penalties(solvers: Sequence[str], grid: Sequence[float] = ()) -> tuple[str, ...]:
    """Return the methods of these solvers: tuned ones once for each penalty, of ``grid`` or of their own."""
    found = [[f"{name} {p:g}" for p in grid or GRIDS[name]] if name in GRIDS else [name] for name in solvers]
    return tuple(name for names in found for name in names)


# -- the runs ---------------------------------------------------------------------------------------------------------


def run_section(settings: Settings, folder: str | os.PathLike[str], say: Say, progress: Say) -> Store:
    """Run what is not yet there, and return the runs; several processes may do so at once."""
    store = Store(folder, settings.name)
    seeds = range(settings.first_start, settings.first_start + settings.starts)
    absent: set[str] = set()  # packages and data sets that are not there

    def attempt(case: Cell, name: str, method: Method, seed: int) -> Row | None:
        """Run a method for those targets that it has reached from every start before; nothing where none is left."""
        targets: Sequence[float] = settings.targets
        if case.is_helix and not settings.curve:
            targets = (case.target,)
        others = [row for row in store.find(case=str(case), method=name) if row["seed"] != seed]
        seconds_to = {t: "s" if len(targets) == 1 else f"s to {t:g}" for t in targets}
        left = [t for t in targets if settings.curve or all(seconds_to[t] in row for row in others)]
        if name in absent or (targets and not left):
            return None
        pace = [row for who in settings.pacemakers for row in store.find(case=str(case), method=who, seed=seed)]
        limit, hardest = settings.seconds, seconds_to[min(targets)] if targets else ""
        if settings.patience and pace and hardest in pace[0]:
            limit = min(limit, max(settings.least, settings.patience * pace[0][hardest]))
        recorder = case.recorder(seed, left, limit, curve=settings.curve)
        try:
            answer = run_method(case, name, method, seed, settings.tol, recorder)
        except CannotDo as why:
            return {"cannot": str(why)}
        except ImportError as error:
            absent.add(name)
            say(f"{name} is left out: {error}")
            return None
        except Exception as error:  # a rival that breaks down loses this race, no other
            if name in _BY_THEMSELVES:
                raise
            return {"cannot": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        return _judge(case, recorder, answer, len(targets) == 1)

    with one_thread() as found:
        store.open(settings.must_agree(), describe_machine(found))
        warm: list[Method] = []
        for given in settings.cases:
            known = methods_of(given)
            methods = {name: known[name] for name in settings.methods if name in known}
            if all(store.find(case=str(given), method=name, seed=seed) for name in methods for seed in seeds):
                continue
            try:
                case = given.load()
            except (DatasetNotFound, ImportError, ValueError) as error:
                if str(error) not in absent:
                    say(str(error) if isinstance(error, DatasetNotFound) else f"{given} is left out: {error}")
                absent.add(str(error))
                continue
            cold = {name: method for name, method in methods.items() if case in case.smalls or method not in warm}
            _warm_up(case, cold)
            warm += cold.values()
            first = [name for name in settings.pacemakers if name in methods]
            turns = {name: partial(attempt, case, name, run) for name, run in methods.items()}
            take_turns(store, str(case), turns, seeds, progress, first)
    return store


def run_method(case: Cell, name: str, method: Method, seed: int, tol: float, recorder: Recorder) -> Answer:
    """Run a method; solvers are stopped by the referee, and a tolerance far below keeps them going until then."""
    with warnings.catch_warnings():  # of noise, and of settings of other libraries that we chose
        warnings.simplefilter("ignore")
        return method(case, seed, recorder.targets[0] if name in _BY_THEMSELVES else tol, recorder)


def _warm_up(case: Cell, methods: dict[str, Method]) -> None:
    """Run methods on something small, so that all is compiled; the second run gets further than the first."""
    for name, method in methods.items():
        for small in case.smalls if not name.startswith("quartic ") else ():  # those have a process of their own
            for _ in range(2):
                with suppress(Exception):  # said when it counts
                    run_method(small, name, method, 0, 1e-8, small.recorder(0, [1e-2], 0.1))


def _judge(case: Cell, recorder: Recorder, answer: Answer, single: bool) -> Row:
    """Return a run's row: seconds to each target, or of all where there is none to reach, products, objective, NMI."""
    row = recorder.finish(answer.X)
    if recorder.curve is not None:
        scale = 1.0 if case.is_helix else float((case.given[0].data ** 2).sum())
        what = "error" if case.is_helix else "objective"
        return {**row, "curve": [(t, measured[what] / scale) for t, measured in recorder.curve]}
    if single:
        row = {name.partition(" to ")[0]: value for name, value in row.items()}
    if answer.seconds is not None or answer.X is None:
        row["s"] = row["spent"] if answer.seconds is None else answer.seconds
    if answer.products is not None:
        row["products"] = answer.products
    if case.is_helix:
        return row
    if case.begin:
        return {**row, "first": case.measure(case.start(case.seed))["objective"],
                "final": case.measure(answer.X)["objective"]}  # fmt: skip
    if case.given[1] is not None:
        row["nmi"] = float(nmi(case.given[1], answer.X.argmax(axis=1) if answer.labels is None else answer.labels))
    return row


# -- what they come to ------------------------------------------------------------------------------------------------


def section_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return the numbers of a section; those of ``speed`` are of two, ``symnmf`` and ``edmc``."""
    if section == "league":
        return league_numbers(rows, section)
    if section in ("speed", "peers"):
        return _race_numbers(rows, section)
    targets = [name[1:] for name in dict.fromkeys(name for row in rows for name in row) if name.startswith("s to ")]
    found = summarise(section, rows, [f"{word}{to}" for to in targets for word in ("s", "products", "objective")])
    if section != "table1":
        return found
    # a tuned solver has, in each cell and for each target, its fastest penalty by mean time
    numbers = []
    for to in targets:
        for solver in dict.fromkeys(row["method"].partition(" ")[0] for row in rows):
            mine = [n for n in found if n.measure.endswith(to) and n.method.partition(" ")[0] == solver]
            best = best_of(mine, solver, f"s{to}") if mine else []
            numbers += [n._replace(measure=f"which{to}") if n.measure == "which" else n for n in best]
    for case in dict.fromkeys(row["case"] for row in rows):
        numbers += [Number("table1", case, who, "s in the paper", s) for who, s in PAPER.get(case, {}).items()]
    return numbers


def _race_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return means over the starts, the best of families under one name, and how many times faster we are."""
    cases = [*map(str, settings_of(section).cases), *(row["case"] for row in rows)]
    methods = [*SYMNMF, *EDMC]  # runs are there as they took turns
    rows = sorted(rows, key=lambda row: (cases.index(row["case"]), methods.index(row["method"])))
    numbers = summarise(section, rows, ["s", "products", "objective", "error", "nmi"])
    for family in _FAMILIES if section == "speed" else ():
        mine = [n for n in numbers if n.method.startswith(family) and "best" not in n.method]
        numbers = [n for n in numbers if n not in mine] + (best_of(mine, f"{family}, best", "s") if mine else [])
    exact = [n for n in numbers if n.case.count(":") < 2]
    for over, case in _HEADLINES.items():
        numbers += headline(section, exact, "s", over, case)
    cannot = {(r["case"], r["method"]): r["cannot"] for r in rows if "cannot" in r}
    numbers += [Number(section, *key, "cannot", why) for key, why in cannot.items()]
    if section == "peers":
        return numbers
    return [n._replace(section="edmc" if "heli" in n.case else "symnmf") for n in numbers]


AXES = {
    "figure1": Axes("seconds", "(f(Xᵏ) − f_min) / ‖M‖²", floor=1e-8),
    "figure2": Axes("seconds", "normalised RMSE over all distances", floor=1e-10),
    "league": Axes("times the best one's seconds", "share of problems", floor=0.0, columns=len(_LEAGUE_EPSILONS)),
}


def panels_of(name: str, rows: Sequence[Row]) -> list[Panel]:
    """Return the mean curves of a figure, one panel for each case, over the starts that all methods have."""
    if name == "league":
        return profile_panels(rows)
    panels = []
    for case in dict.fromkeys(row["case"] for row in rows):
        runs: dict[str, dict[int, list[list[float]]]] = {}
        for row in (row for row in rows if row["case"] == case):
            runs.setdefault(row["method"], {})[row["seed"]] = row["curve"]
        least = min(v for mine in runs.values() for curve in mine.values() for _, v in curve) * (name == "figure1")
        seeds = set.intersection(*map(set, runs.values())) or set.union(*map(set, runs.values()))
        lines: dict[str, Line] = {}
        for method in (m for m in runs if seeds & set(runs[m])):
            curves = [np.array(runs[method][seed]).T for seed in seeds & set(runs[method])]
            line = Line(method.split()[0], *average([(times, values - least) for times, values in curves]))
            if line.name not in lines or line.values[-1] < lines[line.name].values[-1]:
                lines[line.name] = line  # of a tuned solver, the penalty that ends lower
        order = dict.fromkeys((*SOLVERS, *METHODS))
        panels.append(Panel(f"{case}, mean of {len(seeds)} start(s)", [lines[m] for m in order if m in lines]))
    return panels


# -- the league --------------------------------------------------------------------------------------------------------


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

    The best entry of a grid stands for its rival. Problems that not all have played are left out. What two methods
    have computed alike to the last bit, as ``auto`` and its choice have, takes the less of their two times.
    """
    found: list[dict[str, float]] = []
    played: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["case"].startswith(f"{family} "):
            played.setdefault((row["case"], row["seed"]), []).append(row)
    most = max(map(len, played.values()), default=0)
    for runs in (runs for runs in played.values() if len(runs) == most):
        lowest = min((row["final"] for row in runs if math.isfinite(row.get("final", math.nan))), default=math.inf)
        floor = 1e-9 * max((row["first"] for row in runs if "first" in row), default=0.0)
        best: dict[str, float] = {}
        alike: dict[tuple[object, ...], float] = {}
        for row in runs:
            value = float(row.get(f"{measure} to {epsilon:g}", math.inf))
            alike[_trace(row)] = min(alike.get(_trace(row), math.inf), value)
        for row in runs:
            name, failed = row["method"].split(" ")[0], row.get("final", math.inf) > (1 + _AS_LOW) * lowest + floor
            best[name] = min(best.get(name, math.inf), math.inf if failed else alike[_trace(row)])
        low = min(best.values(), default=math.inf)
        if math.isfinite(low):
            found.append({name: value / max(low, 1e-12) for name, value in best.items()})
    names = dict.fromkeys(name for ratios in found for name in ratios)
    return {name: np.array([ratios.get(name, math.inf) for ratios in found]) for name in names}


def _trace(row: Row) -> tuple[object, ...]:
    """Return what tells one computation from another: the objective at the end, and the products to each ε."""
    return row.get("final", row["method"]), *(row.get(f"products to {epsilon:g}") for epsilon in _LEAGUE_EPSILONS)


def league_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return of each method at each ε the shares of problems within 1.2, 2 and 10 of the best, and its worst ratio."""
    numbers = []
    for family in LEAGUE:
        for epsilon in _LEAGUE_EPSILONS:
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
    found = {(f, e): profiles(rows, f, e, "s") for f in LEAGUE for e in _LEAGUE_EPSILONS}
    return [
        Panel(f"{family}, ε = {epsilon:g}", [
            Line(name, at, np.array([(ratio <= factor).mean() for factor in at])) for name, ratio in ratios.items()
        ])
        for (family, epsilon), ratios in found.items() if found[family, _LEAGUE_EPSILONS[0]]
    ]  # fmt: skip
