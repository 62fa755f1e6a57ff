"""Faults in how a command is called, as one line: what is wrong, and where the options are listed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from quartic.commands.terminal import one_line, said

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
