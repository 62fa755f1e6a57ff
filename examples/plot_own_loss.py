"""
Your own loss in twenty lines
=============================

Counts of how often two things meet are not Gaussian: a pair seen 100 times is off by 10, one seen once by 1. The
right loss is the likelihood of Poisson counts, F(Y) = Σ Y_ij − M_ij log(Y_ij + ε).
`~quartic.losses.Smooth` takes any such function as it is.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from quartic import Problem, minimize
from quartic.diagnostics import check_gradient
from quartic.losses import LeastSquares, Smooth
from quartic.penalties import Nonnegative

# %%
# People in three groups, some of whom belong to two; some meet others a hundred times as often as the rest do.
rng = np.random.default_rng(0)
n, groups = 100, 3
shares = rng.dirichlet(np.full(groups, 0.3), n) * rng.lognormal(0, 1.2, (n, 1))
mean = shares @ shares.T
upper = np.triu(rng.poisson(mean))
M = (upper + np.triu(upper, 1).T).astype(float)

# %%
# The loss: its value, and the product of ∇F(XXᵀ) with X. Nothing else is needed; the constants are estimated from a
# few random points, and the dynamic step corrects them.
EPSILON = 0.01


def value(X):
    """Return F(XXᵀ)."""
    Y = X @ X.T
    return np.sum(Y - M * np.log(Y + EPSILON))


def product(X):
    """Return ∇F(XXᵀ)X."""
    return (1 - M / (X @ X.T + EPSILON)) @ X


loss = Smooth(value, product, n=n)
start = rng.random((n, groups))
print(f"gradient against differences: relative error {check_gradient(loss, start):.1e}")
poisson = minimize(Problem(loss, Nonnegative()), start, tol=1e-3)
squares = minimize(Problem(LeastSquares(M), Nonnegative()), start, tol=1e-3)
print(poisson.message)


def off(X):
    """Return the mean relative error of the expected counts, pair by pair."""
    return float(np.mean(np.abs(X @ X.T - mean) / mean))


print(f"relative error of a pair's expected count: likelihood {off(poisson.X):.2f}, least squares {off(squares.X):.2f}")

# %%
# With torch or jax there is no gradient to write: ``Smooth(lambda X: (X @ X.T - M * torch.log(X @ X.T + 0.01)).sum(),
# n=n)`` where M is a tensor.
figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.4), layout="constrained", sharex=True, sharey=True)
for cell, (name, result) in zip(axes, {"likelihood": poisson, "least squares": squares}.items(), strict=True):
    cell.loglog(mean.ravel()[::7], (result.X @ result.X.T).ravel()[::7] + 1e-4, ".", markersize=2, color="#0072B2")
    cell.plot([1e-3, 100], [1e-3, 100], color="#999999", linewidth=0.8)
    cell.set(title=name, xlabel="expected count", xlim=(1e-3, None), ylim=(1e-4, None))
axes[0].set_ylabel("fitted count")
