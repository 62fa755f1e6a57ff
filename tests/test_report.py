"""The report: everything in one file, every word escaped, words beside every figure, code that runs."""

import contextlib
import csv
import json
import re
import warnings
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from command import invoke
from quartic import DistanceCompletion, SymNMF
from quartic.clustering.roles import RoleNMF
from quartic.datasets import helix, karate, pair_distances, planted_graph, random_pairs
from quartic.distance.findings import MisfitWarning
from quartic.plots import sample_nodes
from quartic.report import (
    DataTable,
    Section,
    cluster_section,
    point_section,
    role_section,
    write_page,
)
from quartic.report.clusters import membership_chart, place_nodes
from quartic.report.figures import convergence
from quartic.report.points import find_chain, residuals_of, scatter_of_points

pytest.importorskip("plotly", reason="the report extra is not installed")

EVIL = '<script>alert(1)</script><img src="http://example.org/x" onerror=alert(2)>'


class Page(HTMLParser):
    """Gathers tags, what they link to, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.words, self.figures, self.code, self.inside = [], [], [], [], [], []
        self.drawn, self.tables, self.title = [], {}, ""  # what plotly is given; the cells of tables by their titles
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside.append(tag)
        known = dict(attributes)
        self.links += [known[name] for name in ("src", "href", "action") if name in known]
        rows = self.tables.setdefault(self.title, [])
        if tag == "tr":
            rows.append([])
        if tag == "td":
            rows[-1].append("")
        if tag == "tbody":
            rows.clear()
        if tag == "figure":
            self.figures.append(known.get("aria-label"))
        if tag in ("meta", "link", "img", "br", "input"):
            self.inside.pop()

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] not in ("script", "style"):
            self.words.append(data)
            if self.inside[-1] == "pre":
                self.code.append(data)
            if self.inside[-1] == "td":
                self.tables[self.title][-1][-1] += data
            if self.inside[-1] in ("h3", "summary"):
                self.title = data
        elif self.inside and data.startswith('{"data"'):
            self.drawn.append(json.loads(data))


def report(tmp_path, *arguments):
    page = tmp_path / "report.html"
    done = invoke(*map(str, arguments), "--report", str(page))
    assert done.exit_code in (0, 1), done.output
    assert page.stat().st_size < 4.9e6
    return Page(page.read_text(encoding="utf-8"))


def check_page(page, n_figures):
    assert page.links == ["data:,"]  # nothing is fetched
    assert len(page.figures) == len(page.drawn) == n_figures
    assert all(words and len(words) > 20 for words in page.figures)  # each figure is told in words
    assert "img" not in page.tags
    assert page.tags.count("script") == 2 + n_figures  # the library, what draws, and what it draws
    said = page.words[page.words.index(page.words[0], 1) + 1 :]  # after the title and the heading
    assert re.match(r"\d+ (nodes|rows|points) in \d", said[0])  # the answer comes first
    # how it was computed comes last, folded
    folded = page.tags.index("details")
    assert page.tags.index("summary") == folded + 1
    assert "figure" in page.tags[:folded]
    assert page.tags[folded:].count("figure") == 1  # convergence
    assert page.tags[folded:].count("pre") == 2


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


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
    check_page(page, 3)
    text = " ".join(page.words)
    assert "<script>alert(1)</script>"[:20] in text  # shown, not run
    assert "random_state=3" in text
    assert "numpy" in text
    with (tmp_path / "out.csv").open(newline="") as file:
        written = {row[0][:39]: row[1] for row in list(csv.reader(file))[1:]}
    members = page.tables["Who is where"]
    assert {row[0][:39]: row[1] for row in members} == written
    assert len(members) == 34
    # the map has every node, by name, in its cluster, as large as it is sure
    found = {}
    for name, trace in traces(page.drawn[0]).items():
        if name.isdigit():
            found |= {unescape(text)[:39]: name for text in trace["text"]}
            assert all(
                unescape(text) in unescape(said) for text, said in zip(trace["text"], trace["hovertext"], strict=True)
            )
    assert found == written
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
    check_page(page, 3)
    assert "b" not in page.tags
    text = " ".join(page.words)
    assert "What sets the clusters apart" in text
    assert re.search(r"left ↑ (19|20)\.\d", text)
    run_code(page.code[-1], tmp_path, capsys)


def test_report_of_a_localisation(square, tmp_path, capsys):
    page = report(tmp_path, "locate", square, "-d", 2, "-o", tmp_path / "out.csv")
    check_page(page, 3)
    text = " ".join(page.words)
    assert "fewer than 3 distances" in text
    assert len(page.tables["The pairs that fit worst"]) == 7
    with (tmp_path / "out.csv").open(newline="") as file:
        written = [row[0][:39] for row in list(csv.reader(file))[1:]]
    assert [row[0][:39] for row in page.tables["Where every point is"]] == written
    hollow = traces(page.drawn[0])["not determined"]
    assert hollow["marker"]["symbol"] == "circle-open"
    assert hollow["text"] == ["far"]
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
    import plotly.graph_objects as go

    table = DataTable(EVIL, [EVIL], [[EVIL]], EVIL, EVIL)
    figure = go.Figure(go.Scatter(x=[1], y=[1], text=[EVIL]), {"meta": {"title": EVIL, "find": EVIL}, "height": 90})
    section = Section(EVIL, EVIL, [EVIL], [table, (figure, EVIL)], {EVIL: EVIL}, [table], EVIL, EVIL)
    write_page(tmp_path / "p.html", EVIL, [section, section])
    page = Page((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 4  # the library, what draws, and two figures
    assert "img" not in page.tags
    assert page.words.count(EVIL) == 2 + 2 * (2 + 1 + 4 + 2 + 2 + 4 + 2)
    assert page.drawn[0]["data"][0]["text"] == [EVIL]


def test_a_file_name_is_shown_and_not_run(club, tmp_path):
    evil = club.rename(tmp_path / "<script>alert(1)<img src=x onerror=alert(2)>&amp;.csv")
    page = report(tmp_path, "cluster", evil, "-k", 2, "-o", tmp_path / "<script>out.csv")
    check_page(page, 3)
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
    shares = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    (cells,) = membership_chart(shares, np.array([1, 0, 0]), names)[0].to_plotly_json()["data"]
    assert cells["hoverinfo"] == "text"
    first, second = ("1", "0") if names is None else ("b", "a&lt;b&gt;")
    assert cells["hovertext"][0][0] == f"{first}: 100% in cluster 0"
    assert cells["hovertext"][1][-1] == f"{second}: 75% in cluster 1"
    assert "hovertemplate" not in cells


@pytest.mark.usefixtures("no_window")
def test_clusters_of_the_report_are_those_of_the_labels():
    """And not the largest memberships, where a block model refined the labels."""
    M, _ = planted_graph(400, 4, degree=5, p_within=0.6, random_state=0)
    model = SymNMF(4, random_state=0).fit(M)
    labels, shares = model.labels_, model.memberships_
    assert (labels != shares.argmax(axis=1)).sum() > 5
    section = cluster_section(model, title="clusters")
    own = shares[np.arange(400), labels]
    assert f"Mean membership {own.mean():.2f}, {(own < 0.6).sum()} ambiguous" in section.answer
    drawn = {trace.name: trace.hovertext for trace in section.parts[0][0].data if trace.name not in (None, "links")}
    for k in range(4):
        assert [said.split("<br>")[0] for said in drawn[str(k)]] == [str(i) for i in np.flatnonzero(labels == k)]
    chart, words = section.parts[2]
    order = [int(said.split(":")[0]) for said in chart.data[0].hovertext[0]]
    assert (np.diff(labels[order]) >= 0).all()
    assert f", {(own < 0.6).sum()} ambiguous nodes (below 0.6)." in words
    np.testing.assert_array_equal(model.plot_memberships().images[0].get_array(), shares[np.lexsort((-own, labels))].T)


# -- overlap and roles ------------------------------------------------------------------------------------------------


def test_clusters_that_share_nodes_say_which(tmp_path):
    A = np.zeros((13, 13))
    A[:7, :7] = A[6:, 6:] = 1.0  # node 6 is in both
    np.fill_diagonal(A, 0)
    model = SymNMF(2, random_state=0).fit(A)
    write_page(tmp_path / "page.html", "two", [cluster_section(model, [f"n{k}" for k in range(13)], title="two")])
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert page.tables["Where clusters overlap"] == [["0, 1", "1", "n6"]]
    apart = SymNMF(2, random_state=0).fit(np.kron(np.eye(2), np.ones((6, 6))))
    assert "Where clusters overlap" not in str(cluster_section(apart, title="apart").parts)


def test_roles_are_drawn_as_blocks(tmp_path):
    A = np.kron([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.ones((5, 5)))  # a chain
    model = RoleNMF(3, random_state=0).fit(A)
    section = role_section(model, [f"n{k}" for k in range(15)], title="roles")
    write_page(tmp_path / "page.html", "roles", [section])
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    first, middle, last = model.labels_[[0, 5, 10]].tolist()
    z = np.array(
        [[float(word.split(": ")[1].split("%")[0]) for word in row] for row in page.drawn[0]["data"][0]["hovertext"]]
    )
    assert z[first, middle] > 50
    assert z[middle, last] > 50
    z[first, middle] = z[middle, last] = 0
    assert z.max() < 5
    assert "15 nodes in 3 roles of 5, 5, 5." in section.answer
    assert "0% of all flow stays" in section.answer
    assert page.tables["Who is where"][0][:2] == ["n0", str(first)]


# -- the map ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [False, True])
def test_a_sample_keeps_neighbours(dense):
    M, _ = planted_graph(1000, 5, random_state=0)
    kept, block = sample_nodes(M.toarray() if dense else M, 100)
    assert len(np.unique(kept)) == len(kept) == 100
    np.testing.assert_array_equal(block.toarray(), M.toarray()[np.ix_(kept, kept)])
    linked = np.asarray((block.toarray() > 0).sum(axis=1)) - 1  # without itself
    assert linked.mean() > 2.3  # of nodes drawn alone: 1.6
    assert (linked > 0).all()


def test_places_on_the_map_tell_clusters_apart_and_keep_neighbours_near():
    M, truth = planted_graph(300, 4, random_state=0)
    model = SymNMF(4, random_state=0).fit(M)
    x = place_nodes(sp.csr_array(model.affinity_matrix_), model.memberships_)
    assert np.isfinite(x).all()
    centres = np.array([x[truth == k].mean(axis=0) for k in range(4)])
    nearest = np.linalg.norm(x[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == truth).mean() > 0.95
    i, j = M.nonzero()
    every = np.linalg.norm(x[:, None] - x, axis=2)
    assert np.median(every[i[i != j], j[i != j]]) < 0.6 * np.median(every)


@pytest.mark.parametrize("k", [1, 3])
def test_a_map_of_nodes_without_links(k):
    x = place_nodes(sp.csr_array((6, 6)), np.full((6, k), 1 / k))
    assert np.isfinite(x).all()
    assert len(np.unique(x, axis=0)) == 6


# -- points and runs --------------------------------------------------------------------------------------------------


def test_a_chain_is_found_by_order_or_by_bonds():
    walk = np.cumsum(np.ones((40, 3)), axis=0)
    few = np.array([[0, 5]])
    rank, links = find_chain(walk, few, range(40))
    np.testing.assert_array_equal(rank, np.arange(40))
    np.testing.assert_array_equal(links, np.column_stack([np.arange(39), np.arange(1, 40)]))
    # in the order of the numbers in the names, and not across a gap
    turned = [f"CA{40 - i}" for i in range(40)]
    broken = walk + np.where(np.arange(40) < 20, 0, 50)[:, None]
    rank, links = find_chain(broken, few, turned)
    np.testing.assert_array_equal(rank, np.arange(40)[::-1])
    assert len(links) == 38
    atoms = [
        f"ALA{1 + i // 4}:{['N', 'CA', 'C', 'O'][i % 4]}" for i in range(40)
    ]  # by residue, however they are listed
    listed = np.r_[np.arange(0, 40, 4), np.setdiff1d(np.arange(40), np.arange(0, 40, 4))]
    rank, _ = find_chain(walk[listed], few, [atoms[i] for i in listed])
    np.testing.assert_array_equal(rank, listed)
    cloud = np.random.default_rng(0).normal(size=(40, 3))
    assert len(find_chain(cloud, few, range(40))[1]) == 0
    bonds = np.column_stack([np.arange(39), np.arange(1, 40)])
    assert len(find_chain(cloud, bonds, range(40))[1]) == 39
    everything = np.column_stack(np.triu_indices(40, 1))
    assert len(find_chain(cloud, everything, range(40))[1]) == 0


def test_axes_have_one_scale_and_hold_every_point():
    X = np.random.default_rng(0).normal(size=(30, 3)) * [100.0, 5.0, 0.1]
    figure, _ = scatter_of_points(X, np.array([[0, 1]]))
    scene = figure.layout.scene
    ranges = np.array([scene[f"{axis}axis"].range for axis in "xyz"])
    assert (ranges[:, 0] < X.min(axis=0)).all()
    assert (ranges[:, 1] > X.max(axis=0)).all()
    scales = np.array([scene.aspectratio[axis] for axis in "xyz"]) / np.ptp(ranges, axis=1)
    np.testing.assert_allclose(scales, scales[0])


def test_a_misfit_is_named_where_it_is_why_nothing_is_determined():
    pairs = random_pairs(300, 0.1, random_state=0)
    noise = 1 + 0.01 * np.random.default_rng(0).standard_normal(len(pairs))
    distances = noise * pair_distances(helix(300, random_state=0), pairs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DistanceCompletion(random_state=0).fit_pairs(pairs, distances)
    assert not model.determined_.any()
    (said,) = [str(one.message) for one in caught if issubclass(one.category, MisfitWarning)]
    assert "far more than the others" in said
    assert "so that no point is called determined" in said
    section = point_section(model, pairs, {"distances": model.distances(pairs)}, title="misfit")
    (table,) = [part for part in section.parts if getattr(part, "title", "") == "What the data determine"]
    assert "0 of 300 points are determined" in table.words
    assert "missed by more than noise or round-off" in table.words


def test_points_are_coloured_by_order_or_by_error():
    X, errors = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6) / 10
    sure = np.arange(6) != 2
    figure, words = scatter_of_points(X, np.array([[0, 1]]), sure, np.array([4]), errors=errors)
    assert "1 of them, hollow" in words
    by_order, by_error = figure.layout.updatemenus[0].buttons
    named = [figure.data[k].name for k in by_error.args[2]]
    assert named == ["points", "not determined", "anchors"]
    assert by_order.args[0]["marker.color"] == [[0, 1, 3, 5], [2], [4]]
    assert by_error.args[0]["marker.color"] == [[0.0, 0.1, 0.3, 0.5], [0.2], [0.4]]
    assert figure.data[by_error.args[2][0]].hovertext[3] == "5<br>error 0.5"
    # the order has no halves, errors have
    assert figure.layout.coloraxis.colorbar.dtick == by_order.args[1]["coloraxis.colorbar.dtick"] == 1
    assert by_error.args[1]["coloraxis.colorbar.dtick"] is None


def test_convergence_is_that_of_the_run_which_led_to_the_result():
    result = SymNMF(2, random_state=0).fit(karate().adjacency).result_
    figure, words = convergence(result)
    np.testing.assert_array_equal(figure.data[0].y, result.history.stationarity)
    np.testing.assert_array_equal(figure.data[1].y, result.history.objective)
    assert f"{result.n_products} products with the data in all" in words


def test_a_run_of_one_iteration_is_counted_in_whole_ones():
    with pytest.warns(ConvergenceWarning):
        result = SymNMF(2, max_iter=1, tol=1e-12, random_state=0).fit(karate().adjacency).result_
    figure, words = convergence(result)
    assert result.n_iter == 1
    assert "1 iteration and" in words
    assert figure.layout.xaxis.dtick == 1


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
    assert "of the reference" in result._repr_html_()


def test_models_of_the_report_are_those_of_python(square, tmp_path):
    """The command and Python give the same points."""
    from quartic.io import read_distances

    invoke("locate", str(square), "-d", "2", "-o", str(tmp_path / "x.npy"))
    table = read_distances(square)
    with pytest.warns(UserWarning, match="determined"):
        model = DistanceCompletion(2, random_state=0).fit_pairs(table.pairs, **table.columns())
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), model.embedding_)
