"""
On several machines
===================

A similarity matrix cut into blocks of rows, as a Dask array, can be spread over the machines of a cluster: each
product M·X is done where the blocks are, and only the small r × r matrices travel. The script starts two workers of
its own on this machine; with a cluster of yours, give `Client` its address and leave the rest as it is. Where Dask is
not installed, it says so and ends.
"""

# %%
import importlib.util

from quartic import Problem, minimize
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.metrics import clustering_accuracy
from quartic.penalties import Nonnegative

HAVE_DASK = all(importlib.util.find_spec(name) is not None for name in ("dask", "distributed"))


def in_blocks(M, rows):
    """Return a sparse matrix as a Dask array of row blocks; on a cluster each worker would read its own."""
    import dask.array as da

    parts = [M[at : at + rows] for at in range(0, M.shape[0], rows)]
    arrays = [da.from_array(part, chunks=part.shape, asarray=False) for part in parts]
    return da.concatenate(arrays, axis=0)


def run(n=4000, k=8, workers=2):
    """Cluster a graph of known communities on local workers."""
    if not HAVE_DASK:
        print("dask is not installed; pip install 'quartic[distributed]' brings it")
        return None
    from dask.distributed import Client, LocalCluster

    M, labels = planted_graph(n, k, random_state=0)
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        problem = Problem(LeastSquares(in_blocks(M, n // (2 * workers))), Nonnegative())
        result = minimize(problem, rank=k, solver="inertial", random_state=0)
    found = result.X.argmax(1)
    print(f"{result.status} after {result.n_products} products over {workers} workers")
    print(f"{clustering_accuracy(labels, found):.1%} of the nodes in the right community")
    return result


done = run()

# %%
if done is not None:
    done.plot()
