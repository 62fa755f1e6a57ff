"""``quartic paper``, ``quartic bench`` and the results page, in Markdown and HTML, made of the results table alone."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from quartic.bench.cases import parse_case
from quartic.bench.growth import growth_cases
from quartic.bench.harness import Row, Store
from quartic.bench.numbers import (
    PROVENANCE,
    Number,
    as_markdown,
    fill_table,
    measure_cases,
    provenance,
    quote_numbers,
    read_numbers,
    write_numbers,
)
from quartic.bench.sections import AXES, panels_of, run_section, section_numbers, settings_of
from quartic.cli.terminal import check_report, command_line, write
from quartic.plots import draw


def race(options: Any) -> None:
    """Run a section in which methods take turns, or the part of it that is asked for."""
    settings = settings_of(options.command.split()[1], options.quick)
    with _running(options) as (say, progress):
        only, solvers = options.only or "", options.solver or []
        _check("--solver", solvers, [m.split()[0] for m in settings.methods])
        _check("--only", [only] if only else [], [c.family for c in settings.cases])
        cases = [parse_case(text) for text in options.case or ()] or settings.cases
        chosen = {*solvers, *settings.pacemakers}
        given = {name: getattr(options, name) for name in ("starts", "seconds", "patience")}
        settings = replace(
            settings,
            cases=tuple(c for c in cases if only in ("", c.family)),
            methods=tuple(m for m in settings.methods if not solvers or {m, m.split()[0]} & chosen),
            **{name: value for name, value in given.items() if value is not None},
        )
        store = run_section(settings, options.results, say, progress)
        _finish(store, [row for row in store.rows if row["case"] in set(map(str, settings.cases))], options)


def growth(options: Any) -> None:
    """Measure iterations on more and more data."""
    with _running(options) as (_, progress):
        name = "growth" + "-quick" * options.quick
        store = measure_cases(options.results, name, growth_cases(options.quick), progress, command=command_line())
        _finish(store, store.rows, options)


def page(options: Any) -> None:
    """Write the results page, its table, and the numbers in documents."""
    written = [str(options.out)]
    with _running(options):
        numbers, stores = write_results(options.results, options.out)
        texts = {path: quote_numbers(path.read_text(encoding="utf-8"), numbers) for path in options.document}
        for path, text in texts.items():  # all of them, or none
            path.write_text(text, encoding="utf-8")
        folder = options.out.parent / "figures"
        folder.mkdir(exist_ok=True)
        figures = {store.section: _figures(store, store.rows, folder) for store in stores}
        if options.report is not None:
            write_report(options.report, numbers, figures, command_line())
            written.append(options.report)
    words = json.dumps({"written": written}) if options.as_json else "\n".join(f"wrote {path}" for path in written)
    write(f"{words}\n")


def _figures(store: Store, rows: list[Row], folder: Path) -> list[Path]:
    """Draw what a section has to show."""
    name = store.section
    return draw(panels_of(name, rows), folder / store.path.stem, AXES[name]) if name in AXES else []


def _finish(store: Store, rows: list[Row], options: Any) -> None:
    """Draw figures, write the page, if one was asked for, then print tables and the names of files, or rows as JSON."""
    figures = _figures(store, rows, store.path.parent)
    files: list[Any] = [*figures, store.path]
    numbers = numbers_of(store, rows)
    if options.report is not None:
        write_report(options.report, numbers, {store.section: figures}, command_line())
        files.append(options.report)
    if options.as_json:
        write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    if not rows:
        raise SystemExit(1)
    for section in dict.fromkeys(n.section for n in numbers):
        for title, header, cells in fill_tables(section, numbers):
            write(f"\n{title}\n\n{as_markdown(header, cells)}\n")
    write("".join(f"{file}\n" for file in files))


def _check(option: str, words: Sequence[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise ValueError(f"{option} {word!r} is not one of {', '.join(dict.fromkeys(known))}")


@contextmanager
def _running(options: Any) -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Show what is being run on a terminal, and nothing of it in a pipe."""
    from rich.console import Console

    console = Console(stderr=True)
    check_report(options.report)
    try:
        with console.status("", refresh_per_second=2) as status:
            yield (lambda line: console.print(line, highlight=False, markup=False, soft_wrap=True)), status.update
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None


# -- the results page --------------------------------------------------------------------------------------------------


#: The sections of the page by name: title, what one must know to read it, tables, and maybe a picture.
PARTS = tomllib.loads(resources.files(__package__).joinpath("parts.toml").read_text(encoding="utf-8"))


def numbers_of(store: Store, rows: Sequence[Row] | None = None) -> list[Number]:
    """Return what the runs of a store come to, and where and by which command they were made."""
    rows, (name, _, tail) = store.rows if rows is None else rows, store.path.stem.partition("-")
    group = "paper" if name[:-1] in ("table", "figure") else "bench"
    command = f"quartic {group} {name}" + (f" --{tail}" if tail else "")
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
