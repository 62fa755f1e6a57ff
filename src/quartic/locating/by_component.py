"""Points for all components of the data, each searched for on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.arrays.threads import limited_to, share_of
from quartic.core.result import Result
from quartic.distance.cuts import OtherSide
from quartic.locating.input import Measurements
from quartic.locating.linked import with_anchor_pairs
from quartic.locating.part import Effort, Part
from quartic.locating.search import Found, locate
from quartic.locating.settings import Account, Settings


def searched(
    data: Measurements, component: NDArray[np.int64], n_components: int, well_linked: bool, settings: Settings,
    effort: Effort,
    generator: np.random.Generator,
) -> tuple[Array, Account]:  # fmt: skip
    """Return points, each component in a frame of its own, and what was done.

    Of several components the account has the run that failed, else the largest's.
    """
    X = np.zeros((data.n_points, settings.n_components))
    given = None if isinstance(settings.init, str) else _given_start(settings.init, X.shape)
    pairs, lower, upper, guess, weights = with_anchor_pairs(data)
    order = np.argsort(component, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(component, minlength=n_components))[:-1])
    number = np.empty(data.n_points, dtype=np.int64)
    owner = component[pairs[:, 0]]
    inside_one = owner == component[pairs[:, 1]]  # a lower bound may keep two components apart
    results: list[Result] = []
    words = []
    unexplained = np.zeros(data.n_points, dtype=bool)
    sides: list[OtherSide] = []
    for c, points in enumerate(members):
        if len(points) == 1:
            continue
        number[points] = np.arange(len(points))
        mine = np.flatnonzero(inside_one & (owner == c)) if n_components > 1 else slice(None)
        w = None if weights is None else weights[mine]
        part = Part(
            len(points), number[pairs[mine]], lower[mine], upper[mine], guess[mine], w, settings.noise, well_linked
        )
        init = settings.init if given is None else given[points]
        found = _best_search(part, init, settings, effort, generator)
        X[points] = found.result.X
        results.append(found.result)
        words.append(found.words if n_components == 1 else f"component {c} ({len(points)} points): {found.words}")
        unexplained[points] = not found.explained
        sides += [side.numbered(points) for side in found.sides]
    shown = words[:5] + ([f"and {len(words) - 5} more"] if len(words) > 5 else [])
    last = min(results, key=lambda result: result.success)
    n_iter = max(1, sum(result.n_iter for result in results))
    return X, Account(last, n_iter, ". ".join(shown), unexplained, sides)


def _best_search(part: Part, init: Any, settings: Settings, effort: Effort, generator: np.random.Generator) -> Found:
    n_jobs, n_init = settings.n_jobs, settings.n_init if isinstance(init, str) else 1
    seeds = [int(generator.integers(2**63)) for _ in range(n_init)]

    def one(seed: int) -> Found:
        with limited_to(share_of(n_jobs, len(seeds))):
            return locate(part, init, effort, np.random.default_rng(seed))

    if n_jobs in (None, 1):
        found = []
        for seed in seeds:
            found.append(one(seed))
            if effort.stopped() or part.is_met(found[-1].result.X):
                break
    else:
        _ = part.loss, part.adjacency  # made once, before the threads share them
        found = Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(one)(seed) for seed in seeds)
        met = [k for k, one_found in enumerate(found) if part.is_met(one_found.result.X)]
        found = found[: met[0] + 1] if met else found
    return min(found, key=lambda each: each.result.objective)


def _given_start(init: Any, shape: tuple[int, ...]) -> Array:
    start = np.asarray(init, dtype=np.float64)
    if start.shape != shape:
        raise ValueError(
            f"init must have one row for each of the {shape[0]} points and n_components = {shape[1]} columns, "
            f"got shape {start.shape}"
        )
    if not np.isfinite(start).all():
        raise ValueError("init must be finite")
    return start
