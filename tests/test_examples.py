"""Every gallery script runs, at a small size, and finds what it says it finds."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_us_cities(tmp_path):
    """On a file of one's own; the cities themselves are not in the repository."""
    path = tmp_path / "points.csv"
    np.savetxt(path, np.random.default_rng(1).uniform(0, 50, (400, 2)), delimiter=",")
    model, error, figure = load("plot_us_cities").run(str(path), share=0.2)
    assert error < 1e-6
    assert figure is not None
    assert model.embedding_.shape == (400, 2)


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


def test_maxcut():
    """The torus with even sides is bipartite; Petersen's graph has a largest cut of 12, its relaxation 12½."""
    grid, petersen, figure = load("plot_maxcut").run(side=8)
    assert grid.size == 128
    assert grid.bound == pytest.approx(128, rel=1e-3)
    assert petersen.size == 12
    assert petersen.relaxation == pytest.approx(12.5, rel=1e-4)
    assert petersen.relaxation <= 12.5 + 1e-9 <= petersen.bound + 2e-9
    assert petersen.bound == pytest.approx(12.5, rel=1e-3)
    assert figure is not None


def test_every_script_has_a_test():
    names = {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("*.py")}
    assert names == {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {
        "every_script_has_a_test"
    }
