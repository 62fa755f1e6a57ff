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
    load_features,
    load_similarity,
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
    "load_features",
    "load_graph",
    "load_points",
    "load_sensor_field",
    "load_similarity",
    "pair_distances",
    "pairs_within",
    "planted_graph",
    "protein",
    "random_pairs",
    "sensor_field",
    "swiss_roll",
]
