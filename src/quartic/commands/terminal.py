"""How a command speaks: what it has to say goes to standard error, one line each; results go to standard output."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import typer

# Control characters in names and messages could drive the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def one_line(text: object) -> str:
    """Return a text as one line that is safe to print."""
    return _CONTROL.sub(" ", " ".join(str(text).split()))


class Voice:
    """Says things on standard error, unless it is to be quiet."""

    def __init__(self, command: str, quiet: bool = False) -> None:
        self.command, self.quiet = command, quiet

    def say(self, text: str) -> None:
        """Say something that matters only to those who watch."""
        if not self.quiet:
            typer.echo(one_line(text), err=True)

    def warn(self, text: str) -> None:
        """Say something that must be heard."""
        typer.echo(f"quartic {self.command}: {one_line(text)}", err=True)


@contextmanager
def errors_as_one_line(voice: Voice) -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError) as error:
        voice.warn(said(error))
        raise typer.Exit(2) from None
    except MemoryError:
        voice.warn("not enough memory for this input; try a sparse graph, fewer neighbours or a part of the data")
        raise typer.Exit(2) from None


def said(error: Exception) -> str:
    """Return what an error says, in a form fit for people."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error) or type(error).__name__


def check_shared(report: str | None, solver: str, max_time: float | None) -> None:
    """Raise where an option that commands share cannot be."""
    from quartic.commands.results import check_target
    from quartic.report import report_available
    from quartic.solvers import SOLVERS

    if report is not None:
        check_target(report, (".html", ".htm"), "--report")
        if not report_available():
            raise ValueError("--report needs plotly: pip install 'quartic[report]'")
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"--solver {solver}: choose auto or one of {', '.join(SOLVERS)}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"--max-time {max_time:g}: give a positive number of seconds")


@contextmanager
def gathered_warnings(tell: Callable[[Warning], str] = str) -> Iterator[list[str]]:
    """Gather what is warned of, each thing once, less that a run did not converge, which is said in any case."""
    from sklearn.exceptions import ConvergenceWarning

    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    for warning in caught:
        text = one_line(tell(cast(Warning, warning.message)))
        if not issubclass(warning.category, ConvergenceWarning | DeprecationWarning) and text not in said:
            said.append(text)


def print_json(facts: dict[str, Any]) -> None:
    """Print one object; numbers that JSON does not have become null."""
    write_stdout(json.dumps(_plain(facts), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_stdout(text: str) -> None:
    """Write to standard output; whoever reads may stop reading."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # what is still in the buffer goes nowhere, or Python would complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["quartic", *sys.argv[1:]])
