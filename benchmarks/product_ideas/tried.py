"""The table of ideas: a solver and a start each, in groups; the others are held against the first of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from product_ideas import distance_starts, starts
from product_ideas.cases import DISTANCES, SIMILARITIES
from product_ideas.memory import Anderson, Memory
from product_ideas.metrics import InMetric
from product_ideas.rules import Rules
from quartic.init import random_start, spectral_start
from quartic.kernels import EuclideanKernel, NormKernel
from quartic.solvers import LBFGS, ConjugateGradient, DynNoLips, InertialNoLips, LevenbergMarquardt, ProjectedGradient


@dataclass(frozen=True)
class Idea:
    """A solver from a start, perhaps with a kernel of its own."""

    solver: Any
    start: Any
    kernel: Callable[[Any], Any] | None = None

    def __str__(self) -> str:
        """Return all settings, so that a result made with others is not taken for this one."""
        kernel = "" if self.kernel is None else f", kernel {_words(self.kernel)}"
        return f"{self.solver!r} from {_words(self.start)}{kernel}"


def _words(function: Any) -> str:
    if isinstance(function, partial):
        return f"{function.func.__name__}({', '.join(f'{k}={v!r}' for k, v in function.keywords.items())})"
    return str(function.__name__)


def norm_kernel(loss: Any, alpha: float, sigma: float) -> Any:
    """Return the norm kernel with α, and σ a multiple of ‖M‖: with a dynamic step their ratio is all that counts."""
    return NormKernel(alpha=alpha, sigma=sigma * loss.gradient_norm_at_zero)


def euclidean(loss: Any) -> Any:
    """Return the kernel ½‖X‖²: the accelerated projected gradient method."""
    return EuclideanKernel()


# -- X ≥ 0: rules, memory and metrics, from both starts ---------------------------------------------------------------

RULES: dict[str, tuple[Any, Any]] = {
    "inertial: λ × 1.1, half after a failure; θ = 1 where Ψ rises": (Rules(), None),
    "inertial by default: the first step measured, failures used": (InertialNoLips(), None),
    "step: λ × 1.02, 0.7 (5 % fail)": (Rules(growth=1.019, shrink=0.7), None),
    "step: λ × 1.04, half (5 % fail)": (Rules(growth=1.037), None),
    "step: λ × 1.05, half": (Rules(growth=1.05), None),
    "step: λ × 1.2, half": (Rules(growth=1.2), None),
    "step: λ × 1.3, half": (Rules(growth=1.3), None),
    "step: λ × 2, half: the paper's": (Rules(growth=2.0), None),
    "step: λ × 1.1, 0.7": (Rules(shrink=0.7), None),
    "step: λ × 1.1, 0.3": (Rules(shrink=0.3), None),
    "step: × 1.3 after 3 successes": (Rules(growth=1.3, step_rule="wait", wait=3), None),
    "step: × 2 after 10 successes": (Rules(growth=2.0, step_rule="wait", wait=10), None),
    "step: × 1.1 where the trial leaves room": (Rules(step_rule="hold"), None),
    "step: × 1.5 where the trial leaves room": (Rules(growth=1.5, step_rule="hold"), None),
    "step: × 1.1, a failure says by how much": (Rules(step_rule="advised"), None),
    "step: measured, at most × 1.1": (Rules(step_rule="measure", growth=1.1), None),
    "step: measured, at most × 1.5": (Rules(step_rule="measure", growth=1.5), None),
    "step: measured, at most × 3": (Rules(step_rule="measure", growth=3.0), None),
    "step: accepted up to 1.5 times the bound": (Rules(relaxed=1.5), None),
    "step: accepted up to 3 times the bound": (Rules(relaxed=3.0), None),
    "first step: doubled to a failure": (Rules(first="double"), None),
    "first step: doubled, then × 1.05": (Rules(first="double", growth=1.05), None),
    "first step: doubled, then × 1.02, 0.7": (Rules(first="double", growth=1.019, shrink=0.7), None),
    "first step: doubled, then × 1.2": (Rules(first="double", growth=1.2), None),
    "first step: doubled, then measured, at most × 1.5": (
        Rules(first="double", step_rule="measure", growth=1.5),
        None,
    ),
    "first step: doubled, then × 1.1 where there is room": (Rules(first="double", step_rule="hold"), None),
    "first step: doubled, θ halved": (Rules(first="double", restart="half"), None),
    "first step: doubled, then × 1.05, θ halved": (Rules(first="double", growth=1.05, restart="half"), None),
    "first step: measured": (Rules(first="measure"), None),
    "first step: measured, then × 1.05": (Rules(first="measure", growth=1.05), None),
    "first step: measured, then × 1.05, θ halved": (Rules(first="measure", growth=1.05, restart="half"), None),
    "first step: measured, then × 1.03": (Rules(first="measure", growth=1.03), None),
    "first step: measured, then damped, at most × 1.2": (
        Rules(first="measure", step_rule="damped", growth=1.2),
        None,
    ),
    "failures: the best point on the way": (Rules(salvage=True), None),
    "failures: the best point on the way, first step measured": (Rules(salvage=True, first="measure"), None),
    "failures: the best point on the way, first step measured, then × 1.05": (
        Rules(salvage=True, first="measure", growth=1.05),
        None,
    ),
    "failures: the best point on the way, first step measured, then × 1.2": (
        Rules(salvage=True, first="measure", growth=1.2),
        None,
    ),
    "failures: the best point on the way, first step doubled": (Rules(salvage=True, first="double"), None),
    "failures: the best point on the way, first step doubled, θ halved": (
        Rules(salvage=True, first="double", restart="half"),
        None,
    ),
    "failures: the best point on the way, first step measured, θ halved": (
        Rules(salvage=True, first="measure", restart="half"),
        None,
    ),
    "failures: the best point on the way, first step doubled, then × 1.05, θ halved": (
        Rules(salvage=True, first="double", growth=1.05, restart="half"),
        None,
    ),
    "failures: the best point on the way, first step doubled, then × 1.05": (
        Rules(salvage=True, first="double", growth=1.05),
        None,
    ),
    "failures: the best point on the way, first step doubled, then × 1.2": (
        Rules(salvage=True, first="double", growth=1.2),
        None,
    ),
    "failures: the best point on the way, first step doubled, then × 1.2, θ halved": (
        Rules(salvage=True, first="double", growth=1.2, restart="half"),
        None,
    ),
    "failures: the best point on the way, first step measured, then × 1.05, θ halved": (
        Rules(salvage=True, first="measure", growth=1.05, restart="half"),
        None,
    ),
    "failures: the best point on the way, first step measured, then × 1.2, θ halved": (
        Rules(salvage=True, first="measure", growth=1.2, restart="half"),
        None,
    ),
    "restart: keep the point that rises": (Rules(restart="keep"), None),
    "restart: by slope": (Rules(restart="slope"), None),
    "restart: by speed": (Rules(restart="speed"), None),
    "restart: θ only halved": (Rules(restart="half"), None),
    "restart: θ kept": (Rules(restart="kept"), None),
    "restart: none": (Rules(restart="none"), None),
    "restart: θ halved, measured step × 1.5": (Rules(restart="half", step_rule="measure", growth=1.5), None),
    "momentum: at most 0.9": (Rules(most=0.9), None),
    "momentum: at most 0.97": (Rules(most=0.97), None),
    "momentum: β = 1, by slope": (Rules(momentum="full"), None),
    "momentum: the best on the line, at most 1": (Rules(momentum="line"), None),
    "momentum: the best on the line": (Rules(momentum="line", most=1e3), None),
    "kernel: Euclidean": (Rules(), euclidean),
    "kernel: Euclidean, first step measured": (Rules(first="measure"), euclidean),
    "kernel: norm, σ / 20": (Rules(), partial(norm_kernel, alpha=6.0, sigma=0.1)),
    "kernel: norm, σ × 10": (Rules(), partial(norm_kernel, alpha=6.0, sigma=20.0)),
    "metric: inertial, columns over diag XᵀX": (InMetric(metric="columns"), None),
    "metric: inertial, XᵀX + 0.1": (InMetric(), None),
    "metric: inertial, XᵀX + 0.01": (InMetric(shift=0.01), None),
    "metric: inertial, XᵀX + 1": (InMetric(shift=1.0), None),
    "metric: inertial, row blocks": (InMetric(metric="rows"), None),
    "metric: inertial, XᵀX + 0.1, θ halved": (InMetric(restart="half"), None),
    "metric: inertial, XᵀX + 0.1, one sweep": (InMetric(sweeps=1), None),
    "metric: inertial, XᵀX + 0.1, λ × 1.05": (InMetric(growth=1.05), None),
    "metric: inertial, XᵀX + 0.1, first step doubled": (InMetric(first="double"), None),
    "metric: inertial, XᵀX + 0.1, first measured, λ × 1.05, θ halved": (
        InMetric(first="measure", growth=1.05, restart="half"),
        None,
    ),
    "metric: inertial, XᵀX + 0.1, failures: the best on the way": (InMetric(salvage=True), None),
    "metric: inertial, XᵀX + 0.1, best on the way, θ halved": (InMetric(salvage=True, restart="half"), None),
    "metric: inertial, XᵀX + 0.1, best on the way, λ × 1.2, θ halved": (
        InMetric(salvage=True, restart="half", growth=1.2),
        None,
    ),
    "memory: Anderson, 5 points": (Anderson(first="measure"), None),
    "memory: Anderson, 10 points": (Anderson(first="measure", memory=10), None),
    "memory: Anderson, 5 points, failures: the best on the way": (Anderson(first="measure", salvage=True), None),
    "memory: Anderson, 20 points": (Anderson(first="measure", memory=20), None),
    "lbfgs, 3 pairs": (LBFGS(memory=3), None),
    "lbfgs, 7 pairs": (LBFGS(), None),
    "lbfgs, 20 pairs": (LBFGS(memory=20), None),
    "memory: lbfgs with the pairs of 10 inertial steps": (Memory(first=10), None),
    "memory: lbfgs with the pairs of 30 inertial steps": (Memory(first=30), None),
    "memory: lbfgs with the pairs of 100 inertial steps": (Memory(first=100), None),
    "memory: lbfgs, 20 pairs, those of 30 inertial steps": (Memory(first=30, memory=20), None),
    "metric: lbfgs, columns over diag XᵀX": (Memory(metric="columns"), None),
    "metric: lbfgs, XᵀX + 0.1": (Memory(metric="whole"), None),
    "metric: lbfgs, XᵀX + 0.1, the free part of each row": (Memory(metric="rows"), None),
    "metric: lbfgs, 20 pairs, XᵀX + 0.1, free part": (Memory(metric="rows", memory=20), None),
    "dyn-nolips": (DynNoLips(), None),
    "projected gradient": (ProjectedGradient(), None),
}

STARTS: dict[str, Any] = {
    "spectral": spectral_start,
    "random, the paper's": random_start,
    "spectral, 1 filter of degree 6": partial(spectral_start, n_filters=1, degree=6),
    "spectral, 1 filter of degree 10": partial(spectral_start, n_filters=1, degree=10),
    "spectral, 2 filters of degree 5": partial(spectral_start, degree=5),
    "spectral, 3 filters of degree 8": partial(spectral_start, n_filters=3),
    "spectral, no extra columns": partial(spectral_start, n_extra=0),
    "spectral, no turns": partial(spectral_start, n_turns=0),
    "spectral, 100 turns": partial(spectral_start, n_turns=100),
    "spectral, each column its factor": partial(starts.turned, factors="columns"),
    "spectral, eigenvalues left out": partial(starts.turned, power=0.0),
    "spectral, eigenvalues to the 1": partial(starts.turned, power=1.0),
    "spectral, zeros kept": partial(starts.turned, lift=0.0),
    "spectral, zeros lifted to 0.1": partial(starts.turned, lift=0.1),
    "spectral, then 1 step of SymHALS": partial(starts.with_hals, steps=1),
    "spectral, then 3 steps of SymHALS": partial(starts.with_hals, steps=3),
    "spectral, then 10 steps of SymHALS": partial(starts.with_hals, steps=10),
    "spectral, then 2 row steps": partial(starts.with_row_steps, steps=2),
    "spectral, then 5 row steps": partial(starts.with_row_steps, steps=5),
    "best for the r + 10 eigenpairs, to 1e-2": partial(starts.best_for_eigenpairs, tol=1e-2),
    "best for the r + 10 eigenpairs, to 1e-3": starts.best_for_eigenpairs,
    "NNDSVD": starts.nndsvd,
    "k-means indicators": starts.indicator,
    "half the rank, split": starts.nested_ranks,
    "coarse graph, 1 level": starts.coarse_graph,
    "coarse graph, 2 levels": partial(starts.coarse_graph, levels=2),
}

# -- distances --------------------------------------------------------------------------------------------------------

LM = LevenbergMarquardt
DISTANCE_IDEAS: dict[str, tuple[Any, Any]] = {
    "lm, core by itself (auto)": (LM(), random_start),
    "core: none": (LM(core=0), random_start),
    "core: 8 pairs a point": (LM(core=8), random_start),
    "core: 12 pairs a point": (LM(core=12), random_start),
    "core: 16 pairs a point": (LM(core=16), random_start),
    "core: 24 pairs a point": (LM(core=24), random_start),
    "core: 32 pairs a point": (LM(core=32), random_start),
    "equations to 0.1": (LM(forcing=0.1), random_start),
    "equations to 0.6": (LM(forcing=0.6), random_start),
    "equations to 0.9": (LM(forcing=0.9), random_start),
    "equations to 0.6, no core": (LM(core=0, forcing=0.6), random_start),
    "equations: at most 5 steps": (LM(max_cg=5), random_start),
    "equations: at most 10 steps": (LM(max_cg=10), random_start),
    "damping: 1e-4 first": (LM(damping=1e-4), random_start),
    "damping: 1 first": (LM(damping=1.0), random_start),
    "damping: 1 first, equations to 0.6": (LM(damping=1.0, forcing=0.6), random_start),
    "metric: ncg, row blocks": (ConjugateGradient("block"), random_start),
    "metric: ncg, XᵀX": (ConjugateGradient("gram"), random_start),
    "metric: ncg, none": (ConjugateGradient("none"), random_start),
    "metric: lbfgs, 3 pairs, XᵀX": (LBFGS(memory=3), random_start),
    "metric: lbfgs, 7 pairs, XᵀX": (LBFGS(), random_start),
    "metric: lbfgs, 20 pairs, XᵀX": (LBFGS(memory=20), random_start),
    "start: 20 landmarks, shortest paths": (LM(core=0), partial(distance_starts.shortest_paths, n_landmarks=20)),
    "start: 50 landmarks, shortest paths": (LM(core=0), distance_starts.shortest_paths),
    "start: eigenmap": (LM(core=0), distance_starts.eigenmap),
    "start: sampled Gram matrix, 1 filter of degree 6": (LM(core=0), distance_starts.sampled_gram),
    "start: sampled Gram matrix, 1 filter of degree 3": (LM(core=0), partial(distance_starts.sampled_gram, degree=3)),
    "start: sampled Gram matrix, 2 filters of degree 6": (
        LM(core=0),
        partial(distance_starts.sampled_gram, n_filters=2),
    ),
    "start: sampled Gram matrix, no filter": (LM(core=0), partial(distance_starts.sampled_gram, n_filters=0)),
    "start: sampled Gram matrix, ncg row blocks": (ConjugateGradient("block"), distance_starts.sampled_gram),
    "start: sampled Gram matrix, lbfgs": (LBFGS(), distance_starts.sampled_gram),
    "start: two dimensions more, lm to 1e-2": (LM(core=0), distance_starts.more_dimensions),
    "start: two dimensions more, lbfgs to 1e-1": (
        LM(core=0),
        partial(distance_starts.more_dimensions, lbfgs=True, tol=1e-1),
    ),
    "dyn-nolips, Gram kernel": (DynNoLips(), random_start),
}


@dataclass(frozen=True)
class Group:
    """Ideas that are compared with each other, the first with all others, on the same data."""

    title: str
    ideas: dict[str, Idea]
    data: tuple[str, ...]


def _ruled(start: Any) -> dict[str, Idea]:
    return {name: Idea(solver, start, kernel) for name, (solver, kernel) in RULES.items()}


def _started(solver: Any) -> dict[str, Idea]:
    return {name: Idea(solver, start) for name, start in STARTS.items()}


GROUPS: dict[str, Group] = {
    "random": Group("Symmetric NMF from the random start", _ruled(random_start), tuple(SIMILARITIES)),
    "spectral": Group("Symmetric NMF from the spectral start", _ruled(spectral_start), tuple(SIMILARITIES)),
    "starts-inertial": Group("Starts of symmetric NMF, inertial as it was", _started(Rules()), tuple(SIMILARITIES)),
    "starts-faster": Group(
        "Starts of symmetric NMF, inertial with its first step measured and failures made use of",
        _started(Rules(salvage=True, first="measure", restart="half")),
        tuple(SIMILARITIES),
    ),
    "starts-lbfgs": Group("Starts of symmetric NMF, L-BFGS", _started(LBFGS()), tuple(SIMILARITIES)),
    "distances": Group("Distances", {name: Idea(*given) for name, given in DISTANCE_IDEAS.items()}, tuple(DISTANCES)),
}
