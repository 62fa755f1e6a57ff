"""
Reproducing the paper
=====================

The two comparisons of Dragomir, d'Aspremont and Bolte, *Quartic First-Order Methods for Low-Rank Minimization*
(2021), in small: symmetric NMF of a similarity graph, and the helix from a seventh of its distances. All solvers start
from the same point, and count their products with the data.

The real ones, at full size, with the paper's own numbers beside, are one command each::

    quartic paper table1 --quick
    quartic paper figure1 --quick
    quartic paper figure2 --quick
"""

# %%
# Symmetric NMF (Figure 1)
# ------------------------
import matplotlib.pyplot as plt
import numpy as np

from quartic import Problem, minimize
from quartic.datasets import helix, pair_distances, planted_graph, random_pairs
from quartic.init import random_start
from quartic.kernels import GramKernel, NormKernel
from quartic.losses import Distances, LeastSquares
from quartic.metrics import normalized_rmse
from quartic.penalties import Nonnegative
from quartic.solvers import SymHALS

COLOURS = {
    "dyn-nolips": "#000000", "pg": "#E69F00", "hals": "#56B4E9", "inertial": "#D55E00", "lbfgs": "#009E73",
    "gd": "#CC79A7", "lm": "#0072B2",
}  # fmt: skip

M, _ = planted_graph(1500, 12, p_within=0.6, random_state=0)
problem = Problem(LeastSquares(M), Nonnegative())
X0 = random_start(problem, 12, np.random.default_rng(0))

runs = {}
for solver in ("dyn-nolips", "pg", SymHALS(mu=0.01), "inertial", "lbfgs"):
    result = minimize(problem, X0, solver=solver, tol=1e-4, max_iter=2000)
    runs[result.solver] = result
    print(f"{result.solver:11} {result.n_products:5} products, objective {result.objective:.4f}, {result.status}")

# %%
# The gap to the best objective met, against products with M: the unit that does not depend on the machine.
best = min(result.history.objective.min() for result in runs.values())
square = problem.loss.matrix.squared_norm
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for name, result in runs.items():
    gap = (result.history.objective - best) / square
    axes.semilogy(result.history.n_products, np.maximum(gap, 1e-9), color=COLOURS[name], label=name)
axes.set(xlabel="products with M", ylabel="(f − f_min) / ‖M‖²", title="Symmetric NMF, n = 1500, r = 12", xlim=(0, 230))
axes.legend()

# %%
# Distances (Figure 2)
# --------------------
# Of this helix's 44,850 distances, one in seven is known. The Gram kernel needs fewer steps than the norm kernel and
# gradient descent, as in the paper; L-BFGS and Levenberg–Marquardt, which ``solver="auto"`` takes here, far fewer
# still.
truth = helix(300, random_state=0)
pairs = random_pairs(300, 1 / 7, random_state=0)
loss = Distances(pairs, pair_distances(truth, pairs) ** 2, n_points=300)
X0 = random_start(Problem(loss), 3, np.random.default_rng(0))

cases = {
    "dyn-nolips, norm kernel": (Problem(loss, kernel=NormKernel.for_loss(loss)), "dyn-nolips", "--"),
    "dyn-nolips, Gram kernel": (Problem(loss, kernel=GramKernel.for_loss(loss)), "dyn-nolips", "-"),
    "gd": (Problem(loss), "gd", "-"),
    "lbfgs": (Problem(loss), "lbfgs", "-"),
    "lm": (Problem(loss), "lm", "-"),
}
figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
passes = {}
for name, (case, solver, style) in cases.items():
    trace = []

    def watch(progress, trace=trace, solver=solver):
        """Note how far all distances are off, known and unknown."""
        if progress.n_iter % 5 == 0 or solver == "lm":
            trace.append((progress.n_products, normalized_rmse(progress.X, truth)))

    result = minimize(case, X0, solver=solver, tol=1e-9, max_iter=600, callback=watch)
    passes[name] = result.n_products
    axes.semilogy(*np.array(trace).T, style, color=COLOURS[solver], label=name)
    print(f"{name:24} {result.n_products:5} passes, RMSE {trace[-1][1]:.1e}")
axes.set(
    xlabel="passes over the pairs",
    ylabel="normalised RMSE, all pairs",
    title="Helix, n = 300, one distance in seven known",
)
axes.legend()
