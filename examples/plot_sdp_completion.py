"""
The least nuclear norm
======================

Among all matrices with given entries, the one of least nuclear norm often is the one of least rank. It is the solution
of a semidefinite programme, and the dual proves that no other matrix has a smaller norm.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from quartic.sdp import complete_matrix

# %%
# A matrix of rank two, with more and more of its entries known.
rng = np.random.default_rng(0)
truth = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
order = rng.permutation(truth.size)
shares = (0.4, 0.5, 0.6, 0.7, 0.8)
errors, found = [], None
for share in shares:
    known = np.c_[np.unravel_index(order[: int(share * truth.size)], truth.shape)]
    found = complete_matrix(known, truth[tuple(known.T)], truth.shape, kind="nuclear")
    errors.append(float(np.linalg.norm(found.matrix - truth) / np.linalg.norm(truth)))
    print(f"{share:.0%} known: norm {found.norm:.4f}, at least {found.bound:.4f}; relative error {errors[-1]:.1e}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.semilogy([100 * share for share in shares], errors, "o-", color="#0072B2")
axes.set(xlabel="known entries, per cent", ylabel="relative error", title="Completion of a 20 × 15 matrix of rank 2")
