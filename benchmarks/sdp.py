"""SDPLIB's problems and large MaxCuts: value, errors, certified gap and time, beside other solvers.

    python benchmarks/sdp.py [NAME ...] [--csdp] [--scs] [--clarabel] [--torus 20000]
    python benchmarks/sdp.py gpu [--nodes 1000000] [--dtype float32] [--device cuda]

reads ``$QUARTIC_DATA/sdplib/*.dat-s.gz``. Times are of the processor, one thread, after one run that compiles; on a
GPU wall clock. SCS (tolerance 1e-6) and Clarabel are called through CVXPY, whose own time is not counted; where one
takes more than ``--limit`` seconds, nothing is said of it.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from quartic.sdp import SDP, maxcut, read_sdpa, solve_sdp

DATA = Path(os.environ.get("QUARTIC_DATA", "data")) / "sdplib"
RIVALS = ("csdp", "scs", "clarabel")


def published() -> dict[str, str]:
    """Return the optima in the folder's README."""
    rows = re.findall(r"\| (\S+) \| \d+ \| \d+ \| (.+?) \|", (DATA / "README.md").read_text())
    return {name: value for name, value in rows if name != "problem"}


def csdp_seconds(path: Path, limit: float) -> float | None:
    """Return the processor time that CSDP takes."""
    if shutil.which("csdp") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "problem.dat-s"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        threads = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            subprocess.run(["csdp", plain], stdout=subprocess.DEVNULL, check=False, env=threads, timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def cvxpy_seconds(problem: SDP, solver: str, limit: float) -> float | None:
    """Return the time that one of CVXPY's solvers takes for the programme in its dual form, an inequality in y."""
    import cvxpy as cp

    whole, y = problem.explicit(), cp.Variable(problem.m)
    v = whole.c - whole.S.T @ y  # by entries of Y; one off the diagonal stands for two
    cones = []
    for first, last, size in zip(problem.offsets[:-1], problem.offsets[1:], problem.blocks, strict=True):
        here = np.flatnonzero((whole.i >= first) & (whole.i < last))
        i, j, n = whole.i[here] - first, whole.j[here] - first, last - first
        if size < 0:
            cones.append(sparse.csr_array((np.ones(len(here)), (i, here)), shape=(n, len(whole.c))) @ v >= 0)
            continue
        halves = np.full(len(here), 0.5)  # an entry on the diagonal is met twice
        spread = sparse.csr_array(
            (np.r_[halves, halves], (np.r_[i * n + j, j * n + i], np.r_[here, here])), shape=(n * n, len(whole.c))
        )
        cones.append(cp.reshape(spread @ v, (n, n), order="C") >> 0)
    programme = cp.Problem(cp.Maximize(problem.b @ y), cones)
    options: dict[str, Any] = {"scs": {"eps": 1e-6, "time_limit_secs": limit}, "clarabel": {"time_limit": limit}}
    try:
        programme.solve(solver=solver.upper(), **options[solver])
    except cp.SolverError:
        return None
    seconds = float(programme.solver_stats.solve_time or 0.0)
    return seconds if programme.status in ("optimal", "infeasible", "unbounded") else None


def torus(n: int) -> sparse.csr_array:
    """Return a toroidal grid of about n nodes with random signs."""
    side = round((n / 2) ** 0.5)
    index = np.arange(2 * side * side).reshape(side, 2 * side)
    i = np.tile(index.ravel(), 2)
    j = np.r_[np.roll(index, -1, 0).ravel(), np.roll(index, -1, 1).ravel()]
    return signed(index.size, i, j, np.random.default_rng(0).choice([-1.0, 1.0], len(i)))


def random_graph(n: int, degree: int = 6) -> sparse.csr_array:
    """Return a random graph of this mean degree."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, n, (2, n * degree // 2))
    return signed(n, i[i != j], j[i != j], np.ones(np.count_nonzero(i != j)))


def signed(n: int, i: np.ndarray, j: np.ndarray, w: np.ndarray) -> sparse.csr_array:
    """Return the adjacency matrix of these edges."""
    W = sparse.coo_array((w, (i, j)), shape=(n, n))
    return sparse.csr_array(W + W.T)


def large_cuts(nodes: int, dtype: str, device: str | None) -> None:
    """Print a line for each large graph."""
    small = torus(2000)
    maxcut(small, tol=1e-4, n_roundings=1, device=device, dtype=dtype)  # compiles
    for name, W in (("torus", torus(nodes)), ("random, degree 6", random_graph(nodes))):
        began = time.perf_counter()
        found = maxcut(W, tol=1e-4, n_roundings=5, device=device, dtype=dtype)
        seconds, result = time.perf_counter() - began, found.result
        print(
            f"{name} {len(found.cut)} nodes, {W.nnz // 2} edges, {dtype}: {result.primal:.6e} ≤ {found.bound:.6e}, "
            f"cut {found.value:.6e}, gap {result.gap:.1e}, {result.status}, errors {max(result.errors.values()):.0e}, "
            f"rank {max(result.rank)}, {result.n_iter} iterations, {result.time:.1f} s, with rounding {seconds:.1f} s, "
            f"confidence 1 - {1 - result.confidence:.0e}",
            flush=True,
        )


def main() -> None:
    """Print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    for rival in RIVALS:
        parser.add_argument(f"--{rival}", action="store_true")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--torus", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.names == ["gpu"]:
        large_cuts(options.nodes, options.dtype, options.device)
        return
    optima = published()
    for name in ("mcp100", "theta1", "gpp100"):
        solve_sdp(read_sdpa(DATA / f"{name}.dat-s.gz"))
    rivals = [rival for rival in RIVALS if getattr(options, rival)]
    titles = ["problem", "published", "value", "errors", "gap", "status", "method", "rank", "seconds", *rivals]
    print(f"| {' | '.join(titles)} |")
    print("|---" * len(titles) + "|")
    for name in options.names or sorted(optima):
        path = DATA / f"{name}.dat-s.gz"
        problem = read_sdpa(path)
        began = time.process_time()
        result = solve_sdp(problem)
        seconds = time.process_time() - began
        worst, rank = max(result.errors.values()), max(result.rank)
        line = f"| {name} | {optima.get(name, '')} | {result.primal:.7e} | {worst:.0e} | {result.gap:.0e} "
        line += f"| {result.status} | {result.method} | {rank} | {seconds:.2f} |"
        for rival in rivals:
            taken = (
                csdp_seconds(path, options.limit) if rival == "csdp" else cvxpy_seconds(problem, rival, options.limit)
            )
            line += " – |" if taken is None else f" {taken:.2f} |"
        print(line, flush=True)
    if options.torus:
        began = time.process_time()
        found = maxcut(torus(options.torus), tol=1e-5)
        seconds, result = time.process_time() - began, found.result
        print(f"torus {len(found.cut)}: {result.primal:.6f} ≤ {found.bound:.6f}, gap {result.gap:.1e}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
