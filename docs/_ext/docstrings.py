"""Docstrings as they are written here, made fit for Sphinx: bars mean absolute values, and only our methods count."""

from __future__ import annotations

import re
from typing import Any

# what must stay as it is: code, formulas, tables; all else may hold |x|
_KEPT = re.compile(r"(``.*?``|:[a-z:]+:`[^`]*`|`[^`]*`)")


def escape_bars(lines: list[str]) -> list[str]:
    """Return docstring lines in which ``|x|`` is no longer taken for a substitution."""
    result, formula = [], None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if formula is not None and line.strip() and indent <= formula:
            formula = None
        if line.lstrip().startswith((".. math::", ".. code", "::")) or line.rstrip().endswith("::"):
            formula = indent
        if formula is not None or line.lstrip().startswith((">>>", "...", "+", "| ")):
            result.append(line)
            continue
        parts = _KEPT.split(line)
        result.append("".join(part if at % 2 else part.replace("|", r"\|") for at, part in enumerate(parts)))
    return result


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = escape_bars(lines)


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn and Python's own classes bring along."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or getattr(obj, "__func__", obj)
    if hasattr(obj, "__objclass__") and not callable(getattr(function, "__module__", None)):
        owner = getattr(obj.__objclass__, "__module__", "")
        return True if not owner.startswith("quartic") else None
    module = getattr(function, "__module__", None)
    if callable(function) and isinstance(module, str) and not module.startswith("quartic"):
        return True
    return True if callable(function) and module is None else None


def setup(app: Any) -> dict[str, Any]:
    """Listen to autodoc."""
    app.connect("autodoc-process-docstring", _process, priority=700)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
