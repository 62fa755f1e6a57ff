"""The report: everything in one file, every word escaped, words beside every figure, code that runs."""

import contextlib
import csv
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.testing import CliRunner

from quartic import DistanceCompletion, SymNMF
from quartic.cli import app
from quartic.datasets import karate
from quartic.report import DataTable, Section, residuals_of, write_page

pytest.importorskip("plotly", reason="the report extra is not installed")

EVIL = '<script>alert(1)</script><img src="http://example.org/x" onerror=alert(2)>'


class Page(HTMLParser):
    """Gathers tags, what they link to, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.words, self.figures, self.code, self.inside = [], [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside.append(tag)
        known = dict(attributes)
        self.links += [known[name] for name in ("src", "href", "action") if name in known]
        if tag == "figure":
            self.figures.append(known.get("aria-label"))
        if tag in ("meta", "link", "img", "br"):
            self.inside.pop()

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] not in ("script", "style"):
            self.words.append(data)
            if self.inside[-1] == "pre":
                self.code.append(data)


def report(tmp_path, *arguments):
    page = tmp_path / "report.html"
    done = CliRunner().invoke(app, [*map(str, arguments), "--report", str(page)])
    assert done.exit_code in (0, 1), done.output
    text = page.read_text(encoding="utf-8")
    library = text.index("<script>") + len("<script>")
    return Page(text[:library] + text[text.index("</script>", library) :])  # five million letters less to parse


def check_page(page, n_figures):
    assert page.links == ["data:,"]  # nothing is fetched
    assert len(page.figures) == n_figures
    assert all(words and len(words) > 20 for words in page.figures)  # each figure is told in words
    assert "img" not in page.tags
    assert page.tags.count("script") == 1 + n_figures  # the library, and what draws each figure


def run_code(code, folder, capsys, quiet=False):
    """Run the code of a page as it stands, in the folder of the data; return what it prints."""
    capsys.readouterr()
    with contextlib.chdir(folder), warnings.catch_warnings():
        if quiet:  # where the data leave a point free, the run warns of it
            warnings.simplefilter("ignore")
        exec(compile(code, "the report", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.fixture
def club(tmp_path):
    A = karate().adjacency.tocoo()
    rows = [f"{EVIL if i == 0 else f'm{i}'},m{j},1" for i, j in zip(A.row, A.col, strict=True) if i < j]
    path = tmp_path / "club.csv"
    path.write_text("source,target,weight\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def square(tmp_path):
    """Five points of a plane, one held by one distance only, and one with a name that bites."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    names = ["a", "b", EVIL, "d", "far"]
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (1, 4)]
    path = tmp_path / "square.csv"
    with path.open("w", newline="") as file:
        rows = ([names[i], names[j], float(np.linalg.norm(X[i] - X[j]))] for i, j in pairs)
        csv.writer(file).writerows([["from", "to", "distance"], *rows])
    return path


def test_report_of_a_clustering(club, tmp_path, capsys):
    page = report(tmp_path, "cluster", club, "-k", 2, "-o", tmp_path / "out.csv", "--seed", 3)
    check_page(page, 4)
    text = " ".join(page.words)
    assert "<script>alert(1)</script>"[:20] in text  # shown, not run
    assert "random_state=3" in text
    assert "numpy" in text
    printed = run_code(page.code[-1], tmp_path, capsys).splitlines()
    written = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.rsplit(" ", 1)[1] for line in printed[1:]] == [line.split(",")[1] for line in written[1:]]


def test_report_of_features_tells_what_sets_clusters_apart(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (15, 3)), rng.normal([20, 0, 0], 1, (15, 3))])
    (tmp_path / "x.csv").write_text(
        "left,<b>mid</b>,right\n" + "\n".join(",".join(map(str, row)) for row in X.tolist())
    )
    page = report(tmp_path, "cluster", tmp_path / "x.csv", "-k", 2, "-o", tmp_path / "out.npz")
    check_page(page, 4)
    assert "b" not in page.tags
    text = " ".join(page.words)
    assert "What sets the clusters apart" in text
    assert re.search(r"left ↑ (19|20)\.\d", text)
    assert "An example of each cluster" in text
    run_code(page.code[-1], tmp_path, capsys)


def test_report_of_a_localisation(square, tmp_path, capsys):
    page = report(tmp_path, "locate", square, "-d", 2, "-o", tmp_path / "out.csv")
    check_page(page, 3)
    text = " ".join(page.words)
    assert "fewer than 3 distances" in text
    assert "The pairs that fit worst" in text
    run_code(page.code[-1], tmp_path, capsys, quiet=True)


def test_report_with_anchors_and_alignment_runs_again(square, tmp_path, capsys):
    (tmp_path / "known.csv").write_text("point,x,y\na,0,0\nb,1,0\n")
    common = ("locate", square, "-d", 2, "-o", tmp_path / "out.csv", "--refine", "stress")
    page = report(tmp_path, *common, "--anchors", tmp_path / "known.csv", "--weights", "noise")
    assert "2 are anchors" in " ".join(page.figures)
    run_code(page.code[-1], tmp_path, capsys, quiet=True)
    page = report(tmp_path, *common, "--align", tmp_path / "known.csv")
    run_code(page.code[-1], tmp_path, capsys, quiet=True)


def test_everything_on_the_page_is_escaped(tmp_path):
    section = Section(
        EVIL, {EVIL: EVIL}, code=EVIL, tables=[DataTable(EVIL, [EVIL], [[EVIL]], EVIL)], notes=[EVIL], command=EVIL
    )
    write_page(tmp_path / "p.html", EVIL, [section])
    page = Page((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.words.count(EVIL) == 12


def test_a_file_name_is_shown_and_not_run(club, tmp_path):
    evil = club.rename(tmp_path / "<script>alert(1)<img src=x onerror=alert(2)>&amp;.csv")
    page = report(tmp_path, "cluster", evil, "-k", 2, "-o", tmp_path / "<script>out.csv")
    check_page(page, 4)
    assert any("<script>alert(1)<img src=x onerror=alert(2)>&amp;.csv" in words for words in page.words)


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "p.html").mkdir()
    with pytest.raises(OSError, match=r"p\.html"):
        write_page(tmp_path / "p.html", "title", [])
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"]


def test_residuals_count_from_the_nearest_bound():
    X = np.array([[0.0], [2.0], [5.0]])
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    nan = np.nan
    residuals, given = residuals_of(
        X, pairs, np.array([1.5, nan, nan]), np.array([nan, 1.0, 6.0]), np.array([nan, 2.0, nan])
    )
    np.testing.assert_allclose(residuals, [0.5, 1.0, -1.0])
    assert given == ["1.5", "1 to 2", "6 to inf"]


@pytest.mark.parametrize("names", [None, ["a<b>", "b", "c"]])
def test_what_the_mouse_finds_is_in_words(names):
    """No template that a version of plotly may show as it is."""
    from quartic.report.cluster_figures import membership_chart, reordered_similarity

    shares = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    (cells,) = membership_chart(shares, names)[0].to_plotly_json()["data"]
    (block,) = reordered_similarity(np.ones((3, 3)), np.zeros(3, int), names)[0].to_plotly_json()["data"]
    assert cells["hoverinfo"] == "text"
    first, second = ("1", "0") if names is None else ("b", "a&lt;b&gt;")
    assert cells["hovertext"][0][0] == f"{first}: 100% in cluster 0"
    assert cells["hovertext"][1][-1] == f"{second}: 75% in cluster 1"
    assert "hovertemplate" not in {**cells, **block}


# -- figures in matplotlib --------------------------------------------------------------------------------------------


@pytest.fixture
def no_window(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.usefixtures("no_window")
def test_plots_of_a_clustering():
    model = SymNMF(3, random_state=0).fit(karate().adjacency)
    ax = model.result_.plot()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.result_.history.stationarity)
    assert model.result_.plot("time", ax=ax) is ax
    with pytest.raises(ValueError, match="against"):
        model.result_.plot("colour")
    assert model.plot_similarity().images[0].get_array().shape == (34, 34)
    assert model.plot_memberships().images[0].get_array().shape == (3, 34)


@pytest.mark.usefixtures("no_window")
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_plot_of_points(dimension):
    from quartic import plots

    X = np.random.default_rng(0).normal(size=(9, dimension))
    sure = np.arange(9) > 1
    ax = plots.points(X, np.array([[0, 1], [2, 3]]), sure, [4])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["points", "not determined", "anchors"]


@pytest.mark.usefixtures("no_window")
def test_plots_of_a_localisation():
    X = np.random.default_rng(0).normal(size=(8, 2))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    model = DistanceCompletion(2, random_state=0).fit(D, anchors={0: X[0], 1: X[1], 2: X[2]})
    ax = model.plot_points()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["points", "anchors"]
    assert sum(bar.get_height() for bar in model.plot_errors().patches) == 28


def test_a_result_reads_well():
    result = SymNMF(2, random_state=0).fit(karate().adjacency).result_
    assert repr(result).startswith("Result of ")
    assert "34 × 2, float64" in repr(result)
    assert "<th" in result._repr_html_()
    assert "≤" in result._repr_html_()


def test_models_of_the_report_are_those_of_python(square, tmp_path):
    """The command and Python give the same points."""
    from quartic.io import read_distances

    CliRunner().invoke(app, ["locate", str(square), "-d", "2", "-o", str(tmp_path / "x.npy")])
    table = read_distances(square)
    with pytest.warns(UserWarning, match="determined"):
        model = DistanceCompletion(2, random_state=0).fit_pairs(table.pairs, **table.columns())
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), model.embedding_)
