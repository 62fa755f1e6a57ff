"""Distance completion on proteins, intervals, sensor fields, anchors, a map, a hundred thousand points.

    python benchmarks/distance_acceptance.py [CASE …] [--results results]

Data are found through `quartic.datasets` (``QUARTIC_DATA``). Seconds are wall clock, of this machine.
"""

from __future__ import annotations

import resource
import time
import warnings
from functools import partial

import numpy as np

from quartic import DistanceCompletion, datasets
from quartic.bench.numbers import record, run_script
from quartic.datasets import helix, load_points, pair_distances, pairs_within, protein, random_pairs, sensor_field
from quartic.io import read_distances
from quartic.metrics import align, normalized_rmse, rmsd

WAYS = {"default": {}, "weights=noise": {"weights": "noise"}, "refine=stress": {"refine": "stress"},
        "both": {"weights": "noise", "refine": "stress"}}  # fmt: skip
SEEDS = 10


def fit(pairs, distances, r, *, n_init=1, refine=None, device=None, n_jobs=None, **known):
    """Return a fitted model and its seconds."""
    model = DistanceCompletion(r, random_state=0, n_init=n_init, refine=refine, device=device, n_jobs=n_jobs)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit_pairs(pairs, distances, **known)
    return model, time.perf_counter() - began


def measure_errors(model, X, at=slice(None)):
    return np.linalg.norm(align(model.embedding_[at], X[at]) - X[at], axis=1)


def atoms(name):
    X = protein(name).coordinates
    pairs = pairs_within(X, 6.0)
    d = pair_distances(X, pairs)
    model, seconds = fit(pairs, d, 3, n_points=len(X))
    exact = {"s": seconds, "share within 5 pm": np.mean(measure_errors(model, X) < 0.05)}
    exact |= {"determined": model.determined_.sum(), "may flip": model.determination_.may_flip.sum()}
    yield from record(f"{name}, {len(X)} atoms, exact below 6 Å", "default", **exact)
    noisy = d * (1 + 0.02 * np.random.default_rng(0).standard_normal(len(d)))
    for way in ("default", "weights=noise", "refine=stress"):
        model, seconds = fit(pairs, noisy, 3, n_points=len(X), **WAYS[way])
        yield from record(f"{name}, 2 % noise", way, s=seconds, RMSD=rmsd(model.embedding_, X))


def intervals(name):
    given = read_distances(datasets.data_home() / "mdjeep" / "interval" / f"{name}.nmr.gz")
    bounds = {"lower": given.lower, "upper": given.upper, "n_points": given.n_points}
    model, seconds = fit(given.pairs, None, 3, n_init=2, **bounds)
    d = model.distances(given.pairs)
    worst = float(np.max(np.maximum(given.lower - d, d - given.upper)))
    case = f"MD-jeep {name}, {given.n_points} points, {len(d)} intervals"
    return record(case, "default", s=seconds, worst_violation=worst)


def sensors(shape, degree):
    worst, began = [], time.perf_counter()
    for seed in range(SEEDS):
        field = sensor_field(2000, degree, shape=shape, random_state=seed)
        model, _ = fit(field.pairs, field.distances, 2, n_points=2000)
        worst.append(float(measure_errors(model, field.coordinates, model.determined_).max()))
    seconds, reached = (time.perf_counter() - began) / SEEDS, np.mean(np.array(worst) < 1e-6)
    case = f"2000 sensors, {shape}, degree {degree}, {SEEDS} fields"
    return record(case, "default", s=seconds, share_to_1e_6=reached, median_of_worst=np.median(worst))


def anchors():
    field = datasets.load_sensor_field()
    free = np.setdiff1d(np.arange(len(field.coordinates)), list(field.anchors))
    known = {"n_points": len(field.coordinates), "anchors": field.anchors}
    for way, settings in WAYS.items():
        model, seconds = fit(field.pairs, field.distances, 2, **known, **settings)
        error = np.linalg.norm(model.embedding_ - field.coordinates, axis=1)[free]
        yield from record("test10-500", way, s=seconds, median_error=np.median(error), largest_error=error.max())


def cities():
    X = load_points("uscities")
    pairs = random_pairs(len(X), 0.05, random_state=0)
    model, seconds = fit(pairs, pair_distances(X, pairs), 2, n_points=len(X))
    facts = {"RMSE": normalized_rmse(model.embedding_, X), "largest error": measure_errors(model, X).max()}
    return record(f"{len(X)} US cities, 5 %", "default", s=seconds, **facts)


def large(shape, noise=0.0, N=100_000, **settings):
    """A helix of 100,000 points, or a field of as many sensors, degree 20: exact, or with noise and 1,000 anchors."""
    if shape == "helix":
        X, pairs = helix(N, random_state=0), random_pairs(N, 40 / (N - 1), random_state=0)
        d, known = pair_distances(X, pairs), {}
    else:
        field = sensor_field(N, 20, shape=shape, n_anchors=1000 if noise else 0, noise=noise, random_state=0)
        X, pairs, d, known = field.coordinates, field.pairs, field.distances, field.anchors
    model, seconds = fit(pairs, d, X.shape[1], n_points=N, anchors=known, **settings)
    sure = model.determination_.body == 0
    error = np.linalg.norm((model.embedding_ - X)[sure], axis=1) if known else measure_errors(model, X, sure)
    error /= float(d.max())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    case = f"n = {N:,}, {shape}, {noise:.0%} noise, {len(known)} anchors"
    facts = {"s": seconds, "median error": np.median(error), "error of 999 in 1000": np.quantile(error, 0.999)}
    return record(case, settings.get("device", "default"), **facts, peak_GiB=peak, determined=sure.sum())


CASES = {
    **{name: partial(atoms, name) for name in ("1ptq", "1pht", "1ax8", "1rgs")},
    **{name: partial(intervals, name) for name in ("1hj0", "2jmy", "2ksl", "sensor118")},
    **{
        f"{shape} {degree}": partial(sensors, shape, degree)
        for shape, degree in (("square", 20), ("square", 14), ("c", 20))
    },
    "anchors": anchors,
    "cities": cities,
    "large helix": partial(large, "helix"),
    **{f"large {shape} {noise}": partial(large, shape, noise) for shape in ("square", "c") for noise in (0.0, 0.05)},
}

if __name__ == "__main__":
    run_script("acceptance", CASES)
