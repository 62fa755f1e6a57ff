"""Documents show real code, word for word, and the numbers of the results table, digit for digit."""

import doctest
import re
from pathlib import Path

import pytest

from quartic import kernels, losses
from quartic.bench.commands import render_page
from quartic.bench.numbers import QUOTED, quote_numbers, read_numbers
from quartic.solvers import SOLVERS

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# (src/\S+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("document", ["CONTRIBUTING.md"])
def test_quoted_code_is_the_source(document):
    blocks = BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    assert blocks
    for path, code in blocks:
        source = (ROOT / path).read_text(encoding="utf-8")
        for part in re.split(r"^ *\.\.\.\n", code, flags=re.MULTILINE):
            assert part.strip("\n") in source, f"{document} quotes {path}, which now reads otherwise:\n{part}"


def test_the_quick_start_runs_as_shown():
    failed, tried = doctest.testfile(str(ROOT / "docs" / "quickstart.rst"), module_relative=False, encoding="utf-8")
    assert tried > 10
    assert not failed


MADE = {"_build", "gallery", "api"}
PAGES = [path for path in (ROOT / "docs").rglob("*.rst") if not MADE & set(path.parts)]
DOCUMENTS = ["README.md", "docs/results.md", *sorted(str(path.relative_to(ROOT)) for path in PAGES)]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the documents are in the repository, not in the packages made of it", allow_module_level=True)
NUMBERS = read_numbers(ROOT / "benchmarks" / "results.csv")
# "9.3 times faster", "149 to 169 times as long": a measured ratio, whose number must have a key.
BARE = re.compile(r"^\w.*\s\d+\.\d+ +\d+(?:\.\d+)?\b.*$", re.MULTILINE)  # a row of a table with numbers typed by hand
CLAIM = re.compile(r"(?<![|\w.>-])[0-9]+(?:\.[0-9]+)?(?!<!--) times (?:faster|slower|as (?:fast|long|quick))")


def test_every_solver_loss_and_kernel_is_in_the_documents():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in SOLVERS if f"`{name}`" not in readme] == []
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    of_points = {"FullLeastSquares", "Line", "Loss", "Move", "Point"}  # what LeastSquares returns, and parts of losses
    names = [*sorted(set(losses.__all__) - of_points), *kernels.__all__]
    assert [name for name in names if f"{name}`" not in pages] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_numbers_are_those_of_the_results_table(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    assert quote_numbers(text, NUMBERS) == text, "run quartic bench page with this document"
    defined = set(re.findall(r"^\.\. \|([^|]+)\| replace::", text, re.MULTILINE))
    used = set(re.findall(r"\|([a-z0-9-]+(?:\.[a-z0-9-]+)+)\|", re.sub(r"^\.\. \|.*$", "", text, flags=re.MULTILINE)))
    assert used == defined
    assert not CLAIM.findall(text)
    assert not BARE.findall(text)


def test_the_documents_quote_numbers():
    quoted = {d: sum(len(p.findall((ROOT / d).read_text(encoding="utf-8"))) for p in QUOTED) for d in DOCUMENTS}
    assert quoted["README.md"] >= 10
    assert quoted["docs/choosing.rst"] >= 20
    assert quoted["docs/gpu.rst"] >= 5
    assert quoted["docs/results.md"] >= 10


def test_a_number_that_differs_is_found():
    text = "a 9.3<!--gpu.graph-million-nodes.float32.s--> b\n.. |gpu.graph-million-nodes.float32.s| replace:: 9.3\n"
    (known,) = (n.value for n in NUMBERS if n.key == "gpu.graph-million-nodes.float32.s")
    assert quote_numbers(text, NUMBERS).count(f" {float(known):.2g}") == 2
    with pytest.raises(ValueError, match=r"no number 'gpu\.no-such'"):
        quote_numbers("1<!--gpu.no-such-->", NUMBERS)
    assert CLAIM.search("it is 9.3 times faster")
    assert not CLAIM.search("it is 9.3<!--a.b--> times faster")


def test_the_results_page_is_made_of_the_table():
    page = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert page == render_page(NUMBERS), "run quartic bench page -o benchmarks/RESULTS.md"
    headers = [line.split(" | ") for line in page.splitlines() if line.startswith("| case | ")]
    first = [header[1] for header in headers if "auto" in header]
    assert len(first) >= 4
    assert set(first) == {"auto"}  # in sight on any screen
    for section in {n.section for n in NUMBERS}:
        facts = {n.measure for n in NUMBERS if n.section == section and not n.case}
        assert facts >= {"command", "machine", "commit", "date"}, section
    keys = [n.key for n in NUMBERS if n.case]
    assert len(keys) == len(set(keys))


def test_benchmarks_that_documents_and_sources_name_are_there():
    for path in [*(ROOT / document for document in DOCUMENTS), ROOT / "Makefile", ROOT / "benchmarks" / "NOTES.md",
                 *(ROOT / "src").rglob("*.py")]:  # fmt: skip
        for name in re.findall(r"benchmarks/[\w./-]+\w", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path} names {name}"
