"""Write trust.md from the figures that ``make trust`` collects in ``trust/``."""

import json
from pathlib import Path

HERE = Path(__file__).parent
FIGURES = HERE / "trust"


def figures(name):
    path = FIGURES / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def fuzzing(rows):
    total, refused = sum(row["tried"] for row in rows), sum(row["refused"] for row in rows)
    faults = sum(len(row["faults"]) for row in rows)
    lines = [
        "## Bad inputs",
        "",
        f"{total:,} spoiled files over {len(rows)} formats: {total - refused:,} could still be read, {refused:,} were "
        f"refused by an error that names the file, {faults} did anything else. Bytes, words and lines are changed, and "
        "the parts of archives with their checksums put right again (`tests/fuzzing/`). Each file has ten seconds; a "
        "process has 3 GiB of address space more than it starts with. By `make fuzz`.",
        "",
        "| format | tried | read | refused | other ends | slowest file | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['format']} | {row['tried']:,} | {row['read']:,} | {row['refused']:,} | {len(row['faults'])} | "
            f"{row['slowest']:.2f} s | {row['peak_mib']:.0f} MiB |"
        )
    return lines


def killing(rows):
    kills, within = sum(row["kills"] for row in rows), sum(row["within a write"] for row in rows)
    lost = [row["solver"] for row in rows if not row["same"] or row["left"]]
    return [
        "## Faults injected",
        "",
        f"{len(rows)} runs, one for each solver, checkpointed in every iteration and each killed by SIGKILL at "
        f"{rows[0]['kills']} random moments, {kills} in all. At {within} of them a temporary file lay half written. "
        f"Resumed, {len(rows) - len(lost)} of {len(rows)} ended at the X, history and status of a run never killed, "
        f"bit for bit. Lost: {', '.join(lost) or 'nothing'}. By `tests/faults/killed_runs.py`.",
    ]


def randomly(told):
    ends = ", ".join(f"{count:,} {status}" for status, count in sorted(told["ends"].items(), key=lambda p: -p[1]))
    return [
        "## Random problems",
        "",
        f"{told['problems']} random problems (scales from 1e-150 to 1e150, indefinite and singular matrices, points "
        f"that coincide, every penalty), every solver that fits: {told['runs']:,} runs, which ended {ends}. Invalid "
        f"results: {len(told['faults'])}. Invalid would be a NaN in X, a negative entry where X ≥ 0, an objective "
        "above the start's, convergence claimed at a saddle. By `pytest -m slow tests/test_random_problems.py`.",
    ]


def hauling(told):
    second, last = told["second_quarter_mib"], told["last_quarter_mib"]
    flat = last <= max(1.02 * second, second + 8)
    return [
        "## Long haul",
        "",
        f"{told['fits']:,} fits in one process in {told['minutes']:g} minutes: resident memory {second} MiB in the "
        f"second quarter of that time, {last} MiB in the last. Flat is no more than 2 % or 8 MiB above: this is "
        f"{'met' if flat else '**not met**'}. By `benchmarks/long_haul.py`. {told.get('remark', '')}".rstrip(),
        "",
        "![memory over time](trust/long_haul.png)",
    ]


def main():
    lines = [
        "# Trust: bad inputs, faults injected, what was lost",
        "",
        "Written by `benchmarks/trust.py`; do not edit.",
    ]
    for name, tell in (("fuzz", fuzzing), ("killed", killing), ("random_problems", randomly), ("long_haul", hauling)):
        told = figures(name)
        lines += ["", *(tell(told) if told else [f"*No figures for {name} yet: run `make trust`.*"])]
    (HERE / "trust.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
