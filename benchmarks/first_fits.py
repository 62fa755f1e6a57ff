"""How long the first fits take while everything is still to be compiled, beside the same fits afterwards.

    python benchmarks/first_fits.py

Two processes share a cache folder that begins empty: the first compiles, the second finds all there.
Each makes a cluster fit and a distance fit. Printed are seconds of processor time, imports left out, and their ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time


def fits() -> dict[str, float]:
    """Return the seconds of the first fit of each kind in this process."""
    import numpy as np

    from quartic import DistanceCompletion, SymNMF
    from quartic.datasets import helix, pair_distances, random_pairs

    rng = np.random.default_rng(0)
    links = rng.random((300, 300)) < 0.1
    points, pairs = helix(400, random_state=0), random_pairs(400, 0.2, random_state=0)
    distances = pair_distances(points, pairs)
    seconds = {}
    for name, fit in {
        "clusters": lambda: SymNMF(4, random_state=0).fit((links | links.T).astype(float)),
        "distances": lambda: DistanceCompletion(3, random_state=0).fit_pairs(pairs, distances),
    }.items():
        begin = time.process_time()
        fit()
        seconds[name] = time.process_time() - begin
    return seconds


def main() -> None:
    """Run both processes and print."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            json.loads(
                subprocess.run(
                    [sys.executable, __file__, "fits"],
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(2)
        ]
    cold, warm = rows
    for name in cold:
        print(
            f"{name:10} first {cold[name]:6.2f} s, afterwards {warm[name]:6.2f} s, ratio {cold[name] / warm[name]:.1f}"
        )
    print(f"together   first {sum(cold.values()):6.2f} s, afterwards {sum(warm.values()):6.2f} s")


if __name__ == "__main__":
    if sys.argv[1:] == ["fits"]:
        print(json.dumps(fits()))
    else:
        main()
