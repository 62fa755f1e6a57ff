"""Zachary's karate club, small enough to carry."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from quartic.datasets.graphs import Graph

LATER_FRIENDS = {  # of each member, those with a higher number
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
WITH_THE_INSTRUCTOR = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21)


def karate() -> Graph:
    """Return Zachary's karate club: 34 members, 78 friendships, and the two clubs it split into.

    W. W. Zachary, An information flow model for conflict and fission in small groups, 1977. Label 0 went with the
    instructor (member 0), label 1 with the officers (member 33).

    Examples
    --------
    >>> from quartic.datasets import karate
    >>> club = karate()
    >>> club.adjacency.nnz // 2, club.labels.sum().item()
    (78, 17)
    """
    edges = np.array([(i, j) for i, friends in LATER_FRIENDS.items() for j in friends])
    ends = np.concatenate([edges, edges[:, ::-1]])
    adjacency = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(34, 34))
    adjacency.sort_indices()
    labels = np.ones(34, dtype=np.int64)
    labels[list(WITH_THE_INSTRUCTOR)] = 0
    return Graph("karate", adjacency, labels)
