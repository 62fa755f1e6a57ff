"""Distance files of MD-jeep: a line for each pair of vertices, with a lower and an upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.io.atoms import Structure
from quartic.io.files import FileFormatError, read_lines, read_number, write_lines


@dataclass(frozen=True, eq=False)
class DistanceBounds:
    """Bounds on distances.

    Attributes
    ----------
    pairs : ndarray of int64 (m, 2)
        Pairs (i, j), i < j, counted from 0, in the order of the file.
    lower, upper : ndarray (m,)
        Bounds on the distance; a distance is known exactly where they are equal.
    n_points : int
        Number of vertices: the highest number in the file.
    atoms : Structure or None
        Names and residues of the vertices, where the file has them; its coordinates are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import DistanceBounds
    >>> bounds = DistanceBounds(np.array([[0, 1], [0, 2]]), np.array([1.0, 2.0]), np.array([1.0, 3.0]), 3)
    >>> bounds.exact
    array([ True, False])
    """

    pairs: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    n_points: int
    atoms: Structure | None = None

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Where the distance is known exactly, (m,)."""
        return np.asarray(self.lower == self.upper)


def read_mdjeep(path: str | Path, name: str | None = None) -> DistanceBounds:
    """Read a distance file of MD-jeep, plain or gzip.

    Both layouts are known, by what stands in the fifth and sixth column: ``i j lower upper [names]`` and
    ``i j residue residue lower upper [names]``. Vertices are counted from 1 in the file, from 0 in the answer. Blank
    lines and lines that start with ``#`` are skipped.

    Parameters
    ----------
    path : str or Path
        The file.
    name : str, optional
        What messages call it.

    Returns
    -------
    DistanceBounds
        Pairs and bounds.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_mdjeep
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "three.nmr"
    >>> _ = file.write_text("1 2 1.5 1.5 N CA\\n1 3 2.0 3.0 N C\\n")
    >>> bounds = read_mdjeep(file)
    >>> bounds.pairs.tolist(), bounds.upper.tolist()
    ([[0, 1], [0, 2]], [1.5, 3.0])
    """
    pairs, lower, upper = [], [], []
    atoms: dict[int, tuple[str, str, int]] = {}
    column = 0  # of the lower bound; set by the first pair
    lines, path = read_lines(path, name), name or path
    for at, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        column = column or _bounds_column(fields)
        if len(fields) < column + 2:
            raise FileFormatError.at(path, at, f"expected at least {column + 2} columns, got {len(fields)}")
        i, j = _vertex(fields[0], path, at), _vertex(fields[1], path, at)
        if i == j:
            raise FileFormatError.at(path, at, f"vertex {i + 1} is paired with itself")
        low = read_number(fields[column], "the lower bound", path, at)
        high = read_number(fields[column + 1], "the upper bound", path, at)
        if not 0 <= low <= high:
            raise FileFormatError.at(path, at, f"bounds must satisfy 0 <= lower <= upper, got {low:g} and {high:g}")
        for k, vertex in enumerate((i, j)):
            numbered = column == 4 and fields[2 + k].isdecimal() and len(fields[2 + k]) < 9
            atom, residue = fields[column + 2 + k :: 2] if len(fields) == column + 6 else ("", "")
            atoms[vertex] = atom, residue, int(fields[2 + k]) if numbered else 0
        pairs.append((min(i, j), max(i, j)))
        lower.append(low)
        upper.append(high)
    if not pairs:
        raise FileFormatError(f"{path}: no pair of vertices in the file")
    index = np.array(pairs, dtype=np.int64)
    n = int(index.max()) + 1
    return DistanceBounds(index, np.array(lower), np.array(upper), n, _structure(atoms, n))


def write_mdjeep(path: str | Path, pairs: Any, lower: Any, upper: Any = None) -> None:
    """Write a distance file of MD-jeep, ``i j lower upper``, vertices counted from 1 (gzip if the name ends in .gz).

    Parameters
    ----------
    path : str or Path
        The file; replaced if it exists.
    pairs : array of int (m, 2)
        Pairs, counted from 0.
    lower, upper : array (m,)
        Bounds; without ``upper`` the distances are exact.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import write_mdjeep
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.nmr"
    >>> write_mdjeep(file, [[0, 1]], [1.5])
    >>> file.read_text()
    '1 2 1.5 1.5\\n'
    """
    pairs = np.asarray(pairs)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"pairs must be integers of shape (m, 2), got {pairs.dtype} of shape {pairs.shape}")
    lower = np.asarray(lower, dtype=np.float64)
    upper = lower if upper is None else np.asarray(upper, dtype=np.float64)
    for name, given in (("lower", lower), ("upper", upper)):
        if given.shape != (len(pairs),):
            raise ValueError(f"{name} must have one entry for each of the {len(pairs)} pairs, got shape {given.shape}")
    bad = (pairs < 0).any(axis=1) | (pairs[:, 0] == pairs[:, 1]) | ~((lower >= 0) & (lower <= upper) & (upper < np.inf))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"pair {at} is {pairs[at].tolist()} with bounds {lower[at]:g} and {upper[at]:g}; it needs two different "
            "nonnegative indices and 0 <= lower <= upper"
        )
    rows = zip((pairs + 1).tolist(), lower.tolist(), upper.tolist(), strict=True)
    write_lines(path, [f"{i} {j} {low!r} {high!r}" for (i, j), low, high in rows])


def _structure(atoms: dict[int, tuple[str, str, int]], n: int) -> Structure | None:
    """Return the vertices as atoms, where every line told their names; a vertex without a distance has none."""
    if not all(name for name, _, _ in atoms.values()) or n > 4 * len(atoms) + 1000:
        return None
    names, residues, numbers = zip(*(atoms.get(k, ("X", "", 0)) for k in range(n)), strict=True)
    return Structure.of(np.zeros((n, 3)), names, residues, numbers)


def _bounds_column(fields: list[str]) -> int:
    """Return where the bounds are: after the residues if columns five and six are numbers, else before the names."""
    try:
        float(fields[4]), float(fields[5])
    except (IndexError, ValueError):
        return 2
    return 4


def _vertex(text: str, path: str | Path, at: int) -> int:
    try:
        vertex = int(text)
    except ValueError:
        vertex = 0
    if vertex < 1:
        raise FileFormatError.at(path, at, f"a vertex must be an integer from 1 on, got {text[:80]!r}")
    if vertex > 2**31:
        raise FileFormatError.at(path, at, f"a vertex must be at most 2³¹, got {text[:80]}")
    return vertex - 1
