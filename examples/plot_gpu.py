"""
On a GPU
========

Torch tensors go in, torch tensors come out, on the device they were on; NumPy and SciPy data are moved there and back
by ``device="cuda"``. The same code runs on torch's CPU build, which is what happens here where there is no GPU; where
torch is not installed, the script says so and ends.
"""

# %%
import importlib.util
import warnings

from quartic import Problem, SymNMF, minimize
from quartic.datasets import planted_graph
from quartic.losses import LeastSquares
from quartic.metrics import clustering_accuracy
from quartic.penalties import Nonnegative

HAVE_TORCH = importlib.util.find_spec("torch") is not None


def best_device():
    """Return cuda where there is one, else cpu."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def with_the_estimator(M, labels, k, device):
    """Cluster a SciPy graph on the device; the answer comes back as NumPy arrays."""
    model = SymNMF(k, device=device, random_state=0).fit(M)
    print(f"on {device}: {clustering_accuracy(labels, model.labels_):.1%} of the nodes in the right community")
    return model


def with_tensors(M, k, device):
    """Solve the same problem for a sparse torch tensor: X is a tensor on the same device."""
    import torch

    M = M.tocsr()
    parts = (torch.as_tensor(part) for part in (M.indptr, M.indices, M.data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR tensors a beta
        tensor = torch.sparse_csr_tensor(*parts, M.shape, device=device)
    result = minimize(Problem(LeastSquares(tensor), Nonnegative()), rank=k, solver="inertial", random_state=0)
    print(f"{type(result.X).__name__} on {result.X.device}, objective {result.objective:.4f}, {result.status}")
    return result


def run(n=20_000, k=16):
    """Both ways, on a graph with hidden communities."""
    if not HAVE_TORCH:
        print("torch is not installed; pip install 'quartic[gpu]' brings it")
        return None
    device = best_device()
    M, labels = planted_graph(n, k, random_state=0)
    return with_the_estimator(M, labels, k, device), with_tensors(M, k, device)


done = run()

# %%
# What a run leaves behind is on the host, and can be drawn.
if done is not None:
    done[0].result_.plot()
