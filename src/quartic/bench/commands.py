"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from quartic.bench.contestants import SOLVERS
from quartic.bench.figure1 import Figure1Settings, run_figure1
from quartic.bench.figure2 import Figure2Settings, run_figure2
from quartic.bench.floor import FloorSettings, floor_table, plain, run_floor
from quartic.bench.growth import GrowthSettings, at_most, growth_table, run_growth
from quartic.bench.page import write_page
from quartic.bench.paper_numbers import DATA, RANKS
from quartic.bench.peers import PeersSettings, peers_table, run_peers
from quartic.bench.record import describe_machine
from quartic.bench.speed import SpeedSettings, run_speed, speed_table
from quartic.bench.store import SettingsChanged
from quartic.bench.symnmf import Cell
from quartic.bench.table1 import Table1Settings, run_table1
from quartic.bench.table1_text import comparison, ratio_table, seconds_table
from quartic.bench.threads import fixed_threads

paper = typer.Typer(help="The paper's table and figures again.", no_args_is_help=True)
bench = typer.Typer(help="Speed: beside others, and beside the machine's limits.", no_args_is_help=True)

Results = Annotated[
    Path, typer.Option("--results", help="Folder for results; a run that was interrupted goes on from it.")
]
Starts = Annotated[int | None, typer.Option(min=1, help="Random starts.")]
Quick = Annotated[bool, typer.Option("--quick", help="A few minutes instead of hours.")]
Seconds = Annotated[float | None, typer.Option(min=0.1, help="Limit on one run, in seconds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as JSON, nothing else.")]
Threads = Annotated[
    int, typer.Option(min=1, help="Threads; with one, processor time is reported, else wall-clock time.")
]


@paper.command("table1", epilog="Example: quartic paper table1 --data coil20 --rank 20 --starts 2")
def table1(
    quick: Quick = False,
    starts: Starts = None,
    data: Annotated[list[str] | None, typer.Option(help=f"Data sets, of {', '.join(DATA)}.")] = None,
    rank: Annotated[list[int] | None, typer.Option(min=1, help=f"Ranks; the paper's are {RANKS}.")] = None,
    solver: Annotated[list[str] | None, typer.Option(help=f"Solvers, of {', '.join(SOLVERS)}.")] = None,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Time to ε of the start's projected gradient: sixteen cells, the paper's solvers and ours."""
    settings = Table1Settings.quick() if quick else Table1Settings()
    if data or rank:
        chosen = tuple(data or dict.fromkeys(cell.data for cell in settings.all_cells()))
        cells = tuple(Cell(d, r) for d in chosen for r in rank or RANKS)
        settings = replace(settings, cells=cells)
    _known("--solver", solver, SOLVERS)
    _known("--data", [name for name in data or () if not name.startswith("planted-")], DATA)
    settings = replace(
        settings,
        starts=starts or settings.starts,
        solvers=tuple(dict.fromkeys(("dyn-nolips", *solver))) if solver else settings.solvers,
        limits=settings.limits if seconds is None else replace(settings.limits, most=seconds),
        threads=threads,
    )
    with _running() as (say, progress):
        say(settings.in_words())
        table = run_table1(settings, results, say, progress)
    asked = set(settings.all_cells())
    rows = [row for row in table.rows if Cell(row["data"], int(row["rank"])) in asked]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    if not rows:
        raise typer.Exit(1)
    for epsilon in settings.epsilons:
        _show(f"Seconds to ε = {epsilon:g} (in brackets the paper's)", seconds_table(rows, epsilon))
        _show(f"As multiples of dyn-nolips's, ε = {epsilon:g}", ratio_table(rows, epsilon))
        _show(f"Beside the paper, ε = {epsilon:g}", comparison(rows, epsilon))
    typer.echo(f"rows: {results / settings.name}.csv")


@paper.command("figure1", epilog="Example: quartic paper figure1 --quick")
def figure1(
    quick: Quick = False,
    starts: Starts = None,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Normalised objective gap against time: four panels, as PNG, PDF and an HTML page that needs no network."""
    settings = Figure1Settings.quick() if quick else Figure1Settings()
    settings = replace(
        settings,
        starts=starts or settings.starts,
        seconds=seconds or settings.seconds,
        table=replace(settings.table, threads=threads),
    )
    with _running() as (say, progress):
        made = run_figure1(settings, results, say, progress)
    _files(made, results / f"{settings.name}.csv", as_json)


@paper.command("figure2", epilog="Example: quartic paper figure2 -n 2000 --known 0.1 --starts 3")
def figure2(
    quick: Quick = False,
    starts: Starts = None,
    n: Annotated[list[int] | None, typer.Option("-n", min=10, help="Points on the helix.")] = None,
    known: Annotated[list[float] | None, typer.Option(min=0.0, max=1.0, help="Share of the distances known.")] = None,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Normalised RMSE over all distances against time, on the helix."""
    settings = Figure2Settings.quick() if quick else Figure2Settings()
    if n or known:
        sizes = n or list(dict.fromkeys(size for size, _ in settings.cases))
        shares = known or list(dict.fromkeys(share for _, share in settings.cases))
        settings = replace(settings, cases=tuple((size, share) for share in shares for size in sizes))
    settings = replace(settings, starts=starts or settings.starts, seconds=seconds or settings.seconds, threads=threads)
    with _running() as (say, progress):
        made = run_figure2(settings, results, say, progress)
    _files(made, results / f"{settings.name}.csv", as_json)


@bench.command("peers", epilog="Example: quartic bench peers --quick")
def peers(
    quick: Quick = False,
    starts: Starts = None,
    seconds: Seconds = None,
    threads: Threads = 1,
    results: Results = Path("results"),
    as_json: AsJson = False,
) -> None:
    """The same jobs by scikit-learn, SciPy, pymanopt and NetworkX, each through its own public interface."""
    settings = PeersSettings.quick() if quick else PeersSettings()
    settings = replace(settings, starts=starts or settings.starts, seconds=seconds or settings.seconds, threads=threads)
    with _running() as (say, progress):
        rows = run_peers(settings, results, say, progress)
    if as_json:
        typer.echo(json.dumps(rows))
        return
    _show("Peers", peers_table(rows))
    typer.echo(f"rows: {results / settings.name}.csv")


@bench.command("floor", epilog="Example: quartic bench floor --quick --threads 1")
def floor(
    quick: Quick = False,
    threads: Annotated[list[int] | None, typer.Option(min=1, help="Numbers of threads; 1 and 2 if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """A whole iteration as a multiple of its bare product, and that beside copying memory."""
    settings = FloorSettings.quick() if quick else FloorSettings()
    settings = replace(settings, threads=tuple(threads)) if threads else settings
    with _running() as (say, progress):
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
    with _running() as (say, progress):
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
    _known("--data", [name for name in data or () if not name.startswith("planted-")], DATA)
    _known("--only", [only] if only else None, ("symnmf", "edmc"))
    settings = replace(
        settings,
        starts=starts or settings.starts,
        data=() if only == "edmc" else tuple(data or settings.data),
        ranks=tuple(rank or settings.ranks),
        helices=() if only == "symnmf" else settings.helices,
    )
    with _running() as (say, progress), fixed_threads(1) as found:
        rows = run_speed(settings, progress)
        say("; ".join(describe_machine(found).values()))
    if as_json:
        typer.echo(json.dumps(plain(rows)))
        return
    _show("How many times faster auto is", speed_table(rows))


@bench.command("page", epilog="Example: quartic bench page -o benchmarks/RESULTS.md --notes benchmarks/remarks.md")
def page(
    out: Annotated[Path, typer.Option("-o", "--out", help="The Markdown file to write.")] = Path("RESULTS.md"),
    notes: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Remarks to put at the top.")] = None,
    results: Results = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Write the results page from the results folder."""
    typer.echo(f"wrote {write_page(results, out, notes)}")


@contextmanager
def _running() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe; turn errors of the user's into one line."""
    console = Console(stderr=True)
    try:
        with console.status("", refresh_per_second=2) as status:
            yield (lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)), status.update
    except SettingsChanged as error:
        typer.echo(f"quartic: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None


def _known(option: str, given: list[str] | None, names: tuple[str, ...]) -> None:
    for name in given or ():
        if name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}", param_hint=option)


def _show(title: str, table: str) -> None:
    """Print a Markdown table, drawn on a terminal, as it is in a pipe."""
    console = Console()
    if console.is_terminal:
        console.print(Markdown(f"## {title}\n\n{table}"))
    else:
        typer.echo(f"\n{title}\n\n{table}")


def _files(made: list[Path], rows: Path, as_json: bool) -> None:
    """Name the files made; with ``--json``, print the rows behind them."""
    if as_json:
        with rows.open(encoding="utf-8", newline="") as file:
            typer.echo(json.dumps(list(csv.DictReader(file))))
        return
    if not made:
        raise typer.Exit(1)
    for path in (*made, rows):
        typer.echo(path)
