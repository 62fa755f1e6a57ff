"""Compare the starts of symmetric NMF: the paper's random one and the spectral one, over seeds.

    python benchmarks/symnmf_starts.py --seeds 10 --data coil20 cbcl --solver inertial

prints one line of the table in symnmf_starts.md for each data set, rank and solver. All starts stop at 1e-3 of the
projected gradient at the random start of the same seed. Products and seconds include those of the start.

    python benchmarks/symnmf_starts.py --settings --data coil20 cbcl orl --solver inertial

compares settings of the spectral start instead: one line a setting.
"""

import argparse
import platform
from datetime import date
from functools import partial

import numpy as np

import quartic
from quartic import Problem, datasets, minimize
from quartic.init import random_start, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

RANKS = {"coil20": (10, 20, 40), "cbcl": (10, 20, 40), "orl": (40,), "reuters": (10, 25, 40), "tdt2": (10, 30, 40)}
PLANTED = {"planted-easy": (5000, 20, 0.85), "planted-hard": (3000, 10, 0.5)}
STARTS = {"random": random_start, "spectral": spectral_start}
SETTINGS = {
    **STARTS,
    "no extra columns": partial(spectral_start, n_extra=0),
    "5 extra columns": partial(spectral_start, n_extra=5),
    "1 filter": partial(spectral_start, n_filters=1),
    "3 filters": partial(spectral_start, n_filters=3),
    "6 filters": partial(spectral_start, n_filters=6),
    "no turns": partial(spectral_start, n_turns=0),
    "100 turns": partial(spectral_start, n_turns=100),
}


def cases(name):
    if name in PLANTED:
        n, communities, p_within = PLANTED[name]
        yield datasets.planted_graph(n, communities, p_within=p_within, random_state=0)[0], communities
    else:
        matrix = datasets.load_similarity(name).matrix
        for rank in RANKS[name]:
            yield matrix, rank


def measure(matrix, rank, solver, seeds, starts=STARTS):
    runs = {start: [] for start in starts}
    for seed in seeds:
        for start, strategy in starts.items():
            problem = Problem(LeastSquares(matrix), Nonnegative())
            result = minimize(
                problem, strategy, rank=rank, solver=solver, tol=1e-3, reference=random_start, random_state=seed
            )
            runs[start].append((result.n_products, result.time, result.objective, result.success))
    return {start: np.array(values, dtype=float).T for start, values in runs.items()}


def row(name, rank, solver, runs):
    cells = [f"| {name} | {rank} | {solver} | {len(runs['random'][0])} "]
    for products, seconds, objective, success in runs.values():
        failed = "" if success.all() else f" ({int((1 - success).sum())} not converged)"
        cells.append(f"| {products.mean():.0f}{failed} | {np.median(seconds):.2f} ")
        cells.append(f"| {objective.mean():.4f} ({objective.min():.4f} – {objective.max():.4f}) ")
    return "".join(cells) + "|"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=[*RANKS, *PLANTED], choices=[*RANKS, *PLANTED])
    parser.add_argument("--solver", nargs="+", default=["inertial", "dyn-nolips"])
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first-seed", type=int, default=100, help="settings were tuned on seeds 0 to 9")
    parser.add_argument("--settings", action="store_true", help="compare settings of the spectral start")
    chosen = parser.parse_args()
    print(f"<!-- {date.today()}, quartic {quartic.__version__}, numpy {np.__version__}, {platform.machine()} -->")
    # Compiled code is warmed up, untimed.
    small, _ = datasets.planted_graph(200, 3, random_state=0)
    for solver in chosen.solver:
        measure(small, 3, solver, [0])
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    for solver in chosen.solver:
        for name in chosen.data:
            for matrix, rank in cases(name):
                if chosen.settings:
                    for start, values in measure(matrix, rank, solver, seeds, SETTINGS).items():
                        products, seconds, objective, _ = values
                        cells = f"{products.mean():.0f} | {np.median(seconds):.2f} | {objective.mean():.4f}"
                        print(f"| {name} | {rank} | {solver} | {len(products)} | {start} | {cells} |", flush=True)
                else:
                    print(row(name, rank, solver, measure(matrix, rank, solver, seeds)), flush=True)


if __name__ == "__main__":
    main()
