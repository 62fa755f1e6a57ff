"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from quartic.bench.choice import cells_asked, solvers_asked
from quartic.bench.contestants import SOLVERS
from quartic.bench.figure1 import Figure1Settings, run_figure1
from quartic.bench.figure2 import Figure2Settings, run_figure2, summary
from quartic.bench.page import write_page
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.peers import PeersSettings, peers_table, run_peers
from quartic.bench.speed_commands import floor, growth, speed
from quartic.bench.store import Row
from quartic.bench.symnmf import Cell
from quartic.bench.table1 import Table1Settings, run_table1
from quartic.bench.table1_text import comparison, ratio_table, seconds_table
from quartic.bench.terminal import AsJson, Quick, Report, Starts, running, show
from quartic.cli.terminal import command_line, write_stdout

paper = typer.Typer(
    help="The paper's table and figures again.",
    epilog="Example: quartic paper table1 --quick",
    no_args_is_help=True,
    add_completion=False,
)
bench = typer.Typer(
    help="Speed: beside others, and beside the machine's limits.",
    epilog="Example: quartic bench peers --quick",
    no_args_is_help=True,
    add_completion=False,
)

Results = Annotated[
    Path, typer.Option("--results", "-o", help="Folder for results; a run that was interrupted goes on from it.")
]
FirstStart = Annotated[int, typer.Option(min=0, help="Seed of the first start, to share starts out among processes.")]
Cells = Annotated[list[str] | None, typer.Option("--cell", metavar="DATA:RANK", help="A cell, as in tdt2:20.")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Limit on one run, in seconds.")]
Patience = Annotated[float | None, typer.Option(min=1.0, help="Times what dyn-nolips took that a run may take.")]
Threads = Annotated[
    int, typer.Option(min=1, help="Threads; with one, processor time is reported, else wall-clock time.")
]


@paper.command("table1", epilog="Example: quartic paper table1 --cell coil20:20 --starts 2")
def table1(
    quick: Quick = False,
    starts: Starts = None,
    first_start: FirstStart = 0,
    cell: Cells = None,
    data: Annotated[list[str] | None, typer.Option(help=f"Data sets, of {', '.join(DATA)}.")] = None,
    rank: Annotated[list[int] | None, typer.Option(min=1, help=f"Ranks; the paper's are {RANKS}.")] = None,
    solver: Annotated[list[str] | None, typer.Option(help=f"Solvers, of {', '.join(SOLVERS)}.")] = None,
    seconds: Seconds = None,
    patience: Patience = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Time to ε of the start's projected gradient: sixteen cells, the paper's solvers and ours."""
    settings = Table1Settings.quick() if quick else Table1Settings()
    with running("paper table1", report) as (say, progress):
        cells = cells_asked(cell or ())
        if data or rank:
            chosen = data or dict.fromkeys(cell.data for cell in settings.all_cells())
            cells += cells_asked([f"{d}:{r}" for d in chosen for r in rank or RANKS])
        settings = settings.asked(
            cells=cells or None,
            starts=starts,
            first_start=first_start,
            solvers=solvers_asked(solver) if solver else None,
            limits=settings.limits.asked(seconds, patience),
            threads=threads,
        )
        say(settings.in_words())
        table = run_table1(settings, results, say, progress)
    asked = set(settings.all_cells())
    rows = [row for row in table.rows if Cell(row["data"], int(row["rank"])) in asked]
    tables = []
    for epsilon in settings.epsilons:
        tables += [
            (f"Seconds to ε = {epsilon:g} (in brackets the paper's)", seconds_table(rows, epsilon)),
            (f"As multiples of dyn-nolips's, ε = {epsilon:g}", ratio_table(rows, epsilon)),
            (f"Beside the paper, ε = {epsilon:g}", comparison(rows, epsilon)),
        ]
    _finish(settings.name, results, report, as_json, rows, tables)


@paper.command("figure1", epilog="Example: quartic paper figure1 --quick")
def figure1(
    quick: Quick = False,
    starts: Starts = None,
    first_start: FirstStart = 0,
    cell: Cells = None,
    seconds: Seconds = None,
    patience: Patience = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Normalised objective gap against time: four panels, as PNG, PDF and an HTML page that needs no network."""
    settings = Figure1Settings.quick() if quick else Figure1Settings()
    with running("paper figure1", report) as (say, progress):
        table = settings.table
        settings = settings.asked(
            cells=cells_asked(cell or ()) or None,
            starts=starts,
            first_start=first_start,
            seconds=seconds,
            table=table.asked(threads=threads, limits=table.limits.asked(patience=patience)),
        )
        made = run_figure1(settings, results, say, progress)
    _finish(settings.name, results, report, as_json, _rows(results, settings.name), files=made)


@paper.command("figure2", epilog="Example: quartic paper figure2 -n 2000 --known 0.1 --starts 3")
def figure2(
    quick: Quick = False,
    starts: Starts = None,
    first_start: FirstStart = 0,
    n: Annotated[list[int] | None, typer.Option("-n", min=10, help="Points on the helix.")] = None,
    known: Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="Share of the distances known.")] = None,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Normalised RMSE over all distances against time, on the helix."""
    settings = Figure2Settings.quick() if quick else Figure2Settings()
    if n or known:
        sizes = n or list(dict.fromkeys(size for size, _ in settings.cases))
        shares = known or list(dict.fromkeys(share for _, share in settings.cases))
        settings = settings.asked(cases=tuple((size, share) for share in shares for size in sizes))
    settings = settings.asked(starts=starts, first_start=first_start, seconds=seconds, threads=threads)
    with running("paper figure2", report) as (say, progress):
        made = run_figure2(settings, results, say, progress)
    rows = _rows(results, settings.name)
    tables = [("Mean seconds to an RMSE, over the starts that got there", "\n".join(summary(rows)))]
    _finish(settings.name, results, report, as_json, rows, tables, made)


@bench.command("peers", epilog="Example: quartic bench peers --quick")
def peers(
    quick: Quick = False,
    starts: Starts = None,
    first_start: FirstStart = 0,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """The same jobs by scikit-learn, SciPy, pymanopt and NetworkX, each through its own public interface."""
    settings = PeersSettings.quick() if quick else PeersSettings()
    settings = settings.asked(starts=starts, first_start=first_start, seconds=seconds, threads=threads)
    with running("bench peers", report) as (say, progress):
        rows = run_peers(settings, results, say, progress)
    _finish(settings.name, results, report, as_json, rows, [("Peers", peers_table(rows))])


bench.command("floor", epilog="Example: quartic bench floor --quick --threads 1")(floor)
bench.command("growth", epilog="Example: quartic bench growth --quick")(growth)
bench.command("speed", epilog="Example: quartic bench speed --data reuters --rank 20 --starts 2")(speed)


@bench.command("page", epilog="Example: quartic bench page -o benchmarks/RESULTS.md --notes benchmarks/remarks.md")
def page(
    out: Annotated[Path, typer.Option("-o", "--out", help="The Markdown file to write.")] = Path("RESULTS.md"),
    notes: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Remarks to put at the top.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    report: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths written as JSON, nothing else.")] = False,
) -> None:
    """Write the results page from the results folder, without running anything."""
    from quartic.bench.report import NAMES, write_report

    with running("bench page", report):
        written = [str(write_page(results, out, notes))]
        if report is not None:
            write_report(report, results, [*NAMES, *(f"{name}-quick" for name in NAMES)], command_line())
            written.append(report)
    if as_json:
        typer.echo(json.dumps({"written": written}))
    else:
        for path in written:
            typer.echo(f"wrote {path}")


def _rows(results: Path, name: str) -> list[Row]:
    with (results / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _finish(
    name: str,
    results: Path,
    report: str | None,
    as_json: bool,
    rows: list[Row],
    tables: list[tuple[str, str]] | None = None,
    files: list[Path] | None = None,
) -> None:
    """Write the page, if one was asked for, then print tables and the names of files, or rows as JSON."""
    from quartic.bench.report import write_report

    if report is not None:
        write_report(report, results, [name], command_line())
    if as_json:
        write_stdout(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    if not rows:
        raise typer.Exit(1)
    for title, table in tables or ():
        show(title, table)
    written: list[Any] = [*(files or ()), results / f"{name}.csv"]
    for path in written if report is None else [*written, report]:
        typer.echo(path)
