"""One HTML file that opens anywhere: the plotting library inside, every word escaped."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 60rem;
       padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-top: 1px solid #ddd; padding-top: 1rem; }
table { border-collapse: collapse; } td { padding: .15rem .8rem .15rem 0; vertical-align: top; }
td:first-child { color: #555; white-space: nowrap; }
figure { margin: 1rem 0; } figcaption { color: #444; font-size: .95rem; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; }
"""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes
    ----------
    title : str
    facts : dict
        Rows of a small table.
    figures : list of (figure, words)
        Plotly figures, each with a sentence that says the same for those who cannot see it.
    code : str
        The same run as Python code.
    """

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    figures: list[tuple[Any, str]] = field(default_factory=list)
    code: str = ""


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
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(page)
    os.replace(temporary, target)
    target.chmod(0o644)


def _plotting_library() -> str:
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"


def _section(number: int, section: Section) -> str:
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in section.facts.items())
    figures = "".join(
        _figure(f"figure-{number}-{k}", figure, words) for k, (figure, words) in enumerate(section.figures)
    )
    code = f"<pre>{escape(section.code)}</pre>" if section.code else ""
    return f"<h2>{escape(section.title)}</h2>{f'<table>{rows}</table>' if rows else ''}{figures}{code}"


def _figure(name: str, figure: Any, words: str) -> str:
    drawn = figure.to_html(
        full_html=False, include_plotlyjs=False, div_id=name, config={"responsive": True, "displaylogo": False}
    )
    return f'<figure role="img" aria-label="{escape(words)}">{drawn}<figcaption>{escape(words)}</figcaption></figure>'
