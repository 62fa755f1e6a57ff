"""How a command speaks: what it has to say goes to standard error, one line each; results go to standard output.

Faults in how it is called are one line too: what is wrong, and where the options are listed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import typer
from typer.core import TyperGroup

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


# -- faults in the call -----------------------------------------------------------------------------------------------

# typer has its own copy of click in some versions, and click's in others; this is the one it raises
_UsageFault: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_CTRL_C = 130  # what a shell makes of SIGINT


class PlainSpokenGroup(TyperGroup):
    """Commands whose usage errors are one line on standard error, with exit code 2, and no box around it."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command, and leave with its exit code."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except _UsageFault as fault:
            if type(fault).__name__ != "NoArgsIsHelpError":  # that one has printed the help
                typer.echo(usage_line(fault), err=True)
            sys.exit(fault.exit_code)
        except OSError as error:  # a disk that is full, a folder that may not be written to
            typer.echo(f"quartic: {one_line(said(error))}", err=True)
            sys.exit(2)
        if code == _CTRL_C:
            typer.echo("quartic: interrupted before there was a result; nothing is written", err=True)
        sys.exit(code if isinstance(code, int) else 0)


def usage_line(fault: Any) -> str:
    """Return what is wrong and where to look, in one line."""
    message = one_line(fault.format_message()).rstrip(".")
    context = getattr(fault, "ctx", None)
    command = context.command_path if context is not None else "quartic"
    link = " See" if message.endswith("?") else "; see"
    return f"{command}: {message[:1].lower()}{message[1:]}{link} {command} --help"
