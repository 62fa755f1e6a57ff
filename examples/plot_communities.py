"""
Communities in a graph, overlapping ones too
============================================

Zachary's karate club split in two, and the graph of who met whom outside the club shows where. `SymNMF` finds the two
sides; its soft memberships also show who stood between them. Where people belong to several circles at once, the same
memberships find all of them.
"""

# %%
# Two sides of a club
# -------------------
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from quartic import SymNMF, select_rank
from quartic.datasets import karate
from quartic.metrics import clustering_accuracy

club = karate()
model = SymNMF(2, random_state=0).fit(club.adjacency)
share = clustering_accuracy(club.labels, model.labels_)
print(f"{share:.0%} of the members on the side they really took")

# %%
# Colour: how much a member belongs to either side. The ring is the side taken when the club split.
graph = nx.from_scipy_sparse_array(club.adjacency)
places = nx.spring_layout(graph, seed=4)
first = int(np.argmax(model.memberships_[0]))
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
nx.draw_networkx_edges(graph, places, ax=axes, edge_color="0.8")
rings = np.where(np.asarray(club.labels) == club.labels[0], "#B2560D", "#0072B2")
dots = nx.draw_networkx_nodes(
    graph, places, ax=axes, node_color=model.memberships_[:, first], cmap="cividis", vmin=0, vmax=1, node_size=170,
    edgecolors=rings, linewidths=2.5,
)  # fmt: skip
figure.colorbar(dots, ax=axes, label="membership in the first side", shrink=0.7)
axes.set_axis_off()
axes.set_title("Zachary's karate club: memberships found, sides taken (rings)")

# %%
# Circles that overlap
# --------------------
# Three circles of people; every sixth person is in two of them. Two people know each other with probability 0.45 for
# each circle they share, and 0.01 otherwise.
rng = np.random.default_rng(0)
n, circles = 240, 3
belongs = np.zeros((n, circles), dtype=bool)
belongs[np.arange(n), np.arange(n) % circles] = True
in_two = np.arange(0, n, 6)
belongs[in_two, (in_two % circles + 1 + (in_two // 6) % 2) % circles] = True
shared = belongs.astype(float) @ belongs.T
knows = np.triu(rng.random((n, n)) < 1 - (1 - 0.45) ** shared * (1 - 0.01), 1)
A = (knows | knows.T).astype(float)

# %%
# How many circles there are can be asked of the graph.
chosen = select_rank(A, range(2, 7), random_state=0)
print("circles:", chosen.best)

# %%
# ``communities_`` are sets: a person is in every circle in which the model sees more than its own noise.
model = SymNMF(circles, random_state=0).fit(A)
found = np.array([np.isin(np.arange(n), list(members)) for members in model.communities_]).T
order = [int(np.argmax((found[:, [c]] & belongs).sum(0))) for c in range(circles)]  # which circle each column is
right = found == belongs[:, order]
both = found.sum(1) == 2
print(f"{right.mean():.1%} of all memberships right")
print(f"{(both & (belongs.sum(1) == 2)).sum()} of the {len(in_two)} people in two circles found, {both.sum()} named")

# %%
# Each person as a point in the triangle of the three circles: corners are in one circle only, edges in two.
corners = np.array([[0, 0], [1, 0], [0.5, 0.87]])
xy = model.memberships_ @ corners
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
axes.plot(*corners[[0, 1, 2, 0]].T, color="0.6")
for twice, colour, name in ((False, "#0072B2", "in one circle"), (True, "#D55E00", "in two")):
    which = (belongs.sum(1) == 2) == twice
    axes.scatter(*xy[which].T, s=30, color=colour, alpha=0.7, label=name)
axes.set_aspect("equal")
axes.set_axis_off()
axes.legend(frameon=False)
axes.set_title("Soft memberships of 240 people in three circles")
