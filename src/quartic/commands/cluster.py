"""``quartic cluster``: from a graph or features to clusters."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.commands import code
from quartic.commands.fitting import exit_unless_converged, say_found, watched_fit
from quartic.commands.results import check_target, write_clusters
from quartic.commands.terminal import (
    Voice,
    check_shared,
    command_line,
    errors_as_one_line,
    print_json,
)
from quartic.commands.workers import BlockTable, check_workers, client_code, is_folder, read_folder, spread, workers
from quartic.io import FeatureTable, FileFormatError, GraphTable, read_similarity
from quartic.io.graph_files import negative_weights
from quartic.report import Section, clustering_figures, clustering_tables, write_page

OUTPUTS = (".csv", ".tsv", ".npy", ".npz")


@dataclass(frozen=True)
class ClusterOptions:
    """What was asked for."""

    input: str
    n_clusters: int
    output: str
    report: str | None
    as_: str | None
    affinity: str | None
    neighbors: str
    solver: str
    tol: float
    max_iter: int
    max_time: float | None
    n_init: int
    seed: int
    as_json: bool
    quiet: bool
    scheduler: str | None = None
    workers: int | None = None


def run(options: ClusterOptions) -> None:
    """Cluster, write, report; exit with 1 where the run did not converge, with 2 where the input is at fault."""
    voice = Voice("cluster", options.quiet)
    with errors_as_one_line(voice):
        _check(options)
        table = (
            read_folder(options.input) if is_folder(options.input) else read_similarity(options.input, _kind(options))
        )
        model, settings = _model(options, table)
    voice.say(f"{'stdin' if options.input == '-' else options.input}: {table.guess}")
    with ExitStack() as stack:
        with errors_as_one_line(voice):
            client = stack.enter_context(workers(options.scheduler, options.workers, voice))
        _fit_and_write(options, voice, table, model, settings, client)


def _fit_and_write(
    options: ClusterOptions, voice: Voice, table: GraphTable | FeatureTable, model: Any, settings: dict[str, Any],
    client: Any,
) -> None:  # fmt: skip
    fit = watched_fit(voice, lambda: model.fit(spread(table, client)), odd=_odd(table))
    with errors_as_one_line(voice):
        if not (options.as_json and options.output == "-"):
            write_clusters(options.output, table.names, model.labels_, model.memberships_)
        if options.report is not None:
            section = _section(options, table, model, settings, fit.seconds, fit.said)
            write_page(options.report, f"Clusters of {options.input}", [section])
    _tell(options, voice, table, model, fit.seconds, fit.said, fit.interrupted)
    exit_unless_converged(voice, model.result_, fit, options.output)


def _check(options: ClusterOptions) -> None:
    if options.n_clusters < 1:
        raise ValueError(f"-k {options.n_clusters}: the number of clusters must be at least 1")
    check_target(options.output, OUTPUTS, "-o")
    check_shared(options.report, options.solver, options.max_time)
    check_workers(options.scheduler, options.workers)


def _kind(options: ClusterOptions) -> str | None:
    """Return graph or features, where the options say so."""
    implied = {"precomputed": "graph", "cosine": "features", "self_tuning": "features"}.get(options.affinity or "")
    if options.as_ is not None and implied is not None and options.as_ != implied:
        raise ValueError(f"--as {options.as_} and --affinity {options.affinity} contradict each other; leave one out")
    return options.as_ or implied


def _model(options: ClusterOptions, table: GraphTable | FeatureTable) -> tuple[Any, dict[str, Any]]:
    from quartic import SymNMF

    n = len(table.names)
    if n < 2:
        raise FileFormatError(f"{options.input}: only {n} row; there is nothing to cluster")
    if options.n_clusters > n:
        what = "nodes" if isinstance(table, GraphTable) else "rows"
        raise ValueError(
            f"-k {options.n_clusters}: more clusters than the {n} {what} of {options.input}; choose -k {n} or less"
        )
    settings: dict[str, Any] = {}
    if isinstance(table, FeatureTable):
        settings["affinity"] = options.affinity or ("cosine" if sp.issparse(table.X) else "self_tuning")
        settings["n_neighbors"] = _neighbors(options.neighbors)
    settings |= {
        "solver": options.solver,
        "n_init": options.n_init,
        "tol": options.tol,
        "max_iter": options.max_iter,
        "max_time": options.max_time,
        "random_state": options.seed,
    }
    return SymNMF(options.n_clusters, verbose=True, **settings), settings


def _odd(table: GraphTable | FeatureTable) -> list[str]:
    """Return what in a graph is no fault, but may not be meant."""
    found = None if isinstance(table, BlockTable | FeatureTable) else negative_weights(table)
    if found is None:
        return []
    return [f"{found}: such edges keep nodes apart, no more; where that is not meant, correct them, or write 0"]


def _neighbors(given: str) -> int | str | None:
    if given in ("auto", "all"):
        return None if given == "all" else "auto"
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"--neighbors {given}: give a whole number, auto or all")
    return int(given)


def _found(table: GraphTable | FeatureTable, model: Any) -> str:
    sizes = np.bincount(model.labels_, minlength=model.n_components)
    strongest = model.memberships_.max(axis=1).mean()
    return (
        f"{len(sizes)} clusters of {len(table.names)} nodes; sizes from {sizes.min()} to {sizes.max()}; "
        f"a node belongs to its cluster by {100 * strongest:.0f} % on average"
    )


def _tell(
    options: ClusterOptions, voice: Voice, table: GraphTable | FeatureTable, model: Any, seconds: float,
    said: list[str], interrupted: bool,
) -> None:  # fmt: skip
    if options.as_json:
        facts: dict[str, Any] = {
            "command": "cluster",
            "input": options.input,
            "read_as": "graph" if isinstance(table, GraphTable) else "features",
            "guess": table.guess,
            "n_nodes": len(table.names),
            "n_clusters": options.n_clusters,
            "sizes": np.bincount(model.labels_, minlength=options.n_clusters).tolist(),
            "output": None if options.output == "-" else options.output,
            "report": options.report,
            "warnings": said,
            "interrupted": interrupted,
            **code.run_numbers(model.result_, seconds, options.seed),
        }
        if options.output == "-":
            rows = zip(table.names, model.labels_.tolist(), model.memberships_.tolist(), strict=True)
            facts["nodes"] = [{"node": node, "cluster": cluster, "memberships": m} for node, cluster, m in rows]
        print_json(facts)
        return
    say_found(voice, _found(table, model), model.result_, seconds, options.output, options.report)


def _section(
    options: ClusterOptions, table: GraphTable | FeatureTable, model: Any, settings: dict[str, Any], seconds: float,
    said: list[str],
) -> Section:  # fmt: skip
    features, columns = (table.X, table.columns) if isinstance(table, FeatureTable) else (None, ())
    facts = {
        "input": options.input,
        "read as": table.guess,
        "found": _found(table, model),
        **code.run_facts(model.result_, seconds, options.seed),
    }
    return Section(
        "Clusters by symmetric NMF",
        facts,
        clustering_figures(model, table.names),
        _code(options, table, settings),
        clustering_tables(model, table.names, features, columns),
        said,
        command_line(),
    )


def _code(options: ClusterOptions, table: GraphTable | FeatureTable, settings: dict[str, Any]) -> str:
    from quartic import SymNMF

    path, note = code.opened(options.input, ".csv")
    made = code.call("SymNMF", str(options.n_clusters), settings, SymNMF().get_params())
    before, how = client_code(options.scheduler, options.workers)
    if isinstance(table, BlockTable):
        return (
            f"{before}from quartic import SymNMF\nfrom quartic.io import read_blocks\n\n"
            f"model = {made}.fit(read_blocks({path}))\nprint(model.labels_)\n"
        )
    reader, data = ("read_graph", "adjacency") if isinstance(table, GraphTable) else ("read_features", "X")
    return (
        f"{before}from quartic import SymNMF\nfrom quartic.io import {reader}\n\n{note}"
        f"table = {reader}({path})\n"
        f"model = {made}.fit({how.format(f'table.{data}')})\n"
        "for name, cluster in zip(table.names, model.labels_):\n    print(name, cluster)\n"
    )
