"""Where torch is not installed, the modules that import it hold no examples that could run."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/quartic/*/torch_*.py"]
