"""``quartic bench floor``, ``growth`` and ``speed``: measured on the spot, kept nowhere but in the report asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import typer

from quartic.bench.choice import check_words
from quartic.bench.floor import FloorSettings, floor_table, plain, run_floor
from quartic.bench.growth import GrowthSettings, at_most, growth_table, run_growth
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.record import describe_machine
from quartic.bench.speed import SpeedSettings, run_speed, speed_table
from quartic.bench.terminal import AsJson, Quick, Report, Starts, running, show
from quartic.bench.threads import fixed_threads
from quartic.cli.terminal import command_line


def floor(
    quick: Quick = False,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of threads; 1 and 2 if left out.")] = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """A whole iteration as a multiple of its bare product, and that beside copying memory."""
    settings = FloorSettings.quick() if quick else FloorSettings()
    settings = replace(settings, threads=tuple(threads)) if threads else settings
    with running("bench floor", report) as (say, progress):
        rows = run_floor(settings, progress)
        machine = describe_machine()
        say("; ".join(machine.values()))
    _finish("An iteration beside its bare product", floor_table(rows), plain(rows), machine, report, as_json)


def growth(
    quick: Quick = False,
    most: Annotated[int | None, typer.Option(min=1, help="Leave out larger sizes.")] = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Time and memory for more and more nodes and pairs, with the exponents of the fit."""
    settings = at_most(GrowthSettings.quick() if quick else GrowthSettings(), most)
    with running("bench growth", report) as (say, progress):
        rows = run_growth(settings, progress)
        machine = describe_machine()
        say("; ".join(machine.values()))
    _finish("Growth", growth_table(rows), rows, machine, report, as_json)


def speed(
    quick: Quick = False,
    starts: Starts = None,
    data: Annotated[list[str] | None, typer.Option(help=f"Data sets, of {', '.join(DATA)}.")] = None,
    rank: Annotated[list[int] | None, typer.Option(min=1, help=f"Ranks; the paper's are {RANKS}.")] = None,
    only: Annotated[str, typer.Option(help="symnmf or edmc: leave out the other.")] = "",
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """How many times faster auto is: than SymHALS and Dyn-NoLips, than SciPy and pymanopt. One thread."""
    settings = SpeedSettings.quick() if quick else SpeedSettings()
    with running("bench speed", report) as (say, _), fixed_threads(1) as found:
        check_words("--data", [name for name in data or () if not name.startswith("planted-")], DATA)
        check_words("--only", [only] if only else [], ("symnmf", "edmc"))
        settings = replace(
            settings,
            starts=starts or settings.starts,
            data=() if only == "edmc" else tuple(data or settings.data),
            ranks=tuple(rank or settings.ranks),
            helices=() if only == "symnmf" else settings.helices,
        )
        rows = run_speed(settings, say)
        machine = describe_machine(found)
        say("; ".join(machine.values()))
    _finish("How many times faster auto is", speed_table(rows), plain(rows), machine, report, as_json)


def _finish(
    title: str, table: str, rows: list[dict[str, Any]], machine: dict[str, str], report: str | None, as_json: bool
) -> None:
    """Write the page, if one was asked for, then print the table, or rows as JSON."""
    if report is not None:
        from quartic.bench.report import write_measured

        write_measured(report, title, table, machine, command_line())
    if as_json:
        typer.echo(json.dumps(rows))
        return
    show(title, table)
    if report is not None:
        typer.echo(report)
