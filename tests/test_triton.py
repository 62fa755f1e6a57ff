"""The Triton kernels against the plain torch versions, under Triton's interpreter, which needs no GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytest.importorskip("torch", reason="torch is not installed; `make test-torch` installs it and runs these")
if find_spec("triton") is None:
    pytest.skip("triton is not installed: its kernels cannot be interpreted", allow_module_level=True)

# Triton reads TRITON_INTERPRET when it is imported: the comparison runs in a process of its own.
HERE = os.path.dirname(__file__)


@pytest.mark.parametrize("what", ["pairs", "blocks", "factor", "shrunk", "swept", "runs", "replays"])
def test_kernels_do_what_plain_torch_does(what):
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, os.path.join(HERE, "interpreted_kernels.py"), what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "compared" in done.stdout
