"""
A map from five per cent of the distances
=========================================

2,920 US cities. Of the 4.3 million distances between them we are given one in twenty, chosen at random, and not one
position. `~quartic.DistanceCompletion` finds the map, up to what distances cannot determine: a translation, a
rotation and a reflection. `align_to` with three known cities fixes these.

Run it with a file of your own, two columns of coordinates: ``python examples/plot_us_cities.py my-points.csv``.
"""

from __future__ import annotations

import sys

import numpy as np

from quartic import DistanceCompletion
from quartic.datasets import DatasetNotFound, load_points, pair_distances, random_pairs, sensor_field
from quartic.metrics import normalized_rmse


def points(path: str | None = None) -> tuple[np.ndarray, str]:
    """Return the points, and what they are: those of a file, the cities, or a random field where there are none."""
    if path is not None:
        return np.loadtxt(path, delimiter=",", ndmin=2)[:, :2], path
    try:
        return load_points("uscities")[:, :2], "US cities"
    except DatasetNotFound as missing:
        print(f"{missing}\nA random field instead.", file=sys.stderr)
        return sensor_field(1500, 20, random_state=0).coordinates, "a random field"


def run(path: str | None = None, share: float = 0.05, seed: int = 0) -> tuple[DistanceCompletion, float, object]:
    """Return the fitted model, its normalised RMSE over all pairs, and the figure (None without matplotlib)."""
    truth, name = points(path)
    pairs = random_pairs(len(truth), share, random_state=seed)
    known = {k: truth[k] for k in range(3)}  # three cities on the map, to turn it the right way round
    model = DistanceCompletion(2, align_to=known, random_state=seed)
    model.fit_pairs(pairs, pair_distances(truth, pairs), n_points=len(truth))
    error = normalized_rmse(model.embedding_, truth)
    return model, error, draw(model, truth, name, len(pairs), error)


def draw(model: DistanceCompletion, truth: np.ndarray, name: str, n_pairs: int, error: float) -> object:
    """Return the map found, with the true places as circles around it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return None
    figure = plt.figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot(aspect="equal")
    axes.scatter(*truth.T, s=18, facecolors="none", edgecolors="#bbbbbb", linewidths=0.6, label="true place")
    axes.scatter(*model.embedding_.T, s=2, color="#0072B2", label="found")
    axes.set_title(f"{name}: {n_pairs:,} distances given, relative error {error:.1e}")
    axes.legend(loc="lower left", frameon=False)
    return figure


if __name__ == "__main__":
    fitted, rmse, picture = run(*sys.argv[1:2])
    print(f"normalised RMSE over all pairs: {rmse:.2e}")
    print(fitted.start_)
    if picture is not None:
        picture.show()
