"""Where the answer stands in space: distances fix it only up to motions and a reflection of each component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.distance.component import move_onto, turn_to_principal_axes
from quartic.distance.data import Measurements
from quartic.distance.findings import DistanceWarning, InconsistentWarning
from quartic.init.components import place_apart

Labels: TypeAlias = NDArray[np.int64]
Known: TypeAlias = tuple[NDArray[np.int64], Array]


def spans_space(places: Array) -> bool:
    """Tell whether points extend in all directions of their space."""
    extent = np.linalg.svd(places - places.mean(axis=0), compute_uv=False)
    return bool(np.count_nonzero(extent > 1e-9 * extent[0]) == places.shape[1])


def reflect_through(X: Array, places: Array) -> Array:
    """Return X reflected in a hyperplane through the places; X itself where they span the space."""
    if spans_space(places):
        return X
    center = places.mean(axis=0)
    _, _, axes = np.linalg.svd(places - center)
    reflected: Array = X - 2 * np.outer((X - center) @ axes[-1], axes[-1])
    return reflected


def arrange(X: Array, component: Labels, fixed: NDArray[np.bool_], gap: float) -> Array:
    """Return X with every component that is not fixed centred, on its principal axes, and apart from the others.

    Parameters
    ----------
    X : array (n, r)
    component : array of int (n,)
        The component of each point.
    fixed : array of bool, one a component
        Which components stay where they are.
    gap : float
        The space between components.
    """
    X = X.copy()
    n_components = len(fixed)
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    for points, stays in zip(members, fixed, strict=True):
        if not stays:
            X[points] = turn_to_principal_axes(X[points])
    if n_components == 1:
        return X
    if not fixed.any():
        X = place_apart(X, component, gap=gap)
        centred: Array = X - X.mean(axis=0)
        return centred
    # the fixed ones keep their places; the others go beside their common box
    held = fixed[component]
    loose = np.flatnonzero(~held)
    if len(loose):
        _, numbers = np.unique(component[loose], return_inverse=True)
        beside = place_apart(X[loose], numbers, gap=gap)
        corner = X[held].max(axis=0)
        corner[1:] = X[held].min(axis=0)[1:]
        corner[0] += gap
        X[loose] = beside - beside.min(axis=0) + corner
    return X


def check_targets(align_to: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return indices and places of what the answer is to be aligned to."""
    if isinstance(align_to, Mapping):
        table = np.full((n, rank), np.nan)
        for k, place in align_to.items():
            row = np.asarray(place, dtype=np.float64)
            if not (isinstance(k, int | np.integer) and 0 <= k < n) or row.shape != (rank,):
                raise ValueError(
                    f"align_to has the entry {k!r}: {place!r}; it needs an index below {n} and {rank} numbers"
                )
            table[k] = row
    else:
        table = np.asarray(align_to, dtype=np.float64)
        if table.shape != (n, rank):
            raise ValueError(
                f"align_to must be a dict {{index: coordinates}} or an array ({n}, {rank}) with NaN rows where there "
                f"is nothing to align to, got shape {table.shape}"
            )
    known = np.flatnonzero(np.isfinite(table).all(axis=1))
    if len(known) == 0:
        raise ValueError("align_to holds no point to align to: every row is NaN")
    return known, table[known]


def check_signs(signs: Any, n: int, rank: int) -> tuple[NDArray[np.int64], Array]:
    """Return simplices of r + 1 points and their wanted orientations, +1 or −1."""
    table = np.asarray(signs)
    if table.ndim != 2 or table.shape[1] != rank + 2 or table.dtype.kind not in "iuf":
        raise ValueError(
            f"signs must have rows of {rank + 1} indices and a sign (1 or -1), shape (k, {rank + 2}), got {table.shape}"
        )
    simplices, wanted = table[:, :-1].astype(np.int64), np.sign(table[:, -1].astype(np.float64))
    bad = ((simplices < 0) | (simplices >= n)).any(axis=1) | (wanted == 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"signs[{at}] = {table[at].tolist()} needs indices from 0 to {n - 1} and a sign that is not 0")
    return simplices, wanted


def find_orientations(X: Array, simplices: NDArray[np.int64]) -> Array:
    """Return the sign of det(x₁ − x₀, …, x_r − x₀) of each simplex."""
    edges = X[simplices[:, 1:]] - X[simplices[:, :1]]
    found: Array = np.sign(np.linalg.det(edges))
    return found


def reflect_to_signs(
    X: Array, component: Labels, fixed: NDArray[np.bool_], simplices: NDArray[np.int64], wanted: Array
) -> Array:
    """Return X with each component reflected where more simplices then have the orientation wanted."""
    X = X.copy()
    agree = find_orientations(X, simplices) * wanted
    owner = component[simplices[:, 0]]
    for c in np.unique(owner):
        if not fixed[c] and agree[owner == c].sum() < 0:
            X[component == c, -1] *= -1.0
    return X


def place_answer(
    X: Array, data: Measurements, component: Labels, targets: Known | None, simplices: Known | None, gap: float
) -> tuple[Array, str, list[DistanceWarning]]:
    """Return the points where they are to be, what decided between the two mirror images, and signs that are not met.

    Parameters
    ----------
    X : array (n, r)
        The points, each component in some frame of its own; those with anchors where these say.
    data : Measurements
        For the anchors.
    component : array of int (n,)
        The component of each point.
    targets : (points, places) or None
        Points onto which the answer is moved, as `check_targets` returns them.
    simplices : (points, signs) or None
        Which mirror image, as `check_signs` returns them.
    gap : float
        Between components.
    """
    fixed = np.zeros(int(component.max()) + 1, dtype=bool)
    fixed[component[data.anchors]] = True
    spanning = len(data.anchors) > 0 and spans_space(data.places)
    chirality = "the anchors decide" if spanning else "not determined by distances: both mirror images fit"
    if targets is not None:
        known, places = targets
        X = X.copy()
        for c in np.unique(component[known]):
            if not fixed[c]:
                here = component[known] == c
                points = np.flatnonzero(component == c)
                X[points] = move_onto(X[points], np.searchsorted(points, known[here]), places[here])
                fixed[c] = True
        if not spanning:
            chirality = "chosen to match align_to"
    X = arrange(X, component, fixed, gap)
    if simplices is None:
        return X, chirality, []
    X = reflect_to_signs(X, component, fixed, *simplices)
    total = len(simplices[1])
    wrong = int(np.count_nonzero(find_orientations(X, simplices[0]) != simplices[1]))
    unmet = InconsistentWarning(
        f"{wrong} of {total} signs cannot be met by reflecting whole components: they contradict the others, anchors "
        "or align_to, or pieces of the answer are flipped"
    )
    return X, f"signs decide: {total - wrong} of {total} are as wanted", [unmet] if wrong else []
