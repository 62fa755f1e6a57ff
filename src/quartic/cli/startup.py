"""A quick start of commands: what scikit-learn loads in advance, and these commands never need, is not loaded."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# Both are more than half of the time that ``import sklearn.base`` takes.
_ADVANCE = ("scipy.stats", "pandas")


class _Later(ModuleType):
    """Stands for a module that is loaded when one of its members is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what the import system looks for
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def import_sklearn() -> None:
    """Import scikit-learn's base classes; SciPy's statistics and pandas come later, if anyone uses them."""
    for name in _ADVANCE:
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            sys.modules[name] = _Later(name)
            sys.modules[name].__spec__ = spec
    import sklearn.base  # noqa: F401

    # whoever finds pandas among the modules takes it for loaded, and asks whether data are its frames
    if isinstance(sys.modules.get("pandas"), _Later):
        del sys.modules["pandas"]
