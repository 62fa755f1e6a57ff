"""The report as one HTML file: the answer first, the plotting library inside, all text escaped."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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

    @property
    def kinds(self) -> list[str]:
        """How the cells of each column are set: numbers, long texts, others."""
        columns = zip(*self.rows, strict=True)
        found = [
            " class=n" if all(map(_is_number, column)) else " class=long" if max(map(len, column)) > 30 else ""
            for column in columns
        ]
        return found or [""] * len(self.header)


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
    """Tell whether the packages that draw the figures and fill the page are installed."""
    return find_spec("plotly") is not None and find_spec("jinja2") is not None


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
    from jinja2 import Environment

    html, style, script = (
        Path(__file__).with_name(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    # what is indented or on a line of its own in the template is not in the page
    template = Environment(autoescape=True).from_string("".join(line.strip() for line in html.splitlines()))
    ready = [
        replace(section, parts=list(map(_prepare, section.parts)), folded=list(map(_prepare, section.folded)))
        for section in sections
    ]
    parts = [part for section in ready for part in (*section.parts, *section.folded)]
    library = ""
    if any(not isinstance(part, DataTable) and isinstance(part[0], dict) for part in parts):
        from plotly.offline import get_plotlyjs

        library = base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
    words = {"title": title, "sections": ready, "style": style, "script": script if parts else "", "library": library}
    page = template.render(words)
    write_whole(path, lambda file: file.write(page.encode()))


def _prepare(part: Part) -> Part:
    """Return a part as the template takes it: a picture in base64, a figure of plotly's as JSON."""
    if isinstance(part, DataTable):
        return part
    figure, words = part
    if isinstance(figure, bytes):
        return base64.b64encode(figure).decode(), words
    # no other buttons: one of them would send the data to a web site
    reset = "resetCameraDefault3d" if any(trace.type == "scatter3d" for trace in figure.data) else "resetScale2d"
    config = {"responsive": True, "displaylogo": False, "modeBarButtons": [["toImage", reset]], "scrollZoom": False}
    drawn = {**json.loads(figure.to_json()), "config": config}
    text = json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it can end the script
    meta = figure.layout.meta or {}
    return {"height": figure.layout.height, "json": text, **{k: meta[k] for k in ("title", "find") if k in meta}}, words


def _is_number(cell: str) -> bool:
    try:
        float(cell.removesuffix(" %"))
    except ValueError:
        return False
    return True
