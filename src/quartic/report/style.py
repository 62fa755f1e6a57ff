"""What all figures share: colours that colour-blind readers can tell apart, and the layout."""

from __future__ import annotations

from html import escape
from typing import Any

# Okabe and Ito's palette
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def layout(title: str, **more: Any) -> dict[str, Any]:
    """Return the layout of a figure; the page sets its title above it."""
    return {
        "template": "simple_white",
        "margin": {"l": 55, "r": 20, "t": 35, "b": 45},
        "height": 420,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        "dragmode": False,  # a finger that comes by scrolls the page
        "font": {"size": 13},
        "meta": {"title": title},
        **more,
    }


def shown(name: object) -> str:
    """Return a name as plotly shows it letter by letter: it would take <b> and links for markup."""
    text = str(name)
    return escape(text if len(text) <= 40 else f"{text[:39]}…", quote=False)
