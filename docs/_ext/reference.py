"""The pages of the reference, written from what the package offers: no list of names to keep by hand."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

# module, title; each page lists the names of the module's __all__
PAGES = (
    ("quartic", "Estimators and the solver loop"),
    ("quartic.losses", "Losses"),
    ("quartic.sdp", "Semidefinite programmes"),
    ("quartic.penalties", "Penalties"),
    ("quartic.kernels", "Kernels"),
    ("quartic.solvers", "Solvers"),
    ("quartic.init", "Starts"),
    ("quartic.graphs", "Similarity graphs"),
    ("quartic.metrics", "Measures"),
    ("quartic.rigidity", "What distances determine"),
    ("quartic.diagnostics", "Checks for your own losses and kernels"),
    ("quartic.estimators", "Estimators and their warnings"),
    ("quartic.datasets", "Data sets"),
    ("quartic.io", "Files"),
    ("quartic.distributed", "Clusters"),
)
HEAD = """\
API reference
=============

Each page shows the examples of the :doc:`gallery </gallery/index>` that use it.

.. toctree::
   :maxdepth: 2

"""


def names_of(module: Any) -> list[str]:
    """Return the public classes and functions of a module, in the order of its __all__, or of the file."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, item in vars(module).items()
            if not name.startswith("_") and getattr(item, "__module__", None) == module.__name__ and callable(item)
        ]
    return [name for name in names if callable(getattr(module, name)) and not name.startswith("_")]


def page_of(module_name: str, title: str, seen: set[int]) -> str:
    """Return the page of a module; what an earlier page has documented is left to it."""
    module = importlib.import_module(module_name)
    text = (module.__doc__ or "").strip()
    lines = [f".. _{module_name}:", "", title, "=" * len(title), "", f".. currentmodule:: {module_name}", "", text, ""]
    fresh = [name for name in names_of(module) if id(getattr(module, name)) not in seen]
    seen.update(id(getattr(module, name)) for name in fresh)
    lines += [".. autosummary::", "   :toctree: generated", "   :nosignatures:", ""]
    lines += [f"   {name}" for name in fresh] + [""]
    return "\n".join(lines)


def _write(app: Any, *_: Any) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    seen: set[int] = set()
    pages = {f"{name}.rst": page_of(name, title, seen) for name, title in PAGES}
    pages["index.rst"] = HEAD + "".join(f"   {name}\n" for name, _ in PAGES)
    wanted = {line.strip() for text in pages.values() for line in text.splitlines()}
    for stub in (folder / "generated").glob("*.rst"):  # of a name that is no longer there, from an earlier build
        if stub.stem.rpartition(".")[2] not in wanted:
            stub.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else Sphinx would read it anew
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("config-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
