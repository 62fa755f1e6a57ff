"""What ``quartic cluster`` and ``quartic locate`` share: running a fit, messages, output files and the report."""

from __future__ import annotations

import csv
import io
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quartic._version import __version__
from quartic.archives import write_whole
from quartic.cli.terminal import Options, command_line, gathered_warnings, one_line, print_json, write
from quartic.compiled.clock import solving_time
from quartic.core.progress import progress_bar
from quartic.core.result import Result, Status
from quartic.io.files import count

if TYPE_CHECKING:
    from quartic.core.loop import Progress
    from quartic.report import Section


# -- runs that can be watched and interrupted: a progress bar on a terminal; Ctrl-C keeps the best result so far ------


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

    def __call__(self, progress: Any) -> None:
        """See an iteration."""
        self.seen += 1
        if self.show is not None:
            self.show(progress)
        if self.asked:
            self.interrupted = True
            raise KeyboardInterrupt

    def on_signal(self, number: int, frame: Any) -> None:
        """Take a signal."""
        if self.asked or not self.seen:
            raise StoppedAtOnce
        self.asked = True


@contextmanager
def watching(options: Options) -> Iterator[Watcher]:
    """Make a callback that watches the runs in the block, and take SIGINT and SIGTERM there.

    The process exits where there is nothing to write.
    """
    watcher = Watcher()
    with ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, watcher.on_signal)
                stack.callback(signal.signal, number, before)
        if not options.quiet and sys.stderr.isatty():
            from rich.console import Console

            watcher.show = stack.enter_context(progress_bar(Console(stderr=True), transient=True))
        try:
            yield watcher
        except StoppedAtOnce:
            options.warn("stopped before there was a result; nothing is written")
            raise SystemExit(1) from None


@dataclass(frozen=True)
class Fit:
    """The outcome of a fit: seconds without compilation, warnings, and whether it was interrupted."""

    options: Options
    result: Result
    seconds: float
    said: list[str]
    interrupted: bool

    def section(self, **facts: str) -> dict[str, Any]:
        """Return what the report says about the run."""
        result = self.result
        packages = [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "scikit-learn")]
        about = {
            "input": self.options.input,
            **facts,
            "solver": f"{result.solver}: {count(result.n_iter, 'iteration')}, "
            f"{result.n_products} products with the data",
            "status": result.message,
            "objective": f"{result.objective:.6e}",
            "stationarity": f"{result.stationarity:.3e}",
            "seconds": f"{self.seconds:.2f}",
            "seed": str(self.options.seed),
            "versions": ", ".join([f"quartic {__version__}", f"Python {platform.python_version()}", *packages]),
        }
        return {"notes": self.said, "facts": about, "command": command_line()}

    def finish(
        self,
        found: str,
        write: Callable[[], None],
        section: Callable[[], Section],
        facts: dict[str, Any],
        rows: Callable[[], dict[str, Any]],
    ) -> None:
        """Write the result, the report and JSON, with the rows where they go nowhere else; say what was found."""
        options, result = self.options, self.result
        inside = options.as_json and options.output == "-"
        if not inside:
            write()
        if options.report is not None:
            from quartic.report import write_page

            made = section()
            write_page(options.report, made.title, [made])
        if options.as_json:
            plain = ("message", "solver", "objective", "stationarity", "n_iter", "n_products")
            print_json({
                "command": options.command,
                "input": options.input,
                **facts,
                "output": None if options.output == "-" else options.output,
                "report": options.report,
                "warnings": self.said,
                "interrupted": self.interrupted,
                "status": str(result.status),
                "converged": result.success,
                **{name: getattr(result, name) for name in plain},
                "seconds": self.seconds,
                "seed": options.seed,
                "version": __version__,
                **(rows() if inside else {}),
            })  # fmt: skip
        self._say(found)

    def _say(self, found: str) -> None:
        """Print what was found and where it is written; exit with 1 if the run did not converge."""
        options = self.options
        if not options.as_json:
            options.say(found)
            if self.result.success:
                options.say(f"{self.result.message}; {self.result.solver}, {self.seconds:.2f} s")
            if options.output != "-":
                options.say(f"written: {options.output}")
            if options.report is not None:
                options.say(f"report: {options.report}")
        if self.interrupted:
            where = "" if options.output == "-" else f" to {options.output}"
            options.warn(f"interrupted: the best result so far is written{where}")
        elif not self.result.success:
            options.warn(f"did not converge, the result is written all the same: {self.result.message}")
        if self.interrupted or not self.result.success:
            raise SystemExit(1)


def watched_fit(
    options: Options, fit: Callable[[Watcher], Any], tell: Callable[[Warning], str] = str, odd: Sequence[str] = ()
) -> Fit:
    """Run a fit with a progress bar, and print warnings; ``odd`` are those about the data themselves."""
    began = solving_time()
    with gathered_warnings(tell) as said, watching(options) as watcher:
        model = fit(watcher)
    seconds = solving_time() - began
    said = [*map(one_line, odd), *said]
    for text in said:
        options.warn(f"warning: {text}")
    result = model.result_
    if result.status is Status.MAX_TIME:
        told = result.message.replace("max_time", f"--max-time {options.max_time:g} s")
        result = replace(result, message=told)
    return Fit(options, result, seconds, said, watcher.interrupted)


# -- what is written, whole or not at all -----------------------------------------------------------------------------


def write_result(
    path: str, header: Sequence[str], rows: Iterable[Sequence[Any]], array: Any, arrays: dict[str, Any] | None = None
) -> None:
    """Write a table to a .csv or .tsv file, or to standard output where the path is ``-``.

    As .npy only the ``array`` is written, and as .npz the ``arrays``.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".npy":
        write_whole(path, lambda file: np.save(file, array, allow_pickle=False))
    elif suffix == ".npz" and arrays is not None:
        write_whole(path, lambda file: np.savez(file, **arrays))
    else:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        writer.writerow(header)
        writer.writerows([str(cell).lower() if isinstance(cell, bool) else cell for cell in row] for row in rows)
        if path == "-":
            write(text.getvalue())
        else:
            write_whole(path, lambda file: file.write(text.getvalue().encode()))


# -- the same run as Python code --------------------------------------------------------------------------------------


def call_code(name: str, first: str, settings: dict[str, Any], defaults: dict[str, Any]) -> str:
    """Return ``Name(first, setting=value, …)`` with the settings that differ from their defaults."""
    told = [f"{key}={value!r}" for key, value in settings.items() if key not in defaults or value != defaults[key]]
    return f"{name}({', '.join([first, *told])})"


def fit_code(options: Options, reader: str, fitted: str, each: str, found: str, before: str = "") -> str:
    """Return the lines of Python that read the input, make the fit, and print what is found of each name."""
    path = "input.csv" if options.input == "-" else options.input
    note = "# the input came by a pipe: save it as input.csv\n" if options.input == "-" else ""
    given = {key: value for key, value in options.reading.items() if value is not None}
    return (
        f"{before}from quartic import {fitted.partition('(')[0]}, io\n\n{note}"
        f"table = {call_code(f'io.{reader}', repr(path), given, {})}\nmodel = {fitted}\n"
        f"for name, {each} in zip(table.names, model.{found}):\n    print(name, {each})\n"
    )
