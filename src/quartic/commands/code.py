"""The same run as Python code, and the facts that both commands tell."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from quartic._version import __version__
from quartic.core.result import Result


def call(name: str, first: str, settings: dict[str, Any], defaults: dict[str, Any]) -> str:
    """Return ``Name(first, setting=value, …)`` with the settings that differ from their defaults."""
    told = [f"{key}={value!r}" for key, value in settings.items() if key not in defaults or value != defaults[key]]
    return f"{name}({', '.join([first, *told])})"


def opened(path: str, kind: str) -> tuple[str, str]:
    """Return how the input is called in code, and a line to say so where it came by a pipe."""
    if path != "-":
        return repr(path), ""
    return repr(f"input{kind}"), f"# the input came by a pipe: save it as input{kind}\n"


def versions() -> str:
    """Return the versions that matter."""
    parts = [f"quartic {__version__}", f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "scikit-learn")]
    return ", ".join(parts)


def run_facts(result: Result, seconds: float, seed: int) -> dict[str, str]:
    """Return the rows of the report's table that tell of the run."""
    return {
        "solver": f"{result.solver}: {result.n_iter} iterations, {result.n_products} products with the data",
        "status": result.message,
        "objective": f"{result.objective:.6e}",
        "stationarity": f"{result.stationarity:.3e}",
        "seconds": f"{seconds:.2f}",
        "seed": str(seed),
        "versions": versions(),
    }


def run_numbers(result: Result, seconds: float, seed: int) -> dict[str, Any]:
    """Return what ``--json`` tells of the run."""
    return {
        "status": str(result.status),
        "converged": result.success,
        "message": result.message,
        "solver": result.solver,
        "objective": result.objective,
        "stationarity": result.stationarity,
        "n_iter": result.n_iter,
        "n_products": result.n_products,
        "seconds": seconds,
        "seed": seed,
        "version": __version__,
    }
