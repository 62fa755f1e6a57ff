"""Numbers that a device is still working out: read as late as can be, and all of them together.

Reading a number from a GPU makes the host wait for all work before it, and the GPU then wait for the host. So the sums
over tall tensors come as `Waiting` numbers. The first time one of them is needed on the host, every other that is
waiting is read with it, in one transfer. `delayed` puts off what is computed from them for as long.

NumPy's sums are plain floats, `delayed` then calls at once, and none of this is seen.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

_thread = threading.local()
_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


class _Number(NDArrayOperatorsMixin):
    """What is read when it is needed: arithmetic with it is put off, a comparison or ``float`` is not."""

    __hash__ = object.__hash__

    @property
    def host(self) -> Any:
        """The value: a float, or a small float64 matrix."""
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.host, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc not in _COMPARISONS:
            return Delayed(ufunc, inputs)
        return getattr(ufunc, method)(*(on_host(x) for x in inputs), **kwargs)

    def __float__(self) -> float:
        return float(self.host)

    def __bool__(self) -> bool:
        return bool(self.host)

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> Any:
        return self.host[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.host, name)

    def __format__(self, spec: str) -> str:
        return format(self.host, spec)

    def __repr__(self) -> str:
        return repr(self.host)


class Waiting(_Number):
    """A sum over a tall tensor, or a small matrix of such sums, in float64 on the device.

    Further work on the device takes its ``tensor``, without a read.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self._host: Any = None
        _waiting().append(weakref.ref(self))

    @property
    def host(self) -> Any:
        """The value; the first call reads all that is waiting."""
        if self._host is None:
            _read(self)
        return self._host


class Delayed(_Number):
    """A function of numbers, some of them waiting, called when its value is needed."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function: Any = function
        self._arguments = arguments
        self._host: Any = None

    @property
    def host(self) -> Any:
        if self._function is not None:
            self._host = self._function(*(on_host(x) for x in self._arguments))
            self._function, self._arguments = None, ()
        return self._host


def delayed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``function(*arguments)``; where an argument is waiting, a number that calls it when it is used."""
    for x in arguments:
        if isinstance(x, _Number):
            return Delayed(function, arguments)
    return function(*arguments)


def entries(vector: Any) -> tuple[Any, ...]:
    """Return the entries of a tensor of one dimension as numbers that are read together, when they are needed."""
    read = Waiting(vector)
    return tuple(delayed(lambda v, k=k: float(v[k]), read) for k in range(len(vector)))


def on_host(x: Any) -> Any:
    """Return x, read from the device if it was waiting."""
    return x.host if isinstance(x, _Number) else x


def _waiting() -> list[Any]:
    if not hasattr(_thread, "waiting"):
        _thread.waiting = []
    return _thread.waiting


def _read(wanted: Waiting) -> None:
    import torch

    device, together, later = wanted.tensor.device, [wanted], []
    for reference in _waiting():
        number = reference()
        if number is None or number is wanted or number._host is not None:
            continue
        if number.tensor.device == device:
            together.append(number)
        else:
            later.append(reference)
    _thread.waiting = later
    flat = torch.cat([number.tensor.reshape(-1) for number in together]).cpu().numpy()
    at = 0
    for number in together:
        shape = tuple(number.tensor.shape)
        size = number.tensor.numel()
        number._host = flat[at : at + size].reshape(shape).copy() if shape else float(flat[at])
        at += size
