"""The results page, in Markdown and HTML, made of the results table alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from quartic.bench.numbers import PROVENANCE, Number, Table, as_markdown


class Part(NamedTuple):
    """A section of the page: its title, what one must know to read it, its tables, and a picture."""

    title: str
    words: str
    tables: tuple[Table, ...] = (Table("All figures"),)
    image: str = ""


PARTS = {
    "symnmf": Part(
        "Symmetric NMF: SymNMF beside the paper's solvers",
        "The paper's problems (data:rank), processor seconds to ε = 1e-3 of the projected gradient at the paper's "
        "random start, mean over the starts. `SymNMF.fit` and the command are timed as a user calls them, the command "
        "with start-up and files. SymHALS has its best μ in each case, and like Dyn-NoLips is also run from our "
        "spectral start: what is left then is due to the method alone.",
        (
            Table("Time as a multiple of SymNMF.fit's", "s", "SymNMF.fit", ".1f"),
            Table("Time as a multiple of auto's", "time / auto's", form=".1f"),
            Table("Seconds", "s"),
            Table("Products with M", "products", form=".0f"),
            Table("Objective reached", "objective", form=".6g"),
        ),
    ),
    "edmc": Part(
        "Distances: DistanceCompletion beside other libraries",
        "The paper's helix (points:share of the distances known, a third number is relative noise), processor seconds "
        "to an RMSE of 1e-6 over all pairs, with noise to 1.01 times the minimiser's; mean over the starts. The "
        "estimator and the command are timed as a user calls them, with their checks of the answer; `minimize` is one "
        "run of the solver. SciPy and pymanopt are given our compiled passes, pymanopt with a one-point cache.",
        (
            Table("Time as a multiple of DistanceCompletion.fit_pairs'", "s", "DistanceCompletion.fit_pairs", ".1f"),
            Table("Time as a multiple of minimize's", "s", "minimize, auto", ".1f"),
            Table("Time as a multiple of auto's", "time / auto's", form=".1f"),
            Table("Seconds", "s"),
            Table("Error at the end", "error"),
        ),
    ),
    "peers": Part(
        "Other libraries, each through its own public interface",
        "Seconds; NMI against the known classes; error: projected gradient over the start's, or RMSE over all pairs.",
    ),
    "table1": Part(
        "Table 1 of the paper",
        "Processor seconds to a projected gradient of ε times its norm at the paper's random start, measured from the "
        "iterates by one referee; starts and set-up are timed; mean over the starts. A dash: not from every start in "
        "the time given. The authors' code compares squared norms: their ε = 1e-3 is 0.0316 in the norm. The paper's "
        "NoLips is dyn-nolips. Penalties of hals, anls and admm are tuned on a start that is not in the table.",
        (
            Table("ε = 0.001: time as a multiple of dyn-nolips's", "s to 0.001", "dyn-nolips", ".2f"),
            Table("ε = 0.0316: time as a multiple of dyn-nolips's", "s to 0.0316", "dyn-nolips", ".2f"),
            Table("The paper's: time as a multiple of NoLips's", "s in the paper", "dyn-nolips", ".2f"),
            Table("ε = 0.001: seconds", "s to 0.001"),
        ),
    ),
    "figure1": Part("Figure 1 of the paper", "(f(Xᵏ) − f_min)/‖M‖² against seconds.", (), "figures/figure1.png"),
    "figure2": Part(
        "Figure 2 of the paper",
        "Normalised RMSE over all distances against seconds; mean over the starts.",
        (Table("Seconds to an RMSE of 1e-6", "s to 1e-06"),),
        "figures/figure2.png",
    ),
    "floor": Part(
        "An iteration beside its product",
        "`bare`: our product, or pass over the pairs. `iteration`: the inertial method, or Dyn-NoLips on pairs, failed "
        "trials included. Medians of ratios measured in turns; the method is the type and the number of threads.",
    ),
    "growth": Part("Growth", "One thread; time for a product, peak memory in arrays of the size of X."),
    "gpu": Part("On a GPU", "Seconds of wall clock, data on the device, kernels compiled before."),
    "dask": Part("What Dask costs", "Two workers against one process with two threads, on one machine."),
    "losses": Part("Other losses", "Products and processor seconds to a tolerance of 1e-6."),
    "trust": Part("Faults", "What was tried to break it."),
}


def fill_tables(section: str, numbers: Sequence[Number]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, header and rows of the tables of a section that have any."""
    mine = [n for n in numbers if n.section == section]
    filled = [(table.title, *table.fill(mine)) for table in PARTS[section].tables]
    return [found for found in filled if found[2]]


def facts_of(numbers: Iterable[Number]) -> dict[str, str]:
    """Return the conditions of a section."""
    return {n.measure: str(n.value) for n in numbers if not n.case and n.value}


def render_page(numbers: Sequence[Number]) -> str:
    """Return the results page in Markdown."""
    lines = ["# Results", "", "Made from `results.csv` by `quartic bench page`; `NOTES.md` says what to make of it."]
    for name, part in PARTS.items():
        mine = [n for n in numbers if n.section == name]
        if not mine:
            continue
        facts = facts_of(mine)
        lines += ["", f"## {part.title}", "", f"`{facts.get('command', '')}`. {part.words}", ""]
        lines += [f"- {what}: {facts[what]}" for what in PROVENANCE[1:] if what in facts]
        lines += ["", f"![{part.title}]({part.image})"] if part.image else []
        for n in (n for n in mine if n.case.startswith("all") and n.measure in ("mean", "exponent")):
            ends = [m.words for m in mine if m[:3] == n[:3] and m.measure in ("least", "largest")]
            lines += ["", f"{n.case}, {n.method}: {n.measure} {n.words}" + (f" ({' to '.join(ends)})" if ends else "")]
        for title, header, rows in fill_tables(name, mine):
            lines += ["", f"### {title}", "", as_markdown(header, rows)]
    return "\n".join(lines) + "\n"


def write_report(
    path: str | os.PathLike[str], numbers: Sequence[Number], figures: dict[str, Any], command: str
) -> None:
    """Write numbers, and the plotly figures of sections, to one HTML page that needs no network."""
    from quartic.report import DataTable, Section, write_page

    found = []
    for name in (name for name in PARTS if any(n.section == name for n in numbers)):
        tables = [DataTable(*filled) for filled in fill_tables(name, numbers)]
        facts = facts_of(n for n in numbers if n.section == name)
        found.append(
            Section(PARTS[name].title, PARTS[name].words, parts=[*figures.get(name, []), *tables], facts=facts)
        )
    found = found or [Section("Results", notes=["Nothing was run yet."])]
    write_page(path, "quartic: results", [*found, Section("How this page was made", command=command)])
