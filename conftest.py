"""Where torch, Triton or CVXPY is not installed, the modules that import it hold no examples that could run."""

from importlib.util import find_spec

# programs that tests/test_triton.py and tests/test_torch_rows.py run
collect_ignore_glob = ["tests/interpreted_kernels.py", "tests/torch_rows_program.py"]
if not find_spec("torch"):
    collect_ignore_glob.append("src/quartic/**/*torch*.py")
if not find_spec("cvxpy"):
    collect_ignore_glob.append("src/quartic/**/*cvxpy*.py")
if not (find_spec("torch") and find_spec("triton")):
    collect_ignore_glob.append("src/quartic/**/*triton*.py")
