"""Threads of our own: compiled passes over pieces of the data, the same pieces whatever the number of threads.

A pass cuts its work into pieces by the data alone, and each piece writes where no other does (its own rows, or sums of
its own that are added up afterwards, in order). Hence no races, and the same bits on any number of threads. The pieces
are handed out to whoever is free, the calling thread included; compiled code lets go of Python's lock.

How many threads: what the nearest ``limited_to`` says (``n_jobs`` of the estimators), else ``NUMBA_NUM_THREADS``,
``OMP_NUM_THREADS``, and never more than the processors this process may use. Within `one_blas_thread` a limit set by
threadpoolctl counts too. All callers together get no more helpers than there are processors left: eight fits in eight
threads run on eight threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any

# Work below this many multiplications is done before a second thread has woken up.
_WORTH_A_THREAD = 400_000
# A thread takes this share, among all threads, of what is left: one that is held up does not hold up the others.
_SHARE = 0.5

_limit: ContextVar[int | None] = ContextVar("quartic threads", default=None)


class _Team:
    """The helpers: made when first needed, and anew in a forked child, which inherits none of its parent's threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pool: ThreadPoolExecutor | None = None
        self.size = 0
        self.callers = 0
        self.busy = 0

    def hire(self, wanted: int) -> tuple[ThreadPoolExecutor | None, int]:
        """Return the pool, and how many helpers the caller may have just now; ``dismiss`` them afterwards."""
        with self.lock:
            self.callers += 1
            helpers = max(0, min(wanted, max_threads() - self.callers - self.busy))
            self.busy += helpers
            if helpers and (self.pool is None or self.size < max_threads() - 1):
                if self.pool is not None:
                    self.pool.shutdown(wait=False)
                self.size = max_threads() - 1
                self.pool = ThreadPoolExecutor(self.size, "quartic", _blas.limit_helper)
            return self.pool, helpers

    def dismiss(self, helpers: int) -> None:
        """Let the helpers go."""
        with self.lock:
            self.callers -= 1
            self.busy -= helpers


_team = _Team()


@cache
def max_threads() -> int:
    """Return how many threads this process may use at most: its processors, the container's share, the environment."""
    import joblib

    found: int = joblib.cpu_count()
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "").split(",")[0].strip()
        if asked.isdigit() and int(asked) > 0:
            return max(1, min(found, int(asked)))
    return max(1, found)


def n_threads() -> int:
    """Return how many threads a pass may use here and now."""
    limit = _limit.get()
    return max_threads() if limit is None else min(limit, max_threads())


@contextmanager
def limited_to(limit: int | None) -> Iterator[None]:
    """Use at most so many threads within, in this thread; None changes nothing."""
    if limit is None:
        yield
        return
    if limit < 1:
        raise ValueError(f"the number of threads must be at least 1, got {limit}")
    token = _limit.set(min(limit, n_threads()))
    try:
        yield
    finally:
        _limit.reset(token)


def share_of(n_jobs: int | None, n_runs: int) -> int | None:
    """Return how many threads each of ``n_runs`` runs may use, ``n_jobs`` being for all that go on at the same time."""
    if n_jobs is None:
        return None
    jobs = count_jobs(n_jobs)
    return max(1, jobs // max(1, min(jobs, n_runs)))


def count_jobs(n_jobs: int) -> int:
    """Return how many threads ``n_jobs`` stands for: −1 is all there are, −2 all but one."""
    return n_jobs if n_jobs > 0 else max(1, max_threads() + 1 + n_jobs)


def spread(work: Callable[[int, int], Any], n_pieces: int, multiplications: float, *, one_by_one: bool = False) -> None:
    """Call ``work(first, last)`` on ranges that make up the pieces 0 … n_pieces − 1, by several threads if it pays.

    What ``work`` does with a piece must not depend on the range it comes in. Where a piece takes long they are handed
    out one by one: Ctrl-C is heard only between two calls, and no thread begins another one after it.
    """
    most = 1 if one_by_one else max(1, n_pieces)
    wanted = min(n_threads(), n_pieces, int(multiplications / _WORTH_A_THREAD) + 1) - 1
    if wanted < 1:
        _work_alone(work, n_pieces, most)
        return
    pool, helpers = _team.hire(wanted)
    team = _team
    futures: list[Future[None]] = []
    try:
        if helpers == 0 or pool is None:
            _work_alone(work, n_pieces, most)
            return
        taken, lock = 0, threading.Lock()
        held = [work]  # what is cancelled waits in the pool's queue: it must not keep the arrays from being used again

        def share() -> None:
            nonlocal taken
            while True:
                with lock:
                    first = taken
                    taken += max(1, min(most, int(_SHARE * (n_pieces - first) / (helpers + 1))))
                    last = min(taken, n_pieces)
                if first >= last:
                    return
                held[0](first, last)

        # a RuntimeError: the interpreter is on its way out, there will be no more threads, and the caller works alone
        with contextlib.suppress(RuntimeError):
            futures += [pool.submit(share) for _ in range(helpers)]
        try:
            share()
        finally:
            with lock:
                taken = n_pieces  # after an error, or Ctrl-C, nobody takes a piece more
            # One that has not begun has nothing left to do. The others must end before the arrays may be touched.
            for future in futures:
                if not future.cancel():
                    future.exception()
            held.clear()
        for future in futures:
            if not future.cancelled():
                future.result()
    finally:
        team.dismiss(helpers)


def _work_alone(work: Callable[[int, int], Any], n_pieces: int, most: int) -> None:
    for first in range(0, n_pieces, most):
        work(first, min(first + most, n_pieces))


# -- BLAS -----------------------------------------------------------------------------------------------------------


class _Blas:
    """Keeps BLAS at one thread while runs are under way, and gives it back what it had when the last one ends.

    Runs call BLAS thousands of times on matrices that are r columns wide. Its own threads gain nothing there, and on a
    busy machine, where they wait for one another, they made such calls up to 28 times slower. They would change the
    bits of sums, and OpenBLAS never returns from such a call when another thread forks meanwhile. What is worth several
    threads is cut into pieces by us.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.runs = 0
        self.own = threading.local()  # .runs: how many of the runs are this thread's
        self.libraries: list[Any] = []
        self.loaded = -1  # how many modules there were when the libraries were looked for
        self.before: dict[str, int] = {}  # threads each library had, until they are given back

    def enter(self) -> int | None:
        """Limit BLAS, and return how many threads it was allowed; None where that cannot be told."""
        with self.lock:
            self._find_libraries()
            for library in self.libraries:
                now = library.get_num_threads()
                self.before.setdefault(library.filepath, now)
                if now != 1:
                    _set_threads(library, 1)
            self._count(1)
            return max(self.before.values(), default=None)  # a library built for one thread says nothing of the others

    def leave(self) -> None:
        """Give BLAS back its threads if this was the last run: of all, or of this thread where each has its own."""
        with self.lock:
            self._count(-1)
            for library in self.libraries:
                if self.runs == 0 or (self.own.runs == 0 and _is_per_thread(library)):
                    _set_threads(library, self.before[library.filepath])
            if self.runs == 0:
                self.before = {}

    def limit_helper(self) -> None:
        """Keep BLAS at one thread in a helper of ours, where a limit holds only for the thread that sets it."""
        for library in self.libraries:
            if _is_per_thread(library):
                _set_threads(library, 1)

    def start_anew(self) -> None:
        """Keep, in a forked child, the runs of the one thread it has; its last run gives back what the parent owes."""
        self.lock = threading.RLock()
        self.runs = getattr(self.own, "runs", 0)

    def _count(self, change: int) -> None:
        self.runs += change
        self.own.runs = getattr(self.own, "runs", 0) + change

    def _find_libraries(self) -> None:
        loaded = len(sys.modules)  # a library comes with a module
        if loaded != self.loaded:  # looking takes milliseconds, a small run no longer
            with contextlib.suppress(ImportError):  # it comes with scikit-learn
                from threadpoolctl import ThreadpoolController

                self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self.loaded = loaded


def _is_per_thread(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


def _set_threads(library: Any, count: int) -> None:
    # threadpoolctl heeds only one thread at a time, silently: the first that ever set a limit of OpenBLAS
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(count)
    release(force=True)


_blas = _Blas()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread within; our own passes use no more threads than it was allowed before.

    Whatever calls BLAS and must give the same bits each time belongs inside, as a block or a decorated function. Limits
    of BLAS hold for the whole process: runs in other threads share this one.
    """
    found = _blas.enter()
    try:
        with limited_to(found):
            yield
    finally:
        _blas.leave()


# -- fork -----------------------------------------------------------------------------------------------------------


def _hold_locks() -> None:
    """Wait until no thread is changing the helpers or the limits: a child would inherit the lock, not the thread."""
    _team.lock.acquire()
    _blas.lock.acquire()


def _release_locks() -> None:
    _blas.lock.release()
    _team.lock.release()


def _start_child() -> None:
    global _team
    _team = _Team()  # a child inherits none of its parent's threads
    _blas.start_anew()
    if sys.version_info < (3, 12):
        _renew_property_locks()


def _renew_property_locks() -> None:
    """Renew the locks of our cached properties, which Python 3.11 holds, for all objects of a class, while one is made.

    One that another thread was making when the child was forked would be locked there for ever.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("quartic.")]
    for module in modules:
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                for attribute in vars(kind).values():
                    if isinstance(attribute, cached_property):
                        attribute.lock = threading.RLock()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_locks, after_in_parent=_release_locks, after_in_child=_start_child)
