"""A graph of several large components, of which most methods cut the long ones."""

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph


def strips(seed):
    """Return the graph of neighbours of six strips far apart, of unequal sizes, and the strip of each point."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(60, 500, 6)
    X = [np.c_[rng.random(m) * rng.uniform(1, 6), 1.5 * i + rng.normal(0, 0.1, m)] for i, m in enumerate(sizes)]
    K = kneighbors_graph(np.concatenate(X), 8)
    return sp.csr_array(K.maximum(K.T)), np.repeat(range(6), sizes)
