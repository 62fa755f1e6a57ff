"""Files as people have them. Every reader raises `FileFormatError`, with the line at fault where there is one."""

from quartic.io.atoms import Structure, read_pdb, write_pdb, write_xyz
from quartic.io.blocks import read_blocks, write_blocks
from quartic.io.distances import DistanceTable, read_anchors, read_distances
from quartic.io.features import FeatureTable, read_features, read_similarity
from quartic.io.files import FileFormatError
from quartic.io.graphs import GraphTable, read_graph

__all__ = [
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
    "read_pdb",
    "read_similarity",
    "write_blocks",
    "write_pdb",
    "write_xyz",
]
