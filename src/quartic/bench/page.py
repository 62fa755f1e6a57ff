"""The results page, in Markdown and HTML, made of the results table alone."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from quartic.bench.numbers import PROVENANCE, Number, Table, as_markdown

#: The sections of the page by name: title, what one must know to read it, tables, and maybe a picture.
PARTS = tomllib.loads(resources.files(__package__).joinpath("parts.toml").read_text(encoding="utf-8"))


def fill_tables(section: str, numbers: Sequence[Number]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, header and rows of the tables of a section that have any: all cases together, then each."""
    mine = [n for n in numbers if n.section == section]
    filled = [("In short", *Table().fill(mine, of_all=True))]
    filled += [(table[0], *Table(*table[1:]).fill(mine)) for table in PARTS[section].get("tables", [["All figures"]])]
    return [found for found in filled if found[2]]


def facts_of(numbers: Iterable[Number]) -> dict[str, str]:
    """Return the conditions of a section."""
    return {n.measure: str(n.value) for n in numbers if not n.case and n.value}


def render_page(numbers: Sequence[Number]) -> str:
    """Return the results page in Markdown."""
    lines = ["# Results", "", "Made from `results.csv` by `quartic bench page`; `NOTES.md` says what to make of it."]
    for name, part in PARTS.items():
        mine = [n for n in numbers if n.section == name]
        if not mine:
            continue
        facts = facts_of(mine)
        lines += ["", f"## {part['title']}", "", part["words"]]
        lines += ["", f"![{part['title']}]({part['image']})"] if "image" in part else []
        for title, header, rows in fill_tables(name, mine):
            lines += ["", f"### {title}", "", as_markdown(header, rows)]
        lines += ["", "Measured: " + "; ".join(f"{what} {facts[what]}" for what in PROVENANCE if what in facts) + "."]
    return "\n".join(lines) + "\n"


def write_report(
    path: str | os.PathLike[str], numbers: Sequence[Number], figures: dict[str, Any], command: str
) -> None:
    """Write numbers, and the plotly figures of sections, to one HTML page that needs no network."""
    from quartic.report import DataTable, Section, write_page

    found = [
        Section(
            PARTS[name]["title"],
            PARTS[name]["words"],
            parts=[*figures.get(name, []), *(DataTable(*filled) for filled in fill_tables(name, numbers))],
            facts=facts_of(n for n in numbers if n.section == name),
        )
        for name in PARTS
        if any(n.section == name for n in numbers)
    ]
    found = found or [Section("Results", notes=["Nothing was run yet."])]
    write_page(path, "quartic: results", [*found, Section("How this page was made", command=command)])
