"""What distance completion warns of."""

from __future__ import annotations


class DistanceWarning(UserWarning):
    """Something about the distances, or the answer, that one ought to know."""


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
