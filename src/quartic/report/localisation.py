"""The section of the report on a localisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.report.page import DataTable
from quartic.report.point_figures import residual_histogram, scatter_of_points
from quartic.report.run_figures import convergence

if TYPE_CHECKING:
    from quartic.estimators import DistanceCompletion

_WORST = 10
_MOST_NAMES = 60


def localisation_figures(
    model: DistanceCompletion,
    pairs: NDArray[np.int64],
    residuals: Array,
    anchors: Sequence[int] = (),
    names: Sequence[object] | None = None,
) -> list[tuple[Any, str]]:
    """Return the figures of a fitted model."""
    at = np.array(sorted(anchors), dtype=np.int64)
    return [
        scatter_of_points(model.embedding_, pairs, np.asarray(model.determined_), at, names),
        residual_histogram(residuals),
        convergence(model.result_),
    ]


def localisation_tables(
    model: DistanceCompletion,
    pairs: NDArray[np.int64],
    residuals: Array,
    given: Sequence[str],
    names: Sequence[object],
) -> list[DataTable]:
    """Return the pairs that fit worst, and the points that the data do not determine."""
    worst = np.argsort(-np.abs(residuals), kind="stable")[:_WORST]
    found = model.distances(pairs[worst])
    rows = [
        [str(names[pairs[k, 0]]), str(names[pairs[k, 1]]), given[k], f"{d:.6g}", f"{residuals[k]:+.2e}"]
        for k, d in zip(worst.tolist(), found.tolist(), strict=True)
    ]
    tables = [DataTable("The pairs that fit worst", ["point", "point", "given", "found", "error"], rows)]
    tables.append(_undetermined(model, names))
    return tables


def _undetermined(model: DistanceCompletion, names: Sequence[object]) -> DataTable:
    """Return the points that the data do not determine, by why they are not."""
    found = model.determination_
    isolated = np.asarray(found.isolated)
    hanging = np.setdiff1d(found.too_few, isolated)
    rest = ~np.asarray(found.determined)
    rest[isolated] = rest[hanging] = False
    kinds = {
        "no distance": isolated,
        f"fewer than {found.n_dimensions + 1} distances": hanging,
        "can move": np.flatnonzero(rest & ~found.locally_rigid),
        "may sit elsewhere, as after a flip": np.flatnonzero(rest & found.locally_rigid),
    }
    rows = [[why, str(len(points)), _listed(points, names)] for why, points in kinds.items() if len(points)]
    said = f"{found.n_determined} of {found.n_points} points are determined."
    if found.n_components > 1:
        said += f" {found.n_components} parts have no distance between them; their places to each other are arbitrary."
    return DataTable("What the data determine", ["not determined because", "how many", "points"], rows, said)


def _listed(points: NDArray[np.int64], names: Sequence[object]) -> str:
    some = [str(names[i]) for i in points[:_MOST_NAMES]]
    return ", ".join(some) + (f" … and {len(points) - len(some)} more" if len(points) > len(some) else "")


def residuals_of(
    X: Array, pairs: NDArray[np.int64], distances: Array | None, lower: Array | None, upper: Array | None
) -> tuple[Array, list[str]]:
    """Return by how much each pair misses its distance or its bounds, and what was given for it, in words."""
    d = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    nothing = np.full(len(pairs), np.nan)
    exact = nothing if distances is None else distances
    low = nothing if lower is None else lower
    high = nothing if upper is None else upper
    free = np.isnan(low) & np.isnan(high)
    floor = np.where(free, exact, np.nan_to_num(low))
    ceiling = np.where(free, exact, np.where(np.isnan(high), np.inf, high))
    words = [
        f"{a:.6g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in zip(floor.tolist(), ceiling.tolist(), strict=True)
    ]
    residuals: Array = d - np.clip(d, floor, ceiling)
    return residuals, words
