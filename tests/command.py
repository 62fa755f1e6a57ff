"""The command ``quartic`` within this process, where importing everything again would only take time."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from unittest.mock import patch

from quartic.cli import main


def invoke(*words, given=""):
    """Run the command with these words; return its exit code, and what it wrote."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    stdin = io.TextIOWrapper(io.BytesIO(given if isinstance(given, bytes) else given.encode()))
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", stdin):
        try:
            main(list(map(str, words)))
        except SystemExit as end:
            code = end.code or 0
    stdout, stderr = out.getvalue(), err.getvalue()
    return SimpleNamespace(exit_code=code, stdout=stdout, stderr=stderr, output=stdout + stderr)
