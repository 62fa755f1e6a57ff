"""The results page, in Markdown and HTML, made of the results table alone."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from quartic.bench.harness import Row, Store
from quartic.bench.numbers import PROVENANCE, Number, as_markdown, fill_table, provenance, read_numbers, write_numbers
from quartic.bench.sections import AXES, section_numbers

#: The sections of the page by name: title, what one must know to read it, tables, and maybe a picture.
PARTS = tomllib.loads(resources.files(__package__).joinpath("parts.toml").read_text(encoding="utf-8"))


def numbers_of(store: Store, rows: Sequence[Row] | None = None) -> list[Number]:
    """Return what the runs of a store come to, and where and by which command they were made."""
    rows, (name, _, tail) = store.rows if rows is None else rows, store.path.stem.partition("-")
    command = f"quartic {'paper' if name in ('table1', *AXES) else 'bench'} {name}" + (f" --{tail}" if tail else "")
    found = [Number(name, *number) for row in rows for number in row.get("numbers", ())]
    if not found and rows:
        found = section_numbers(rows, name)
    sections = dict.fromkeys([n.section for n in found] or [name] * (name in PARTS))  # a figure may have no numbers
    return [*(n for section in sections for n in provenance(store, section, command)), *found]


def write_results(results: str | os.PathLike[str], page: Path) -> tuple[list[Number], list[Store]]:
    """Write the page, and the table beside it, from a folder of runs; return all numbers, and what was found there.

    Sections of the table that the folder has nothing new for stay as they are.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    table = page.with_name("results.csv")
    # a quick run's numbers, then, in place of them, those of a whole one
    stores = [Store(results, f"{name}{tail}") for tail in ("-quick", "") for name in ("speed", *PARTS)]
    for store in (store for store in stores if store.rows):
        write_numbers(table, numbers_of(store))
    numbers = read_numbers(table) if table.is_file() else []
    page.write_text(render_page(numbers), encoding="utf-8")
    return numbers, [store for store in stores if store.rows]


def fill_tables(section: str, numbers: Sequence[Number]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, header and rows of the tables of a section that have any: all cases together, then each."""
    mine = [n for n in numbers if n.section == section]
    filled = [("In short: how many times as long", *fill_table(mine, of_all=True))]
    filled += [(table[0], *fill_table(mine, *table[1:])) for table in PARTS[section].get("tables", [["All figures"]])]
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
    path: str | os.PathLike[str], numbers: Sequence[Number], figures: dict[str, list[Path]], command: str
) -> None:
    """Write numbers, and the figures of sections, to one HTML page that needs no network."""
    from quartic.report import DataTable, Section, write_page

    found = []
    for name in dict.fromkeys(n.section for n in numbers):
        part, drawn = PARTS[name], [file for file in figures.get(name, ()) if file.suffix == ".png"]
        parts: list[Any] = [(file.read_bytes(), part["title"]) for file in drawn]
        parts += [DataTable(*filled) for filled in fill_tables(name, numbers)]
        facts = facts_of(n for n in numbers if n.section == name)
        found.append(Section(part["title"], part["words"], parts=parts, facts=facts))
    found = found or [Section("Results", notes=["Nothing was run yet."])]
    write_page(path, "quartic: results", [*found, Section("How this page was made", command=command)])
