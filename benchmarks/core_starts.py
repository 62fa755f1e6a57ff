"""How often a random start finds the points: the core of `lm` with a column more than wanted, and without.

    python benchmarks/core_starts.py                # twenty starts on each of twelve shapes, about a minute
    python benchmarks/core_starts.py --starts 4

First the core alone: 20 times as many points as pairs a point, pairs drawn at random. Then whole runs of `minimize`,
where only near points know their distance, with the core and without. Found: a normalised RMSE below 1e-4.
"""

from __future__ import annotations

import argparse
from unittest.mock import patch

import numpy as np

from quartic import Problem, minimize
from quartic.datasets import helix, pairs_within, random_pairs
from quartic.losses import Distances
from quartic.metrics import normalized_rmse
from quartic.solvers import LevenbergMarquardt
from quartic.solvers import core as by_core


def corner(n, g):
    X = g.random((4 * n, 2))
    return X[(X < 0.3).any(axis=1)][:n]


def ring(n, g):
    t = 2 * np.pi * g.random(n)
    return np.column_stack([np.cos(t), np.sin(t)])


def s_curve(n, g):
    t = 3 * np.pi * (g.random(n) - 0.5)
    return np.column_stack([np.sin(t), np.sign(t) * (np.cos(t) - 1), 2 * g.random(n)])


SHAPES = {
    "helix": lambda n, g: helix(n, random_state=g),
    "square": lambda n, g: g.random((n, 2)),
    "cube": lambda n, g: g.random((n, 3)),
    "six clusters": lambda n, g: 3 * g.standard_normal((6, 3))[g.integers(0, 6, n)] + 0.2 * g.standard_normal((n, 3)),
    "rod": lambda n, g: g.random((n, 3)) * [1, 0.1, 0.1],
    "sheet": lambda n, g: g.random((n, 3)) * [1, 1, 0.05],
    "corner": corner,
    "Gaussian": lambda n, g: g.standard_normal((n, 3)),
    "two far clouds": lambda n, g: g.standard_normal((n, 3)) + np.outer(20 * (g.random(n) < 0.5), [1, 0, 0]),
    "heavy tails": lambda n, g: g.standard_t(2, (n, 3)),
    "ring": ring,
    "S": s_curve,
}
NEAR = {
    "square, n = 150, within 0.45": (lambda g: g.random((150, 2)), 0.45),
    "square, n = 300, within 0.5": (lambda g: g.random((300, 2)), 0.5),
    "cube, n = 300, within 0.5": (lambda g: g.random((300, 3)), 0.5),
    "strip 3 × 1, n = 300, within 0.9": (lambda g: g.random((300, 2)) * [3, 1], 0.9),
}


def loss_of(X, pairs):
    return Distances(pairs, ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1), n_points=len(X))


def core_finds(shape, degree, seed):
    g = np.random.default_rng(seed)
    X = SHAPES[shape](20 * degree, g)
    loss = loss_of(X, random_pairs(len(X), degree / (len(X) - 1), random_state=seed))
    X0 = loss.random_start(X.shape[1], False, g)
    found = by_core.by_way_of_core(loss, X0, degree, 1e-2, None, (0.3, 200))
    return found is not None and normalized_rmse(found[0], X) < 1e-4


def run_finds(name, solver, seed):
    make, radius = NEAR[name]
    X = make(np.random.default_rng(seed))
    loss = loss_of(X, pairs_within(X, radius))
    result = minimize(Problem(loss), rank=X.shape[1], solver=solver, tol=1e-9, max_iter=300, random_state=seed)
    return normalized_rmse(result.X, X) < 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20)
    seeds = range(parser.parse_args().starts)
    ways = {"48 pairs a point": (48, False), "24": (24, False), "24, wider first": (24, True)}
    print(f"| shape, of {len(seeds)} starts | {' | '.join(ways)} |\n{'|---' * (len(ways) + 1)}|")
    total = dict.fromkeys(ways, 0)
    for shape in SHAPES:
        cells = []
        for way, (degree, wider) in ways.items():
            leave = patch.object(Distances, "widened", Distances.widened if wider else lambda self, p: None)
            with leave:
                found = sum(core_finds(shape, degree, seed) for seed in seeds)
            total[way] += found
            cells.append(str(found))
        print(f"| {shape} | {' | '.join(cells)} |", flush=True)
    print(f"| all | {' | '.join(map(str, total.values()))} |\n")
    print(f"| near points only, of {len(seeds)} starts | without a core | with |\n|---|---|---|")
    for name in NEAR:
        cells = [sum(run_finds(name, s, seed) for seed in seeds) for s in (LevenbergMarquardt(core=0), "auto")]
        print(f"| {name} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
