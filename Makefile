# `make demo` and `make test` work from a fresh clone: they make .venv and install what they need.
PYTHON ?= $(shell command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: demo test lint format bench docs clean clis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Relay needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.relay: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.relay

demo: $(VENV)/.relay
	@$(BIN)/relay demo $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	@for script in bench/*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.dev
	$(BIN)/python -m pytest tests/test_docs.py $(ARGS)

# The pinned agent CLIs that tests/e2e drives against a loopback mock of their models.
clis: .tools/clis/.installed

.tools/clis/.installed: tests/e2e/clis.json
	@mkdir -p .tools/clis
	cp tests/e2e/clis.json .tools/clis/package.json
	cd .tools/clis && npm install --no-fund --no-audit --loglevel=error
	@touch $@

clean:
	rm -rf $(VENV) .tools build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
