"""Where the arrays of a loss live: on a torch device."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from quartic.arrays.torch_errors import explained
from quartic.arrays.torch_input import TYPES


@dataclass(frozen=True)
class DeviceSpace:
    """Tensors on one device.

    Random numbers are drawn on the device, from a generator seeded by the one given: the same seed gives the same
    numbers on the same kind of device.
    """

    #: whether sums come later than they are asked for, so that they are best begun before they are needed
    deferred: ClassVar[bool] = True

    device: torch.device

    def take(self, A: Any, name: str) -> Any:
        """Return what the user gave as a tensor on this device; NumPy arrays are moved, tensors must be here."""
        if not isinstance(A, torch.Tensor):
            return torch.as_tensor(np.asarray(A)).to(self.device)
        if A.device != self.device:
            raise ValueError(
                f"{name} is on {A.device}, but the data are on {self.device}; "
                f'pass {name}.to("{self.device}"), or move the data'
            )
        return A

    def adopt(self, A: Any) -> Any:
        """Return an array read from a checkpoint, its type kept, as a tensor on this device."""
        return torch.as_tensor(A).to(self.device)

    def normal(self, generator: np.random.Generator, shape: tuple[int, int]) -> Any:
        """Return standard normal numbers, in float64."""
        return torch.randn(shape, generator=self._seeded(generator), device=self.device, dtype=torch.float64)

    def uniform(self, generator: np.random.Generator, low: float, high: float, shape: tuple[int, int]) -> Any:
        """Return numbers spread evenly between two, in float64."""
        numbers = torch.rand(shape, generator=self._seeded(generator), device=self.device, dtype=torch.float64)
        return numbers.mul_(high - low).add_(low)

    def errors(self, what: str, needs: float) -> AbstractContextManager[None]:
        """Return a context in which errors of the device are told with the sizes at hand."""
        return explained(self.device, what, needs)

    def zeros(self, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Any:
        """Return zeros."""
        return torch.zeros(shape, dtype=TYPES[dtype], device=self.device)

    def _seeded(self, generator: np.random.Generator) -> torch.Generator:
        return torch.Generator(self.device).manual_seed(int(generator.integers(2**63)))
