"""Fixed numbers of threads, and a record of what they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fixed_threads(n_threads: int) -> Iterator[dict[str, int]]:
    """Limit BLAS, OpenMP and numba to ``n_threads`` within, and yield what each library was found to use.

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
    import sklearn.cluster  # noqa: F401  # loads its OpenMP, so that the limit reaches it
    from threadpoolctl import threadpool_info, threadpool_limits

    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    before = numba.get_num_threads()
    n_numba = min(n_threads, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    numba.set_num_threads(n_numba)
    try:
        with threadpool_limits(n_threads):
            found = {
                f"{pool['internal_api']} ({pool['prefix']})": int(pool["num_threads"]) for pool in threadpool_info()
            }
            yield {**dict(sorted(found.items())), "numba": n_numba}
    finally:
        numba.set_num_threads(before)
