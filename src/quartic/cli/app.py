"""The command ``quartic``: its arguments and options. What the commands do is in the other modules of `quartic.cli`."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from quartic._version import __version__
from quartic.cli.terminal import Options, Parser, errors_as_one_line

Option = tuple[tuple[str, ...], dict[str, Any]]


def _option(*flags: str, **how: Any) -> Option:
    return flags, how


def _flag(*flags: str, **how: Any) -> Option:
    return flags, {"action": "store_true", **how}


def _number(low: float, kind: type = int, above: bool = False) -> Callable[[str], Any]:
    """Return what reads a number, and refuses those below a least one, or that one too."""

    def read(text: str) -> Any:
        value = kind(text)
        if not (value > low if above else value >= low):
            raise argparse.ArgumentTypeError(f"{text} is {'not above' if above else 'below'} {low:g}")
        return value

    read.__name__ = "whole number" if kind is int else "number"  # what messages call it
    return read


# -- options ----------------------------------------------------------------------------------------------------------

_REPORT = _option("--report", metavar="FILE.html", help="also write an HTML report with figures")
_SEED = _option("--seed", type=_number(0), default=0, help="random seed; the same seed gives the same result")
_MAX_TIME = _option(
    "--max-time",
    type=_number(0, float, above=True),
    help="time limit in seconds; the best result so far is then written",
)
_JSON = _flag("--json", dest="as_json", help="print a JSON summary; without -o it contains the result")
_QUIET = _flag("--quiet", "-q", help="print warnings and errors only")
_FITS = (
    _option("--output", "-o", metavar="FILE", default="-", help="result file; - is standard output"),
    _REPORT,
    _option("--solver", default="auto", help="auto, or the name of a solver (listed in the README)"),
    _option("--max-iter", type=_number(0), default=10_000, help="maximum number of iterations per run"),
    _MAX_TIME,
    _option("--n-init", type=_number(1), default=1, help="runs from different starts; the best is kept"),
    _SEED, _JSON, _QUIET,
)  # fmt: skip


def _columns(more: str = "") -> Option:
    words = f"columns of the two nodes (points) and of the value: names or numbers{more}"
    return _option("--columns", metavar="A,B[,C]", help=words)


def _tolerance(default: float, more: str = "") -> Option:
    words = "accuracy: stop when the gradient has shrunk to TOL times its norm at a random start; smaller is slower"
    words += more
    return _option("--tol", type=_number(0, float), default=default, help=words)


_CLUSTER = (
    _option("input", metavar="INPUT",
            help="a graph (edge list .csv .xlsx .parquet .json; .mtx .npz .graphml .gexf .gml .net) or features "
            "(.csv .xlsx .parquet .json .npy .npz .mat); - is standard input"),
    _option("--clusters", "-k", dest="n_clusters", type=_number(1), metavar="K",
            help="number of clusters; chosen between 2 and 10 if left out"),
    _option("--as", choices=("graph", "features"), dest="as_", help="what INPUT is, if the guess is wrong"),
    _option("--affinity", choices=("precomputed", "cosine", "self_tuning"),
            help="similarity for features: cosine for documents, self_tuning otherwise; precomputed: a graph"),
    _option("--neighbors", metavar="N|auto|all", default="auto",
            help="for features: neighbours kept per sample, including the sample itself"),
    _option("--normalize", choices=("auto", "none", "symmetric", "regularized", "walks"), default="auto",
            help="for graphs: how edge weights are normalised first"),
    _option("--scale", choices=("auto", "none", "standard"), default="auto",
            help="for features: scale columns to variance 1; auto: if ranges differ 20 times"),
    _option("--repeats", choices=("sum", "mean", "last"), help="how to combine edges that are listed more than once"),
    _option("--scheduler", metavar="ADDRESS", help="use this Dask cluster, such as tcp://10.0.0.1:8786"),
    _option("--workers", metavar="N", type=_number(1), help="start a local Dask cluster of N processes and use it"),
    _columns("; of features, the columns that count"), _tolerance(1e-3), *_FITS,
)  # fmt: skip
_LOCATE = (
    _option("input", metavar="INPUT",
            help="some distances: i,j,d or a matrix (.csv .xlsx .parquet .json); .npz .npy .mtx; MD-jeep .nmr; - is "
            "standard input"),
    _option("--dimension", "-d", type=_number(1), default=3, help="dimension of the space"),
    _option("--anchors", metavar="FILE", help="points with known positions: .csv point,x,y[,z]"),
    _option("--align", metavar="FILE", help="points (point,x,y[,z], or .pdb) to which the result is aligned"),
    _option("--weights", choices=("noise",), help="noise: for errors proportional to the distance"),
    _option("--noise", type=_number(0, float, above=True),
            help="standard deviation of the distances; adds a column standard_error"),
    _option("--refine", choices=("stress",), help="stress: finish by minimising errors in the distances themselves"),
    _flag("--robust", help="leave out distances that contradict the others, and list them"),
    _option("--repeats", choices=("mean", "last"), help="how to combine distances that are listed more than once"),
    _columns(), _tolerance(1e-8, "; where distances are nearly met, a last run goes on to TOL/1e5"), *_FITS,
)  # fmt: skip
_SDP = (
    _option("input", metavar="FILE.dat-s", help="a semidefinite programme in SDPA sparse format, plain or .gz; - is "
            "standard input"),
    _option("--output", "-o", metavar="FILE.npz", help="write y and a factor of each block"),
    _REPORT,
    _option("--tol", type=float, default=1e-6, help="tolerance for each of the six DIMACS error measures"),
    _option("--rank", type=int, help="initial number of columns of the factors; chosen if left out"),
    _option("--method", choices=("auto", "low-rank", "interior"), default="auto", help="solution method"),
    _MAX_TIME, _SEED, _JSON, _QUIET,
)  # fmt: skip
_RUNS = (
    _flag("--quick", help="a few minutes instead of hours"),
    _option("--results", "-o", type=Path, default=Path("results"), metavar="FOLDER",
            help="folder for results; the same command continues an interrupted run"),
    _REPORT,
    _flag("--json", dest="as_json", help="print the rows as JSON, nothing else"),
)  # fmt: skip
_RACE = (
    _option("--case", action="append", metavar="DATA:RANK|POINTS:SHARE[:NOISE]",
            help="a data set and rank, such as tdt2:20, or a helix, such as 5000:0.1; may be given several times"),
    _option("--only", choices=("symnmf", "edmc", "stress"), help="run this family of problems only"),
    _option("--solver", action="append", help="a solver, such as dyn-nolips or auto; may be given several times"),
    _option("--starts", type=_number(0), help="random starts"),
    _option("--seconds", type=_number(0.1, float), help="time limit of a single run, in seconds"),
    _option("--patience", type=_number(1, float), help="stop a run after this many times what dyn-nolips took"),
    *_RUNS,
)  # fmt: skip
_PAGE = (
    _option("--out", "-o", type=Path, default=Path("RESULTS.md"), metavar="FILE", help="the Markdown file to write"),
    _option("--results", type=Path, default=Path("results"), metavar="FOLDER", help="folder of the results"),
    _option("--document", type=Path, action="append", metavar="FILE", default=[],
            help="a document whose quoted numbers are updated too; may be given several times"),
    _REPORT,
    _flag("--json", dest="as_json", help="print the paths written as JSON, nothing else"),
)  # fmt: skip
_DEMO = (
    _option("--report", type=Path, default=Path("quartic-report.html"), metavar="FILE.html",
            help="where to write the report"),
    _flag("--json", dest="as_json", help="print the results as JSON only"),
    _SEED,
)  # fmt: skip


# -- commands ---------------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A command: what it does, an example, its options, the module and the function that do it."""

    words: str
    example: str
    options: Sequence[Option]
    module: str
    name: str = "run"
    more: str = ""

    def __call__(self, options: argparse.Namespace) -> None:
        """Do it: the function is loaded only now."""
        given = Options(**vars(options))
        with errors_as_one_line(given):
            if self.module in ("cli.cluster", "cli.locate"):
                _import_libraries()
            getattr(import_module(f"quartic.{self.module}"), self.name)(given)


_ENDS = """Exit code: 0 converged; 1 not converged, or interrupted (the result is still written); 2 invalid input
(nothing is written)."""
_BENCH, _PAPER = (
    "Benchmarks: other libraries, other solvers, and the cost of an iteration.",
    "Reproduce the paper's table and figures.",
)
_COMMANDS = {
    "cluster": Command(
        "Find clusters in a graph or in features, by symmetric nonnegative matrix factorisation.",
        "friends.csv -k 5 -o clusters.csv --report clusters.html", _CLUSTER, "cli.cluster",
        more=f"""An edge list has two nodes and an optional weight per line; nodes may have names. Features have a row
        per sample and optionally a column of names. Separator, header and columns are detected and reported. A graph
        larger than memory is a folder of row blocks (quartic.io.write_blocks).

        The result has the columns node,cluster and a soft membership for each cluster (.csv .tsv .npz; .npy has the
        clusters only). {_ENDS}"""),
    "locate": Command(
        "Find points from some of the distances between them, and which of them the distances determine.",
        "distances.csv -d 3 -o points.csv --anchors known.csv --report points.html", _LOCATE, "cli.locate",
        more=f"""A list of distances has two points per line, by name or number, and their distance, or lower and upper
        bounds, and optionally a weight. A square table has a row and a column per point, blank where unknown.
        Separator, header and columns are detected and reported.

        The result has the columns point,x,y[,z],…,determined (.csv .tsv; .npy .pdb .cif .xyz have the coordinates).
        {_ENDS}"""),
    "sdp": Command(
        "Solve a semidefinite programme, with a proven bound on its optimum.",
        "maxG11.dat-s --tol 1e-6 -o solution.npz", _SDP, "cli.sdp",
        more=f"The file defines: maximise ⟨F_0, Y⟩ over Y ⪰ 0 subject to ⟨F_k, Y⟩ = c_k. {_ENDS}"),
    "demo": Command(
        "Both tasks on generated data: clusters of a graph, points from a few distances, with an HTML report.",
        "--report my-report.html", _DEMO, "demo"),
    "info": Command("Versions, threads, GPU and cache folders, for bug reports.", "--json",
                    (_flag("--json", dest="as_json", help="print as JSON"),), "cli.info"),
    "paper table1": Command(
        "Time until the projected gradient is ε times that at the start: sixteen problems, all solvers.",
        "--case coil20:20 --starts 2", _RACE, "bench.commands", "race"),
    "paper figure1": Command("Normalised objective gap against time: four panels, as PNG and PDF.",
                             "--quick", _RACE, "bench.commands", "race"),
    "paper figure2": Command("Normalised RMSE over all distances against time, on the helix.",
                             "--case 2000:0.1 --starts 3", _RACE, "bench.commands", "race"),
    "bench speed": Command(
        "Compare the estimators with the paper's solvers, SciPy and pymanopt, on one thread.",
        "--case reuters:20 --starts 2", _RACE, "bench.commands", "race"),
    "bench peers": Command(
        "Compare with scikit-learn, SciPy, pymanopt and NetworkX, each through its public interface.",
        "--quick", _RACE, "bench.commands", "race"),
    "bench league": Command(
        "Performance profiles of all solvers, from the same starts, on stored and generated problems.",
        "--quick --only symnmf", _RACE, "bench.commands", "race"),
    "bench growth": Command(
        "Cost of an iteration relative to its product; time and memory as nodes and pairs grow.", "--quick", _RUNS,
        "bench.commands", "growth"),
    "bench page": Command(
        "Write the results page, and its table results.csv, from the results folder, without running anything.",
        "-o benchmarks/RESULTS.md --document README.md", _PAGE, "bench.commands", "page",
        "Sections of the table without new runs in the folder are kept."),
}  # fmt: skip


def make_parser() -> Parser:
    """Return what reads the command line."""
    whole = "Low-rank minimisation of F(XXᵀ) + g(X): clusters from similarities, coordinates from distances."
    top = Parser(prog="quartic", description=whole)
    top.add_argument("--version", action="version", version=f"quartic {__version__}")
    groups = {"": top.with_commands()}
    for name, command in _COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group not in groups:
            words = _PAPER if group == "paper" else _BENCH
            example = f"Example: quartic {name} --quick"
            groups[group] = groups[""].add_parser(group, help=words, description=words, epilog=example).with_commands()
        first = command.options[0][1].get("metavar") if command.options[0][0] == ("input",) else ""
        made = groups[group].add_parser(
            last, help=command.words, description=f"{command.words}\n\n{command.more}",
            usage=" ".join(["%(prog)s", *filter(None, [first]), "[options]"]),
            epilog=f"Example: quartic {name} {command.example}",
        )  # fmt: skip
        for flags, how in command.options:
            made.add_argument(*flags, **how)
        made.set_defaults(run=command, command=name, parser=made)
    return top


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line: the words of this process, or those given."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell, as by >&-: nothing comes, and what goes is for nobody
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    _say_when_compiling()
    try:
        options, unknown = make_parser().parse_known_args(words)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        options.run(options)
    except KeyboardInterrupt:
        print("quartic: interrupted before there was a result; nothing is written", file=sys.stderr)
        sys.exit(130)  # what a shell makes of SIGINT
    finally:
        if words is None:  # the process ends, and need not look through a million objects once more
            gc.disable()
            gc.freeze()


def _say_when_compiling() -> None:
    """Print the library's one line about compiling, which its logger says the first time it runs on a machine."""
    logger = logging.getLogger("quartic")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("quartic: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


# -- a quick start: what libraries load in advance, and these commands never need, is not loaded ----------------------

# What scikit-learn, SciPy and joblib load in advance: more than half of the time that ``import sklearn.base`` takes.
_LATER = ("scipy.stats", "pandas", "asyncio", "numpy.f2py", "numpy.testing")


class _Later(ModuleType):
    """Stands for a module that is loaded when one of its members is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _import_libraries() -> None:
    """Import numba and scikit-learn's base classes; what they seldom need comes later, if anyone uses it."""
    gc.set_threshold(100_000, 50, 100)  # a million objects that live as long as the process need no looking through
    for name in _LATER:
        above, _, last = name.rpartition(".")
        if name in sys.modules or (spec := find_spec(name)) is None:
            continue
        sys.modules[name] = later = _Later(name)
        later.__spec__, later.__path__ = spec, []
        if above:
            vars(import_module(above))[last] = later
    import numba  # noqa: F401
    import sklearn.base  # noqa: F401

    # whoever finds pandas among the modules takes it for loaded; others import what is below asyncio
    for name in ("pandas", "asyncio"):
        if isinstance(sys.modules.get(name), _Later):
            del sys.modules[name]
