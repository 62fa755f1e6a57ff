"""
A low-rank fit despite outliers
===============================

The inner products of 300 images of handwritten digits are nearly a matrix of low rank. One entry in twenty is
replaced by an outlier, as a failing sensor would do. Least squares fits the outliers. `~quartic.losses.Robust` bounds
the influence of every entry by δ, and recovers the low-rank part.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from quartic import Problem, minimize
from quartic.losses import LeastSquares, Robust

images = load_digits().data[:300]
images = images - images.mean(axis=0)
exact = images @ images.T / 64
values, vectors = np.linalg.eigh(exact)
rank = 10
low = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T  # what we want back

rng = np.random.default_rng(0)
wrong = np.triu(rng.random(exact.shape) < 0.05, 1)
errors = np.where(wrong, rng.choice([-1, 1], exact.shape) * rng.uniform(20, 60, exact.shape), 0)
spoiled = exact + errors + errors.T


def off(X):
    """Return the relative error of XXᵀ."""
    return float(np.linalg.norm(X @ X.T - low) / np.linalg.norm(low))


# %%
# The size of errors that are not gross is known here: what the low rank leaves, about a unit. With δ of that size
# each of the three losses comes close; least squares does not.
found = {"least squares": minimize(Problem(LeastSquares(spoiled)), rank=rank, tol=1e-6, random_state=0)}
for kind in ("huber", "pseudo-huber", "logcosh"):
    found[kind] = minimize(Problem(Robust(spoiled, kind, 1.0)), rank=rank, tol=1e-6, random_state=0)
error = {name: off(result.X) for name, result in found.items()}
for name, result in found.items():
    print(f"{name:14} relative error {error[name]:.3f}, {result.solver}, {result.n_products} passes over M")
clean = off(minimize(Problem(LeastSquares(exact)), rank=rank, tol=1e-6, random_state=0).X)
print(f"least squares without the errors: {clean:.1e}")

# %%
# How much does the result depend on δ? Not much.
deltas = np.geomspace(0.1, 30, 6)
by_delta = [off(minimize(Problem(Robust(spoiled, "huber", d)), rank=rank, tol=1e-5, random_state=0).X) for d in deltas]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.loglog(deltas, by_delta, "o-", color="#0072B2", label="Huber")
axes.axhline(error["least squares"], color="#D55E00", label="least squares")
axes.set(xlabel="δ", ylabel="relative error of the low-rank part", title="5 % of the entries grossly wrong")
axes.legend(frameon=False)
