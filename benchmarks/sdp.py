"""SDPLIB's problems and a large MaxCut: value, errors, certified gap and processor time, beside CSDP's if there is one.

    python benchmarks/sdp.py [NAME ...] ["torus 20000"] [--results results]

reads ``$QUARTIC_DATA/sdplib/*.dat-s.gz``. Times are of the processor, one thread, after one run that compiles.
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
from pathlib import Path

import numpy as np
from scipy import sparse

from quartic.bench.numbers import run_script
from quartic.sdp import maxcut, read_sdpa, solve_sdp

DATA = Path(os.environ.get("QUARTIC_DATA", "data")) / "sdplib"


def published() -> dict[str, str]:
    """Return the optima in the folder's README; none where the folder is not there."""
    if not (DATA / "README.md").is_file():
        return {}
    rows = re.findall(r"\| (\S+) \| \d+ \| \d+ \| (.+?) \|", (DATA / "README.md").read_text())
    return {name: value for name, value in rows if name != "problem"}


def csdp_seconds(path: Path) -> float:
    """Return the processor time that CSDP takes."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "problem.dat-s"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        threads = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run(["csdp", str(plain)], stdout=subprocess.DEVNULL, check=False, env=threads)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def torus(n: int) -> sparse.csr_array:
    """Return a toroidal grid of about n nodes with random signs."""
    side = round((n / 2) ** 0.5)
    index = np.arange(2 * side * side).reshape(side, 2 * side)
    i = np.tile(index.ravel(), 2)
    j = np.r_[np.roll(index, -1, 0).ravel(), np.roll(index, -1, 1).ravel()]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(i))
    W = sparse.coo_array((signs, (i, j)), shape=(index.size, index.size))
    return sparse.csr_array(W + W.T)


def solve(name: str, optimum: str):
    path = DATA / f"{name}.dat-s.gz"
    problem = read_sdpa(path)
    for other in ("mcp100", "theta1", "gpp100"):  # compile
        solve_sdp(read_sdpa(DATA / f"{other}.dat-s.gz"))
    began = time.process_time()
    result = solve_sdp(problem)
    found = {"s": time.process_time() - began, "value": result.primal, "published": optimum}
    found |= {"largest error": max(result.errors.values()), "gap": result.gap, "rank": float(max(result.rank))}
    yield from ((name, result.method, *one) for one in {**found, "status": str(result.status)}.items())
    if shutil.which("csdp"):
        yield name, "CSDP", "s", csdp_seconds(path)


def cut_torus(n: int):
    maxcut(torus(200), tol=1e-5)
    began = time.process_time()
    found = maxcut(torus(n), tol=1e-5)
    seconds, result = time.process_time() - began, found.result
    facts = {"s": seconds, "value": result.primal, "bound": found.bound, "gap": result.gap}
    return [(f"torus {len(found.cut)}", result.method, *one) for one in facts.items()]


CASES = {name: partial(solve, name, optimum) for name, optimum in sorted(published().items())}
CASES["torus 20000"] = partial(cut_torus, 20_000)

if __name__ == "__main__":
    run_script("sdp", CASES)
