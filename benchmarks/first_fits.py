"""How long the first fits take while everything is still to be compiled, beside the same fits afterwards.

    python benchmarks/first_fits.py [--results results]

Two processes share a cache folder that begins empty: the first compiles, the second finds all there. Each makes a
cluster fit and a distance fit. Seconds are of the processor, imports left out.
"""

import json
import sys
import tempfile
import time

import numpy as np
from side_by_side import in_process


def fits() -> dict[str, float]:
    """Return the seconds of the first fit of each kind in this process."""
    from quartic import DistanceCompletion, SymNMF
    from quartic.datasets import helix, pair_distances, random_pairs

    links = np.random.default_rng(0).random((300, 300)) < 0.1
    points, pairs = helix(400, random_state=0), random_pairs(400, 0.2, random_state=0)
    distances, times = pair_distances(points, pairs), [time.process_time()]
    SymNMF(4, random_state=0).fit((links | links.T).astype(float))
    times.append(time.process_time())
    DistanceCompletion(3, random_state=0).fit_pairs(pairs, distances)
    return dict(zip(("clusters", "distances"), np.diff([*times, time.process_time()]), strict=True))


def measure():
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (in_process(__file__, "fits", NUMBA_CACHE_DIR=folder) for _ in range(2))
    return [(name, "", *one) for name in cold for one in (("first, s", cold[name]), ("afterwards, s", warm[name]))]


if __name__ == "__main__":
    if sys.argv[1:] == ["fits"]:
        print(json.dumps(fits()))
    else:
        from quartic.bench.numbers import run_script

        run_script("first", {"fits": measure})
