"""The one run loop of the harness: those who compete take turns, start by start; what is there is not run again.

Solvers are interleaved, in another order for each start, because machines drift: what slows one down meets all alike.
Every run is kept as soon as it ends, so that a loop that was interrupted goes on where it was, and several processes
may share one table, each with starts or cases of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from quartic.bench.record import describe_machine
from quartic.bench.store import Store
from quartic.bench.threads import fixed_threads

Say = Callable[[str], object]


@dataclass(frozen=True)
class Entry:
    """One who competes.

    Attributes
    ----------
    name : str
        For people.
    key : mapping
        The columns of the table that name it.
    run : callable
        Takes a seed, returns the rows of that run; none where there is nothing to keep.
    """

    name: str
    key: Mapping[str, Any]
    run: Callable[[int], Iterable[Mapping[str, Any]]]


@contextmanager
def measuring(threads: int, *tables: tuple[Store, Any]) -> Iterator[None]:
    """Fix the number of threads, and open each table with the settings that its rows must share."""
    with fixed_threads(threads) as found:
        record = describe_machine(found)
        for store, settings in tables:
            store.open(settings, record)
        yield


def take_turns(
    store: Store,
    title: str,
    case: Mapping[str, Any],
    entries: Sequence[Entry],
    seeds: Iterable[int],
    progress: Say = lambda _: None,
    first: Sequence[Entry] = (),
) -> None:
    """Run everyone from every start, and keep what they return.

    Parameters
    ----------
    store : Store
        Open.
    title : str
        What is being run, for people.
    case : mapping
        The columns of the table that name the case.
    entries : sequence of Entry
        Who competes; shuffled for each start.
    seeds : iterable of int
        The starts.
    progress : callable
        Takes a few words on what is being run.
    first : sequence of Entry
        Those who go before the others, whose limits may depend on them.

    Examples
    --------
    >>> import tempfile
    >>> from quartic.bench import Store
    >>> from quartic.bench.turns import Entry, take_turns
    >>> store = Store(tempfile.mkdtemp(), "times", ["solver", "seed", "seconds"], key=["solver", "seed"])
    >>> store.open({}, {"machine": "a small one"})
    >>> entries = [Entry(name, {"solver": name}, lambda seed: [{"seconds": 0.1 * seed}]) for name in ("pg", "cd")]
    >>> take_turns(store, "an example", {}, entries, range(2))
    >>> len(store.rows)
    4
    """
    for seed in seeds:
        turn = list(entries)
        random.Random(seed).shuffle(turn)
        for entry in (*first, *turn):
            key = {**case, **entry.key, "seed": seed}
            if not store.has(**key):
                progress(f"{title}: {entry.name}, start {seed + 1}")
                store.add({**key, **row} for row in entry.run(seed))
