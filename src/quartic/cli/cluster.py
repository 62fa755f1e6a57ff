"""``quartic cluster``: from a graph or features to clusters."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from quartic.cli.fitting import Fit, call_code, fit_code, watched_fit, write_result
from quartic.cli.terminal import Options
from quartic.distributed import connect, in_blocks
from quartic.distributed.cluster import INSTALL
from quartic.distributed.inputs import is_dask_array
from quartic.io import FeatureTable, FileFormatError, GraphTable, read_blocks, read_similarity
from quartic.io.graphs import negative_weights, seem_distances

OUTPUTS = (".csv", ".tsv", ".npy", ".npz")
_MOST_CLUSTERS = 10  # tried if the number is not given
# Few columns whose ranges differ by so much are quantities in different units, and one of them would decide alone.
_FEW_COLUMNS, _OTHER_UNITS = 50, 20.0

# What `select_rank` asks, and what is factorised, in the field's words.
_CRITERIA = {
    "eigengap": "eigengap",
    "communities": "planted partition",
}
_NORMALIZED = {
    "symmetric": "weights over the square roots of both degrees",
    "regularized": "weights over the square roots of both degrees plus the mean degree",
    "walks": "random-walk similarity (NetMF)",
}


def run(options: Options) -> None:
    """Cluster, write, report; exit with 1 where the run did not converge, with 2 where the input is at fault."""
    from quartic.clustering.symnmf import SymNMF

    options.check(OUTPUTS)
    _check_workers(options.scheduler, options.workers)
    table, data, settings, guess = _read(options)
    options.say(f"{options.source}: {guess}")
    k, votes, why = options.n_clusters, None, "as given"
    if k is None:
        k, votes, why = _choose(options, table, data, settings)
        options.say(f"{k} clusters: {why}; -k chooses another number")
    model, names = SymNMF(k, **settings), table.names
    with _workers(options) as client:
        fit = watched_fit(
            options, lambda watcher: model.set_params(callback=watcher).fit(_split_data(data, client)),
            odd=_find_oddities(table),
        )  # fmt: skip
        fit.finish(
            _describe(table, model),
            write=lambda: _write(options.output, names, model),
            section=lambda: _section(options, table, guess, why, _code(options, table, data, settings, k), model, fit),
            facts={
                "read_as": "graph" if isinstance(table, GraphTable) else "features",
                "guess": guess,
                "n_nodes": len(names),
                "n_clusters": k,
                "votes": votes,
                "affinity": settings.get("affinity", "precomputed"),
                "normalized": model.normalize_,
                "scaled": isinstance(table, FeatureTable) and data is not table.X,
                "sizes": np.bincount(model.labels_, minlength=k).tolist(),
            },
            rows=lambda: {
                "nodes": [
                    dict(zip(("node", "cluster", "memberships"), row, strict=True)) for row in _rows(names, model)
                ]
            },
        )


def _read(options: Options) -> tuple[GraphTable | FeatureTable, Any, dict[str, Any], str]:
    """Return what is read, the data that are fitted, the parameters of the estimator, and how it was read, in words."""
    if options.input != "-" and Path(options.input).is_dir():
        table: GraphTable | FeatureTable = _read_folder(options.input)
        if options.n_clusters is None:
            raise ValueError(f"{options.input}: the number of clusters of a graph on disk is not chosen; say -k")
    else:
        table = read_similarity(options.input, _kind(options), **options.reading)
    n = len(table.names)
    if n < 2:
        raise FileFormatError(f"{options.input}: only {n} row; there is nothing to cluster ({table.guess})")
    if options.n_clusters is not None and options.n_clusters > n:
        what = "nodes" if isinstance(table, GraphTable) else "rows"
        fault = f"more clusters than the {n} {what} of {options.input}"
        raise ValueError(f"-k {options.n_clusters}: {fault}; choose -k {n} or less")
    settings, guess = options.settings, table.guess
    if isinstance(table, GraphTable):
        if options.scale == "standard":
            raise ValueError(f"--scale standard is for features, {options.source} was read as a graph; leave it out")
        normalize = None if options.normalize == "none" else options.normalize
        return table, table.adjacency, {"normalize": normalize, **settings}, guess
    if options.normalize != "auto" or options.repeats is not None:
        given = "--repeats" if options.normalize == "auto" else "--normalize"
        raise ValueError(f"{given} is for graphs, {options.source} was read as features; leave it out")
    affinity = options.affinity or ("cosine" if sp.issparse(table.X) else "self_tuning")
    settings = {"affinity": affinity, "n_neighbors": _neighbors(options.neighbors), **settings}
    X, scaled = _scale(table, options.scale, affinity)
    guess += f"{scaled}; similarity: {affinity}" + ("" if options.affinity else " (--affinity chooses)")
    return table, X, settings, guess


def _scale(table: FeatureTable, how: str, affinity: str) -> tuple[Any, str]:
    """Return features with mean 0 and variance 1, where that is asked for or the columns are in different units.

    Ranges tell units, since columns of one unit, such as pixels, shares and marks for yes and no, share a range however
    rarely they differ from 0, which makes their standard deviations small.
    """
    X = table.X
    if sp.issparse(X):
        if how == "standard":
            raise ValueError("--scale standard would fill a sparse matrix; leave it out")
        return X, "; columns kept as they are"
    varied = np.ptp(X, axis=0) > 1e-12 * np.abs(X).max(axis=0)
    ranges = np.ptp(X[:, varied], axis=0)
    ratio = float(ranges.max() / ranges.min()) if varied.any() else 1.0
    differ = f"their ranges differ up to {float(f'{ratio:.2g}'):,g} times"
    units = affinity == "self_tuning" and ratio > _OTHER_UNITS and X.shape[1] <= _FEW_COLUMNS
    if how == "auto" and not units:
        return X, f"; columns kept as they are: {differ} (--scale standard makes variances 1)"
    if how == "none":
        return X, "; columns kept as they are"
    why = f", since {differ} (--scale none keeps them)" if how == "auto" else ""
    return (X - X.mean(axis=0)) / np.where(varied, X.std(axis=0), 1.0), f"; columns scaled to variance 1{why}"


def _kind(options: Options) -> str | None:
    """Return graph or features, where the options say so."""
    implied = {"precomputed": "graph", "cosine": "features", "self_tuning": "features"}.get(options.affinity or "")
    if options.as_ is not None and implied is not None and options.as_ != implied:
        raise ValueError(f"--as {options.as_} and --affinity {options.affinity} contradict each other; leave one out")
    return options.as_ or implied


def _choose(
    options: Options, table: GraphTable | FeatureTable, M: Any, settings: dict[str, Any]
) -> tuple[int, dict[str, int] | None, str]:
    """Return a number of clusters chosen by `quartic.select_rank`, its votes, and why."""
    from quartic import select_rank
    from quartic.graphs import similarity

    last = min(_MOST_CLUSTERS, len(table.names) - 1)
    if last < 3:
        return 2, None, f"so few as {len(table.names)} have no other number to compare"
    if isinstance(table, FeatureTable):
        M = similarity(M, kind=settings["affinity"], n_neighbors=settings["n_neighbors"])
        if 2 <= (n_groups := _count_groups(M)) <= last:
            why = f"the graph of nearest neighbours has {n_groups} separate components"
            return n_groups, {"groups": n_groups}, why
    found = select_rank(M, range(2, last + 1), n_runs=5, solver=options.solver, random_state=options.seed)
    votes = ", ".join(f"{_CRITERIA[name]} {vote}" for name, vote in found.votes.items())
    criterion = "communities" if "communities" in found.votes and not found.neighbors else "eigengap"
    by = "the likelihood of a random graph model"
    if criterion == "eigengap":
        gap = "the largest gap between eigenvalues of the neighbour graph"
        by = gap if found.neighbors else "the eigenvalues above those of chance"
    if found.best != found.votes[criterion]:
        by = "the number of separate components, of which there are more"
    return found.best, found.votes, f"chosen from 2 to {last} by {by} ({votes})"


def _count_groups(M: Any) -> int:
    """Return the number of connected components of a neighbour graph; those with less than 5 % of the rows are odd."""
    from scipy.sparse.csgraph import connected_components

    if not sp.issparse(M):
        return 1
    sizes = np.bincount(connected_components(M, directed=False)[1]) / M.shape[0]
    return int(np.count_nonzero(sizes >= 0.05)) if sizes[sizes < 0.05].sum() <= 0.05 else 1


def _find_oddities(table: GraphTable | FeatureTable) -> list[str]:
    """Return warnings about data that are valid but may be unintended, such as negative weights."""
    if isinstance(table, FeatureTable) or is_dask_array(table.adjacency):
        return []
    if found := negative_weights(table):
        return [f"{found}: a negative weight only pushes two nodes apart; if that is not intended, correct it or use 0"]
    if seem_distances(table.adjacency):
        why = "no triangle has a side longer than the two others together"
        return [f"the weights may be distances ({why}), but similar nodes need large weights: see quartic locate"]
    return []


def _neighbors(given: str) -> int | str | None:
    if given in ("auto", "all"):
        return None if given == "all" else "auto"
    if not given.isdigit() or int(given) < 1:
        raise ValueError(f"--neighbors {given}: give a whole number, auto or all")
    return int(given)


def _describe(table: GraphTable | FeatureTable, model: Any) -> str:
    from quartic.report.clusters import describe_clusters

    features = isinstance(table, FeatureTable)
    found = describe_clusters(model.labels_, model.memberships_, "row" if features else "node")
    if model.normalize_ is not None:
        found += f" Graph: {_NORMALIZED[model.normalize_]} (--normalize {model.normalize_})."
    if features and model.n_components > 3 and 3 * np.bincount(model.labels_).max() > len(table.names):
        found += " One cluster has more than a third of all: another --neighbors may split it."
    return found


def _rows(names: tuple[str, ...], model: Any) -> Iterator[tuple[str, int, list[float]]]:
    return zip(names, model.labels_.tolist(), model.memberships_.tolist(), strict=True)


def _write(path: str, names: tuple[str, ...], model: Any) -> None:
    """Write node,cluster,membership_0,…; as .npy the clusters; as .npz nodes, clusters and memberships."""
    shares = model.memberships_
    header = ["node", "cluster", *(f"membership_{k}" for k in range(shares.shape[1]))]
    rows = ([node, cluster, *(f"{share:.6g}" for share in row)] for node, cluster, row in _rows(names, model))
    arrays = {"node": np.array(names, dtype=np.str_), "cluster": model.labels_, "membership": shares}
    write_result(path, header, rows, model.labels_, arrays)


def _section(
    options: Options, table: GraphTable | FeatureTable, guess: str, why: str, code: str, model: Any, fit: Fit
) -> Any:
    from quartic.report import cluster_section

    features, columns = (table.X, table.columns) if isinstance(table, FeatureTable) else (None, ())
    chosen = "" if options.n_clusters is not None else f"; number of clusters: {why}"
    return cluster_section(
        model, table.names, title=f"Clusters of {options.input}", guessed=f"Read as {guess}{chosen}.",
        features=features, columns=columns, code=code, **fit.section(**{"number of clusters": why}),
    )  # fmt: skip


def _code(options: Options, table: GraphTable | FeatureTable, X: Any, settings: dict[str, Any], k: int) -> str:
    from quartic import SymNMF

    made = call_code("SymNMF", str(k), settings, SymNMF().get_params())
    before, how = _client_code(options.scheduler, options.workers)
    if is_dask_array(X):
        return (
            f"{before}from quartic import SymNMF, io\n\n"
            f"model = {made}.fit(io.read_blocks({options.input!r}))\nprint(model.labels_)\n"
        )
    reader, data = ("read_graph", "adjacency") if isinstance(table, GraphTable) else ("read_features", "X")
    data = f"table.{data}"
    if isinstance(table, FeatureTable) and X is not table.X:
        before += "from sklearn.preprocessing import StandardScaler\n"
        data = f"StandardScaler().fit_transform({data})"
    return fit_code(options, reader, f"{made}.fit({how.format(data)})", "cluster", "labels_", before)


# -- on a Dask cluster: the client, the data in blocks, and a folder of blocks as input -------------------------------

# Blocks for each thread: a few, so that those of a worker that dies are shared out among the others; none so small
# that to hand it out costs more than to work on it.
_BLOCKS_EACH, _ROWS_AT_LEAST = 4, 2000

# A terminal sends Ctrl-C to all processes in front. It is this one's to take: workers that ended would end the run.
_IGNORE_INTERRUPT = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"


def _check_workers(scheduler: str | None, n_workers: int | None) -> None:
    """Raise where no such cluster can be had, before anything is read."""
    if scheduler is None and n_workers is None:
        return
    if scheduler is not None and n_workers is not None:
        raise ValueError("--scheduler names a cluster that is there, --workers starts one; leave one out")
    if find_spec("distributed") is None:
        option = "--scheduler" if n_workers is None else "--workers"
        raise ImportError(f"{option} needs dask.distributed: {INSTALL}")


@contextmanager
def _workers(options: Options) -> Iterator[Any]:
    """Provide a client of the scheduler asked for, or of as many workers started here; None where none was."""
    if options.scheduler is None and options.workers is None:
        yield None
        return
    with ExitStack() as stack:
        if options.scheduler is not None:
            client = stack.enter_context(connect(options.scheduler))
        else:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=options.workers, threads_per_worker=1, silence_logs=logging.CRITICAL, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", preload=[_IGNORE_INTERRUPT],
            )  # fmt: skip
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        threads = client.nthreads()
        options.say(f"Dask: {len(threads)} workers, {sum(threads.values())} threads at {client.scheduler.address}")
        note = "" if find_spec("bokeh") else " (its pages need bokeh: pip install bokeh)"
        options.say(f"dashboard: {client.dashboard_link}{note}")
        yield client


def _split_data(data: Any, client: Any) -> Any:
    """Return what is to be clustered: in blocks where there is a cluster, as it is otherwise."""
    if client is None or is_dask_array(data):
        return data
    threads = sum(client.nthreads().values())
    return in_blocks(data, max(threads, min(_BLOCKS_EACH * threads, data.shape[0] // _ROWS_AT_LEAST)))


def _client_code(scheduler: str | None, n_workers: int | None) -> tuple[str, str]:
    """Return the lines of Python that make such a client, and how data are handed to it."""
    if scheduler is not None:
        made = f"from quartic.distributed import connect, in_blocks\n\nclient = connect({scheduler!r})\n"
    elif n_workers is not None:
        made = (
            "from distributed import Client\nfrom quartic.distributed import in_blocks\n\n"
            f"client = Client(n_workers={n_workers}, threads_per_worker=1)\n"
        )
    else:
        return "", "{}"
    return made, f"in_blocks({{}}, {_BLOCKS_EACH} * sum(client.nthreads().values()))"


def _read_folder(path: str) -> GraphTable:
    """Return the graph in a folder of blocks, of which nothing is in memory; nodes have numbers for names."""
    M = read_blocks(path)
    n, n_blocks = int(M.shape[1]), len(M.chunks[0])
    return GraphTable(M, tuple(map(str, range(n))), f"graph: {n} nodes in {n_blocks} blocks of rows")
