"""Every gallery script runs, at a small size, and finds what it says it finds."""

import importlib.util
from pathlib import Path

import numpy as np

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


def test_every_script_has_a_test():
    names = {path.stem.removeprefix("plot_") for path in EXAMPLES.glob("*.py")}
    assert names == {name.removeprefix("test_") for name in globals() if name.startswith("test_")} - {
        "every_script_has_a_test"
    }
