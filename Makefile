# `make demo` and `make test` do all the set-up: they need Python >= 3.11, make and a C compiler, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Two test processes share two cores: BLAS threads on top of that would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-torch test-oldest test-package test-slow test-browser fuzz results audit docs lint format wheel clean
.DEFAULT_GOAL := test

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "quartic needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; call make PYTHON=/path/to/newer/python3")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.ready
	$(BIN)/quartic demo

test: lint
	$(BIN)/python -m pytest -n 2 -m 'not slow and not browser'

# The same code on torch tensors, on torch's CPU build, in an environment of its own; Triton's kernels are interpreted.
TORCH_VENV ?= .venv-torch

$(TORCH_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,gpu]'
	-$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check triton
	@touch $@

test-torch: $(TORCH_VENV)/.ready
	$(TORCH_VENV)/bin/python -m pytest -n 2 -m 'not slow and not browser' tests/test_torch.py tests/test_triton.py tests/test_torch_graphs.py tests/test_torch_rows.py tests/test_devices.py \
		tests/test_torch_sdp.py tests/test_normalization.py tests/test_smooth.py tests/test_spectral_start.py tests/test_units.py tests/test_docs.py

# QUARTIC_MINUTES says for how long fits are made in one process, whose memory must not grow.
test-slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

# Ten thousand spoiled files of every format that is read.
fuzz: $(VENV)/.ready
	$(BIN)/python tests/fuzzing/harness.py --count 10000

# The results page, its table and the numbers that documents quote, from what was measured into results/.
results: $(VENV)/.ready
	$(BIN)/quartic bench page --results results -o benchmarks/RESULTS.md $(foreach d,README.md docs/results.md $(wildcard docs/*.rst),--document $(d))

# Known vulnerabilities in the pinned dependencies; needs the network, and fails where a package could not be looked up.
audit: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --strict --requirement constraints.txt --no-deps --disable-pip

# The oldest versions that pyproject.toml allows, in an environment of their own.
OLDEST_VENV ?= .venv-oldest

$(OLDEST_VENV)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --editable '.[report]' pytest pytest-xdist hypothesis networkx pandas
	@touch $@

test-oldest: $(OLDEST_VENV)/.ready
	$(OLDEST_VENV)/bin/python -m pytest -n 2 -m 'not slow and not browser' $(OLDEST_TESTS)

# The core of the suite: what touches NumPy, SciPy, numba and scikit-learn.
OLDEST_TESTS ?= tests/test_core.py tests/test_kernels.py tests/test_losses.py tests/test_loop.py tests/test_contract.py \
	tests/test_symnmf_solvers.py tests/test_edmc_solvers.py tests/test_symnmf_estimator.py tests/test_distance_completion.py

# sdist and wheel; the sdist's own tests, run against the installed wheel in an empty environment.
test-package: $(VENV)/.ready
	rm -rf dist build/package && $(BIN)/python -m build
	mkdir -p build/package && tar -xzf dist/quartic-*.tar.gz -C build/package --strip-components=1
	$(PYTHON) -m venv build/package/.venv
	build/package/.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$$(ls dist/quartic-*.whl)[report]" pytest pytest-xdist hypothesis networkx pandas
	cd build/package && rm -rf src && .venv/bin/python -m pytest -n 2 -m 'not slow and not browser' tests/test_core.py tests/test_kernels.py tests/test_cli.py tests/test_symnmf_estimator.py tests/test_distance_completion.py

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
	rm -rf $(VENV) $(TORCH_VENV) $(OLDEST_VENV) build dist docs/_build docs/gallery docs/api .mypy_cache .ruff_cache .pytest_cache
