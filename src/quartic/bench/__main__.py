"""``python -m quartic.bench``: the measuring part of ``quartic paper`` and ``quartic bench``, for long runs.

It needs NumPy, SciPy and numba, nothing else; draws nothing, prints no table; and several of it may write to one
results folder at the same time, each with cells or starts of its own. See ``benchmarks/full_run.sh``.

    python -m quartic.bench table1 --cell tdt2:20 --starts 1 --first-start 3 -o results
    python -m quartic.bench table1 --cell tdt2:20 --solver hals --starts 0 -o results     # tunes its penalty, only
    python -m quartic.bench figure2 --helix 5000:0.1 --starts 2 -o results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from quartic.bench.choice import cells_asked, helices_asked, solvers_asked
from quartic.bench.figure1 import Figure1Settings, measure_figure1
from quartic.bench.figure2 import Figure2Settings, measure_figure2
from quartic.bench.peers import PeersSettings, measure_peers
from quartic.bench.store import SettingsChanged
from quartic.bench.table1 import Table1Settings, measure_table1


def main(words: Sequence[str] | None = None) -> int:
    """Measure what the words ask for; return the exit code."""
    given = _parser().parse_args(words)
    settings: Any
    try:
        if given.what == "table1":
            settings = Table1Settings.quick() if given.quick else Table1Settings()
            settings = settings.asked(
                cells=cells_asked(given.cell) or None,
                limits=settings.limits.asked(given.seconds, given.patience),
                solvers=solvers_asked(given.solver) if given.solver else None,
            )
            measure: Any = measure_table1
        elif given.what == "figure1":
            settings = Figure1Settings.quick() if given.quick else Figure1Settings()
            table = settings.table.asked(limits=settings.table.limits.asked(patience=given.patience))
            settings = settings.asked(cells=cells_asked(given.cell) or None, table=table)
            measure = measure_figure1
        elif given.what == "figure2":
            settings = Figure2Settings.quick() if given.quick else Figure2Settings()
            settings = settings.asked(cases=helices_asked(given.helix) or None)
            measure = measure_figure2
        else:
            settings = PeersSettings.quick() if given.quick else PeersSettings()
            if given.cell or given.helix:
                settings = settings.asked(cells=cells_asked(given.cell), helices=helices_asked(given.helix))
            measure = measure_peers
        if given.what != "table1":
            settings = settings.asked(seconds=given.seconds)
        settings = settings.asked(starts=given.starts, first_start=given.first_start)
        measure(settings, given.results, lambda line: print(line, file=sys.stderr))
    except (SettingsChanged, ValueError, ImportError) as error:
        print(f"quartic: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m quartic.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["table1", "figure1", "figure2", "peers"])
    parser.add_argument("--cell", action="append", default=[], help="data:rank, as in tdt2:20; may be repeated")
    parser.add_argument("--helix", action="append", default=[], help="points:share known, as in 5000:0.1")
    parser.add_argument("--solver", action="append", default=[], help="solvers of the table; may be repeated")
    parser.add_argument("--starts", type=int, help="random starts; 0 tunes penalties, and that is all")
    parser.add_argument("--first-start", type=int, default=0, help="seed of the first; those of the others follow")
    parser.add_argument("--seconds", type=float, help="limit on one run")
    parser.add_argument("--patience", type=float, help="of the table: times what Dyn-NoLips took that a run may take")
    parser.add_argument("--quick", action="store_true", help="a few minutes instead of hours")
    parser.add_argument("-o", "--results", default="results", help="folder for results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
