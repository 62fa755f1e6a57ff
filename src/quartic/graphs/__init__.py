"""Similarity graphs from features, and graphs as people have them.

`similarity` builds the paper's similarity matrices, `normalize` is D^-1/2 W D^-1/2, `as_adjacency` reads a graph.
"""

from quartic.graphs.adjacency import as_adjacency
from quartic.graphs.normalization import normalize
from quartic.graphs.similarity import similarity

__all__ = ["as_adjacency", "normalize", "similarity"]
