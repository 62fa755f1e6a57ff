"""Is a change of the code faster? Any benchmark, by two checkouts that take turns.

    python benchmarks/side_by_side.py OLD NEW bench speed --case tdt2:10 --case 2000:0.1 --solver SymNMF.fit --starts 2
    python benchmarks/side_by_side.py OLD NEW losses.py "sensing, X ≥ 0" --rounds 5

OLD and NEW are the folders of two checkouts, A and B below; what follows is a command of ``quartic``, or a script in
``benchmarks/`` with its cases. Its processes run A, B, A, B, …, on one thread each, every checkout with its own source
and its own cache of compiled code. Printed are the least seconds over the rounds and B/A, last its geometric mean. What
compiling takes is measured by ``first_fits.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def in_process(*words: str, **env: str) -> str:
    """Return the last line that Python prints in a new process on one thread."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    env = {**os.environ, **threads, **env}
    done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return done.stdout.splitlines()[-1]


def measure(checkout: Path, words: list[str], caches: str) -> dict[tuple[str, str, str], float]:
    """Return the seconds of every case, method and start, and of every measure of a script that is in seconds."""
    script = [str(checkout / "benchmarks" / words[0])] if words[0].endswith(".py") else ["-m", "quartic", words[0]]
    where = {"PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": caches, "PYTHONPYCACHEPREFIX": caches}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        in_process(*script, *words[1:], "--results", folder, **where)
        for line in (line for file in Path(folder).glob("*.jsonl") for line in file.read_text().splitlines() if line):
            row = json.loads(line)
            for case, method, name, s in row.get("numbers", ()):
                if {"s", "ms"} & set(name.split()):
                    found[case, method, name] = s
            if "s" in row:
                found[row["case"], row["method"], f"start {row['seed']}"] = row["s"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", type=Path, metavar="OLD", help="folder of the older checkout")
    parser.add_argument("b", type=Path, metavar="NEW", help="folder of the newer checkout")
    parser.add_argument("--rounds", type=int, default=3)
    asked, words = parser.parse_known_args()
    sides = {"A": asked.a.resolve(), "B": asked.b.resolve()}
    for checkout in sides.values():
        if not (checkout / "src" / "quartic" / "__init__.py").is_file():
            parser.error(f"{checkout} has no src/quartic/__init__.py: give the folders of two checkouts")
    if not words:
        parser.error("which benchmark? such as: bench speed --case tdt2:10 --solver SymNMF.fit")
    with tempfile.TemporaryDirectory() as caches:
        runs = [{side: measure(sides[side], words, f"{caches}/{side}") for side in sides} for _ in range(asked.rounds)]
    ratios = []
    for key in runs[0]["A"].keys() & runs[0]["B"].keys():
        a, b = (min(run[side][key] for run in runs if key in run[side]) for side in sides)
        ratios.append(b / a)
        print(f"{'; '.join(filter(None, key)):60}{a:10.4g}{b:10.4g}{b / a:8.3f}")
    print(f"geometric mean of B/A: {statistics.geometric_mean(ratios):.3f} ({len(ratios)} rows)")


if __name__ == "__main__":
    main()
