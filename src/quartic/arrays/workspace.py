"""Arrays used again: memory fresh from the system costs more than the pass that fills it."""

from __future__ import annotations

import sys

import numpy as np

from quartic.arrays.checks import Array, is_torch
from quartic.arrays.generic import namespace

# Arrays below this size come from the allocator's own cache; above it each would be mapped, zeroed and unmapped anew.
_WORTH_KEEPING = 1 << 16


class Fresh:
    """Hands out new arrays."""

    def like(self, X: Array) -> Array:
        """Return an uninitialised C-ordered array with the shape and type of X; a tensor where X is one."""
        if is_torch(X):  # torch keeps freed memory itself
            new: Array = namespace(X).empty_like(X)
            return new
        return np.empty(X.shape, X.dtype)


class Workspace(Fresh):
    """For one run, in one thread: hands out arrays, and takes back those that nobody refers to any more.

    Python counts references: an array that only this list knows is free. A point that is still held, by a state, by
    the caller, by a view, keeps its arrays. Never more arrays are kept than were in use at the same time.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.arrays.workspace import Workspace
    >>> arrays = Workspace()
    >>> A = arrays.like(np.ones((1000, 20)))
    >>> place = A.ctypes.data
    >>> del A
    >>> arrays.like(np.ones((1000, 20))).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._kept: list[Array] = []

    def like(self, X: Array) -> Array:
        """Return an uninitialised C-ordered array with the shape and type of X."""
        if is_torch(X):
            return super().like(X)
        shape, dtype = X.shape, X.dtype
        if X.nbytes < _WORTH_KEEPING or not _COUNTS_ARE_EXACT:
            return np.empty(shape, dtype)
        kept = self._kept
        for k in range(len(kept)):
            # two references: the list's and the argument's
            if sys.getrefcount(kept[k]) == _FREE and kept[k].shape == shape and kept[k].dtype == dtype:
                return kept[k]
        new: Array = np.empty(shape, dtype)
        self._kept = [A for A in kept if A.shape == shape and A.dtype == dtype]  # a run has one shape; others are over
        self._kept.append(new)
        return new


def _references_of_a_free_array() -> int:
    kept = [np.empty(1)]
    return sys.getrefcount(kept[0])


_FREE = _references_of_a_free_array()
_COUNTS_ARE_EXACT = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
