"""SDPLIB's problems and large MaxCuts: value, errors, certified gap and time, beside CSDP, SCS and Clarabel.

    python benchmarks/sdp.py [NAME …] ["torus 20000"] ["torus on a GPU" "random graph on a GPU"] [--results results]

reads ``$QUARTIC_DATA/sdplib/*.dat-s.gz``. Times are of the processor, one thread, after a run that compiles; on a GPU
wall clock. Other solvers are left out where they are not installed, or take longer than ``LIMIT`` seconds; SCS
(tolerance 1e-6) and Clarabel are called through CVXPY, whose own time is not counted.
"""

from __future__ import annotations

import gzip
import os
import re
import resource
import shutil
import subprocess
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from quartic.bench.numbers import record, run_script
from quartic.sdp import SDP, maxcut, read_sdpa, solve_sdp

DATA = Path(os.environ.get("QUARTIC_DATA", "data")) / "sdplib"
RIVALS, LIMIT = ("CSDP", "SCS", "Clarabel"), 200.0
# Clarabel keeps a square matrix with a row for each number of a semidefinite block: more are not tried.
MOST_ROWS = 10_000


def published() -> dict[str, str]:
    """Return the optima in the folder's README; none where the folder is not there."""
    text = (DATA / "README.md").read_text() if DATA.is_dir() else ""
    return dict(re.findall(r"\| (\S+) \| \d+ \| \d+ \| (.+?) \|", text))


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
    largest = max(problem.blocks)
    if find_spec("cvxpy") is None or (solver == "Clarabel" and largest * (largest + 1) // 2 > MOST_ROWS):
        return None
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
    options: dict[str, Any] = {"SCS": {"eps": 1e-6, "time_limit_secs": limit}, "Clarabel": {"time_limit": limit}}
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
    j = np.r_[np.roll(index, -1, 0).ravel(), np.roll(index, -1, 1).ravel()]
    edges = np.random.default_rng(0).choice([-1.0, 1.0], len(j)), (np.tile(index.ravel(), 2), j)
    W = sparse.csr_array(edges, shape=(index.size, index.size))
    return sparse.csr_array(W + W.T)


def random_graph(n: int, degree: int = 6) -> sparse.csr_array:
    """Return a random graph of this mean degree."""
    i, j = np.random.default_rng(0).integers(0, n, (2, n * degree // 2))
    W = sparse.csr_array((np.where(i == j, 0.0, 1.0), (i, j)), shape=(n, n))
    W.eliminate_zeros()
    return sparse.csr_array(W + W.T)


def solve(name: str, optimum: str):
    path = DATA / f"{name}.dat-s.gz"
    problem = read_sdpa(path)
    for other in ("mcp100", "theta1", "gpp100"):  # compile
        solve_sdp(read_sdpa(DATA / f"{other}.dat-s.gz"))
    began = time.process_time()
    result = solve_sdp(problem)
    found = {"s": time.process_time() - began, "value": result.primal, "published": optimum}
    found |= {"largest error": max(result.errors.values()), "gap": result.gap, "rank": max(result.rank)}
    yield from record(name, result.method, **found, status=str(result.status))
    for rival in RIVALS:
        taken = csdp_seconds(path, LIMIT) if rival == "CSDP" else cvxpy_seconds(problem, rival, LIMIT)
        if taken is not None:
            yield name, rival, "s", taken


def cut_on_gpu(draw, dtype: str = "float32", n: int = 1_000_000):
    """Cut a graph of a million nodes."""
    maxcut(torus(2000), tol=1e-4, n_roundings=1, device="cuda", dtype=dtype)  # compiles
    W, began = draw(n), time.perf_counter()
    found = maxcut(W, tol=1e-4, n_roundings=5, device="cuda", dtype=dtype, max_time=LIMIT)
    seconds, result = time.perf_counter() - began, found.result
    facts = {"s": result.time, "with rounding s": seconds, "value": result.primal, "bound": found.bound}
    facts |= {"gap": result.gap, "cut": found.value, "rank": max(result.rank), "status": str(result.status)}
    return record(f"{draw.__name__.replace('_', ' ')}, {n} nodes, GPU", dtype, **facts)


def cut_torus(n: int):
    maxcut(torus(200), tol=1e-5)
    began = time.process_time()
    found = maxcut(torus(n), tol=1e-5)
    facts = {"s": time.process_time() - began, "value": found.result.primal, "bound": found.bound}
    return record(f"torus {len(found.cut)}", found.result.method, **facts, gap=found.result.gap)


CASES = {name: partial(solve, name, optimum) for name, optimum in sorted(published().items())}
CASES["torus 20000"] = partial(cut_torus, 20_000)
if find_spec("torch"):
    CASES |= {"torus on a GPU": partial(cut_on_gpu, torus), "random graph on a GPU": partial(cut_on_gpu, random_graph)}

if __name__ == "__main__":
    run_script("sdp", CASES)
