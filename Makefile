# `make demo` and `make test` set up everything they need in .venv and reuse it while it is current: the demo
# installs what it takes to run, the tests add what developers need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.to-run
DEV := $(VENV)/.to-develop
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO_OUT ?= demo
DEMO := --policy uniform --policy sw-gp-ucb --policy adaptive-gp-ucb --policy sparq-gp-ucb --policy frugal-gp-ucb:queries_per_step=2
# Processes that run tests: `make test WORKERS=0` runs them one after the other.
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
	@echo "500 steps of a bump that wanders, 3 seeds, 5 policies: one to two minutes on two cores"
	$(BIN)/tvbandits compare drifting-bump $(DEMO) --seeds 3 --out $(DEMO_OUT)

# Without PYTHONDONTWRITEBYTECODE, under which every run rewrites the assertions of every test again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What takes a few minutes; `test-all` adds the tests marked slow: servers, browsers, brokers, processes that
# are killed, long attacks, results and examples that are run again.
test: $(DEV)
	$(PYTEST) -m "not slow"

test-all: $(DEV)
	$(PYTEST)

# Results must not depend on the BLAS kernel or its threads: the tests of the numerics under each that runs here.
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

# The site, from nothing: every example runs, and a broken link or a public name that is missing fails.
docs: $(DEV)
	@echo "adding what the pages need"
	@$(PIP) --no-build-isolation -e '.[docs]'
	@echo "running every example and reading every docstring: some minutes, the first time"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "site/index.html"

# The quick tables and pictures of the pages, made again and compared with what stands there.
results: $(DEV)
	$(BIN)/python -m docs.making.check

benchmarks: $(DEV)
	$(BIN)/python -m benchmarks

# Tables and pictures of a named suite; the same command goes on where it was stopped.
board: $(DEV)
	$(BIN)/tvbandits board $(SUITE)

# Other packages, in an environment of their own: some gigabytes, most of it PyTorch.
peers: $(DEV)
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -r benchmarks/peers/requirements.txt
	$(BIN)/python -m benchmarks.peers

# Xopt needs PyTorch: in an environment of its own, so that nobody else has to wait for it.
integrations:
	test -x .venv-xopt/bin/python || $(PYTHON) -m venv .venv-xopt
	.venv-xopt/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-xopt/bin/python -m pip install --quiet --disable-pip-version-check -e '.[xopt]' pytest hypothesis
	.venv-xopt/bin/python -m pytest -q tests/integrations/test_xopt.py
	@echo "Xopt's own tests of every generator that it knows, TVGenerator among them"
	.venv-xopt/bin/python -m pytest -q -c /dev/null -p no:cacheprovider -p tvbandits.integrations.xopt --pyargs xopt.tests.test_generator

# The oldest versions that pyproject.toml admits, in an environment of their own: the quick tests of what computes.
# Their own deprecations are not ours to mend, so that these warnings are no errors here.
THEIRS := Deprecation PendingDeprecation Future
LOWEST := tests/domains tests/gp tests/acquisition tests/queries tests/forgetting tests/bandit tests/comparison tests/datasets tests/cli/test_main.py
lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	VIRTUAL_ENV=.venv-lowest .venv-lowest/bin/uv pip install --quiet --resolution lowest-direct -e '.[parquet,postgresql,service,mqtt,optuna,dask]' 'pytest>=8' 'pytest-xdist>=3.5' 'hypothesis>=6.100' 'dppy>=0.3.3'
	.venv-lowest/bin/python -m pytest -q -n $(WORKERS) $(THEIRS:%=-W ignore::%Warning) -m "not slow" $(LOWEST)

# The newest versions there are, with no constraints, in an environment of their own.
newest:
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[dev]'
	.venv-newest/bin/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow"

clean:
	rm -rf $(VENV) build dist site *.egg-info $(DEMO_OUT)
