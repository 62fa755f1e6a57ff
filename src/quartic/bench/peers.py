"""Against what a user would pick instead: the same jobs by scikit-learn, SciPy, pymanopt and NetworkX."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from quartic.bench import peers_edmc, peers_symnmf
from quartic.bench.edmc import Helix, warm_cases
from quartic.bench.peers_edmc import CannotDo, Enough, Keeper
from quartic.bench.record import describe_machine
from quartic.bench.store import Row, Store
from quartic.bench.symnmf import Case, Cell
from quartic.bench.threads import fixed_threads
from quartic.bench.watch import Watch
from quartic.datasets import DatasetNotFound
from quartic.loop import referee

COLUMNS = ("job", "case", "peer", "seed", "seconds", "spent", "objective", "share", "nmi", "rmse", "cannot")
KEY = ("job", "case", "peer", "seed")


@dataclass(frozen=True)
class PeersSettings:
    """What `run_peers` runs.

    Parameters
    ----------
    cells : tuple of Cell
        Similarity matrices to cluster.
    helices : tuple of (int, float)
        Points, and share of the distances known; a share of 1 is what methods for complete distances need.
    starts : int
        Random starts.
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

    cells: tuple[Cell, ...] = (Cell("coil20", 20), Cell("tdt2", 30), Cell("reuters", 25))
    helices: tuple[tuple[int, float], ...] = ((2000, 0.1), (300, 1.0))
    starts: int = 3
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
    settings: PeersSettings,
    folder: str | os.PathLike[str],
    say: Callable[[str], object] = print,
    progress: Callable[[str], object] = lambda _: None,
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
    store = Store(folder, settings.name, COLUMNS, KEY)
    with fixed_threads(settings.threads) as threads:
        store.open(replace(settings, cells=(), helices=(), starts=0), describe_machine(threads))
        _warm_up()
        for cell in settings.cells:
            try:
                case = _narrow(cell.load())
            except DatasetNotFound as error:
                say(str(error))
                continue
            _turns(store, settings, "clusters", f"{cell.data} r={cell.rank}", list(peers_symnmf.PEERS), progress,
                   partial(_cluster, case, settings))  # fmt: skip
        for n, known in settings.helices:
            helix = Helix(n, known)
            _turns(store, settings, "distances", f"helix n={n}, {known:.0%} known", list(peers_edmc.PEERS), progress,
                   partial(_locate, helix, settings))  # fmt: skip
    store.export()
    return store.rows


def _turns(
    store: Store,
    settings: PeersSettings,
    job: str,
    case: str,
    peers: list[str],
    progress: Callable[[str], object],
    run: Callable[[str, int], dict[str, Any]],
) -> None:
    for seed in range(settings.starts):
        turn = list(peers)
        random.Random(seed).shuffle(turn)
        for peer in turn:
            key = {"job": job, "case": case, "peer": peer, "seed": seed}
            if store.has(**key):
                continue
            progress(f"{case}: {peer}, start {seed + 1}")
            try:
                row = run(peer, seed)
            except CannotDo as why:
                row = {"cannot": str(why)}
            except Exception as error:
                if peer.startswith("quartic"):
                    raise
                first = str(error).partition("\n")[0]  # what stops a peer is a result like any other
                row = {"cannot": f"{type(error).__name__}: {first}"}
            store.add([{**key, **row}])


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
        with suppress(CannotDo):
            cluster(small, 0, 1e-2, Watch(), 1.0)
    for case in (*warm_cases(), Helix(30, 1.0)):
        for name, locate in peers_edmc.PEERS.items():
            if case.n <= 60 or name.startswith("quartic"):
                with suppress(CannotDo, Enough):
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
            cannot = next((row["cannot"] for row in mine if row["cannot"]), None)
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
