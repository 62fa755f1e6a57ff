"""Where the answer lies: the frame, the mirror image, components side by side."""

from __future__ import annotations

import warnings
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import Array
from quartic.locating import checks as checks
from quartic.locating.frame import arranged, handed, moved_onto, orientations
from quartic.locating.input import Measurements
from quartic.locating.warnings import InconsistentWarning

Known: TypeAlias = tuple[NDArray[np.int64], Array]


def placed(
    X: Array, data: Measurements, component: NDArray[np.int64], n_components: int, targets: Known | None,
    simplices: Known | None, gap: float, level: int,
) -> tuple[Array, str]:  # fmt: skip
    """Return the points where they are to be, and what decided between the two mirror images.

    Parameters
    ----------
    X : array (n, r)
        The points, each component in some frame of its own; those with anchors where these say.
    data : Measurements
        For the anchors.
    component, n_components : array of int (n,), int
        What hangs together.
    targets : (points, places) or None
        Points onto which the answer is moved, as `frame.checked_targets` returns them.
    simplices : (points, signs) or None
        Which mirror image, as `frame.checked_signs` returns them.
    gap : float
        Between components.
    level : int
        How far up the user is from whoever calls this: warnings point there.
    """
    fixed = np.zeros(n_components, dtype=bool)
    fixed[component[data.anchors]] = True
    spanning = len(data.anchors) > 0 and checks.occupied_dimension(data.places) == X.shape[1]
    chirality = "the anchors decide" if spanning else "not determined by distances: both mirror images fit"
    if targets is not None:
        known, places = targets
        for c in np.unique(component[known]):
            if not fixed[c]:
                here = component[known] == c
                points = np.flatnonzero(component == c)
                X[points] = moved_onto(X[points], np.searchsorted(points, known[here]), places[here])
                fixed[c] = True
        if not spanning:
            chirality = "chosen to match align_to"
    X = arranged(X, component, fixed, gap)
    if simplices is not None:
        X = handed(X, component, fixed, *simplices)
        wrong = int(np.count_nonzero(orientations(X, simplices[0]) != simplices[1]))
        chirality = f"signs decide: {len(simplices[1]) - wrong} of {len(simplices[1])} are as wanted"
        if wrong:
            said = InconsistentWarning(
                f"{wrong} of {len(simplices[1])} signs cannot be met by reflecting whole components: they "
                "contradict the others, anchors or align_to, or parts of the answer are flipped"
            )
            warnings.warn(said, stacklevel=level + 1)
    return X, chirality
