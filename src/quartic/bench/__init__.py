"""The harness behind ``quartic paper`` and ``quartic bench``: the paper's table and figures again, and the peers.

It works from an installed wheel. Every run is kept, line by line, in a folder; what is there already is not run again.
"""

from quartic.bench.cases import Cell
from quartic.bench.harness import Store, describe_machine
from quartic.bench.numbers import Number, read_numbers
from quartic.bench.sections import Settings, run_section, settings_of

__all__ = [
    "Cell", "Number", "Settings", "Store", "describe_machine", "read_numbers", "run_section", "settings_of",
]  # fmt: skip
