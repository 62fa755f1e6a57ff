"""
A robot that hears beacons: is this path the best?
==================================================

A robot measures how it turns and moves from step to step, and how far it is from three beacons whose places it does not
know. Its orientations are orthogonal matrices, the directions to the beacons unit vectors; written with Y = XXᵀ, whose
rows are all of these, the least squares problem has a semidefinite relaxation with orthogonal blocks (Papalia and
others, 2022). Where the answer has rank two, it is the best path there is, and the bound proves it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from quartic.sdp import SDP, solve_sdp

rng = np.random.default_rng(3)
steps, beacons = 24, 3


def turn(angle):
    """Return a rotation of the plane."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


# %%
# Odometry has an error of 0.02 in each angle and step; most distances to the beacons are measured, to 0.01.
heading = np.cumsum(np.full(steps, 2 * np.pi / steps) + 0.3 * np.sin(np.arange(steps)))
place = np.cumsum(np.c_[np.cos(heading), np.sin(heading)], axis=0)
beacon = place.mean(axis=0) + rng.uniform(-4, 4, (beacons, 2))
turned = [turn(heading[k + 1] - heading[k] + 0.02 * rng.standard_normal()) for k in range(steps - 1)]
moved = [turn(heading[k]).T @ (place[k + 1] - place[k]) + 0.02 * rng.standard_normal(2) for k in range(steps - 1)]
heard = [(k, b) for k in range(steps) for b in range(beacons) if rng.random() < 0.9]
ranges = [np.linalg.norm(place[k] - beacon[b]) + 0.01 * rng.standard_normal() for k, b in heard]

# %%
# Rows of X: two for each orientation, one for each place (the first is the origin), beacon and direction. Every
# residual is a combination of rows; its square is ⟨wwᵀ, Y⟩.
first_place, first_way = 2 * steps, 3 * steps + beacons - 1
size = first_way + len(heard)
residuals = []


def row(*terms):
    """Return a combination of rows; the place 0 is the origin."""
    w = np.zeros(size)
    for index, value in terms:
        if index is not None:
            w[index] += value
    return w


def spot(k):
    """Return the row of a place or beacon."""
    return None if k == 0 else first_place + k - 1


for k in range(steps - 1):
    now, after = 2 * k, 2 * k + 2
    for c in range(2):  # the columns of R_{k+1} − R_k·turned
        terms = [(after + c, 1.0), (now, -turned[k][0, c]), (now + 1, -turned[k][1, c])]
        residuals.append(row(*terms) / 0.02)
    residuals.append(row((spot(k + 1), 1.0), (spot(k), -1.0), (now, -moved[k][0]), (now + 1, -moved[k][1])) / 0.02)
for way, ((k, b), r) in enumerate(zip(heard, ranges, strict=True)):
    residuals.append(row((spot(k), 1.0), (spot(steps + b), -1.0), (first_way + way, -r)) / 0.01)
W = np.array(residuals)
constraints, right = [], []
for k in range(steps):
    constraints += [[(2 * k, 2 * k, 1.0)], [(2 * k + 1, 2 * k + 1, 1.0)], [(2 * k, 2 * k + 1, 0.5)]]
    right += [1.0, 1.0, 0.0]
for way in range(len(heard)):
    constraints.append([(first_way + way, first_way + way, 1.0)])
    right.append(1.0)
result = solve_sdp(SDP(W.T @ W, constraints, right))
U, sizes, _ = np.linalg.svd(result.X[0], full_matrices=False)
X = U[:, :2] * sizes[:2]
print(f"misfit {result.primal:.4f}, no path is below {result.dual:.4f}; singular values {np.round(sizes[:4], 4)}")

# %%
# Odometry alone drifts; the distances hold the path in place.
drift_heading, drift = [turn(heading[0])], [np.zeros(2)]
for k in range(steps - 1):
    drift.append(drift[-1] + drift_heading[-1] @ moved[k])
    drift_heading.append(drift_heading[-1] @ turned[k])


def aligned(points):
    """Return points moved and turned (or mirrored) onto the true path."""
    A, B = points[:steps] - points[:steps].mean(axis=0), place - place.mean(axis=0)
    U, _, V = np.linalg.svd(A.T @ B)
    return (points - points[:steps].mean(axis=0)) @ (U @ V) + place.mean(axis=0)


found = aligned(np.r_[np.zeros((1, 2)), X[first_place:first_way]])
figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
axes.plot(*place.T, "o-", color="#999999", label="true path")
axes.plot(*aligned(np.array(drift)).T, ":", color="#D55E00", label="odometry alone")
axes.plot(*found[:steps].T, ".-", color="#0072B2", label="relaxation")
axes.plot(*beacon.T, "^", color="#999999", markersize=9)
axes.plot(*found[steps:].T, "^", color="#0072B2", markersize=5, label="beacons")
axes.set(title="The best path, proven", aspect="equal")
axes.legend()
