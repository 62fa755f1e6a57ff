"""
Nonnegative factorisation with missing pixels
=============================================

A rectangular matrix A ≈ UVᵀ is a block of XXᵀ with X = [U; V], so the same solvers apply:
`~quartic.losses.Rectangular` stacks and unstacks. With X ≥ 0 it is nonnegative matrix factorisation, and with weights
also for a matrix of which only some entries are known.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

from quartic import Problem, minimize
from quartic.losses import Rectangular
from quartic.penalties import Nonnegative, NonnegativeRidge

A = load_digits().data
loss = Rectangular(A)
problem = Problem(loss, Nonnegative())
runs = [minimize(problem, rank=10, tol=1e-4, random_state=seed) for seed in range(3)]
best = min(runs, key=lambda result: result.objective)
U, V = loss.factors(best.X)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that 500 iterations were not enough for its tolerance
    errors = [NMF(10, init="random", random_state=k, max_iter=500).fit(A).reconstruction_err_ for k in range(3)]
theirs = min(errors) ** 2 / 2
print(f"½‖A − UVᵀ‖², best of three: {best.objective:,.0f}; scikit-learn {theirs:,.0f}")

# %%
# The ten parts that 1,797 images are made of.
figure, axes = plt.subplots(1, 10, figsize=(8, 1.3), layout="constrained")
for cell, part in zip(axes, V.T, strict=True):
    cell.imshow(part.reshape(8, 8), cmap="gray_r")
    cell.set_axis_off()
figure.suptitle("Columns of V: the parts", fontsize="medium")

# %%
# Now hide 60 % of the pixels, at random. Weights say which are known; a ridge keeps columns that few pixels
# speak of from running away, and U and V in balance.
rng = np.random.default_rng(0)
seen = rng.random(A.shape) < 0.4
masked = Rectangular(np.where(seen, A, np.nan), weights=seen)
result = minimize(Problem(masked, NonnegativeRidge(40.0)), rank=10, tol=1e-3, random_state=0)
U, V = masked.factors(result.X)
filled = U @ V.T
hidden = float(np.sqrt(np.mean((filled - A)[~seen] ** 2)))
means = np.nanmean(np.where(seen, A, np.nan), axis=0)
plain = float(np.sqrt(np.mean((means[None] - A)[~seen] ** 2)))
print(f"root-mean-square error over hidden pixels (of 16 grey levels): {hidden:.2f}; by each pixel's mean: {plain:.2f}")

figure, axes = plt.subplots(3, 10, figsize=(8, 2.6), layout="constrained")
for k, column in enumerate(axes.T):
    for cell, image in zip(column, (A[k], np.where(seen[k], A[k], np.nan), filled[k]), strict=True):
        cell.imshow(np.reshape(image, (8, 8)), cmap="gray_r", vmin=0, vmax=16)
        cell.set_axis_off()
figure.suptitle("Images, what was seen of them, and what came back", fontsize="medium")
