"""What a GPU does: ``python benchmarks/gpu.py [symnmf large dense small ratios edmc ...] [--results results]``.

Data are made on the device. Seconds are wall clock with the device idle before and after, compiled code warmed up; the
start and the sorting of pairs count. Fills the section ``gpu`` of the results. ``QUARTIC_MILLION`` may say that a
million is fewer, for a look.
"""

from __future__ import annotations

import gc
import os
import time
from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from distance_acceptance import large as large_field

from quartic import Problem, SymNMF, minimize
from quartic.bench.numbers import record, run_script
from quartic.graphs import similarity
from quartic.losses import Distances, LeastSquares
from quartic.losses.factor import torch_matrix
from quartic.losses.factor.torch_matrix import csr
from quartic.metrics import normalized_rmse
from quartic.penalties import Nonnegative

MILLION, DEVICE = int(os.environ.get("QUARTIC_MILLION", 1_000_000)), torch.device("cuda")


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
    return csr(start, columns, values, n), member


def cloud(n: int, m: int, dtype, device, seed: int = 0):
    """Points in the unit cube, m random pairs and their squared distances."""
    g = torch.Generator(device).manual_seed(seed)
    points = torch.rand((n, 3), generator=g, device=device, dtype=torch.float64)
    pairs = torch.randint(n, (m + m // 50 + 10, 2), generator=g, device=device)
    keys = torch.unique((pairs.amin(1) * n + pairs.amax(1))[pairs[:, 0] != pairs[:, 1]])
    keys = keys[torch.randperm(len(keys), generator=g, device=device)[:m]]
    pairs = torch.stack([keys // n, keys % n], dim=1)
    return points, pairs, (points[pairs[:, 0]] - points[pairs[:, 1]]).square().sum(1).to(dtype)


def purity(labels, member, k: int) -> float:
    """Return the share of nodes that belong where most of their cluster do."""
    groups = torch.bincount(torch.as_tensor(labels).to(member) * k + member, minlength=k * k).reshape(k, k)
    return float(groups.max(dim=1).values.sum()) / len(member)


def cluster(case: str, method: str, M, rank: int, member=None, seeds: int = 3):
    """Time `SymNMF.fit` on a matrix, checks of it included; the first fit is to compile."""
    runs = []
    for seed in range(-1, seeds):
        gc.collect()  # what compiling left behind
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model, seconds = seconds_of(lambda seed=seed: SymNMF(rank, random_state=seed + 1).fit(M))
        pure = 1.0 if member is None else purity(model.labels_, member, rank)
        norm = float((M.values() if M.layout == torch.sparse_csr else M).norm())
        facts = {"s": seconds, "products": model.result_.n_products, "purity": pure}
        history = model.result_.history  # the residual is the root of the objective; what is no iteration comes first
        near = int(np.argmax(np.sqrt(history.objective / history.objective[-1]) <= 1.04))
        late = seconds - history.time[-1] + history.time[near]
        facts |= {"residual": (2 * model.objective_) ** 0.5 / norm, "s to 1.04 times it": late}
        facts |= {"peak GiB": torch.cuda.max_memory_allocated() / 2**30}
        runs.append(facts)
        del model
    middle = {name: float(np.median([run[name] for run in runs[1:]])) for name in runs[0]}
    checks = seconds_of(lambda: LeastSquares(M))[1]
    yield from record(case, method, **middle, slowest_s=max(run["s"] for run in runs[1:]), checks_s=checks)


def symnmf():
    """A million nodes, 21 million entries, k = 32."""
    for dtype in ("float32", "float64"):
        M, member = planted(MILLION, 32, getattr(torch, dtype), DEVICE)
        yield from cluster("graph, million nodes", dtype, M, 32, member)


def large():
    """The size of the Open Academic Graph, k = 16."""
    M, member = planted(int(37.7 * MILLION), 16, torch.float32, DEVICE)
    yield from cluster("graph, 37.7 million nodes", "float32", M, 16, member, seeds=2)


def _correlations(groups: int):
    """Of 10,000 series, with noise: with as many columns as groups a ninth of the norm remains."""
    g = torch.Generator(DEVICE).manual_seed(0)
    W = torch.rand((10_000, groups), generator=g, device=DEVICE) ** 4
    W /= W.norm(dim=1, keepdim=True)
    noise = 0.29 * torch.rand((10_000, 10_000), generator=g, device=DEVICE)
    return W @ W.T + (noise + noise.T) / 2


def dense():
    """Correlations of 10,000 series in 50 groups, and cosines of 46,985 documents on 7 topics."""
    yield from cluster("dense, 10,000 nodes", "rank 50", _correlations(50), 50)
    g = torch.Generator(DEVICE).manual_seed(0)
    words = torch.rand((46_985, 200), generator=g, device=DEVICE)
    topics = 0.3 + (torch.rand((7, 200), generator=g, device=DEVICE) > 0.7).float()
    words *= (words > 0.9) * topics[torch.randint(7, (46_985,), generator=g, device=DEVICE)]
    words /= words.norm(dim=1, keepdim=True).clamp(min=1e-9)
    yield from cluster("dense, 46,985 nodes", "rank 7", words @ words.T, 7)


def small():
    """Sizes bound by launches: an iteration replayed on the device against one steered by the host, taking turns."""
    for n, rank, sparse in ((3000, 20, False), (20_000, 16, True)):
        Y = torch.rand((n, 2 * rank), device=DEVICE, dtype=torch.float64)
        # more groups than columns: the run is not over before the iterations are
        M = planted(n, 8 * rank, torch.float64, DEVICE)[0] if sparse else Y @ Y.T / (Y @ Y.T).norm()
        problem = Problem(LeastSquares(M), Nonnegative())
        X0 = 0.05 * torch.rand((n, rank), device=DEVICE, dtype=torch.float64)
        for solver in ("inertial", "lbfgs"):
            found: dict[int, list[float]] = {0: [], 4_000_000: []}
            for _ in range(4):  # the first is to compile
                for bound, times in found.items():
                    with patch.dict(torch_matrix._LAUNCH_BOUND, {solver: bound}):
                        result, s = seconds_of(lambda: minimize(problem, X0, solver=solver, tol=0.0, max_iter=320))  # noqa: B023
                    times.append(1e3 * s / result.n_iter)
            host, replayed = (float(np.median(times[1:])) for times in found.values())
            case = f"{'graph' if sparse else 'dense'}, {n} nodes, rank {rank}"
            yield from record(case, solver, ms_an_iteration=replayed, by_the_host=host, ratio=host / replayed)


def ratios():
    """An iteration against the bare products, or passes over pairs, that it makes."""
    graph = planted(MILLION, 64, torch.float32, DEVICE)[0]
    for case, M, rank in (("dense, 10,000 nodes", _correlations(200), 50), ("graph, million nodes", graph, 32)):
        problem = Problem(LeastSquares(M), Nonnegative())
        X0 = 0.01 * torch.rand((len(M), rank), device=DEVICE)
        for solver in ("inertial", "lbfgs", "hals"):
            yield from _ratio(case, solver, problem, X0, lambda: problem.loss.matrix.product(X0))  # noqa: B023
    _, pairs, squared = cloud(MILLION, 20 * MILLION, torch.float32, DEVICE)
    problem, X0 = Problem(Distances(pairs, squared)), torch.rand((MILLION, 3), device=DEVICE)
    (point, _), V = problem.loss.linearize(X0), X0.double()
    bare = lambda: problem.loss.gauss_newton_product(point, V, torch.empty_like(V))  # noqa: E731
    yield from _ratio("million points, twenty million pairs", "lm", problem, X0, bare)


def _ratio(case, solver, problem, X0, bare):
    def run(count):
        return minimize(problem, X0, solver=solver, tol=0.0, max_iter=count).n_products

    run(40), bare()  # to compile
    # without what a call takes; the least of three
    short, long = (min(seconds_of(lambda count=count: run(count))[::-1] for _ in range(3)) for count in (8, 40))
    s = min(seconds_of(lambda: [bare() for _ in range(20)])[1] for _ in range(3)) / 20
    assert long[1] > short[1], f"{solver} was at round-off within eight iterations"
    each = (long[0] - short[0]) / (long[1] - short[1])
    yield from record(case, solver, ms_a_product=1e3 * each, bare=1e3 * s, ratio=each / s)


def edmc():
    """Random pairs, 20 for each point; checks and sorting count."""
    single, double = torch.float32, torch.float64
    for n, dtype, solver, seeds in (
        (1, single, "auto", 5), (1, double, "auto", 5), (1, single, "ncg", 3), (10, single, "auto", 2)
    ):  # fmt: skip
        points, pairs, squared = cloud(n * MILLION, 20 * n * MILLION, dtype, DEVICE)

        def run(seed, pairs=pairs, squared=squared, solver=solver):
            return minimize(Problem(Distances(pairs, squared)), rank=3, solver=solver, tol=1e-5, random_state=seed)

        run(99)  # to compile
        runs = [seconds_of(lambda s=s: run(s)) for s in range(seeds)]
        case = f"{'ten ' if n == 10 else ''}million points, {'two hundred' if n == 10 else 'twenty'} million pairs"
        yield from record(
            case, f"{str(dtype).split('.')[1]} {solver}", s=float(np.median([s for _, s in runs])),
            slowest_s=max(s for _, s in runs), passes=runs[-1][0].n_products,
            rmse=max(normalized_rmse(result.X.cpu().numpy(), points.cpu().numpy()) for result, _ in runs),
        )  # fmt: skip


def features():
    """Points about 50 centres in 64 dimensions: neighbours, similarities and clusters, the points to their labels."""
    for seed in range(2):
        g = torch.Generator(DEVICE).manual_seed(seed)
        centres = torch.randn((50, 64), generator=g, device=DEVICE)
        member = torch.randint(50, (MILLION,), generator=g, device=DEVICE)
        X = centres[member] + 0.8 * torch.randn((MILLION, 64), generator=g, device=DEVICE)
        model = SymNMF(50, affinity="self_tuning", random_state=seed)
        if seed == 0:
            model.fit(X[:20_000])  # to compile
        torch.cuda.reset_peak_memory_stats()
        W, graph_s = seconds_of(lambda X=X: similarity(X, "self_tuning"))
        model, s = seconds_of(lambda model=model, X=X: model.fit(X))
        facts = {"s": s, "graph s": graph_s, "entries": W.values().numel(), "iterations": model.n_iter_}
        facts |= {"peak GiB": torch.cuda.max_memory_allocated() / 2**30, "purity": purity(model.labels_, member, 50)}
        yield from record("features, a million points in 64 dimensions", f"seed {seed}", **facts)


CASES = {case.__name__: case for case in (symnmf, large, dense, small, ratios, edmc, features)}
CASES["field"] = partial(large_field, "square", N=MILLION, device="cuda", n_jobs=-1)

if __name__ == "__main__":
    run_script("gpu", CASES, machine=torch.cuda.get_device_name(), versions=f"torch {torch.__version__}")
