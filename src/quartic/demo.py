"""``quartic demo``: both tasks on generated data, in a table and an HTML report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

_CLUSTER_CODE = """\
from quartic import SymNMF
from quartic.datasets import planted_graph

M, truth = planted_graph(3000, 8, random_state={seed})
model = SymNMF(8, random_state={seed}).fit(M)
model.labels_, model.memberships_
"""
_LOCATE_CODE = """\
from quartic import DistanceCompletion
from quartic.datasets import helix, pair_distances, random_pairs

truth = helix(1000, random_state={seed})
pairs = random_pairs(1000, 0.1, random_state={seed})
model = DistanceCompletion(3, random_state={seed}).fit_pairs(pairs, pair_distances(truth, pairs))
model.embedding_, model.determined_
"""


@dataclass(frozen=True)
class Job:
    """One job done: what was given, what came out, in words and numbers."""

    title: str
    facts: dict[str, str]
    numbers: dict[str, Any]
    section: Any


def run(options: Any) -> None:
    """Run the demo, print its results, and write the page where the figures can be drawn."""
    from rich.console import Console

    from quartic.cli.terminal import check_target, print_json

    report, as_json = options.report, options.as_json
    check_target(report, (".html", ".htm"), "--report")
    console = Console(stderr=as_json)
    jobs = []
    for title, do in (("clusters of a graph", _cluster), ("points from a tenth of their distances", _locate)):
        with console.status(f"{title} …"):
            jobs.append(do(options.seed))
    from quartic.report import report_available, write_page  # after the first sign of life: it loads slowly

    page = None
    if report_available():
        write_page(report, "quartic demo", [job.section for job in jobs])
        page = str(report)
    if as_json:
        print_json({"report": page, **{job.title: job.numbers for job in jobs}})
        return
    for job in jobs:
        console.print(f"\n[bold]{job.title}[/bold]")
        for key, value in job.facts.items():
            console.print(f"  {key:12} {value}", highlight=False, soft_wrap=True)
    if page is None:
        console.print("\nFor a page with figures: pip install 'quartic[report]'", markup=False)
    else:
        console.print(f"\nFigures: {page}", markup=False)


def _cluster(seed: int) -> Job:
    from quartic import SymNMF
    from quartic.datasets import planted_graph
    from quartic.io.files import count
    from quartic.metrics import clustering_accuracy, nmi
    from quartic.report import cluster_section, report_available

    M, truth = planted_graph(3000, 8, random_state=seed)
    started = time.perf_counter()
    model = SymNMF(8, random_state=seed).fit(M)
    seconds = time.perf_counter() - started
    accuracy, information = clustering_accuracy(truth, model.labels_), nmi(truth, model.labels_)
    facts = {
        "given": f"a graph of {M.shape[0]} nodes, {M.nnz} entries, 8 hidden communities",
        "found": f"{100 * accuracy:.1f} % of the nodes in the right community (NMI {information:.3f})",
        "solver": f"{model.result_.solver}: {count(model.n_iter_, 'iteration')}, {model.result_.n_products} products",
        "status": model.result_.message,
        "seconds": f"{seconds:.2f}",
    }
    numbers = {
        "accuracy": accuracy, "nmi": information, "objective": model.objective_, "n_iter": model.n_iter_,
        "converged": model.result_.success, "seconds": seconds,
    }  # fmt: skip
    title, code = "Clusters of a graph (symmetric NMF)", _CLUSTER_CODE.format(seed=seed)
    section = cluster_section(model, title=title, facts=facts, code=code) if report_available() else None
    return Job(title, facts, numbers, section)


def _locate(seed: int) -> Job:
    from quartic import DistanceCompletion
    from quartic.datasets import helix, pair_distances, random_pairs
    from quartic.io.files import count
    from quartic.metrics import normalized_rmse
    from quartic.report import point_section, report_available

    truth = helix(1000, random_state=seed)
    pairs = random_pairs(len(truth), 0.1, random_state=seed)
    known = pair_distances(truth, pairs)
    started = time.perf_counter()
    model = DistanceCompletion(3, random_state=seed).fit_pairs(pairs, known)
    seconds = time.perf_counter() - started
    error = normalized_rmse(model.embedding_, truth)
    determined = np.asarray(model.determined_)
    facts = {
        "given": f"{len(pairs)} of the {len(truth) * (len(truth) - 1) // 2} distances of {len(truth)} points",
        "found": f"all distances to a relative error of {error:.1e}",
        "determined": f"{int(determined.sum())} of {len(truth)} points",
        "solver": f"{model.result_.solver}: {count(model.n_iter_, 'iteration')}, {model.result_.n_products} passes",
        "status": model.result_.message,
        "seconds": f"{seconds:.2f}",
    }
    numbers = {
        "normalized_rmse": error, "rmse": float(model.rmse_), "n_determined": int(determined.sum()),
        "n_iter": model.n_iter_, "converged": model.result_.success, "seconds": seconds,
    }  # fmt: skip
    title, code = "Points from a tenth of their distances", _LOCATE_CODE.format(seed=seed)
    section = None
    if report_available():
        section = point_section(model, pairs, {"distances": known}, title=title, facts=facts, code=code)
    return Job(title, facts, numbers, section)
