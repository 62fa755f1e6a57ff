"""One HTML file that opens anywhere: the plotting library inside, every word escaped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from typing import Any

from quartic.archives import write_whole

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 60rem;
       padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .8rem .15rem 0; vertical-align: top; text-align: left; }
.facts th { color: #555; font-weight: normal; white-space: nowrap; }
.data { overflow-x: auto; } .data table { font-size: .92rem; min-width: 60%; }
.data th, .data td { overflow-wrap: normal; }
.data th { border-bottom: 1px solid #999; } .data td { border-bottom: 1px solid #eee; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note { border-left: 4px solid #D55E00; background: #fdf3ec; padding: .4rem .8rem; margin: .6rem 0; }
figure { margin: .4rem 0 1rem; } figcaption { color: #444; font-size: .95rem; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: .88rem; }
pre.command { white-space: pre-wrap; }
"""


@dataclass(frozen=True)
class DataTable:
    """A table of results: a title, the names of its columns, and its rows; numbers stand to the right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    title : str
    facts : dict
        Rows of a small table.
    figures : list of (figure, words)
        Plotly figures, each with a sentence that says the same for those who cannot see it. The figure's
        ``layout.meta.title``, where there is one, stands above it.
    code : str
        The same run as Python code.
    tables : list of DataTable
        Tables of results.
    notes : list of str
        What one ought to know, in boxes.
    command : str
        The command that made it.
    """

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    figures: list[tuple[Any, str]] = field(default_factory=list)
    code: str = ""
    tables: list[DataTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    command: str = ""


def report_available() -> bool:
    """Tell whether the package that draws the figures is installed."""
    return find_spec("plotly") is not None


def write_page(path: str | os.PathLike[str], title: str, sections: list[Section]) -> None:
    """Write the report to one file, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.report import Section, write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_page(path, "A <title>", [Section("One", facts={"points": "5"})])
    ...     "A &lt;title&gt;" in path.read_text(encoding="utf-8")
    True
    """
    body = "".join(_section(number, section) for number, section in enumerate(sections))
    library = _plotting_library() if any(section.figures for section in sections) else ""
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style>{library}</head><body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )
    write_whole(path, lambda file: file.write(page.encode()))


def _plotting_library() -> str:
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"


def _section(number: int, section: Section) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in section.facts.items())
    figures = "".join(
        _figure(f"figure-{number}-{k}", figure, words) for k, (figure, words) in enumerate(section.figures)
    )
    parts = [
        f"<h2>{escape(section.title)}</h2>",
        f'<table class="facts">{rows}</table>' if rows else "",
        *(f'<p class="note">{escape(note)}</p>' for note in section.notes),
        figures,
        *(_table(table) for table in section.tables),
        f'<h3>The command</h3><pre class="command">{escape(section.command)}</pre>' if section.command else "",
        f"<h3>The same in Python</h3><pre>{escape(section.code)}</pre>" if section.code else "",
    ]
    return "".join(parts)


def _figure(name: str, figure: Any, words: str) -> str:
    # no other buttons: one of them would send the data to a web site
    reset = "resetCameraDefault3d" if any(trace.type == "scatter3d" for trace in figure.data) else "resetScale2d"
    config = {"responsive": True, "displaylogo": False, "modeBarButtons": [["toImage", reset]]}
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
    meta = figure.layout.meta
    title = f"<h3>{escape(meta['title'])}</h3>" if meta and "title" in meta else ""
    caption = f"<figcaption>{escape(words)}</figcaption>"
    return f'{title}<figure role="img" aria-label="{escape(words)}">{drawn}{caption}</figure>'


def _table(table: DataTable) -> str:
    columns = list(zip(*table.rows, strict=True))
    kinds = [' class="number"' if column and all(map(_is_number, column)) else "" for column in columns]
    kinds = kinds or [""] * len(table.header)
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(table.header, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.rows
    )
    words = f"<p>{escape(table.words)}</p>" if table.words else ""
    body = f'<div class="data" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<h3>{escape(table.title)}</h3>{words}{body if table.rows else ''}"


def _is_number(cell: str) -> bool:
    try:
        float(cell.removesuffix(" %"))
    except ValueError:
        return False
    return True
