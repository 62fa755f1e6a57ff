"""``quartic paper`` and ``quartic bench``: the harness on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from quartic.bench.cases import parse_case
from quartic.bench.growth import growth_cases
from quartic.bench.harness import Row, Store
from quartic.bench.numbers import as_markdown, measure_cases, quote_numbers
from quartic.bench.page import fill_tables, numbers_of, write_report, write_results
from quartic.bench.sections import AXES, panels_of, run_section, settings_of
from quartic.cli.terminal import check_report, command_line, write_stdout
from quartic.report.panels import draw


def race(options: Any) -> None:
    """Run a section in which methods take turns, or the part of it that is asked for."""
    settings = settings_of(options.command.split()[1], options.quick)
    with _running(options) as (say, progress):
        only, solvers = options.only or "", options.solver or []
        _check("--solver", solvers, tuple(dict.fromkeys(m.split()[0] for m in settings.methods)))
        _check("--only", [only] if only else [], tuple(dict.fromkeys(c.family for c in settings.cases)))
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
    print(json.dumps({"written": written}) if options.as_json else "\n".join(f"wrote {path}" for path in written))


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
        write_stdout(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    if not rows:
        raise SystemExit(1)
    for section in dict.fromkeys(n.section for n in numbers):
        for title, header, cells in fill_tables(section, numbers):
            print(f"\n{title}\n\n{as_markdown(header, cells)}")
    print(*files, sep="\n")


def _check(option: str, words: Sequence[str], known: Sequence[str]) -> None:
    for word in words:
        if word not in known:
            raise ValueError(f"{option} {word!r} is not one of {', '.join(known)}")


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
