"""The reports and the site in a real browser: Debian's chromium, without a window and without a network."""

import csv
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

from browser import Browser, find_chromium
from command import invoke
from quartic.datasets import helix, karate, pair_distances, random_pairs

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="chromium is not installed; make test-browser installs it"),
]
pytest.importorskip("plotly", reason="the report extra is not installed")

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
PAGES = {
    "front page": "index",
    "quick start": "quickstart",
    "glossary": "glossary",
    "gallery": "gallery/index",
    "example": "gallery/plot_communities",
    "reference": "api/generated/quartic.SymNMF",
    "mathematics": "mathematics/geometry",
    "results": "results",
}
EVIL = "<script>window.bitten = 1</script>"


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Both reports, of data with a name that bites and a point that nothing holds."""
    folder = tmp_path_factory.mktemp("reports")
    A = karate().adjacency.tocoo()
    edges = [[EVIL if i == 0 else f"m{i}", f"m{j}", 1] for i, j in zip(A.row, A.col, strict=True) if i < j]
    truth = helix(40, random_state=0)
    pairs = random_pairs(40, 0.4, random_state=0)
    distances = pair_distances(truth, pairs)
    pairs = [[i, j, d] for (i, j), d in zip(pairs.tolist(), distances.tolist(), strict=True)]
    for name, header, rows in (
        ("club", ["source", "target", "weight"], edges),
        ("walk", ["i", "j", "d"], [*pairs, [EVIL, 1, 9.0]]),
    ):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    for name, command in (("club", ["cluster", "-k", "3"]), ("walk", ["locate", "-d", "3"])):
        page = folder / f"{name}.html"
        done = invoke(*command, folder / f"{name}.csv", "-o", folder / f"{name}-out.csv", "--report", page)
        assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("name", ["club", "walk"])
@pytest.mark.parametrize("width", [390, 1200])
def test_a_report_opens(browser, reports, name, width):
    page = reports / f"{name}.html"
    browser.open(page, width, 844, mobile=width < 500)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelectorAll('figure').length") == 3
    assert browser.evaluate("document.querySelector('details').open") is False
    browser.evaluate("document.querySelector('summary').click()")
    browser.until(
        f"document.querySelector('details .main-svg').getBoundingClientRect().width > {0.6 * min(width, 1024)}"
    )
    assert browser.evaluate(
        "[...document.querySelectorAll('figure')].every(f => f.getBoundingClientRect().height > 150)"
    )
    # nothing is cut off: code wraps, columns find room, and no bar of colours takes the points' width
    cut = "[...document.querySelectorAll('pre, .data:not(.paged .data)')].filter(e => e.scrollWidth > e.clientWidth)"
    assert browser.evaluate(f"{cut}.length") == 0
    points = "document.querySelector('.plotly-graph-div')"
    assert browser.evaluate(f"{points}._fullLayout._size.w / {points}.clientWidth") > 0.8
    assert browser.evaluate("typeof window.bitten") == "undefined"
    assert EVIL in browser.evaluate("document.body.innerText")
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 300))")  # whatever comes late
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]


@pytest.mark.parametrize("name", ["club", "walk"])
def test_a_name_is_found(browser, reports, name):
    """In the figure, ringed, and in the table."""
    browser.open(reports / f"{name}.html", 390, 844, mobile=True)
    rows = "document.querySelectorAll('.paged tbody tr')"
    ringed = "document.querySelector('.plotly-graph-div').data.at(-1).x.length"
    assert browser.evaluate(f"{rows}.length") == 25
    assert browser.evaluate(ringed) == 0
    browser.evaluate("document.querySelector('input.find').value = '<SCRIPT>'")
    browser.evaluate("document.querySelector('input.find').dispatchEvent(new Event('input'))")
    assert browser.evaluate(f"[...{rows}].map(row => row.cells[0].textContent)") == [EVIL]
    assert browser.evaluate(ringed) == 1
    assert browser.evaluate("typeof window.bitten") == "undefined"
    assert browser.errors == []


def test_members_are_paged_and_sorted(browser, reports):
    browser.open(reports / "club.html")
    cells = "[...document.querySelectorAll('.paged tbody tr')].map(row => parseInt(row.cells[{}].textContent))"
    back, on = "document.querySelector('.pager').firstChild", "document.querySelector('.pager').lastChild"
    browser.evaluate(f"{on}.click()")
    assert browser.evaluate("document.querySelectorAll('.paged tbody tr').length") == 34 - 25
    assert browser.evaluate(f"[{back}.disabled, {on}.disabled]") == [False, True]
    browser.evaluate("document.querySelectorAll('.paged th')[2].click()")
    certainty = browser.evaluate(cells.format(2))
    assert len(certainty) == 25
    assert certainty == sorted(certainty)
    assert certainty[0] < certainty[-1]


def test_points_are_coloured_by_error_at_a_click(browser, reports):
    browser.open(reports / "walk.html")
    colours = "[...document.querySelector('.plotly-graph-div')._fullData.at(-2).marker.color]"
    before = browser.evaluate(colours)
    browser.evaluate("document.querySelectorAll('.updatemenu-button')[1].dispatchEvent(new Event('click'))")
    browser.until(f"String({colours}) !== '{','.join(map(str, before))}'")
    assert browser.errors == []


def test_the_points_turn(browser, reports):
    browser.open(reports / "walk.html")
    figure = "document.querySelector('.plotly-graph-div')"
    eye = f"(() => {{const e = {figure}._fullLayout.scene._scene.getCamera().eye; return [e.x, e.y, e.z];}})()"
    browser.until(f"{figure}._fullLayout.scene._scene && {figure}.querySelector('canvas')")
    browser.evaluate(f"{figure}.scrollIntoView()")
    x, y, width, height = browser.evaluate(
        f"(() => {{const b = {figure}.getBoundingClientRect(); return [b.x, b.y, b.width, b.height];}})()"
    )
    before = np.array(browser.evaluate(eye))
    browser.drag(x + width / 2, y + height / 2, 120, 30)
    browser.until(f"Math.hypot(...{eye}.map((v, k) => v - {before.tolist()}[k])) > 0.1")
    after = np.array(browser.evaluate(eye))
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(before), rel=0.05)  # turned, not zoomed
    assert browser.errors == []


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The report of a table and a figure, both of tiny runs."""
    folder = tmp_path_factory.mktemp("figures")
    words = ["paper", "figure2", "--quick", "--case", "60:0.5", "--case", "80:0.5", "--starts", "1", "--seconds", "1"]
    table = ["paper", "table1", "--quick", "--case", "planted-100-2:2", "--starts", "1", "--solver", "cd"]
    for command in (words, table):
        assert invoke(*command, "-o", folder).exit_code == 0
    done = invoke("bench", "page", "-o", folder / "page.md", "--results", folder, "--report", folder / "all.html")
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("width", [390, 1200])
def test_figures_of_the_paper_open(browser, figures, width):
    page = figures / "all.html"
    browser.open(page, width, 844, mobile=width < 500)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.until("document.querySelector('figure img').naturalWidth > 500")
    assert 200 < browser.evaluate("document.querySelector('figure img').clientWidth") <= width
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 300))")
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]


# -- the site ---------------------------------------------------------------------------------------------------------

needs_site = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built; make docs builds it"
)


@needs_site
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [390, 1200])
def test_a_page_of_the_site_opens(browser, page, width):
    browser.open(SITE / f"{PAGES[page]}.html", width, 844, mobile=width < 500)
    browser.evaluate("new Promise(resolve => setTimeout(resolve, 300))")  # whatever comes late
    assert browser.errors == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    asked = [url for url in browser.requests if not url.startswith("data:")]
    outside = [url for url in asked if not url.startswith(SITE.resolve().as_uri())]
    assert outside == []
    missing = [url for url in asked if not Path(unquote(urlparse(url).path)).is_file()]
    assert missing == []
    # every picture has come, and says in words what it shows
    pictures = "[...document.querySelectorAll('article img')]"
    assert browser.evaluate(f"{pictures}.every(i => i.complete && i.naturalWidth > 0 && i.alt !== null)")
    clipped = "[...document.querySelectorAll('article pre')].filter(p => p.scrollWidth > p.clientWidth + 1).length"
    assert browser.evaluate(clipped) == 0  # code wraps
    # the table of contents beside the page wraps too; a telephone has it behind a button
    beside = "[...document.querySelectorAll('.bd-sidebar-secondary a')].filter(a => a.getClientRects().length)"
    assert width < 500 or browser.evaluate(f"{beside}.every(a => a.getBoundingClientRect().right <= innerWidth)")
    # what is ours stands where it is seen without scrolling
    ours = "[...document.querySelectorAll('article th')].filter(h => h.innerText === 'auto')"
    assert browser.evaluate(f"{ours}.every(h => h.getBoundingClientRect().right <= innerWidth)")
    assert (browser.evaluate(f"{ours}.length") >= 4) == (page == "results")
    if page in ("front page", "quick start", "gallery", "example"):
        assert browser.evaluate(f"{pictures}.length") >= 2


@needs_site
def test_formulas_are_drawn_by_the_browser(browser):
    """As MathML of some size, centred, within its column."""
    browser.open(SITE / "mathematics" / "geometry.html", 1200)
    found = browser.evaluate(
        "[...document.querySelectorAll('div.math math')].map(m => {const b = m.getBoundingClientRect(),"
        "p = m.parentElement.getBoundingClientRect(); return [b.width, b.height, b.left - p.left];})"
    )
    assert len(found) > 8
    assert all(width > 40 and height > 10 and left >= -1 for width, height, left in found)


@needs_site
def test_the_reference_shows_the_examples(browser):
    browser.open(SITE / "api" / "generated" / "quartic.SymNMF.html", 1200)
    assert browser.evaluate("document.querySelectorAll('.sphx-glr-thumbcontainer a').length") >= 3


@needs_site
def test_the_site_can_be_searched_without_a_server(browser):
    browser.open(SITE / "search.html", 1200)
    browser.send("Page.navigate", url=(SITE / "search.html").resolve().as_uri() + "?q=anchors")
    browser.until("document.querySelectorAll('#search-results li a').length > 0")
    assert browser.errors == []
