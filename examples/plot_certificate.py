"""
A certificate of global optimality
==================================

A low-rank method may stop at a local minimum. But F is convex in Y = XXᵀ, and so there is a test: if X is stationary
and ∇F(XXᵀ) has no negative eigenvalue, XXᵀ is the minimum over *all* positive semidefinite matrices. `certify` looks
for a negative eigenvalue, by the Lanczos method, and bounds how much lower the objective could be. `grow_rank` raises
the rank along the eigenvectors it finds, until there are none.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from quartic import Problem, certify, grow_rank, minimize
from quartic.losses import Rectangular
from quartic.penalties import Ridge

# %%
# Ratings of 60 items by 150 people, a quarter of them known: tastes of rank 3, plus noise. The ridge is the nuclear
# norm ρ‖B‖_* in disguise, and so the convex problem is the one soft-impute solves.
rng = np.random.default_rng(0)
taste = rng.standard_normal((150, 3)) @ rng.standard_normal((3, 60))
ratings = taste + 0.5 * rng.standard_normal(taste.shape)
known = rng.random(taste.shape) < 0.25
problem = Problem(Rectangular(np.where(known, ratings, np.nan), weights=known), Ridge(4.0))

too_small = certify(problem, minimize(problem, rank=2, tol=1e-7, random_state=0).X)
print(f"rank 2: {too_small}")

# %%
# Growing from rank 1, the gap closes.
found = grow_rank(problem, random_state=0)
print(found.message)
U, V = problem.loss.factors(found.X)
error = float(np.linalg.norm(U @ V.T - taste) / np.linalg.norm(taste))
print(f"relative error of all tastes, known and unknown: {error:.2f}")

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
best = found.objective
axes.semilogy(found.ranks, [c.gap for c in found.certificates], "o-", color="#0072B2", label="proven gap")
excess = [c.objective - best for c in found.certificates[:-1]]
axes.semilogy(found.ranks[:-1], excess, "s--", color="#999999", label="true excess, known afterwards")
axes.set(xlabel="rank", ylabel="above the least objective", title="Proven and true distance from the convex optimum")
axes.legend(frameon=False)
