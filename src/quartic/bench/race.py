"""Who is how much faster: estimators and command line as a user calls them, beside solvers and other libraries."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from quartic.bench.cases import DATA, RANKS, Case, Cell, Helix, Recorder, load_cells, warm_helices
from quartic.bench.harness import Row, Say, Settings, Store, measuring, take_turns
from quartic.bench.methods import EDMC, SYMNMF, Answer, CannotDo, Method
from quartic.bench.numbers import Number, best_of, headline, summarise

#: Ours, beside whom the others are timed; those that stop by themselves, at the tolerance of the race.
OURS = ("SymNMF.fit", "DistanceCompletion.fit_pairs")
_BY_THEMSELVES = (*OURS, "quartic cluster", "quartic locate")
_HEADLINES = {OURS[0]: "all", "inertial, random start": "all, same start", OURS[1]: "all helices",
              "minimize, auto": "all helices, minimize"}  # fmt: skip
_FAMILIES = ("SymHALS, spectral start", "SymHALS", "pymanopt")


@dataclass(frozen=True)
class RaceSettings(Settings):
    """What `run_race` runs; seeds from 100, since the starts were tuned on smaller ones.

    A method may take ``patience`` times what our estimator took from the same start, at least a second; one that
    fails once is not tried from the other starts.
    """

    cells: tuple[Cell, ...] = ()
    helices: tuple[Helix, ...] = ()
    starts: int = 3
    first_start: int = 100
    tol: float = 1e-3
    seconds: float = 60.0
    patience: float = 100.0
    name: str = "speed"

    part = (*Settings.part, "cells", "helices")

    @classmethod
    def speed(cls, quick: bool = False) -> RaceSettings:
        """Return the paper's cells and helices, exact and with noise; quick: a few minutes."""
        if quick:
            cells: tuple[Cell, ...] = (Cell("coil20", 10), Cell("reuters", 30))
            return cls(2, cells=cells, helices=(Helix(1000), Helix(1000, 0.1, 0.05)), name="speed-quick")
        cells = tuple(Cell(data, rank) for data in DATA for rank in RANKS)
        exact = (Helix(2000), Helix(2000, 0.05), Helix(5000), Helix(5000, 0.05))
        return cls(cells=cells, helices=(*exact, Helix(2000, 0.1, 0.05), Helix(5000, 0.1, 0.05)))

    @classmethod
    def peers(cls, quick: bool = False) -> RaceSettings:
        """Return a few cells with known classes, and distances that methods for complete ones can use too."""
        if quick:
            helices = (Helix(600), Helix(150, 1.0))
            return cls(1, cells=(Cell("coil20", 20),), helices=helices, seconds=10.0, name="peers-quick")
        cells = (Cell("coil20", 20), Cell("tdt2", 30), Cell("reuters", 25))
        return cls(cells=cells, helices=(Helix(2000), Helix(300, 1.0)), name="peers")

    def methods(self, case: Case | Helix) -> dict[str, Method]:
        """Return who takes part: other libraries in both, solvers of the paper in ``speed``."""
        found = SYMNMF if isinstance(case, Case) else EDMC
        leave = ("μ=", "random", "Dyn") if self.name.startswith("peers") else ("scikit-learn", "NetworkX")
        return {name: run for name, run in found.items() if not any(word in name for word in leave)}


def run_race(settings: RaceSettings, folder: str | os.PathLike[str], say: Say, progress: Say) -> Store:
    """Run what is not yet there, and return the runs; several processes may do so at once."""
    store = Store(folder, settings.name)
    absent: set[str] = set()

    def attempt(case: Any, name: str, run: Method, seed: int) -> Row | None:
        """Run a method; what stops it is a result like any other, but for a package that is not there."""
        if name in absent or any("s" not in row for row in store.find(case=str(case), method=name)):
            return None
        base = [row["s"] for row in store.find(case=str(case), seed=seed) if row["method"] in OURS and "s" in row]
        limit = min(settings.seconds, max(1.0, settings.patience * base[0])) if base else settings.seconds
        targets = [settings.tol if isinstance(case, Case) else case.target]
        recorder = case.recorder(seed, targets, limit, wall=settings.threads > 1)
        try:
            # Solvers are stopped by the referee; a tolerance far below keeps them going until then.
            with warnings.catch_warnings():  # of noise, and of settings of other libraries that we chose
                warnings.simplefilter("ignore")
                answer = run(case, seed, settings.tol if name in _BY_THEMSELVES else 1e-8, recorder)
        except CannotDo as why:
            return {"cannot": str(why)}
        except ImportError as error:
            absent.add(name)
            say(f"{name} is left out: {error}")
            return None
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            if name in _BY_THEMSELVES:
                raise
            return {"cannot": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        return _judge(case, recorder, answer)

    def compete(case: Any, warm: Sequence[Any]) -> None:
        methods = settings.methods(case)
        for small in warm:
            for name, run in methods.items():
                with suppress(CannotDo, ImportError), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if not name.startswith("quartic "):  # a process of its own
                        run(small, 0, 1e-2, small.recorder(0, [1e-2], 0.5))
        turns = {name: partial(attempt, case, name, run) for name, run in methods.items()}
        take_turns(store, str(case), turns, settings.seeds(), progress, first=[next(iter(turns))])

    with measuring(settings, store):
        for at, case in enumerate(load_cells(settings.cells, say)):
            compete(case, () if at else (Cell("planted-120-3", 3).load(),))
        for at, helix in enumerate(settings.helices):
            compete(helix, () if at else warm_helices())
    return store


def _judge(case: Any, recorder: Recorder, answer: Answer) -> Row:
    """Return a run's row: seconds to the target, or of all where there is none to reach, products, objective, NMI."""
    from quartic.metrics import nmi

    row: Row = {name.partition(" to ")[0]: value for name, value in recorder.finish(answer.X).items()}
    if answer.seconds is not None or answer.X is None:
        row["s"] = row["spent"] if answer.seconds is None else answer.seconds
    if answer.products is not None:
        row["products"] = answer.products
    labels = answer.labels if answer.labels is not None else answer.X.argmax(axis=1)
    if isinstance(case, Case) and case.labels is not None:
        row["nmi"] = float(nmi(case.labels, labels))
    return row


def race_numbers(rows: Sequence[Row], section: str) -> list[Number]:
    """Return means over the starts, the best of families under one name, and how many times faster we are.

    The numbers of ``speed`` are those of two sections, ``symnmf`` and ``edmc``.
    """
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
