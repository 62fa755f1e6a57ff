"""
How good is a cut?
==================

Cutting a graph in two so that many edges are cut is hard; knowing how good a cut is looks harder. The semidefinite
relaxation of Goemans and Williamson does both: its vectors, divided by random hyperplanes, give a cut, and its dual
gives a number that no cut exceeds.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from quartic.sdp import maxcut

# %%
# Points in the plane, each joined to those nearby: about 2,600 edges between 500 nodes.
rng = np.random.default_rng(0)
points = rng.uniform(size=(500, 2))
distances = np.linalg.norm(points[:, None] - points[None], axis=2)
graph = sparse.csr_array(np.triu(distances < 0.085, 1).astype(float))
graph = graph + graph.T

found = maxcut(graph, random_state=0)
edges = graph.nnz // 2
print(f"{edges} edges; cut {found.value:.0f}, and no cut has more than {found.bound:.2f}")
print(f"so this one has at least {found.value / found.bound:.1%} of the best")

# %%
figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
i, j = sparse.triu(graph, 1).nonzero()
cut = found.cut[i] != found.cut[j]
axes.plot(points[[i[cut], j[cut]], 0], points[[i[cut], j[cut]], 1], color="#bbbbbb", lw=0.5, zorder=0)
axes.plot(points[[i[~cut], j[~cut]], 0], points[[i[~cut], j[~cut]], 1], color="#D55E00", lw=0.8, zorder=1)
axes.scatter(*points.T, c=np.where(found.cut > 0, "#0072B2", "#E69F00"), s=14, zorder=2)
axes.set(title="Edges that are not cut, in red", xticks=[], yticks=[], aspect="equal")
