"""Files of points, distances, graphs and features."""

from quartic.io.anchors import read_anchors
from quartic.io.blocks import read_blocks, write_blocks
from quartic.io.distance_files import read_distances
from quartic.io.distance_table import DistanceTable
from quartic.io.errors import FileFormatError
from quartic.io.features import FeatureTable, read_features
from quartic.io.graph_files import GraphTable, read_graph
from quartic.io.guess import read_similarity
from quartic.io.mdjeep import DistanceBounds, read_mdjeep, write_mdjeep
from quartic.io.pdb import read_pdb, write_pdb
from quartic.io.structure import Structure
from quartic.io.xyz import read_xyz, write_xyz

__all__ = [
    "DistanceBounds",
    "DistanceTable",
    "FeatureTable",
    "FileFormatError",
    "GraphTable",
    "Structure",
    "read_anchors",
    "read_blocks",
    "read_distances",
    "read_features",
    "read_graph",
    "read_mdjeep",
    "read_pdb",
    "read_similarity",
    "read_xyz",
    "write_blocks",
    "write_mdjeep",
    "write_pdb",
    "write_xyz",
]
