"""How long the first fits take while all is still to be compiled, and afterwards: ``python benchmarks/first_fits.py``.

Two processes share a cache folder that begins empty: the first compiles, the second finds all there. Each makes a
cluster fit and a distance fit. Seconds are of the processor, imports left out.
"""

import json
import tempfile

from side_by_side import in_process

from quartic.bench.numbers import run_script

FITS = """
import json, time
import numpy as np
from quartic import DistanceCompletion, SymNMF
from quartic.datasets import helix, pair_distances, random_pairs

links = np.random.default_rng(0).random((300, 300)) < 0.1
points, pairs = helix(400, random_state=0), random_pairs(400, 0.2, random_state=0)
distances, began = pair_distances(points, pairs), time.process_time()
SymNMF(4, random_state=0).fit((links | links.T).astype(float))
middle = time.process_time()
DistanceCompletion(3, random_state=0).fit_pairs(pairs, distances)
print(json.dumps({"clusters": middle - began, "distances": time.process_time() - middle}))
"""


def measure():
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (json.loads(in_process("-c", FITS, NUMBA_CACHE_DIR=folder)) for _ in range(2))
    return [(name, "", *one) for name in cold for one in (("first, s", cold[name]), ("afterwards, s", warm[name]))]


if __name__ == "__main__":
    run_script("first", {"fits": measure})
