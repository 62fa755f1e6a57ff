"""The league: our solvers and their rivals from the same starts, on shapes that nobody tuned for.

Seconds and products until stationarity is ε of that at the paper's random start, as performance profiles (Dolan and
Moré 2002): for each method the share of the problems on which it is within a factor τ of the best. Rivals with a
parameter are entered once for each value of a printed grid, and the best of them counts, problem by problem. A run
counts only where it ends as low as the others: within 1 % of the lowest.

``python -m quartic.bench.league`` does without the packages of the command line, shares the cases out among processes,
and writes table and picture, again and again as rows come in. The cases are in such an order that those done when the
time given is over are a fair sample of all.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array
from quartic.bench.cases import DATA, RANKS, Recorder
from quartic.bench.harness import Row, Say, Store, describe_machine, fixed_threads, take_turns
from quartic.bench.methods import Answer, run_solver, with_scipy
from quartic.bench.numbers import Number, provenance, write_numbers
from quartic.core.loop import referee
from quartic.core.problem import Problem
from quartic.datasets import (
    DatasetNotFound,
    helix,
    load_graph,
    load_similarity,
    pair_distances,
    planted_graph,
    random_pairs,
    swiss_roll,
)
from quartic.graphs import similarity
from quartic.init import random_start, shortest_path_start, spectral_start
from quartic.losses import Distances, LeastSquares, RawStress
from quartic.penalties import Nonnegative
from quartic.solvers import ABPG, ADMM, LAI, SMACOF, SNMPBB, CoCaIn, Solver, SymANLS, SymHALS

EPSILONS = (1e-2, 1e-3, 1e-6)
#: A run counts where its objective is within this share of the lowest (or has all but vanished).
_AS_LOW = 0.01
_GRAPHS = (("karate", 2), ("polbooks", 3), ("polblogs", 2), ("eu-core", 42), ("cora", 7))
SHAPES = ("helix", "swiss", "sphere", "cube", "cloud", "clusters", "field")
NOISE, KNOWN = (0.0, 0.01, 0.05), (0.02, 0.05, 0.1)
# Table and picture are written so often, in seconds; when time is over, processes have this much to come to an end.
_EVERY, _GRACE = 60.0, 15.0

#: Who competes, by family: a name and its entries, those of one rival being the values of its grid.
METHODS: dict[str, dict[str, tuple[str | Solver, ...]]] = {
    "symnmf": {
        "auto": ("auto",),
        "face-cg": ("face-cg",),
        "inertial": ("inertial",),
        "lbfgs": ("lbfgs",),
        "snmpbb": (SNMPBB(), SNMPBB(memory=1), SNMPBB(alternate=False)),
        "pgncg": ("pgncg",),
        "lai": (LAI(mu=1e-2), LAI(mu=1e-1), LAI()),
        "cocain": (CoCaIn(first=1e-3), CoCaIn(first=1e-2)),
        "abpg": (ABPG(),),
        "dyn-nolips": ("dyn-nolips",),
        "hals": (SymHALS(1e-3), SymHALS(1e-2), SymHALS(1e-1)),
        "anls": (SymANLS(1e-2), SymANLS(1e-1)),
        "admm": (ADMM(1e-2), ADMM(1e-1)),
        "cd": ("cd",),
        "pg": ("pg",),
        "beta": ("beta",),
        "scipy": ("scipy",),
    },
    "edmc": {
        "auto": ("auto",),
        "lm": ("lm",),
        "ncg": ("ncg",),
        "lbfgs": ("lbfgs",),
        "inertial": ("inertial",),
        "tr": ("tr",),
        "dyn-nolips": ("dyn-nolips",),
        "gd": ("gd",),
        "scaledgd": ("scaledgd",),
        "cocain": (CoCaIn(first=1e-2), CoCaIn(first=1e-1)),
        "abpg": (ABPG(),),
        "scipy": ("scipy",),
    },
    "stress": {
        "auto": ("auto",),
        "lbfgs": ("lbfgs",),
        "smacof": (SMACOF(), SMACOF(1.5), SMACOF(1.9)),
        "scipy": ("scipy",),
    },
}


# -- the problems -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Game:
    """A problem from one kind of start; ``what`` and ``rank`` say which, ``seed`` draws what is drawn."""

    family: str
    what: str
    rank: int
    start: str
    seed: int

    def __str__(self) -> str:
        return f"{self.family} {self.what}:{self.rank} {self.start}"

    @cached_property
    def data(self) -> Any:
        """The matrix, or pairs and distances."""
        rng = np.random.default_rng(self.seed)
        return _matrix(self.what, rng) if self.family == "symnmf" else _distances(self.what, rng)

    def problem(self) -> Problem:
        """Return the problem with a loss of its own: constants that one run works out are not free for the next."""
        if self.family == "symnmf":
            return Problem(LeastSquares(self.data), Nonnegative())
        pairs, d, n = self.data
        return Problem(RawStress(pairs, d, n_points=n) if self.family == "stress" else Distances(pairs, d**2, n))

    @cached_property
    def judge(self) -> Problem:
        """The referee's own problem."""
        return self.problem()

    @cached_property
    def random(self) -> Array:
        """The random start, at which ε refers to stationarity."""
        rng = np.random.default_rng(self.seed + 1)
        if self.family == "symnmf":
            return random_start(self.judge, self.rank, rng)
        return self.judge.loss.random_start(self.rank, False, rng)

    @cached_property
    def X0(self) -> Array:
        """The start that all methods share: random, or spectral (for distances, scaled shortest paths)."""
        rng = np.random.default_rng(self.seed + 2)
        if self.start == "random":
            return self.random
        if self.family == "symnmf":
            return spectral_start(self.judge, self.rank, rng)
        pairs, d, n = self.data
        return shortest_path_start(pairs, d, n, self.rank, rng)

    def recorder(self, limits: Sequence[float], looks: float = math.inf) -> Recorder:
        """Return what watches a run, which ends after so many looks, or when its time for the next ε is over."""
        reference = referee(self.judge, self.random)[1]

        def measure(X: Array) -> Row:
            objective, stationarity = referee(self.judge, X)
            return {"error": stationarity / reference, "objective": objective}

        return _Patience(limits, looks, measure, EPSILONS, reference=reference)


class _Patience(Recorder):
    """A recorder with a limit of its own for each ε, and for the number of iterates."""

    def __init__(self, limits: Sequence[float], looks: float, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limits, self.looks = dict(zip(EPSILONS, limits, strict=True)), looks

    def see(self, X: Array, stationarity: float = 0.0, **facts: Any) -> None:
        self.looks -= 1
        self.limit = self.limits[max(self._waiting(), default=EPSILONS[-1])] if self.looks > 0 else -1.0
        super().see(X, stationarity, **facts)


def _matrix(what: str, rng: np.random.Generator) -> Any:
    """Return the matrix of a data set, or one drawn: planted-n-k, lfr-n-k, mixture-n-k, kernel-n-k (dense)."""
    if what in DATA or what == "orl":
        return load_similarity(what).matrix
    kind, *sizes = what.split("-")
    if not sizes or not sizes[-1].isdigit():
        return load_graph(what).adjacency
    n, k = map(int, sizes)
    if kind == "planted":
        return planted_graph(n, k, random_state=rng)[0]
    if kind == "lfr":
        return _uneven_graph(n, k, rng)
    points = rng.standard_normal((n, 5)) + 4 * rng.standard_normal((k, 5))[rng.integers(k, size=n)]
    if kind == "mixture":
        return similarity(points, "self_tuning")
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    K = np.exp(-squares / np.median(squares))
    return K / np.sqrt(np.outer(K.sum(axis=1), K.sum(axis=1)))


def _uneven_graph(n: int, k: int, rng: np.random.Generator) -> Any:
    """Return a graph whose degrees and communities are power laws, three edges in ten leaving their community."""
    degree = np.minimum(5 * (rng.pareto(1.5, n) + 1), 2 * math.sqrt(n))
    labels = np.sort(rng.choice(k, n, p=rng.dirichlet(np.full(k, 1.5))))
    ends = rng.choice(n, int(degree.sum() / 2), p=degree / degree.sum())
    others = rng.choice(n, len(ends), p=degree / degree.sum())
    inside = rng.random(len(ends)) < 0.7
    for label in np.unique(labels):
        members, mine = np.flatnonzero(labels == label), inside & (labels[ends] == label)
        others[mine] = rng.choice(members, mine.sum(), p=degree[members] / degree[members].sum())
    A = sp.coo_array((np.ones(len(ends)), (ends, others)), (n, n)).tocsr()
    A = ((A + A.T) > 0).astype(np.float64)
    A.setdiag(0)
    A.eliminate_zeros()
    return A.tocsr()


def _distances(what: str, rng: np.random.Generator) -> tuple[Any, Array, int]:
    """Return pairs and distances of a shape written shape-n-known-noise, and the number of points."""
    shape, size, known, noise = what.split("-")
    n = int(size)
    X: Array = rng.standard_normal((n, 3))
    if shape == "helix":
        X = helix(n, random_state=rng)
    elif shape == "swiss":
        X = swiss_roll(n, random_state=rng)
    elif shape == "sphere":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif shape == "cube":
        X = rng.random((n, 3))
    elif shape == "clusters":
        X = 0.2 * X + rng.standard_normal((5, 3))[rng.integers(5, size=n)]
    elif shape == "field":
        X = rng.random((n, 2))
    pairs = random_pairs(n, float(known), random_state=rng)
    exact = pair_distances(X, pairs)
    return pairs, exact * np.abs(1 + float(noise) * rng.standard_normal(len(pairs))), n


# -- running ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeagueSettings:
    """What `run_league` runs: at most so many seconds a run, all of them within a ``budget``.

    A run goes on for ``patience`` times what auto took, half a second at least: while it has not come to an ε, what
    auto took to the next one.
    """

    games: tuple[Game, ...] = ()
    seconds: float = 12.0
    patience: float = 4.0
    threads: int = 1
    name: str = "league"
    budget: float = math.inf

    @classmethod
    def choose(cls, quick: bool = False, only: str = "", seed: int = 0) -> LeagueSettings:
        """Return the whole league, or a few minutes of it."""
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
        placed: list[tuple[float, Game]] = []
        for family, problems in families.items():
            starts = ("random", "spectral") if family != "stress" else ("spectral",)
            mine = [Game(family, what, rank, start, seed) for what, rank in problems for start in starts]
            order.shuffle(mine)
            placed += [((k + 0.5) / len(mine), game) for k, game in enumerate(mine) if only in ("", family)]
        games = tuple(game for _, game in sorted(placed, key=lambda one: one[0]))
        return cls(games=games, seconds=5.0 if quick else 12.0, name="league-quick" if quick else "league")


def entries_of(family: str) -> dict[str, str | Solver]:
    """Return all entries by name; those of a grid are called by the rival's name and their settings."""
    found: dict[str, str | Solver] = {}
    for name, solvers in METHODS[family].items():
        for solver in solvers:
            found[name if isinstance(solver, str) else f"{name} {_settings_of(solver)}".strip()] = solver
    return found


def _settings_of(solver: Solver) -> str:
    return str(solver).partition("(")[2].rstrip(")")


def print_grids() -> str:
    """Return the grids in words."""
    lines = [f"{family}: {', '.join(entries_of(family))}" for family in METHODS]
    return "\n".join(lines)


def run_league(
    settings: LeagueSettings,
    folder: str | os.PathLike[str],
    say: Say,
    progress: Say,
    claim: Callable[[int], bool] = lambda k: True,
) -> Store:
    """Run what is not yet there, and return the runs; processes may do so at once, each with the games it can claim."""
    store = Store(folder, settings.name)
    until = time.time() + settings.budget
    known: set[Any] = set()

    def play(game: Game, entry: str | Solver, limits: Sequence[float], looks: float = math.inf) -> Row:
        recorder = game.recorder([min(limit, max(until - time.time(), 0.0)) for limit in limits], looks)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = _run(game, entry, recorder)
        except Exception as error:  # a rival that breaks down loses this game, not the league
            return {"cannot": f"{type(error).__name__}: {error}".partition("\n")[0]}
        found = recorder.finish(answer.X)
        first, final = (float(referee(game.judge, X)[0]) for X in (game.X0, answer.X))
        return {**found, "first": first, "final": final}

    def timed(game: Game, entry: str | Solver, seed: int) -> Row | None:
        limits = [settings.seconds] * len(EPSILONS)
        for row in store.find(case=str(game), method="auto"):
            took = [row.get(f"s to {epsilon:g}", math.inf) for epsilon in (*EPSILONS[1:], EPSILONS[-1])]
            limits = [min(settings.seconds, max(0.5, settings.patience * s)) for s in took]
        found = play(game, entry, limits) if time.time() < until else None
        return found if time.time() < until else None  # what was cut short tells nothing

    with fixed_threads(settings.threads) as found:
        agreed = {"seconds": settings.seconds, "patience": settings.patience, "threads": settings.threads}
        store.open(agreed, describe_machine(found))
        for k, game in enumerate(settings.games):
            entries = entries_of(game.family)
            done = all(store.find(case=str(game), method=name, seed=0) for name in entries)
            if done or time.time() >= until or not claim(k):
                continue
            try:
                _ = game.X0, game.random
            except (DatasetNotFound, ImportError) as error:
                say(f"{game.what} is left out: {error}")
                continue
            except ValueError as error:
                say(f"{game} is left out: {error}")
                continue
            kind = game.family, sp.issparse(game.data)
            for entry in entries.values():  # a few iterations each, to have everything compiled
                play(game, entry, [settings.seconds] * len(EPSILONS), looks=1 if kind in known else 12)
            known.add(kind)
            turns = {name: partial(timed, game, entry) for name, entry in entries.items()}
            take_turns(store, str(game), turns, range(1), progress, first=["auto"])
    return store


def _run(game: Game, entry: str | Solver, see: Recorder) -> Answer:
    if entry != "scipy":
        return run_solver(Game.problem, game.X0, entry, game, game.seed, 1e-9, see)
    problem, last = game.problem(), [game.judge.loss.at(game.X0)]

    def function(X: Array) -> tuple[float, Array]:
        last[0] = problem.loss.at(X)
        return float(last[0].value), last[0].gradient

    def show(X: Array) -> None:
        see.see(X, problem.stationarity(last[0]), products=problem.loss.n_products)

    bounds = {"bounds": [(0, None)] * game.X0.size} if game.family == "symnmf" else {}
    return with_scipy(function, game.X0, show, **bounds)


# -- profiles ---------------------------------------------------------------------------------------------------------


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
    for family in METHODS:
        for epsilon in EPSILONS:
            for measure, words in (("s", "time"), ("products", "products")):
                found = profiles(rows, family, epsilon, measure)
                case = f"{family} ({words}, ε = {epsilon:g}, {len(next(iter(found.values()), ()))} problems)"
                for name, ratio in found.items():
                    for factor in (1.0, 1.2, 2.0, 10.0):
                        share = float(np.mean(ratio <= factor * (1 + 1e-9)))
                        numbers.append(Number(section, case, name, f"within {factor:g}", share))
                    if "auto" in found:
                        both = np.isfinite(ratio) & np.isfinite(found["auto"])
                        if both.any():
                            mean = math.exp(float(np.mean(np.log(ratio[both] / found["auto"][both]))))
                            numbers.append(Number(section, case, name, "over auto's", mean))
                    numbers.append(
                        Number(section, case, name, "at worst", float(ratio[np.isfinite(ratio)].max(initial=0.0)))
                    )
    return numbers


def draw_profiles(rows: Sequence[Row], path: str | os.PathLike[str]) -> None:
    """Draw the profiles in time, a panel for each family and ε."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from quartic.report.panels import STYLES

    families = [family for family in METHODS if profiles(rows, family, EPSILONS[0], "s")]
    if not families:
        return
    figure = Figure(figsize=(13, 3.4 * len(families)), layout="constrained")
    axes = figure.subplots(len(families), len(EPSILONS), squeeze=False)
    at = np.geomspace(1, 30, 300)
    for line, family in zip(axes, families, strict=True):
        for axis, epsilon in zip(line, EPSILONS, strict=True):
            for name, ratio in profiles(rows, family, epsilon, "s").items():
                colour, dashed = STYLES.get(name, (None, name != "face-cg"))
                share = [(ratio <= factor).mean() for factor in at]
                axis.plot(at, share, color=colour, linestyle="--" if dashed else "-", label=name,
                          linewidth=2.2 if name == "auto" else 1.3)  # fmt: skip
            axis.set(
                xscale="log", ylim=(0, 1.02), title=f"{family}, ε = {epsilon:g}", xlabel="times the best one's seconds"
            )
        line[0].set_ylabel("share of problems")
        line[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=7)  # beside the curves
    FigureCanvasAgg(figure).print_figure(path, dpi=110)


# -- without the packages of the command line -------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> None:
    """Run the league in several processes, pinned, and write the table to ``<folder>/league.csv``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", choices=["", *METHODS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=12.0, help="limit on one run")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which all ends in good order")
    parser.add_argument("--results", default="results")
    parser.add_argument("--claims", nargs=2, help=argparse.SUPPRESS)  # folder, and which of the processes this is
    words = sys.argv[1:] if words is None else words
    given = parser.parse_args(words)
    settings = LeagueSettings.choose(given.quick, given.only, given.seed)
    settings = replace(settings, seconds=given.seconds, budget=given.budget)
    if given.claims is not None:
        folder, part = given.claims
        with suppress(AttributeError, OSError):  # only Linux pins
            os.sched_setaffinity(0, {int(part) % (os.cpu_count() or 1)})
        run_league(settings, given.results, print, lambda line: None, partial(_claim, folder))
        return
    print(print_grids(), flush=True)
    if given.processes > 1:
        _share_out(settings, words, given.processes, given.results)
    else:
        run_league(settings, given.results, print, lambda line: None)
    for n in _write_table(settings, given.results):
        if n.method in ("auto", "snmpbb", "scipy") or n.measure == "over auto's":
            print(n.case, n.method, n.measure, n.words)


def _share_out(settings: LeagueSettings, words: Sequence[str], processes: int, results: str) -> None:
    """Let processes claim games until all are done or the time is over; what hangs then is ended, its rows are kept."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, "QUARTIC_PROCESSES": str(processes), **one}
    end = time.monotonic() + settings.budget
    written = time.monotonic()
    with tempfile.TemporaryDirectory() as claims:
        command = [sys.executable, "-m", "quartic.bench.league", *words, "--claims", claims]
        children = [subprocess.Popen([*command, str(k)], env=environment) for k in range(processes)]
        try:
            while any(child.poll() is None for child in children) and time.monotonic() < end + _GRACE:
                time.sleep(0.2)
                if time.monotonic() > written + _EVERY:
                    _write_table(settings, results)
                    written = time.monotonic()
        finally:
            for child in children:
                child.kill()
                child.wait()


def _claim(folder: str, k: int) -> bool:
    """Tell whether nobody else has the game."""
    try:
        os.close(os.open(Path(folder) / str(k), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _write_table(settings: LeagueSettings, results: str) -> list[Number]:
    """Write table and picture of the rows that are there, and return the numbers."""
    store = Store(results, settings.name)
    numbers = [*provenance(store, "league", "python -m quartic.bench.league"), *league_numbers(store.rows, "league")]
    write_numbers(Path(results) / "league.csv", numbers)
    with suppress(ImportError):
        draw_profiles(store.rows, Path(results) / "league.png")
    return numbers


if __name__ == "__main__":
    main()
