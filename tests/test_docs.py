"""Code on the pages of the documentation runs as it stands: its blocks in order, with one set of names for a page."""

import doctest
import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^\.\. code-block:: (python|pycon)\n\n((?:   .*\n|\n)+)", re.MULTILINE)
ELSEWHERE = ("tcp://", "torch.distributed")  # a cluster, several GPUs


@pytest.mark.filterwarnings("ignore:Sparse")  # torch, of its own checks
@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.rst") if BLOCK.search(path.read_text())))
def test_code_on_pages_runs(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text, names = (PAGES / page).read_text(encoding="utf-8"), {}
    if "import torch" in text:
        pytest.importorskip("torch")
        text = text.replace('"cuda"', '"cpu"')
    for found in BLOCK.finditer(text):
        kind, code = found[1], re.sub("^   ", "", found[2], flags=re.MULTILINE)
        if any(sign in code for sign in ELSEWHERE):
            continue
        line = text.count("\n", 0, found.start()) + 2
        if kind == "python":
            exec(compile("\n" * line + code, str(PAGES / page), "exec"), names)
            continue
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        lines = []
        test = doctest.DocTestParser().get_doctest(code, names, page, str(PAGES / page), line)
        runner.run(test, out=lines.append, clear_globs=False)
        names.update(test.globs)
        assert not runner.failures, "".join(lines)
