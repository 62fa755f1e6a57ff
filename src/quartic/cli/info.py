"""``quartic info``: what a bug report should say."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from quartic._version import __version__
from quartic.cli.terminal import print_json, write


def run(options: Any) -> None:
    """Print versions, threads, GPU and folders."""
    from quartic.datasets import cache_home, data_home

    packages = "numpy scipy scikit-learn numba plotly matplotlib networkx pyarrow gemmi torch dask"
    facts = {
        "quartic": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cores": str(os.cpu_count()),
        "blas threads": _blas_threads(),
        "gpu": _gpu(),
        "data folder": str(data_home()),
        "cache folder": str(cache_home()),
    }
    for package in packages.split():
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    if options.as_json:
        print_json(facts)
    else:
        write("".join(f"{key:18} {value}\n" for key, value in facts.items()))


def _blas_threads() -> str:
    from threadpoolctl import threadpool_info

    import quartic.arrays  # noqa: F401  # loads NumPy, and its BLAS with it

    pools = [f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()]
    return ", ".join(pools) or "unknown"


def _gpu() -> str:
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch  # takes seconds to load

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
