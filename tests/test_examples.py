"""Every gallery script runs, and finds what it says it finds. They are small enough to be run as they are."""

import contextlib
import importlib.util
import io
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
pytest.importorskip("matplotlib", reason="the report extra is not installed")


@pytest.fixture(autouse=True)
def figures(monkeypatch, tmp_path):
    """Draw without a window, anywhere but in the source tree; close what other tests left open, and all afterwards."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    yield plt
    plt.close("all")


def run(name):
    """Run a script as the gallery does, and return its names and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        names = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"), run_name="__main__")
    return names, said.getvalue()


def load(name):
    """Import a script that has functions to call with settings of one's own."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_communities(figures):
    names, said = run("communities")
    assert names["share"] > 0.95  # the club: one member in doubt
    assert names["chosen"].best == 3
    assert names["right"].mean() > 0.98
    assert set(np.flatnonzero(names["both"])) >= set(names["in_two"])
    assert "97% of the members" in said
    assert len(figures.get_fignums()) == 2


def test_documents(figures):
    names, said = run("documents")
    assert len(names["documents"]) > 500
    information = names["nmi"](names["labels"], names["model"].labels_)
    assert information > 0.55
    assert information > names["nmi"](names["labels"], names["plain"])
    assert said.count("topic ") == len(names["PARTS"])
    assert len(figures.get_fignums()) == 1


def test_digits(figures):
    names, _ = run("digits")
    assert names["accuracy"] > 0.75
    assert names["model"].result_.success
    assert len(figures.get_fignums()) == 2


def test_protein(figures):
    names, said = run("protein")
    assert names["n"] == 99
    assert names["error"] < 2.0  # Å; helices on the wrong side would be off by 7
    rise = np.linalg.norm(names["atoms"][4] - names["atoms"][1])
    assert rise == pytest.approx(3.8, abs=0.05)  # neighbouring CA of a real protein
    assert "UndeterminedWarning" not in said
    assert "warning: " in said
    assert len(figures.get_fignums()) == 2


def test_sensors(figures):
    names, said = run("sensors")
    assert names["off"].mean() < 0.02
    assert 0.8 < names["inside"].mean() <= 1  # two standard errors: 86 % if they were exact
    assert f"not determined: [{names['lonely']}]" in said
    assert "break the triangle inequality" in said
    assert "serve noisy data better" not in said  # both of that advice are in use
    assert len(figures.get_fignums()) == 2


def test_paper(figures):
    names, _ = run("paper")
    runs, passes = names["runs"], names["passes"]
    assert all(result.success for result in runs.values())
    assert runs["inertial"].n_products < 0.6 * runs["dyn-nolips"].n_products
    assert passes["lm"] < 0.5 * passes["dyn-nolips, Gram kernel"]
    assert len(figures.get_fignums()) == 2


def test_us_cities(tmp_path):
    """On a file of one's own; the cities themselves are not in the repository."""
    path = tmp_path / "points.csv"
    np.savetxt(path, np.random.default_rng(1).uniform(0, 50, (400, 2)), delimiter=",")
    model, error, figure = load("plot_us_cities").run(str(path), share=0.2)
    assert error < 1e-6
    assert figure is not None
    assert model.embedding_.shape == (400, 2)


def test_robust(figures):
    names, _ = run("robust")
    error = names["error"]
    assert error["least squares"] > 0.3
    assert max(error["huber"], error["pseudo-huber"], error["logcosh"]) < 0.05
    assert min(names["by_delta"]) < 0.05
    assert len(figures.get_fignums()) == 1


def test_parts(figures):
    names, _ = run("parts")
    assert names["best"].objective < 1.01 * names["theirs"]
    assert names["hidden"] < 0.9 * names["plain"]
    assert (names["V"] >= 0).all()
    assert len(figures.get_fignums()) == 2


def test_certificate(figures):
    names, said = run("certificate")
    assert not names["too_small"].holds
    assert names["found"].success
    assert names["found"].certificate.gap < 1e-5 * names["found"].objective
    for certificate in names["found"].certificates:
        assert certificate.lower_bound <= names["found"].objective
    assert "rank 2: not optimal" in said


def test_own_loss(figures):
    names, _ = run("own_loss")
    assert names["poisson"].success
    assert names["off"](names["poisson"].X) < 0.5 * names["off"](names["squares"].X)
    assert len(figures.get_fignums()) == 1


def test_own_kernel(figures):
    names, _ = run("own_kernel")
    passes = {key: result.n_products for key, result in names["runs"].items()}
    assert all(result.success for result in names["runs"].values())
    for solver in ("dyn-nolips", "inertial"):
        assert passes[solver, "row-scaled"] < 0.5 * passes[solver, "norm kernel"]


def without(monkeypatch, package):
    """Hide a package."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )


def test_gpu(monkeypatch, figures):
    with monkeypatch.context() as hidden:
        without(hidden, "torch")
        names, said = run("gpu")
    assert names["model"].result_.success
    assert names["of_tensors"] is None
    assert len(figures.get_fignums()) == 1  # without torch too, so that the gallery has a picture
    assert "pip install 'quartic[gpu]'" in said
    if importlib.util.find_spec("torch") is not None:
        model, result = load("plot_gpu").run(2000, 8)
        assert model.result_.success
        assert result.success


def test_cluster(monkeypatch):
    with monkeypatch.context() as hidden:
        without(hidden, "dask")
        names, said = run("cluster")
    assert names["done"] is None
    assert "pip install 'quartic[distributed]'" in said
    if importlib.util.find_spec("distributed") is not None:
        assert load("plot_cluster").run(1000, 4).success


def test_completion():
    errors, figure = load("plot_completion").run(n_samples=600, share=0.2, ranks=(2, 6))
    assert figure is not None
    for found, best in errors.values():
        assert best <= found <= 1.1 * best


def test_sensing():
    error, kept, figure = load("plot_sensing").run(rank=6)
    assert error < 1e-6
    assert 0.9 < kept <= 1 + 1e-9
    assert figure is not None


def test_phase_retrieval():
    error, figure = load("plot_phase_retrieval").run(side=24)
    assert error < 1e-6
    assert figure is not None
    assert 0 < load("plot_phase_retrieval").run(side=24, noise=0.05)[0] < 0.1


def test_sdp_ranges(figures):
    names, _ = run("sdp_ranges")
    assert names["result"].success
    assert names["result"].gap < 1e-5
    assert figures.get_fignums()


def test_sdp_cut(figures):
    names, said = run("sdp_cut")
    assert names["found"].value <= names["found"].bound
    assert names["found"].value / names["found"].bound > 0.95
    assert "no cut has more" in said


def test_sdp_theta(figures):
    names, _ = run("sdp_theta")
    assert np.allclose(names["values"], names["known"], atol=1e-5)


def test_sdp_sensors(figures):
    names, _ = run("sdp_sensors")
    assert names["relaxed"].bound <= names["misfit"](names["placed"]) <= 2 * names["misfit"](names["sensors"])


def test_sdp_completion(figures):
    names, _ = run("sdp_completion")
    assert names["errors"][-1] < 1e-5
    assert names["found"].bound <= names["found"].norm * (1 + 1e-9)


def test_every_script_has_a_test():
    names = {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("*.py")}
    assert names == {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {
        "every_script_has_a_test"
    }
