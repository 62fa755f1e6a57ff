"""Data to try things on: generators, and loaders of public data sets kept in a local folder.

Nothing is downloaded. Loaders look under `data_home`; a set that is not there raises `DatasetNotFound`.
"""

from quartic.datasets.club import karate
from quartic.datasets.features import Dataset, load_cbcl, load_coil20, load_orl, load_reuters, load_tdt2
from quartic.datasets.graphs import Graph, load_graph
from quartic.datasets.home import DatasetNotFound, cache_home, data_home
from quartic.datasets.pairs import pair_distances, pairs_within, random_pairs
from quartic.datasets.planted import block_model, planted_graph
from quartic.datasets.points import helix, load_points, protein, swiss_roll
from quartic.datasets.sensors import SensorField, load_sensor_field, sensor_field
from quartic.datasets.similarities import Similarity, load_similarity

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
