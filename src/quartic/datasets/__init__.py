"""Example data: generators, and loaders of public data sets kept in a local folder.

Nothing is downloaded. Loaders look under `data_home`; a set that is not there raises `DatasetNotFound`.
"""

from quartic.datasets.graphs import Graph, block_model, karate, load_graph, planted_graph
from quartic.datasets.points import (
    SensorField,
    helix,
    load_points,
    load_sensor_field,
    pair_distances,
    pairs_within,
    protein,
    random_pairs,
    sensor_field,
    swiss_roll,
)
from quartic.datasets.stored import (
    Dataset,
    DatasetNotFound,
    Similarity,
    cache_home,
    data_home,
    load_cbcl,
    load_coil20,
    load_orl,
    load_reuters,
    load_similarity,
    load_tdt2,
)

__all__ = [
    "Dataset",
    "DatasetNotFound",
    "Graph",
    "SensorField",
    "Similarity",
    "block_model",
    "cache_home",
    "data_home",
    "helix",
    "karate",
    "load_cbcl",
    "load_coil20",
    "load_graph",
    "load_orl",
    "load_points",
    "load_reuters",
    "load_sensor_field",
    "load_similarity",
    "load_tdt2",
    "pair_distances",
    "pairs_within",
    "planted_graph",
    "protein",
    "random_pairs",
    "sensor_field",
    "swiss_roll",
]
