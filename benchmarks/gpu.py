"""What a GPU does: ``python benchmarks/gpu.py [symnmf large small edmc agreement] [--results results]``.

Data are made on the device. Seconds are wall clock with the device idle before and after, compiled code warmed up; the
start and the sorting of pairs count. Fills the section ``gpu`` of the results. ``QUARTIC_MILLION`` may say that a
million is fewer, for a look.
"""

from __future__ import annotations

import os
import time
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
import torch

from quartic import Problem, minimize
from quartic.bench.numbers import run_script
from quartic.init import random_start, spectral_start
from quartic.losses import Distances, LeastSquares
from quartic.losses.factor import torch_matrix
from quartic.penalties import Nonnegative
from quartic.solvers import LevenbergMarquardt

MILLION, DEVICE = int(os.environ.get("QUARTIC_MILLION", 1_000_000)), torch.device("cuda")


def told(case: str, method: str, **facts: float):
    """Return the numbers of one row of results."""
    return [(case, method, name.replace("_", " "), float(value)) for name, value in facts.items()]


def seconds_of(work):
    """Return what the work returns, and the seconds until the device is done with it."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - began


def planted(n: int, groups: int, dtype, device, seed: int = 0):
    """Each node draws 10 neighbours, 85 % within its community; W + Wᵀ + I, normalised; and the communities."""
    torch.cuda.empty_cache()
    g = torch.Generator(device).manual_seed(seed)
    member = torch.randint(groups, (n,), generator=g, device=device)
    order, size = member.sort()[1], torch.bincount(member, minlength=groups)
    first = size.cumsum(0) - size
    rows = torch.arange(n, device=device).repeat_interleave(10)
    m = member[rows]
    inside = order[first[m] + (torch.rand(len(rows), generator=g, device=device, dtype=torch.float64) * size[m]).long()]
    other = torch.randint(n, (len(rows),), generator=g, device=device)
    columns = torch.where(torch.rand(len(rows), generator=g, device=device) < 0.85, inside, other)
    nodes = torch.arange(n, device=device)
    keys, count = torch.unique(torch.cat([rows * n + columns, columns * n + rows, nodes * (n + 1)]), return_counts=True)
    rows, columns = keys // n, keys % n
    scale = torch.zeros(n, device=device, dtype=torch.float64).index_add_(0, rows, count.double()).rsqrt()
    values = (count * scale[rows] * scale[columns]).to(dtype)
    start = torch.zeros(n + 1, dtype=torch.int64, device=device)
    start[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    return torch.sparse_csr_tensor(start, columns, values, (n, n)), member


def cloud(n: int, m: int, dtype, device, seed: int = 0):
    """Points in the unit cube, m random pairs and their squared distances."""
    g = torch.Generator(device).manual_seed(seed)
    points = torch.rand((n, 3), generator=g, device=device, dtype=torch.float64)
    pairs = torch.randint(n, (m + m // 50 + 10, 2), generator=g, device=device)
    keys = torch.unique((pairs.amin(1) * n + pairs.amax(1))[pairs[:, 0] != pairs[:, 1]])
    keys = keys[torch.randperm(len(keys), generator=g, device=device)[:m]]
    pairs = torch.stack([keys // n, keys % n], dim=1)
    return points, pairs, (points[pairs[:, 0]] - points[pairs[:, 1]]).square().sum(1).to(dtype)


def rmse(X, points) -> float:
    """Normalised, over ten million pairs."""
    i, j = torch.randint(len(X), (2, 10_000_000), generator=torch.Generator(X.device).manual_seed(5), device=X.device)
    found, true = (X[i] - X[j]).double().norm(dim=1), (points[i] - points[j]).norm(dim=1)
    return float(((found - true).square().mean() / true.square().mean()).sqrt())


def symnmf(n: int = MILLION, dtypes=(torch.float32, torch.float64)):
    for dtype in dtypes:
        M, member = planted(n, 32, dtype, DEVICE)
        loss, checks = seconds_of(lambda M=M: LeastSquares(M))
        problem, settings = Problem(loss, Nonnegative()), {"rank": 32, "reference": random_start, "tol": 1e-3}
        minimize(problem, spectral_start, **settings, random_state=99, max_iter=3)
        runs = [seconds_of(lambda s=s: minimize(problem, spectral_start, **settings, random_state=s)) for s in range(3)]  # noqa: B023
        result, X = runs[-1][0], runs[-1][0].X
        groups = torch.bincount(X.argmax(dim=1) * 32 + member, minlength=32 * 32).reshape(32, 32)
        yield from told(
            "graph, million nodes" if n == MILLION else "graph, five million nodes", str(dtype).split(".")[1],
            s=float(np.median([seconds for _, seconds in runs])), checks_s=checks, products=result.n_products,
            entries=M.values().numel(),
            purity=float(groups.max(dim=1).values.sum()) / n,
        )  # fmt: skip


def large():
    return symnmf(5 * MILLION, (torch.float32,))


def small():
    """Sizes bound by launches: an iteration replayed on the device against one steered by the host, taking turns."""
    for n, rank, sparse in ((3000, 20, False), (20_000, 16, True)):
        Y = torch.rand((n, 2 * rank), device=DEVICE, dtype=torch.float64)
        M = planted(n, rank, torch.float64, DEVICE)[0] if sparse else Y @ Y.T / (Y @ Y.T).norm()
        problem = Problem(LeastSquares(M), Nonnegative())
        X0 = 0.05 * torch.rand((n, rank), device=DEVICE, dtype=torch.float64)
        for solver in ("inertial", "lbfgs"):
            found: dict[int, list[float]] = {0: [], torch_matrix._LAUNCH_BOUND: []}
            for _ in range(4):  # the first is to compile
                for bound, times in found.items():
                    with patch.object(torch_matrix, "_LAUNCH_BOUND", bound):
                        result, s = seconds_of(lambda: minimize(problem, X0, solver=solver, tol=0.0, max_iter=320))  # noqa: B023
                    times.append(1e3 * s / result.n_iter)
            host, replayed = (float(np.median(times[1:])) for times in found.values())
            case = f"{'graph' if sparse else 'dense'}, {n} nodes, rank {rank}"
            yield from told(case, solver, ms_an_iteration=replayed, by_the_host=host, ratio=host / replayed)


def edmc():
    """Random pairs, 20 for each point, from a random start; sorting counts."""
    for dtype in (torch.float32, torch.float64):
        points, pairs, squared = cloud(MILLION, 20 * MILLION, dtype, DEVICE)
        for solver in ("auto", "ncg", "lbfgs"):
            settings = {"rank": 3, "solver": solver}
            minimize(Problem(Distances(pairs, squared)), **settings, tol=0.0, max_iter=4, random_state=9)

            def run(seed, settings=settings, pairs=pairs, squared=squared):
                return minimize(Problem(Distances(pairs, squared)), **settings, tol=1e-5, random_state=seed)

            runs = [seconds_of(lambda s=s: run(s)) for s in range(2)]
            case, name = "million points, twenty million pairs", f"{str(dtype).split('.')[1]} {solver}"
            yield from told(case, name, s=float(np.median([s for _, s in runs])), passes=runs[-1][0].n_products,
                            rmse=max(rmse(result.X, points) for result, _ in runs))  # fmt: skip


def agreement():
    """The same runs in float64 by NumPy on the host and by torch on the device: largest difference of X."""
    M, _ = planted(20_000, 16, torch.float64, DEVICE)
    host = sp.csr_array((M.values().cpu().numpy(), M.col_indices().cpu().numpy(), M.crow_indices().cpu().numpy()))
    X0 = np.random.default_rng(0).uniform(0.01, 0.05, (20_000, 16))
    both = [Problem(LeastSquares(matrix), Nonnegative()) for matrix in (host, M)]
    jobs = [("symnmf", both, X0, solver) for solver in ("inertial", "lbfgs", "dyn-nolips", "pg")]
    _, pairs, squared = cloud(5000, 100_000, torch.float64, DEVICE)
    X0 = np.random.default_rng(1).standard_normal((5000, 3)) * 0.4
    both = [Problem(Distances(pairs.cpu().numpy(), squared.cpu().numpy())), Problem(Distances(pairs, squared))]
    jobs += [("edmc", both, X0, solver) for solver in (LevenbergMarquardt(core=0), "ncg", "gd", "dyn-nolips", "tr")]
    for name, (here, there), X0, solver in jobs:
        ours = minimize(here, X0, solver=solver, tol=0.0, max_iter=20)
        theirs = minimize(there, torch.from_numpy(X0).to(DEVICE), solver=solver, tol=0.0, max_iter=20)
        gap = float(np.abs(ours.X - theirs.X.cpu().numpy()).max())
        case = f"host and device, {name}, 20 iterations"
        yield from told(case, getattr(solver, "name", solver), largest_difference=gap)


CASES = {"symnmf": symnmf, "large": large, "small": small, "edmc": edmc, "agreement": agreement}

if __name__ == "__main__":
    run_script("gpu", CASES, machine=torch.cuda.get_device_name(), versions=f"torch {torch.__version__}")
