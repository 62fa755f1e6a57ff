"""Run the same fits in threads, forked and spawned processes, and workers; tell which answers differ, as JSON.

Called as ``python processes.py WAY...`` with ways among threads, fork, spawn, loky, dask.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from multiprocessing import get_context

import numpy as np
import scipy.sparse as sp

from quartic import DistanceCompletion, Problem, SymNMF, minimize
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative

FITS = ["inertial", "lbfgs", "hals", "cd", "lm", "dyn-nolips", "SymNMF", "DistanceCompletion"]


def fit(name):
    """Return the bits of an answer."""
    rng = np.random.default_rng(3)
    A = rng.random((60, 60))
    A = sp.csr_array((A + A.T) * (A + A.T > 1.3))
    X = rng.standard_normal((60, 3))
    pairs = np.array(np.triu_indices(60, 1)).T[::2]
    lengths = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    if name == "SymNMF":
        found = SymNMF(3, random_state=0).fit(A).embedding_
    elif name == "DistanceCompletion":
        found = DistanceCompletion(3, random_state=0).fit_pairs(pairs, lengths).embedding_
    else:
        graph = name not in ("lm", "dyn-nolips")
        problem = Problem(LeastSquares(A), Nonnegative()) if graph else Problem(Distances(pairs, lengths**2, 60))
        found = minimize(problem, rank=3, solver=name, tol=1e-6, max_iter=300, random_state=0).X
    return sha256(np.ascontiguousarray(found).tobytes()).hexdigest()


def in_threads(names):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(fit, names))


def in_processes(method, names):
    with get_context(method).Pool(2) as pool:
        return pool.map(fit, names)


def in_loky(names):
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2, backend="loky")(delayed(fit)(name) for name in names)


def in_dask(names):
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        return client.gather(client.map(fit, names))


WAYS = {
    "threads": in_threads,
    "fork": lambda names: in_processes("fork", names),
    "spawn": lambda names: in_processes("spawn", names),
    "loky": in_loky,
    "dask": in_dask,
}


def main(ways):
    expected = [fit(name) for name in FITS]
    told = {"again": [fit(name) for name in FITS] == expected}
    for way in ways:
        found = WAYS[way](FITS)
        told[way] = [name for name, one, two in zip(FITS, found, expected, strict=True) if one != two]
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
