"""``quartic demo``: both tasks on generated data, in a table and an HTML report."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def run(options: Any) -> None:
    """Run the demo, print its results, and write the page where the figures can be drawn."""
    from rich.console import Console

    from quartic.cli.terminal import check_target, print_json

    check_target(options.report, (".html", ".htm"), "--report")
    console = Console(stderr=options.as_json)
    jobs = {}
    for title, do in (
        ("Clusters of a graph (symmetric NMF)", _cluster), ("Points from a tenth of their distances", _locate),
    ):  # fmt: skip
        with console.status(f"{title} …"):
            jobs[title] = do(options.seed)
    from quartic.report import report_available, write_page  # after the first sign of life: it loads slowly

    drawn = report_available()
    if drawn:
        sections = [make(title=title, facts=facts) for title, (facts, _, make) in jobs.items()]
        write_page(options.report, "quartic demo", sections)
    if options.as_json:
        found = {title: numbers for title, (_, numbers, _) in jobs.items()}
        print_json({"report": str(options.report) if drawn else None, **found})
        return
    for title, (facts, _, _) in jobs.items():
        console.print(f"\n[bold]{title}[/bold]")
        for key, value in facts.items():
            console.print(f"  {key:12} {value}", highlight=False, soft_wrap=True)
    page = f"Figures: {options.report}" if drawn else "For a page with figures: pip install 'quartic[report]'"
    console.print(f"\n{page}", markup=False)


Job = tuple[dict[str, str], dict[str, Any], Callable[..., Any]]  # results in words, in numbers, and what draws them


def _cluster(seed: int) -> Job:
    from quartic import SymNMF
    from quartic.datasets import planted_graph
    from quartic.metrics import clustering_accuracy, nmi

    M, truth = planted_graph(3000, 8, random_state=seed)
    model, about, run = _fit(lambda: SymNMF(8, random_state=seed).fit(M), "products")
    accuracy, information = clustering_accuracy(truth, model.labels_), nmi(truth, model.labels_)
    facts = {
        "given": f"a graph of {M.shape[0]} nodes, {M.nnz} entries, 8 hidden communities",
        "found": f"{100 * accuracy:.1f} % of the nodes in the right community (NMI {information:.3f})",
    }
    numbers = {"accuracy": accuracy, "nmi": information, "objective": model.objective_}

    def draw(**more: Any) -> Any:
        from quartic.report import cluster_section

        return cluster_section(model, code=_CLUSTER_CODE.format(seed=seed), **more)

    return {**facts, **about}, {**numbers, **run}, draw


def _locate(seed: int) -> Job:
    from quartic import DistanceCompletion
    from quartic.datasets import helix, pair_distances, random_pairs
    from quartic.metrics import normalized_rmse

    truth = helix(1000, random_state=seed)
    pairs = random_pairs(len(truth), 0.1, random_state=seed)
    known = pair_distances(truth, pairs)
    model, about, run = _fit(lambda: DistanceCompletion(3, random_state=seed).fit_pairs(pairs, known), "passes")
    error, n_determined = normalized_rmse(model.embedding_, truth), int(np.sum(model.determined_))
    facts = {
        "given": f"{len(pairs)} of the {len(truth) * (len(truth) - 1) // 2} distances of {len(truth)} points",
        "found": f"all distances to a relative error of {error:.1e}",
        "determined": f"{n_determined} of {len(truth)} points",
    }
    numbers = {"normalized_rmse": error, "rmse": float(model.rmse_), "n_determined": n_determined}

    def draw(**more: Any) -> Any:
        from quartic.report import point_section

        code = _LOCATE_CODE.format(seed=seed)
        return point_section(model, pairs, {"distances": known}, code=code, **more)

    return {**facts, **about}, {**numbers, **run}, draw


def _fit(fit: Callable[[], Any], products: str) -> tuple[Any, dict[str, str], dict[str, Any]]:
    """Return the model, and how its run went, in words and in numbers."""
    started = time.perf_counter()
    model = fit()
    seconds, result = time.perf_counter() - started, model.result_
    iterations = f"{result.n_iter} iteration{'s' * (result.n_iter != 1)}"
    about = {
        "solver": f"{result.solver}: {iterations}, {result.n_products} {products}",
        "status": result.message,
        "seconds": f"{seconds:.2f}",
    }
    return model, about, {"n_iter": model.n_iter_, "converged": result.success, "seconds": seconds}
