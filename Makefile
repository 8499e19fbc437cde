# Every target does its own set-up: on a fresh machine, Python 3.10+ with pip is all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run.stamp
DEV := $(VENV)/.dev.stamp
PYTEST_ARGS ?=
CORE := $(wildcard injector/native/*.[ch])
# Targets that load the agent or the native core by themselves, or nothing.
UNATTACHED := $(patsubst %,tests/integration/test_%.py,agent_census heap_stats native_arrays native_churn \
    native_equality native_graph native_hidden native_labels native_reborn native_roots native_sampler native_typed \
    packaging planted_sites snapshots targets)
# Of those that attach, what is taken beside the rest: each attaches to targets of its own.
IMAGES := $(patsubst %,tests/integration/test_%.py,image_steps images retainers_planted sqlalchemy_session why)

.PHONY: demo test live alone screen check stress art clean

demo: $(RUN) ## a leaking sample program, and heaptop attached to it
	$(BIN)/heaptop demo

test: $(DEV) ## everything that is bounded, what attaches beside what does not; more with PYTEST_ARGS
	$(MAKE) --no-print-directory --keep-going --jobs=3 live alone screen

live: $(DEV)
	$(BIN)/python -m pytest tests/integration $(UNATTACHED:%=--ignore=%) $(IMAGES:%=--ignore=%) $(PYTEST_ARGS)

alone: $(DEV)
	$(BIN)/python -m pytest tests/unit/native $(UNATTACHED) $(PYTEST_ARGS)

screen: $(DEV)
	$(BIN)/python -m pytest tests/unit tests/tui $(IMAGES) --ignore=tests/unit/native $(PYTEST_ARGS)

check: $(DEV) ## lint, types, layers, layout
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases -p tests.support -p tests.conftest
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/unit/test_layout.py

stress: $(DEV) ## all cycles on all interpreters; takes hours
	$(BIN)/python -m pytest --stress --timeout 3600 tests/integration $(PYTEST_ARGS)

art: $(RUN) ## the README's picture, from the real front end
	$(BIN)/python art/picture.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian keeps the part of venv that installs pip in a package of its own; its pip can install into a venv as well.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { \
	    $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $@ install pip; }

$(RUN): pyproject.toml setup.py $(CORE) | $(BIN)/python
	$(BIN)/python -m pip install -e .
	touch $@

$(DEV): pyproject.toml setup.py $(CORE) | $(BIN)/python
	$(BIN)/python -m pip install -e '.[dev]'
	touch $@ $(RUN)
