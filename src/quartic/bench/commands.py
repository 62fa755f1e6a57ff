"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from quartic.bench.choice import cells_asked, check_words, solvers_asked
from quartic.bench.contestants import SOLVERS
from quartic.bench.figure1 import Figure1Settings, run_figure1
from quartic.bench.figure2 import Figure2Settings, run_figure2, summary
from quartic.bench.floor import FloorSettings, floor_table, plain, run_floor
from quartic.bench.growth import GrowthSettings, at_most, growth_table, run_growth
from quartic.bench.page import write_page
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.peers import PeersSettings, peers_table, run_peers
from quartic.bench.record import describe_machine
from quartic.bench.speed import SpeedSettings, run_speed, speed_table
from quartic.bench.store import Row
from quartic.bench.symnmf import Cell
from quartic.bench.table1 import Table1Settings, run_table1
from quartic.bench.table1_text import comparison, ratio_table, seconds_table
from quartic.bench.threads import fixed_threads
from quartic.commands.terminal import Voice, command_line, errors_as_one_line, write_stdout

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
Starts = Annotated[int | None, typer.Option(min=1, help="Random starts.")]
FirstStart = Annotated[int, typer.Option(min=0, help="Seed of the first start, to share starts out among processes.")]
Cells = Annotated[list[str] | None, typer.Option("--cell", metavar="DATA:RANK", help="A cell, as in tdt2:20.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes instead of hours.")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Limit on one run, in seconds.")]
Patience = Annotated[float | None, typer.Option(min=1.0, help="Times what dyn-nolips took that a run may take.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as JSON, nothing else.")]
Report = Annotated[str | None, typer.Option("--report", metavar="FILE.html", help="Write a page with all of it too.")]
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
    with _running("paper table1", report) as (say, progress):
        cells = cells_asked(cell or ())
        if data or rank:
            chosen = data or dict.fromkeys(cell.data for cell in settings.all_cells())
            cells += cells_asked([f"{d}:{r}" for d in chosen for r in rank or RANKS])
        settings = replace(
            settings,
            cells=cells or settings.cells,
            starts=starts or settings.starts,
            first_start=first_start,
            solvers=solvers_asked(solver) if solver else settings.solvers,
            limits=replace(
                settings.limits, most=seconds or settings.limits.most, patience=patience or settings.limits.patience
            ),
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
    with _running("paper figure1", report) as (say, progress):
        limits = settings.table.limits
        settings = replace(
            settings,
            cells=cells_asked(cell or ()) or settings.cells,
            starts=starts or settings.starts,
            first_start=first_start,
            seconds=seconds or settings.seconds,
            table=replace(
                settings.table, threads=threads, limits=replace(limits, patience=patience or limits.patience)
            ),
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
        settings = replace(settings, cases=tuple((size, share) for share in shares for size in sizes))
    settings = replace(
        settings,
        starts=starts or settings.starts,
        first_start=first_start,
        seconds=seconds or settings.seconds,
        threads=threads,
    )
    with _running("paper figure2", report) as (say, progress):
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
    settings = replace(
        settings,
        starts=starts or settings.starts,
        first_start=first_start,
        seconds=seconds or settings.seconds,
        threads=threads,
    )
    with _running("bench peers", report) as (say, progress):
        rows = run_peers(settings, results, say, progress)
    _finish(settings.name, results, report, as_json, rows, [("Peers", peers_table(rows))])


@bench.command("floor", epilog="Example: quartic bench floor --quick --threads 1")
def floor(
    quick: Quick = False,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of threads; 1 and 2 if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """A whole iteration as a multiple of its bare product, and that beside copying memory."""
    settings = FloorSettings.quick() if quick else FloorSettings()
    settings = replace(settings, threads=tuple(threads)) if threads else settings
    with _running("bench floor", None) as (say, progress):
        rows = run_floor(settings, progress)
        say("; ".join(describe_machine().values()))
    if as_json:
        typer.echo(json.dumps(plain(rows)))
        return
    _show("An iteration beside its bare product", floor_table(rows))


@bench.command("growth", epilog="Example: quartic bench growth --quick")
def growth(
    quick: Quick = False,
    most: Annotated[int | None, typer.Option(min=1, help="Leave out larger sizes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time and memory for more and more nodes and pairs, with the exponents of the fit."""
    settings = at_most(GrowthSettings.quick() if quick else GrowthSettings(), most)
    with _running("bench growth", None) as (say, progress):
        rows = run_growth(settings, progress)
        say("; ".join(describe_machine().values()))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    _show("Growth", growth_table(rows))


@bench.command("speed", epilog="Example: quartic bench speed --data reuters --rank 20 --starts 2")
def speed(
    quick: Quick = False,
    starts: Starts = None,
    data: Annotated[list[str] | None, typer.Option(help=f"Data sets, of {', '.join(DATA)}.")] = None,
    rank: Annotated[list[int] | None, typer.Option(min=1, help=f"Ranks; the paper's are {RANKS}.")] = None,
    only: Annotated[str, typer.Option(help="symnmf or edmc: leave out the other.")] = "",
    as_json: AsJson = False,
) -> None:
    """How many times faster auto is: than SymHALS and Dyn-NoLips, than SciPy and pymanopt. One thread."""
    settings = SpeedSettings.quick() if quick else SpeedSettings()
    with _running("bench speed", None) as (say, _), fixed_threads(1) as found:
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
        say("; ".join(describe_machine(found).values()))
    if as_json:
        typer.echo(json.dumps(plain(rows)))
        return
    _show("How many times faster auto is", speed_table(rows))


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

    with _running("bench page", report):
        written = [str(write_page(results, out, notes))]
        if report is not None:
            write_report(report, results, [*NAMES, *(f"{name}-quick" for name in NAMES)], command_line())
            written.append(report)
    if as_json:
        typer.echo(json.dumps({"written": written}))
    else:
        for path in written:
            typer.echo(f"wrote {path}")


@contextmanager
def _running(command: str, report: str | None) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe; turn errors of the user's into one line."""
    from quartic.commands.results import check_target
    from quartic.report import report_available

    console = Console(stderr=True)
    with errors_as_one_line(Voice(command)):
        if report is not None:
            check_target(report, (".html", ".htm"), "--report")
            if not report_available():
                raise ImportError("--report needs plotly: pip install 'quartic[report]'")
        try:
            with console.status("", refresh_per_second=2) as status:
                yield (lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)), status.update
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on from here", err=True)
            raise typer.Exit(130) from None


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
        _show(title, table)
    written: list[Any] = [*(files or ()), results / f"{name}.csv"]
    for path in written if report is None else [*written, report]:
        typer.echo(path)


def _show(title: str, table: str) -> None:
    """Print a Markdown table, drawn on a terminal, as it is in a pipe."""
    console = Console()
    if console.is_terminal:
        console.print(Markdown(f"## {title}\n\n{table}"))
    else:
        typer.echo(f"\n{title}\n\n{table}")
