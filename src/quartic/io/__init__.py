"""Files of points and distances: PDB, XYZ and the distance files of MD-jeep."""

from quartic.io.errors import FileFormatError
from quartic.io.mdjeep import DistanceBounds, read_mdjeep, write_mdjeep
from quartic.io.pdb import read_pdb, write_pdb
from quartic.io.structure import Structure
from quartic.io.xyz import read_xyz, write_xyz

__all__ = [
    "DistanceBounds",
    "FileFormatError",
    "Structure",
    "read_mdjeep",
    "read_pdb",
    "read_xyz",
    "write_mdjeep",
    "write_pdb",
    "write_xyz",
]
