"""The command line, as a user meets it: most of it in a process of its own."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, load_wine

import quartic
from command import invoke
from quartic.cli import fitting
from quartic.datasets import helix, karate, pair_distances, random_pairs
from quartic.io import read_pdb
from quartic.metrics import clustering_accuracy, normalized_rmse
from strips import strips


def run(*arguments, cwd=None, code=0, given=None):
    done = subprocess.run(
        [sys.executable, "-m", "quartic", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, input=given
    )
    assert done.returncode == code, done.stderr
    return done


def quick(*arguments, code=0, given=None):
    """The same within this process."""
    done = invoke(*arguments, given=given or "")
    assert done.exit_code == code, done.output
    return done


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def club(tmp_path):
    """The karate club as an edge list with names."""
    A = karate().adjacency.tocoo()
    rows = [f"m{i},m{j},1" for i, j in zip(A.row, A.col, strict=True) if i < j]
    path = tmp_path / "club.csv"
    path.write_text("source,target,weight\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def walk(tmp_path):
    """A third of the distances of forty points of a helix."""
    truth = helix(40, random_state=0)
    pairs = random_pairs(40, 0.4, random_state=0)
    distances = pair_distances(truth, pairs)
    path = tmp_path / "walk.csv"
    rows = [f"{i},{j},{d!r}" for (i, j), d in zip(pairs.tolist(), distances.tolist(), strict=True)]
    path.write_text("i,j,d\n" + "\n".join(rows) + "\n")
    return path, truth


# -- what every command has -------------------------------------------------------------------------------------------


def test_version_and_help():
    assert run("--version").stdout == f"quartic {quartic.__version__}\n"
    listed = quick("--help").stdout
    for command in ("cluster", "locate", "demo", "info", "paper", "bench"):
        assert command in listed
        assert f"Example: quartic {command}" in quick(command, "--help").stdout
    for words in (
        "paper table1", "paper figure1", "paper figure2", "bench peers", "bench growth", "bench speed", "bench league",
        "bench page",
    ):  # fmt: skip
        assert f"Example: quartic {words}" in quick(*words.split(), "--help").stdout


def test_help_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['quartic', '--help']\n"
        "from quartic.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = 'numpy', 'numba', 'sklearn', 'pyarrow', 'plotly', 'matplotlib', 'quartic.bench.commands'\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_command_does_not_load_what_scikit_learn_loads_in_advance(club):
    """Nor pyarrow for a short file; all are there for whoever asks, as they would be otherwise."""
    code = (
        "import sys\nfrom quartic.cli import main\n"
        f"main(['cluster', {str(club)!r}, '-k', '2', '-q'])\n"
        "late = 'rich', 'asyncio', 'pandas', 'scipy.stats.', 'plotly', 'numpy.f2py.', 'pyarrow'\n"
        "assert not [name for name in sys.modules if name.startswith(late)]\n"
        "import numpy.testing, numpy.f2py\nfrom importlib.util import find_spec\n"
        "numpy.testing.assert_array_equal([1], [1])\nassert numpy.f2py.get_include()\n"
        "import asyncio.events, joblib.memory\nassert not joblib.memory.asyncio.iscoroutinefunction(len)\n"
        "import scipy.stats\nfrom scipy.stats import rankdata\n"
        "assert scipy.stats.mode([1, 2, 2]).mode == 2 and rankdata([3, 1]).tolist() == [2, 1]\n"
        "if find_spec('pandas'):\n    import pandas\n    assert pandas.DataFrame({'a': [1]}).shape == (1, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_info():
    facts = json.loads(run("info", "--json").stdout)
    assert facts["quartic"] == quartic.__version__
    assert "numba" in quick("info").stdout


USAGE_FAULTS = {
    "an unknown command": ("clustr", "quartic: argument COMMAND: invalid choice: 'clustr' (choose from "),
    "an unknown option": (
        "cluster x.csv -k 2 --nope",
        "quartic cluster: unrecognized arguments: --nope; see",
    ),
    "no input": (
        "cluster -k 2",
        "quartic cluster: the following arguments are required: INPUT; see",
    ),
    "a word for a number": (
        "locate x.csv -d two",
        "quartic locate: argument --dimension/-d: invalid whole number value: 'two'",
    ),
    "an option without its value": (
        "locate x.csv -d",
        "argument --dimension/-d: expected one argument",
    ),
    "too much": ("locate x.csv more", "quartic locate: unrecognized arguments: more"),
    "a seed below zero": ("cluster x.csv -k 2 --seed -3", "argument --seed: -3 is below 0"),
    "a command of a group": ("paper nothing", "quartic paper: argument COMMAND: invalid choice: 'nothing'"),
    "an option of a group's command": ("bench peers --nope", "quartic bench peers: unrecognized arguments: --nope"),
    "a page in no folder": (
        "demo --report nowhere/x.html",
        "quartic demo: --report nowhere/x.html: there is no folder",
    ),
    "a page that is none": ("demo --report x.txt", "must end in one of .html"),
}


@pytest.mark.parametrize("fault", USAGE_FAULTS)
def test_a_fault_in_the_call_is_one_line(fault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, said = USAGE_FAULTS[fault]
    done = invoke(*words.split())
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_fault_in_the_call_in_a_process_of_its_own():
    done = run("nonsense", code=2)
    assert done.stderr.startswith("quartic: argument COMMAND: invalid choice: 'nonsense'")
    done = run(code=2)  # nothing at all: the help
    assert "locate" in done.stdout
    assert done.stderr == ""


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = quick("bench", "page", "-o", tmp_path / "file" / "page.md", "--results", tmp_path, code=2)
    assert done.stderr.count("\n") == 1
    assert "file" in done.stderr


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for content in re.findall(r"```csv\n(.*?)```", text, re.DOTALL):
        (tmp_path / content.split()[1]).write_text(content)
    commands = re.findall(r"```sh\nquartic (.*?)\n```", text)
    monkeypatch.chdir(tmp_path)
    for command in commands:
        quick(*shlex.split(command))
    assert (tmp_path / "clusters.csv").read_text() in text
    clusters = {row["node"]: row["cluster"] for row in rows_of((tmp_path / "clusters.csv").read_text())}
    assert clusters["ann"] == clusters["bob"] == clusters["cid"] != clusters["eve"]
    points = rows_of((tmp_path / "points.csv").read_text())
    assert [point["determined"] for point in points] == ["true"] * 4
    assert (tmp_path / "points.html").stat().st_size > 1e6


# -- demo -------------------------------------------------------------------------------------------------------------


def test_demo_writes_a_page_that_needs_no_network(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert "Figures: quartic-report.html" in done.stdout
    # on the first run of all, one line says why it takes a while
    assert [line for line in done.stderr.splitlines() if "compiling" not in line] == []
    page = (tmp_path / "quartic-report.html").read_text(encoding="utf-8")
    head = page.split("<script>")[0] + page.split("</script>")[-1]
    assert "http" not in head  # nothing is fetched: the plotting library stands inside
    assert page.count("<figure") == 6
    assert page.count("aria-label") >= 7
    assert "Soft memberships" in page


def test_demo_in_json(tmp_path):
    pytest.importorskip("plotly", reason="the report extra is not installed")
    results = json.loads(quick("demo", "--json", "--report", tmp_path / "page.html").stdout)
    assert results["Clusters of a graph (symmetric NMF)"]["accuracy"] > 0.95
    assert results["Points from a tenth of their distances"]["normalized_rmse"] < 1e-6


def test_a_report_by_a_process_of_its_own(tmp_path):
    """What a command loads late, to start soon, must not be in the way of what plotly loads."""
    pytest.importorskip("plotly", reason="the report extra is not installed")
    (tmp_path / "d.csv").write_text("i,j,d\na,b,3\nb,c,4\na,c,5\n")
    run("locate", "d.csv", "-d", 2, "-o", "out.csv", "--report", "page.html", cwd=tmp_path)
    assert "3 points in 2 dimensions" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_demo_without_the_report_extra(tmp_path):
    """Where plotly is missing the results are printed, with one line on how to get the page."""
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'plotly' else find(name, *a)\n"
        "from quartic.cli import main; sys.argv = ['quartic', 'demo']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install 'quartic[report]'" in done.stdout
    assert not list(tmp_path.iterdir())


# -- cluster ----------------------------------------------------------------------------------------------------------


def test_cluster_an_edge_list(club, tmp_path):
    done = run("cluster", club, "-k", 2, "-o", tmp_path / "out.csv")
    assert done.stdout == ""
    assert "graph: 34 nodes, 78 edges" in done.stderr
    assert "\x1b" not in done.stderr  # no bar in a pipe
    rows = rows_of((tmp_path / "out.csv").read_text())
    assert list(rows[0]) == ["node", "cluster", "membership_0", "membership_1"]
    nodes = [int(row["node"][1:]) for row in rows]
    labels = [int(row["cluster"]) for row in rows]
    assert clustering_accuracy(karate().labels[nodes], np.array(labels)) > 0.9
    assert all(abs(float(row["membership_0"]) + float(row["membership_1"]) - 1) < 1e-4 for row in rows)


def test_cluster_warns_of_negative_weights_and_refuses_to_do_without_positive_ones(tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,weight\na,b,2\nb,c,2\nc,d,-1\nd,e,2\ne,f,2\n")
    done = quick("cluster", edges, "-k", 2, "--json", "-q", "-o", tmp_path / "out.csv")
    (warning,) = json.loads(done.stdout)["warnings"]
    assert "1 of 5 edges has a negative weight, the first -1 between c and d" in warning
    assert warning in done.stderr
    labels = [row["cluster"] for row in rows_of((tmp_path / "out.csv").read_text())]
    assert labels[:3] == labels[:1] * 3 != labels[3:] == labels[3:4] * 3
    edges.write_text("source,target,weight\na,b,-2\nb,c,-1\n")
    done = quick("cluster", edges, "-k", 2, "-o", tmp_path / "none.csv", code=2)
    assert "no positive entry, and its least is -2" in done.stderr
    assert not (tmp_path / "none.csv").exists()


def test_distances_given_as_similarities_cause_a_warning(tmp_path):
    X = np.random.default_rng(0).random((12, 2))
    D = np.linalg.norm(X[:, None] - X, axis=2)
    for given, warned in (
        (D, True),
        (1 - D / D.max() - np.diag(np.ones(12)), False),
        (np.exp(-9 * D) * (D > 0), False),
    ):
        np.savetxt(tmp_path / "m.csv", given, delimiter=",")
        done = quick("cluster", tmp_path / "m.csv", "-k", 2, "-o", tmp_path / "out.csv", "--max-iter", 10**5)
        assert ("the weights may be distances" in done.stderr) == warned


def test_without_k_the_number_is_chosen_and_said(club, tmp_path):
    done = quick("cluster", club, "-o", tmp_path / "out.csv", "--report", tmp_path / "r.html")
    said = re.search(
        r"(\d+) clusters: chosen from 2 to 10 by the likelihood of a random graph model \((.*?)\)", done.stderr
    )
    votes = [int(vote) for vote in re.findall(r"\d+", said[2])]
    assert int(said[1]) in votes
    assert len({row["cluster"] for row in rows_of((tmp_path / "out.csv").read_text())}) == int(said[1])
    assert "by the likelihood of a random graph model" in (tmp_path / "r.html").read_text()
    facts = json.loads(quick("cluster", club, "--json").stdout)
    assert list(facts["votes"].values()) == votes
    assert json.loads(quick("cluster", club, "-k", 3, "--json").stdout)["votes"] is None
    few = quick("cluster", "-", given="a,b\nb,c\n")
    assert "2 clusters: so few as 3 have no other number to compare" in few.stderr


def test_separate_components_are_the_reason_where_there_are_more(tmp_path):
    """Six strips of neighbours, between whose eigenvalues the gap after the second is the largest."""
    sp.save_npz(tmp_path / "strips.npz", strips(3)[0])
    said = quick("cluster", tmp_path / "strips.npz", "-o", tmp_path / "out.csv").stderr
    assert "6 clusters: chosen from 2 to 10 by the number of separate components, of which there are more (eig" in said


def test_cluster_with_columns_and_repeats(tmp_path):
    path = tmp_path / "in.csv"
    rows = ["a,b,1,9", "b,c,2,9", "c,a,2,9", "d,e,3,9", "e,f,1,9", "f,d,2,9", "c,d,1,9", "b,a,4,9"]
    path.write_text("who,whom,often,year\n" + "\n".join(rows) + "\n")
    done = quick("cluster", path, "-k", 2, code=2)
    assert "which is the weight: column 'often', column 'year'? say --columns who,whom,often" in done.stderr
    done = quick("cluster", path, "-k", 2, "--columns", "who,whom,often", code=2)
    assert "in.csv:9: the edge between a and b has weight 4, but 1 in line 2" in done.stderr
    assert "--repeats sum, mean or last" in done.stderr
    common = ("--columns", "who,whom,often", "--repeats", "sum", "--report", tmp_path / "r.html")
    done = quick("cluster", path, "-k", 2, *common)
    assert "1 repeated edge: sum" in done.stderr
    labels = {row["node"]: row["cluster"] for row in rows_of(done.stdout)}
    assert labels["a"] == labels["b"] == labels["c"] != labels["d"] == labels["e"] == labels["f"]
    page = (tmp_path / "r.html").read_text()
    assert "repeats=" in page[page.index("table = io.read_graph(") :][:300]
    assert (
        "--repeats: invalid choice: 'most' (choose from "
        in quick("cluster", path, "-k", 2, "--repeats", "most", code=2).stderr
    )


def test_the_similarity_of_features_is_said(tmp_path):
    (tmp_path / "x.csv").write_text("x,y\n" + "\n".join(f"{k % 2 * 9 + k / 50},{k / 40}" for k in range(30)))
    assert "similarity: self_tuning (--affinity chooses)" in quick("cluster", tmp_path / "x.csv", "-k", 2).stderr
    facts = json.loads(quick("cluster", tmp_path / "x.csv", "-k", 2, "--json", "--affinity", "cosine").stdout)
    assert facts["affinity"] == "cosine"
    assert facts["guess"].endswith("similarity: cosine")


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell of POSIX")
def test_closed_streams_are_for_nobody(club, tmp_path):
    command = f"{shlex.quote(sys.executable)} -m quartic cluster {shlex.quote(str(club))} -k 2"
    for closed in (">&-", "2>&-", f">&- 2>{tmp_path / 'said'}"):
        done = subprocess.run(f"{command} {closed}", shell=True, capture_output=True, text=True, check=True)
        assert (done.stdout == "") == closed.startswith(">")
        assert "34 nodes" not in done.stdout
    assert "34 nodes in 2 clusters" in (tmp_path / "said").read_text()
    command = f"{shlex.quote(sys.executable)} -m quartic cluster - -k 2 <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "quartic cluster: stdin: no input; pipe a file into the command, or name a file\n",
    )


def test_empty_clusters_are_said(tmp_path):
    (tmp_path / "in.csv").write_text("ann,bob\nann,cid\nbob,cid\ncid,dan\ndan,eve\ndan,fay\neve,fay\n")
    said = quick("cluster", tmp_path / "in.csv", "-k", 6).stderr
    assert "6 nodes in 6 clusters of 3, 3, 0, 0, 0, 0. " in said
    assert "4 of the clusters are empty: 2 would do." in said
    (tmp_path / "one.csv").write_text("source,target\na,b\n")
    assert "1 of the clusters is empty: 1 would do." in quick("cluster", tmp_path / "one.csv", "-k", 2).stderr
    assert " empty" not in quick("cluster", tmp_path / "in.csv", "-k", 2).stderr


def test_cluster_from_and_to_a_pipe(club):
    done = run("cluster", "-", "-k", 2, given=club.read_text())
    assert len(rows_of(done.stdout)) == 34
    assert "stdin: graph" in done.stderr
    quiet = quick("cluster", "-", "-k", 2, "--quiet", given=club.read_text())
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


def test_whoever_reads_may_stop_reading(club):
    command = f"{sys.executable} -m quartic cluster {club} -k 2 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == "node,cluster,membership_0,membership_1\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["info --json", "cluster --help", "--version", "paper"])
def test_every_command_ends_quietly_where_nobody_reads(words, unbuffered):
    command = f"{sys.executable} -m quartic {words} | true"
    given = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=given)
    assert (done.stdout, done.stderr) == ("", "")


def test_messages_that_nobody_reads_do_not_keep_the_result_from_being_written(club, tmp_path):
    words = f"cluster {club} -k 2 -o {tmp_path}/out.csv"
    command = f"{sys.executable} -m quartic {words} 2>&1 | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert (tmp_path / "out.csv").is_file()


def test_cluster_in_json(club, tmp_path):
    facts = json.loads(quick("cluster", club, "-k", 2, "--json").stdout)
    assert (facts["read_as"], facts["n_nodes"], sum(facts["sizes"])) == ("graph", 34, 34)
    assert facts["converged"] is True
    assert {"node", "cluster", "memberships"} == set(facts["nodes"][0])
    facts = json.loads(quick("cluster", club, "-k", 2, "--json", "-o", tmp_path / "out.npz").stdout)
    assert "nodes" not in facts
    with np.load(tmp_path / "out.npz", allow_pickle=False) as stored:
        assert stored["membership"].shape == (34, 2)
        assert stored["node"][0] == "m0"


def test_cluster_features(tmp_path):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (20, 3)), rng.normal(9, 1, (20, 3))])
    (tmp_path / "x.csv").write_text("a;b;c\n" + "\n".join(";".join(map(str, row)) for row in X.tolist()))
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(np.abs(X)))
    done = quick("cluster", tmp_path / "x.csv", "-k", 2, "-o", tmp_path / "out.npy", "--seed", 1)
    assert "features: 40 rows, 3 columns of numbers" in done.stderr
    labels = np.load(tmp_path / "out.npy")
    assert clustering_accuracy(np.repeat([0, 1], 20), labels) == 1.0
    quick(
        "cluster", tmp_path / "x.npz", "-k", 2, "-o", tmp_path / "out.npy", "--neighbors", "all", "--affinity", "cosine"
    )


def test_a_run_that_does_not_converge_is_exit_code_1_and_written(club, tmp_path):
    done = quick("cluster", club, "-k", 2, "-o", tmp_path / "out.csv", "--max-iter", 1, "--tol", 1e-12, code=1)
    assert "did not converge" in done.stderr
    assert len(rows_of((tmp_path / "out.csv").read_text())) == 34


# -- locate -----------------------------------------------------------------------------------------------------------


def test_locate_a_list(walk, tmp_path):
    path, truth = walk
    done = run("locate", path, "-d", 3, "-o", tmp_path / "out.csv")
    assert done.stdout == ""
    rows = rows_of((tmp_path / "out.csv").read_text())
    assert list(rows[0]) == ["point", "x", "y", "z", "determined"]
    assert [row["point"] for row in rows] == [str(k) for k in range(40)]
    assert all(row["determined"] == "true" for row in rows)
    X = np.array([[float(row[axis]) for axis in "xyz"] for row in rows])
    assert normalized_rmse(X, truth) < 1e-6


def test_locate_writes_what_it_is_asked_for(walk, tmp_path):
    path, truth = walk
    for suffix in (".npy", ".xyz", ".pdb", ".tsv"):
        quick("locate", path, "-d", 3, "-o", tmp_path / f"out{suffix}")
    assert normalized_rmse(np.load(tmp_path / "out.npy"), truth) < 1e-6
    atoms = np.loadtxt(tmp_path / "out.xyz", skiprows=2, usecols=(1, 2, 3))
    np.testing.assert_array_equal(atoms, np.load(tmp_path / "out.npy"))
    assert len(read_pdb(tmp_path / "out.pdb")) == 40
    assert (tmp_path / "out.tsv").read_text().startswith("point\tx\ty\tz\tdetermined\n")


def test_locate_keeps_the_names_of_atoms_that_its_input_has(tmp_path):
    """From MD-jeep's columns, and from names of points that tell residue and atom."""
    truth = helix(8, random_state=1)
    pairs = [(i, j) for i in range(8) for j in range(i)]
    atoms = [("N", "ALA", 1), ("CA", "ALA", 1), ("C", "ALA", 1), ("O", "ALA", 1)]
    atoms += [(name, "GLY", 2) for name, _, _ in atoms]
    nmr, rows = [], ["i,j,d"]
    for i, j in pairs:
        d = float(np.linalg.norm(truth[i] - truth[j]))
        (a, r, k), (b, s, m) = atoms[i], atoms[j]
        nmr.append(f"{i + 1} {j + 1} {k} {m} {d!r} {d!r} {a} {b} {r} {s}")
        rows.append(f"B:{r}{k}:{a},B:{s}{m}:{b},{d!r}")
    (tmp_path / "a.nmr").write_text("\n".join(nmr) + "\n")
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    for given, wanted in (("a.nmr", "o.pdb"), ("a.csv", "o.pdb"), ("a.nmr", "o.cif"), ("a.csv", "o.cif")):
        quick("locate", tmp_path / given, "-d", 3, "-o", tmp_path / wanted)
        found = read_pdb(tmp_path / wanted)
        told = dict(zip(zip(found.names, found.residues, found.residue_ids, strict=True), found.chains, strict=True))
        assert set(told) == set(atoms)
        assert set(told.values()) == {"B" if given == "a.csv" else "A"}


def test_max_time_is_told_as_it_was_given(walk, tmp_path):
    path, _ = walk
    done = quick("locate", path, "-d", 2, "--max-time", 1e-4, "-o", tmp_path / "o.csv", "--json", code=1)
    assert "stopped at --max-time 0.0001 s, with" in done.stderr
    assert "--max-time 0.0001 s" in json.loads(done.stdout)["message"]
    model = quartic.DistanceCompletion(2, max_time=1e-4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # distances that no points have: three points would be done within the millisecond that every run is given
        pairs = np.argwhere(np.triu(np.ones((150, 150)), 1))
        model.fit_pairs(pairs, np.random.default_rng(0).uniform(1, 9, len(pairs)))
    assert model.result_.message.startswith("stopped at max_time, with")  # no number that was not given


def test_locate_takes_any_names_of_columns_and_blanks():
    text = (
        "Punkt A;Punkt B;Abstand (m)\nTür;Tisch;3\nTisch;Lampe;4\nTür;Lampe;5\nLampe;Sofa;3\nSofa;Tür;4\nSofa;Tisch;\n"
    )
    done = quick("locate", "-", "-d", 2, given=text)
    assert "1 row without a distance left out" in done.stderr
    assert [row["point"] for row in rows_of(done.stdout)] == ["Tür", "Tisch", "Lampe", "Sofa"]
    repeated = "i,j,d\na,b,1\nb,c,1\na,c,1\nb,a,1.2\n"
    assert "--repeats mean or last" in quick("locate", "-", "-d", 2, given=repeated, code=2).stderr
    facts = json.loads(quick("locate", "-", "-d", 2, "--repeats", "mean", "--json", given=repeated).stdout)
    assert facts["n_pairs"] == 3
    assert "1 repeated pair: mean" in facts["guess"]


def test_locate_says_what_too_few_anchors_leave_open(tmp_path):
    pairs, known = "i,j,d\na,b,3\nb,c,4\na,c,5\n", tmp_path / "known.csv"
    known.write_text("point,x,y\na,0,0\nb,3,0\n")  # c is at (3, 4) or (3, −4)
    words = "2 anchors do not fix the whole in space (3 in general position do): it may still be turned or reflected."
    assert words in quick("locate", "-", "-d", 2, "--anchors", known, given=pairs).stderr
    assert "anchor" not in quick("locate", "-", "-d", 2, given=pairs).stderr


@pytest.mark.parametrize("kind", ["pdb", "cif"])
@pytest.mark.parametrize("called", ["{}", "Insel {}", "ALA{}:CA"])
def test_locate_aligns_to_atoms_it_wrote(tmp_path, kind, called):
    X = np.random.default_rng(0).normal(size=(6, 3))
    name = [called.format(k) for k in range(1, 7)]
    pairs = [f"{name[i]},{name[j]},{np.linalg.norm(X[i] - X[j])}" for i in range(6) for j in range(i)]
    (tmp_path / "in.csv").write_text("i,j,d\n" + "\n".join(pairs))
    quick("locate", tmp_path / "in.csv", "-o", tmp_path / f"m.{kind}")
    again = ("locate", tmp_path / "in.csv", "--align", tmp_path / f"m.{kind}", "--seed", 3)
    quick(*again, "-o", tmp_path / f"n.{kind}")
    first, second = (quartic.io.read_anchors(tmp_path / f"{file}.{kind}", sorted(name), 3) for file in "mn")
    np.testing.assert_allclose(list(first.values()), list(second.values()), atol=2e-3)  # PDB has three decimals
    (tmp_path / "few.csv").write_text("i,j,d\n" + "\n".join(pairs[:6]))
    fault = quick("locate", tmp_path / "few.csv", "-d", 2, *again[2:], code=2).stderr
    assert f"m.{kind}: 6 atoms for 4 points; atoms are taken in the order of the points" in fault


def test_locate_with_anchors_noise_and_names(tmp_path):
    places = {"north": (0.0, 1.0), "east": (1.0, 0.0), "south": (0.0, -1.0), "here": (0.2, 0.1)}
    names = list(places)
    rows = [
        f"{a}\t{b}\t{np.hypot(places[a][0] - places[b][0], places[a][1] - places[b][1])}"
        for k, a in enumerate(names)
        for b in names[k + 1 :]
    ]
    (tmp_path / "d.tsv").write_text("from\tto\tdistance\n" + "\n".join(rows))
    known = tmp_path / "known.csv"
    known.write_text("point,x,y\n" + "".join(f"{n},{places[n][0]},{places[n][1]}\n" for n in names[:3]))
    found = rows_of(quick("locate", tmp_path / "d.tsv", "-d", 2, "--anchors", known, "--noise", 0.1).stdout)
    here = next(row for row in found if row["point"] == "here")
    assert (float(here["x"]), float(here["y"])) == pytest.approx((0.2, 0.1), abs=1e-6)
    assert float(here["standard_error"]) > 0
    told = json.loads(quick("locate", tmp_path / "d.tsv", "-d", 2, "--anchors", known, "--noise", 0.1, "--json").stdout)
    assert [f"{point['standard_error']!r}" for point in told["points"]] == [row["standard_error"] for row in found]
    # what was written can be used again
    (tmp_path / "again.csv").write_text(quick("locate", tmp_path / "d.tsv", "-d", 2, "--anchors", known).stdout)
    turned = rows_of(quick("locate", tmp_path / "d.tsv", "-d", 2, "--align", tmp_path / "again.csv").stdout)
    assert float(turned[3]["x"]) == pytest.approx(0.2, abs=1e-6)


def test_locate_warns_of_points_by_their_names(tmp_path):
    square = "door,desk,3\ndoor,lamp,5\ndoor,sofa,4\ndesk,lamp,4\ndesk,sofa,5\nlamp,sofa,3\n"
    done = quick("locate", "-", "-d", 2, given=f"i,j,d\n{square}sofa,cat,1\n")
    assert "1 point has fewer than 3 distances: point cat." in done.stderr
    assert "counted from 0" not in done.stderr


def test_locate_bounds_from_a_pipe_in_json():
    text = "i,j,lower,upper\n0,1,1,1\n1,2,1,1\n0,2,1.2,1.6\n"
    facts = json.loads(quick("locate", "-", "-d", 2, "--json", given=text).stdout)
    points = np.array([[point["x"], point["y"]] for point in facts["points"]])
    assert 1.2 - 1e-6 <= np.linalg.norm(points[0] - points[2]) <= 1.6 + 1e-6
    assert facts["warnings"]  # bounds determine nothing, and that is said


def test_warnings_of_locate_name_points_as_the_file_does(tmp_path):
    places = {"ann": (0, 0), "bob": (1, 0), "cid": (0, 1), "dee": (1, 1.2), "eve": (2, 2), "n_init": (3, 1)}
    names = list(places)
    wrong = {("ann", "bob"): 9.0}
    rows = [
        f"{a},{b},{wrong.get((a, b), np.hypot(places[a][0] - places[b][0], places[a][1] - places[b][1]))}"
        for k, a in enumerate(names)
        for b in names[k + 1 :]
        if b not in ("eve", "n_init") or a == "dee"
    ]
    (tmp_path / "d.csv").write_text("i,j,d\n" + "\n".join(rows) + "\n")
    said = quick("locate", tmp_path / "d.csv", "-d", 2, "--json", "-o", tmp_path / "p.csv")
    facts = json.loads(said.stdout)
    text = " ".join(facts["warnings"])
    assert re.search(r"2 points have fewer than 3 distances: points eve, n_init\.", text)
    assert re.search(r"triangle inequality, \(ann, bob, (cid|dee)\) the most", text)
    assert "--weights noise" in text
    assert "counted from 0" not in text
    # numbers stay numbers where the file has no names
    (tmp_path / "n.csv").write_text("0,1,1\n1,2,1\n0,2,1\n2,3,1\n")
    text = " ".join(json.loads(quick("locate", tmp_path / "n.csv", "-d", 2, "--json").stdout)["warnings"])
    assert "fewer than 3 distances: point 3." in text


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def _signalled(monkeypatch, number, at):
    """Send this process a signal when an iteration is reached."""
    see = fitting.Watcher.__call__

    def call(self, progress):
        if self.seen == at:
            os.kill(os.getpid(), number)
        see(self, progress)

    monkeypatch.setattr(fitting.Watcher, "__call__", call)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_the_best_so_far(club, tmp_path, monkeypatch, number):
    _signalled(monkeypatch, number, 3)
    before = signal.getsignal(number)
    common = ("-k", 2, "-o", tmp_path / "out.csv", "--solver", "nolips", "--tol", 0, "--n-init", 4, "--json")
    done = quick("cluster", club, *common, code=1)
    assert "interrupted: the best result so far is written to" in done.stderr
    assert len(rows_of((tmp_path / "out.csv").read_text())) == 34
    facts = json.loads(done.stdout)
    assert (facts["interrupted"], facts["status"]) == (True, "interrupted")
    assert signal.getsignal(number) is before


def test_a_signal_ends_a_search_of_many_runs(walk, tmp_path, monkeypatch):
    path, _ = walk
    _signalled(monkeypatch, signal.SIGINT, 2)
    done = quick("locate", path, "-d", 2, "-o", tmp_path / "out.csv", code=1)
    assert "interrupted" in done.stderr
    assert len(rows_of((tmp_path / "out.csv").read_text())) == 40


def test_a_search_told_to_stop_makes_no_further_run(walk, tmp_path, monkeypatch):
    """In the plane the helix has no fit: without a signal the search goes on through every way out there is."""
    path, _ = walk
    whole = json.loads(quick("locate", path, "-d", 2, "--json", "-o", tmp_path / "out.csv").stdout)
    _signalled(monkeypatch, signal.SIGINT, 30)
    done = quick("locate", path, "-d", 2, "--json", "-o", tmp_path / "out.csv", code=1)
    facts = json.loads(done.stdout)
    assert (facts["interrupted"], facts["status"]) == (True, "interrupted")
    assert facts["n_iter"] <= 31 < whole["n_iter"] / 3
    assert "interrupted: the best result so far is written to" in done.stderr
    assert "did not converge" not in done.stderr


def test_a_signal_between_runs_is_seen_too(walk, tmp_path, monkeypatch):
    path, _ = walk
    from quartic.distance import moves

    def told(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr("quartic.distance.search.approach", told)
    assert moves.approach is not told
    done = quick("locate", path, "-d", 2, "-o", tmp_path / "out.csv", code=1)
    assert "interrupted: the best result so far is written to" in done.stderr
    assert len(rows_of((tmp_path / "out.csv").read_text())) == 40


def test_a_second_signal_ends_at_once(club, tmp_path, monkeypatch):
    see = fitting.Watcher.__call__

    def call(self, progress):
        if self.seen == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        see(self, progress)

    monkeypatch.setattr(fitting.Watcher, "__call__", call)
    done = quick("cluster", club, "-k", 2, "-o", tmp_path / "out.csv", "--tol", 0, "--solver", "nolips", code=1)
    assert "nothing is written" in done.stderr
    assert not (tmp_path / "out.csv").exists()


# -- faults -----------------------------------------------------------------------------------------------------------

LETTER = "Dear reader,\nthis is a letter.\nIt has, alas, no table in it,\nand will never have one, not even now.\n"
CLUSTER_FAULTS = {
    "missing file": (None, ("-k", 2), "no such file"),
    "empty file": ("", ("-k", 2), "the file is empty"),
    "a file of text": (LETTER, ("-k", 2), "not a table of data"),
    "a graph with NaN": ("a,b,1\nb,c,nan\n", ("-k", 2), "in.csv:2: there is no number in column 3"),
    "k larger than n": ("a,b,1\nb,c,2\n", ("-k", 9), "more clusters than the 3 nodes"),
    "k of zero": ("a,b,1\nb,c,2\n", ("-k", 0), "-k: 0 is below 1"),
    "ambiguous": ("5,3,1.2\n4,2,2.2\n5,3,1.1\n6,6,1\n", ("-k", 2), "say --as graph or --as features"),
    "unknown solver": ("a,b,1\nb,c,2\n", ("-k", 2, "--solver", "magic"), "choose auto or one of"),
    "no time": ("a,b,1\nb,c,2\n", ("-k", 2, "--max-time", 0), "--max-time: 0 is not above 0"),
    "neighbours": ("x,y\n1,2\n3,4\n5,7\n", ("-k", 2, "--neighbors", "few"), "whole number, auto or all"),
    "contradiction": ("a,b,1\nb,c,2\n", ("-k", 2, "--as", "graph", "--affinity", "cosine"), "contradict"),
    "distances": ("i,j,d\n0,1,1\n1,2,2\n", ("-k", 2), "in.csv:1: column 'd' seems to hold distances"),
    "a header nobody knows": (
        "who,whom\n" + "".join(f"p{a},p{b}\n" for a in range(5) for b in range(a)),
        ("-k", 2),
        "in.csv:1: 'who' and 'whom' are in no other row: names of columns, or an edge?",
    ),
    "repeats of features": ("a;x;y\nb;1,5;2\nc;3,5;1\n", ("-k", 2, "--repeats", "sum"), "--repeats is for graphs"),
    "no such feature": ("a;x;y\nb;1,5;2\nc;3,5;1\n", ("-k", 2, "--as", "features", "--columns", "z"), "no column 'z'"),
    "unknown kind": ("a,b,1\nb,c,2\n", ("-k", 2, "--as", "poem"), "--as: invalid choice: 'poem' (choose from "),
}
LOCATE_FAULTS = {
    "missing file": (None, (), "no such file"),
    "negative distance": ("i,j,d\n0,1,1\n1,2,-2\n", (), "in.csv:3: -2 in column 'd' is negative"),
    "which column": ("a1,b1,foo,bar\n0,1,1,2.5\n", (), "in.csv:1: unknown column 'foo', 'bar'; expected i,j,d"),
    "two that disagree": (
        "i,j,d\n0,1,1\n1,2,2\n1,0,3\n",
        (),
        "in.csv:4: the distance of 1 and 0 is 3, but 1 in",
    ),
    "one column": ("d\n1\n2\n", (), "only one column"),
    "not whole": ("i,j,d\n0,1.5,1\n", (), "in.csv:2: 1.5 in column 'j' is no point"),
    "text": (LETTER, (), "only one column"),
    "too many dimensions": ("i,j,d\n0,1,1\n", ("-d", 3), "choose a smaller -d"),
    "missing anchors": ("i,j,d\n0,1,1\n1,2,1\n", ("-d", 2, "--anchors", "nowhere.csv"), "nowhere.csv: no such file"),
    "a word of weights": (
        "i,j,d\n0,1,1\n1,2,1\n",
        ("-d", 2, "--weights", "heavy"),
        "--weights: invalid choice: 'heavy' (choose from ",
    ),
    "negative noise": ("i,j,d\n0,1,1\n1,2,1\n", ("-d", 2, "--noise", -1), "--noise"),
}


@pytest.mark.parametrize(
    ("command", "fault"), [("cluster", name) for name in CLUSTER_FAULTS] + [("locate", name) for name in LOCATE_FAULTS]
)
def test_faulty_input_is_one_line_and_nothing_written(tmp_path, command, fault):
    text, options, words = (CLUSTER_FAULTS if command == "cluster" else LOCATE_FAULTS)[fault]
    path = tmp_path / "in.csv"
    if text is not None:
        path.write_text(text)
    before = sorted(tmp_path.iterdir())
    done = quick(command, path, "-o", tmp_path / "out.csv", "--report", tmp_path / "r.html", *options, code=2)
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("output", "words"),
    [("out.doc", "must end in one of"), ("nowhere/out.csv", "there is no folder"), ("folder.csv", "this is a folder")],
)
def test_where_a_result_cannot_go_is_said_before_the_work(club, tmp_path, output, words):
    (tmp_path / "folder.csv").mkdir()
    done = quick("cluster", club, "-k", 2, "-o", tmp_path / output, code=2)
    assert words in done.stderr
    assert "graph" not in done.stderr


def test_a_fault_in_a_process_of_its_own(tmp_path):
    (tmp_path / "in.csv").write_text("i,j,d\n0,1,1\n1,2,x\n0,2,1\n")
    done = run("locate", tmp_path / "in.csv", "-d", 2, code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("i,j,d\n0,1,\x1b[31mred\n0,2,1\n1,2,1\n")
    assert "\x1b" not in quick("locate", path, "-d", 2, code=2).stderr


# -- features in different units, and graphs as they are to be normalised ---------------------------------------------


@pytest.fixture
def people(tmp_path):
    """Three groups that lie apart in centimetres, in money and in shares, as a spreadsheet writes them."""
    rng = np.random.default_rng(0)
    centres = np.array([[170, 2000, 0.1], [185, 90_000, 0.9], [150, 50_000, 0.5]])
    rows = [centres[k % 3] + rng.standard_normal(3) * [2, 1500, 0.03] for k in range(60)]
    text = "".join(f"Müller {k};{x[0]:.1f};{x[1]:.2f};{x[2]:.3f}\r\n".replace(".", ",") for k, x in enumerate(rows))
    path = tmp_path / "people.csv"
    path.write_bytes(("Name;Größe (cm);Gehalt (€);Anteil\r\n" + text).encode("cp1252"))
    return path


def test_groups_in_different_units_are_found_without_their_number(people, tmp_path):
    done = quick("cluster", people, "--json", "-o", tmp_path / "out.csv")
    facts = json.loads(done.stdout)
    assert (facts["n_clusters"], facts["sizes"], facts["scaled"]) == (3, [20, 20, 20], True)
    assert "columns scaled to variance 1, since their ranges differ up to " in done.stderr
    assert "3 clusters: the graph of nearest neighbours has 3 separate components" in done.stderr
    kept = quick("cluster", people, "--scale", "none", "-k", 3, "--json", "-o", tmp_path / "out.csv")
    assert not json.loads(kept.stdout)["scaled"]
    assert "scaled" not in kept.stderr
    assert "; columns kept as they are" in kept.stderr


def _visitors():
    """Money and a count: two groups that differ in the count alone."""
    rng = np.random.default_rng(0)
    money = np.exp(rng.normal(5.5, 1.3, 200)).round(2)
    return np.c_[money, rng.normal([3, 20], 1.5, (100, 2)).ravel().astype(int)], np.arange(200) % 2


def _rare_marks():
    """Marks for yes and no, one of them for a single row of two thousand, so that its standard deviation is small."""
    y = np.arange(2000) % 2
    return np.c_[y == 0, y == 1, np.arange(2000) == 7, (np.arange(2000) // 2) % 2].astype(float), y


@pytest.mark.parametrize(
    ("table", "said", "right"),
    [
        (_visitors, "columns scaled to variance 1, since their ranges differ up to 130 times", 0.98),
        (_rare_marks, "columns kept as they are: their ranges differ up to 1 times (--scale standard", 0.0),
        (load_wine, "columns scaled to variance 1, since their ranges differ up to 2,600 times", 0.97),
        (load_iris, "columns kept as they are: their ranges differ up to 2.5 times (--scale standard", 0.9),
        (load_digits, "columns kept as they are: their ranges differ up to 16 times (--scale standard", 0.8),
    ],
)
def test_columns_are_scaled_where_their_ranges_tell_other_units(table, said, right, tmp_path):
    X, y = table() if table in (_visitors, _rare_marks) else table(return_X_y=True)
    np.savetxt(tmp_path / "in.csv", X, "%g", ",", header=",".join(f"x{k}" for k in range(X.shape[1])), comments="")
    given = ("--as", "features", "-k", len(np.unique(y)), "-o", tmp_path / "out.npy")
    assert said in quick("cluster", tmp_path / "in.csv", *given).stderr
    assert clustering_accuracy(y, np.load(tmp_path / "out.npy")) >= right


def test_code_of_scaled_features_runs(people, tmp_path, monkeypatch, capsys):
    pytest.importorskip("plotly")
    monkeypatch.chdir(tmp_path)
    quick("cluster", people.name, "-k", 3, "-o", "out.csv", "--report", "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    code = unescape(page.rpartition("<h3>The same in Python</h3><pre>")[2].partition("</pre>")[0])
    exec(compile(code, "page", "exec"), {})
    rows = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert capsys.readouterr().out.splitlines() == [" ".join(row.split(",")[:2]) for row in rows]


@pytest.mark.parametrize("kind", ["none", "symmetric", "regularized", "walks"])
def test_a_graph_is_normalised_as_asked(club, kind, tmp_path):
    done = quick("cluster", club, "-k", 2, "--normalize", kind, "--json", "-o", tmp_path / "out.csv")
    assert json.loads(done.stdout)["normalized"] == (None if kind == "none" else kind)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("{club} --normalize most", "--normalize: invalid choice: 'most' (choose from "),
        ("{club} --scale most", "--scale: invalid choice: 'most' (choose from "),
        ("{club} --scale standard", "--scale standard is for features"),
        ("{people} --normalize walks", "--normalize is for graphs"),
    ],
)
def test_options_of_the_other_kind_of_input_are_refused(club, people, words, said):
    done = quick("cluster", *words.format(club=club, people=people).split(), "-k", 2, code=2)
    assert said in done.stderr
