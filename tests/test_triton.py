"""The Triton kernels against the plain torch versions, under Triton's interpreter, which needs no GPU."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

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


# Kernels that load and store one array and need no barrier: each entry with one thread, or never the same entry.
SAFE = {
    ("_shrink", "W"): "2048 entries for 256 threads",
    ("_sweep", "X"): "at least 32 × 16 entries for 128 threads",
    ("decide_on_line", "S"): "1024 entries for 128 threads",
    ("multiply_pairs", "pairs"): "stored off the face, where what was loaded does not count",
    ("find_direction", "pairs"): "the row stored has the weight zero and is not loaded",
}


@pytest.mark.parametrize("module", ["losses.factor.replay_triton", "losses.factor.triton", "losses.pairs.triton",
                                    "compiled.rows_triton"])  # fmt: skip
def test_no_thread_loads_what_another_has_stored(module):
    """Where a tile has fewer entries than threads, several load the same entry, each at its own time.

    A device shows it only now and then, the interpreter never: L-BFGS on a graph differed by 1e-2 from the host's.
    """
    source = Path(find_spec(f"quartic.{module}").origin).read_text(encoding="utf-8")
    for kernel in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        if not any(ast.unparse(mark) == "triton.jit" for mark in kernel.decorator_list):
            continue
        another, lines = {}, {"load": {}, "store": {}, "debug_barrier": {}}

        def array_of(pointer, another=another):
            while isinstance(pointer, ast.BinOp):
                pointer = pointer.left
            name = ast.unparse(pointer)
            return another.get(name, name)

        for node in ast.walk(kernel):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                another[ast.unparse(node.targets[0])] = array_of(node.value)
        for node in ast.walk(kernel):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in lines:
                array = array_of(node.args[0]) if node.args else ""
                lines[node.func.attr].setdefault(array, []).append(node.lineno)
        for array in set(lines["load"]) & set(lines["store"]):
            # numbers and rows have the threads' common scalars: one thread stores them, after its own loads
            waits = any(max(lines["load"][array]) < at < min(lines["store"][array])
                        for at in lines["debug_barrier"].get("", ()))  # fmt: skip
            assert waits or array in ("numbers", "rows") or (kernel.name, array) in SAFE, (kernel.name, array)
