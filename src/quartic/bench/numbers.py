"""Numbers: what runs come to, kept in one small table, from which every page and sentence is made.

A `Number` is one line of ``benchmarks/results.csv``. A section is filled by one command, on one machine, at one commit,
which are lines of it too. Documents quote numbers by key, and ``quartic bench page --document`` puts them right: in
Markdown ``9.3<!--speed.all.symhals-best.mean-->``, in reStructuredText
``.. |speed.all.symhals-best.mean| replace:: 9.3``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

from quartic.archives import write_whole
from quartic.bench.harness import Row, Say, Store, describe_machine
from quartic.datasets import DatasetNotFound

#: What a case is called, and how it is measured: case, method, measure and value of each of its numbers.
Cases = Mapping[str, Callable[[], Iterable[tuple[str, str, str, float | str]]]]

# What a user gets by default: the first column of a table, in sight on any screen.
_OURS = ("auto", "SymNMF.fit", "DistanceCompletion.fit_pairs")
PROVENANCE = ("command", "machine", "versions", "threads", "commit", "date")
_KEY = r"(?P<key>[a-z0-9-]+(?:\.[a-z0-9-]+)+)"
QUOTED = (
    re.compile(rf"(?P<before>)(?P<value>[0-9][0-9.,e-]*)(?P<after><!--{_KEY}-->)"),
    re.compile(rf"(?P<before>\.\. \|{_KEY}\| replace:: )(?P<value>\S+)(?P<after>)"),
)


class Number(NamedTuple):
    """One value of the results table."""

    section: str
    case: str
    method: str
    measure: str
    value: float | str

    @property
    def key(self) -> str:
        """Its name in documents."""
        words = (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in self[:4])
        return ".".join(word for word in words if word)

    @property
    def words(self) -> str:
        """Its value as documents spell it: two digits, and all those before the point."""
        v = self.value
        return v if isinstance(v, str) else f"{v:,.0f}" if abs(v) >= 10 else f"{v:.1f}" if abs(v) >= 1 else f"{v:.2g}"


# -- from runs to numbers ---------------------------------------------------------------------------------------------


def summarise(section: str, rows: Iterable[Row], measures: Sequence[str]) -> list[Number]:
    """Return the mean of each measure for each case and method, over the starts that all who arrive have in common.

    A method that lacks a measure at some start has no number for it: a mean over the good starts would flatter it.
    """
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        found.setdefault((row["case"], row["method"]), {})[row["seed"]] = row
    numbers = []
    for name in measures:
        whole = {key: runs for key, runs in found.items() if all(name in run for run in runs.values())}
        for (case, method), runs in whole.items():
            seeds = set.intersection(*(set(mine) for (other, _), mine in whole.items() if other == case))
            if seeds:
                numbers.append(Number(section, case, method, name, fmean(runs[seed][name] for seed in seeds)))
    return numbers


def best_of(numbers: Sequence[Number], label: str, measure: str) -> list[Number]:
    """Return the numbers of the method with the least measure in each case, under one label, and which it was."""
    ranked = sorted((n for n in numbers if n.measure == measure), key=lambda n: float(n.value), reverse=True)
    best = {n.case: n.method for n in ranked}  # the last of each case is the least
    taken = [n._replace(method=label) for n in numbers if best.get(n.case) == n.method]
    return taken + [Number(numbers[0].section, case, label, "which", method) for case, method in best.items()]


def ratios(numbers: Sequence[Number], measure: str, over: str) -> dict[str, dict[str, float]]:
    """Return for each method, case by case, its measure divided by that of another method."""
    values = {(n.case, n.method): float(n.value) for n in numbers if n.measure == measure}
    found: dict[str, dict[str, float]] = {}
    for (case, method), value in values.items():
        if method != over and (case, over) in values:
            found.setdefault(method, {})[case] = value / values[case, over]
    return found


def headline(section: str, numbers: Sequence[Number], measure: str, over: str, case: str = "all") -> list[Number]:
    """Return mean (geometric), least and largest ratio of each method to ``over``."""
    measures = {"mean": geometric_mean, "least": min, "largest": max}
    return [
        Number(section, case, method, name, float(of(list(each.values()))))  # type: ignore[operator]
        for method, each in ratios(numbers, measure, over).items()
        for name, of in measures.items()
    ]


def provenance(store: Store, section: str, command: str) -> list[Number]:
    """Return the conditions of a section's runs, each once; the command is that of the store where it knows it."""
    words = {
        name: "; ".join(dict.fromkeys(s[name] for s in store.sessions.values() if name in s)) for name in PROVENANCE
    }
    return [
        Number(section, "", "", name, value)
        for name, value in {**words, "command": words["command"] or command}.items()
    ]


def measure_cases(folder: str | os.PathLike[str], section: str, cases: Cases, say: Say, **about: str) -> Store:
    """Measure what is not there yet, case by case, and keep the numbers of a case when it is done."""
    command = re.sub(r" (-o|--results)[ =]\S+", "", about.pop("command"))  # a folder of this machine
    store = Store(folder, section).open({}, {**describe_machine(), **about, "command": command})
    for case, measure in cases.items():
        if store.find(case=case):
            continue
        say(f"{section}: {case}")
        try:
            store.add(case, "", 0, {"numbers": list(measure())})
        except (DatasetNotFound, ImportError) as error:
            say(f"{case} is left out: {str(error).partition(chr(10))[0]}")
    return store


def record(case: str, method: str = "", **facts: Any) -> list[tuple[str, str, str, float | str]]:
    """Return the numbers of a case: each keyword is a measure, with spaces in place of underscores."""
    words = {name.replace("_", " "): value for name, value in facts.items()}
    return [(case, method, name, value if isinstance(value, str) else float(value)) for name, value in words.items()]


def run_script(section: str, cases: Cases, **about: str) -> None:
    """Be the main function of a script in ``benchmarks/``: measure the cases named, or all, and print their numbers."""
    parser = argparse.ArgumentParser(description=f"Measure the section {section!r} of the results table.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"some of: {'; '.join(cases)}")
    parser.add_argument("--results", default="results", help="folder for results; what is there is not run again")
    asked = parser.parse_args()
    if unknown := set(asked.cases) - set(cases):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are: {'; '.join(cases)}")
    chosen = {case: measure for case, measure in cases.items() if not asked.cases or case in asked.cases}
    command = f"python benchmarks/{Path(sys.argv[0]).name}"
    store = measure_cases(asked.results, section, chosen, print, command=command, **about)
    for row in store.rows:
        for number in row["numbers"] if row["case"] in chosen else ():
            print(*number, sep="; ")
    print(store.path)


# -- the table on disk, and documents ---------------------------------------------------------------------------------


def read_numbers(path: str | os.PathLike[str]) -> list[Number]:
    """Read the table."""
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if header != list(Number._fields):
        raise ValueError(f"{path}: columns {', '.join(header)} where {', '.join(Number._fields)} are expected")
    numeric = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")
    values = [float(row[4]) if row[1] and numeric.fullmatch(row[4]) else row[4] for row in rows]
    return [Number(row[0], row[1], row[2], row[3], value) for row, value in zip(rows, values, strict=True)]


def write_numbers(path: str | os.PathLike[str], numbers: Iterable[Number]) -> None:
    """Write numbers into the table: the sections they are of are replaced whole, the others stay."""
    new = list(numbers)
    filled = {n.section for n in new}
    old = [n for n in read_numbers(path) if n.section not in filled] if Path(path).is_file() else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Number._fields)
    writer.writerows([*n[:4], f"{n.value:.6g}" if isinstance(n.value, float) else n.value] for n in [*old, *new])
    write_whole(path, lambda file: file.write(text.getvalue().encode()))


def quote_numbers(text: str, numbers: Iterable[Number]) -> str:
    """Return a document with every number that it quotes by key as the table has it."""
    known = {n.key: n.words for n in numbers}
    quoted = [match["key"] for pattern in QUOTED for match in pattern.finditer(text)]
    if missing := sorted({key for key in quoted if key not in known}):
        raise ValueError(f"no number {', '.join(map(repr, missing))} in the results table")
    for pattern in QUOTED:
        text = pattern.sub(lambda match: match["before"] + known[match["key"]] + match["after"], text)
    return text


# -- tables -----------------------------------------------------------------------------------------------------------


def fill_table(
    numbers: Sequence[Number], measure: str = "", over: str = "", form: str = ".3g", of_all: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of single cases, or of all together: a row for each case, a column for each method.

    ``over`` names a method whose values of the measure all are divided by. Without a measure there is a column for each
    of them, and a row for each case and method.
    """
    mine = [n for n in numbers if n.case and n.case.startswith("all") == of_all and measure in ("", n.measure)]
    values: dict[tuple[str, ...], float | str] = {(*n[1:3], *(() if measure else (n.measure,))): n.value for n in mine}
    if over:
        found = ratios(mine, measure, over)
        values = {(case, method): v for method, each in found.items() for case, v in each.items()}
    columns = sorted(dict.fromkeys(key[-1] for key in values), key=lambda name: name not in _OURS)
    rows = []
    for row in dict.fromkeys(key[:-1] for key in values):
        cells = (values.get((*row, column), "–") for column in columns)
        rows.append([*row, *(cell if isinstance(cell, str) else format(cell, form) for cell in cells)])
    return [*(["case"] if measure else ["case", "method"]), *columns], rows


def as_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(word.replace('|', '/') for word in line)} |" for line in lines)
