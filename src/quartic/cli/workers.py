"""``quartic cluster`` on a Dask cluster: the client, the data in blocks, and a folder of blocks as input."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from quartic.cli.terminal import Options
from quartic.distributed import connect, in_blocks
from quartic.distributed.cluster import INSTALL
from quartic.distributed.inputs import is_dask_array
from quartic.io import GraphTable, read_blocks

# Blocks for each thread: a few, so that those of a worker that dies are shared out among the others; none so small
# that to hand it out costs more than to work on it.
_BLOCKS_EACH, _ROWS_AT_LEAST = 4, 2000

# A terminal sends Ctrl-C to all processes in front. It is this one's to take: workers that ended would end the run.
_IGNORE_INTERRUPT = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"


def check_workers(scheduler: str | None, n_workers: int | None) -> None:
    """Raise where no such cluster can be had, before anything is read."""
    if scheduler is None and n_workers is None:
        return
    if scheduler is not None and n_workers is not None:
        raise ValueError("--scheduler names a cluster that is there, --workers starts one; leave one out")
    if find_spec("distributed") is None:
        option = "--scheduler" if n_workers is None else "--workers"
        raise ImportError(f"{option} needs dask.distributed: {INSTALL}")


@contextmanager
def workers(options: Options) -> Iterator[Any]:
    """Provide a client of the scheduler asked for, or of as many workers started here; None where none was."""
    if options.scheduler is None and options.workers is None:
        yield None
        return
    with ExitStack() as stack:
        if options.scheduler is not None:
            client = stack.enter_context(connect(options.scheduler))
        else:
            from distributed import Client, LocalCluster

            local: dict[str, Any] = {
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "preload": [_IGNORE_INTERRUPT],
            }
            cluster = LocalCluster(
                n_workers=options.workers, threads_per_worker=1, silence_logs=logging.CRITICAL, **local
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        threads = client.nthreads()
        options.say(f"Dask: {len(threads)} workers, {sum(threads.values())} threads at {client.scheduler.address}")
        note = "" if find_spec("bokeh") else " (its pages need bokeh: pip install bokeh)"
        options.say(f"dashboard: {client.dashboard_link}{note}")
        yield client


def split_data(data: Any, client: Any) -> Any:
    """Return what is to be clustered: in blocks where there is a cluster, as it is otherwise."""
    if client is None or is_dask_array(data):
        return data
    threads = sum(client.nthreads().values())
    return in_blocks(data, max(threads, min(_BLOCKS_EACH * threads, data.shape[0] // _ROWS_AT_LEAST)))


def client_code(scheduler: str | None, n_workers: int | None) -> tuple[str, str]:
    """Return the lines of Python that make such a client, and how data are handed to it."""
    if scheduler is not None:
        made = f"from quartic.distributed import connect, in_blocks\n\nclient = connect({scheduler!r})\n"
    elif n_workers is not None:
        made = (
            "from distributed import Client\nfrom quartic.distributed import in_blocks\n\n"
            f"client = Client(n_workers={n_workers}, threads_per_worker=1)\n"
        )
    else:
        return "", "{}"
    return made, f"in_blocks({{}}, {_BLOCKS_EACH} * sum(client.nthreads().values()))"


def read_folder(path: str) -> GraphTable:
    """Return the graph in a folder of blocks, of which nothing is in memory; nodes have numbers for names."""
    M = read_blocks(path)
    n, n_blocks = int(M.shape[1]), len(M.chunks[0])
    return GraphTable(M, tuple(map(str, range(n))), f"graph: {n} nodes in {n_blocks} blocks of rows")
