"""
Can these distances be met at all?
==================================

`quartic.DistanceCompletion` places sensors from some of their distances, quickly, but a search may end in a local
minimum. The semidefinite relaxation of Biswas and Ye places them in as many dimensions as it likes; no placement, in
any dimension, has a smaller misfit than its bound. If the two are close, the search has done its work.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from quartic import DistanceCompletion
from quartic.sdp import localise

# %%
# Forty sensors that hear each other up to a distance of 0.4, which they measure to three per cent.
rng = np.random.default_rng(1)
sensors = rng.uniform(size=(40, 2))
i, j = np.triu_indices(40, 1)
true = np.linalg.norm(sensors[i] - sensors[j], axis=1)
heard = true < 0.4
pairs, measured = np.c_[i, j][heard], true[heard] * (1 + 0.03 * rng.standard_normal(int(heard.sum())))


def misfit(points):
    """Return the sum of errors in the squared distances."""
    lengths = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    return float(np.abs(lengths**2 - measured**2).sum())


with warnings.catch_warnings():  # that noise breaks triangle inequalities is no news here
    warnings.simplefilter("ignore")
    placed = DistanceCompletion(2, random_state=0).fit_pairs(pairs, measured, n_points=40).embedding_
relaxed = localise(pairs, measured, 2, n_points=40)
print(f"misfit of the true places {misfit(sensors):.3f}, of those found {misfit(placed):.3f}")
print(f"nothing in any dimension is below {relaxed.bound:.3f}; the relaxation uses {relaxed.dimension} dimensions")

# %%
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
names = ["true places", "found in the plane", "bound for any dimension"]
axes.barh(names, [misfit(sensors), misfit(placed), relaxed.bound], color=["#999999", "#0072B2", "#D55E00"])
axes.set(xlabel="sum of errors in squared distances", title="What the noise leaves, and what could be gained")
