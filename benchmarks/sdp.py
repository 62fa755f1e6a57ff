"""SDPLIB's problems and a large MaxCut: value, errors, certified gap and processor time, beside CSDP's.

    python benchmarks/sdp.py [NAME ...] [--csdp] [--torus 20000]

reads ``$QUARTIC_DATA/sdplib/*.dat-s.gz``. Times are of the processor, one thread, after one run that compiles.
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

import numpy as np
from scipy import sparse

from quartic.sdp import maxcut, read_sdpa, solve_sdp

DATA = Path(os.environ.get("QUARTIC_DATA", "data")) / "sdplib"


def published() -> dict[str, str]:
    """Return the optima in the folder's README."""
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


def main() -> None:
    """Print a line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--csdp", action="store_true")
    parser.add_argument("--torus", type=int, default=0)
    options = parser.parse_args()
    optima = published()
    for name in ("mcp100", "theta1", "gpp100"):
        solve_sdp(read_sdpa(DATA / f"{name}.dat-s.gz"))
    print(
        "| problem | published | value | errors | gap | status | method | rank | seconds |" + " CSDP |" * options.csdp
    )
    print("|---" * (9 + options.csdp) + "|")
    for name in options.names or sorted(optima):
        path = DATA / f"{name}.dat-s.gz"
        problem = read_sdpa(path)
        began = time.process_time()
        result = solve_sdp(problem)
        seconds = time.process_time() - began
        worst, rank = max(result.errors.values()), max(result.rank)
        line = f"| {name} | {optima.get(name, '')} | {result.primal:.7e} | {worst:.0e} | {result.gap:.0e} "
        line += f"| {result.status} | {result.method} | {rank} | {seconds:.2f} |"
        if options.csdp and shutil.which("csdp"):
            line += f" {csdp_seconds(path):.2f} |"
        print(line, flush=True)
    if options.torus:
        began = time.process_time()
        found = maxcut(torus(options.torus), tol=1e-5)
        seconds, result = time.process_time() - began, found.result
        print(f"torus {len(found.cut)}: {result.primal:.6f} ≤ {found.bound:.6f}, gap {result.gap:.1e}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
