"""The ideas of benchmarks/products.py do what they say, and its cells are kept, taken up again and tabled."""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls

from quartic import Problem
from quartic.datasets import pair_distances, planted_graph, random_pairs
from quartic.graphs import normalize
from quartic.init import random_start, spectral_start
from quartic.losses import Distances, LeastSquares
from quartic.penalties import Nonnegative
from quartic.solvers import LBFGS, InertialNoLips

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@pytest.fixture(scope="module")
def benchmark():
    """The script as a module; it sets the threads of its workers, which is not for the other tests."""
    with pytest.MonkeyPatch.context() as path:
        path.syspath_prepend(str(BENCHMARKS))
        with pytest.MonkeyPatch.context() as patch:
            for name in THREADS:
                patch.setenv(name, "1")
            import products
        # as it was: numba compiles nothing while it is told of other threads than those it has launched
        yield products
        for name in [name for name in sys.modules if name == "products" or name.startswith("product_ideas")]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def graph():
    adjacency, _ = planted_graph(120, 4, random_state=0)
    return Problem(LeastSquares(normalize(adjacency)), Nonnegative()).with_kernel(tight=False)


@pytest.fixture(scope="module")
def points():
    X = np.random.default_rng(0).standard_normal((60, 2))
    pairs = random_pairs(60, 0.5, random_state=0)
    return Problem(Distances(pairs, pair_distances(X, pairs) ** 2, n_points=60))


def path(problem, solver, steps=25, start=random_start):
    problem = problem.counted()
    state = solver.init(problem, start(problem, 4, np.random.default_rng(0)))
    for _ in range(steps):
        state = solver.step(problem, state)
    return state.point.X, problem.loss.n_products


def test_the_rules_of_the_inertial_method_are_among_them(benchmark, graph):
    from product_ideas.rules import Rules

    X, products = path(graph, Rules(first="powers", salvage=True))
    Y, others = path(graph, InertialNoLips())
    assert products == others
    assert np.allclose(X, Y, rtol=1e-9, atol=1e-12)


def test_memory_without_change_is_lbfgs(benchmark, graph):
    from product_ideas.memory import Memory

    X, products = path(graph, Memory(), 15, spectral_start)
    Y, others = path(graph, LBFGS(), 15, spectral_start)
    assert products == others
    assert np.allclose(X, Y, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("metric", ["columns", "whole", "rows"])
def test_the_step_in_a_metric_is_the_best_for_each_row(benchmark, graph, metric):
    from product_ideas.metrics import InMetric

    solver = InMetric(metric=metric, sweeps=500)
    p = graph.loss.at(random_start(graph, 4, np.random.default_rng(0)))
    X, P, lam = solver._map(graph, p, 0.7), solver._matrix(p), 0.7
    for i in (0, 7, 50):
        y, B = p.X[i], P
        if metric == "rows":  # the second derivative along this row alone, where it is convex
            own = max(y @ y - graph.loss.matrix.M[i, i], 0.0)
            B = P + 2 * np.outer(y, y) + 2 * own * np.eye(4)
        L = np.linalg.cholesky(B)
        best, _ = nnls(L.T, np.linalg.solve(L, B @ y - lam * p.gradient[i]))
        assert np.allclose(X[i], best, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("metric", ["columns", "whole", "rows"])
def test_the_bound_of_a_metric_is_that_of_its_step(benchmark, graph, metric):
    from product_ideas.metrics import InMetric

    solver, rng = InMetric(metric=metric), np.random.default_rng(1)
    p = graph.loss.at(random_start(graph, 4, rng))
    move = graph.loss.move(p, p.X + 0.1 * rng.uniform(size=p.X.shape))
    D, P = move.point.X - p.X, solver._matrix(p)
    size = sum(
        d @ (P + (2 * np.outer(y, y) + own * np.eye(4) if metric == "rows" else 0)) @ d
        for d, y, own in zip(D, p.X, solver._own(p), strict=True)
    )
    assert solver._bound(graph, move, 0.5) == pytest.approx(size / (2 * 0.5), rel=1e-9)


def test_free_rows_are_solved_on_their_own(benchmark):
    from product_ideas.memory import solve_free_rows

    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    S, Q, free = A @ A.T + np.eye(5), rng.standard_normal((20, 5)), rng.uniform(size=(20, 5)) < 0.6
    Z = solve_free_rows(Q, S, free)
    for q, z, f in zip(Q, Z, free, strict=True):
        assert np.allclose(z[f], np.linalg.solve(S[np.ix_(f, f)], q[f]))
        assert (z[~f] == 0).all()


@pytest.mark.parametrize("away", [True, False])
def test_the_best_on_a_line_needs_no_product(benchmark, graph, away):
    from product_ideas.rules import best_on_line

    rng, problem = np.random.default_rng(3), graph.counted()
    p = problem.loss.at(random_start(problem, 4, rng))
    descent = -0.01 * p.gradient if not away else 0.01 * p.gradient
    q = problem.loss.at(p.X + descent)
    before = problem.loss.n_products
    t = best_on_line(p, q, away)
    assert problem.loss.n_products == before
    sign = 1 if away else -1
    values = [problem.loss.value(p.X + sign * s * (p.X - q.X)) for s in (0.99 * t, t, 1.01 * t)]
    assert t > 0
    assert values[1] == min(values)


def test_a_failed_trial_is_not_lost(benchmark, graph):
    """From a step far too long the point on the way is taken: lower, feasible, and for one product."""
    from dataclasses import replace

    from product_ideas.rules import Rules

    solver, problem = Rules(salvage=True), graph.counted()
    s = solver.init(problem, random_start(problem, 4, np.random.default_rng(0)))
    s = replace(s, next_step=1e4)
    before = problem.loss.n_products
    new = solver.step(problem, s)
    assert new.failed == 1
    assert problem.loss.n_products == before + 1
    assert new.objective < s.objective
    assert new.point.X.min() >= 0
    assert np.allclose(new.point.MX, problem.loss.matrix.product(new.point.X))


def test_a_matching_keeps_lengths(benchmark, graph):
    from product_ideas.starts import matched

    P = matched(graph.loss.matrix.M, np.random.default_rng(0))
    assert np.allclose((P.T @ P).toarray(), np.eye(P.shape[1]))
    assert P.shape[1] < 0.7 * P.shape[0]


def test_factors_of_columns_are_the_best(benchmark, graph):
    from product_ideas.starts import fitted

    X = random_start(graph, 4, np.random.default_rng(0))
    Y = fitted(graph, X, "columns")
    least = graph.loss.value(Y)
    assert least <= graph.loss.value(fitted(graph, X))
    for k, factor in product(range(4), (0.99, 1.01)):
        d = np.ones(4)
        d[k] = factor
        assert graph.loss.value(Y * d) >= least * (1 - 1e-12)


def test_every_idea_runs(benchmark, graph, points, monkeypatch):
    """Each is feasible, counts its products, and tells its settings from those of all others in its group."""
    monkeypatch.setattr(benchmark, "MOST", (400, 400))
    monkeypatch.setattr(benchmark, "TOLERANCES", (1e-1, 1e-2))
    for name, group in benchmark.GROUPS.items():
        problem, rank = (points, 2) if name == "distances" else (graph, 4)
        assert len({str(idea) for idea in group.ideas.values()}) == len(group.ideas)
        assert len({benchmark.slug(idea) for idea in group.ideas}) == len(group.ideas)
        for idea in group.ideas.values() if name in ("spectral", "starts-inertial", "distances") else ():
            found = benchmark.products(problem, rank, idea, 100)
            assert found["products_of_start"] >= 1, str(idea)
            assert np.isfinite(found["objective"]), str(idea)
            if "relaxed=3.0" not in str(idea):
                assert None not in found["products"], str(idea)
                assert found["products_of_start"] <= found["products"][0] <= found["products"][1]


def test_cells_are_kept_and_made_again_when_settings_change(benchmark, graph, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "load", lambda name: graph)
    monkeypatch.setattr(benchmark, "CASES", {"coil20": (None, 4)})
    wanted = benchmark.cells(["coil20"], ["spectral"], ["lbfgs, 7 pairs"], range(100, 102))
    assert [cell.seed for cell in wanted] == [100, 101]
    assert benchmark.run_all(wanted, tmp_path, 1, 10.0) == 0
    kept = {cell: cell.file(tmp_path).stat().st_mtime_ns for cell in wanted}
    spoilt, other = wanted
    spoilt.file(tmp_path).write_text(json.dumps({**spoilt.result(tmp_path), "settings": "of yesterday"}))
    assert spoilt.result(tmp_path) is None
    assert benchmark.run_all(wanted, tmp_path, 1, 0.0) == 1  # no time: it says what is left
    assert benchmark.run_all(wanted, tmp_path, 1, 10.0) == 0
    assert spoilt.result(tmp_path)["products"][0] > 0
    assert other.file(tmp_path).stat().st_mtime_ns == kept[other]


def test_an_idea_that_breaks_is_told_and_does_not_end_the_others(benchmark, tmp_path, monkeypatch):
    def broken(name):
        raise RuntimeError("the data are gone")

    monkeypatch.setattr(benchmark, "load", broken)
    (cell,) = benchmark.cells(["coil20"], ["spectral"], ["lbfgs, 7 pairs"], range(100, 101))
    assert "ERROR" in benchmark.run(cell, tmp_path)
    assert "the data are gone" in cell.result(tmp_path)["error"]


def test_the_table_is_the_mean_of_its_cells(benchmark, tmp_path):
    names = ("inertial: λ × 1.1, half after a failure; θ = 1 where Ψ rises", "lbfgs, 7 pairs")
    figures = {
        (names[0], "coil20"): ([100, 200], 2.0),
        (names[0], "orl"): ([50, 80], 1.0),
        (names[1], "coil20"): ([50, 50], 2.0),
        (names[1], "orl"): ([100, None], 1.02),
    }
    for (idea, data), (products, objective) in figures.items():
        for seed, more in ((100, -10), (101, 10)):
            cell = benchmark.Cell(data, "spectral", idea, seed)
            cell.file(tmp_path).parent.mkdir(parents=True, exist_ok=True)
            counts = [None if value is None else value + more for value in products]
            kept = {"settings": cell.settings, "products": counts, "objective": objective}
            cell.file(tmp_path).write_text(json.dumps(kept), encoding="utf-8")
    lines = benchmark.table(tmp_path, "spectral", range(100, 102))
    assert len(lines) == 4
    assert "| 100 / 200 (2) |" in lines[2]
    assert "1.00 / 1.00; 1.0000; 5 not run" in lines[2]
    assert "| 100 / – (1.02) |" in lines[3]
    # √(½·2) = 1 to the first tolerance, ¼ to the second where it was reached, √1.02 of the objective
    assert "1.00 / 0.25; 1.0100; 1 not reached; 5 not run" in lines[3]
    assert "coil20, r = 20, 2 starts |" in lines[0]
    benchmark.Cell("coil20", "spectral", names[1], 101).file(tmp_path).unlink()
    lines = benchmark.table(tmp_path, "spectral", range(100, 102))  # all rows of a column have the same starts
    assert "coil20, r = 20, 1 start |" in lines[0]
    assert "orl, r = 40, 2 starts |" in lines[0]
    assert "| 90 / 190 (2) |" in lines[2]
    assert "| 40 / 40 (2) |" in lines[3]
    page = benchmark.page(tmp_path, range(100, 102))
    assert "from the spectral start" in page
    assert "from the random start" not in page
