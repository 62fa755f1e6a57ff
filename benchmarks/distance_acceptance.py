"""Distance completion against its goals: proteins, intervals, sensor fields, anchors, a map, a hundred thousand points.

    python benchmarks/distance_acceptance.py                       # all
    python benchmarks/distance_acceptance.py proteins sensors      # some
    python benchmarks/distance_acceptance.py --seeds 3             # fewer fields of sensors

Each line gives what was measured and the goal. Data are found through `quartic.datasets` (``QUARTIC_DATA``). One thread
is enough: set ``OPENBLAS_NUM_THREADS=1``. Times are seconds of this machine, for comparison within one run only.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

import numpy as np

from quartic import DistanceCompletion, datasets
from quartic.datasets import helix, load_points, pair_distances, pairs_within, protein, random_pairs, sensor_field
from quartic.io import read_mdjeep
from quartic.metrics import align, normalized_rmse, rmsd

PROTEINS = ("1ptq", "1pht", "1ax8", "1rgs")
INTERVALS = ("1hj0", "2jmy", "2ksl", "sensor118")


def say(what: str, goal: str, reached: bool, seconds: float, more: str = "") -> None:
    print(f"{'ok  ' if reached else 'MISS'} {what:<64} goal: {goal:<34} {seconds:6.1f} s  {more}", flush=True)


def fitted(pairs, distances, r, **settings):
    known = {
        name: settings.pop(name) for name in ("anchors", "lower", "upper", "weights", "n_points") if name in settings
    }
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistanceCompletion(r, random_state=0, **settings).fit_pairs(pairs, distances, **known)
    return model, time.perf_counter() - began


def proteins(args: argparse.Namespace) -> None:
    for name in PROTEINS:
        X = protein(name).coordinates
        pairs = pairs_within(X, 6.0)
        d = pair_distances(X, pairs)
        model, seconds = fitted(pairs, d, 3, n_points=len(X))
        error = np.linalg.norm(align(model.embedding_, X) - X, axis=1)
        share = float(np.mean(error < 0.05))
        what = f"{name}, {len(X)} atoms, exact < 6 Å: {share:.2%} within 0.05 Å"
        flips = int(model.determination_.may_flip.sum())
        say(what, ">= 99.8 %", share >= 0.998, seconds, f"{int(model.determined_.sum())} determined, {flips} may flip")
        noisy = d * (1 + 0.02 * np.random.default_rng(0).standard_normal(len(d)))
        for settings in ({}, {"weights": "noise"}, {"refine": "stress"}):
            model, seconds = fitted(pairs, noisy, 3, n_points=len(X), **settings)
            off = rmsd(model.embedding_, X)
            say(f"{name}, 2 % noise, {settings or 'plain'}: RMSD {off:.3f} Å", "< 1 Å", off < 1, seconds)


def intervals(args: argparse.Namespace) -> None:
    for name in INTERVALS:
        given = read_mdjeep(datasets.data_home() / "mdjeep" / "interval" / f"{name}.nmr.gz")
        bounds = {"lower": given.lower, "upper": given.upper, "n_points": given.n_points}
        model, seconds = fitted(given.pairs, None, 3, n_init=2, **bounds)
        d = model.distances(given.pairs)
        worst = float(np.max(np.maximum(given.lower - d, d - given.upper)))
        what = f"MD-jeep {name}, {given.n_points} points, {len(d)} intervals: worst {worst:.1e}"
        say(what, "<= 1e-3", worst <= 1e-3, seconds, model.start_)


def _fields(args: argparse.Namespace, degree: int, shape: str, goal: str, wanted: float) -> None:
    reached, worst, began = 0, [], time.perf_counter()
    for seed in range(args.seeds):
        field = sensor_field(2000, degree, shape=shape, random_state=seed)
        model, _ = fitted(field.pairs, field.distances, 2, n_points=2000)
        sure = model.determined_
        error = np.linalg.norm(align(model.embedding_[sure], field.coordinates[sure]) - field.coordinates[sure], axis=1)
        worst.append(float(error.max()))
        reached += worst[-1] < 1e-6
        if worst[-1] >= 1e-6:
            print(f"     seed {seed}: worst {worst[-1]:.1e}, {int(sure.sum())} determined, {model.start_}")
    what = f"sensors, {shape}, degree {degree}: {reached} of {args.seeds} to 1e-6 or better"
    say(what, goal, reached >= wanted * args.seeds, time.perf_counter() - began, f"median {np.median(worst):.0e}")


def sensors(args: argparse.Namespace) -> None:
    _fields(args, 20, "square", "9 of 10", 0.9)
    _fields(args, 14, "square", "6 of 10", 0.6)
    _fields(args, 20, "c", "none (prototypes: 0 of 5)", 0.0)


def anchors(args: argparse.Namespace) -> None:
    field = datasets.load_sensor_field()
    free = np.setdiff1d(np.arange(len(field.coordinates)), list(field.anchors))
    for settings in ({}, {"weights": "noise"}, {"refine": "stress"}, {"weights": "noise", "refine": "stress"}):
        known = {"n_points": len(field.coordinates), "anchors": field.anchors}
        model, seconds = fitted(field.pairs, field.distances, 2, **known, **settings)
        error = np.linalg.norm(model.embedding_ - field.coordinates, axis=1)[free]
        median = float(np.median(error))
        what = f"test10-500, {settings or 'plain'}: median {median:.4f}"
        say(what, "< 0.02", median < 0.02, seconds, f"mean {error.mean():.4f}, max {error.max():.3f}")


def cities(args: argparse.Namespace) -> None:
    X = load_points("uscities")
    pairs = random_pairs(len(X), 0.05, random_state=0)
    model, seconds = fitted(pairs, pair_distances(X, pairs), 2, n_points=len(X))
    error = normalized_rmse(model.embedding_, X)
    worst = float(np.linalg.norm(align(model.embedding_, X) - X, axis=1).max())
    say(f"{len(X)} US cities, 5 %: rmse {error:.1e}, worst {worst:.1e}°", "1e-6", max(error, worst) < 1e-6, seconds)


def large(args: argparse.Namespace) -> None:
    """A helix of 100,000 points; fields of 100,000 sensors, degree 20: exact, and with 5 % noise and 1,000 anchors."""
    n, m = 100_000, 2_000_000
    X, pairs = helix(n, random_state=0), random_pairs(n, 2 * m / n / (n - 1), random_state=0)
    cases = [("helix, pairs at random", X, pairs, pair_distances(X, pairs), {})]
    for shape, noise in (("square", 0.0), ("c", 0.0), ("square", 0.05), ("c", 0.05)):
        field = sensor_field(n, 20, shape=shape, n_anchors=1000 if noise else 0, noise=noise, random_state=0)
        name = f"sensors, {shape}, {noise:.0%} noise, {len(field.anchors)} anchors"
        cases.append((name, field.coordinates, field.pairs, field.distances, field.anchors))
    for name, X, pairs, d, anchors in cases:
        model, seconds = fitted(pairs, d, X.shape[1], n_points=n, anchors=anchors)
        sure, reach = model.determination_.body == 0, float(d.max())
        Y = model.embedding_[sure] if anchors else align(model.embedding_[sure], X[sure])
        error = np.linalg.norm(Y - X[sure], axis=1) / reach
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        what = f"n = {n}, {name}: median error {np.median(error):.1e} of the longest distance"
        more = f"99.9 % below {np.quantile(error, 0.999):.1e}, peak {peak:.2f} GiB, {int(sure.sum())} determined"
        goal = 0.05 if anchors else 1e-3  # the arms of a C bend at hardly any cost
        say(what, f"{goal:g}, 2 GiB", float(np.median(error)) < goal and peak < 2, seconds, more)


SECTIONS = {section.__name__: section for section in (proteins, intervals, sensors, anchors, cities, large)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; all when left out")
    parser.add_argument("--seeds", type=int, default=10, help="fields of sensors of each kind")
    args = parser.parse_args()
    for name in args.sections or SECTIONS:
        SECTIONS[name](args)


if __name__ == "__main__":
    main()
