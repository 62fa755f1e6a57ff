"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from quartic.bench.cases import parse_case
from quartic.bench.floor import cases_of
from quartic.bench.harness import Row, Store
from quartic.bench.league import draw_profiles
from quartic.bench.methods import SOLVERS
from quartic.bench.numbers import as_markdown, measure_cases, quote_numbers
from quartic.bench.page import fill_tables, numbers_of, write_report, write_results
from quartic.bench.sections import AXES, panels_of, run_section, settings_of
from quartic.cli.results import check_report
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
CaseNames = Annotated[
    list[str] | None,
    typer.Option(
        "--case", metavar="DATA:RANK|POINTS:SHARE[:NOISE]", help="A case, as in tdt2:20, or a helix, 5000:0.1."
    ),
]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Limit on one run, in seconds.")]
Patience = Annotated[float | None, typer.Option(min=1.0, help="Times what dyn-nolips took that a run may take.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads; with one, processor time is reported, else wall-clock.")]
Solvers = Annotated[list[str] | None, typer.Option(help=f"Solvers, such as {', '.join(SOLVERS)}.")]
Only = Annotated[str, typer.Option(help="symnmf, edmc or, of the league, stress: leave out the others.")]
RESULTS = Path("results")


def _add(app: typer.Typer, name: str, words: str, example: str) -> None:
    """Add the command that runs a section; all of them take the same options."""
    group = "paper" if app is paper else "bench"

    @app.command(name, help=words, epilog=f"Example: quartic {group} {name} {example}")
    def command(
        quick: Quick = False, starts: Starts = None, first_start: FirstStart = None, case: CaseNames = None,
        only: Only = "", solver: Solvers = None, seconds: Seconds = None, patience: Patience = None,
        threads: Threads = 1, results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
    ) -> None:  # fmt: skip
        settings = settings_of(name, quick)
        with _running(f"{group} {name}", report) as (say, progress):
            _check("--solver", solver or (), tuple(dict.fromkeys(m.split()[0] for m in settings.methods)))
            _check("--only", [only] if only else [], tuple(dict.fromkeys(c.family for c in settings.cases)))
            cases = [parse_case(text) for text in case or ()] or settings.cases
            cases = tuple(c for c in cases if only in ("", c.family))
            chosen = (*solver, *settings.pacemakers) if solver else ()
            methods = tuple(m for m in settings.methods if not chosen or {m, m.split()[0]} & set(chosen))
            asked: dict[str, Any] = {
                "starts": starts,
                "first_start": first_start,
                "seconds": seconds,
                "patience": patience,
            }
            asked = {option: value for option, value in asked.items() if value is not None}
            settings = replace(settings, cases=cases, methods=methods, threads=threads, **asked)
            store = run_section(settings, results, say, progress)
            rows = [row for row in store.rows if row["case"] in set(map(str, settings.cases))]
            _finish(store, rows, report, as_json)


for _app, _name, _example, _words in (
    (paper, "table1", "--case coil20:20 --starts 2",
     "Time to ε of the start's projected gradient: sixteen cells, the paper's solvers and ours."),
    (paper, "figure1", "--quick",
     "Normalised objective gap against time: four panels, as PNG, PDF and an HTML page that needs no network."),
    (paper, "figure2", "--case 2000:0.1 --starts 3",
     "Normalised RMSE over all distances against time, on the helix."),
    (bench, "peers", "--quick",
     "The same jobs by scikit-learn, SciPy, pymanopt and NetworkX, each through its own public interface."),
    (bench, "speed", "--case reuters:20 --starts 2",
     "How many times faster the estimators are than the paper's solvers, SciPy and pymanopt. One thread."),
    (bench, "league", "--quick --only symnmf",
     "Our solvers and their rivals from the same starts, on data at hand and drawn: performance profiles."),
):  # fmt: skip
    _add(_app, _name, _words, _example)


@bench.command("floor", epilog="Example: quartic bench floor --quick --threads 1")
def floor(
    quick: Quick = False,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of threads; 1 and 2 if left out.")] = None,
    results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """A whole iteration as a multiple of its bare product, ours and SciPy's."""
    _measure("floor", quick, results, report, as_json, threads=tuple(threads or ()) or None)


@bench.command("growth", epilog="Example: quartic bench growth --quick")
def growth(
    quick: Quick = False, most: Annotated[int | None, typer.Option(min=1, help="Leave out larger sizes.")] = None,
    results: Folder = RESULTS, report: Report = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Time and memory for more and more nodes and pairs, with the exponents of the fit."""
    _measure("growth", quick, results, report, as_json, most=most)


def _measure(name: str, quick: bool, results: Path, report: str | None, as_json: bool, **asked: Any) -> None:
    cases = cases_of(name, quick, **{option: value for option, value in asked.items() if value is not None})
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
    if name == "league":
        files += draw_profiles(rows, store.path.with_suffix(".png"))
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


def _check(option: str, words: Sequence[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise ValueError(f"{option} {word!r} is not one of {', '.join(known)}")


@contextmanager
def _running(command: str, report: str | None) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe; turn errors of the user's into one line."""
    from rich.console import Console

    console = Console(stderr=True)
    with errors_as_one_line(Voice(command)):
        check_report(report)
        try:
            with console.status("", refresh_per_second=2) as status:
                yield (lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)), status.update
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command goes on from here", err=True)
            raise typer.Exit(130) from None
