"""
On a GPU
========

With ``device="cuda"`` an estimator moves NumPy and SciPy data to the GPU, computes there, and returns NumPy arrays.
Torch tensors stay on their device, and so does the answer. The same code runs on torch's CPU build, and without torch
on NumPy: this page shows whichever was at hand when it was built. :doc:`/gpu` has timings.
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
    """Return cuda where there is one, else cpu; None, which means NumPy, without torch."""
    if not HAVE_TORCH:
        return None
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def with_the_estimator(M, labels, k, device):
    """Cluster a SciPy graph on the device; the answer comes back as NumPy arrays."""
    model = SymNMF(k, device=device, random_state=0).fit(M)
    share = clustering_accuracy(labels, model.labels_)
    print(f"on {device or 'the CPU, by NumPy'}: {share:.1%} of the nodes in the right community")
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
    """Both ways, on a graph with known communities."""
    device = best_device()
    M, labels = planted_graph(n, k, random_state=0)
    model = with_the_estimator(M, labels, k, device)
    if not HAVE_TORCH:
        print("torch is not installed, so there are no tensors here: pip install 'quartic[gpu]'")
        return model, None
    return model, with_tensors(M, k, device)


model, of_tensors = run()

# %%
# The history of the run is on the host, wherever it was made.
model.result_.plot()
