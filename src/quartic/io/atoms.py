"""Atoms in space, and the files they come in: PDB and mmCIF, read by gemmi; XYZ is only written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.archives import write_whole
from quartic.arrays import finite_matrix
from quartic.io.files import FileFormatError, damage_named, read_lines, read_number, write_lines

_ALTERNATES = (" ", "A", "1")  # of an atom with alternative places, the first
# how lists of distances call an atom: ALA12:CA, A/ALA12/CA, A.ALA.12.CA
_ATOM = re.compile(r"(?:(\w)[:/._-])?([A-Z]{3})[ :/._-]?(\d{1,6})[ :/._-]([A-Z][A-Z0-9'*]{0,3})")


@dataclass(frozen=True, eq=False)
class Structure:
    """Coordinates of atoms, with their names.

    Attributes
    ----------
    coordinates : ndarray (n, 3)
        In the file's units (Å).
    names : tuple of str
        Atom names (``"CA"``), or element symbols where the file has only these.
    residues : tuple of str
        Residue names (``"ALA"``), empty strings where unknown.
    residue_ids : ndarray of int64 (n,)
        Residue numbers, 0 where unknown.
    chains : tuple of str
        Chain identifiers, empty strings where unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from quartic.io import Structure
    >>> water = Structure.of(np.eye(3), names=["O", "H", "H"])
    >>> len(water), water.names
    (3, ('O', 'H', 'H'))
    """

    coordinates: NDArray[np.float64]
    names: tuple[str, ...]
    residues: tuple[str, ...]
    residue_ids: NDArray[np.int64]
    chains: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.coordinates)

    @classmethod
    def of(
        cls,
        coordinates: Any,
        names: Sequence[str] | None = None,
        residues: Sequence[str] | None = None,
        residue_ids: Any = None,
        chains: Sequence[str] | None = None,
    ) -> Structure:
        """Return a structure with stand-ins for what is not given; points in 1-D or 2-D get zeros as the rest."""
        X = np.asarray(finite_matrix(coordinates, "coordinates"), dtype=np.float64)
        n, d = X.shape
        if not 1 <= d <= 3:
            raise ValueError(f"coordinates must have 1 to 3 columns for a file of atoms, got {d}; write .csv or .npy")
        given = {"names": names, "residues": residues, "chains": chains, "residue_ids": residue_ids}
        other = {"names": "X", "residue_ids": 0}
        fields: Any = {name: [other.get(name, "")] * n if values is None else values for name, values in given.items()}
        for field, values in fields.items():
            if len(values) != n:
                raise ValueError(f"{field} must have one entry for each of the {n} atoms, got {len(values)}")
        numbers = np.asarray(fields.pop("residue_ids")).astype(np.int64)
        words = {field: tuple(map(str, values)) for field, values in fields.items()}
        return cls(np.pad(X, ((0, 0), (0, 3 - d))), residue_ids=numbers, **words)

    @classmethod
    def named(cls, names: Sequence[str]) -> Structure | None:
        """Return atoms at the origin whose names tell residue and atom, such as ALA12:CA; None unless all do."""
        found = [_ATOM.fullmatch(name) for name in names]
        if not found or not all(found):
            return None
        chains, residues, numbers, atoms = zip(*(match.groups("") for match in found if match), strict=True)
        return cls.of(np.zeros((len(names), 3)), atoms, residues, list(map(int, numbers)), chains)

    def at(self, coordinates: Any) -> Structure:
        """Return the same atoms at other places, points in 1-D or 2-D with zeros as the rest."""
        return replace(self, coordinates=Structure.of(coordinates, self.names).coordinates)


def as_structure(atoms: Any) -> Structure:
    """Return ``atoms``, a `Structure` or an array of coordinates, as a `Structure`."""
    return atoms if isinstance(atoms, Structure) else Structure.of(atoms)


# -- PDB and mmCIF ----------------------------------------------------------------------------------------------------


def read_pdb(path: str | Path) -> Structure:
    """Read the atoms of a PDB or mmCIF file, plain or gzip.

    ATOM records of the first model; of alternative places the first (blank, ``A`` or ``1``). HETATM records (water,
    ligands) are left out. A file is mmCIF if its name ends in .cif or .mmcif.

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
    gemmi = _gemmi(path)
    lines = read_lines(path)
    mmcif = any(suffix.lower() in (".cif", ".mmcif") for suffix in Path(path).suffixes)
    if not mmcif:
        _check_records(lines, path)
    with damage_named(str(path), f"not {'an mmCIF' if mmcif else 'a PDB'} file"):
        if mmcif:
            found = gemmi.make_structure_from_block(gemmi.cif.read_string("\n".join(lines)).sole_block())
        else:
            # beyond the 66th column old files have other things than new ones
            found = gemmi.read_pdb_string("\n".join(lines), max_line_length=66)
        rows = [
            (atom.pos.tolist(), atom.name, residue.name, residue.seqid.num or 0, chain.name)
            for chain in (found[0] if len(found) else ())
            for residue in chain
            if residue.het_flag != "H"
            for atom in residue
            if atom.altloc.replace("\0", " ") in _ALTERNATES
        ]
        if not rows:
            raise FileFormatError(f"{path}: no ATOM record; is this a PDB file?")
        return Structure.of(*zip(*rows, strict=True))


def _gemmi(path: str | Path) -> Any:
    try:
        import gemmi
    except ImportError:
        raise ImportError(f"{path}: PDB and mmCIF need gemmi: pip install 'quartic[cli]'") from None
    return gemmi


def _check_records(lines: list[str], path: str | Path) -> None:
    """Raise where an ATOM record holds no number where one belongs; gemmi would read what it can of it."""
    for at, line in enumerate(lines, start=1):
        if line.startswith("ENDMDL"):
            return
        if line[:6].rstrip() != "ATOM":
            continue
        if len(line) < 54:
            raise FileFormatError.at(path, at, f"an ATOM record needs at least 54 columns, got {len(line)}")
        for axis, c in (("x", 30), ("y", 38), ("z", 46)):
            read_number(line[c : c + 8], f"{axis} coordinate", path, at)
        number = line[22:26].strip()
        if not re.fullmatch(r"-?\d+|[A-Za-z][0-9A-Za-z]{3}|", number):  # four digits, or hybrid-36
            raise FileFormatError.at(path, at, f"the residue number must be an integer, got {number!r}")


def write_pdb(path: str | Path, atoms: Any) -> None:
    """Write a PDB file (gzip if the name ends in .gz), or mmCIF if the name ends in .cif.

    Coordinates are rounded to 0.001, as PDB has it; use XYZ to keep them all.

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
    if Path(path).suffix.lower() in (".cif", ".mmcif"):
        _write_mmcif(path, atoms)
        return
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


def _write_mmcif(path: str | Path, atoms: Structure) -> None:
    gemmi = _gemmi(path)
    document = gemmi.cif.Document()
    columns = "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id auth_asym_id"
    columns += " label_seq_id auth_seq_id Cartn_x Cartn_y Cartn_z"
    loop = document.add_new_block("points").init_loop("_atom_site.", columns.split())
    for i, place in enumerate(atoms.coordinates.tolist()):
        name, kind, chain = atoms.names[i], atoms.residues[i] or "UNK", atoms.chains[i] or "A"
        # within a residue the first letter tells the element, but for ions, which are called as their residue
        whole = atoms.residues[i] in ("", name)
        element = gemmi.Element(name if whole else name.lstrip("0123456789")[:1]).name
        group = int(atoms.residue_ids[i] or i + 1)
        words = [i + 1, element, name, kind, chain, chain, group, group, *(f"{x:.3f}" for x in place)]
        quoted = [gemmi.cif.quote(str(word)) for word in words]
        loop.add_row(["ATOM", *quoted[:3], ".", *quoted[3:]])
    write_whole(path, lambda file: file.write(document.as_string().encode()))


# -- XYZ --------------------------------------------------------------------------------------------------------------


def write_xyz(path: str | Path, atoms: Any, comment: str = "") -> None:
    """Write an XYZ file (gzip if the name ends in .gz), with all digits: whoever reads it has the same floats.

    Parameters
    ----------
    path, atoms
        As in `write_pdb`.
    comment : str
        The second line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from quartic.io import write_xyz
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "one.xyz"
    >>> write_xyz(file, [[1 / 3, 0.0, 2.0]])
    >>> file.read_text().splitlines()[2]
    'X 0.3333333333333333 0.0 2.0'
    """
    atoms = as_structure(atoms)
    if "\n" in comment or "\r" in comment:
        raise ValueError("comment must be a single line")
    rows = zip(atoms.names, atoms.coordinates.tolist(), strict=True)
    lines = [f"{'_'.join(name.split()) or 'X'} {x!r} {y!r} {z!r}" for name, (x, y, z) in rows]
    write_lines(path, [str(len(atoms)), comment, *lines])
