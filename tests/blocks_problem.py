"""A small graph to factorise, for the tests of data in blocks."""

from __future__ import annotations

import logging

import numpy as np
import scipy.sparse as sp

from quartic import Problem, minimize
from quartic.penalties import Nonnegative

QUIET = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}


def symmetric_graph(n: int = 400, seed: int = 0) -> sp.csr_array:
    """Four groups, and noise between them."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=min(0.03, 20 / n), rng=rng, format="csr")
    within = sp.random_array((n // 4, n // 4), density=min(0.3, 40 / n), rng=rng, format="csr")
    A = A + sp.block_diag([within] * 4, format="csr")
    return sp.csr_array(A + A.T)


M = symmetric_graph()
X0 = 0.1 * np.random.default_rng(1).random((400, 4))


def run(loss, **options):
    return minimize(Problem(loss, Nonnegative()), X0, **options)
