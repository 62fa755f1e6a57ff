"""An account of what a set of distances fixes, point by point, and its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from quartic.distance.pair_graph import Indices, Mask


@dataclass(frozen=True, eq=False)
class Determination:
    """An account of what a set of distances fixes and what it leaves open.

    Attributes
    ----------
    determined : (n,) array of bool
        The point lies in the largest globally rigid part, or, with anchors, in the part tied to them.
    component : (n,) array of int
        Connected component, 0 for the largest. Anchors are linked to each other: their distances are known.
    part : (n,) array of int
        Globally rigid part, 0 for the one that is called determined, then by size; -1 for none. A point shared by
        several parts (a hinge) counts with the first of them.
    locally_rigid : (n,) array of bool
        The point cannot move continuously against part 0 (or, without parts, against the largest locally rigid set).
    may_flip : (n,) array of bool
        The mirror image of the point in a plane of its neighbours fits nearly as well, at the coordinates given.
    too_few : array of int
        Points that are not determined and have fewer than d + 1 distances.
    isolated : array of int
        Points without any distance that are not anchors.
    n_dimensions, n_anchors : int
    anchors_span : bool
        Whether there are d + 1 anchors in general position, so that the answer is fixed in space; otherwise it is fixed
        only up to the motions and reflections that leave the anchors where they are.
    complete : bool
        False where the stress test was given up as too large: then more points may be determined than are said to be.
    unexplained : bool
        True where points are not called determined because the distances are missed by more than noise or round-off.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.rigidity import assess
    >>> K4 = np.column_stack(np.triu_indices(4, 1))
    >>> X = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.0], [1.0, 1.4], [2.0, 2.0]])
    >>> print(assess(np.concatenate([K4, [[4, 3]]]), X).summary())
    4 of 5 points are determined up to a rigid motion and a reflection of the whole. 1 hangs on too few distances (fewer
    than 3): 4. 1 can still move continuously.
    """

    determined: Mask
    component: Indices
    part: Indices
    locally_rigid: Mask
    may_flip: Mask
    too_few: Indices = field(repr=False)
    isolated: Indices = field(repr=False)
    n_dimensions: int
    n_anchors: int
    anchors_span: bool
    complete: bool
    unexplained: bool = False

    def without(
        self, sides: list[tuple[Indices, Indices]], misfit: Mask | None = None, anchors: Indices | None = None
    ) -> Determination:
        """Return the account with points in doubt that may be reflected, or whose misfit is no noise.

        Each item of ``sides`` is two sets of points that fit each other in two ways. The one with anchors stays
        determined, else the larger; where both have anchors, these decide.
        """
        determined, body, flips = self.determined.copy(), self.part.copy(), self.may_flip.copy()
        known = np.zeros(self.n_points, dtype=bool)
        if anchors is not None:
            known[anchors] = True
        for pair in sides:
            keep, lose = sorted(pair, key=lambda side: (-known[side].sum(), -determined[side].sum()))
            if known[lose].any() or not determined[keep].any():
                continue
            lost = lose[determined[lose]]
            flips[lost] = True
            determined[lost] = False
            body[lost] = body.max(initial=-1) + 1
        unexplained = misfit is not None and bool((misfit & determined).any())
        if misfit is not None and unexplained:
            determined &= ~misfit
        _, numbers = np.unique(body[body >= 0], return_inverse=True)
        body[body >= 0] = numbers
        return replace(self, determined=determined, part=body, may_flip=flips, unexplained=unexplained)

    @property
    def n_points(self) -> int:
        """The number of points."""
        return len(self.determined)

    @property
    def n_determined(self) -> int:
        """The number of determined points."""
        return int(np.count_nonzero(self.determined))

    @property
    def n_components(self) -> int:
        """The number of connected components, isolated points included."""
        return int(self.component.max(initial=-1)) + 1

    @property
    def n_parts(self) -> int:
        """The number of globally rigid parts found."""
        return int(self.part.max(initial=-1)) + 1

    def summary(self, *, max_listed: int = 8) -> str:
        """Return one paragraph in words, with counts, and the indices of at most ``max_listed`` points of each kind."""
        return self.in_words(str, max_listed)

    def in_words(self, name: Callable[[int], str], max_listed: int = 8) -> str:
        """Return `summary` with points called as ``name`` calls them."""

        def named(points: Indices) -> str:
            text = ", ".join(name(int(k)) for k in points[:max_listed])
            return f"{text}, ..." if len(points) > max_listed else text

        sentences = [f"{self.n_determined:,} of {self.n_points:,} points are determined{self._frame()}."]
        if len(self.isolated):
            verb = "has" if len(self.isolated) == 1 else "have"
            sentences.append(f"{len(self.isolated):,} {verb} no distance at all: {named(self.isolated)}.")
        hanging = np.setdiff1d(self.too_few, self.isolated, assume_unique=True)
        if len(hanging):
            verb = "hangs" if len(hanging) == 1 else "hang"
            sentences.append(
                f"{len(hanging):,} {verb} on too few distances (fewer than {self.n_dimensions + 1}): {named(hanging)}."
            )
        moving = np.flatnonzero(~self.locally_rigid)
        if len(moving):
            sentences.append(f"{len(moving):,} can still move continuously.")
        turning = np.flatnonzero(self.locally_rigid & ~self.determined)
        if len(turning):
            sentences.append(
                f"{len(turning):,} cannot move but may sit elsewhere, as after a flip across a hinge: {named(turning)}."
            )
        apart = np.flatnonzero(self.part > 0)
        if len(apart):
            others = self.n_parts - 1
            noun = "part" if others == 1 else "parts"
            sentences.append(
                f"{len(apart):,} of the others lie in {others:,} smaller {noun}, fixed within but not against the rest."
            )
        if self.n_components > 1:
            sizes = np.bincount(self.component)
            listed = ", ".join(f"{int(size):,}" for size in sizes[:max_listed])
            more = ", ..." if len(sizes) > max_listed else ""
            sentences.append(
                f"{self.n_components:,} components have no distance between them (sizes {listed}{more}): "
                "their places against each other are arbitrary."
            )
        flipping = np.flatnonzero(self.may_flip & self.determined)
        if len(flipping):
            verb = "hangs" if len(flipping) == 1 else "hang"
            sentences.append(
                f"{len(flipping):,} determined in theory {verb} on neighbours that lie nearly in one "
                f"{'line' if self.n_dimensions == 2 else 'plane'} and may be flipped: {named(flipping)}."
            )
        if self.unexplained:
            sentences.append("The distances are missed by more than noise or round-off: these places are in doubt.")
        if not self.complete:
            sentences.append(
                "The test was cut short as too large: more points may be determined than are counted here."
            )
        return " ".join(sentences)

    def _frame(self) -> str:
        if self.anchors_span:
            return " in the frame of the anchors"
        if self.n_anchors == 0:
            return " up to a rigid motion and a reflection of the whole"
        noun = "anchor fixes" if self.n_anchors == 1 else "anchors fix"
        return (
            f", but {self.n_anchors} {noun} the frame only in part (it takes {self.n_dimensions + 1} in general "
            "position): the whole may still be turned or reflected about them"
        )
