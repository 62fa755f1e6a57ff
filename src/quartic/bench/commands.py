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
from quartic.bench.floor import FloorSettings, GrowthSettings, floor_cases, growth_cases
from quartic.bench.harness import Row, Store
from quartic.bench.league import LeagueSettings, draw_profiles, print_grids, run_league
from quartic.bench.methods import METHODS, SOLVERS
from quartic.bench.numbers import Cases, as_markdown, measure_cases, quote_numbers
from quartic.bench.page import fill_tables, numbers_of, write_report, write_results
from quartic.bench.sections import AXES, panels_of, run_section, settings_of
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
Helices = Annotated[list[str] | None, typer.Option(metavar="POINTS:SHARE[:NOISE]", help="A helix, as in 5000:0.1.")]
Points = Annotated[list[int] | None, typer.Option("-n", min=10, help="Points on the helix.")]
Known = Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="Share of the distances known.")]
Solvers = Annotated[list[str] | None, typer.Option(help=f"Solvers, of {', '.join(dict.fromkeys(SOLVERS + METHODS))}.")]
Only = Annotated[str, typer.Option(help="symnmf or edmc: leave out the other.")]
RESULTS = Path("results")


def _add(app: typer.Typer, name: str, words: str, example: str) -> None:
    """Add the command that runs a section; all of them take the same options."""
    group = "paper" if app is paper else "bench"

    @app.command(name, help=words, epilog=f"Example: quartic {group} {name} {example}")
    def command(
        quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, cell: Cells = None,
        data: DataSets = None, rank: Ranks = None, helix: Helices = None, n: Points = None, known: Known = None,
        only: Only = "", solver: Solvers = None, seconds: Seconds = None, patience: Patience = None,
        threads: Threads = 1, results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
    ) -> None:  # fmt: skip
        settings = settings_of(name, quick)
        with _running(f"{group} {name}", report) as (say, progress):
            _check("--solver", solver or (), (*SOLVERS, *METHODS))
            _check("--only", [only] if only else [], ("symnmf", "edmc"))
            cases = _cases(settings.cases, cell, data, rank, helix, n, known)
            cases = tuple(c for c in cases if only in ("", "edmc" if isinstance(c, Helix) else "symnmf"))
            methods = tuple(m for m in settings.methods if solver is None or m.split()[0] in (*solver, "dyn-nolips"))
            settings = replace(settings, cases=cases, methods=methods, threads=threads)
            settings = _asked(settings, starts=starts, first_start=first_start, seconds=seconds, patience=patience)
            store = run_section(settings, results, say, progress)
            rows = [row for row in store.rows if row["case"] in set(map(str, settings.cases))]
            _finish(store, rows, report, as_json)


for _app, _name, _example, _words in (
    (paper, "table1", "--cell coil20:20 --starts 2",
     "Time to ε of the start's projected gradient: sixteen cells, the paper's solvers and ours."),
    (paper, "figure1", "--quick",
     "Normalised objective gap against time: four panels, as PNG, PDF and an HTML page that needs no network."),
    (paper, "figure2", "-n 2000 --known 0.1 --starts 3",
     "Normalised RMSE over all distances against time, on the helix."),
    (bench, "peers", "--quick",
     "The same jobs by scikit-learn, SciPy, pymanopt and NetworkX, each through its own public interface."),
    (bench, "speed", "--data reuters --rank 20 --starts 2",
     "How many times faster the estimators are than the paper's solvers, SciPy and pymanopt. One thread."),
):  # fmt: skip
    _add(_app, _name, _words, _example)


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
    settings = _asked(FloorSettings.quick() if quick else FloorSettings(), threads=tuple(threads or ()) or None)
    _measure("floor", quick, floor_cases(settings), results, report, as_json)


@bench.command("growth", epilog="Example: quartic bench growth --quick")
def growth(
    quick: Quick = False, most: Annotated[int | None, typer.Option(min=1, help="Leave out larger sizes.")] = None,
    results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Time and memory for more and more nodes and pairs, with the exponents of the fit."""
    settings = _asked(GrowthSettings.quick() if quick else GrowthSettings(), most=most)
    _measure("growth", quick, growth_cases(settings), results, report, as_json)


def _measure(name: str, quick: bool, cases: Cases, results: Path, report: str | None, as_json: bool) -> None:
    with _running(f"bench {name}", report) as (_, progress):
        store = measure_cases(results, name + "-quick" * quick, cases, progress, command=command_line())
        _finish(store, store.rows, report, as_json)


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
        numbers, stores = write_results(results, out)
        for path in document or ():
            path.write_text(quote_numbers(path.read_text(encoding="utf-8"), numbers), encoding="utf-8")
        if report is not None:
            figures = {name: made for store in stores for name, made in _figures(store, store.rows).items()}
            write_report(report, numbers, figures, command_line())
            written.append(report)
    for line in [json.dumps({"written": written})] if as_json else [f"wrote {path}" for path in written]:
        typer.echo(line)


def _figures(store: Store, rows: list[Row]) -> dict[str, list[Any]]:
    name = store.path.stem.partition("-")[0]
    return {name: [interactive(panel, AXES[name]) for panel in panels_of(name, rows)]} if name in AXES else {}


def _finish(store: Store, rows: list[Row], report: str | None, as_json: bool) -> None:
    """Draw figures, write the page, if one was asked for, then print tables and the names of files, or rows as JSON."""
    name = store.path.stem.partition("-")[0]
    files: list[Any] = [store.path]
    if name in AXES:
        files = draw(panels_of(name, rows), store.path.parent, store.path.stem, AXES[name]) + files
    numbers = numbers_of(store, rows)
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


def _cases(
    usual: Sequence[Cell | Helix], cell: list[str] | None, data: list[str] | None, rank: list[int] | None,
    helix: list[str] | None, n: list[int] | None, known: list[float] | None,
) -> Sequence[Cell | Helix]:  # fmt: skip
    """Return the cases that options name, singly or by their parts; the usual ones where none does."""
    cells, helices = (Cell.parse(text) for text in cell or ()), (Helix.parse(text) for text in helix or ())
    sets, ranks = data or (c.data for c in usual if isinstance(c, Cell)), rank or (RANKS if data else ())
    sizes, shares = n or (h.n for h in usual if isinstance(h, Helix)), known or ((0.1, 0.05) if n else ())
    parts: list[Cell | Helix] = [*(Cell.parse(f"{d}:{r}") for d in dict.fromkeys(sets) for r in ranks),
             *(Helix(size, share) for size in dict.fromkeys(sizes) for share in shares)]  # fmt: skip
    return (*cells, *helices, *parts) or usual


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
