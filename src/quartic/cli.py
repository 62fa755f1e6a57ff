"""The command ``quartic``."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from quartic._version import __version__

app = typer.Typer(
    help="Low-rank minimisation of F(XXᵀ) + g(X): clusters from similarities, coordinates from distances.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"quartic {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Take what all commands share."""


@app.command(epilog="Example: quartic demo --report my-report.html")
def demo(
    report: Annotated[Path, typer.Option(help="Where the page is written.")] = Path("quartic-report.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, nothing else.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the data and the starts.")] = 0,
) -> None:
    """Both flagship jobs, on data made on the spot: clusters of a graph, points from a few distances."""
    from quartic.demo import run

    run(report, as_json, seed)


@app.command(epilog="Example: quartic info --json")
def info(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Versions, threads, GPU and cache folders, for bug reports."""
    facts = _facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        typer.echo(f"{key:18} {value}")


def _facts() -> dict[str, str]:
    from quartic.datasets import cache_home, data_home

    def found(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    packages = ("numpy", "scipy", "scikit-learn", "numba", "plotly", "matplotlib", "torch", "dask")
    return {
        "quartic": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        "blas threads": _blas_threads(),
        "gpu": _gpu(),
        "data folder": str(data_home()),
        "cache folder": str(cache_home()),
        **{package: found(package) for package in packages},
    }


def _blas_threads() -> str:
    from threadpoolctl import threadpool_info

    import quartic.ops  # noqa: F401  # loads NumPy, and its BLAS with it

    pools = [f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()]
    return ", ".join(pools) or "unknown"


def _gpu() -> str:
    # torch takes seconds to load; it is asked only if something has loaded it, or it is installed
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"


def main() -> None:
    """Run the command line."""
    app()
