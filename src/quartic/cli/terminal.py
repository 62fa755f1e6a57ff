"""What commands share: messages on standard error, results on standard output, and the parser of options.

An invalid call gets one line too: what is wrong, and where the options are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TextIO, cast

# Control characters in names and messages could drive the terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def one_line(text: object) -> str:
    """Return a text as one line that is safe to print."""
    return _CONTROL.sub(" ", " ".join(str(text).split()))


class Options(SimpleNamespace):
    """The arguments of a command by name, and its messages on standard error."""

    quiet = False

    @property
    def source(self) -> str:
        """What messages call the input."""
        return "stdin" if self.input == "-" else str(self.input)

    @property
    def reading(self) -> dict[str, Any]:
        """How the input is to be read, as the readers take it."""
        columns = None if self.columns is None else [name.strip() for name in self.columns.split(",")]
        return {"columns": columns, "repeats": self.repeats}

    @property
    def settings(self) -> dict[str, Any]:
        """What both estimators take."""
        shared = ("solver", "n_init", "tol", "max_iter", "max_time")
        return {**{name: getattr(self, name) for name in shared}, "random_state": self.seed}

    def check(self, outputs: Sequence[str]) -> None:
        """Raise where an option cannot be, before anything is read."""
        from quartic.solvers import SOLVERS

        check_target(self.output, outputs, "-o")
        check_report(self.report)
        if getattr(self, "solver", "auto") not in ("auto", *SOLVERS):
            raise ValueError(f"--solver {self.solver}: choose auto or one of {', '.join(SOLVERS)}")

    def say(self, text: str) -> None:
        """Print a message, unless --quiet."""
        if not self.quiet:
            write(f"{one_line(text)}\n", sys.stderr)

    def warn(self, text: str) -> None:
        """Print a warning or an error."""
        write(f"quartic {self.command}: {one_line(text)}\n", sys.stderr)


def check_target(path: str | os.PathLike[str] | None, kinds: Sequence[str], option: str) -> None:
    """Raise where a result could not be written there, before the work begins."""
    if path is None or str(path) == "-":
        return
    path = Path(path)
    if path.suffix.lower() not in kinds:
        raise ValueError(f"{option} {path}: the name must end in one of {', '.join(kinds)}")
    if not path.parent.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise ValueError(f"{option} {path}: this is a folder; name a file in it")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{option} {path}: the folder {path.parent} may not be written to")


def check_report(path: str | os.PathLike[str] | None) -> None:
    """Raise where a report is asked for that could not be written."""
    check_target(path, (".html", ".htm"), "--report")
    missing = [package for package in ("plotly", "jinja2") if find_spec(package) is None]
    if path is not None and missing:
        raise ValueError(f"--report needs {' and '.join(missing)}: pip install 'quartic[report]'")


@contextmanager
def errors_as_one_line(options: Options) -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError) as error:
        text = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror and error.filename:
            text = f"{error.filename}: {error.strerror.lower()}"
        options.warn(text)
        raise SystemExit(2) from None
    except MemoryError:
        options.warn("not enough memory for this input; try a sparse graph, fewer neighbours or a part of the data")
        raise SystemExit(2) from None


@contextmanager
def gathered_warnings(tell: Callable[[Warning], str] = str) -> Iterator[list[str]]:
    """Collect warnings, each once, except that a run did not converge, which is printed in any case."""
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
    plain = json.loads(json.dumps(facts, default=lambda value: value.tolist()), parse_constant=lambda _: None)
    write(json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def write(text: str, stream: TextIO | None = None) -> None:
    """Write to standard output, or another stream; the reader of a pipe may stop reading."""
    stream = sys.stdout if stream is None else stream
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # what is still in the buffer goes nowhere, or Python would complain of it when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["quartic", *sys.argv[1:]])


# -- the call ---------------------------------------------------------------------------------------------------------


class _Paragraphs(argparse.HelpFormatter):
    """Fills each paragraph of a description by itself, and tells what options are if left out."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = [" ".join(part.split()) for part in text.split("\n\n")]
        return "\n\n".join(super(_Paragraphs, self)._fill_text(part, width, indent) for part in parts if part)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        told = isinstance(action.default, str | int | float | os.PathLike) and not isinstance(action.default, bool)
        return f"{action.help} (default: %(default)s)" if told and action.default != argparse.SUPPRESS else action.help


class Parser(argparse.ArgumentParser):
    """Reads a call; a fault in it is one line on standard error, with exit code 2."""

    def __init__(self, **how: Any) -> None:
        super().__init__(formatter_class=_Paragraphs, allow_abbrev=False, **how)

    def with_commands(self) -> Any:
        """Return what takes commands below this one; without any of them it prints the help."""
        self.set_defaults(run=self._help_only, parser=self)
        return self.add_subparsers(metavar="COMMAND", title="commands")

    def _print_message(self, message: str, file: Any = None) -> None:
        write(message, file or sys.stderr)

    def _help_only(self, options: object) -> NoReturn:
        self.print_help()
        self.exit(2)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where the options are listed."""
        self.exit(2, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")
