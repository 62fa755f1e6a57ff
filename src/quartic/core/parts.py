"""Classes derived from a part of a problem: which of the formulas they inherit still hold."""

from __future__ import annotations


def is_stale(kind: type, name: str, defining: tuple[str, ...]) -> bool:
    """Tell whether a class has a method from one whose ``defining`` methods are not its own, hence of another function.

    A class that leaves them abstract, or has none, says nothing of a function.
    """
    owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
    theirs = [(getattr(owner, method, None), getattr(kind, method)) for method in defining]
    return any(
        old is not None and old is not new and not getattr(old, "__isabstractmethod__", False) for old, new in theirs
    )


def drop_stale(kind: type, base: type, defining: tuple[str, ...], formulas: tuple[str, ...]) -> None:
    """Give a class the defaults of ``base`` in place of formulas that hold for another function than its own."""
    for name in formulas:
        if is_stale(kind, name, defining):
            setattr(kind, name, vars(base)[name])
