"""What the estimator costs beside the bare solver: ``python benchmarks/distance_estimator.py [CASE …]``.

`DistanceCompletion.fit_pairs` (input checks, search, what is determined) and `minimize` with ``auto`` on one helix, in
turn in one process; then SciPy's L-BFGS-B with our gradient beside the estimator. Medians, and their ratios.
"""

from __future__ import annotations

import statistics
import warnings
from functools import partial

from quartic import DistanceCompletion, minimize
from quartic.bench.cases import Cell, Recorder
from quartic.bench.harness import in_turns
from quartic.bench.methods import scipy_lbfgs
from quartic.bench.numbers import run_script, told

HELIX = {1000: 0.1, 2000: 0.1, 5000: 0.05, 20_000: 0.005, 100_000: 0.0004}
SHAPES = {"helix": "helix", "swiss": "swiss roll", "sphere": "sphere", "cloud": "gauss"}


def beside(shape: str, n: int, share: float, peer: str):
    """Measure the estimator beside `minimize`, or beside SciPy's L-BFGS-B with our gradient."""
    warnings.simplefilter("ignore")
    game = Cell(f"{shape}-{n}-{share}-0", 3, "edmc", "random")
    pairs, d, _ = game.given
    jobs = {
        "DistanceCompletion": lambda: DistanceCompletion(random_state=0).fit_pairs(pairs, d),
        "minimize": lambda: minimize(game.problem(), rank=3, tol=1e-8, random_state=0),
        "SciPy L-BFGS-B": lambda: scipy_lbfgs(game, 0, 1e-8, Recorder(lambda X: {}, reference=1.0)),
    }
    turns = {name: jobs[name] for name in ("DistanceCompletion", peer)}
    rounds = 7 if peer == "minimize" and n <= 5000 else 3
    whole, other = (1e3 * statistics.median(s) for s in in_turns(turns, 2, rounds, least=0.0).values())
    if peer == "minimize":
        case, limit = f"helix, n = {n:,}, {len(pairs):,} pairs", {"3 times minimize + 20 ms": 3 * other + 20}
        return [*told(case, "DistanceCompletion", ms=whole, ratio=whole / other, **limit), *told(case, peer, ms=other)]
    case = f"{SHAPES[shape]}, n = {n:,}, {share:.0%}"
    return [*told(case, "DistanceCompletion", ms=whole), *told(case, peer, ms=other, ratio=other / whole)]


CASES = {f"{n}": partial(beside, "helix", n, share, "minimize") for n, share in HELIX.items()}
CASES |= {f"{name} {share}": partial(beside, shape, 3000, share, "SciPy L-BFGS-B")
          for shape, name in SHAPES.items() for share in (0.05, 0.1)}  # fmt: skip

if __name__ == "__main__":
    run_script("estimator", CASES)
