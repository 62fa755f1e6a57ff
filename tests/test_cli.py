"""The command line, as a user meets it: in a process of its own."""

import json
import subprocess
import sys

import pytest

import quartic


def run(*arguments, cwd=None, code=0):
    done = subprocess.run([sys.executable, "-m", "quartic", *arguments], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done


def test_version_and_help():
    assert run("--version").stdout == f"quartic {quartic.__version__}\n"
    for command in ((), ("demo",), ("info",)):
        assert "Usage" in run(*command, "--help").stdout
    assert "Example: quartic demo" in run("demo", "--help").stdout


def test_demo_writes_a_page_that_needs_no_network(tmp_path):
    done = run("demo", cwd=tmp_path)
    assert "Figures: quartic-report.html" in done.stdout
    assert done.stderr == ""
    page = (tmp_path / "quartic-report.html").read_text(encoding="utf-8")
    head = page.split("<script>")[0] + page.split("</script>")[-1]
    assert "http" not in head  # nothing is fetched: the plotting library stands inside
    assert page.count("<figure") == 6
    assert page.count("aria-label") >= 6


def test_demo_in_json(tmp_path):
    pytest.importorskip("plotly", reason="the report extra is not installed")
    results = json.loads(run("demo", "--json", cwd=tmp_path).stdout)
    assert results["Clusters of a graph (symmetric NMF)"]["accuracy"] > 0.95
    assert results["Points from a tenth of their distances"]["normalized_rmse"] < 1e-6


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


def test_info():
    facts = json.loads(run("info", "--json").stdout)
    assert facts["quartic"] == quartic.__version__
    assert "numba" in run("info").stdout


def test_unknown_command_is_exit_code_2():
    assert "No such command" in run("nonsense", code=2).stderr
