"""Everything measured on a GPU: ``python benchmarks/gpu.py SECTION ... [--out FOLDER]``, written to benchmarks/gpu.md.

Sections: pieces, symnmf, large, edmc, agreement, quiet. Data are made on the device. Timings are wall clock with the
device idle before and after, medians, compiled code warmed up; those of single passes are taken by device events.
"""

# ruff: noqa: B023  # what is timed is called at once, while the loop variables are what they are

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch

from quartic import Problem, minimize
from quartic.arrays import waiting
from quartic.arrays.workspace import Fresh
from quartic.init import random_start, spectral_start
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import LevenbergMarquardt

ROWS: list[dict] = []


def say(section: str, **facts: object) -> None:
    """Print one row of results, and keep it."""
    ROWS.append({"section": section, **facts})
    print(
        section, " ".join(f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in facts.items()), flush=True
    )


def ready() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def clock(work, repeats: int = 15) -> float:
    """Return the median milliseconds of a piece of work on the device."""
    work()
    work()
    if not torch.cuda.is_available():
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - began)
        return 1e3 * float(np.median(seconds))
    times = []
    for _ in range(repeats):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        work()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return float(np.median(times))


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
    keys = torch.cat([rows * n + columns, columns * n + rows, nodes * (n + 1)])
    keys, count = torch.unique(keys, return_counts=True)
    rows, columns = keys // n, keys % n
    degree = torch.zeros(n, device=device, dtype=torch.float64).index_add_(0, rows, count.double())
    scale = degree.rsqrt()
    values = (count * scale[rows] * scale[columns]).to(dtype)
    start = torch.zeros(n + 1, dtype=torch.int64, device=device)
    start[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    return torch.sparse_csr_tensor(start, columns, values, (n, n)), member


def purity(labels, member) -> float:
    groups = int(member.max()) + 1
    table = torch.bincount(labels * groups + member, minlength=groups * (int(labels.max()) + 1)).reshape(-1, groups)
    return float(table.max(dim=1).values.sum()) / len(member)


def cloud(n: int, m: int, dtype, device, seed: int = 0):
    """Points in the unit cube, m random pairs and their squared distances."""
    g = torch.Generator(device).manual_seed(seed)
    points = torch.rand((n, 3), generator=g, device=device, dtype=torch.float64)
    pairs = torch.randint(n, (m + m // 50 + 10, 2), generator=g, device=device)
    keys = pairs.amin(1) * n + pairs.amax(1)
    keys = torch.unique(keys[pairs[:, 0] != pairs[:, 1]])
    keys = keys[torch.randperm(len(keys), generator=g, device=device)[:m]]
    pairs = torch.stack([keys // n, keys % n], dim=1)
    squared = (points[pairs[:, 0]] - points[pairs[:, 1]]).square().sum(1).to(dtype)
    return points, pairs, squared


def rmse(X, points, seed: int = 5) -> float:
    """Normalised, over ten million pairs."""
    g = torch.Generator(X.device).manual_seed(seed)
    i, j = torch.randint(len(X), (2, 10_000_000), generator=g, device=X.device)
    found = (X[i] - X[j]).double().norm(dim=1)
    true = (points[i] - points[j]).norm(dim=1)
    return float(((found - true).square().mean() / true.square().mean()).sqrt())


# -- sections ---------------------------------------------------------------------------------------------------------


def pieces(a) -> None:
    """Single passes, for each setting of the kernels; their accuracy against float64."""
    from quartic.arrays.space_torch import cross
    from quartic.losses.factor import torch as torch_factor
    from quartic.losses.factor import triton as triton_factor
    from quartic.losses.factor.passes import Origin
    from quartic.losses.pairs import triton as triton_pairs

    n, r = a.n, 32
    for dtype in (torch.float32, torch.float64):
        M, _ = planted(n, 32, dtype, a.device)
        loss = LeastSquares(M)
        X, Y, MX, MY = (torch.rand((n, r), device=a.device, dtype=dtype) for _ in range(4))
        W = torch.empty_like(X)
        out = torch.empty_like(X)
        name = str(dtype).split(".")[1]
        say(
            "pieces",
            what="product",
            dtype=name,
            ms=clock(lambda: loss.matrix.product(X, out)),
            entries=M.values().numel(),
        )
        say("pieces", what="copy", dtype=name, ms=clock(lambda: W.copy_(X)))
        say("pieces", what="gram by torch", dtype=name, ms=clock(lambda: cross(X, X)))
        A, here = torch.rand((r, r), device=a.device, dtype=dtype), Origin.at(X, MX)
        exact = cross(X.double(), X.double())
        kept = dict(triton_factor.SETTINGS)
        for rows, warps, per, precision in a.settings:
            triton_factor.SETTINGS = dict.fromkeys(kept, (rows, warps, per))
            triton_factor.PRECISION = precision
            try:
                times = {
                    "gram": clock(lambda: torch_factor.gram_at(here)),
                    "extrapolated": clock(lambda: torch_factor.extrapolated(Origin(X, MX, Y, MY, 0.7), Fresh())),
                    "stepped": clock(lambda: torch_factor.stepped(here, A, -0.5, 0.0, True, W)),
                    "step_sums": clock(lambda: torch_factor.step_sums(X, MX, Origin.at(Y, MY), None, True)),
                    "projected": clock(lambda: torch_factor.projected_norm(X, A, MX)),
                }
                error = float((torch_factor.gram_at(here).tensor - exact).norm() / exact.norm())
                reference = X.double() @ A.double() - 0.5 * MX.double()
                torch_factor.stepped(here, A, -0.5, 0.0, False, W)
                step = float((W.double() - reference).norm() / reference.norm())
                say("pieces", dtype=name, rows=rows, warps=warps, per=per, precision=precision, **times,
                    gram_error=error, step_error=step)  # fmt: skip
            except Exception as fault:
                say("pieces", dtype=name, rows=rows, warps=warps, per=per, precision=precision, fault=repr(fault)[:200])
        triton_factor.SETTINGS, triton_factor.PRECISION = kept, "ieee"
    for rows, tile, warps in a.pair_settings:
        triton_pairs.SHORT = (rows, tile, warps)
        for dtype in (torch.float32, torch.float64):
            _, pairs, squared = cloud(a.points, 20 * a.points, dtype, a.device)
            loss = Distances(pairs, squared)
            X, D = (torch.randn((a.points, 3), device=a.device, dtype=dtype) for _ in range(2))
            p = loss.at(X)
            V = D.double()
            H = torch.empty_like(V)
            try:
                say(
                    "pieces", what="pairs", rows=rows, tile=tile, warps=warps, dtype=str(dtype).split(".")[1],
                    value_and_gradient=clock(lambda: loss.at(X)), move=clock(lambda: loss.move(p, D)),
                    linearize=clock(lambda: loss.linearize(X)), quartic=clock(lambda: loss.quartic(p, D)),
                    product=clock(lambda: loss.gauss_newton_product(p, V, H)), line=clock(lambda: loss.along(p, D)),
                )  # fmt: skip
            except Exception as fault:
                say("pieces", what="pairs", rows=rows, tile=tile, warps=warps, fault=repr(fault)[:200])


def factorise(name: str, n: int, a, dtype=torch.float32) -> None:
    M, member = planted(n, 32, dtype, a.device)
    ready()
    began = time.perf_counter()
    loss = LeastSquares(M)
    ready()
    checks = time.perf_counter() - began
    entries = M.values().numel()
    problem = Problem(loss, Nonnegative())
    settings = {"rank": 32, "reference": random_start, "tol": 1e-3}
    minimize(problem, spectral_start, **settings, random_state=99, max_iter=3)
    out = torch.empty((n, 32), device=a.device, dtype=dtype)
    bare = clock(lambda: loss.matrix.product(out.fill_(0.5), torch.empty_like(out))) - clock(lambda: out.fill_(0.5))
    for seed in range(a.seeds):
        ready()
        began = time.perf_counter()
        result = minimize(problem, spectral_start, **settings, random_state=seed)
        ready()
        seconds = time.perf_counter() - began
        start = float(result.history.time[0])
        say(
            name, n=n, entries=entries, dtype=str(dtype).split(".")[1], seed=seed, seconds=seconds, start=start,
            checks=checks, products=result.n_products, purity=purity(result.X.argmax(dim=1), member),
            status=str(result.status), objective=result.objective, bare_ms=bare,
        )  # fmt: skip
    X0 = result.X * 0.7 + 0.3 * float(result.X.mean())
    for label in ("inertial", "lbfgs", "dyn-nolips", "pg", "hals"):
        steps = 40
        minimize(problem, X0, solver=label, tol=0.0, max_iter=10)
        ready()
        reads = waiting.reads()
        result = minimize(problem, X0, solver=label, tol=0.0, max_iter=steps)
        ready()
        h = result.history
        per = 1e3 * float(h.time[-1] - h.time[5]) / max(1, int(h.n_products[-1] - h.n_products[5]))
        say(f"{name} iteration", solver=label, ms_per_product=per, ratio=per / bare, iterations=result.n_iter,
            products=result.n_products, reads=waiting.reads() - reads)  # fmt: skip
    if a.profile:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as trace:
            minimize(problem, X0, solver="inertial", tol=0.0, max_iter=20)
            ready()
        print(trace.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60), flush=True)


def symnmf(a) -> None:
    factorise("symnmf", a.n, a)
    factorise("symnmf", a.n, a, torch.float64)


def large(a) -> None:
    a.seeds = 2
    factorise("large", a.large, a)


def edmc(a) -> None:
    """A million points, twenty million pairs, from a random start to an RMSE of 1e-4; sorting counts."""
    n, m = a.points, 20 * a.points
    for dtype in (torch.float32, torch.float64):
        points, pairs, squared = cloud(n, m, dtype, a.device)
        name = str(dtype).split(".")[1]
        for solver in ("auto", "ncg", "lbfgs", "gd", "dyn-nolips", "tr"):
            quick = solver in ("gd", "dyn-nolips", "tr")
            warm = Distances(pairs, squared)
            minimize(Problem(warm), rank=3, solver=solver, tol=0.0, max_iter=4, random_state=9)
            X = torch.randn((n, 3), device=a.device, dtype=dtype)
            bare = clock(lambda: warm.at(X))
            for seed in range(1 if quick else a.seeds):
                ready()
                began = time.perf_counter()
                loss = Distances(pairs, squared)
                ready()
                sorting = time.perf_counter() - began
                reads = waiting.reads()
                limit = 30 if quick else 10_000
                result = minimize(
                    Problem(loss), rank=3, solver=solver, tol=a.edmc_tol, random_state=seed, max_iter=limit
                )
                ready()
                seconds = time.perf_counter() - began
                h = result.history
                per = 1e3 * float(h.time[-1] - h.time[0]) / max(1, int(h.n_products[-1] - h.n_products[0]))
                say(
                    "edmc", n=n, pairs=m, dtype=name, solver=solver, seed=seed, seconds=seconds, sorting=sorting,
                    passes=result.n_products, iterations=result.n_iter, reads=waiting.reads() - reads,
                    rmse=rmse(result.X, points), status=str(result.status), bare_ms=bare, ms_per_pass=per,
                    ratio=per / bare,
                )  # fmt: skip
    if a.profile:
        from torch.profiler import ProfilerActivity, profile

        loss = Distances(pairs, squared)
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as trace:
            minimize(Problem(loss), rank=3, tol=0.0, max_iter=15, random_state=0)
            ready()
        print(trace.key_averages().table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=60), flush=True)


def agreement(a) -> None:
    """The same runs in float64 by NumPy on the host and by torch on the device."""
    import scipy.sparse as sp

    M, _ = planted(20_000, 16, torch.float64, a.device)
    host = sp.csr_array((M.values().cpu().numpy(), M.col_indices().cpu().numpy(), M.crow_indices().cpu().numpy()))
    X0 = np.random.default_rng(0).uniform(0.01, 0.05, (20_000, 16))
    on_host, on_device = Problem(LeastSquares(host), Nonnegative()), Problem(LeastSquares(M), Nonnegative())
    for solver in ("inertial", "lbfgs", "dyn-nolips", "pg", "hals"):
        settings = {"solver": solver, "tol": 0.0, "max_iter": 20}
        ours = minimize(on_host, X0, **settings)
        theirs = minimize(on_device, torch.from_numpy(X0).to(a.device), **settings)
        gap = float(np.abs(ours.X - theirs.X.cpu().numpy()).max())
        say("agreement", problem="symnmf", solver=solver, iterations=20, largest_difference=gap)
    for solver in ("inertial", "lbfgs"):
        settings = {"solver": solver, "tol": 1e-8, "max_iter": 5000}
        ours = minimize(on_host, X0, **settings)
        theirs = minimize(on_device, torch.from_numpy(X0).to(a.device), **settings)
        gap = abs(ours.objective - theirs.objective) / abs(ours.objective)
        say("agreement", problem="symnmf", solver=solver, tol=1e-8, statuses=f"{ours.status},{theirs.status}",
            relative_gap=gap)  # fmt: skip
    _, pairs, squared = cloud(5000, 100_000, torch.float64, a.device)
    X0 = np.random.default_rng(1).standard_normal((5000, 3)) * 0.4
    on_host = Problem(Distances(pairs.cpu().numpy(), squared.cpu().numpy()))
    on_device = Problem(Distances(pairs, squared))
    for solver in (LevenbergMarquardt(core=0), "ncg", "lbfgs", "gd", "dyn-nolips", "tr"):
        settings = {"solver": solver, "tol": 0.0, "max_iter": 20}
        ours = minimize(on_host, X0, **settings)
        theirs = minimize(on_device, torch.from_numpy(X0).to(a.device), **settings)
        gap = float(np.abs(ours.X - theirs.X.cpu().numpy()).max())
        say("agreement", problem="edmc", solver=getattr(solver, "name", solver), iterations=20, largest_difference=gap,
            passes=f"{ours.n_products},{theirs.n_products}")  # fmt: skip
    noisy = squared * (1 + 0.05 * torch.randn(squared.shape, device=a.device, dtype=squared.dtype)).square()
    on_host, on_device = (
        Problem(Distances(pairs.cpu().numpy(), noisy.cpu().numpy())), Problem(Distances(pairs, noisy))
    )  # fmt: skip
    for solver in (LevenbergMarquardt(core=0), "ncg"):
        ours = minimize(on_host, X0, solver=solver, tol=1e-8)
        theirs = minimize(on_device, torch.from_numpy(X0).to(a.device), solver=solver, tol=1e-8)
        gap = abs(ours.objective - theirs.objective) / abs(ours.objective)
        say("agreement", problem="edmc noisy", solver=getattr(solver, "name", solver), tol=1e-8,
            statuses=f"{ours.status},{theirs.status}", relative_gap=gap)  # fmt: skip


def quiet(a) -> None:
    """How often the host waits for the device, and whether warm iterations ask it for memory."""
    M, _ = planted(a.n // 5, 32, torch.float32, a.device)
    problem = Problem(LeastSquares(M), Nonnegative())
    _, pairs, squared = cloud(a.points // 5, 4 * a.points, torch.float32, a.device)
    located = Problem(Distances(pairs, squared))
    for task, solver in [(problem, s) for s in ("inertial", "dyn-nolips", "lbfgs", "pg", "hals")] + [
        (located, s) for s in ("lm", "ncg", "lbfgs", "gd", "dyn-nolips", "tr")
    ]:
        rank = 32 if task is problem else 3
        seen: list[tuple[int, int, int, int]] = []

        def watch(progress) -> None:
            stats = torch.cuda.memory_stats() if torch.cuda.is_available() else {}
            seen.append(
                (
                    waiting.reads(),
                    progress.n_products,
                    stats.get("num_device_alloc", 0),
                    stats.get("segment.all.allocated", 0),
                )
            )

        minimize(task, rank=rank, solver=solver, tol=0.0, max_iter=25, random_state=0, callback=watch)
        before, after = seen[len(seen) // 2], seen[-1]
        reads, products, *memory = (y - x for x, y in zip(before, after, strict=True))
        steps = len(seen) - len(seen) // 2 - 1
        say("quiet", solver=solver, rank=rank, iterations=steps, reads=reads, products=products,
            device_allocations=memory[0], segments=memory[1])  # fmt: skip


SECTIONS = {"pieces": pieces, "symnmf": symnmf, "large": large, "edmc": edmc, "agreement": agreement, "quiet": quiet}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="+", choices=SECTIONS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=5_000_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--edmc-tol", type=float, default=1e-5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a = parser.parse_args()
    a.settings = [
        (rows, warps, per, "ieee") for rows, warps, per in ((64, 4, 4), (32, 4, 8), (16, 4, 8), (32, 8, 4), (16, 2, 16))
    ] + [(64, 4, 4, "tf32x3")]
    a.pair_settings = [(128, 1, 4), (64, 2, 4), (32, 4, 4), (16, 8, 4), (64, 4, 4), (64, 4, 8), (32, 8, 4)]
    say("machine", device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", torch=torch.__version__,
        python=sys.version.split()[0])  # fmt: skip
    for name in a.sections:
        began = time.perf_counter()
        try:
            SECTIONS[name](a)
        except Exception:
            traceback.print_exc()
            say(name, fault="see above")
        say(name, seconds_of_section=time.perf_counter() - began)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    if a.out is not None:
        a.out.mkdir(parents=True, exist_ok=True)
        (a.out / "gpu.json").write_text(json.dumps(ROWS, indent=1, default=str))


if __name__ == "__main__":
    main()
