"""The ``device`` of an estimator: where it computes."""

from __future__ import annotations

from typing import Any

from quartic.arrays import HOST, Space, is_torch, space_of


def device_for(device: str | None, X: Any = None) -> Any:
    """Return the torch device to compute on, None for NumPy; a tensor given is computed on where it is."""
    if is_torch(X):
        import torch

        if device is not None and torch.device(device).type != X.device.type:
            raise ValueError(
                f"device = {device!r}, but X is a tensor on {X.device}; leave device out, or pass X.to({device!r})"
            )
        return X.device
    if device is None or device == "cpu":
        return None
    try:
        import torch
    except ImportError as error:
        raise ImportError(f'device = {device!r} needs torch; install it with pip install "quartic[gpu]"') from error
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f'device = {device!r} is no device of torch; use None, "cpu" or "cuda"') from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device = {device!r}, but torch {torch.__version__} sees no CUDA device here; leave device out, "
            "or install a build of torch for CUDA and look at nvidia-smi"
        )
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device = {device!r}, but there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    return found


def moved(M: Any, device: Any) -> Any:
    """Return a NumPy or SciPy matrix as a tensor on the device, sparse ones as CSR."""
    import numpy as np
    import scipy.sparse as sp
    import torch

    from quartic.losses.factor.torch_matrix import csr

    if is_torch(M):
        return M
    if not sp.issparse(M):
        return torch.from_numpy(np.ascontiguousarray(M)).to(device)
    A = sp.csr_array(M)
    A.sum_duplicates()
    start, columns, values = (torch.from_numpy(part).to(device) for part in (A.indptr, A.indices, A.data))
    return csr(start, columns, values, A.shape[1])


def brought_here(**given: Any) -> tuple[Space, list[Any]]:
    """Return where the tensors among the arguments are, and all arguments as NumPy or SciPy arrays (or None).

    For data whose checks and order are worked out on the host before they go back to their device.
    """
    tensors = {name: A for name, A in given.items() if is_torch(A)}
    if not tensors:
        return HOST, list(given.values())
    first = next(iter(tensors))
    space = space_of(tensors[first])
    for name, A in tensors.items():
        space.take(A, name)  # raises where it is on another device
    return space, [to_scipy(A) for A in given.values()]


def refuse_tensors(loss: str, **given: Any) -> None:
    """Raise where an argument of a loss that works on the host alone is a tensor."""
    for name, A in given.items():
        if is_torch(A):
            raise TypeError(f"{loss} works on the CPU, but {name} is a torch tensor; pass {name}.cpu().numpy()")


def to_scipy(M: Any) -> Any:
    """Return a tensor as a NumPy array, a sparse one as a csr_array, and all else as it is."""
    if not is_torch(M):
        return M
    import scipy.sparse as sp
    import torch

    M = M.detach()
    if M.layout == torch.strided:
        return M.cpu().numpy()
    M = M if M.layout == torch.sparse_csr else M.to_sparse_csr()
    parts = [part.cpu().numpy() for part in (M.values(), M.col_indices(), M.crow_indices())]
    return sp.csr_array(tuple(parts), shape=tuple(M.shape))
