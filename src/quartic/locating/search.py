"""From a connected set of distances to points: cheap starts first, then what it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quartic.arrays import Array
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.core.units import shifted
from quartic.distance.cuts import Cut, OtherSide, find_cuts
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
# Up to this many, many starts are tried before a misfit is called noise.
_SMALL = 100
# Two runs end alike where their losses differ by less; a run leads lower where it is at most this share of another.
_SAME, _LOWER = 1.01, 0.99
# Cuts tried; steeper ones are not worth a run. A side is as likely as the other where twice the logarithm of their
# likelihoods differs by less than this. A point has moved if by this share of the distances.
_CUTS, _STEEP, _LIKELY, _MOVED = 12, 0.5, 12.0, 1e-3
# Starts with distances drawn within their bounds; fewer for more points.
_RESTARTS = 240
# A start is worth some more effort where it comes within this factor of the best.
_WORTH_A_TRY = 10.0
# Bounds are approached from outside, where the gradient vanishes with the misfit: this much less of it is asked for.
_RIM, _RIM_STEPS = 1e-5, 2000


@dataclass(frozen=True, eq=False)
class Found:
    """What a search led to.

    Attributes
    ----------
    result : Result
        The best run.
    words : str
        What was done.
    explained : bool
        Whether the misfit is round-off or noise, as far as can be told.
    sides : list of OtherSide
        Answers that fit as well, with a piece on the other side of a flat cut.
    """

    result: Result
    words: str
    explained: bool
    sides: list[OtherSide] = field(default_factory=list)


def locate(part: Part, init: Any, effort: Effort, generator: np.random.Generator) -> Found:
    """Return the best points found for a connected part, what was done, and what is in doubt.

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
        return Found(minimize(Problem(part.loss), rank=effort.rank), "all distances are zero", True)
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
    sides = _other_sides(search)
    if weighted is not part:
        tol = _RIM * effort.tol
        search.offer(search.run(search.X, tol=tol, max_iter=_RIM_STEPS))
        plain = Search(part, effort, generator)
        search.best = plain.run(search.X, tol=tol, max_iter=_RIM_STEPS)
        if search.best.stationarity <= effort.tol * plain.reference:
            search.best = replace(search.best, status=Status.CONVERGED)
        search.n_iter, search.n_products = search.n_iter + plain.n_iter, search.n_products + plain.n_products
    explained = search.settled or part.is_explained(search.X, generator)
    if explained is None:  # of so many points a local minimum has outliers, which were looked for
        explained = part.n > _LARGE
    words = "; ".join(search.words)
    return Found(finished(search, time.perf_counter() - began), words, explained or part.bounded, sides)


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
    local = not part.well_linked and part.clustering(search.generator) > _LOCAL
    order = ["landmark", "lifted", "eigenmap", "relaxed"] if local else ["random", "relaxed", "landmark", "lifted"]
    if part.bounded:  # pieces that are shaken do more for bounds than other starts
        order = order[:2]
    elif part.n <= _SMALL:  # a start costs next to nothing here
        order += ["random", "relaxed"] * 4
    rounds = 12 if part.n <= _LARGE else 3
    kept: Result | None = None
    ends: list[float] = []
    for k, name in enumerate(order):
        search.best = None  # each start gets its own chance to be improved
        _from(search, name)
        _improve(search, rounds if k == 0 else rounds // 2)
        ends.append(search.best_objective)
        if kept is not None:
            search.offer(kept)
        kept = search.best
        if search.done() or part.n > _LARGE:
            return
        if not part.bounded and _is_settled(search, ends):
            return
    if part.bounded:
        _restart(search, int(np.clip(_RESTARTS * 250 / part.n, 5, _RESTARTS)))
    if part.n <= _SHAKEN and not search.done():
        helped = shake_pieces(search)
        search.words.append(f"pieces shaken, which helped {helped} times{_outcome(search)}")


def _is_settled(search: Search, ends: list[float]) -> bool:
    """Tell whether what is left of the misfit is noise: the data say so, or several starts end alike."""
    part = search.part
    explained = part.is_explained(search.X, search.generator)
    if explained is None:
        again = sum(end <= _SAME * search.best_objective for end in ends)
        explained = again >= (3 if part.n <= _SMALL else 2)
    if explained and _turn_over(search):
        return search.done() or part.is_explained(search.X, search.generator) is True
    search.settled = explained
    return explained


def _flat_cuts(search: Search) -> list[Cut]:
    """Return the cuts that are worth a run, the flattest first."""
    if search.part.n > _SHAKEN or search.part.well_linked:
        return []
    cuts = find_cuts(search.part.graph, search.X, np.random.default_rng(0))
    return [cut for cut in cuts if cut.slope <= _STEEP][:_CUTS]


def _turn_over(search: Search) -> bool:
    """Try the other side of flat cuts while that leads lower; tell whether it ever did."""
    helped = False
    for _ in range(_CUTS):
        before = search.best_objective
        for cut in _flat_cuts(search):
            if search.effort.spent():
                return helped
            search.offer(search.run(cut.reflect(search.X), max_iter=200, beat=before))
            if search.best_objective < _LOWER * before:
                helped = True
                break
        else:
            break
    if helped:
        search.words.append(f"pieces turned over{_outcome(search)}")
    return helped


def _other_sides(search: Search) -> list[OtherSide]:
    """Return the answers beyond flat cuts that fit too, as far as tolerance or noise can tell."""
    part = search.part
    if part.bounded or search.best is None or search.effort.spent():
        return []
    freedom = max(len(part.pairs) - search.effort.rank * part.n, 1)
    likely = 1 + _LIKELY / freedom  # RSS + c σ², with σ² = RSS / freedom; of squares and of distances, as either may be
    best, squares = search.best_objective, float(np.sum(part.misses(search.X) ** 2))
    sides = []
    for cut in _flat_cuts(search):
        other = search.run(cut.reflect(search.X), max_iter=200)
        as_good = other.objective <= likely * best or float(np.sum(part.misses(other.X) ** 2)) <= likely * squares
        if part.is_met(other.X) if part.is_met(search.X) else as_good:
            here, there = cut.sides(search.X, max(_MOVED * part.size, 4 * (squares / len(part.pairs)) ** 0.5))
            sides.append(OtherSide(here, there, other.X[np.concatenate([here, there])]))
    return sides


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
