"""Against what a user would pick instead: the same jobs by scikit-learn, SciPy, pymanopt and NetworkX."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from quartic.bench import peers_edmc, peers_symnmf
from quartic.bench.edmc import Helix, warm_cases
from quartic.bench.from_starts import FromStarts
from quartic.bench.peers_edmc import CannotDo, Enough, Keeper
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import Case, Cell, loaded
from quartic.bench.turns import Entry, Say, measuring, take_turns
from quartic.bench.watch import Watch
from quartic.core.loop import referee

COLUMNS = ("job", "case", "peer", "seed", "seconds", "spent", "objective", "share", "nmi", "rmse", "cannot")
KEY = ("job", "case", "peer", "seed")


@dataclass(frozen=True)
class PeersSettings(FromStarts):
    """What `run_peers` runs.

    Parameters
    ----------
    cells : tuple of Cell
        Similarity matrices to cluster.
    helices : tuple of (int, float)
        Points, and share of the distances known; a share of 1 is what methods for complete distances need.
    starts, first_start : int
        Random starts, and the seed of the first.
    tol : float
        For clustering: ε of the projected gradient at the paper's start.
    target : float
        For distances: normalised RMSE over all pairs.
    seconds : float
        Limit on a run, for those that can be stopped.
    threads : int
        As in Table 1.
    name : str
        Of the files.

    Examples
    --------
    >>> from quartic.bench import PeersSettings
    >>> PeersSettings.quick().starts
    1
    """

    part = ("cells", "helices")

    cells: tuple[Cell, ...] = (Cell("coil20", 20), Cell("tdt2", 30), Cell("reuters", 25))
    helices: tuple[tuple[int, float], ...] = ((2000, 0.1), (300, 1.0))
    starts: int = field(default=3, kw_only=True)
    tol: float = 1e-3
    target: float = 1e-6
    seconds: float = 60.0
    threads: int = 1
    name: str = "peers"

    @classmethod
    def quick(cls) -> PeersSettings:
        """Return a choice that takes about a minute: one start, Coil-20, helices of 600 and 150 points."""
        return cls(
            cells=(Cell("coil20", 20),), helices=((600, 0.1), (150, 1.0)), starts=1, seconds=10.0, name="peers-quick"
        )


def run_peers(
    settings: PeersSettings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> list[Row]:
    """Run what is not yet there and return the rows.

    Parameters
    ----------
    settings : PeersSettings
        What to run.
    folder : path
        Where results are kept; an interrupted run goes on from there.
    say, progress : callable
        Take lines for the user, and words on what is being run.
    """
    store = measure_peers(settings, folder, say, progress)
    store.export()
    return store.rows


def measure_peers(
    settings: PeersSettings, folder: str | os.PathLike[str], say: Say = print, progress: Say = lambda _: None
) -> Store:
    """Run what is not yet there; several processes may do so at once, each its own cases or starts."""
    store = Store(folder, settings.name, COLUMNS, KEY)
    said: set[str] = set()

    def compete(job: str, title: str, names: Iterable[str], run: Callable[[str, int], dict[str, Any]]) -> None:
        def entry(peer: str) -> Entry:
            return Entry(peer, {"peer": peer}, partial(_attempt, peer, partial(run, peer), say, said))

        take_turns(
            store, title, {"job": job, "case": title}, [entry(peer) for peer in names], settings.seeds(), progress
        )

    with measuring(settings.threads, (store, settings.must_agree())):
        _warm_up()
        for case in loaded(settings.cells, say):
            compete("clusters", case.cell.title, peers_symnmf.PEERS, partial(_cluster, _narrow(case), settings))
        for n, known in settings.helices:
            title = f"helix n={n}, {known:.0%} known"
            compete("distances", title, peers_edmc.PEERS, partial(_locate, Helix(n, known), settings))
    return store


def _attempt(
    peer: str, run: Callable[[int], dict[str, Any]], say: Say, said: set[str], seed: int
) -> list[dict[str, Any]]:
    """Run a peer; what stops it is a result like any other, but for a package that is not there."""
    try:
        return [run(seed)]
    except CannotDo as why:
        return [{"cannot": str(why)}]
    except ImportError as error:
        if peer not in said:
            say(f"{peer} is left out: {error}")
        said.add(peer)
        return []
    except Exception as error:
        if peer.startswith("quartic"):
            raise
        first = str(error).partition("\n")[0]
        return [{"cannot": f"{type(error).__name__}: {first}"}]


def _cluster(case: Case, settings: PeersSettings, peer: str, seed: int) -> dict[str, Any]:
    from quartic.metrics import nmi

    reference = case.reference(seed)
    watch = Watch(settings.threads > 1)
    answer = peers_symnmf.PEERS[peer](case, seed, settings.tol, watch, settings.seconds)
    row: dict[str, Any] = {"seconds": watch.seconds(), "spent": watch.seconds()}
    if case.labels is not None:
        row["nmi"] = nmi(case.labels, answer.labels)
    if answer.X is not None:
        row["objective"], stationarity = referee(case.judge, answer.X)
        row["share"] = stationarity / reference
    return row


def _locate(case: Helix, settings: PeersSettings, peer: str, seed: int) -> dict[str, Any]:
    keeper = Keeper(settings.seconds, settings.threads > 1)
    with suppress(Enough):
        peers_edmc.PEERS[peer](case, seed, 0.01 * settings.target, keeper)
    spent = keeper.watch.seconds()
    row: dict[str, Any] = {"spent": spent, "rmse": case.error(keeper.kept[-1][1])}
    reached = keeper.first_below(settings.target, case.error)
    return row if reached is None else {**row, "seconds": reached}


def _narrow(case: Case) -> Case:
    """Return the case with 32-bit indices in its matrix, which scikit-learn's SpectralClustering insists on."""
    matrix = case.matrix.copy()
    matrix.indices, matrix.indptr = (part.astype(np.int32) for part in (matrix.indices, matrix.indptr))
    return replace(case, matrix=matrix)


def _warm_up() -> None:
    """Have everything compiled and imported."""
    small = _narrow(Cell("planted-120-3", 3).load())
    for cluster in peers_symnmf.PEERS.values():
        with suppress(CannotDo, ImportError):
            cluster(small, 0, 1e-2, Watch(), 1.0)
    for case in (*warm_cases(), Helix(30, 1.0)):
        for name, locate in peers_edmc.PEERS.items():
            if case.n <= 60 or name.startswith("quartic"):
                with suppress(CannotDo, Enough, ImportError):
                    locate(case, 0, 1e-2, Keeper(1.0, False))


def peers_table(rows: list[Row]) -> str:
    """Return the comparison in Markdown: medians over the starts, and what a peer cannot do."""
    lines = []
    for job, case in dict.fromkeys((row["job"], row["case"]) for row in rows):
        here = [row for row in rows if (row["job"], row["case"]) == (job, case)]
        if job == "clusters":
            columns = {
                "seconds": "s",
                "objective": "½‖M − XXᵀ‖²",
                "share": "projected gradient / start's",
                "nmi": "NMI",
            }
        else:
            columns = {"seconds": "s to the target", "spent": "s in all", "rmse": "RMSE at the end"}
        first = next(iter(peers_symnmf.PEERS if job == "clusters" else peers_edmc.PEERS))
        base = _median([row for row in here if row["peer"] == first], "seconds")
        lines += [f"**{case}**", "", "| peer | " + " | ".join(columns.values()) + f" | time / {first} |"]
        lines.append("|---|" + "---|" * (len(columns) + 1))
        for peer in peers_symnmf.PEERS if job == "clusters" else peers_edmc.PEERS:
            mine = [row for row in here if row["peer"] == peer]
            if not mine:
                continue
            cannot = next((row["cannot"].replace("|", "/") for row in mine if row["cannot"]), None)
            if cannot:
                lines.append(f"| {peer} | cannot: {cannot} |" + " |" * len(columns))
                continue
            found = {name: _median(mine, name) for name in columns}
            words = ["–" if value is None else f"{value:.4g}" for value in found.values()]
            ratio = f"{found['seconds'] / base:.2f}" if found["seconds"] is not None and base else "–"
            lines.append(f"| {peer} | " + " | ".join(words) + f" | {ratio} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _median(rows: list[Row], column: str) -> float | None:
    """Return the median over the starts, None unless all have a value."""
    values = [float(row[column]) for row in rows if row[column]]
    return median(values) if values and len(values) == len(rows) else None
