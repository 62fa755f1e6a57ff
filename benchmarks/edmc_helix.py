"""Settings of our solvers side by side on the paper's helix: time to a normalised RMSE, random start, one thread.

    python benchmarks/edmc_helix.py                       # n = 2000
    python benchmarks/edmc_helix.py --n 5000 --repeats 3
    python benchmarks/edmc_helix.py --quick               # n = 600, two repeats: does it run?

``quartic paper figure2`` and ``quartic bench peers`` compare solvers and libraries; this compares settings, by the same
harness: the clock starts before the loss is made of the pairs, and stops at the first iterate at the target.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from functools import cached_property
from statistics import median

import numpy as np

from quartic.bench import Helix, describe_machine
from quartic.bench.edmc import warm_cases
from quartic.bench.peers_edmc import PEERS, Enough, Keeper, quartic_solver
from quartic.bench.threads import fixed_threads
from quartic.solvers import ConjugateGradient, LevenbergMarquardt

METHODS = {
    "lm": quartic_solver("lm"),
    "lm, all pairs": quartic_solver(LevenbergMarquardt(core=0)),
    "ncg block": quartic_solver(ConjugateGradient("block")),
    "ncg Gram": quartic_solver(ConjugateGradient("gram")),
    "lbfgs": quartic_solver("lbfgs"),
    "tr": quartic_solver("tr"),
    "gd": quartic_solver("gd"),
    "dyn-nolips (Gram)": quartic_solver("dyn-nolips"),
    **{name: run for name, run in PEERS.items() if name.startswith(("scipy", "pymanopt"))},
}


class Shuffled(Helix):
    """The same pairs in random order, which sorting them has to undo."""

    @cached_property
    def pairs(self):
        return np.random.default_rng(0).permutation(Helix(self.n, self.known).pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--known", type=float, default=0.1, help="share of the pairs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--target", type=float, default=1e-6)
    parser.add_argument("--shuffled", action="store_true", help="give the pairs in random order")
    parser.add_argument("--only", nargs="*", default=[], help="methods whose name contains one of these")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    n, repeats = (600, 2) if options.quick else (options.n, options.repeats)
    case = (Shuffled if options.shuffled else Helix)(n, options.known)
    methods = {
        name: run for name, run in METHODS.items() if not options.only or any(part in name for part in options.only)
    }
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    with fixed_threads(1) as threads:
        for run in methods.values():  # compile
            for warm in warm_cases():
                with suppress(Enough):
                    run(warm, 0, 1e-2, Keeper(0.5, wall=False))
        for seed in range(repeats):
            for name, run in methods.items():
                keeper = Keeper(300.0, wall=False)
                with suppress(Enough):
                    run(case, seed, 0.01 * options.target, keeper)
                reached = keeper.first_below(options.target, case.error)
                seconds[name].append(np.inf if reached is None else reached)
        order = " in random order" * options.shuffled
        print(f"helix, n = {n}, {len(case.pairs)} pairs{order}, RMSE {options.target:g}, median of {repeats} starts")
        print(*describe_machine(threads).values(), sep="\n")
    base = median(seconds["lm"]) if "lm" in seconds else np.nan
    print(f"{'method':32s} {'seconds':>9s} {'/ lm':>7s}  reached")
    for name, values in seconds.items():
        found = median(values)
        print(f"{name:32s} {found:9.4f} {found / base:7.1f}  {np.isfinite(values).sum()} of {repeats}")


if __name__ == "__main__":
    main()
