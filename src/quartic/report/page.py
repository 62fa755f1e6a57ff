"""One HTML file that opens anywhere: the answer first, the plotting library inside, every word escaped."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quartic.archives import write_whole


@dataclass(frozen=True)
class DataTable:
    """A table of results: a title, the names of its columns, and its rows; numbers stand to the right.

    ``find`` is what the box above a table that can be searched says; such tables are shown a page at a time.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: str = ""
    find: str = ""


Part = DataTable | tuple[Any, str]


@dataclass(frozen=True)
class Section:
    """A part of the page: the answer in a sentence, warnings, tables and figures; from ``facts`` on it is folded.

    A figure, of plotly's or the bytes of a PNG, comes with a sentence that says the same. Its ``layout.meta.title``
    stands above it, and ``layout.meta.find`` in a box that searches its names; then its last trace, which is empty,
    rings what is found. ``code`` is the run of ``command`` in Python; ``guessed`` says how the data were read.
    """

    title: str
    answer: str = ""
    notes: Sequence[str] = ()
    parts: Sequence[Part] = ()
    facts: dict[str, str] = field(default_factory=dict)
    folded: Sequence[Part] = ()
    command: str = ""
    code: str = ""
    guessed: str = ""


def report_available() -> bool:
    """Tell whether the package that draws the figures is installed."""
    return find_spec("plotly") is not None


def write_page(path: str | os.PathLike[str], title: str, sections: Sequence[Section]) -> None:
    """Write the report to one file, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.report import Section, write_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_page(path, "A <title>", [Section("One", "Five points.")])
    ...     "A &lt;title&gt;" in path.read_text(encoding="utf-8")
    True
    """
    style, script = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    body = "".join(_section(section, alone=len(sections) == 1) for section in sections)
    parts = [part for section in sections for part in (*section.parts, *section.folded)]
    drawn = any(not isinstance(part, DataTable) and not isinstance(part[0], bytes) for part in parts)
    library = _plotting_library() if drawn else ""
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1>{body}{library}"
        + (f"<script>{script}</script>" if parts else "")
        + "</body></html>\n"
    )
    write_whole(path, lambda file: file.write(page.encode()))


def _plotting_library() -> str:
    from plotly.offline import get_plotlyjs

    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    return f'<script type="text/plain" id="library">{packed}</script>'


def _section(section: Section, alone: bool) -> str:
    facts = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in section.facts.items())
    folded = [
        f'<table class="facts">{facts}</table>' if facts else "",
        *map(_part, section.folded),
        f'<h3>The command</h3><pre class="command">{escape(section.command)}</pre>' if section.command else "",
        f"<h3>The same in Python</h3><pre>{escape(section.code)}</pre>" if section.code else "",
    ]
    shown = [
        "" if alone and section.answer else f"<h2>{escape(section.title)}</h2>",
        f'<p class="answer">{escape(section.answer)}</p>' if section.answer else "",
        f'<p class="guessed">{escape(section.guessed)}</p>' if section.guessed else "",
        *(f'<p class="note">{escape(note)}</p>' for note in section.notes),
        *map(_part, section.parts),
        f"<details><summary>How it was computed</summary>{''.join(folded)}</details>" if any(folded) else "",
    ]
    return f"<section>{''.join(shown)}</section>"


def _part(part: Part) -> str:
    return _table(part) if isinstance(part, DataTable) else _figure(*part)


def _find(words: str) -> str:
    return f'<input type="search" class="find" placeholder="{escape(words)}" aria-label="{escape(words)}">'


def _figure(figure: Any, words: str) -> str:
    if isinstance(figure, bytes):
        source = f"data:image/png;base64,{base64.b64encode(figure).decode()}"
        return f'<figure><img src="{source}" alt="{escape(words)}"></figure>'
    # no other buttons: one of them would send the data to a web site
    reset = "resetCameraDefault3d" if any(trace.type == "scatter3d" for trace in figure.data) else "resetScale2d"
    config = {"responsive": True, "displaylogo": False, "modeBarButtons": [["toImage", reset]], "scrollZoom": False}
    drawn = {**json.loads(figure.to_json()), "config": config}
    text = json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it can end the script
    meta = figure.layout.meta or {}
    title = f"<h3>{escape(meta['title'])}</h3>" if "title" in meta else ""
    find = _find(meta["find"]) if "find" in meta else ""
    return (
        f'{title}{find}<figure role="img" aria-label="{escape(words)}"{" class=searched" if find else ""}>'
        f'<div class="plotly-graph-div" style="height:{figure.layout.height}px"></div>'
        f'<script type="application/json">{text}</script><figcaption>{escape(words)}</figcaption></figure>'
    )


def _table(table: DataTable) -> str:
    columns = list(zip(*table.rows, strict=True))
    kinds = [
        " class=n" if all(map(_is_number, column)) else " class=long" if max(map(len, column)) > 30 else ""
        for column in columns
    ] or [""] * len(table.header)
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(table.header, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.rows
    )
    words = f"<p>{escape(table.words)}</p>" if table.words else ""
    body = f'<div class="data" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    if table.find:
        pager = '<div class="pager"><button>Back</button><span></span><button>More</button></div>'
        body = f'<div class="paged searched">{_find(table.find)}{body}{pager}</div>'
    return f"<h3>{escape(table.title)}</h3>{words}{body if table.rows else ''}"


def _is_number(cell: str) -> bool:
    try:
        float(cell.removesuffix(" %"))
    except ValueError:
        return False
    return True
