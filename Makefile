# `make demo` and `make test` set up .venv with everything they need, and reuse it until pyproject.toml or
# constraints.txt changes. The demo installs the run-time dependencies, the tests also those of developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.to-run
DEV := $(VENV)/.to-develop
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO_OUT ?= demo
DEMO := --policy uniform --policy sw-gp-ucb --policy adaptive-gp-ucb --policy sparq-gp-ucb --policy frugal-gp-ucb:queries_per_step=2
# The number of processes that run tests; `make test WORKERS=0` runs all tests in one process.
WORKERS ?= auto

.PHONY: demo test test-all test-kernels lint types wheel docs results benchmarks board peers integrations lowest newest clean

SUITE ?= quick

$(RUN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tvbandits needs Python 3.11 or newer; set PYTHON=python3.11")'
	@echo "setting up $(VENV) with what it takes to run (a minute or two, the first time)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) setuptools wheel
	@$(PIP) --no-build-isolation -e .
	@touch $(RUN)

$(DEV): $(RUN)
	@echo "adding what the tests and checks need"
	@$(PIP) --no-build-isolation -e '.[dev]'
	@touch $(DEV)

demo: $(RUN)
	@echo "500 steps of a bump that wanders, 3 seeds, 5 policies: about half a minute on two cores"
	$(BIN)/tvbandits compare drifting-bump $(DEMO) --seeds 3 --out $(DEMO_OUT)

# PYTHONDONTWRITEBYTECODE is unset, so that pytest can cache the tests with rewritten assertions.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# These tests take a few minutes. `test-all` adds the tests marked slow: those with servers, browsers,
# brokers or killed processes, long attacks, and those that repeat results and examples.
test: $(DEV)
	$(PYTEST) -m "not slow"

test-all: $(DEV)
	$(PYTEST)

# Run the numerical tests with each BLAS kernel that this processor supports, with one and two threads, since
# results must not depend on them.
NUMERICS = $(addprefix tests/,domains gp forgetting acquisition queries bandit policies)
test-kernels: $(DEV)
	for kernel in Prescott Haswell Zen SkylakeX; do \
		export OPENBLAS_CORETYPE=$$kernel; \
		$(BIN)/python -c "import numpy as np; np.linalg.cholesky(np.eye(300))" || { echo "$$kernel does not run here"; continue; }; \
		for threads in 1 2; do \
			echo "$$kernel, BLAS threads: $$threads"; \
			BLAS_THREADS=$$threads $(BIN)/python -m pytest -q $(NUMERICS) || exit 1; \
		done; \
	done

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml

types: $(DEV)
	$(BIN)/mypy --strict -p tvbandits -p benchmarks

wheel: $(DEV)
	PYTHON=$(PYTHON) bash .ci/wheel

# Build the site from scratch: all examples run; a broken link or a missing public name is an error.
docs: $(DEV)
	@echo "adding what the pages need"
	@$(PIP) --no-build-isolation -e '.[docs]'
	@echo "running every example and reading every docstring: some minutes, the first time"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

# Repeat the quick tables and pictures of the pages, and compare them with the pages.
results: $(DEV)
	$(BIN)/python -m docs.making.check

benchmarks: $(DEV)
	$(BIN)/python -m benchmarks

# Make the tables and pictures of a named suite; after an interruption, the same command continues.
board: $(DEV)
	$(BIN)/tvbandits board $(SUITE)

# Run other packages in an environment of their own, which takes some gigabytes, mostly for PyTorch.
peers: $(DEV)
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -r benchmarks/peers/requirements.txt
	$(BIN)/python -m benchmarks.peers

# Test the Xopt generator in an environment of its own, since Xopt needs PyTorch, whose installation is slow.
integrations:
	test -x .venv-xopt/bin/python || $(PYTHON) -m venv .venv-xopt
	.venv-xopt/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-xopt/bin/python -m pip install --quiet --disable-pip-version-check -e '.[xopt]' pytest hypothesis
	.venv-xopt/bin/python -m pytest -q tests/integrations/test_xopt.py
	@echo "Xopt's own tests of every generator that it knows, TVGenerator among them"
	.venv-xopt/bin/python -m pytest -q -c /dev/null -p no:cacheprovider -p tvbandits.integrations.xopt --pyargs xopt.tests.test_generator

# Run the quick numerical tests with the oldest versions that pyproject.toml allows, in an environment of
# their own. Deprecation warnings of old versions are not errors here.
IGNORED := Deprecation PendingDeprecation Future
LOWEST := tests/domains tests/gp tests/acquisition tests/queries tests/forgetting tests/bandit tests/comparison tests/datasets tests/cli/test_main.py
lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	VIRTUAL_ENV=.venv-lowest .venv-lowest/bin/uv pip install --quiet --resolution lowest-direct -e '.[parquet,postgresql,service,mqtt,optuna,dask]' 'pytest>=8' 'pytest-xdist>=3.5' 'hypothesis>=6.100' 'dppy>=0.3.3'
	.venv-lowest/bin/python -m pytest -q -n $(WORKERS) $(IGNORED:%=-W ignore::%Warning) -m "not slow" $(LOWEST)

# Run the quick tests with the newest versions, without constraints, in an environment of their own.
newest:
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[dev]'
	.venv-newest/bin/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow"

clean:
	rm -rf $(VENV) build dist site *.egg-info $(DEMO_OUT)
