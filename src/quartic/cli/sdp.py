"""``quartic sdp``: solve a semidefinite programme in SDPA's format, and say how sure the answer is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from quartic._version import __version__
from quartic.archives import write_whole
from quartic.cli.fitting import watching
from quartic.cli.terminal import Options, command_line, print_json, write
from quartic.core.result import Status
from quartic.io.files import count
from quartic.report import Section, write_page
from quartic.sdp import SDPResult, read_sdpa, solve_sdp

# Of what has no solution the last iterate is a proof, and its value and bound mean nothing.
_NO_SOLUTION = (Status.INFEASIBLE, Status.UNBOUNDED)


def run(options: Options) -> None:
    """Read, solve, write, say; exit with 1 where there is no solution to the tolerance, with 2 on a faulty file."""
    options.check((".npz",))
    problem = read_sdpa(options.input)
    options.say(f"{options.input}: {count(problem.m, 'constraint')}, blocks {_shorten(problem.blocks)}")
    with watching(options) as watcher:
        result = solve_sdp(
            problem, tol=options.tol, rank="auto" if options.rank is None else options.rank, method=options.method,
            max_time=options.max_time, random_state=options.seed, callback=watcher,
        )  # fmt: skip
    if options.output is not None:  # a factor of each block; of a diagonal block, its numbers
        arrays: dict[str, Any] = {"y": result.y, **{f"X{k}": X for k, X in enumerate(result.X, 1)}}
        write_whole(options.output, lambda file: np.savez(file, **arrays))
    if options.report is not None:
        _write_report(options.report, options.input, problem, result)
    if options.as_json:
        print_json(_facts(options, problem, result))
    else:
        write("".join(f"{name:22} {value}\n" for name, value in _report(result).items()))
        if options.output is not None:
            options.say(f"written: {options.output}")
    if watcher.interrupted or not result.success:
        options.warn(result.message)
        raise SystemExit(1)


def _shorten(blocks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, blocks[:6]))
    return f"{shown}, … ({len(blocks)} in all)" if len(blocks) > 6 else shown


def _report(result: SDPResult) -> dict[str, str]:
    numbers = {
        "value": f"{result.primal:.9e}",
        "bound": f"{result.dual:.9e} ({result.bound_from})",
        "gap": f"{result.gap:.1e}",
        **{name.replace("_", " "): f"{value:.1e}" for name, value in result.errors.items() if name != "gap"},
        "rank": _shorten(tuple(result.rank)),
    }
    return {
        "status": result.message,
        **({} if result.status in _NO_SOLUTION else numbers),
        "method": f"{result.method}, {result.n_iter} iterations, {result.time:.2f} s",
    }


def _write_report(path: str, name: str, problem: Any, result: SDPResult) -> None:
    """Write an HTML page: the answer, and how value, bound and errors came about."""
    import plotly.graph_objects as go

    from quartic.report.figures import COLOURS, layout

    h, name = result.history, Path(name).name
    gap = np.abs(h.primal - h.dual) / (1 + np.abs(h.primal) + np.abs(h.dual))
    curves = {"primal infeasibility": h.primal_infeasibility, "dual": h.dual_infeasibility, "gap": gap}
    traces = [
        go.Scatter(y=np.maximum(curve, 1e-17), name=title, mode="lines", line={"color": colour})
        for (title, curve), colour in zip(curves.items(), COLOURS, strict=False)
    ]
    up = {"title": "relative error", "type": "log", "exponentformat": "power"}
    figure = go.Figure(traces, layout("Convergence", xaxis={"title": "iteration"}, yaxis=up))
    words = f"After {result.n_iter} iterations the largest of the six errors is {max(result.errors.values()):.1e}."
    answer = (
        f"The value is {result.primal:.9g}, the proven bound {result.dual:.9g}: a relative gap of {result.gap:.1e}."
    )
    if result.status in _NO_SOLUTION:
        answer = f"There is no solution: {result.message}."
    facts = {"constraints": str(problem.m), "blocks": _shorten(problem.blocks), **_report(result)}
    notes = [] if result.success else [f"{result.message}."]
    section = Section("Semidefinite programme", answer, notes, [(figure, words)], facts, command=command_line())
    write_page(path, f"Semidefinite programme {name}", [section])


def _facts(options: Options, problem: Any, result: SDPResult) -> dict[str, Any]:
    numbers = ("primal", "dual", "gap", "bound_from", "confidence", "errors", "rank")
    known = result.status not in _NO_SOLUTION
    return {
        **{name: getattr(options, name) for name in ("command", "input", "output", "report", "seed")},
        "n_constraints": problem.m,
        "blocks": list(problem.blocks),
        "status": str(result.status),
        "converged": result.success,
        "message": result.message,
        **{name: getattr(result, name) if known else None for name in numbers},
        "method": result.method,
        "n_iter": result.n_iter,
        "seconds": result.time,
        "version": __version__,
    }
