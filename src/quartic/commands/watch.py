"""Runs under the eyes of the command line: a bar on a terminal, and an end with the best so far on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from quartic.core.progress import shared_bar, watched_by

if TYPE_CHECKING:
    from quartic.core.loop import Progress


class StoppedAtOnce(BaseException):
    """A signal came before there was anything to write, or once more."""


class Watcher:
    """Sees every iteration of every run.

    A first signal ends the run under way, and a search of many runs with it: the best point so far comes back as a
    result. A signal before the first iteration, or a second one, ends everything.
    """

    def __init__(self) -> None:
        self.show: Callable[[Progress], None] | None = None
        self.seen = 0
        self.asked = False
        self.interrupted = False  # a run, or a search, was ended

    def __call__(self, progress: Progress) -> None:
        """See an iteration."""
        self.seen += 1
        if self.show is not None:
            self.show(progress)
        if self.asked:
            self.interrupted = True
            raise KeyboardInterrupt

    def stop(self) -> bool:
        """Tell a search whether to end."""
        self.interrupted |= self.asked
        return self.asked

    def on_signal(self, number: int, frame: Any) -> None:
        """Take a signal."""
        if self.asked or not self.seen:
            raise StoppedAtOnce
        self.asked = True


@contextmanager
def watching(quiet: bool) -> Iterator[Watcher]:
    """Watch runs made with ``verbose=True`` in the block, and take SIGINT and SIGTERM there."""
    watcher = Watcher()
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, watcher.on_signal)
                stack.callback(signal.signal, number, before)
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            watcher.show = stack.enter_context(shared_bar(Console(stderr=True), transient=True))
        stack.enter_context(watched_by(watcher, watcher.stop))
        yield watcher
