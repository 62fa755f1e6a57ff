"""What is asked for on a command line: cells, helices, solvers."""

from __future__ import annotations

from collections.abc import Sequence

from quartic.bench.contestants import SOLVERS
from quartic.bench.symnmf import Cell


def cells_asked(words: Sequence[str]) -> tuple[Cell, ...]:
    """Return the cells written ``data:rank``."""
    return tuple(Cell.parse(word) for word in words)


def helices_asked(words: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """Return the helices written ``points:share``.

    Examples
    --------
    >>> from quartic.bench.choice import helices_asked
    >>> helices_asked(["2000:0.1"])
    ((2000, 0.1),)
    """
    found = []
    for word in words:
        points, _, share = word.partition(":")
        try:
            n, known = int(points), float(share)
        except ValueError:
            n, known = 0, 0.0
        if n < 4 or not 0 < known <= 1:
            raise ValueError(f"{word!r} is not a helix: write points:share known, as in 5000:0.1")
        found.append((n, known))
    return tuple(found)


def solvers_asked(words: Sequence[str]) -> tuple[str, ...]:
    """Return solvers of the table by name, Dyn-NoLips, which limits the others, before them."""
    check_words("--solver", words, list(SOLVERS))
    return tuple(dict.fromkeys(("dyn-nolips", *words)))


def check_words(option: str, words: Sequence[str], among: Sequence[str]) -> None:
    """Raise unless each word is one of those known.

    Examples
    --------
    >>> from quartic.bench.choice import check_words
    >>> check_words("--only", ["edmc"], ("symnmf", "edmc"))
    """
    for word in words:
        if word not in among:
            raise ValueError(f"{option} {word!r} is not one of {', '.join(among)}")
