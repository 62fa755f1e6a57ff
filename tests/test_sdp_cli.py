"""``quartic sdp``."""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from command import invoke
from quartic.sdp import read_sdpa, solve_sdp

PENTAGON = "5\n1\n5\n1 1 1 1 1\n" + "".join(
    f"0 1 {min(i, j)} {max(i, j)} -0.25\n" for i, j in [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)]
)
PENTAGON += "".join(f"0 1 {i} {i} 0.5\n{i} 1 {i} {i} 1.0\n" for i in range(1, 6))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pentagon.dat-s"
    path.write_text(PENTAGON)
    return path


def test_report_and_solution(file, tmp_path):
    out = tmp_path / "solution.npz"
    found = invoke("sdp", str(file), "-o", str(out))
    assert found.exit_code == 0
    assert "converged" in found.stdout
    with np.load(out) as kept:
        X, y = kept["X1"], kept["y"]
    assert np.allclose((X**2).sum(axis=1), 1)
    assert y.sum() == pytest.approx(4.5225, abs=1e-4)


def test_html_report(file, tmp_path):
    pytest.importorskip("plotly")
    page = tmp_path / "page.html"
    assert invoke("sdp", str(file), "--report", str(page)).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "4.52254" in text
    assert "Convergence" in text
    assert "no folder" in invoke("sdp", str(file), "--report", str(tmp_path / "a/b.html")).stderr


def test_json(file):
    found = invoke("sdp", str(file), "--json", "--quiet")
    facts = json.loads(found.stdout)
    assert facts["converged"]
    assert facts["primal"] == pytest.approx(4.522542, abs=1e-5)
    assert facts["primal"] - 1e-9 <= facts["dual"] <= facts["primal"] + 1e-4
    assert len(facts["errors"]) == 6


@pytest.mark.parametrize("arguments", [["--method", "magic"], ["-o", "solution.txt"], ["--tol", "-1"]])
def test_bad_options_are_one_line(file, arguments):
    found = invoke("sdp", str(file), *arguments)
    assert found.exit_code == 2
    assert len(found.stderr.strip().splitlines()) <= 2


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(PENTAGON.encode())))
    assert solve_sdp(read_sdpa("-")).primal == pytest.approx(4.522542, abs=1e-5)


def test_spoiled_file_is_one_line(file):
    file.write_text(PENTAGON.replace("0 1 1 2 -0.25", "0 1 1 9 -0.25"))
    found = invoke("sdp", str(file), "-q")
    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith("quartic sdp: ")
    assert ":5: " in found.stderr
    assert found.stderr.count("\n") == 1


def test_infeasible_is_no_success(tmp_path):
    path = tmp_path / "none.dat-s"
    path.write_text("1\n1\n2\n-1.0\n0 1 1 1 1.0\n1 1 1 1 1.0\n1 1 2 2 1.0\n")
    found = invoke("sdp", str(path), "--json")
    assert found.exit_code == 1
    facts = json.loads(found.stdout)
    assert (facts["status"], facts["primal"], facts["dual"], facts["gap"]) == ("infeasible", None, None, None)
    words = invoke("sdp", str(path))
    assert words.stdout.startswith("status                 infeasible: multipliers y")
    assert not re.search("^(value|bound|gap) ", words.stdout, re.MULTILINE)
    assert ": 1 constraint, blocks 2" in words.stderr
