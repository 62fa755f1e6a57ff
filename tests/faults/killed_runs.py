"""Kill runs at random moments and let them go on from their checkpoints; tell what became of them, as JSON.

Called as ``python killed_runs.py FOLDER KILLS SEED [SOLVER...]``. Every iteration is checkpointed, so that many kills
fall into a write. Each run is killed until it has had its share, then left to end; its answer must be that of a run
never killed, bit for bit.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from quartic import Problem, minimize
from quartic.core import loop
from quartic.losses import Distances, LeastSquares, RawStress
from quartic.penalties import Nonnegative
from quartic.solvers import SOLVERS
from quartic.solvers.registry import why_not


def problem_for(name):
    rng = np.random.default_rng(1)
    A = rng.random((40, 40))
    graph = Problem(LeastSquares(A + A.T), Nonnegative())
    if why_not(SOLVERS[name](), graph) is None:
        return graph
    X = rng.standard_normal((40, 3))
    pairs = np.array(np.triu_indices(40, 1)).T[::3]
    noise = 1 + 0.2 * rng.standard_normal(len(pairs))  # so that no solver is done in a few iterations
    squares = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1) * noise**2
    points = Problem(Distances(pairs, squares, 40))
    return points if why_not(SOLVERS[name](), points) is None else Problem(RawStress(pairs, np.sqrt(squares)))


def run(name, path=None):
    loop._CHECKPOINT_EVERY = 0.0
    return minimize(problem_for(name), rank=3, solver=name, tol=1e-13, max_iter=60, random_state=7, checkpoint=path)


def answer(result):
    # not the products: what a loss works out once and keeps, a run that goes on works out once more, and says so
    return result.X.tobytes(), result.history.objective.tobytes(), str(result.status), result.n_iter


def killed_once(name, path, delay):
    """Run in a child and kill it after ``delay`` seconds; tell whether it was killed before its end."""
    child = os.fork()
    if child == 0:
        try:
            run(name, path)
        finally:
            os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(folder, kills, seed, names):
    rng = np.random.default_rng(seed)
    told = []
    for name in names:
        whole = answer(run(name))
        path = Path(folder) / f"{name}.npz"
        started = time.perf_counter()
        run(name, path)
        seconds = time.perf_counter() - started
        path.unlink()
        done = strays = 0
        while done < kills:
            if not killed_once(name, path, rng.uniform(0, seconds)):
                path.unlink()  # it came to its end: from the beginning
            else:
                done += 1
            strays += any(folder_file.suffix == ".tmp" for folder_file in Path(folder).iterdir())
        began_at = len(np.load(path)["history"]) - 1 if path.exists() else 0
        same = answer(run(name, path)) == whole
        left = sorted(file.name for file in Path(folder).iterdir() if file.suffix == ".tmp")
        told.append(
            {
                "solver": name,
                "kills": done,
                "within a write": strays,
                "resumed at": began_at,
                "same": same,
                "left": left,
            }
        )
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or list(SOLVERS))
