"""From a connected set of distances to points: cheap starts first, then what it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.core.units import shifted
from quartic.locating import starts as starts
from quartic.locating.part import Effort, Part, Search, finished
from quartic.locating.repairs import resolve_points, rounds_of_escape, shake_pieces, through_more_dimensions

# Pairs count as local where neighbours of a point are linked so many times as often as any two points.
_LOCAL = 3.0
# Above this many points the costly ways out are not tried.
_LARGE = 30_000
# Steps from a fit within the tolerance to one at round-off.
_LAST_STEPS = 8
# Up to this many, pieces are shaken one after the other.
_SHAKEN = 5000
# Starts with distances drawn within their bounds; fewer for more points.
_RESTARTS = 240
# A start is worth some more effort where it comes within this factor of the best.
_WORTH_A_TRY = 10.0
# Bounds are approached from outside, where the gradient vanishes with the misfit: this much less of it is asked for.
_RIM, _RIM_STEPS = 1e-5, 2000


def locate(part: Part, init: Any, effort: Effort, generator: np.random.Generator) -> tuple[Result, str]:
    """Return the best points found for a connected part, and what was done, in words.

    Parameters
    ----------
    part : Part
        The data.
    init : str or array
        ``"auto"``, the name of a start, or the start itself.
    effort : Effort
        The settings of the runs.
    generator : Generator
        For all that is random.
    """
    began = time.perf_counter()
    if not part.guess.any():
        return minimize(Problem(part.loss), rank=effort.rank), "all distances are zero"
    weighted = part
    if part.bounded and part.weights is None:
        # bounds are met or not, whatever the weights; with these a short distance counts as much as a long one
        weighted = replace(part, weights=1 / (part.guess**2 + 0.1 * part.size**2))
    search = Search(weighted, effort, generator)
    if not isinstance(init, str):
        search.offer(search.run(np.asarray(init, dtype=np.float64)))
        search.words.append("the start that was given")
    elif init == "auto":
        _escalate(search)
    else:
        _from(search, init)
    _polish(search)
    if weighted is not part:
        tol = _RIM * effort.tol
        search.offer(search.run(search.X, tol=tol, max_iter=_RIM_STEPS))
        plain = Search(part, effort, generator)
        search.best = plain.run(search.X, tol=tol, max_iter=_RIM_STEPS)
        if search.best.stationarity <= effort.tol * plain.reference:
            search.best = replace(search.best, status=Status.CONVERGED)
        search.n_iter, search.n_products = search.n_iter + plain.n_iter, search.n_products + plain.n_products
    return finished(search, time.perf_counter() - began), "; ".join(search.words)


def _start(search: Search, name: str) -> Array:
    rank = search.effort.rank
    make: dict[str, Callable[[], Array]] = {
        "random": lambda: starts.random(search, rank),
        "landmark": lambda: starts.shortest_paths(search, rank, landmarks=True),
        "mds": lambda: starts.shortest_paths(search, rank, landmarks=False),
        "eigenmap": lambda: starts.eigenmap(search, rank),
        "relaxed": lambda: starts.relaxed(search, rank),
        "lifted": lambda: starts.relaxed(
            search, rank, starts.shortest_paths(search, rank + 2, landmarks=search.part.n > 1000)
        ),
    }
    return make[name]()


_WORDS = {
    "random": "random start",
    "landmark": "shortest paths from landmarks",
    "mds": "shortest paths between all points",
    "eigenmap": "Laplacian eigenmap",
    "relaxed": "random start in two dimensions more",
    "lifted": "shortest paths in two dimensions more",
}


def _from(search: Search, name: str) -> None:
    """Minimise from the start of that name."""
    search.offer(search.run(_start(search, name)))
    search.words.append(f"{_WORDS[name]}{_outcome(search)}")


def _escalate(search: Search) -> None:
    """Try cheap starts first, look at the fit, and go on where it is bad."""
    part = search.part
    local = part.clustering(search.generator) > _LOCAL
    order = ["landmark", "lifted", "eigenmap", "relaxed"] if local else ["random", "relaxed", "landmark", "lifted"]
    if part.bounded:  # pieces that are shaken do more for bounds than other starts
        order = order[:2]
    rounds = 12 if part.n <= _LARGE else 3
    kept: Result | None = None
    for k, name in enumerate(order):
        search.best = None  # each start gets its own chance to be improved
        _from(search, name)
        _improve(search, rounds if k == 0 else rounds // 2)
        if kept is not None:
            search.offer(kept)
        kept = search.best
        if search.done() or not (part.bounded or part.is_suspect(search.X)) or part.n > _LARGE:
            return
    if part.bounded:
        _restart(search, int(np.clip(_RESTARTS * 250 / part.n, 5, _RESTARTS)))
    if part.n <= _SHAKEN and not search.done():
        helped = shake_pieces(search)
        search.words.append(f"pieces shaken, which helped {helped} times{_outcome(search)}")


def _restart(search: Search, times: int) -> None:
    """Begin again with other distances within the bounds, each time a little way through more dimensions."""
    kept = search.best
    made = 0
    while made < times and not search.done():
        made += 1
        beat = search.best_objective
        search.best = None
        X = starts.within_bounds(search, search.effort.rank)
        search.offer(search.run(X, max_iter=200, beat=_WORTH_A_TRY * beat))
        for extra in (1, 2):
            if not search.done() and search.best_objective < _WORTH_A_TRY * beat:
                through_more_dimensions(search, extra, 0.3, 40)
        if not search.done() and search.part.is_nearly_met(search.X):
            search.offer(search.run(search.X, tol=_RIM * search.effort.tol, max_iter=_RIM_STEPS))
        if kept is not None:
            search.offer(kept)
        kept = search.best
    search.words.append(f"{made} starts with distances drawn within the bounds{_outcome(search)}")


def _polish(search: Search) -> None:
    """Go on to round-off where all distances are met: near an exact answer a few steps more double its digits."""
    if search.effort.solver == "auto" and not search.part.bounded and search.done() and not search.effort.spent():
        before = search.best
        after = search.run(search.X, tol=0.0, max_iter=_LAST_STEPS)
        if before is not None and before.success and not after.success:  # it had converged, to the tolerance asked for
            after = replace(after, status=before.status, message=before.message)
        search.offer(after)


def _improve(search: Search, rounds: int) -> None:
    """Leave the local minimum by way of more dimensions, then point by point."""
    if search.done():
        return
    made = rounds_of_escape(search, rounds, patience=3)
    if made:
        search.words.append(f"{made} rounds through more dimensions{_outcome(search)}")
    if search.done() or search.part.n > _LARGE:
        return
    moved = resolve_points(search)
    if moved:
        search.words.append(f"{moved} points placed anew one at a time{_outcome(search)}")


def _outcome(search: Search) -> str:
    errors = search.part.errors(search.X)
    rms = shifted(float(np.sqrt(np.mean(errors**2))), search.effort.power)
    return f" (rmse {rms:.2g}{', all met' if search.part.is_met(search.X) else ''})"
