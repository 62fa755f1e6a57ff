"""The user's Dask client: found, reached, and its workers asked whether they can do the work."""

from __future__ import annotations

import sys
from typing import Any

from quartic._version import __version__

INSTALL = 'pip install "quartic[distributed]"'


def connect(scheduler: str, timeout: float = 10.0) -> Any:
    """Return a client of the Dask scheduler at an address, its workers checked.

    Parameters
    ----------
    scheduler : str
        Such as ``tcp://10.0.0.1:8786``.
    timeout : float, default=10
        Seconds to wait for it.

    Returns
    -------
    distributed.Client

    Raises
    ------
    ConnectionError
        Where nothing answers there; where no worker has joined.
    ModuleNotFoundError
        Where a worker lacks quartic, or has another version of it.

    Examples
    --------
    >>> from quartic.distributed import connect
    >>> connect("tcp://127.0.0.1:1", timeout=0.2)                                # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    ConnectionError: no Dask scheduler answers at tcp://127.0.0.1:1
    """
    try:
        from distributed import Client
    except ImportError as missing:
        raise ImportError(f"a Dask cluster needs dask.distributed: {INSTALL}") from missing
    try:
        client = Client(scheduler, timeout=timeout)
    except (OSError, ValueError) as fault:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler} within {timeout:g} s; is it running, and is the address "
            "reachable from here?"
        ) from fault
    try:
        check_workers(client)
    except BaseException:
        client.close()
        raise
    return client


def current_client() -> Any | None:
    """Return the client the user has made, None where there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def check_workers(client: Any) -> None:
    """Raise one clear error where the cluster cannot work for us: gone, empty, or without this package."""
    if client.status != "running":
        raise ConnectionError(
            f"the Dask client is {client.status}: its scheduler does not answer; make a new Client, and with "
            "checkpoint= the run goes on where it was"
        )
    if not client.scheduler_info()["workers"]:
        raise ConnectionError(f"the scheduler at {client.scheduler.address} has no workers; start some and try again")
    # Evaluated there as text: a function of this package could not even be unpickled where the package is missing.
    found = client.run(eval, "__import__('quartic')._version.__version__", on_error="return")
    for worker, version in found.items():
        if isinstance(version, ModuleNotFoundError):
            raise ModuleNotFoundError(
                f"the worker at {worker} has no module {version.name!r}: install quartic {__version__} where the "
                f"workers run ({INSTALL})"
            )
        if version != __version__:
            said = repr(version) if isinstance(version, BaseException) else f"quartic {version}"
            raise ModuleNotFoundError(
                f"the worker at {worker} answers {said}, but this is quartic {__version__}; install the same version "
                "where the workers run"
            )
