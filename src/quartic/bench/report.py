"""What a results folder holds, as one HTML page that needs no network: for ``--report``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from quartic.bench import figure1, figure2, peers
from quartic.bench.plots import interactive
from quartic.bench.store import Kept, Store
from quartic.bench.table1 import stores
from quartic.bench.table1_text import comparison, fastest, penalties_table, ratio_table, seconds_table
from quartic.report import DataTable, Section, write_page

#: Of the results, in the order of the page; each may be there from a full run, a quick one or both.
NAMES = ("table1", "figure1", "figure2", "peers")


def write_report(
    path: str | os.PathLike[str], folder: str | os.PathLike[str], names: Sequence[str], command: str
) -> None:
    """Write the named results of a folder to one page.

    Parameters
    ----------
    path : path
        The page.
    folder : path
        Of the results.
    names : sequence of str
        Such as ``table1`` or ``figure2-quick``; what is not there is left out.
    command : str
        That asked for it; shown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.bench.report import write_report
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_report(folder / "report.html", folder, ["table1"], "quartic paper table1")
    >>> "Nothing was run yet" in (folder / "report.html").read_text(encoding="utf-8")
    True
    """
    sections = [section for name in names for section in _sections(Path(folder), name)]
    if not sections:
        sections = [Section("Results", notes=["Nothing was run yet."])]
    write_page(path, "quartic: results", [*sections, Section("How this page was made", command=command)])


def write_measured(
    path: str | os.PathLike[str], title: str, markdown: str, machine: dict[str, str], command: str
) -> None:
    """Write tables that were measured just now, and on what, to one page.

    Parameters
    ----------
    path : path
        The page.
    title : str
        Of the measurement.
    markdown : str
        Tables, each with what is said of it below.
    machine : dict
        Conditions, by their names.
    command : str
        That asked for it; shown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.bench.report import write_measured
    >>> page = Path(tempfile.mkdtemp()) / "page.html"
    >>> write_measured(page, "Speed", "| a |\\n|---|\\n| 1 |\\n\\nfast.", {"threads": "1"}, "quartic bench speed")
    >>> "fast." in page.read_text(encoding="utf-8")
    True
    """
    section = Section(title, machine, tables=_with_words(markdown), command=command)
    write_page(path, f"quartic: {title[0].lower()}{title[1:]}", [section])


def _sections(folder: Path, name: str) -> list[Section]:
    base = name.removesuffix("-quick")
    if base == "table1":
        measured, tuning = (store.read() for store in stores(folder, name))
        return [_table1(name, measured, tuning)] if measured is not None and measured.rows else []
    module: Any = {"figure1": figure1, "figure2": figure2, "peers": peers}[base]
    kept = Store(folder, name, module.COLUMNS, module.KEY).read()
    if kept is None or not kept.rows:
        return []
    if base == "peers":
        return [Section(_title(name), _facts(kept), tables=_several(peers.peers_table(kept.rows)))]
    figures = [interactive(panel, module.AXES) for panel in module.panels_of(kept.rows)]
    tables = []
    if base == "figure2":
        tables = [
            _one("Mean seconds to an RMSE", "\n".join(figure2.summary(kept.rows)), "Over the starts that got there.")
        ]
    return [Section(_title(name), _facts(kept), figures, tables=tables)]


def _table1(name: str, measured: Kept, tuning: Kept | None) -> Section:
    rows, tables, brackets = measured.rows, [], "In brackets the paper's."
    epsilons = sorted(measured.settings["epsilons"])
    for epsilon in epsilons:
        tables += [
            _one(f"ε = {epsilon:g}: time as a multiple of dyn-nolips's", ratio_table(rows, epsilon), brackets),
            _one(f"ε = {epsilon:g}: seconds", seconds_table(rows, epsilon), brackets),
            _one(f"ε = {epsilon:g}: beside the paper", comparison(rows, epsilon)),
            _one(f"ε = {epsilon:g}: where we are not the fastest", fastest(rows, epsilon)),
        ]
    if tuning is not None:
        tables.append(_one("Penalties", penalties_table(tuning.rows, epsilons, measured.settings["tuning_starts"])))
    return Section(_title(name), _facts(measured), tables=tables)


def _title(name: str) -> str:
    base = name.removesuffix("-quick")
    words = {"table1": "Table 1", "figure1": "Figure 1", "figure2": "Figure 2", "peers": "Peers"}[base]
    return f"{words}, quick run" if name != base else words


def _facts(kept: Kept) -> dict[str, str]:
    """Return the conditions, each once."""
    facts: dict[str, str] = {}
    for what in ("machine", "versions", "threads", "commit", "date"):
        facts[what] = "; ".join(dict.fromkeys(record[what] for record in kept.records if what in record))
    return facts


def _one(title: str, markdown: str, words: str = "") -> DataTable:
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines())
    return DataTable(title, header, rows, words)


def _several(markdown: str) -> list[DataTable]:
    """Return tables that stand one below the other, each under its name in bold."""
    _, *parts = markdown.split("**")  # a title, its table, the next title …
    return [_one(title, table.strip()) for title, table in zip(parts[::2], parts[1::2], strict=True)]


def _with_words(markdown: str) -> list[DataTable]:
    """Return tables that stand one below the other, each with the lines below it."""
    tables: list[DataTable] = []
    for is_table, lines in groupby(markdown.splitlines(), lambda line: line.startswith("|")):
        said = [line for line in lines if line]
        if is_table:
            table = _one("", "\n".join(said))
            tables.append(replace(table, title=f"By {table.header[0]}"))
        elif tables:
            tables[-1] = replace(tables[-1], words="; ".join(said))
    return tables
