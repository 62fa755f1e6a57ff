"""SymHALS judged at X, and at a balanced mean of X and Y: what does a small penalty μ cost, and where is it seen?

SymHALS has two factors, M ≈ XYᵀ, drawn together by μ‖X − Y‖². Judged at X, as in Table 1, a small μ does not arrive;
the scale between a column of X and that of Y is then free. At the mean of X and Y, their columns brought to one length
(x_k √(‖y_k‖/‖x_k‖) and y_k √(‖x_k‖/‖y_k‖)), that scale is gone. Prints products to ε of the start's projected gradient.

    python benchmarks/symhals_mean.py [--starts 3] [--cells coil20:10 coil20:20 cbcl:10 reuters:10 tdt2:10]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from statistics import geometric_mean, mean

import numpy as np

from quartic.bench import Cell
from quartic.bench.contestants import contestant
from quartic.bench.symnmf import Case, loaded, run_once
from quartic.bench.threads import fixed_threads
from quartic.core.loop import referee
from quartic.init import random_start
from quartic.solvers import SymHALS

MU = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
EPSILONS = (0.0316, 1e-3)
# Iterations between one look and the next; an iteration takes two products.
EVERY = 4


def balanced_mean(X, Y):
    x, y = np.linalg.norm(X, axis=0), np.linalg.norm(Y, axis=0)
    scale = np.sqrt(np.divide(y, x, out=np.ones_like(x), where=(x > 0) & (y > 0)))
    return 0.5 * (X * scale + Y / scale)


def products(case: Case, mu: float, seed: int, most: int) -> dict[tuple[str, float], int]:
    """Return the products after which each target was reached, at X and at the mean."""
    problem, solver, reference = case.problem(), SymHALS(mu), case.reference(seed)
    state = solver.init(problem, random_start(problem, case.cell.rank, np.random.default_rng(seed)))
    found: dict[tuple[str, float], int] = {}
    for iteration in range(1, most // 2 + 1):
        state = solver.step(problem, state)
        if iteration % EVERY:
            continue
        for where, X in (("X", state.point.X), ("mean", balanced_mean(state.point.X, state.Y))):
            share = referee(case.judge, X)[1] / reference
            for epsilon in EPSILONS:
                if share <= epsilon:
                    found.setdefault((where, epsilon), 2 * iteration)
        if len(found) == 2 * len(EPSILONS):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--most", type=int, default=4000, help="products of a run")
    parser.add_argument("--cells", nargs="+", default=["coil20:10", "coil20:20", "cbcl:10", "reuters:10", "tdt2:10"])
    options = parser.parse_args()
    columns = [f"{where}, ε = {epsilon:g}" for epsilon in EPSILONS for where in ("X", "mean")]
    print("| data | r | solver | " + " | ".join(columns) + " |\n|---|---|---|" + "---|" * len(columns))
    least: dict[str, list[float]] = {column: [] for column in columns}
    with fixed_threads(1):
        for case in loaded((Cell.parse(cell) for cell in options.cells), partial(print, file=sys.stderr)):
            seeds, head = range(options.starts), f"| {case.cell.data} | {case.cell.rank} |"
            dyn = [run_once(case, contestant("dyn-nolips"), seed, list(EPSILONS), 60.0) for seed in seeds]
            base = [mean(rows[k].get("products", np.inf) for rows in dyn) for k in range(len(EPSILONS))]
            print(head, "dyn-nolips |", " | ".join(f"{count:.0f} | " for count in base), "|", flush=True)
            rows = []
            for mu in MU:
                runs = [products(case, mu, seed, options.most) for seed in seeds]
                keys = [(where, epsilon) for epsilon in EPSILONS for where in ("X", "mean")]
                rows.append([mean(run.get(key, np.inf) for run in runs) for key in keys])
                words = [f"{count:.0f}" if count < np.inf else "–" for count in rows[-1]]
                print(head, f"hals μ={mu:g} |", " | ".join(words), "|", flush=True)
            for k, column in enumerate(columns):
                best = min(row[k] for row in rows)
                if best < np.inf and base[k // 2] < np.inf:
                    least[column].append(best / base[k // 2])
    words = [f"{geometric_mean(ratios):.2f}" if ratios else "–" for ratios in least.values()]
    print("| all | | best μ / dyn-nolips | " + " | ".join(words) + " |")


if __name__ == "__main__":
    main()
