"""Similarity graphs from features, and conversion of graphs from other libraries.

`similarity` builds the paper's similarity matrices, `normalize` is D^-1/2 W D^-1/2, `normalize_graph` makes of a graph
the matrix that finds its communities, `as_adjacency` reads a graph.
"""

from quartic.graphs.inputs import as_adjacency
from quartic.graphs.normalization import normalize_graph
from quartic.graphs.similarity import normalize, similarity

__all__ = ["as_adjacency", "normalize", "normalize_graph", "similarity"]
