"""What the estimator costs beside the bare solver: ``python benchmarks/distance_estimator.py [CASE …]``.

`DistanceCompletion.fit_pairs` (input checks, search, what is determined) and `minimize` with ``auto`` on one helix, in
turn in one process; then SciPy's L-BFGS-B with our gradient beside the estimator. Medians, and their ratios. Last,
SciPy's beside `minimize` on the league's shapes, from one random start to one gradient, on one thread: least processor
time.
"""

from __future__ import annotations

import statistics
import warnings
from functools import partial

from quartic import DistanceCompletion, minimize
from quartic.bench.cases import Cell, Recorder
from quartic.bench.harness import in_turns, one_thread
from quartic.bench.league import SHAPES as LEAGUE
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


def from_one_start(shape: str, share: float, noise: float):
    """Measure `minimize` beside SciPy's L-BFGS-B with our gradient, both until that is 1e-6 of the start's."""
    game = Cell(f"{shape}-2000-{share}-{noise}", 2 if shape == "field" else 3, "edmc", "random")
    start = game.start(0)
    jobs = {
        "minimize": lambda: minimize(game.problem(), start, tol=1e-6),
        "SciPy L-BFGS-B": lambda: scipy_lbfgs(game, 0, 1e-6, Recorder(lambda X: {}, reference=1.0)),
    }
    with one_thread():
        ours, other = (1e3 * min(s) for s in in_turns(jobs, 1, 7, least=0.0).values())
    case = f"{shape}, n = 2,000, {share:.0%}, noise {noise:.0%}"
    return [*told(case, "minimize", ms=ours), *told(case, "SciPy L-BFGS-B", ms=other, ratio=other / ours)]


CASES = {f"{n}": partial(beside, "helix", n, share, "minimize") for n, share in HELIX.items()}
CASES |= {f"{name} {share}": partial(beside, shape, 3000, share, "SciPy L-BFGS-B")
          for shape, name in SHAPES.items() for share in (0.05, 0.1)}  # fmt: skip
CASES |= {f"minimize {shape} {share} {noise}": partial(from_one_start, shape, share, noise)
          for shape in LEAGUE for noise in (0.0, 0.05) for share in (0.05, 0.1)}  # fmt: skip

if __name__ == "__main__":
    run_script("estimator", CASES)
