"""What the settings of a table or figure share: that everything is run from some random starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self


@dataclass(frozen=True, kw_only=True)
class FromStarts:
    """Settings of runs from random starts.

    Parameters
    ----------
    starts : int
        Random starts.
    first_start : int
        The seed of the first; those of the others follow.

    Examples
    --------
    >>> from quartic.bench.from_starts import FromStarts
    >>> list(FromStarts(starts=2, first_start=5).seeds())
    [5, 6]
    """

    #: the settings that say which part of a table is run
    part: ClassVar[tuple[str, ...]] = ()

    starts: int = 10
    first_start: int = 0

    def seeds(self) -> range:
        """Return the seeds of the starts."""
        return range(self.first_start, self.first_start + self.starts)

    def must_agree(self) -> Self:
        """Return what rows of one table share, whatever part of it and whichever starts were asked for."""
        return replace(self, **dict.fromkeys(self.part, ()), starts=0, first_start=0)

    def asked(self, **options: Any) -> Self:
        """Return these settings but for the options that are given, which are those that are not None."""
        return replace(self, **{name: value for name, value in options.items() if value is not None})
