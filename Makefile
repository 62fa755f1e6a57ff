# `make demo` and `make test` do all the set-up: they need Python >= 3.11, make and a C compiler, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Two test processes share two cores: BLAS threads on top of that would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-torch test-slow test-browser fuzz trust audit docs lint format wheel clean
.DEFAULT_GOAL := test

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "quartic needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; call make PYTHON=/path/to/newer/python3")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.ready
	$(BIN)/quartic demo

test: lint
	$(BIN)/python -m pytest -n 2 -m 'not slow'

# The same code on torch tensors, on torch's CPU build, in an environment of its own; Triton's kernels are interpreted.
TORCH_VENV ?= .venv-torch

$(TORCH_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,gpu]'
	-$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check triton
	@touch $@

test-torch: $(TORCH_VENV)/.ready
	$(TORCH_VENV)/bin/python -m pytest -n 2 -m 'not slow' tests/test_torch.py tests/test_triton.py tests/test_torch_graphs.py

test-slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

# Ten thousand spoiled files of every format that is read.
fuzz: $(VENV)/.ready
	mkdir -p results/trust
	$(BIN)/python tests/fuzzing/harness.py --count 10000 --json results/trust/fuzz.json

# The section trust of benchmarks/results.csv: two hours, one of them of fits in one process.
trust: fuzz
	mkdir -p results/killed && $(BIN)/python tests/faults/killed_runs.py results/killed 50 0 > results/trust/killed.json && rm -r results/killed
	QUARTIC_TRUST=results/trust $(BIN)/python -m pytest -m slow tests/test_random_problems.py
	$(BIN)/python benchmarks/trust.py --minutes 60

# Known vulnerabilities in the pinned dependencies; needs the network, and says so where there is none.
audit:
	$(PYTHON) .ci/audit.py

test-browser: docs
	@command -v chromium >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pytest -m browser tests/test_browser.py

$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

# The site, in docs/_build/html: no network while it is built or read, and every warning is an error.
docs: $(VENV)/.docs-ready
	MPLBACKEND=Agg $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(VENV)/.ready
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) $(TORCH_VENV) build dist docs/_build docs/gallery docs/api .mypy_cache .ruff_cache .pytest_cache
