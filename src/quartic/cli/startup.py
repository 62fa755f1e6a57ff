"""A quick start of commands: what libraries load in advance, and these commands never need, is not loaded."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# What scikit-learn, SciPy and joblib load in advance: more than half of the time that ``import sklearn.base`` takes.
_LATER = ("scipy.stats", "pandas", "asyncio", "numpy.f2py", "numpy.testing")


class _Later(ModuleType):
    """Stands for a module that is loaded when one of its members is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def import_libraries() -> None:
    """Import numba and scikit-learn's base classes; what they seldom need comes later, if anyone uses it."""
    gc.set_threshold(100_000, 50, 100)  # a million objects that live as long as the process need no looking through
    for name in _LATER:
        above, _, last = name.rpartition(".")
        if name in sys.modules or (spec := find_spec(name)) is None:
            continue
        sys.modules[name] = later = _Later(name)
        later.__spec__, later.__path__ = spec, []
        if above:
            vars(import_module(above))[last] = later
    import numba  # noqa: F401
    import sklearn.base  # noqa: F401

    # whoever finds pandas among the modules takes it for loaded; others import what is below asyncio
    for name in ("pandas", "asyncio"):
        if isinstance(sys.modules.get(name), _Later):
            del sys.modules[name]
