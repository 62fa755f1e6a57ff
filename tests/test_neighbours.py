"""Directed and bipartite graphs, networkx users, AnnData objects, terms of documents."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

import quartic.nx
from quartic import SymNMF
from quartic.clustering.roles import RoleNMF, cluster_both_sides
from quartic.clustering.terms import top_terms
from quartic.datasets import block_model
from quartic.graphs import similarity
from quartic.metrics import clustering_accuracy

ROOT = Path(__file__).resolve().parent.parent


def directed(seed, n=500):
    """Five roles, each of which sends to the next and to some others; symmetrised, several look alike."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    sends = rng.random((5, 5)) < 0.4
    sends[np.arange(5), (np.arange(5) + 1) % 5] = True
    A = rng.random((n, n)) < np.where(sends, 0.15, 0.02)[labels][:, labels]
    return sp.csr_array(A.astype(float)), labels, sends


@pytest.mark.parametrize("seed", [0, 1, 3])  # of 2, two roles differ in one entry of S alone
def test_five_roles(seed):
    A, labels, sends = directed(seed)
    model = RoleNMF(5, random_state=0).fit(A)
    assert clustering_accuracy(labels, model.labels_) >= 0.99
    order = [np.bincount(labels[model.labels_ == k]).argmax() for k in range(5)]
    strong = model.roles_ > 0.5 * np.median(model.roles_[sends[np.ix_(order, order)]])
    np.testing.assert_array_equal(strong, sends[np.ix_(order, order)])


@parametrize_with_checks([RoleNMF()])
def test_scikit_learn_checks_of_roles(estimator, check):
    check(estimator)


def test_the_objective_of_roles_falls_and_is_what_it_says():
    A, _, _ = directed(0, 120)
    few, many = (RoleNMF(5, max_iter=k, tol=0, random_state=0).fit(A) for k in (3, 60))
    assert many.objective_ < few.objective_
    out, into = A.sum(axis=1), A.sum(axis=0)
    M = A.toarray() / np.sqrt(np.outer(out + out.mean(), into + into.mean()))
    fitted = many.embedding_ @ many.roles_ @ many.embedding_.T
    assert many.objective_ == pytest.approx(0.5 * np.linalg.norm(M - fitted) ** 2, rel=1e-9)
    for bad, words in ((np.ones((2, 3)), "square"), (-np.eye(3), "at least 0"), (np.zeros((3, 3)), "no edges")):
        with pytest.raises(ValueError, match=words):
            RoleNMF(2).fit(bad)


def test_networkx_users_get_sets_of_their_nodes():
    A, labels = block_model([60, 80, 100], 0.25, 0.02, random_state=0)
    G = nx.relabel_nodes(nx.from_scipy_sparse_array(A), lambda node: f"n{node}")
    found = quartic.nx.communities(G, 3, random_state=0)
    assert nx.community.is_partition(G, found)
    assert [len(c) for c in found] == sorted((len(c) for c in found), reverse=True)
    assert [{int(labels[int(node[1:])]) for node in c} for c in found] == [{2}, {1}, {0}]
    assert len(quartic.nx.communities(G, random_state=0)) == 3
    overlapping = quartic.nx.overlapping_communities(G, 3, random_state=0)
    assert len(overlapping) == 3
    assert set().union(*overlapping) <= set(G)
    A, labels, _ = directed(1)
    roles = quartic.nx.roles(nx.from_scipy_sparse_array(A, create_using=nx.DiGraph), 5, random_state=0)
    assert sum(max(np.bincount(labels[list(role)])) for role in roles) >= 0.99 * len(labels)


def test_columns_of_a_frame_are_those_of_the_names():
    pandas = pytest.importorskip("pandas")
    A = np.kron([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.ones((5, 5)))  # a chain of three groups
    names = [f"n{i}" for i in range(15)]
    frame = pandas.DataFrame(A, names, names)[names[::-1]]
    np.testing.assert_array_equal(
        RoleNMF(3, random_state=0).fit(frame).embedding_, RoleNMF(3, random_state=0).fit(A).embedding_
    )


def test_both_sides_of_a_bipartite_graph():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(3, size=150), rng.integers(3, size=120)
    B = (rng.random((150, 120)) < np.where(rows[:, None] == columns, 0.2, 0.02)).astype(float)
    found = cluster_both_sides(B, 3, random_state=0)
    both = np.concatenate([found.row_labels, found.column_labels])
    assert clustering_accuracy(np.concatenate([rows, columns]), both) > 0.97
    G = nx.bipartite.from_biadjacency_matrix(sp.csr_array(B))
    sets = quartic.nx.bipartite_communities(G, range(150), 3, random_state=0)
    assert nx.community.is_partition(G, sets)
    truth = np.concatenate([rows, columns])
    assert sum(max(np.bincount(truth[list(one)])) for one in sets) > 0.97 * 270


def test_annotated_data_by_their_shape():
    F = np.random.default_rng(0).standard_normal((90, 4)) + 6 * np.eye(3, 4)[np.arange(90) % 3]
    graph = similarity(F, "self_tuning", normalize=False)
    names = [f"cell{k}" for k in range(90)]
    data = SimpleNamespace(X=F + 0.0, obs_names=names, obsp={"connectivities": graph}, obsm={"X_pca": F})
    model = SymNMF(3, random_state=0).fit(data)
    np.testing.assert_array_equal(model.labels_, SymNMF(3, random_state=0).fit(graph).labels_)
    assert list(model.node_names_) == names
    made = SymNMF(3, affinity="self_tuning", random_state=0).fit(data)
    np.testing.assert_array_equal(made.labels_, SymNMF(3, affinity="self_tuning", random_state=0).fit(F).labels_)
    np.testing.assert_array_equal(made.predict(data), made.predict(F))
    data.obsp = {}
    with pytest.raises(ValueError, match=r"scanpy\.pp\.neighbors"):
        SymNMF(3).fit(data)


def test_top_terms():
    counts = sp.csr_array([[5, 0, 1, 1], [4, 1, 1, 0], [0, 6, 1, 0], [1, 5, 1, 0]])
    assert top_terms(counts, [0, 0, 1, 1], ["a", "b", "c", "d"], 2) == [["a", "d"], ["b"]]
    with pytest.raises(ValueError, match="labels by terms"):
        top_terms(counts, [0, 0, 1, 1], ["a", "b"])


def test_networkx_backend():
    """As networkx calls it, once the package's entry point is installed."""
    from quartic.nx import backend, communities

    G = nx.karate_club_graph()
    assert backend.can_run("asyn_fluidc", (G, 2), {}) is True
    assert "undirected" in backend.can_run("asyn_fluidc", (nx.DiGraph(G), 2), {})
    assert "resolution" in backend.can_run("louvain_communities", (G,), {"resolution": 2})
    H = backend.convert_from_nx(G, name="asyn_fluidc")
    assert H.__networkx_backend__ == "quartic"
    assert H._adj is G._adj
    found = list(backend.asyn_fluidc(H, 2, seed=0))
    plain = nx.Graph(G.edges)
    assert sorted(map(sorted, found)) == sorted(map(sorted, communities(plain, 2, random_state=0)))
    assert backend.convert_to_nx(found) is found
    for weight in ("weight", None):
        parts = backend.louvain_communities(H, weight, seed=0)
        assert sorted(node for part in parts for node in part) == list(range(34))


def test_networkx_finds_the_backend_of_an_installed_package(tmp_path):
    """A process of its own, which sees the entry point as `pyproject.toml` declares it, and every warning an error."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    dist = tmp_path / "quartic-0.dist-info"  # before an installed one of that name
    dist.mkdir()
    (dist / "METADATA").write_text("Name: quartic\nVersion: 0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in found.items()) for group, found in declared.items()]
    (dist / "entry_points.txt").write_text("\n".join(lines))
    program = """
import warnings
import networkx as nx
warnings.simplefilter("error")
G = nx.karate_club_graph()
parts = nx.community.louvain_communities(G, backend="quartic", seed=0)
assert sorted(node for part in parts for node in part) == list(range(34))
two = sorted(map(len, nx.community.asyn_fluidc(nx.barbell_graph(5, 0), 2, backend="quartic", seed=0)))
assert two == [5, 5], two
if hasattr(nx, "config") and hasattr(nx.config, "backend_priority"):
    with nx.config(backend_priority=["quartic"]):
        H = nx.karate_club_graph()
        assert nx.community.louvain_communities(H, seed=0) == parts
        assert nx.community.louvain_communities(nx.karate_club_graph(), seed=0, resolution=3) != parts  # networkx's own
"""
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
