"""The map of a clustered graph: places in the plane, near for nodes that are strongly linked."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from quartic.arrays import Array, RandomState, random_generator

_STEPS = 100


def place_nodes(block: sp.csr_array, memberships: Array, random_state: RandomState = 0) -> Array:
    """Return a place in the plane for each node.

    A node is drawn to the mean of its neighbours, weighted by similarity, and repelled by all nodes as 1/distance. The
    start, clusters on a circle with those strongly linked side by side, only decides what lies where.
    """
    n, k = memberships.shape
    links = sp.csr_array(block, dtype=np.float64)
    links.setdiag(0.0)
    links.data = np.maximum(links.data, 0.0)
    degree = np.asarray(links.sum(axis=1)).ravel()
    mean = sp.csr_array(sp.diags_array(1 / np.where(degree > 0, degree, 1.0)) @ links, dtype=np.float32)
    between = memberships.T @ (links @ memberships)
    share = between / np.sqrt(np.outer(between.sum(0), between.sum(0)) + 1e-300)
    turn = np.empty(k)
    turn[np.argsort(np.linalg.eigh(share)[1][:, -min(k, 2)], kind="stable")] = 2 * np.pi * np.arange(k) / k
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    noise = random_generator(random_state).normal(0.0, 0.3, (n, 2))
    x = (2.0 * memberships @ circle + noise).astype(np.float32)
    for step in range(_STEPS):
        squares = np.einsum("ij,ij->i", x, x)
        near = 1 / np.maximum(squares[:, None] + squares - 2 * x @ x.T, np.float32(0.01))
        force = mean @ x - x + (x * near.sum(axis=1, keepdims=True) - near @ x) / n
        longest = np.maximum(np.linalg.norm(force, axis=1, keepdims=True), 1.0)
        x += np.float32(0.9 * (1 - step / _STEPS)) * force / longest
    centred: Array = x - x.mean(axis=0)
    return centred
