"""Fixed numbers of threads, and a record of what they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# What BLAS and OpenMP read when they are loaded.
_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


@contextmanager
def fixed_threads(n_threads: int) -> Iterator[dict[str, int]]:
    """Limit BLAS, OpenMP and numba to ``n_threads`` within, and yield what each library was found to use.

    Where threadpoolctl is not installed, the environment must have said so before Python was started.

    Parameters
    ----------
    n_threads : int
        At least 1.

    Examples
    --------
    >>> from quartic.bench.threads import fixed_threads
    >>> with fixed_threads(1) as threads:
    ...     set(threads.values())
    {1}
    """
    import numba

    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    before = numba.get_num_threads()
    n_numba = min(n_threads, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    numba.set_num_threads(n_numba)
    try:
        with _fixed_pools(n_threads) as found:
            yield {**dict(sorted(found.items())), "numba": n_numba}
    finally:
        numba.set_num_threads(before)


@contextmanager
def _fixed_pools(n_threads: int) -> Iterator[dict[str, int]]:
    with suppress(ImportError):
        import sklearn.cluster  # noqa: F401  # loads its OpenMP, so that the limit reaches it
    try:
        from threadpoolctl import threadpool_info, threadpool_limits
    except ImportError:
        if any(os.environ.get(name) != str(n_threads) for name in _VARIABLES):
            wanted = " ".join(f"{name}={n_threads}" for name in _VARIABLES)
            raise ImportError(f"to fix the threads, install threadpoolctl, or set {wanted} before Python") from None
        yield dict.fromkeys(_VARIABLES, n_threads)
        return
    with threadpool_limits(n_threads):
        yield {f"{pool['internal_api']} ({pool['prefix']})": int(pool["num_threads"]) for pool in threadpool_info()}
