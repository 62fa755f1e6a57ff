"""Checks of torch tensors, on their own device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from quartic.arrays.waiting import count_read

TYPES: dict[Any, torch.dtype] = {np.float32: torch.float32, np.float64: torch.float64}


def as_floats(A: Any) -> Any:
    """Return A as a C-ordered tensor of float32 or float64, itself where it is one."""
    if A.layout != torch.strided:
        raise TypeError(f"a dense tensor is needed here, got one of layout {A.layout}; pass A.to_dense()")
    return A.detach().to(dtype_for(A)).contiguous()


def finite_matrix(A: Any, name: str) -> Any:
    """Return A as a C-ordered finite 2-D tensor of float32 or float64, on its device."""
    if A.is_complex() or A.dtype == torch.bool or A.is_quantized:
        raise TypeError(f"{name} must be real numbers, got dtype {A.dtype}")
    if A.ndim != 2:
        raise ValueError(
            f"{name} must be a 2-D tensor, got {A.ndim} dimension{'s' * (A.ndim != 1)}, shape {tuple(A.shape)}"
        )
    clean = as_floats(A)
    bad = ~torch.isfinite(clean)
    count_read()
    if bool(bad.any()):
        row, column = (int(k) for k in bad.nonzero()[0])
        raise ValueError(f"{name} must be finite, but {name}[{row}, {column}] is {float(clean[row, column])}")
    return clean


def dtype_for(A: Any) -> torch.dtype:
    """Return the type we compute in: float32 stays, everything else becomes float64."""
    return torch.float32 if A.dtype == torch.float32 else torch.float64
