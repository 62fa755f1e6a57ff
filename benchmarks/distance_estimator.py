"""The estimator and `minimize` beside SciPy: ``python benchmarks/distance_estimator.py [CASE …]``.

`DistanceCompletion.fit_pairs` (input checks, search, what is determined) beside `minimize` with ``auto`` on one helix,
and beside SciPy's L-BFGS-B with our gradient on four shapes: medians. Then SciPy's beside `minimize` on the league's
shapes, from one random start to 1e-6 of its gradient: least seconds. All in turn in one process, on one thread.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from quartic import DistanceCompletion, minimize
from quartic.bench.cases import Cell, Recorder
from quartic.bench.growth import in_turns
from quartic.bench.harness import one_thread
from quartic.bench.methods import scipy_lbfgs
from quartic.bench.numbers import record, run_script
from quartic.bench.sections import SHAPES as LEAGUE

HELIX = {1000: 0.1, 2000: 0.1, 5000: 0.05, 20_000: 0.005, 100_000: 0.0004}
SHAPES = {"helix": "helix", "swiss": "swiss roll", "sphere": "sphere", "cloud": "gauss"}


def both(game, start, tol):
    """Return `minimize` and SciPy's L-BFGS-B with our gradient, from one start if there is one, as jobs."""
    return {
        "minimize": lambda: minimize(game.problem(), start, rank=3 if start is None else None, tol=tol, random_state=0),
        "SciPy_L-BFGS-B": lambda: scipy_lbfgs(game, 0, tol, Recorder(lambda X: {}, reference=1.0)),
    }


def compare(case, reduce, rounds, **jobs):
    """Return milliseconds of each job, and how many times as long as the first the others take."""
    with one_thread():
        ms = [1e3 * reduce(seconds) for seconds in in_turns(jobs, rounds, least=0.0).values()]
    for name, each in zip(jobs, ms, strict=True):
        yield from record(case, name.replace("_", " "), ms=each, ratio=each / ms[0])


def beside(shape, n, share, peer):
    """Measure the estimator beside `minimize`, or beside SciPy's L-BFGS-B with our gradient."""
    warnings.simplefilter("ignore")
    game = Cell(f"{shape}-{n}-{share}-0", 3, "edmc", "random")
    pairs, d, _ = game.given
    jobs = both(game, None, 1e-8)
    ours = {"DistanceCompletion": lambda: DistanceCompletion(random_state=0).fit_pairs(pairs, d)}
    jobs = {peer: jobs[peer], **ours} if peer == "minimize" else {**ours, peer: jobs[peer]}
    case = f"{SHAPES[shape]}, n = {n:,}, " + (f"{len(pairs):,} pairs" if peer == "minimize" else f"{share:.0%}")
    yield from compare(case, np.median, 7 if n <= 5000 else 3, **jobs)


def from_one_start(shape, share, noise):
    """Measure `minimize` beside SciPy's L-BFGS-B with our gradient, both until that is 1e-6 of the start's."""
    game = Cell(f"{shape}-2000-{share}-{noise}", 2 if shape == "field" else 3, "edmc", "random")
    case = f"{shape}, n = 2,000, {share:.0%}, noise {noise:.0%}"
    yield from compare(case, np.min, 7, **both(game, game.start(0), 1e-6))


CASES = {f"{n}": partial(beside, "helix", n, share, "minimize") for n, share in HELIX.items()}
CASES |= {f"{name} {share}": partial(beside, shape, 3000, share, "SciPy_L-BFGS-B")
          for shape, name in SHAPES.items() for share in (0.05, 0.1)}  # fmt: skip
CASES |= {f"minimize {shape} {share} {noise}": partial(from_one_start, shape, share, noise)
          for shape in LEAGUE for noise in (0.0, 0.05) for share in (0.05, 0.1)}  # fmt: skip

if __name__ == "__main__":
    run_script("estimator", CASES)
