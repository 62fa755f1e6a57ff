"""
On several machines
===================

A similarity matrix in blocks of rows, as a Dask array, can be distributed over a cluster: each product M·X is computed
where the blocks are; X is sent out, and the rows of the product come back. The script starts two local workers; to use
your own cluster, give `Client` its address. If Dask is not installed, the script says so and ends. :doc:`/dask` says
when this pays off.
"""

# %%
import importlib.util

from quartic import SymNMF
from quartic.datasets import planted_graph
from quartic.distributed import in_blocks
from quartic.metrics import clustering_accuracy

HAVE_DASK = all(importlib.util.find_spec(name) is not None for name in ("dask", "distributed"))


def run(n=4000, k=8, workers=2):
    """Cluster a graph of known communities on local workers."""
    if not HAVE_DASK:
        print("dask is not installed; pip install 'quartic[distributed]' brings it")
        return None
    from distributed import Client, LocalCluster

    M, labels = planted_graph(n, k, random_state=0)
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        # each worker would read its own blocks: a Dask array of theirs, or quartic.io.read_blocks of a folder
        model = SymNMF(k, random_state=0).fit(in_blocks(M, 2 * workers))
    print(f"{model.result_.status} after {model.result_.n_products} products over {workers} workers")
    print(f"{clustering_accuracy(labels, model.labels_):.1%} of the nodes in the right community")
    return model.result_


done = run()

# %%
if done is not None:
    done.plot()
