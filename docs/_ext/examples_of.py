"""The gallery's order, and on each page of the reference the examples that use what it is about."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

# What a newcomer should see first; what is not named here follows by name.
READING = (
    "communities",
    "documents",
    "digits",
    "protein",
    "sensors",
    "us_cities",
    "paper",
    "completion",
    "phase_retrieval",
    "sensing",
    "robust",
    "parts",
    "maxcut",
    "certificate",
    "own_loss",
    "own_kernel",
)
LAST = ("gpu", "cluster")


class OrderOfReading:
    """A key to sort the gallery's files by."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the place of a file."""
        name = Path(filename).stem.removeprefix("plot_")
        if name in LAST:
            return 1000 + LAST.index(name), name
        return (READING.index(name) if name in READING else len(READING)), name

    def __repr__(self) -> str:
        return "<OrderOfReading>"


class SavedPictures:
    """Takes the pictures that a script saves beside itself into the gallery, as those it draws with pyplot."""

    def __repr__(self) -> str:
        return "<SavedPictures>"

    def __call__(self, block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
        """Return the text that shows them."""
        from sphinx_gallery.scrapers import figure_rst

        shown = []
        for picture in sorted(Path(block_vars["src_file"]).parent.glob("*.png")):
            target = next(block_vars["image_path_iterator"])
            shutil.move(picture, target)
            shown.append(target)
        return figure_rst(shown, gallery_conf["src_dir"])


def _fill_missing(app: Any, *_: Any) -> None:
    """Make an empty list of examples for every object that no example uses, so that its page can include it."""
    folder = Path(app.srcdir) / "gallery" / "backreferences"
    folder.mkdir(parents=True, exist_ok=True)
    for page in (Path(app.srcdir) / "api" / "generated").glob("*.rst"):
        (folder / f"{page.stem}.examples").touch()


def setup(app: Any) -> dict[str, Any]:
    """Run after the reference's pages and the gallery are made, and before they are read."""
    app.connect("env-before-read-docs", _fill_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
