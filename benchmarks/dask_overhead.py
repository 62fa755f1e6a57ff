"""What Dask costs: iterations on two workers against one process with as many threads, and a model of the rest.

    python benchmarks/dask_overhead.py [--quick] [--output benchmarks/dask_overhead.md]

Everything runs on this machine: one process with two threads, and a LocalCluster of two processes with one thread each.
Contestants take turns, and figures are medians. The model of a product is fitted to some sizes and compared with
others.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import platform
import statistics
import time
from itertools import pairwise
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import dask
import numpy as np
import scipy
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait

from quartic import Problem, minimize
from quartic._version import __version__
from quartic.distributed import in_blocks
from quartic.losses import DaskMatrix, LeastSquares
from quartic.penalties import Nonnegative

WORKERS = 2


def graph(n: int, per_row: int, seed: int = 0) -> sp.csr_array:
    """Return a random symmetric matrix with about ``per_row`` entries a row, the worst case for the cache."""
    rng = np.random.default_rng(seed)
    half = per_row // 2
    rows = np.repeat(np.arange(n, dtype=np.int32), half)
    columns = rng.integers(0, n, n * half, dtype=np.int32)
    A = sp.csr_array((rng.random(n * half), (rows, columns)), shape=(n, n))
    return sp.csr_array(A + A.T)


def turns(contestants: dict[str, object], repeats: int) -> dict[str, float]:
    """Return the median seconds of each contestant, measured in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in seconds.items()}


def iteration(loss: LeastSquares, X: np.ndarray, steps: int) -> list[float]:
    """Return the seconds of single iterations of the inertial method."""
    result = minimize(Problem(loss, Nonnegative()), X, solver="inertial", tol=0, max_iter=steps)
    return np.diff(result.history.time).tolist()


# -- X on the workers, to compare with ---------------------------------------------------------------------------------


def _rows_step(block: sp.csr_array, parts: list[np.ndarray], k: int, S: np.ndarray, step: float) -> tuple:
    """Return the rows of max(X − 2t(XS − MX), 0) that belong to a block, and their Gram matrix."""
    X = parts[k]
    new = np.maximum(X - 2 * step * (X @ S - block @ np.concatenate(parts)), 0)
    return new, new.T @ new


def _first(pair: tuple) -> np.ndarray:
    return pair[0]


def _second(pair: tuple) -> np.ndarray:
    return pair[1]


def on_workers(client: Client, M: sp.csr_array, X: np.ndarray, steps: int, step: float) -> float:
    """Return the seconds of a step with X in row blocks on the workers; only r × r matrices come here."""
    ends = np.linspace(0, len(X), WORKERS + 1).astype(int)
    cuts = list(pairwise(ends))
    blocks = client.scatter([M[a:b] for a, b in cuts], direct=True)
    parts = client.scatter([X[a:b] for a, b in cuts], direct=True)
    S = X.T @ X
    seconds = []
    for _ in range(steps):
        began = time.perf_counter()
        made = [client.submit(_rows_step, block, parts, k, S, step, pure=False) for k, block in enumerate(blocks)]
        parts = [client.submit(_first, pair, pure=False) for pair in made]
        S = sum(client.gather([client.submit(_second, pair, pure=False) for pair in made], direct=True))
        wait(parts)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def on_client(loss: LeastSquares, X: np.ndarray, steps: int, step: float) -> float:
    """Return the seconds of the same step with X here."""
    seconds = []
    for _ in range(steps):
        began = time.perf_counter()
        X = np.maximum(X - 2 * step * (X @ (X.T @ X) - loss.product(X)), 0)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


# -- the tables --------------------------------------------------------------------------------------------------------


def overhead(client: Client, sizes: list[tuple[int, int, int]], repeats: int) -> list[str]:
    lines = [
        "| n | entries | r | bare product, 1 thread | 2 threads | by Dask | iteration, 1 process | iteration, Dask |"
        " ratio |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for n, per_row, rank in sizes:
        M = graph(n, per_row)
        X = 0.1 * np.random.default_rng(1).random((n, rank))
        pieces = in_blocks(M, 2 * WORKERS)
        there = LeastSquares(DaskMatrix(pieces, client=client))
        here = _threads(pieces)
        bare = turns(
            {
                "one": lambda M=M, X=X: M @ X,
                "two": lambda here=here, X=X: here.product(X),
                "dask": lambda there=there, X=X: there.product(X),
            },
            repeats,
        )
        steps: dict[str, list[float]] = {"here": [], "there": []}
        for _ in range(repeats):
            steps["here"] += iteration(here, X, 3)
            steps["there"] += iteration(there, X, 3)
        one, dask_ = (statistics.median(steps[name]) for name in ("here", "there"))
        lines.append(
            f"| {n:,} | {M.nnz:,} | {rank} | {bare['one']:.2f} s | {bare['two']:.2f} s | {bare['dask']:.2f} s | "
            f"{one:.2f} s | {dask_:.2f} s | {dask_ / one:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def _threads(pieces: object) -> LeastSquares:
    """Return the loss worked on by two threads of this process."""
    with dask.config.set(num_workers=WORKERS):
        return LeastSquares(DaskMatrix(pieces, client=False, keep=True))


def routes(client: Client, size: tuple[int, int, int], repeats: int) -> list[str]:
    """Return an iteration with X in memory shared by the machine, over the network, and in one process."""
    n, per_row, rank = size
    pieces = in_blocks(graph(n, per_row), 2 * WORKERS)
    X = 0.1 * np.random.default_rng(1).random((n, rank))
    losses = {"shared memory": LeastSquares(DaskMatrix(pieces, client=client)), "one process": _threads(pieces)}
    losses["network"] = LeastSquares(DaskMatrix(pieces, client=client))
    losses["network"].matrix.blocks.exchange.give_up_sharing()
    seconds: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(repeats):
        for name, loss in losses.items():
            seconds[name] += iteration(loss, X, 3)
    return [f"| {name} | {statistics.median(found):.2f} s |" for name, found in seconds.items()]


def places(client: Client, sizes: list[tuple[int, int, int]], repeats: int) -> list[str]:
    lines = ["| n | entries | r | X on the client | X on the workers |", "|---|---|---|---|---|"]
    for n, per_row, rank in sizes:
        M = graph(n, per_row)
        X = 0.01 * np.random.default_rng(1).random((n, rank))
        loss = LeastSquares(DaskMatrix(in_blocks(M, WORKERS), client=client))
        here, there = [], []
        for _ in range(repeats):
            here.append(on_client(loss, X, 4, 1e-6))
            there.append(on_workers(client, M, X, 4, 1e-6))
        row = f"| {n:,} | {M.nnz:,} | {rank} | {statistics.median(here):.2f} s | {statistics.median(there):.2f} s |"
        lines.append(row)
        print(row, flush=True)
    return lines


class Model:
    """Seconds of a product: latency + bytes of X there and back + multiplications.

    Fitted to products with matrices of few and of many entries, in turns with the bare product.
    """

    def __init__(self, client: Client, quick: bool) -> None:
        self.client, self.repeats = client, 3 if quick else 5
        n, rank = (50_000, 20) if quick else (200_000, 20)
        empty, self.latency = graph(200, 4), 0.0
        tiny = LeastSquares(DaskMatrix(in_blocks(empty, 2 * WORKERS), client=client))
        small = np.ones((empty.shape[0], 1))
        self.latency = turns({"tiny": lambda: tiny.product(small)}, 5 * self.repeats)["tiny"]
        M = graph(n, 2)
        X = np.random.default_rng(0).random((n, rank))
        light = LeastSquares(DaskMatrix(in_blocks(M, 2 * WORKERS), client=client))
        moved = turns({"light": lambda: light.product(X)}, self.repeats)["light"]
        self.rate = self._multiplications(n, rank)
        work = M.nnz * rank / (WORKERS * self.rate)
        # X goes to the first worker, from there to the others, and the rows come back: once here, once among workers
        self.bandwidth = 3 * X.nbytes / max(moved - self.latency - work, 1e-3)

    def _multiplications(self, n: int, rank: int) -> float:
        """Return multiplications a second of one thread, while both are at work."""
        M = graph(n, 40)
        X = np.random.default_rng(0).random((n, rank))
        here = _threads(in_blocks(M, 2 * WORKERS))
        seconds = turns({"two": lambda: here.product(X)}, self.repeats)["two"]
        return M.nnz * rank / (WORKERS * seconds)

    def seconds(
        self, n: float, nnz: float, rank: int, workers: int, threads: int = 1, network: float | None = None
    ) -> dict[str, float]:
        """Return the parts of a product's time; bytes a second of the network, or of this machine's loopback."""
        network = self.bandwidth if network is None else network
        size = 8.0 * n * rank
        return {
            "latency": self.latency,
            "X out": size / network,
            "among workers": math.ceil(math.log2(workers)) * size / network,
            "work": nnz * rank / (workers * threads * self.rate),
            "rows back": size / network,
        }

    def check(self, sizes: list[tuple[int, int, int]]) -> list[str]:
        lines = ["| n | entries | r | predicted | measured |", "|---|---|---|---|---|"]
        for n, per_row, rank in sizes:
            M = graph(n, per_row)
            X = np.random.default_rng(0).random((n, rank))
            loss = LeastSquares(DaskMatrix(in_blocks(M, 2 * WORKERS), client=self.client))
            found = turns({"there": lambda loss=loss, X=X: loss.product(X)}, self.repeats)["there"]
            said = sum(self.seconds(n, M.nnz, rank, WORKERS).values())
            lines.append(f"| {n:,} | {M.nnz:,} | {rank} | {said:.3f} s | {found:.3f} s |")
            print(lines[-1], flush=True)
        return lines

    def large(self) -> list[str]:
        lines = [
            "| workers | network | X out | among workers | work | rows back | a product | bytes in all |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for workers in (10, 100):
            for gigabits in (10, 25, 100):
                parts = self.seconds(1e7, 1e9, 20, workers, threads=8, network=gigabits / 8 * 1e9 * 0.9)
                moved = 8.0 * 1e7 * 20 * (workers + 1)
                figures = [parts[name] for name in ("X out", "among workers", "work", "rows back")]
                cells = [f"{seconds:.1f} s" for seconds in (*figures, sum(parts.values()))]
                lines.append(
                    f"| {workers} × 8 threads | {gigabits} Gbit/s | {' | '.join(cells)} | {moved / 1e9:.0f} GB |"
                )
        return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    quick = options.quick
    sizes = [(20_000, 20, 20)] if quick else [(20_000, 20, 20), (200_000, 20, 20), (200_000, 100, 20)]
    repeats = 2 if quick else 3
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        began = os.getloadavg()
        table = overhead(client, sizes, repeats)
        ways = routes(client, sizes[-1] if quick else sizes[1], repeats)
        where = places(client, sizes[:2], repeats)
        model = Model(client, quick)
        checked = model.check(
            [(20_000, 20, 20), (50_000, 40, 10)] if quick else [(50_000, 40, 10), (100_000, 60, 20), (400_000, 20, 10)]
        )
    text = [
        "# What Dask costs",
        "",
        f"Made by `python benchmarks/dask_overhead.py`{' `--quick`' if quick else ''}; {platform.machine()}, "
        f"{os.cpu_count()} cores (load {began[0]:.1f} before, {os.getloadavg()[0]:.1f} after), "
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Dask {dask.__version__}, quartic {__version__}.",
        "",
        "## An iteration on two workers, against one process with two threads",
        "",
        "Random columns; the inertial method, medians of single iterations, contestants in turns.",
        "",
        *table,
        "",
        "## How X gets to the workers, an iteration",
        "",
        "| X by way of | seconds |",
        "|---|---|",
        *ways,
        "",
        "## Where X lives",
        "",
        "One projected gradient step. On the client: X goes to the workers and rows come back. On the workers: each",
        "block's task takes all row blocks of X, and only r × r matrices come to the client.",
        "",
        *where,
        "",
        "## A model of a product",
        "",
        f"latency {1e3 * model.latency:.0f} ms, {model.bandwidth / 1e9:.2f} GB/s over loopback, "
        f"{model.rate / 1e6:.0f} million multiplications a second and thread. Other sizes than it was fitted to:",
        "",
        *checked,
        "",
        "n = 10⁷, 10⁹ entries, r = 20, float64 (X is 1.6 GB), by the same model with a network in place of loopback:",
        "",
        *model.large(),
        "",
    ]
    print("\n".join(text))
    if options.output is not None:
        options.output.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
