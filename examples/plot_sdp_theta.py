"""
Lovász' theta: between two hard numbers
=======================================

The largest independent set of a graph and the fewest cliques that cover it are both hard to find. Lovász' theta, the
optimum of a semidefinite programme, lies between them. For the pentagon it is √5, which settled how much can be sent
without error over a channel that confuses neighbouring letters.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from quartic.sdp import lovasz_theta

# %%
sizes = np.arange(5, 26, 2)
found = [lovasz_theta(np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) for n in sizes]
values = np.array([theta.value for theta in found])
known = sizes * np.cos(np.pi / sizes) / (1 + np.cos(np.pi / sizes))
print(f"pentagon: {values[0]:.7f}, and √5 is {5**0.5:.7f}; proven to be at most {found[0].bound:.7f}")
print(f"largest error of all cycles: {np.abs(values - known).max():.1e}")

# %%
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(sizes, sizes // 2, "v", color="#D55E00", label="largest independent set")
axes.plot(sizes, values, "o-", color="#0072B2", label="theta")
axes.plot(sizes, (sizes + 1) // 2, "^", color="#009E73", label="cliques to cover it")
axes.set(xlabel="nodes of the cycle", title="Theta of odd cycles")
axes.legend(frameon=False)
