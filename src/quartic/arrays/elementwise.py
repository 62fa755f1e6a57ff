"""What NumPy and torch spell differently, for tall arrays, and for the small matrices and numbers that go with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quartic.arrays.checks import Array, is_torch, working_dtype
from quartic.arrays.waiting import Waiting, delayed, on_host, wait_for


def float_type(X: Any) -> type[np.floating[Any]]:
    """Return np.float32 or np.float64, the type of X's entries."""
    if is_torch(X):
        return np.float32 if X.element_size() == 4 else np.float64
    return working_dtype(X.dtype)


def eps(X: Any) -> float:
    """Return the relative round-off of X's type."""
    return _EPS[float_type(X)]


_EPS = {kind: float(np.finfo(kind).eps) for kind in (np.float32, np.float64)}


def astype(X: Any, dtype: type[np.floating[Any]]) -> Array:
    """Return X in another type; X itself where it has that already."""
    if is_torch(X):
        from quartic.arrays.torch_input import TYPES

        return X.to(TYPES[dtype])
    return X.astype(dtype, copy=False)


def copy(X: Any) -> Array:
    """Return a copy."""
    return X.clone() if is_torch(X) else X.copy()


def to_host(X: Any) -> Any:
    """Return a NumPy array, or a float, for what may live on a device."""
    if is_torch(X):
        from quartic.arrays.waiting import count_read

        count_read()
        return X.detach().cpu().numpy()
    return on_host(X)


def positive_part(V: Any) -> Array:
    """Return max(V, 0), entry by entry."""
    return V.clamp(min=0) if is_torch(V) else np.maximum(V, 0)


def clip_in_place(X: Any) -> None:
    """Set X to max(X, 0)."""
    if is_torch(X):
        X.clamp_(min=0)
    else:
        np.maximum(X, 0, out=X)


def shrink(W: Any, square: Any, alpha: float, sigma: float, scale: Callable[[Any, float, float], Any]) -> None:
    """Divide W by ``scale(‖W‖, alpha, sigma)``, given ‖W‖²; on a device without a read."""
    if not is_torch(W):
        W *= 1 / scale(length(W, square), alpha, sigma)
        return
    from quartic.compiled.torch_kernels import kernels_for

    kernels = kernels_for("triton_factor", W)
    if kernels is not None:
        kernels.shrink(W, square.tensor, alpha, sigma)
    else:
        W *= (1 / scale(length(W, square), alpha, sigma)).to(W.dtype)


def least(X: Any) -> float:
    """Return the least entry, or 0 if that is positive; NaN where there is one."""
    if is_torch(X):
        return wait_for(X.amin().clamp(max=0).double())
    return float(X.min(initial=0.0))


def total(X: Any) -> float:
    """Return the sum of all entries, in float64."""
    if is_torch(X):
        from quartic.arrays.torch_tall import DOUBLE

        return wait_for(X.sum(dtype=DOUBLE))
    return float(X.sum(dtype=np.float64))


def is_zero(X: Any) -> bool:
    """Tell whether all entries are zero."""
    if is_torch(X):
        return delayed(lambda some: not some, Waiting(X.any().double()))
    return not X.any()


def equal(X: Any, Y: Any) -> bool:
    """Tell whether all entries are the same."""
    if is_torch(X):
        return bool(wait_for((X == Y).all().double()))
    return bool((X == Y).all())


def first_entry(wanted: Any) -> tuple[int, ...] | None:
    """Return the indices of the first true entry, None where there is none."""
    if is_torch(wanted):
        if not wait_for(wanted.any().double()):
            return None
        at = int(wanted.reshape(-1).byte().argmax())
        return tuple(int(k) for k in np.unravel_index(at, tuple(wanted.shape)))
    if not wanted.any():
        return None
    return tuple(int(k) for k in np.argwhere(wanted)[0])


def falling_order(x: Any) -> Any:
    """Return the order that sorts a vector, largest first, equals as they come."""
    if is_torch(x):
        return (-x).argsort(stable=True)
    return np.argsort(-x, kind="stable")


def times(X: Any, A: Any) -> Array:
    """Return X A for a small matrix A, in X's type."""
    if is_torch(X):
        return X @ small_for(X, A)
    Y: Any = X @ on_host(A).astype(X.dtype, copy=False)
    return Y


def small_for(X: Any, A: Any) -> Any:
    """Return a small matrix on the device and in the type of the tensor X; it is sent without waiting."""
    import torch

    if isinstance(A, Waiting):
        A = A.tensor
    if not isinstance(A, torch.Tensor):
        A = torch.from_numpy(np.ascontiguousarray(on_host(A), dtype=np.float64))
    return A.to(device=X.device, dtype=X.dtype, non_blocking=True)


def small_like(X: Any, A: Any) -> Array:
    """Return a small float64 matrix as `gram` of X would: on X's device, where it has one."""
    if is_torch(X):
        import torch

        return wait_for(torch.from_numpy(np.ascontiguousarray(A)).to(X.device))
    return A


def bare(S: Any) -> Any:
    """Return a small matrix as the array it is, on the device a tensor, for arithmetic there without a read."""
    return S.tensor if isinstance(S, Waiting) else S


def shifted(S: Any, a: Any, b: Any) -> Array:
    """Return aI + bS for a small matrix S, on the device where S is; a may be a number there too."""
    if isinstance(S, Waiting):
        A = b * S.tensor
        A.diagonal().add_(a)
        return A
    A = b * S
    A.reshape(-1)[:: len(A) + 1] += float(a)
    return A


def front_of(S: Any, alpha: float, sigma: float) -> float:
    """Return α·tr(S) + σ; on the device where S is, as a tensor without dimensions."""
    if isinstance(S, Waiting):
        return alpha * S.tensor.trace() + sigma
    return alpha * float(S.trace()) + sigma


def regular_inverse(S: Any, shift: float) -> Array:
    """Return (S + shift·tr(S)/r·I)⁻¹ of a small matrix, on the device where S is."""
    if isinstance(S, Waiting):
        import torch

        A = S.tensor.clone()
        A.diagonal().add_(shift / len(A) * S.tensor.trace())
        return torch.linalg.inv_ex(A)[0]  # does not wait to see whether it is singular
    rank = len(S)
    return np.linalg.inv(S + shift * np.trace(S) / rank * np.eye(rank))


def quotient(a: Any, b: Any) -> float:
    """Return a / b, on the device where they are: for use as a factor of tall arrays."""
    if isinstance(a, Waiting) and isinstance(b, Waiting):
        return a.tensor / b.tensor
    return float(a) / float(b)


def quotient_of_norms(X: Any, Y: Any) -> float:
    """Return ‖X‖ / ‖Y‖, on the device where they are: for use as a factor of tall arrays."""
    from quartic.arrays.tall import norm, squared_norm

    if is_torch(X):
        ratio: Any = quotient(squared_norm(X), squared_norm(Y))
        return ratio.sqrt()
    return norm(X) / norm(Y)


def length(W: Any, square: Any) -> float:
    """Return ‖W‖ from ‖W‖², on the device where W is: a float, or a tensor without dimensions."""
    if isinstance(square, Waiting):
        return square.tensor.sqrt()
    from quartic.arrays.tall import root

    return root(square, lambda: W)
