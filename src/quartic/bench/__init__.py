"""The harness behind ``quartic paper`` and ``quartic bench``: the paper's table and figures again, and the peers.

It works from an installed wheel. Results are kept, row by row, in a folder; what is there already is not run again.
"""

from quartic.bench.edmc import Helix
from quartic.bench.figure1 import Figure1Settings, run_figure1
from quartic.bench.figure2 import Figure2Settings, run_figure2
from quartic.bench.page import write_page
from quartic.bench.peers import PeersSettings, run_peers
from quartic.bench.record import describe_machine
from quartic.bench.store import Store
from quartic.bench.symnmf import Cell
from quartic.bench.table1 import Table1Settings, run_table1

__all__ = [
    "Cell",
    "Figure1Settings",
    "Figure2Settings",
    "Helix",
    "PeersSettings",
    "Store",
    "Table1Settings",
    "describe_machine",
    "run_figure1",
    "run_figure2",
    "run_peers",
    "run_table1",
    "write_page",
]
