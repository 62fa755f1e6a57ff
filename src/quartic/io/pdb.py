"""Protein Data Bank files: fixed columns, ATOM records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quartic.io.errors import FileFormatError
from quartic.io.structure import Structure, as_structure
from quartic.io.text import number, read_lines, write_lines

ALTERNATES = (" ", "A", "1")  # of an atom with alternative places, the first


def read_pdb(path: str | Path) -> Structure:
    """Read the atoms of a PDB file, plain or gzip.

    ATOM records of the first model; of alternative places the first (blank, ``A`` or ``1``). HETATM records (water,
    ligands) are left out.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Structure
        Coordinates in Å, names, residues and chains.

    Raises
    ------
    FileFormatError
        With the line, if a record is cut short or holds no number where one belongs.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import read_pdb, write_pdb
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.pdb"
    >>> write_pdb(file, [[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]])
    >>> read_pdb(file).coordinates
    array([[0. , 0. , 0. ],
           [1.5, 0. , 0. ]])
    """
    coordinates, names, residues, numbers, chains = [], [], [], [], []
    for at, line in enumerate(read_lines(path), start=1):
        record = line[:6].rstrip()
        if record == "ENDMDL":
            break
        if record != "ATOM":
            continue
        if len(line) < 54:
            raise FileFormatError.at(path, at, f"an ATOM record needs at least 54 columns, got {len(line)}")
        if line[16] not in ALTERNATES:
            continue
        coordinates.append(
            [number(line[c : c + 8], f"{axis} coordinate", path, at) for axis, c in (("x", 30), ("y", 38), ("z", 46))]
        )
        names.append(line[12:16].strip())
        residues.append(line[17:20].strip())
        chains.append(line[21].strip())
        numbers.append(_residue_number(line[22:26], path, at))
    if not coordinates:
        raise FileFormatError(f"{path}: no ATOM record; is this a PDB file?")
    return Structure.of(coordinates, names, residues, numbers, chains)


def write_pdb(path: str | Path, atoms: Any) -> None:
    """Write a PDB file (gzip if the name ends in .gz).

    Coordinates are rounded to 0.001, as the format has it; use XYZ to keep them all.

    Parameters
    ----------
    path : str or Path
        The file; replaced if it exists.
    atoms : Structure or array (n, 3)
        Atoms, or only their coordinates.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import write_pdb
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "one.pdb"
    >>> write_pdb(file, [[1.0, 2.0, 3.0]])
    >>> file.read_text().splitlines()[0]
    'ATOM      1  X   UNK A   1       1.000   2.000   3.000  1.00  0.00'
    """
    atoms = as_structure(atoms)
    lines = []
    for i, (x, y, z) in enumerate(atoms.coordinates.tolist()):
        places = f"{x:8.3f}{y:8.3f}{z:8.3f}"
        if len(places) > 24:
            raise ValueError(
                f"atom {i} at ({x:g}, {y:g}, {z:g}) does not fit a PDB file, whose coordinates have 8 columns; "
                "change the unit or write XYZ"
            )
        # Names of up to three letters start in the second of their four columns.
        name = atoms.names[i][:4] if len(atoms.names[i]) > 3 else f" {atoms.names[i]}"
        residue, chain = atoms.residues[i][:3] or "UNK", atoms.chains[i][:1] or "A"
        # Larger numbers than the columns hold start again from 0, as other programs do it.
        serial, group = (i + 1) % 100_000, int(atoms.residue_ids[i] or i + 1) % 10_000
        lines.append(f"ATOM  {serial:5d} {name:<4s} {residue:>3s} {chain}{group:4d}    {places}  1.00  0.00")
    write_lines(path, [*lines, "END"])


def _residue_number(text: str, path: str | Path, at: int) -> int:
    try:
        return int(text) if text.strip() else 0
    except ValueError:
        raise FileFormatError.at(path, at, f"the residue number must be an integer, got {text.strip()!r}") from None
