# `make demo` and `make test` work from a fresh clone: they make .venv and install what they need.
# The first that runs and is new enough; a name on the PATH may be a stub.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; break; fi; done)
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: demo test soak lint format bench docs clean clis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Relay needs Python 3.11 or newer on the PATH (or PYTHON=...)" >&2; exit 1; }
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

# Kills the daemon for longer than `make test` does: at every point, then at random instants of SESSIONS sessions.
SESSIONS ?= 150
SEED ?= 1

soak: $(VENV)/.dev
	RELAY_CRASH_POINTS=all RELAY_CRASH_SESSIONS=$(SESSIONS) RELAY_CRASH_SEED=$(SEED) \
		RELAY_STREAM_MB=1024 RELAY_MANY_FILES=100000 RELAY_PATIENCE=900 timeout 3600 $(BIN)/python -m pytest \
		tests/crash tests/daemon/test_streams.py tests/daemon/test_many_files.py $(ARGS)

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
