"""How many products with the data each idea needs, to ε = 1e-3 and 1e-6 of the start's stationarity.

Ideas for needing fewer: rules for the step, rules for the restart, memory taken from the inertial path, the metric of
the r × r Gram matrix, starts. Each is tried on ten data sets: seven similarity matrices, three sets of distances. What
helps on most is what the solvers do by default; what does not is in the table all the same.

    python benchmarks/products.py                      # all, an hour; products.md is its output
    python benchmarks/products.py --quick              # two small data sets, one start
    python benchmarks/products.py --data orl --only restart

Products are counted, seconds are not: the table is the same on any machine. Starts count their products.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quartic import Problem
from quartic.datasets import (
    DatasetNotFound,
    load_graph,
    load_points,
    load_similarity,
    pair_distances,
    protein,
    random_pairs,
)
from quartic.graphs import normalize
from quartic.init import random_start, spectral_start
from quartic.losses import Distances, LeastSquares
from quartic.ops import inner, norm
from quartic.penalties import Nonnegative
from quartic.solvers import LBFGS, ConjugateGradient, DynNoLips, InertialNoLips, LevenbergMarquardt
from quartic.solvers.base import NoProgress
from quartic.solvers.inertial import InertialState
from quartic.solvers.lbfgs import LBFGSState

TOLERANCES = (1e-3, 1e-6)
MOST = {1e-3: 3000, 1e-6: 6000}


# -- ideas for X ≥ 0 ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tried(InertialNoLips):
    """The inertial method with other rules.

    step : "grow" (by ``growth`` after a success, half after a failure) or "measure": a trial tells by how much its step
    was too short or too long, remainder·λ/D_h; the next λ is 0.9 of what that ratio says, at most ``growth`` times.
    restart : "redo" (the step again from X when the objective rises), "keep" (keep it, θ = 1 from there), "slope"
    (θ = 1 when ⟨Y − X⁺, X⁺ − X⟩ > 0, and when the objective rises), "half" (redo, but θ is only halved).
    """

    step_rule: str = "grow"
    restart: str = "redo"
    shrink: float = 0.5

    def step(self, problem, state):
        s = state
        theta = 0.5 * (1 + math.sqrt(1 + 4 * s.theta**2))
        beta = (s.theta - 1) / theta
        if beta > 0:
            Y = problem.loss.extrapolate(s.point, s.previous, beta)
            new = self._trial(problem, Y, s.next_step)
            if new is not None:
                X, step, following = new
                rises = problem.objective(X) > s.objective
                if self.restart == "slope" and inner(Y.X - X.X, X.X - s.point.X) > 0:
                    theta = 1.0
                if not rises:
                    return self._state(problem, s, X, step, following, theta)
                if self.restart == "keep":
                    return self._state(problem, s, X, step, following, 1.0)
        new = self._trial(problem, s.point, s.next_step)
        if new is None:
            raise NoProgress("no step decreases the objective enough")
        after = max(0.5 * (1 + math.sqrt(5)), 0.5 * s.theta) if self.restart == "half" else 0.5 * (1 + math.sqrt(5))
        return self._state(problem, s, *new, after)

    def _trial(self, problem, p, step):
        for _ in range(self.max_halvings):
            move = problem.loss.move(p, problem.bregman_step(p, step))
            bound = problem.kernel.divergence_of(move) / step
            ratio = move.remainder / bound if bound > 0 else 1.0
            enough = problem.sufficient_decrease(move, step)
            if self.step_rule == "grow":
                following = self.growth * step if enough else self.shrink * step
            else:
                factor = min(self.growth, 0.9 / ratio) if ratio > 0 else self.growth
                following = step * (max(factor, 0.8) if enough else min(max(factor, 0.1), 0.8))
            if enough:
                return move.point, step, following
            step = following
        return None

    def _state(self, problem, s, new, step, following, theta):
        return InertialState(new, step, s.point, theta, following, problem.objective(new))


@dataclass(frozen=True)
class Column(LBFGS):
    """L-BFGS whose first metric divides by the diagonal of the Gram matrix, or by all of it."""

    whole: bool = False

    def _first_metric(self, problem, p, q, scale, steps, changes):
        S = p.gram
        if not self.whole:
            weights = (1 / (np.diag(S) + 0.1 * np.trace(S) / len(S))).astype(q.dtype)
            Q = q * weights
        else:
            shift = 0.1 * np.trace(S) / len(S) * np.eye(len(S))
            Q = q @ np.linalg.inv(S + shift).astype(q.dtype)
            Q[q == 0] = 0
        if not steps:
            return Q * (norm(p.X) / norm(Q))
        s, y = steps[-1], changes[-1]
        My = y * weights if not self.whole else y @ np.linalg.inv(S + shift).astype(q.dtype)
        return Q * max(inner(s, y) / inner(y, My), 1e-300)


@dataclass(frozen=True)
class FromInertial(LBFGS):
    """L-BFGS that begins with the inertial method, and takes its first pairs (s, y) from that path."""

    first: int = 30

    def init(self, problem, X0):
        inertial = InertialNoLips()
        s = inertial.init(problem, X0)
        path = [s.point]
        for _ in range(self.first):
            s = inertial.step(problem, s)
            path = [*path, s.point][-self.memory - 1 :]
        steps = tuple(b.X - a.X for a, b in itertools.pairwise(path))
        changes = tuple(b.gradient - a.gradient for a, b in itertools.pairwise(path))
        return LBFGSState(s.point, steps=steps, changes=changes)


IDEAS: dict[str, tuple[Any, Any]] = {
    "inertial (λ × 1.1, half; redo)": (InertialNoLips(), random_start),
    "step: λ × 1.05": (Tried(growth=1.05), random_start),
    "step: λ × 1.3": (Tried(growth=1.3), random_start),
    "step: λ × 2, the paper's": (Tried(growth=2.0), random_start),
    "step: λ × 1.1, 0.7 after a failure": (Tried(shrink=0.7), random_start),
    "step: measured, at most × 1.5": (Tried(step_rule="measure", growth=1.5), random_start),
    "step: measured, at most × 3": (Tried(step_rule="measure", growth=3.0), random_start),
    "restart: keep the point that rises": (Tried(restart="keep"), random_start),
    "restart: by slope": (Tried(restart="slope"), random_start),
    "restart: θ only halved": (Tried(restart="half"), random_start),
    "lbfgs, 7 pairs": (LBFGS(), random_start),
    "lbfgs, 20 pairs": (LBFGS(memory=20), random_start),
    "memory: 30 inertial steps, then lbfgs with their pairs": (FromInertial(), random_start),
    "metric: lbfgs on columns over diag XᵀX": (Column(), random_start),
    "metric: lbfgs on (XᵀX + shift)⁻¹": (Column(whole=True), random_start),
    "start: spectral, inertial": (InertialNoLips(), spectral_start),
    "start: spectral, measured step": (Tried(step_rule="measure", growth=1.5), spectral_start),
    "start: spectral, lbfgs": (LBFGS(), spectral_start),
    "dyn-nolips": (DynNoLips(), random_start),
}

# -- ideas for distances --------------------------------------------------------------------------------------------

DISTANCE_IDEAS: dict[str, tuple[Any, Any]] = {
    "lm, core first (auto)": (LevenbergMarquardt(), random_start),
    "lm, no core": (LevenbergMarquardt(core=0), random_start),
    "lm, no core, equations to 0.1": (LevenbergMarquardt(core=0, forcing=0.1), random_start),
    "lm, no core, equations to 0.6": (LevenbergMarquardt(core=0, forcing=0.6), random_start),
    "lm, no core, damping 1": (LevenbergMarquardt(core=0, damping=1.0), random_start),
    "metric: ncg, row blocks": (ConjugateGradient("block"), random_start),
    "metric: ncg, XᵀX": (ConjugateGradient("gram"), random_start),
    "metric: lbfgs on XᵀX": (LBFGS(), random_start),
    "dyn-nolips, Gram kernel": (DynNoLips(), random_start),
}


def similarity(name: str) -> Callable[[], Problem]:
    """Return what makes the problem of a similarity matrix."""
    return lambda: Problem(LeastSquares(load_similarity(name).matrix), Nonnegative())


def graph(name: str) -> Callable[[], Problem]:
    """Return what makes the problem of a graph, its diagonal set and normalised."""

    def make() -> Problem:
        import scipy.sparse as sp

        A = load_graph(name).adjacency
        return Problem(LeastSquares(normalize(A + sp.eye_array(A.shape[0], format="csr"))), Nonnegative())

    return make


def distances(points: Callable[[], Any], known: float) -> Callable[[], Problem]:
    """Return what makes the problem of a share of the distances of some points."""

    def make() -> Problem:
        X = np.asarray(points())
        pairs = random_pairs(len(X), known, random_state=0)
        return Problem(Distances(pairs, pair_distances(X, pairs) ** 2, n_points=len(X)))

    return make


CASES: dict[str, tuple[Callable[[], Problem], int, dict[str, tuple[Any, Any]]]] = {
    "coil20": (similarity("coil20"), 20, IDEAS),
    "cbcl": (similarity("cbcl"), 20, IDEAS),
    "orl": (similarity("orl"), 40, IDEAS),
    "reuters": (similarity("reuters"), 25, IDEAS),
    "tdt2": (similarity("tdt2"), 30, IDEAS),
    "eu-core": (graph("eu-core"), 30, IDEAS),
    "lfr": (graph("lfr"), 30, IDEAS),
    "cow": (distances(lambda: load_points("cow"), 0.02), 3, DISTANCE_IDEAS),
    "uscities": (distances(lambda: load_points("uscities"), 0.02), 2, DISTANCE_IDEAS),
    "1rgs": (distances(lambda: protein("1rgs").coordinates, 0.05), 3, DISTANCE_IDEAS),
}


def products(problem: Problem, rank: int, solver: Any, start: Any, seed: int) -> tuple[list[float], float]:
    """Return the products to each tolerance, measured afresh, and the objective at the end."""
    reference = problem.stationarity(
        problem.loss.at(random_start(problem, rank, np.random.default_rng(seed)).astype(problem.loss.dtype))
    )
    problem = problem.counted()
    if solver.requires.kernel or isinstance(solver, FromInertial):
        problem = problem.with_kernel(tight=False)
    state = solver.init(problem, start(problem, rank, np.random.default_rng(seed)))
    found = [math.inf] * len(TOLERANCES)
    while True:
        share = problem.stationarity(state.point) / reference
        for k, tol in enumerate(TOLERANCES):
            if share <= tol and math.isinf(found[k]):
                fresh = problem.stationarity(problem.counted().loss.at(state.point.X))
                if fresh <= tol * reference * (1 + 1e-6):
                    found[k] = problem.loss.n_products
        used = problem.loss.n_products
        if math.isfinite(found[-1]) or used > MOST[1e-6] or (math.isinf(found[0]) and used > MOST[1e-3]):
            return found, problem.objective(state.point)
        try:
            state = solver.step(problem, state)
        except NoProgress:
            return found, problem.objective(state.point)


def table(names: list[str], ideas: dict[str, tuple[Any, Any]], starts: int, say: Callable[[str], None]) -> None:
    """Run and print the rows of one kind of problem."""
    cases = {name: (CASES[name][0](), CASES[name][1]) for name in names}
    base: dict[tuple[str, int], float] = {}
    heads = [f"{name}, r = {rank}" for name, (_, rank) in cases.items()]
    say(f"| idea | {' | '.join(heads)} | of the first row |")
    say("|---" * (len(heads) + 2) + "|")
    for idea, (solver, start) in ideas.items():
        cells, ratios = [], []
        for name, (problem, rank) in cases.items():
            rows = [products(problem, rank, solver, start, seed) for seed in range(100, 100 + starts)]
            means = [float(np.mean([found[k] for found, _ in rows])) for k in range(len(TOLERANCES))]
            for k, mean in enumerate(means):
                base.setdefault((name, k), mean)
                ratios.append(mean / base[name, k])
            objective = float(np.mean([value for _, value in rows]))
            shown = " / ".join("–" if math.isinf(m) else f"{m:.0f}" for m in means)
            cells.append(f"{shown} ({objective:.5g})")
        finite = [r for r in ratios if math.isfinite(r) and r > 0]
        geometric = [
            math.exp(np.mean([math.log(r) for r in ratios[k::2] if math.isfinite(r) and r > 0] or [math.nan]))
            for k in range(2)
        ]
        missed = "" if len(finite) == len(ratios) else f", {len(ratios) - len(finite)} not reached"
        say(f"| {idea} | {' | '.join(cells)} | {geometric[0]:.2f} / {geometric[1]:.2f}{missed} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--only", nargs="*", default=[], help="ideas whose name contains one of these")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", help="write the tables to this file too")
    options = parser.parse_args()
    if options.quick:
        options.data, options.starts = ["orl", "1rgs"], 1
    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    for ideas in (IDEAS, DISTANCE_IDEAS):
        names = [name for name in options.data if CASES[name][2] is ideas]
        chosen = {k: v for k, v in ideas.items() if not options.only or any(part in k for part in options.only)}
        if not names or not chosen:
            continue
        say(f"\nProducts to ε = 1e-3 / 1e-6 (mean objective at the end), {options.starts} starts, seeds from 100\n")
        try:
            table(names, chosen, options.starts, say)
        except DatasetNotFound as missing:
            print(missing)
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
