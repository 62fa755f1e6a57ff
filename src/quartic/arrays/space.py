"""Where the arrays of a loss live: in the host's memory, as NumPy arrays. `quartic.arrays.torch_space` is its twin."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from quartic.arrays.checks import Array, is_torch


class HostSpace:
    """NumPy arrays."""

    #: whether sums come later than they are asked for, so that they are best begun before they are needed
    deferred = False

    def take(self, A: Any, name: str) -> Any:
        """Return what the user gave as an array that lives here, or raise an error that says why it cannot."""
        if is_torch(A):
            raise TypeError(
                f"{name} is a torch tensor on {A.device}, but the data are NumPy or SciPy arrays; "
                f"give both as tensors, or pass {name}.cpu().numpy()"
            )
        return A

    def adopt(self, A: Any) -> Any:
        """Return an array read from a checkpoint, its type kept, as one that lives here."""
        return A

    def normal(self, generator: np.random.Generator, shape: tuple[int, int]) -> Array:
        """Return standard normal numbers."""
        return generator.standard_normal(shape)

    def uniform(self, generator: np.random.Generator, low: float, high: float, shape: tuple[int, int]) -> Array:
        """Return numbers spread evenly between two."""
        return generator.uniform(low, high, size=shape)

    def errors(self, what: str, needs: float) -> AbstractContextManager[None]:
        """Return a context in which errors of the device are told with the sizes at hand: here there are none."""
        return nullcontext()

    def zeros(self, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Array:
        """Return zeros."""
        return np.zeros(shape, dtype)


def space_of(A: Any) -> Any:
    """Return the space in which arrays like A live."""
    if is_torch(A):
        from quartic.arrays.torch_space import DeviceSpace

        return DeviceSpace(A.device)
    return HostSpace()
