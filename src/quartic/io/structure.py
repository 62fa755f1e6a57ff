"""Atoms in space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quartic.arrays import finite_matrix


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
        numbers = np.zeros(n) if residue_ids is None else np.asarray(residue_ids)
        fields = {
            "names": ("X",) * n if names is None else tuple(map(str, names)),
            "residues": ("",) * n if residues is None else tuple(map(str, residues)),
            "chains": ("",) * n if chains is None else tuple(map(str, chains)),
        }
        for field, given in (*fields.items(), ("residue_ids", numbers)):
            if len(given) != n:
                raise ValueError(f"{field} must have one entry for each of the {n} atoms, got {len(given)}")
        return cls(
            np.pad(X, ((0, 0), (0, 3 - d))),
            fields["names"],
            fields["residues"],
            numbers.astype(np.int64),
            fields["chains"],
        )

    def take(self, rows: Any) -> Structure:
        """Return the atoms ``rows`` (indices or a mask), for instance the backbone.

        Examples
        --------
        >>> import numpy as np
        >>> from quartic.io import Structure
        >>> water = Structure.of(np.eye(3), names=["O", "H", "H"])
        >>> water.take([1, 2]).names
        ('H', 'H')
        """
        at = np.arange(len(self))[np.asarray(rows)]
        return Structure(
            self.coordinates[at],
            tuple(self.names[i] for i in at),
            tuple(self.residues[i] for i in at),
            self.residue_ids[at],
            tuple(self.chains[i] for i in at),
        )


def as_structure(atoms: Any) -> Structure:
    """Return ``atoms``, a `Structure` or an array of coordinates, as a `Structure`."""
    return atoms if isinstance(atoms, Structure) else Structure.of(atoms)
