"""The space of torch tensors on one device, and the few sums over tall tensors that all torch code is made of."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import torch

from quartic.arrays.checks import check_real
from quartic.arrays.space import Space, norm_scale
from quartic.arrays.waiting import Waiting, delayed, on_host

DOUBLE = torch.float64
TYPES: dict[Any, torch.dtype] = {np.float32: torch.float32, np.float64: torch.float64}
# float32 Gram matrices are summed in float32 over so many rows, and those sums in float64
_ROWS = 512
_GIGA = 1e9


@dataclass(frozen=True)
class DeviceSpace(Space):
    """Tensors on one device.

    Random numbers are drawn on the device, from a generator seeded by the one given: the same seed gives the same
    numbers on the same kind of device.
    """

    device: torch.device
    deferred = True
    xp = torch

    def take(self, A: Any, name: str) -> Any:
        if not isinstance(A, torch.Tensor):
            return torch.as_tensor(np.asarray(A)).to(self.device)
        if A.device != self.device:
            raise ValueError(
                f"{name} is on {A.device}, but the data are on {self.device}; "
                f'pass {name}.to("{self.device}"), or move the data'
            )
        return A

    def adopt(self, A: Any) -> Any:
        return torch.as_tensor(A).to(self.device)

    def to_host(self, A: Any) -> Any:
        return A.detach().cpu().numpy() if isinstance(A, torch.Tensor) else on_host(A)

    def read(self, *numbers: Any) -> tuple[Any, ...]:
        return tuple(on_host(x) for x in numbers)

    def later(self, function: Callable[..., Any], *numbers: Any) -> Any:
        return delayed(function, *numbers)

    def zeros(self, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Any:
        return torch.zeros(shape, dtype=TYPES[dtype], device=self.device)

    def normal(self, generator: np.random.Generator, shape: tuple[int, int], dtype: Any = np.float64) -> Any:
        numbers = torch.randn(shape, generator=self._seeded(generator), device=self.device, dtype=DOUBLE)
        return self.astype(numbers, dtype)

    def uniform(self, generator: np.random.Generator, low: float, high: float, shape: tuple[int, int]) -> Any:
        numbers = torch.rand(shape, generator=self._seeded(generator), device=self.device, dtype=DOUBLE)
        return numbers.mul_(high - low).add_(low)

    def _seeded(self, generator: np.random.Generator) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(int(generator.integers(2**63)))

    def errors(self, what: str, needs: float) -> AbstractContextManager[None]:
        return explained(self.device, what, needs)

    def inner(self, A: Any, B: Any) -> Any:
        return Waiting(dot(A, B))

    def largest(self, A: Any) -> float:
        return float(A.abs().max()) if A.numel() else 0.0

    def gram(self, A: Any, B: Any = None) -> Any:
        return Waiting(cross(A, A if B is None else B))

    def total(self, A: Any) -> Any:
        return Waiting(A.sum(dtype=DOUBLE))

    def least(self, A: Any) -> Any:
        return Waiting(A.amin().clamp(max=0).double())

    def is_zero(self, A: Any) -> Any:
        return delayed(lambda some: not some, Waiting(A.any().double()))

    def first_entry(self, wanted: Any) -> tuple[int, ...] | None:
        if not Waiting(wanted.any().double()):
            return None
        at = int(wanted.reshape(-1).byte().argmax())
        return tuple(int(k) for k in np.unravel_index(at, tuple(wanted.shape)))

    def astype(self, A: Any, dtype: type[np.floating[Any]]) -> Any:
        return A.to(TYPES[dtype])

    def float_type(self, A: Any) -> type[np.floating[Any]]:
        return np.float32 if A.element_size() == 4 else np.float64

    def ldexp(self, A: Any, power: int) -> Any:
        """Return 2^power · A, in two halves: two to the whole power may overflow where the result does not."""
        return A * 2.0 ** (power // 2) * 2.0 ** (power - power // 2)

    def copy(self, A: Any) -> Any:
        return A.clone()

    def positive_part(self, A: Any) -> Any:
        return A.clamp(min=0)

    def clip_in_place(self, A: Any, least: float = 0.0) -> None:
        A.clamp_(min=least)

    def falling_order(self, x: Any) -> Any:
        return (-x).argsort(stable=True)

    def times(self, A: Any, S: Any, reuse: bool = False) -> Any:
        return A @ small_for(A, S)

    def shrink(self, W: Any, square: Any, alpha: float, sigma: float) -> None:
        if triton_serves(W, 64):
            from quartic.compiled.rows_triton import shrink

            shrink(W, square.tensor, alpha, sigma)
        else:
            factor: Any = 1 / norm_scale(square.tensor.sqrt(), alpha, sigma)
            W *= factor.to(W.dtype)

    def mix(self, A: Any, factor: float, *terms: tuple[float, Any]) -> None:
        A.mul_(factor)
        for b, B in terms:
            A.add_(B, alpha=b)

    def small(self, S: Any) -> Any:
        return Waiting(S if isinstance(S, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(S)).to(self.device))

    def bare(self, S: Any) -> Any:
        return S.tensor if isinstance(S, Waiting) else S

    def front(self, S: Any, alpha: float, sigma: float) -> Any:
        return alpha * self.bare(S).trace() + sigma

    def regular_inverse(self, S: Any, shift: float) -> Any:
        S = self.bare(S)
        A, more = S.clone(), shift / len(S) * S.trace()
        A.diagonal().add_(torch.where(more > 0, more, 1.0))
        return torch.linalg.inv_ex(A)[0]  # does not wait to see whether it is singular

    def quotient(self, a: Any, b: Any) -> Any:
        if isinstance(a, Waiting) and isinstance(b, Waiting):
            return a.tensor / b.tensor
        return float(a) / float(b)

    def quotient_of_norms(self, A: Any, B: Any) -> Any:
        return (dot(A, A) / dot(B, B)).sqrt()

    def sweep_rows(self, X: Any, G: Any, C: Any) -> None:
        """Sweep over the entries: by rows on a GPU, elsewhere column by column, all rows at once."""
        weights = small_for(X, G)
        if triton_serves(X, 64):
            from quartic.compiled.rows_triton import sweep

            return sweep(X, weights, C)
        G = self.to_host(weights)
        T = C - X @ weights  # the residual t = c − Gx of every row
        for k in range(X.shape[1]):
            if G[k, k] > 0:
                change = (X[:, k] + T[:, k] / float(G[k, k])).clamp_(min=0).sub_(X[:, k])
                X[:, k] += change
                T.addr_(change, weights[k], alpha=-1.0)

    @property
    def lbfgs(self) -> ModuleType:
        from quartic.compiled import lbfgs_torch

        return lbfgs_torch


# -- sums -------------------------------------------------------------------------------------------------------------


def dot(A: Any, B: Any) -> torch.Tensor:
    """Return ⟨A, B⟩ as a tensor."""
    if A.dtype == B.dtype == DOUBLE:
        return torch.dot(A.reshape(-1), B.reshape(-1))
    return (A * B).sum(dtype=DOUBLE)


def cross(A: Any, B: Any) -> torch.Tensor:
    """Return AᵀB as a tensor."""
    if A.dtype == B.dtype == DOUBLE:
        return A.T @ B
    if A.dtype != B.dtype or torch.backends.cuda.matmul.allow_tf32:  # tf32 keeps ten bits only
        return A.to(DOUBLE).T @ B.to(DOUBLE)
    n, whole = len(A), len(A) // _ROWS * _ROWS
    if not whole:
        return A.to(DOUBLE).T @ B.to(DOUBLE)
    blocks = A[:whole].view(-1, _ROWS, A.shape[1]).transpose(1, 2) @ B[:whole].view(-1, _ROWS, B.shape[1])
    total = blocks.sum(dim=0, dtype=DOUBLE)
    return total if whole == n else total + A[whole:].T @ B[whole:]


def small_for(X: Any, S: Any) -> Any:
    """Return a small matrix on the device and in the type of the tensor X; it is sent without waiting."""
    if isinstance(S, Waiting):
        S = S.tensor
    if not isinstance(S, torch.Tensor):
        S = torch.from_numpy(np.ascontiguousarray(on_host(S), dtype=np.float64))
    return S.to(device=X.device, dtype=X.dtype, non_blocking=True)


def triton_serves(X: Any, widest: int) -> bool:
    """Tell whether Triton's kernels, made for ranks up to ``widest``, serve a tensor: on CUDA where it is installed.

    The environment variable ``QUARTIC_TRITON=0`` turns them off; ``TRITON_INTERPRET=1`` runs them without a GPU.
    """
    if X.shape[1] > widest or os.environ.get("QUARTIC_TRITON") == "0":
        return False
    return (X.is_cuda or os.environ.get("TRITON_INTERPRET") == "1") and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


# -- what a user gave -------------------------------------------------------------------------------------------------


def as_floats(A: Any) -> Any:
    """Return A as a C-ordered tensor of float32 or float64, itself where it is one."""
    if A.layout != torch.strided:
        raise TypeError(f"a dense tensor is needed here, got one of layout {A.layout}; pass A.to_dense()")
    return A.detach().to(dtype_for(A)).contiguous()


def finite_matrix(A: Any, name: str) -> Any:
    """Return A as a C-ordered finite 2-D tensor of float32 or float64, on its device."""
    check_real(A, name)
    if A.ndim != 2:
        raise ValueError(
            f"{name} must be a 2-D tensor, got {A.ndim} dimension{'s' * (A.ndim != 1)}, shape {tuple(A.shape)}"
        )
    clean = as_floats(A)
    # the extremes of what holds a NaN are NaN
    if clean.numel() and not all(math.isfinite(x) for x in torch.stack(clean.aminmax()).tolist()):
        row, column = (int(k) for k in (~torch.isfinite(clean)).nonzero()[0])
        raise ValueError(f"{name} must be finite, but {name}[{row}, {column}] is {float(clean[row, column])}")
    return clean


def dtype_for(A: Any) -> torch.dtype:
    """Return the type we compute in: float32 stays, everything else becomes float64."""
    return torch.float32 if A.dtype == torch.float32 else torch.float64


# -- errors of the device ---------------------------------------------------------------------------------------------


@contextmanager
def explained(device: torch.device, what: str, needs: float) -> Iterator[None]:
    """Turn torch's errors of memory and of the device into ones that say what was under way, and the bytes it needs."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(
            f"out of memory on {device}: {what} takes about {needs / _GIGA:.2g} GB{_room(device)}; try float32 data, a "
            "smaller rank, solver='inertial' (which keeps the fewest arrays), free other tensors and call "
            "torch.cuda.empty_cache(), or leave device out to compute on the host"
        ) from error
    except RuntimeError as error:
        words = str(error)  # not empty where it names the device
        if not any(name in words.upper() for name in ("CUDA ERROR", "CUDA DRIVER", "CUSPARSE", "CUBLAS")):
            raise
        raise RuntimeError(
            f"{device} failed while working on {what}: {words.strip().splitlines()[0][:200]}; what was computed there "
            "is lost and this process can use the device no more: start it again, with CUDA_LAUNCH_BLOCKING=1 to see "
            "where it fails, or with QUARTIC_TRITON=0 to do without our own kernels"
        ) from error


def _room(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    try:
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError:
        return ""
    return f", and {free / _GIGA:.2g} of its {total / _GIGA:.3g} GB are free"
