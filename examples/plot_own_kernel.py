"""
Your own kernel
===============

A kernel is a convex function h with a gradient and a mirror map. When only some entries of M are known, and in some
rows far more than in others, those rows have the largest curvature, and a kernel that treats all rows alike must take
steps short enough for them. Weighting each row by its number of known entries gives every row a suitable step.
"""

# %%
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from quartic import Problem, minimize
from quartic.diagnostics import check_mirror
from quartic.kernels import Kernel, NormKernel
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative


# %%
# With S diagonal, h(X) = h_N(SX). Its mirror map is that of h_N for any penalty that does not mind the rows being
# scaled, such as X ≥ 0. ``divergence`` has a default; this one keeps its digits near the solution.
@dataclass(frozen=True, eq=False)
class RowScaledKernel(Kernel):
    """h(X) = α/4 ‖SX‖⁴ + σ/2 ‖SX‖²."""

    scale: np.ndarray
    plain: NormKernel

    def value(self, X):
        """Return h(X)."""
        return self.plain.value(self.scale * X)

    def gradient(self, X):
        """Return S∇h_N(SX)."""
        return self.scale * self.plain.gradient(self.scale * X)

    def mirror(self, V, penalty=None, t=1.0):
        """Return argmin_U h(U) + t g(U) − ⟨V, U⟩ = S⁻¹ argmin_Z h_N(Z) + t g(Z) − ⟨S⁻¹V, Z⟩."""
        return self.plain.mirror(V / self.scale, penalty, t) / self.scale

    def divergence(self, X, Y):
        """Return D_h(X, Y)."""
        return self.plain.divergence(self.scale * X, self.scale * Y)


# %%
# A nonnegative matrix of rank 4; of some rows nearly all entries are known, of most a tenth.
rng = np.random.default_rng(0)
n, rank = 300, 4
B = rng.random((n, rank))
busy = np.minimum(rng.pareto(1.0, n) + 1, 100)
known = np.triu(rng.random((n, n)) < np.minimum(1, 0.1 * np.outer(busy, busy) / busy.mean()))
known = (known | known.T).astype(float)
loss = LeastSquares(B @ B.T, weights=known)
degrees = known.sum(axis=1)
print(f"known entries in a row: from {degrees.min():.0f} to {degrees.max():.0f}, the median {np.median(degrees):.0f}")

plain = NormKernel.for_loss(loss)
scaled = RowScaledKernel(np.sqrt(np.maximum(degrees, 1) / degrees.max())[:, None], plain)
print(f"mirror map: first-order condition met to {check_mirror(scaled, Nonnegative(), shape=(n, rank)):.1e}")

# %%
# The same solvers, the same start, the two kernels.
runs = {}
for solver in ("dyn-nolips", "inertial"):
    for name, kernel in (("norm kernel", plain), ("row-scaled", scaled)):
        runs[solver, name] = minimize(
            Problem(loss, Nonnegative(), kernel), rank=rank, solver=solver, tol=1e-5, random_state=0
        )
        print(f"{solver:10} {name:12} {runs[solver, name].n_products:5} passes over the data")

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for (solver, name), result in runs.items():
    style = {
        "color": "#0072B2" if name == "row-scaled" else "#999999",
        "linestyle": "-" if solver == "inertial" else "--",
    }
    axes.semilogy(result.history.n_products, result.history.stationarity, label=f"{solver}, {name}", **style)
axes.set(xlabel="passes over the data", ylabel="‖projected gradient‖")
axes.legend(frameon=False)
