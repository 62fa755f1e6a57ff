"""The plan of a search: cheap starts first, a look at the fit, then what it takes; each component on its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.arrays.threads import limited_to, share_of
from quartic.core.loop import minimize
from quartic.core.problem import Problem
from quartic.core.result import Result, Status
from quartic.distance.component import Component, Search, Settings, add_anchor_pairs, spans_space
from quartic.distance.cuts import Cut, OtherAnswer, find_cuts
from quartic.distance.graph import is_local, mask_of
from quartic.distance.moves import (
    LANDMARKS,
    RIM,
    RIM_STEPS,
    approach,
    build_up,
    escape,
    shake_pieces,
    start_from_eigenmap,
    start_from_paths,
    start_relaxed,
)
from quartic.distance.patches import start_from_patches
from quartic.init.relaxed import relaxing_helps, sampled_start

# Above this many points the costly ways out are not tried; local graphs are first divided into patches, or where the
# first start fails.
_LARGE, _PATCHED, _IN_PATCHES = 30_000, 3000, 500
# Steps from a fit within the tolerance to one at round-off, which is there where squares are met to the second; to the
# third will do where all points are well linked.
_LAST_STEPS, _AT_ROUND_OFF, _WELL_LINKED = 8, 1e-12, 1e-9
# A fold of points in special position meets distances nearly: up to so many points, where none are met better than to
# this share, so many starts must meet them alike.
_FOLDED, _NEARLY_MET, _ALIKE = 500, 2e-12, 6
# Up to this many, cuts are looked at.
_CUT_UP_TO = 5000
# Up to this many, many starts are tried before a misfit is called noise.
_SMALL = 100
# Two runs end alike where their losses differ by less; a run leads lower where it is at most this share of another.
_SAME, _LOWER = 1.01, 0.99
# Two runs end in one minimum where their losses differ by less; other starts tried until one ends in the lowest.
_AGAIN, _STARTS_AGAIN = 1 + 1e-6, 3
# Cuts tried; steeper ones are not worth a run.
_CUTS, _STEEP = 12, 0.5
# A misfit of this share of the distances leaves room for many answers, and is called noise only where it is known.
_LOUD = 0.15
# Rounds through more dimensions after the first start.
_ROUNDS = 12
# Times that points are built up one by one within their bounds.
_BUILDS = 6


@dataclass
class Account:
    """What was done on the way: the last run, the iterations of all, and what the searches say of each component."""

    result: Result
    n_iter: int
    story: list[list[str]]
    unexplained: NDArray[np.bool_]
    others: list[OtherAnswer]
    in_place: bool | None = None


def search_component(component: Component, init: Any, effort: Settings, generator: np.random.Generator) -> Search:
    """Return the search for the points of a connected component: the best, what was done, and what is in doubt."""
    began = time.perf_counter()
    if not component.guess.any():
        result = minimize(Problem(component.loss), rank=effort.n_components)
        return Search(component, effort, generator, best=result, steps=["all distances are zero"], explained=True)
    weighted = component
    if component.bounded and component.weights is None:
        # bounds are met or not, whatever the weights; with these a short distance counts as much as a long one
        weighted = replace(component, weights=1 / (component.guess**2 + 0.1 * component.size**2))
    search = Search(weighted, effort, generator)
    auto = isinstance(init, str) and init == "auto"
    kept: Result | None = None
    ends = list[tuple[float, Array]]()
    for name in _order_starts(search) if auto else [init]:
        words, start = _STARTS[name] if isinstance(name, str) else ("the start that was given", lambda *_: init)
        search.best = None  # each start gets its own chance to be improved
        search.offer(search.run(search.onto_anchors(start(search, effort.n_components))))
        search.note(words)
        if not auto or (kept is None and _is_found_again(search, ends)):
            break
        _improve(search, _ROUNDS if kept is None else _ROUNDS // 2)
        if component.n_points <= _FOLDED:
            _polish(search)
        ends.append((search.best_objective, search.X))
        if kept is not None:
            search.offer(kept)
        kept, doubts = search.best, _has_doubts(search, ends)
        if effort.spent() or (not doubts and (search.done() or component.n_points > _LARGE)):
            break
        if not doubts and not component.bounded and _is_settled(search, ends):
            break
    else:
        made = 0
        while component.bounded and made < _BUILDS and not search.done():
            made += 1
            build_up(search)
        if made:
            search.note(f"points added one at a time within their bounds, {made} times")
        if component.n_points <= _CUT_UP_TO and not search.done():
            helped = shake_pieces(search)
            search.note(f"pieces shaken, which helped {helped} times")
    _polish(search)
    search.others = _find_other_answers(search, ends)
    if weighted is not component:
        plain = Search(component, effort, generator)
        search.best = plain.run(search.X, tol=RIM * effort.tol, max_iter=RIM_STEPS)
        if search.best.stationarity <= effort.tol * plain.reference:
            search.best = replace(search.best, status=Status.CONVERGED)
        search.n_iter, search.n_products = search.n_iter + plain.n_iter, search.n_products + plain.n_products
    met = weighted is component and search.is_met()  # which the loss may tell alone
    explained = search.explained or met or _is_noise(search, ends)
    if component.n_points > _LARGE and search.is_explained() is not False:
        explained = True  # of so many points a local minimum has outliers, which were looked for
    search.explained = component.bounded or met or (explained and not is_loud(component, search.errors, effort))
    assert search.best is not None
    n_iter, n_products, seconds = search.n_iter, search.n_products, time.perf_counter() - began
    search.best = replace(search.best, n_iter=n_iter, n_products=n_products, time=seconds)
    return search


def _start_at_random(search: Search, rank: int) -> Array:
    return search.component.loss.random_start(rank, False, search.generator)


def _start_from_sample(search: Search, rank: int) -> Array:
    """Return the leading eigenvectors of random pairs, where they stand out of the noise; else a random start."""
    X = sampled_start(Problem(search.component.loss), rank, search.generator)
    if X is None:
        X = search.drawn = _start_at_random(search, rank)
    return X


def _start_lifted(search: Search, rank: int) -> Array:
    landmarks = LANDMARKS if search.component.n_points > 1000 else None
    return start_relaxed(search, rank, start_from_paths(search, rank + 2, landmarks))


_STARTS: dict[str, tuple[str, Callable[[Search, int], Array]]] = {
    "random": ("random start", _start_at_random),
    "sampled": ("eigenvectors of the known distances, or random start", _start_from_sample),
    "landmark": ("shortest paths from landmarks", start_from_paths),
    "mds": ("shortest paths between all points", partial(start_from_paths, n_landmarks=None)),
    "eigenmap": ("Laplacian eigenmap", start_from_eigenmap),
    "patches": ("overlapping patches, registered", start_from_patches),
    "relaxed": ("random start in two dimensions more", start_relaxed),
    "lifted": ("shortest paths in two dimensions more", _start_lifted),
}


def _order_starts(search: Search) -> list[str]:
    component = search.component
    order = ["sampled", "relaxed", "landmark", "lifted"]
    if _is_local(component, search.generator):
        order = ["landmark", "lifted", "eigenmap", "relaxed"]
        if component.n_points > _IN_PATCHES:
            order[:1] = ["patches"] if component.n_points > _PATCHED else ["landmark", "patches"]
    if component.bounded:  # building up does more for bounds than other starts
        return order[:1]
    if component.n_points <= _SMALL:  # a start costs next to nothing here
        order += ["random", "relaxed"] * 4
    return order


def _is_local(component: Component, generator: np.random.Generator) -> bool:
    """Tell whether only near points are linked, as far as a sample shows."""
    return component.core is None and is_local(component.adjacency, generator)


def _is_found_again(search: Search, ends: list[tuple[float, Array]]) -> bool:
    """Tell whether other starts lead to the first fit of a well-linked graph again, or twice to a lower one.

    A point or a piece in a wrong place misses most of its distances there by far, so that the minima differ: two starts
    that lead to one value, to the digits of a run, and none to a lower one, have found the lowest. That noise which is
    known would leave as much says less: it leaves room for many points that are folded over. Of the minima next to the
    lowest, a point or a piece reflected, there are cheaper ways out than through more dimensions.
    """
    component, rank = search.component, search.effort.n_components
    if component.core is None or component.bounded or component.n_points <= _SMALL or search.done():
        return False
    if component.are_suspect(search.errors):
        return False
    start = start_relaxed if relaxing_helps(Problem(component.loss)) else _start_at_random
    for k in range(1, _STARTS_AGAIN + 1):
        before = search.best_objective
        again = search.run(search.onto_anchors(start(search, rank)))
        ends += [(before, search.X), (again.objective, again.X)]
        search.offer(again)
        if max(before, again.objective) <= _AGAIN * search.best_objective:
            others = "another start, which" if k == 1 else f"{k} other starts, the last of which"
            search.note(f"{others} led there again")
            lowest = not _turn_over(search)
            search.explained = lowest and component.noise is None  # noise that is known tells itself
            return lowest
    return False


def _is_settled(search: Search, ends: list[tuple[float, Array]]) -> bool:
    """Tell whether what is left of the misfit is noise: the data say so, or several starts end alike."""
    search.explained = _is_noise(search, ends)
    if search.explained and _turn_over(search):
        search.explained = search.done() or search.is_explained() is True
    return search.explained


def _is_noise(search: Search, ends: list[tuple[float, Array]]) -> bool:
    """Tell whether the misfit is round-off or noise: the data say so, or where they do not several starts end alike."""
    explained = search.is_explained()
    if explained is None:
        again = sum(objective <= _SAME * search.best_objective for objective, _ in ends)
        explained = again >= (3 if search.component.n_points <= _SMALL else 2)
    return explained


def is_loud(component: Component, errors: Array, settings: Settings) -> bool:
    """Tell whether the misfit is a large share of the distances, and not one that was to be expected."""
    expected = settings.approximate or component.noise is not None or component.bounded
    return not expected and component.root_mean_square(errors) > _LOUD * component.size


def _has_doubts(search: Search, ends: list[tuple[float, Array]]) -> bool:
    """Tell whether another start may lead elsewhere and meet distances as well.

    A fold of points nearly in special position, a grid say, is no answer, and meets them as well as if they were
    rounded. Within noise that is known few distances may be met in several ways, of which none is better.
    """
    component = search.component
    if search.effort.solver != "auto" or component.bounded or component.core is not None:
        return False
    if component.n_points <= _FOLDED and search.is_met():
        doubtful = not component.are_met(search.errors, _NEARLY_MET)
    else:
        doubtful = component.n_points <= _SMALL and component.noise is not None and bool(search.is_explained())
    return doubtful and sum(search.fits_as_well(*end) for end in ends) < _ALIKE


def _flat_cuts(search: Search) -> list[Cut]:
    """Return the cuts that are worth a run, the flattest first."""
    component = search.component
    if component.n_points > _CUT_UP_TO:
        return []
    if search.cuts[0] is not search.best:
        none = search.stands_in_place()
        cuts = [] if none else find_cuts(component.graph, search.X, np.random.default_rng(0))
        search.cuts = search.best, [cut for cut in cuts if cut.slope <= _STEEP][:_CUTS]
    return search.cuts[1]


def _turn_over(search: Search) -> bool:
    """Try the other side of flat cuts while that leads lower; tell whether it ever did."""
    helped = False
    for _ in range(_CUTS):
        before = search.best_objective
        for cut in _flat_cuts(search):
            if search.effort.spent():
                return helped
            found = search.run(cut.reflect(search.X), max_iter=200)
            if found.objective < _LOWER * before:
                search.offer(found if found.success else search.run(found.X))
                helped = True
                break
        else:
            break
    if helped:
        search.note("pieces turned over")
    return helped


def _find_other_answers(search: Search, ends: list[tuple[float, Array]]) -> list[OtherAnswer]:
    """Return answers beyond flat cuts, and those that starts led to, that fit as well, as far as can be told."""
    component = search.component
    if component.bounded:
        return []
    elsewhere = ends if len(ends) > 1 else []  # one start alone has led to the best
    answers = [search.answer(X) for objective, X in elsewhere if search.fits_as_well(objective, X, _NEARLY_MET)]
    for cut in [] if search.effort.spent() else _flat_cuts(search):
        other = search.run(cut.reflect(search.X), max_iter=200)
        if search.fits_as_well(other.objective, other.X):
            answers.append(search.answer(other.X, mask_of(cut.piece, component.n_points)))
    return answers


def _polish(search: Search) -> None:
    """Go on to round-off where all distances are met: near an exact answer a few steps more double its digits."""
    if search.effort.solver != "auto" or search.component.bounded:
        return
    # what hangs on few others may be off by far more than its distances are
    if search.has_loss_of(_AT_ROUND_OFF if search.component.core is None else _WELL_LINKED):
        return
    if search.best is None or not search.done() or search.effort.spent():
        return
    search.lie_flat()
    before, steps = search.best, _LAST_STEPS if search.component.n_points > _CUT_UP_TO else 4 * _LAST_STEPS
    after = search.run(search.X, tol=0.0, max_iter=steps)
    if before.success and not after.success:  # it had converged, to the tolerance asked for
        after = replace(after, status=before.status, message=before.message)
    search.offer(after)


def _improve(search: Search, rounds: int) -> None:
    """Leave the local minimum by way of more dimensions."""
    large = search.component.n_points > _LARGE
    if search.done() or (large and not search.component.are_suspect(search.errors)):
        return
    approach(search)
    made = 0 if large else escape(search, rounds, patience=3)
    if made:
        search.note(f"{made} rounds through more dimensions")


def search_all(
    whole: Component, label: NDArray[np.int64], settings: Settings, generator: np.random.Generator
) -> tuple[Array, Account]:
    """Return points, each component in a frame of its own, and what was done."""
    X: Array = np.zeros((whole.n_points, settings.n_components))
    results: list[Result] = []
    account = Account(None, 0, [], np.zeros(whole.n_points, dtype=bool), [])  # type: ignore[arg-type]
    several = isinstance(settings.init, str) and settings.n_init > 1
    for c, points, component in _components(whole, label):
        init = settings.init if isinstance(settings.init, str) else settings.init[points]
        if several:
            found = _search_repeatedly(component, settings, generator)
        else:
            with limited_to(share_of(settings.n_jobs, 1)):
                found = search_component(component, init, settings, np.random.default_rng(generator.integers(2**63)))
        assert found.best is not None
        results.append(found.best)
        if len(points) == len(X):
            X = found.X
        else:
            X[points] = found.X
            found.steps.insert(0, f"component {c} ({len(points)} points)")
        account.story.append(found.steps)
        account.unexplained[points] = not found.explained
        account.in_place = found.in_place
        account.others += [replace(other, points=points[other.points]) for other in found.others]
    account.result = min(results, key=lambda result: result.success)
    account.n_iter = max(1, sum(result.n_iter for result in results))
    return X, account


def _components(whole: Component, label: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], Component]]:
    """Yield the components of two points and more: number, points and data."""
    held = None
    if len(whole.anchors) > 1:
        if whole.n_points <= _PATCHED or not _is_local(whole, np.random.default_rng(0)):
            whole = add_anchor_pairs(whole)
        elif spans_space(whole.places):  # links between anchors far apart would spoil a local graph: they are held
            held = whole.anchors, whole.places
    if not label.any():
        yield 0, np.arange(whole.n_points), whole if held is None else replace(whole, held=held)
        return
    members = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])
    number = np.empty(whole.n_points, dtype=np.int64)
    owner = label[whole.pairs[:, 0]]
    inside_one = owner == label[whole.pairs[:, 1]]  # a lower bound may keep two components apart
    for c, points in enumerate(members):
        if len(points) > 1:
            number[points] = np.arange(len(points))
            component = whole.with_pairs(np.flatnonzero(inside_one & (owner == c)), number, len(points))
            if held is not None and c == label[held[0][0]]:
                component = replace(component, held=(number[held[0]], held[1]))
            yield c, points, component


def _search_repeatedly(component: Component, settings: Settings, generator: np.random.Generator) -> Search:
    """Return the best of the searches from ``n_init`` seeds; they end with the first that meets all distances."""
    seeds = [int(generator.integers(2**63)) for _ in range(settings.n_init)]

    def search(seed: int) -> Search:
        with limited_to(share_of(settings.n_jobs, len(seeds))):
            return search_component(component, settings.init, settings, np.random.default_rng(seed))

    _ = component.loss, component.adjacency  # made once, before threads share them
    results, found = map(search, seeds), []
    if settings.n_jobs not in (None, 1):
        results = Parallel(n_jobs=settings.n_jobs, require="sharedmem")(delayed(search)(seed) for seed in seeds)
    for each in results:
        found.append(each)
        if settings.stopped() or component.are_met(component.errors(each.X)):
            break
    return min(found, key=lambda each: each.best_objective)
