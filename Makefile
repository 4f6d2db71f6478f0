# `make demo` and `make test` set up everything they need in .venv and reuse it while it is current.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.current
DEMO_OUT ?= demo

.PHONY: demo test lint types wheel benchmarks clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tvbandits needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/tvbandits compare drifting-bump --horizon 500 --seeds 3 --bound --out $(DEMO_OUT)

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy --strict -p tvbandits

wheel: $(STAMP)
	PYTHON=$(PYTHON) bash .ci/wheel

benchmarks: $(STAMP)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info $(DEMO_OUT)
