"""
A protein from its distances
============================

What a chemist knows of a protein in solution: the lengths and angles of its bonds, which give the distances of atoms
one or two bonds apart; and from nuclear magnetic resonance, for pairs of atoms that come close, that they *are*
close: no distance, only bounds. `~quartic.DistanceCompletion` takes both at once.

The molecule is built here, so that nothing need be downloaded: two α-helices with a turn between them, backbone only.
With a PDB file of your own, begin with ``atoms = quartic.io.read_pdb("1crn.pdb").coordinates``.
"""

# %%
# A backbone from its angles
# --------------------------
# Each atom is placed from the three before it: bond length, bond angle and torsion.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from quartic import DistanceCompletion
from quartic.datasets import pair_distances, pairs_within
from quartic.metrics import align, rmsd

BONDS = ("N", 1.33, 121.9), ("CA", 1.46, 116.6), ("C", 1.53, 111.0)  # atom, length in Å of the bond to it, angle before


def place(a, b, c, length, angle, torsion):
    """Return the atom after a, b, c."""
    angle, torsion = np.radians([180 - angle, torsion])
    u = (c - b) / np.linalg.norm(c - b)
    w = np.cross(b - a, u)
    w /= np.linalg.norm(w)
    local = np.array([np.cos(angle), np.cos(torsion) * np.sin(angle), np.sin(torsion) * np.sin(angle)])
    return c + length * local @ np.array([u, np.cross(w, u), w])


helix, turn = (-57, -47), ((50, 60), (80, -60), (-80, 160), (20, -10))
angles = [helix] * 14 + list(turn) + [helix] * 14
chain = [np.zeros(3), np.array([1.46, 0, 0]), np.array([2.0, 1.42, 0])]
psi = helix[1]
for phi, next_psi in angles:
    for (_, length, angle), torsion in zip(BONDS, (psi, 180.0, phi), strict=True):
        chain.append(place(*chain[-3:], length, angle, torsion))
    psi = next_psi
atoms = np.array(chain)
n = len(atoms)

# %%
# What is known
# -------------
# Along the chain, exact distances over one and two bonds, and across each peptide bond, which is flat. For every
# other pair nearer than 6 Å only bounds, up to half an Ångström either side.
rng = np.random.default_rng(0)
near = pairs_within(atoms, 6.0)
apart = near[:, 1] - near[:, 0]
true = pair_distances(atoms, near)
bonded = apart <= 2
flat = (apart == 3) & (near[:, 0] % 3 == 1)  # CA – C – N – CA: the peptide plane
exact = bonded | flat

distances = np.where(exact, true, np.nan)
slack = rng.uniform(0.1, 0.5, (2, len(near)))
lower = np.where(exact, np.nan, true - slack[0])
upper = np.where(exact, np.nan, true + slack[1])
print(f"{n} atoms, {len(near)} of {n * (n - 1) // 2} pairs known: {exact.sum()} distances, {(~exact).sum()} bounds")

# %%
# The fold
# --------
# Distances cannot tell a molecule from its mirror image. That α-helices are right-handed can: ``signs`` says so, here
# of four atoms on the first one. A warning is expected, and is printed: exact distances alone would leave the fold
# open.
handed = np.array([3, 6, 9, 12])
sign = np.sign(np.linalg.det(atoms[handed[1:]] - atoms[handed[0]]))
model = DistanceCompletion(3, signs=[[*handed, sign]], random_state=0)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    model.fit_pairs(near, distances, lower=lower, upper=upper)
print(*(f"warning: {each.message}" for each in said), sep="\n")
error = rmsd(model.embedding_, atoms, reflection=False)
print(f"root mean square deviation from the true fold: {error:.2f} Å")
print(model.chirality_)

# %%
found = align(model.embedding_, atoms, reflection=False)
figure = plt.figure(figsize=(8, 5))
axes = figure.add_axes((0, 0, 1, 0.92), projection="3d")
axes.plot(*atoms.T, color="0.8", linewidth=6, solid_capstyle="round", label="true")
axes.plot(*found.T, color="#0072B2", linewidth=2, label="found")
axes.scatter(*found[1::3].T, c=np.arange(n)[1::3], cmap="cividis", s=40, depthshade=False)
axes.set_box_aspect(np.ptp(atoms, axis=0), zoom=1.45)
axes.view_init(elev=15, azim=-60)
axes.set_axis_off()
axes.legend(loc="lower right", frameon=False)
figure.suptitle(f"{len(near)} distances and bounds below 6 Å; {error:.2f} Å from the truth")

# %%
# How far the bounds are missed, in Å: most are met.
model.plot_errors()
