"""Table 1 of the paper: seconds to ε = 1e-3, mean of ten starts, on the authors' machine; None where it has a dash."""

from __future__ import annotations

DATA = ("coil20", "cbcl", "tdt2", "reuters")
RANKS = (10, 20, 30, 40)
TITLES = {"coil20": "Coil-20", "cbcl": "CBCL", "tdt2": "TDT2", "reuters": "Reuters"}

_ORDER = ("dyn-nolips", "pg", "beta", "cd", "hals", "anls", "admm")
_SECONDS: dict[tuple[str, int], tuple[float | None, ...]] = {
    ("coil20", 10): (24.7, 51.4, None, 26.2, 7.0, 32.3, None),
    ("coil20", 20): (23.7, 36.8, None, 21.3, 4.0, 18.2, None),
    ("coil20", 30): (20.7, 40.8, None, 35.4, 6.5, 20.2, None),
    ("coil20", 40): (21.7, 49.5, None, 57.6, 7.5, 28.4, None),
    ("cbcl", 10): (38.2, 42.7, 44.0, 35.6, 13.6, 35.2, 42.8),
    ("cbcl", 20): (57.7, 88.4, None, 93.9, 17.8, 47.8, None),
    ("cbcl", 30): (60.9, 134.3, None, 135.0, 15.1, 43.4, None),
    ("cbcl", 40): (50.8, 126.4, None, 90.0, 23.7, 52.5, None),
    ("tdt2", 10): (35.2, 54.2, None, 97.5, 11.0, None, None),
    ("tdt2", 20): (52.4, 76.1, None, 109.9, 20.1, None, None),
    ("tdt2", 30): (29.4, 45.1, None, None, 12.1, None, None),
    ("tdt2", 40): (28.0, 49.8, None, None, 17.7, None, None),
    ("reuters", 10): (6.5, 10.0, None, 33.0, 3.0, 54.2, None),
    ("reuters", 20): (28.7, 32.8, None, 71.7, 9.5, 74.7, None),
    ("reuters", 30): (24.3, 45.5, None, 69.4, 6.5, 91.0, None),
    ("reuters", 40): (40.2, 68.5, None, 83.2, 10.6, 108.3, None),
}  # fmt: skip


def paper_seconds(data: str, rank: int, solver: str) -> float | None:
    """Return the paper's seconds, or None where it has a dash or does not have the cell or the solver.

    Examples
    --------
    >>> from quartic.bench.paper_numbers import paper_seconds
    >>> paper_seconds("coil20", 20, "hals"), paper_seconds("coil20", 20, "admm")
    (4.0, None)
    """
    row = _SECONDS.get((data, rank))
    return row[_ORDER.index(solver)] if row is not None and solver in _ORDER else None


def in_paper(data: str, rank: int, solver: str) -> bool:
    """Tell whether the paper's table has the cell and the solver, be it a dash."""
    return (data, rank) in _SECONDS and solver in _ORDER
