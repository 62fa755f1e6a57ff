"""What a GPU does: ``python benchmarks/gpu.py [symnmf large small edmc agreement features] [--results results]``.

Data are made on the device. Seconds are wall clock with the device idle before and after, compiled code warmed up; the
start and the sorting of pairs count. Fills the section ``gpu`` of the results.
"""

from __future__ import annotations

import argparse
import time
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
import torch

from quartic import Problem, SymNMF, minimize
from quartic.bench.numbers import Number, keep_numbers
from quartic.graphs import similarity
from quartic.init import random_start, spectral_start
from quartic.losses import Distances, LeastSquares
from quartic.losses.factor import torch_matrix
from quartic.penalties import Nonnegative
from quartic.solvers import LevenbergMarquardt

NUMBERS: list[Number] = []


def say(case: str, method: str, **facts: float) -> None:
    """Print one row of results, and keep it."""
    NUMBERS.extend(Number("gpu", case, method, name.replace("_", " "), float(v)) for name, v in facts.items())
    print(f"{case}; {method}:", ", ".join(f"{name} {value:.4g}" for name, value in facts.items()), flush=True)


def seconds_of(work):
    """Return what the work returns, and the seconds until the device is done with it."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - began


def planted(n: int, groups: int, dtype, device, seed: int = 0):
    """Each node draws 10 neighbours, 85 % within its community; W + Wᵀ + I, normalised; and the communities."""
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


def symnmf(a, n: int = 0, dtypes=(torch.float32, torch.float64)) -> None:
    for dtype in dtypes:
        n = n or a.n
        M, member = planted(n, 32, dtype, a.device)
        loss, checks = seconds_of(lambda M=M: LeastSquares(M))
        problem, settings = Problem(loss, Nonnegative()), {"rank": 32, "reference": random_start, "tol": 1e-3}
        minimize(problem, spectral_start, **settings, random_state=99, max_iter=3)
        runs = [seconds_of(lambda s=s: minimize(problem, spectral_start, **settings, random_state=s)) for s in range(3)]  # noqa: B023
        result, X = runs[-1][0], runs[-1][0].X
        groups = torch.bincount(X.argmax(dim=1) * 32 + member, minlength=32 * 32).reshape(32, 32)
        say(
            {a.n: "graph, million nodes", 5 * a.n: "graph, five million nodes"}[n], str(dtype).split(".")[1],
            s=float(np.median([seconds for _, seconds in runs])), checks_s=checks, products=result.n_products,
            entries=M.values().numel(),
            purity=float(groups.max(dim=1).values.sum()) / n,
        )  # fmt: skip


def large(a) -> None:
    symnmf(a, 5 * a.n, (torch.float32,))


def small(a) -> None:
    """Sizes bound by launches: an iteration replayed on the device against one steered by the host, taking turns."""
    for n, rank, sparse in ((3000, 20, False), (20_000, 16, True)):
        Y = torch.rand((n, 2 * rank), device=a.device, dtype=torch.float64)
        M = planted(n, rank, torch.float64, a.device)[0] if sparse else Y @ Y.T / (Y @ Y.T).norm()
        problem = Problem(LeastSquares(M), Nonnegative())
        X0 = 0.05 * torch.rand((n, rank), device=a.device, dtype=torch.float64)
        for solver in ("inertial", "lbfgs"):
            found: dict[int, list[float]] = {0: [], torch_matrix._LAUNCH_BOUND: []}
            for _ in range(4):  # the first is to compile
                for bound, times in found.items():
                    with patch.object(torch_matrix, "_LAUNCH_BOUND", bound):
                        result, s = seconds_of(lambda: minimize(problem, X0, solver=solver, tol=0.0, max_iter=320))  # noqa: B023
                    times.append(1e3 * s / result.n_iter)
            host, replayed = (float(np.median(times[1:])) for times in found.values())
            case = f"{'graph' if sparse else 'dense'}, {n} nodes, rank {rank}"
            say(case, solver, ms_an_iteration=replayed, by_the_host=host, ratio=host / replayed)


def edmc(a) -> None:
    """Random pairs, 20 for each point, from a random start; sorting counts."""
    for dtype in (torch.float32, torch.float64):
        points, pairs, squared = cloud(a.n, 20 * a.n, dtype, a.device)
        for solver in ("auto", "ncg", "lbfgs"):
            settings = {"rank": 3, "solver": solver}
            minimize(Problem(Distances(pairs, squared)), **settings, tol=0.0, max_iter=4, random_state=9)

            def run(seed, settings=settings, pairs=pairs, squared=squared):
                return minimize(Problem(Distances(pairs, squared)), **settings, tol=1e-5, random_state=seed)

            runs = [seconds_of(lambda s=s: run(s)) for s in range(2)]
            case, name = "million points, twenty million pairs", f"{str(dtype).split('.')[1]} {solver}"
            say(case, name, s=float(np.median([s for _, s in runs])), passes=runs[-1][0].n_products,
                rmse=max(rmse(result.X, points) for result, _ in runs))  # fmt: skip


def agreement(a) -> None:
    """The same runs in float64 by NumPy on the host and by torch on the device: largest difference of X."""
    M, _ = planted(20_000, 16, torch.float64, a.device)
    host = sp.csr_array((M.values().cpu().numpy(), M.col_indices().cpu().numpy(), M.crow_indices().cpu().numpy()))
    X0 = np.random.default_rng(0).uniform(0.01, 0.05, (20_000, 16))
    both = [Problem(LeastSquares(matrix), Nonnegative()) for matrix in (host, M)]
    jobs = [("symnmf", both, X0, solver) for solver in ("inertial", "lbfgs", "dyn-nolips", "pg")]
    _, pairs, squared = cloud(5000, 100_000, torch.float64, a.device)
    X0 = np.random.default_rng(1).standard_normal((5000, 3)) * 0.4
    both = [Problem(Distances(pairs.cpu().numpy(), squared.cpu().numpy())), Problem(Distances(pairs, squared))]
    jobs += [("edmc", both, X0, solver) for solver in (LevenbergMarquardt(core=0), "ncg", "gd", "dyn-nolips", "tr")]
    for name, (here, there), X0, solver in jobs:
        ours = minimize(here, X0, solver=solver, tol=0.0, max_iter=20)
        theirs = minimize(there, torch.from_numpy(X0).to(a.device), solver=solver, tol=0.0, max_iter=20)
        gap = float(np.abs(ours.X - theirs.X.cpu().numpy()).max())
        say(f"host and device, {name}, 20 iterations", getattr(solver, "name", solver), largest_difference=gap)


def features(a) -> None:
    """Points about 50 centres in 64 dimensions: neighbours, similarities and clusters, the points to their labels."""
    for seed in range(2):
        g = torch.Generator(a.device).manual_seed(seed)
        centres = torch.randn((50, 64), generator=g, device=a.device)
        member = torch.randint(50, (a.n,), generator=g, device=a.device)
        X = centres[member] + 0.8 * torch.randn((a.n, 64), generator=g, device=a.device)
        model = SymNMF(50, affinity="self_tuning", random_state=seed)
        if seed == 0:
            model.fit(X[:20_000])  # to compile
        torch.cuda.reset_peak_memory_stats()
        W, graph_s = seconds_of(lambda X=X: similarity(X, "self_tuning"))
        model, s = seconds_of(lambda model=model, X=X: model.fit(X))
        groups = torch.bincount(model.labels_ * 50 + member, minlength=50 * 50).reshape(50, 50)
        say("features, a million points in 64 dimensions", f"seed {seed}", s=s, graph_s=graph_s,
            entries=W.values().numel(), iterations=model.n_iter_, peak_GiB=torch.cuda.max_memory_allocated() / 2**30,
            purity=float(groups.max(dim=1).values.sum()) / a.n)  # fmt: skip


SECTIONS = {
    "symnmf": symnmf,
    "large": large,
    "small": small,
    "edmc": edmc,
    "agreement": agreement,
    "features": features,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; all when left out")
    parser.add_argument("--n", type=int, default=1_000_000, help="how many a million is")
    parser.add_argument("--results", default="results", help="folder for results")
    a = parser.parse_args()
    a.device = torch.device("cuda")
    for name in a.sections or SECTIONS:
        SECTIONS[name](a)
        torch.cuda.empty_cache()
    about = {"machine": torch.cuda.get_device_name(), "versions": f"torch {torch.__version__}"}
    print(keep_numbers(a.results, "gpu", NUMBERS, "python benchmarks/gpu.py", **about).path)


if __name__ == "__main__":
    main()
