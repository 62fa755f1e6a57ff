"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from quartic.bench.cases import DATA, RANKS, Cell, Helix
from quartic.bench.floor import FloorSettings, GrowthSettings, run_floor, run_growth
from quartic.bench.harness import Row, Store
from quartic.bench.league import LeagueSettings, draw_profiles, league_numbers, print_grids, run_league
from quartic.bench.methods import SOLVERS
from quartic.bench.numbers import (
    Number,
    as_markdown,
    keep_numbers,
    provenance,
    quote_numbers,
    read_numbers,
    write_numbers,
)
from quartic.bench.page import PARTS, fill_tables, render_page, write_report
from quartic.bench.paper import (
    AXES,
    FigureSettings,
    Table1Settings,
    figure2_numbers,
    panels_of,
    run_figure,
    run_table1,
    table1_numbers,
)  # fmt: skip
from quartic.bench.race import RaceSettings, race_numbers, run_race
from quartic.cli.results import check_target
from quartic.cli.terminal import Voice, command_line, errors_as_one_line, write_stdout
from quartic.report.panels import draw, interactive

_APP: dict[str, Any] = {"no_args_is_help": True, "add_completion": False}
paper = typer.Typer(help="The paper's table and figures again.", epilog="Example: quartic paper table1 --quick", **_APP)
bench = typer.Typer(
    help="Benchmarks: other libraries, and the machine's limits.", epilog="Example: quartic bench peers --quick", **_APP
)

Starts = Annotated[int | None, typer.Option(min=0, help="Random starts.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes instead of hours.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as JSON, nothing else.")]
Report = Annotated[str | None, typer.Option("--report", metavar="FILE.html", help="Write a page with all of it too.")]
Folder = Annotated[
    Path, typer.Option("--results", "-o", help="Folder for results; a run that was interrupted goes on from it.")
]
FirstStart = Annotated[int | None, typer.Option(min=0, help="Seed of the first start, to share starts out.")]
Cells = Annotated[list[str] | None, typer.Option("--cell", metavar="DATA:RANK", help="A cell, as in tdt2:20.")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Limit on one run, in seconds.")]
Patience = Annotated[float | None, typer.Option(min=1.0, help="Times what dyn-nolips took that a run may take.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; with one, processor time is reported, else wall-clock.")]
DataSets = Annotated[list[str] | None, typer.Option(help=f"Data sets, of {', '.join(DATA)}.")]
Ranks = Annotated[list[int] | None, typer.Option(min=1, help=f"Ranks; the paper's are {RANKS}.")]
Only = Annotated[str, typer.Option(help="symnmf or edmc: leave out the other.")]
RESULTS = Path("results")


@paper.command("table1", epilog="Example: quartic paper table1 --cell coil20:20 --starts 2")
def table1(
    quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, cell: Cells = None,
    data: DataSets = None, rank: Ranks = None,
    solver: Annotated[list[str] | None, typer.Option(help=f"Solvers, of {', '.join(SOLVERS)}.")] = None,
    seconds: Seconds = None, patience: Patience = None, threads: Threads = 1, results: Folder = RESULTS,
    report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Time to ε of the start's projected gradient: sixteen cells, the paper's solvers and ours."""
    settings = Table1Settings.quick() if quick else Table1Settings()
    with _running("paper table1", report) as (say, progress):
        _check("--solver", solver or (), SOLVERS)
        settings = _asked(
            settings, starts=starts, first_start=first_start, cells=_cells(cell, data, rank, settings.cells),
            solvers=tuple(solver) if solver else None, seconds=seconds, patience=patience, threads=threads,
        )  # fmt: skip
        store = run_table1(settings, results, say, progress)
        _finish(store, [row for row in store.rows if row["case"] in set(map(str, settings.cells))], report, as_json)


@paper.command("figure1", epilog="Example: quartic paper figure1 --quick")
def figure1(
    quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, cell: Cells = None,
    seconds: Seconds = None, threads: Threads = 1, results: Folder = RESULTS, report: Report = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Normalised objective gap against time: four panels, as PNG, PDF and an HTML page that needs no network."""
    with _running("paper figure1", report) as (say, progress):
        settings = _asked(FigureSettings.figure1(quick), starts=starts, first_start=first_start, cases=_cells(cell),
                          seconds=seconds, threads=threads)  # fmt: skip
        _finish(store := run_figure(settings, results, say, progress), store.rows, report, as_json)


@paper.command("figure2", epilog="Example: quartic paper figure2 -n 2000 --known 0.1 --starts 3")
def figure2(
    quick: Quick = False, starts: Starts = None, first_start: FirstStart = None,
    n: Annotated[list[int] | None, typer.Option("-n", min=10, help="Points on the helix.")] = None,
    known: Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="Share of the distances known.")] = None,
    seconds: Seconds = None, threads: Threads = 1, results: Folder = RESULTS, report: Report = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Normalised RMSE over all distances against time, on the helix."""
    with _running("paper figure2", report) as (say, progress):
        sizes, shares = n or ([2000] if quick else [2000, 5000]), known or [0.1, 0.05]
        cases = tuple(Helix(size, share) for share in shares for size in sizes)
        settings = _asked(FigureSettings.figure2(quick), starts=starts, first_start=first_start, cases=cases,
                          seconds=seconds, threads=threads)  # fmt: skip
        _finish(store := run_figure(settings, results, say, progress), store.rows, report, as_json)


@bench.command("peers", epilog="Example: quartic bench peers --quick")
def peers(
    quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, seconds: Seconds = None,
    only: Only = "", threads: Threads = 1, results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """The same jobs by scikit-learn, SciPy, pymanopt and NetworkX, each through its own public interface."""
    with _running("bench peers", report) as (say, progress):
        settings = _asked(_only(RaceSettings.peers(quick), only), starts=starts, first_start=first_start,
                          seconds=seconds, threads=threads)  # fmt: skip
        _finish(store := run_race(settings, results, say, progress), store.rows, report, as_json)


@bench.command("speed", epilog="Example: quartic bench speed --data reuters --rank 20 --starts 2")
def speed(
    quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, data: DataSets = None,
    rank: Ranks = None,
    helix: Annotated[list[str] | None, typer.Option(metavar="POINTS:SHARE[:NOISE]", help="As in 5000:0.1.")] = None,
    seconds: Seconds = None, only: Only = "", results: Folder = RESULTS, report: Report = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """How many times faster the estimators are than the paper's solvers, SciPy and pymanopt. One thread."""
    settings = RaceSettings.speed(quick)
    with _running("bench speed", report) as (say, progress):
        cells, helices = _cells(None, data, rank, settings.cells), tuple(map(Helix.parse, helix or ())) or None
        settings = _only(_asked(settings, starts=starts, first_start=first_start, cells=cells, helices=helices,
                                seconds=seconds), only)  # fmt: skip
        _finish(store := run_race(settings, results, say, progress), store.rows, report, as_json)


@bench.command("league", epilog="Example: quartic bench league --quick --only symnmf")
def league(
    quick: Quick = False,
    only: Annotated[str, typer.Option(help="symnmf, edmc or stress: leave out the others.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is drawn.")] = 0,
    seconds: Seconds = None, results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Our solvers and their rivals from the same starts, on data at hand and drawn: performance profiles."""
    with _running("bench league", report) as (say, progress):
        _check("--only", [only] if only else [], ("symnmf", "edmc", "stress"))
        settings = _asked(LeagueSettings.choose(quick, only, seed), seconds=seconds)
        say(print_grids())
        store = run_league(settings, results, say, progress)
        with suppress(ImportError):  # without matplotlib there is no picture
            draw_profiles(store.rows, results / f"{settings.name}.png")
        _finish(store, store.rows, report, as_json)


@bench.command("floor", epilog="Example: quartic bench floor --quick --threads 1")
def floor(
    quick: Quick = False,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of threads; 1 and 2 if left out.")] = None,
    results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """A whole iteration as a multiple of its bare product, ours and SciPy's."""
    settings = FloorSettings.quick() if quick else FloorSettings()
    with _running("bench floor", report) as (_, progress):
        numbers = run_floor(_asked(settings, threads=tuple(threads or ()) or None), progress)
        _finish(store := keep_numbers(results, "floor", numbers, command_line()), store.rows, report, as_json)


@bench.command("growth", epilog="Example: quartic bench growth --quick")
def growth(
    quick: Quick = False, most: Annotated[int | None, typer.Option(min=1, help="Leave out larger sizes.")] = None,
    results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Time and memory for more and more nodes and pairs, with the exponents of the fit."""
    settings = GrowthSettings.quick() if quick else GrowthSettings()
    with _running("bench growth", report) as (_, progress):
        numbers = run_growth(_asked(settings, most=most), progress)
        _finish(store := keep_numbers(results, "growth", numbers, command_line()), store.rows, report, as_json)


@bench.command("page", epilog="Example: quartic bench page -o benchmarks/RESULTS.md --document README.md")
def page(
    out: Annotated[Path, typer.Option("-o", "--out", help="The Markdown file to write.")] = Path("RESULTS.md"),
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = RESULTS,
    document: Annotated[list[Path] | None, typer.Option(help="A document whose numbers are put right too.")] = None,
    report: Report = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths written as JSON, nothing else.")] = False,
) -> None:
    """Write the results page, and its table results.csv beside it, from the results folder, without running anything.

    Sections of the table that the folder has nothing new for stay as they are.
    """
    written = [str(out)]
    with _running("bench page", report):
        out.parent.mkdir(parents=True, exist_ok=True)
        table = out.with_name("results.csv")
        figures: dict[str, list[Any]] = {}
        for tail in ("-quick", ""):  # a quick run's numbers, then, in place of them, those of a whole one
            for store in (Store(results, f"{name}{tail}") for name in ("speed", *PARTS)):
                if store.rows:
                    write_numbers(table, _numbers(store, store.rows))
                    figures |= _figures(store, store.rows)
        numbers = read_numbers(table) if table.is_file() else []
        out.write_text(render_page(numbers), encoding="utf-8")
        for path in document or ():
            path.write_text(quote_numbers(path.read_text(encoding="utf-8"), numbers), encoding="utf-8")
        if report is not None:
            write_report(report, numbers, figures, command_line())
            written.append(report)
    for line in [json.dumps({"written": written})] if as_json else [f"wrote {path}" for path in written]:
        typer.echo(line)


def _numbers(store: Store, rows: list[Row]) -> list[Number]:
    """Return what the runs of a store come to, and where and by which command they were made."""
    name, _, tail = store.path.stem.partition("-")
    command = f"quartic {'paper' if name in ('table1', *AXES) else 'bench'} {name}" + (f" --{tail}" if tail else "")
    makers: dict[str, Callable[[list[Row], str], list[Number]]] = {
        "table1": table1_numbers, "figure2": figure2_numbers, "speed": race_numbers, "peers": race_numbers,
        "league": league_numbers,
    }  # fmt: skip
    if name in makers:
        kept = makers[name](rows, name)
    else:
        kept = [Number(name, *row["number"]) for row in rows if "number" in row]
    sections = dict.fromkeys(n.section for n in kept) or {name: None}
    return [*(n for section in sections for n in provenance(store, section, command)), *kept]


def _figures(store: Store, rows: list[Row]) -> dict[str, list[Any]]:
    name = store.path.stem.partition("-")[0]
    return {name: [interactive(panel, AXES[name]) for panel in panels_of(name, rows)]} if name in AXES else {}


def _finish(store: Store, rows: list[Row], report: str | None, as_json: bool) -> None:
    """Draw figures, write the page, if one was asked for, then print tables and the names of files, or rows as JSON."""
    name = store.path.stem.partition("-")[0]
    files: list[Any] = [store.path]
    if name in AXES:
        files = draw(panels_of(name, rows), store.path.parent, store.path.stem, AXES[name]) + files
    numbers = _numbers(store, rows) if rows else []
    if report is not None:
        write_report(report, numbers, _figures(store, rows), command_line())
        files.append(report)
    if as_json:
        write_stdout(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    if not rows:
        raise typer.Exit(1)
    for section in dict.fromkeys(n.section for n in numbers):
        for title, header, cells in fill_tables(section, numbers):
            typer.echo(f"\n{title}\n\n{as_markdown(header, cells)}")
    for path in files:
        typer.echo(path)


def _asked(settings: Any, **options: Any) -> Any:
    """Return the settings with the options that are given, which are those that are not None."""
    return replace(settings, **{name: value for name, value in options.items() if value is not None})


def _only(settings: RaceSettings, job: str) -> RaceSettings:
    _check("--only", [job] if job else [], ("symnmf", "edmc"))
    return _asked(settings, cells=() if job == "edmc" else None, helices=() if job == "symnmf" else None)  # type: ignore[no-any-return]


def _cells(
    cell: list[str] | None, data: list[str] | None = None, rank: list[int] | None = None, default: Sequence[Cell] = ()
) -> tuple[Cell, ...] | None:
    sets = data or (dict.fromkeys(each.data for each in default) if rank else ())
    return tuple(map(Cell.parse, [*(cell or ()), *(f"{d}:{r}" for d in sets for r in rank or RANKS)])) or None


def _check(option: str, words: Sequence[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise ValueError(f"{option} {word!r} is not one of {', '.join(known)}")


@contextmanager
def _running(command: str, report: str | None) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe; turn errors of the user's into one line."""
    from rich.console import Console

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
