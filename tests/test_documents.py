"""The documents show real code: every block that names a source file stands there, word for word."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n# (src/\S+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("document", ["CONTRIBUTING.md"])
def test_quoted_code_is_the_source(document):
    blocks = BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    assert blocks
    for path, code in blocks:
        source = (ROOT / path).read_text(encoding="utf-8")
        for part in re.split(r"^ *\.\.\.\n", code, flags=re.MULTILINE):
            assert part.strip("\n") in source, f"{document} quotes {path}, which now reads otherwise:\n{part}"
