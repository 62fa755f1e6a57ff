"""Make benchmarks/gpu.md of what benchmarks/gpu.py measured: ``python benchmarks/gpu_page.py RESULTS.json ...``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = """# On a GPU

Measured by `python benchmarks/gpu.py symnmf large edmc quiet agreement --out FOLDER`, this page made of its results by
`python benchmarks/gpu_page.py FOLDER/gpu.json`. Seconds are wall clock, the start and the sorting of pairs included,
data on the device and kernels compiled before. ε is relative to the projected gradient at the paper's random start;
RMSE is over ten million pairs, known or not.

"""
_RUN = "n entries dtype seed seconds start checks products purity status"
_STEP = "dtype solver ms_per_product bare_ms ratio iterations products reads"
TABLES = {
    "symnmf": ("Planted graph, 32 communities, r = 32, to ε = 1e-3", _RUN),
    "large": ("The same, larger", _RUN),
    "symnmf iteration": ("An iteration there beside the bare product", _STEP),
    "large iteration": ("The same, larger", _STEP),
    "edmc": (
        "A million points in the unit cube, twenty million random pairs, from a random start",
        "dtype solver seed seconds sorting passes iterations reads rmse status bare_ms ms_per_pass",
    ),
    "agreement": (
        "The same runs in float64 by NumPy on the host and by torch on the device",
        "problem solver iterations tol largest_difference relative_gap",
    ),
    "quiet": (
        "Reads from the device and memory asked of it, in warm iterations",
        "solver rank iterations products reads device_allocations",
    ),
}  # fmt: skip


def cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else str(value)


def main(paths: list[str]) -> None:
    rows: list[dict] = []
    for path in paths:
        known: dict = {}
        for row in json.loads(Path(path).read_text()):
            # what belongs to the lines that follow
            if row["section"] in ("symnmf", "large"):
                known = {k: row.get(k, known.get(k)) for k in ("dtype", "bare_ms")}
            rows.append({**known, **row} if row["section"].endswith("iteration") else row)
    machine = next(row for row in rows if row["section"] == "machine")
    text = HEAD + f"{machine['device']}, torch {machine['torch']}, Python {machine['python']}.\n"
    for section, (title, columns) in TABLES.items():
        found = [row for row in rows if row["section"] == section and "seconds_of_section" not in row]
        if not found:
            continue
        names = [name for name in columns.split() if any(name in row for row in found)]
        text += f"\n## {title}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}\n"
        for row in found:
            text += f"| {' | '.join(cell(row.get(name)) for name in names)} |\n"
    target = Path(__file__).with_name("gpu.md")
    notes = Path(__file__).with_name("gpu_notes.md")
    target.write_text(text + (("\n" + notes.read_text()) if notes.exists() else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
