"""Clustering a similarity matrix by others, each through its own public interface."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.bench.peers_edmc import CannotDo, Enough
from quartic.bench.symnmf import Case
from quartic.bench.watch import Watch
from quartic.init import random_start


@dataclass(frozen=True)
class Answer:
    """What a peer returns: labels, and X with M ≈ XXᵀ, X ≥ 0, where it has one."""

    labels: Any
    X: Array | None = None


Peer = Callable[[Case, int, float, Watch, float], Answer]


def quartic_symnmf(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run `quartic.SymNMF` with its defaults."""
    from quartic import SymNMF

    model = SymNMF(case.cell.rank, tol=tol, random_state=seed).fit(case.matrix)
    return Answer(model.labels_, model.embedding_)


def sklearn_nmf(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run scikit-learn's NMF on M; it gives M ≈ WH, whose halves are brought to one scale and averaged for X."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    model = NMF(case.cell.rank, init="nndsvda", max_iter=1000, random_state=seed)
    with _quiet(ConvergenceWarning):
        W = model.fit_transform(case.matrix)
    H = model.components_.T
    with watch.paused():
        w, h = np.linalg.norm(W, axis=0), np.linalg.norm(H, axis=0)
        scale = np.sqrt(np.divide(h, w, out=np.ones_like(w), where=(w > 0) & (h > 0)))
        X = 0.5 * (W * scale + H / scale)
    return Answer(W.argmax(axis=1), X)


def spectral_clustering(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run scikit-learn's SpectralClustering on M."""
    from sklearn.cluster import SpectralClustering

    with _quiet(UserWarning):  # it warns where the graph is not connected
        model = SpectralClustering(case.cell.rank, affinity="precomputed", random_state=seed).fit(case.matrix)
    return Answer(model.labels_)


def scipy_lbfgsb(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run SciPy's L-BFGS-B with X ≥ 0 on the same objective and gradient, from the paper's start."""
    from scipy.optimize import minimize

    problem = case.problem()
    X0 = random_start(problem, case.cell.rank, np.random.default_rng(seed))
    goal = tol * problem.stationarity(problem.loss.at(X0))
    last: dict[str, Any] = {"X": X0, "seen": problem.loss.at(X0)}

    def function(x: Array) -> tuple[float, Array]:
        last["seen"] = p = problem.loss.at(x.reshape(X0.shape))
        return p.value, p.gradient.ravel()

    def callback(x: Array) -> None:
        last["X"] = x.reshape(X0.shape).copy()
        # The last evaluation of a line search is at the point it takes; the answer is measured afterwards in any case.
        if problem.stationarity(last["seen"]) <= goal or watch.seconds() > limit:
            raise Enough

    options = {"maxiter": 10**6, "maxfun": 10**6, "ftol": 0.0, "gtol": 0.0}
    with contextlib.suppress(Enough):
        bounds = [(0, None)] * X0.size
        minimize(function, X0.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, callback=callback, options=options)
    X: Array = last["X"]
    return Answer(X.argmax(axis=1), X)


def pymanopt_nonnegative(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Say why pymanopt is not in the running."""
    raise CannotDo("pymanopt has no constraint X ≥ 0")


def networkx_modularity(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run NetworkX's greedy modularity clustering with the number of clusters given."""
    import networkx as nx

    if case.matrix.nnz > 60_000:
        raise CannotDo("greedy modularity takes minutes on a graph of this size")
    graph = nx.from_scipy_sparse_array(case.matrix)
    try:
        found = nx.community.greedy_modularity_communities(
            graph, weight="weight", cutoff=case.cell.rank, best_n=case.cell.rank
        )
    except (ValueError, StopIteration) as error:
        raise CannotDo(f"greedy modularity: {error}") from None
    return Answer(_labels(found, case.matrix.shape[0]))


def networkx_louvain(case: Case, seed: int, tol: float, watch: Watch, limit: float) -> Answer:
    """Run NetworkX's Louvain clustering, which chooses the number of clusters itself."""
    import networkx as nx

    found = nx.community.louvain_communities(nx.from_scipy_sparse_array(case.matrix), weight="weight", seed=seed)
    return Answer(_labels(found, case.matrix.shape[0]))


def _labels(communities: Any, n: int) -> Any:
    labels = np.empty(n, dtype=np.int64)
    for at, members in enumerate(communities):
        labels[list(members)] = at
    return labels


@contextlib.contextmanager
def _quiet(kind: type[Warning]) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield


PEERS: dict[str, Peer] = {
    "quartic.SymNMF": quartic_symnmf,
    "scikit-learn NMF on M": sklearn_nmf,
    "scikit-learn SpectralClustering": spectral_clustering,
    "scipy L-BFGS-B, X ≥ 0": scipy_lbfgsb,
    "pymanopt": pymanopt_nonnegative,
    "networkx greedy modularity": networkx_modularity,
    "networkx Louvain": networkx_louvain,
}
