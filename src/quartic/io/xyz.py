"""XYZ files: a count, a comment, and a line for each atom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quartic.io.errors import FileFormatError
from quartic.io.structure import Structure, as_structure
from quartic.io.text import number, read_lines, write_lines


def read_xyz(path: str | Path) -> Structure:
    """Read the first frame of an XYZ file, plain or gzip.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Structure
        Coordinates and element names; columns after the third coordinate are left out.

    Raises
    ------
    FileFormatError
        With the line at fault.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_xyz
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "h2.xyz"
    >>> _ = file.write_text("2\\nhydrogen\\nH 0 0 0\\nH 0 0 0.74\\n")
    >>> read_xyz(file).names
    ('H', 'H')
    """
    lines = read_lines(path)
    try:
        count = int(lines[0])
    except (IndexError, ValueError):
        raise FileFormatError.at(path, 1, "the first line must be the number of atoms") from None
    if count < 1:
        raise FileFormatError.at(path, 1, f"the number of atoms must be positive, got {count}")
    if len(lines) < count + 2:
        raise FileFormatError.at(path, len(lines), f"the file ends early: {count} atoms said, {len(lines) - 2} found")
    coordinates, names = [], []
    for at, line in enumerate(lines[2 : count + 2], start=3):
        fields = line.split()
        if len(fields) < 4:
            raise FileFormatError.at(path, at, f"expected a name and three coordinates, got {line.strip()!r}")
        names.append(fields[0])
        coordinates.append([number(text, "a coordinate", path, at) for text in fields[1:4]])
    return Structure.of(coordinates, names)


def write_xyz(path: str | Path, atoms: Any, comment: str = "") -> None:
    """Write an XYZ file (gzip if the name ends in .gz); reading it gives the same floats back.

    Parameters
    ----------
    path : str or Path
        The file; replaced if it exists.
    atoms : Structure or array (n, 3)
        Atoms, or only their coordinates.
    comment : str
        The second line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_xyz, write_xyz
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "one.xyz"
    >>> write_xyz(file, [[1 / 3, 0.0, 2.0]])
    >>> float(read_xyz(file).coordinates[0, 0]) == 1 / 3
    True
    """
    atoms = as_structure(atoms)
    if "\n" in comment or "\r" in comment:
        raise ValueError("comment must be a single line")
    rows = zip(atoms.names, atoms.coordinates.tolist(), strict=True)
    lines = [f"{_word(name)} {x!r} {y!r} {z!r}" for name, (x, y, z) in rows]
    write_lines(path, [str(len(atoms)), comment, *lines])


def _word(name: str) -> str:
    return "_".join(name.split()) or "X"
