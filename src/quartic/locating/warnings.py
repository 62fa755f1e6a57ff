"""What distance completion warns of."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARK = re.compile(r"\{(\d+)\}")


def mark(point: int) -> str:
    """Return what stands for a point in the text of a warning, until it is told."""
    return f"{{{int(point)}}}"


class DistanceWarning(UserWarning):
    """Something about the distances, or the answer, that one ought to know.

    Its text has a `mark` for each point it speaks of: as a string it has their numbers there, `told` by its names.

    Examples
    --------
    >>> from quartic.estimators import DistanceWarning
    >>> warning = DistanceWarning("{1} is far from {0}")
    >>> str(warning), warning.told(["ann", "bob"])
    ('1 is far from 0', 'bob is far from ann')
    """

    def __str__(self) -> str:
        return _MARK.sub(r"\1", str(self.args[0]))

    def told(self, names: Sequence[str]) -> str:
        """Return the text with the points by these names."""
        return _MARK.sub(lambda found: names[int(found[1])], str(self.args[0]))


class UndeterminedWarning(DistanceWarning):
    """The distances do not fix every point."""


class InconsistentWarning(DistanceWarning):
    """The distances contradict each other: no points anywhere have them."""


class DuplicateWarning(DistanceWarning):
    """Pairs were given more than once, and agree."""


class FlatWarning(DistanceWarning):
    """The points fill a space of fewer dimensions than was asked for."""


class MisfitWarning(DistanceWarning):
    """Some distances are missed by far more than the others: the answer is probably a local minimum."""
