"""
Sensors with anchors
====================

Sixty sensors in a square measure their distance to those near them, with an error of 3 %. Five of them, the anchors,
know where they are. Where are the others, and how certain is that?
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from quartic import DistanceCompletion
from quartic.datasets import sensor_field

field = sensor_field(60, degree=12, n_anchors=5, noise=0.03, random_state=5)
print(f"{len(field.pairs)} distances, {len(field.anchors)} anchors")

# %%
# ``weights="noise"`` is for errors in proportion to the distance; ``refine="stress"`` goes on with the distances
# themselves, not their squares, which serves noisy data better. That noisy distances contradict each other here and
# there is said in warnings; in this example they are gathered and printed.


def fit(pairs, distances):
    """Return the model, and print what it warns of."""
    model = DistanceCompletion(2, refine="stress", random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit_pairs(pairs, distances, n_points=60, weights="noise", anchors=field.anchors)
    for each in said:
        print(f"{each.category.__name__}: {each.message}")
    return model


model = fit(field.pairs, field.distances)
free = np.setdiff1d(np.arange(60), list(field.anchors))
off = np.linalg.norm(model.embedding_ - field.coordinates, axis=1)[free]
print(f"off by {off.mean():.3f} on average (the square has side 1); {model.determined_.sum()} of 60 points determined")

# %%
# The standard error of each point, drawn as a circle of twice that, says where to trust the map.
errors = model.standard_errors_
inside = off <= 2 * errors[free]
print(f"{inside.mean():.0%} of the true places lie within two standard errors")

figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
for i, j in field.pairs:
    axes.plot(*model.embedding_[[i, j]].T, color="0.88", linewidth=0.7, zorder=0)
for k in free:
    axes.add_patch(plt.Circle(model.embedding_[k], 2 * errors[k], color="#56B4E9", alpha=0.25, linewidth=0))
    axes.plot(*np.array([model.embedding_[k], field.coordinates[k]]).T, color="#D55E00", linewidth=1)
axes.scatter(*model.embedding_[free].T, s=16, color="#0072B2", label="found", zorder=3)
axes.scatter(*field.coordinates[free].T, s=16, facecolors="none", edgecolors="#D55E00", label="true", zorder=3)
axes.scatter(*field.coordinates[list(field.anchors)].T, s=70, color="#009E73", marker="D", label="anchors", zorder=4)
axes.set_aspect("equal")
axes.legend(loc="upper right")
axes.set_title(f"{len(field.pairs)} noisy distances; circles of two standard errors")

# %%
# A sensor that is not determined
# -------------------------------
# Take all but two of one sensor's distances away: it may now stand on either side of the line between the two, and
# ``determined_`` says so.
lonely = int(free[0])
mine = np.flatnonzero((field.pairs == lonely).any(1))
kept = np.setdiff1d(np.arange(len(field.pairs)), mine[2:])
model = fit(field.pairs[kept], field.distances[kept])
print("not determined:", np.flatnonzero(~model.determined_).tolist())
model.plot_points()
