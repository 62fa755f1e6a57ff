"""The results page: everything in a results folder, as one Markdown file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quartic.bench import figure1, figure2, peers
from quartic.bench.plots import draw
from quartic.bench.record import Record
from quartic.bench.store import Kept, Store
from quartic.bench.table1 import stores
from quartic.bench.table1_text import comparison, fastest, penalties_table, ratio_table, seconds_table

# An image larger than this has no place in a repository.
_LARGEST = 300_000


def write_page(
    folder: str | os.PathLike[str], page: str | os.PathLike[str], notes: str | os.PathLike[str] | None = None
) -> Path:
    """Write the results page from a results folder, full runs where they are there and quick ones where not.

    Parameters
    ----------
    folder : path
        Where `run_table1`, `run_figure1`, `run_figure2` and `run_peers` keep results.
    page : path
        The Markdown file to write; images are put into ``figures`` beside it.
    notes : path, optional
        A Markdown file of remarks, put at the top of the results.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from quartic.bench import write_page
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_page(folder, folder / "RESULTS.md").read_text().splitlines()[-1]
    'Nothing was run yet.'
    """
    folder, page = Path(folder), Path(page)
    parts = [
        "# Results",
        "",
        "Made by `quartic bench page`; nothing on this page is typed by hand but the remarks.",
        "",
    ]
    conditions: dict[str, list[Record]] = {}
    body = _table1(folder, conditions) + _figures(folder, page, conditions) + _peers(folder, conditions)
    if not body:
        parts.append("Nothing was run yet.")
    else:
        parts += ["## Measured on", "", *_machines(conditions)]
        if notes is not None:
            parts += [Path(notes).read_text(encoding="utf-8").strip(), ""]
        parts += body
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    return page


def _machines(conditions: dict[str, list[Record]]) -> list[str]:
    """Say under what conditions each part was measured, parts under the same ones together."""
    lines = []
    alike: dict[tuple[str, ...], list[str]] = {}
    for part, records in conditions.items():
        for record in records:
            words = tuple(f"{what}: {record[what]}" for what in ("machine", "versions", "threads", "commit"))
            alike.setdefault(words, []).append(f"{part} ({record['date']})")
    for words, parts in alike.items():
        lines += [f"- {', '.join(parts)}", *(f"  - {word}" for word in words)]
    lines += ["", "A commit with a plus had changes that were not committed.", ""]
    return lines


def _first(folder: Path, names: list[str], **table: Sequence[str]) -> tuple[str, Kept] | None:
    for name in names:
        kept = Store(folder, name, **table).read()
        if kept is not None and kept.rows:
            return name, kept
    return None


def _table1(folder: Path, conditions: dict[str, list[Record]]) -> list[str]:
    lines = []
    for name, title, command in (
        ("table1", "Table 1", "quartic paper table1"),
        ("table1-quick", "Table 1, quick run", "quartic paper table1 --quick"),
    ):
        measured, tuning = (store.read() for store in stores(folder, name))
        if measured is not None and measured.rows:
            conditions[name] = measured.records
            lines += _one_table(measured, tuning, title, command)
    return lines


def _one_table(measured: Kept, tuning: Kept | None, title: str, command: str) -> list[str]:
    settings, rows = measured.settings, measured.rows
    limits = settings["limits"]
    # The paper's own ε first.
    epsilons = sorted(settings["epsilons"])
    lines = [
        f"## {title}",
        "",
        f"`{command}`. Seconds of processor time to ‖projected gradient‖ ≤ ε of its norm at the paper's start, "
        "measured by the referee from the iterates; mean over the starts; in brackets the paper's. A dash: not from "
        f"every start in the time given ({limits['patience']:g} times dyn-nolips's, at least {limits['least']:g} s, "
        f"at most {limits['most']:g} s). Starts and set-up are timed. `auto` makes a start of its own, as `SymNMF` "
        "does; ε still refers to the paper's. The paper's NoLips is dyn-nolips. The authors' code compares squared "
        "norms: their ε = 1e-3 is 0.0316 in the norm, so the paper's numbers stand in brackets at both.",
        "",
    ]
    for epsilon in epsilons:
        lines += [f"### ε = {epsilon:g}: time as a multiple of dyn-nolips's", "", ratio_table(rows, epsilon), ""]
        lines += [f"### ε = {epsilon:g}: seconds", "", seconds_table(rows, epsilon), ""]
        lines += [f"### ε = {epsilon:g}: beside the paper", "", comparison(rows, epsilon), ""]
    if tuning is not None:
        grids = "; ".join(f"{n}: {{{', '.join(f'{p:g}' for p in grid)}}}" for n, grid in settings["grids"])
        n_starts = settings["tuning_starts"]
        lines += ["### Penalties", "", f"Tuned on {n_starts} start(s) that are not in the table, over {grids}.", ""]
        lines += [penalties_table(tuning.rows, epsilons, n_starts), ""]
    lines += ["### Where we are not the fastest", ""]
    for epsilon in epsilons:
        lines += [f"ε = {epsilon:g}:", "", fastest(rows, epsilon), ""]
    return lines


def _figures(folder: Path, page: Path, conditions: dict[str, list[Record]]) -> list[str]:
    lines = []
    words = {
        "figure1": "Normalised objective gap (f(Xᵏ) − f_min)/‖M‖² against seconds; f_min: the least value met.",
        "figure2": "Normalised RMSE over all distances against seconds, on the helix.",
    }
    modules: dict[str, Any] = {"figure1": figure1, "figure2": figure2}
    for base, module in modules.items():
        found = _first(folder, [base, f"{base}-quick"], columns=module.COLUMNS, key=module.KEY)
        if found is None:
            continue
        name, kept = found
        conditions[name] = kept.records
        lines += [f"## Figure {base[-1]}", "", f"`quartic paper {base}`. {words[base]}", ""]
        draw(module.panels_of(kept.rows), folder, name, module.AXES)
        image = folder / f"{name}.png"
        if image.is_file() and image.stat().st_size <= _LARGEST:
            figures = page.parent / "figures"
            figures.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(image, figures / image.name)
            lines += [f"![{base}](figures/{image.name})", ""]
        if base == "figure2":
            lines += ["Mean seconds to an RMSE, over the starts that got there (their number where not all did):", ""]
            lines += [*figure2.summary(kept.rows), ""]
    return lines


def _peers(folder: Path, conditions: dict[str, list[Record]]) -> list[str]:
    found = _first(folder, ["peers", "peers-quick"], columns=peers.COLUMNS, key=peers.KEY)
    if found is None:
        return []
    name, kept = found
    conditions[name] = kept.records
    return [
        "## Peers",
        "",
        "`quartic bench peers`. Each through its own public interface; medians over the starts. Clustering: NMI "
        "against the known classes; objective and projected gradient measured by the referee at the X returned "
        "(scikit-learn's NMF returns two factors, averaged for X). Distances: time to a normalised RMSE of "
        f"{kept.settings['target']:g} over all pairs.",
        "",
        peers.peers_table(kept.rows),
        "",
    ]
