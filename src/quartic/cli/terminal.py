"""How a command speaks: what it has to say goes to standard error, one line each; results go to standard output.

Faults in how it is called are one line too: what is wrong, and where the options are listed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

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
            print(one_line(text), file=sys.stderr)

    def warn(self, text: str) -> None:
        """Say something that must be heard."""
        print(f"quartic {self.command}: {one_line(text)}", file=sys.stderr)


@contextmanager
def errors_as_one_line(voice: Voice) -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError, NotImplementedError, ImportError) as error:
        voice.warn(said(error))
        raise SystemExit(2) from None
    except MemoryError:
        voice.warn("not enough memory for this input; try a sparse graph, fewer neighbours or a part of the data")
        raise SystemExit(2) from None


def said(error: Exception) -> str:
    """Return what an error says, in a form fit for people."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error) or type(error).__name__


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

    def _help_only(self, options: object) -> NoReturn:
        self.print_help()
        self.exit(2)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where the options are listed."""
        self.exit(2, f"{self.prog}: {one_line(message)}; see {self.prog} --help\n")
