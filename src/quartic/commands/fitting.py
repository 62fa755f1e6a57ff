"""What ``quartic cluster`` and ``quartic locate`` do alike around a fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from quartic.commands.terminal import Voice, errors_as_one_line, gathered_warnings, one_line
from quartic.commands.watch import StoppedAtOnce, watching
from quartic.core.result import Result


@dataclass(frozen=True)
class Fit:
    """How a fit went: how long it took, what was warned of, and whether it was interrupted."""

    seconds: float
    said: list[str]
    interrupted: bool


def watched_fit(
    voice: Voice, fit: Callable[[], Any], tell: Callable[[Warning], str] = str, odd: Sequence[str] = ()
) -> Fit:
    """Fit under the eyes of the user, and say what is warned of; exit where there is nothing to write.

    ``odd`` is what the data alone give cause to warn of.
    """
    began = time.perf_counter()
    with errors_as_one_line(voice), gathered_warnings(tell) as said:
        try:
            with watching(voice.quiet) as watcher:
                fit()
        except StoppedAtOnce:
            voice.warn("stopped before there was a result; nothing is written")
            raise typer.Exit(1) from None
    seconds = time.perf_counter() - began
    said = [*map(one_line, odd), *said]
    for text in said:
        voice.warn(f"warning: {text}")
    return Fit(seconds, said, watcher.interrupted)


def say_found(voice: Voice, found: str, result: Result, seconds: float, output: str, report: str | None) -> None:
    """Say what was found, how, and where it is."""
    voice.say(found)
    if result.success:
        voice.say(f"{result.message}; {result.solver}, {seconds:.2f} s")
    if output != "-":
        voice.say(f"written: {output}")
    if report is not None:
        voice.say(f"report: {report}")


def exit_unless_converged(voice: Voice, result: Result, fit: Fit, output: str) -> None:
    """Exit with 1, and say why, where the result that was written is not a converged one."""
    if fit.interrupted:
        where = "" if output == "-" else f" to {output}"
        voice.warn(f"interrupted: the best result so far is written{where}")
    elif not result.success:
        voice.warn(f"did not converge, the result is written all the same: {result.message}")
    if fit.interrupted or not result.success:
        raise typer.Exit(1)
