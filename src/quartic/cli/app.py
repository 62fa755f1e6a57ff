"""The command ``quartic``: its arguments and options. What the commands do is in the other modules of `quartic.cli`."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from quartic._version import __version__
from quartic.cli.startup import import_sklearn
from quartic.cli.terminal import PlainSpokenGroup

# Commands that live with what they run, and are loaded when they are called.
_LATER = {
    "paper": "Reproduce the paper's table and figures.",
    "bench": "Benchmarks: other libraries, and the machine's limits.",
}


class _Commands(PlainSpokenGroup):
    """The commands; of those loaded later, help tells only what they are for."""

    telling = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *_LATER]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        if cmd_name not in _LATER:
            return super().get_command(ctx, cmd_name)
        if self.telling:
            return TyperGroup(name=cmd_name, help=_LATER[cmd_name])
        return typer.main.get_command(getattr(import_module("quartic.bench.commands"), cmd_name))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without loading what it is about."""
        self.telling = True
        super().format_help(ctx, formatter)
        self.telling = False


app = typer.Typer(
    cls=_Commands,
    help="Low-rank minimisation of F(XXᵀ) + g(X): clusters from similarities, coordinates from distances.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _in_paragraphs(command: Callable[..., None]) -> Callable[..., None]:
    """Join the lines of a docstring's paragraphs, which help would otherwise break where the source does."""
    command.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.__doc__ or ""))
    return command


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"quartic {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take what all commands share."""
    _say_when_compiling()


def _say_when_compiling() -> None:
    """Print the library's one line about compiling, which its logger says the first time it runs on a machine."""
    logger = logging.getLogger("quartic")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("quartic: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


# -- options that commands share --------------------------------------------------------------------------------------


Output = Annotated[str, Option("--output", "-o", metavar="FILE", help="Result file; - is standard output.")]
Report = Annotated[str | None, Option("--report", metavar="FILE.html", help="Also write an HTML report with figures.")]
Seed = Annotated[int, Option(min=0, help="Random seed; the same seed gives the same result.")]
SolverName = Annotated[str, Option("--solver", help="auto, or the name of a solver (listed in the README).")]
Tolerance = Annotated[float, Option(min=0, help="Stop when the gradient norm is TOL times its norm at a random start.")]
MaxIter = Annotated[int, Option(min=0, help="Maximum number of iterations per run.")]
MaxTime = Annotated[float | None, Option(help="Time limit in seconds; the best result so far is then written.")]
Runs = Annotated[int, Option("--n-init", min=1, help="Runs from different starts; the best is kept.")]
Json = Annotated[bool, Option("--json", help="Print a JSON summary; without -o it contains the result.")]
Columns = Annotated[
    str | None,
    Option(metavar="A,B[,C]", help="Columns of the two nodes (points) and of the value: names or numbers."),
]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print warnings and errors only.")]

# of cluster
Clustered = Annotated[
    str,
    Argument(
        metavar="INPUT",
        help="A graph (edge list .csv .xlsx .parquet .json; .mtx .npz .graphml .gexf .gml .net) or features (.csv "
        ".xlsx .parquet .json .npy .npz .mat); - is standard input.",
    ),
]
Clusters = Annotated[
    int | None, Option("--clusters", "-k", help="Number of clusters; chosen between 2 and 10 if left out.")
]
As = Annotated[str | None, Option("--as", metavar="graph|features", help="What INPUT is, if the guess is wrong.")]
Affinity = Annotated[
    str | None,
    Option(metavar="cosine|self_tuning", help="Similarity for features: cosine for documents, self_tuning otherwise."),
]
Neighbors = Annotated[
    str, Option(metavar="N|auto|all", help="For features: neighbours kept per sample, including the sample itself.")
]
EdgeRepeats = Annotated[
    str | None, Option(metavar="sum|mean|last", help="How to combine edges that are listed more than once.")
]
Scheduler = Annotated[str | None, Option(metavar="ADDRESS", help="Use this Dask cluster, such as tcp://10.0.0.1:8786.")]
Workers = Annotated[int | None, Option(metavar="N", help="Start a local Dask cluster of N processes and use it.")]

# of locate
Located = Annotated[
    str,
    Argument(
        metavar="INPUT",
        help="Some distances: i,j,d or a matrix (.csv .xlsx .parquet .json); .npz .npy .mtx; MD-jeep .nmr; - is "
        "standard input.",
    ),
]
Dimension = Annotated[int, Option("--dimension", "-d", help="Dimension of the space.")]
Anchors = Annotated[str | None, Option(metavar="FILE", help="Points with known positions: .csv point,x,y[,z].")]
Align = Annotated[str | None, Option(metavar="FILE", help="Points (point,x,y[,z]) to which the result is aligned.")]
Weights = Annotated[str | None, Option(metavar="noise", help="noise: for errors proportional to the distance.")]
Noise = Annotated[float | None, Option(help="Standard deviation of the distances; adds a column standard_error.")]
Refine = Annotated[
    str | None, Option(metavar="stress", help="stress: finish by minimising errors in the distances themselves.")
]
PairRepeats = Annotated[
    str | None, Option(metavar="mean|last", help="How to combine distances that are listed more than once.")
]


@app.command(epilog="Example: quartic cluster friends.csv -k 5 -o clusters.csv --report clusters.html")
@_in_paragraphs
def cluster(
    input: Clustered, n_clusters: Clusters = None, output: Output = "-", report: Report = None, as_: As = None,
    affinity: Affinity = None, neighbors: Neighbors = "auto", columns: Columns = None, repeats: EdgeRepeats = None,
    solver: SolverName = "auto", tol: Tolerance = 1e-3, max_iter: MaxIter = 10_000, max_time: MaxTime = None,
    n_init: Runs = 1, seed: Seed = 0, as_json: Json = False, quiet: Quiet = False, scheduler: Scheduler = None,
    workers: Workers = None,
) -> None:  # fmt: skip
    """Find clusters in a graph or in features, by symmetric nonnegative matrix factorisation.

    An edge list has two nodes and an optional weight per line; nodes may have names. Features have a row per sample
    and optionally a column of names. Separator, header and columns are detected and reported. A graph larger than
    memory is a folder of row blocks (quartic.io.write_blocks).

    The result has the columns node,cluster and a soft membership for each cluster (.csv .tsv .npz; .npy has the
    clusters only). Exit code: 0 converged; 1 not converged, or interrupted (the result is still written);
    2 invalid input (nothing is written).
    """
    given = locals()
    import_sklearn()
    from quartic.cli.cluster import ClusterOptions, run

    run(ClusterOptions(**given))


@app.command(epilog="Example: quartic locate distances.csv -d 3 -o points.csv --anchors known.csv --report points.html")
@_in_paragraphs
def locate(
    input: Located, dimension: Dimension = 3, output: Output = "-", report: Report = None, anchors: Anchors = None,
    align: Align = None, weights: Weights = None, noise: Noise = None, refine: Refine = None, columns: Columns = None,
    repeats: PairRepeats = None, solver: SolverName = "auto", tol: Tolerance = 1e-8, max_iter: MaxIter = 10_000,
    max_time: MaxTime = None, n_init: Runs = 1, seed: Seed = 0, as_json: Json = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Find points from some of the distances between them, and which of them the distances determine.

    A list of distances has two points per line, by name or number, and their distance, or lower and upper bounds, and
    optionally a weight. A square table has a row and a column per point, blank where unknown. Separator, header and
    columns are detected and reported.

    The result has the columns point,x,y[,z],…,determined (.csv .tsv; .npy .pdb .cif .xyz have the coordinates). Exit
    code: 0 converged; 1 not converged, or interrupted (the result is still written); 2 invalid input (nothing is
    written).
    """
    given = locals()
    import_sklearn()
    from quartic.cli.locate import LocateOptions, run

    run(LocateOptions(**given))


@app.command(epilog="Example: quartic sdp maxG11.dat-s --tol 1e-6 -o solution.npz")
@_in_paragraphs
def sdp(
    input: Annotated[str, Argument(metavar="FILE.dat-s", help="A programme in SDPA's sparse format, plain or .gz.")],
    output: Annotated[
        str | None, Option("--output", "-o", metavar="FILE.npz", help="Write y and a factor of each block.")
    ] = None,
    report: Report = None,
    tol: Annotated[float, Option(help="What each of the six DIMACS errors may be.")] = 1e-6,
    rank: Annotated[int | None, Option(help="Columns to begin with; chosen if left out.")] = None,
    method: Annotated[str, Option(metavar="auto|low-rank|interior", help="How to solve it.")] = "auto",
    max_time: MaxTime = None, seed: Seed = 0, as_json: Json = False, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Solve a semidefinite programme, with a proven bound on its optimum.

    The file says: maximise ⟨F_0, Y⟩ over Y ⪰ 0 with ⟨F_k, Y⟩ = c_k. Exit code: 0 converged; 1 not converged,
    infeasible, unbounded or interrupted (what was found is still written); 2 invalid input (nothing is written).
    """
    given = locals()
    from quartic.cli.sdp import SDPOptions, run

    run(SDPOptions(**given))


@app.command(epilog="Example: quartic demo --report my-report.html")
def demo(
    report: Annotated[Path, Option(metavar="FILE.html", help="Where to write the report.")] = Path(
        "quartic-report.html"
    ),
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON only.")] = False,
    seed: Annotated[int, Option(help="Random seed of the data and the starts.")] = 0,
) -> None:
    """Both tasks on generated data: clusters of a graph, points from a few distances, with an HTML report."""
    from quartic.demo import run

    run(report, as_json, seed)


@app.command(epilog="Example: quartic info --json")
def info(as_json: Annotated[bool, Option("--json", help="Print as JSON.")] = False) -> None:
    """Versions, threads, GPU and cache folders, for bug reports."""
    from quartic.cli.info import facts

    found = facts()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for key, value in found.items():
        typer.echo(f"{key:18} {value}")


def main() -> None:
    """Run the command line."""
    app(prog_name="quartic")
