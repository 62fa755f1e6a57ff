"""The adapters for benchopt: their classes by hand everywhere, ``benchopt run`` itself where it is installed."""

import importlib.util
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def adapters(monkeypatch):
    """Load an adapter; benchopt's base classes, which only carry the parameters, are stood in for."""
    if importlib.util.find_spec("benchopt") is None:
        stand_in = types.ModuleType("benchopt")
        for name in ("BaseObjective", "BaseDataset", "BaseSolver"):
            setattr(stand_in, name, type(name, (), {}))
        monkeypatch.setitem(sys.modules, "benchopt", stand_in)

    def load(path, kind, **parameters):
        spec = importlib.util.spec_from_file_location("_".join(Path(path).with_suffix("").parts), BENCHMARKS / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = object.__new__(getattr(module, kind))
        for name, value in parameters.items():
            setattr(found, name, value)
        return found

    return load


def _run(solver, objective, steps=200):
    """Do what benchopt does: hand over the objective, call back, judge the result."""
    solver.set_objective(**objective.get_objective())
    left = iter(range(steps))
    solver.run(lambda: next(left, None) is not None)
    return objective.evaluate_result(**solver.get_result())


@pytest.mark.parametrize(("name", "mu"), [("auto", None), ("dyn-nolips", None), ("hals", 0.1)])
def test_symnmf(adapters, name, mu):
    data = adapters("symnmf/datasets/planted.py", "Dataset", n=100, communities=3).get_data()
    objective = adapters("symnmf/objective.py", "Objective", rank=None, seed=0)
    objective.set_data(**data)
    first = objective.evaluate_result(**objective.get_one_result())
    last = _run(adapters("symnmf/solvers/quartic.py", "Solver", solver=name, mu=mu), objective)
    assert last["value"] < first["value"]
    assert last["projected_gradient"] < 0.05


@pytest.mark.parametrize("method", ["lm", "dyn-nolips-gram"])
def test_edmc(adapters, method):
    case = adapters("edmc/datasets/helix.py", "Dataset", n=60, known=0.5, noise=0.0).get_data()["case"]
    objective = adapters("edmc/objective.py", "Objective", seed=0)
    objective.set_data(case)
    assert objective.evaluate_result(**objective.get_one_result())["value"] < 1e-12
    last = _run(adapters("edmc/solvers/quartic.py", "Solver", method=method), objective, 5000)
    assert last["value"] < 1e-3


def test_edmc_peers_end_when_told(adapters):
    objective = adapters("edmc/objective.py", "Objective", seed=0)
    objective.set_data(adapters("edmc/datasets/helix.py", "Dataset", n=60, known=0.5, noise=0.0).get_data()["case"])
    peer = adapters("edmc/solvers/quartic.py", "Solver", method="SciPy-L-BFGS-B")
    early, late = (_run(peer, objective, steps)["value"] for steps in (2, 500))
    assert late < 1e-6 < early
    assert np.isfinite(early)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("benchopt"), reason="benchopt is not installed (pip install 'quartic[bench]')")
@pytest.mark.parametrize("words", ["symnmf -d planted[n=100,communities=3]", "edmc -d helix[n=60,known=0.5,noise=0.0]"])
def test_benchopt_runs_them(words, tmp_path):
    shutil.copytree(BENCHMARKS / words.split()[0], tmp_path / words.split()[0])
    command = [
        "benchopt",
        "run",
        *words.split(),
        "-s",
        "quartic",
        "--max-runs",
        "3",
        "--n-repetitions",
        "1",
        "--no-plot",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.rglob("*.parquet"))
