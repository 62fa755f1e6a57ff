"""The harness behind ``quartic paper`` and ``quartic bench``: the paper's table and figures again, and the peers.

It works from an installed wheel. Every run is kept, line by line, in a folder; what is there already is not run again.
"""

from quartic.bench.cases import Cell, Helix
from quartic.bench.harness import Store, describe_machine
from quartic.bench.numbers import Number, read_numbers
from quartic.bench.paper import FigureSettings, Table1Settings, run_figure, run_table1
from quartic.bench.race import RaceSettings, run_race

__all__ = [
    "Cell", "FigureSettings", "Helix", "Number", "RaceSettings", "Store", "Table1Settings", "describe_machine",
    "read_numbers", "run_figure", "run_race", "run_table1",
]  # fmt: skip
