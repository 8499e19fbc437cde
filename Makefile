# Every target does its own set-up: on a fresh machine, Python 3.10+ with pip is all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run.stamp
DEV := $(VENV)/.dev.stamp
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 600
SOAK_SECONDS ?= 7200
SOAK_EVERY ?= 4
# Tests start heaptop hundreds of times: where byte code is not kept, half of what a command takes is compiling.
unexport PYTHONDONTWRITEBYTECODE
CORE := $(wildcard src/heaptop/injector/native/*.[ch] src/heaptop/injector/native/*/*.[ch] src/heaptop/injector/preload/*.[ch])
# Targets that load the agent or the native core by themselves, or nothing.
UNATTACHED := $(patsubst %,tests/integration/test_%.py,agent_census heap_stats native_arrays native_churn \
    native_equality native_graph native_hidden native_labels native_reborn native_roots native_sampler native_typed \
    planted_sites snapshots targets)
# What is taken beside the rest: each attaches to targets of its own, or to none.
BESIDE_ALONE := $(patsubst %,tests/integration/test_%.py,exact_sites image_steps images packaging retainers_planted web)
# What is done to a target, and that it goes on: each attaches to targets of its own.
HARM := $(patsubst %,tests/integration/test_%.py,attach_cycles containers detach fork harm hostile_agents hostile_images \
    hostile_transport kill9 killed_helper neighbours pep768 privileges residue seccomp seccomp_filters serve stacks \
    suspension ways_out)
# Mostly wait: while programs leak, or are sampled, or heaptop is traced.
WAITING := $(patsubst %,tests/integration/test_%.py,engines fleet_faults soak zoo bounds sampler_sessions \
    sqlalchemy_session tracer_sessions why hostile_names touched_files)

# What other programs use: the API, agents, test suites, notebooks, JSON, heap dumps, the single file.
PROGRAMS := $(patsubst %,tests/integration/test_%.py,api dumps json_documents mcp notebook pytest_plugin versions_meet \
    handlers native_memory)

# The heap at another time or place: cores, copies, tables of dumps.
COPIES := $(patsubst %,tests/integration/test_%.py,core_files dump_parquet equal_heaps free_threaded no_inject)

.PHONY: demo test quick whole live harm alone units screen waiting programs native check stress fuzz soak equal zoo zoo-real art \
    docs schemas wheel sdist pyz release try-wheel aarch64 clean

demo: $(RUN) ## a leaking sample program, and heaptop attached to it
	$(BIN)/heaptop demo

test: $(DEV) ## a sample of what is long, and everything else that is bounded; more with PYTEST_ARGS
	$(BIN)/python -m compileall -q src/heaptop
	$(MAKE) --no-print-directory --keep-going --jobs=8 live screen units harm waiting alone programs native

quick: $(DEV) ## for the minute: lint, types, layers, and the unit tests that start nothing
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports >/dev/null || $(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 -m "not slow" --hypothesis-profile quick tests/unit --ignore=tests/unit/native $(PYTEST_ARGS)

whole: ## as test, with all of what is long in place of a sample: all Pythons and cases, the whole zoo
	$(MAKE) --no-print-directory test PYTEST_ARGS="--whole $(PYTEST_ARGS)"

live: $(DEV)
	$(BIN)/python -m pytest tests/integration \
	    $(patsubst %,--ignore=%,$(UNATTACHED) $(BESIDE_ALONE) $(HARM) $(WAITING) $(PROGRAMS) $(COPIES)) $(PYTEST_ARGS)

harm: $(DEV)
	$(BIN)/python -m pytest $(HARM) $(PYTEST_ARGS)

programs: $(DEV)
	$(BIN)/python -m pytest $(PROGRAMS) $(PYTEST_ARGS)

alone: $(DEV)
	$(BIN)/python -m pytest $(UNATTACHED) $(BESIDE_ALONE) $(PYTEST_ARGS)

units: $(DEV)
	$(BIN)/python -m pytest tests/unit --ignore=tests/unit/native $(PYTEST_ARGS)

native: $(DEV)
	$(BIN)/python -m pytest tests/unit/native $(COPIES) $(PYTEST_ARGS)

screen: $(DEV)
	$(BIN)/python -m pytest -n 2 tests/tui $(PYTEST_ARGS)

waiting: $(DEV)
	$(BIN)/python -m pytest $(WAITING) $(PYTEST_ARGS)

check: $(DEV) ## lint, types, layers, layout
	$(BIN)/ruff check .
	find src tests bench -name '*.[ch]' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases -p tests.support -p tests.conftest
	$(BIN)/mypy release
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/python -m pytest -q tests/unit/test_layout.py

stress: $(DEV) ## all cycles on all interpreters; takes hours
	$(BIN)/python -m pytest --stress --timeout 3600 tests/integration tests/unit/test_hostile_recordings.py $(PYTEST_ARGS)

fuzz: $(DEV) ## all that heaptop reads from others, with seeds of its own each time: make fuzz FUZZ_SECONDS=3600
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

soak: $(DEV) ## heaptop serve over 20 processes, a census a second, for two hours: make soak SOAK_SECONDS=600 SOAK_EVERY=1
	$(BIN)/python -m tests.support.soak --seconds $(SOAK_SECONDS) --every $(SOAK_EVERY)

equal: $(DEV) ## heaps seen in four ways, compared: make equal PYTHONS="3.8 3.12"
	$(BIN)/python -m tests.support.equal_heaps $(if $(PYTHONS),--pythons $(PYTHONS))

zoo: $(DEV) ## a leak hunt in each program of the zoo, a minute for each Python: make zoo PYTHONS="3.8 3.12"
	$(BIN)/python -m tests.support.zoo $(PYTHONS)

zoo-real: $(DEV) ## likewise with real packages, twenty minutes for each Python: make zoo-real PYTHONS="3.9 3.12 3.13 3.14"
	.ci/target-packages zoo
	$(BIN)/python -m tests.support.zoo --real --keep build/zoo $(PYTHONS)

art: $(RUN) ## the README's pictures, from the real front end over a real recording
	$(BIN)/python art/picture.py

docs: $(RUN) ## the documentation as a site, in build/site
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/python -m mkdocs build

schemas: $(DEV) ## docs/schema, from src/heaptop/documents.py
	$(BIN)/python -m tests.support.json_schemas

wheel sdist pyz: $(DEV) ## what is released, in dist/: the wheel, the sdist, heaptop.pyz
	$(BIN)/python release/build.py $@

release: $(DEV) ## all three, from one build
	$(BIN)/python release/build.py

try-wheel: $(DEV) ## as root: the wheel of dist/ in fresh systems of Debian: install, demo, uninstall
	PYTHON=$(BIN)/python .ci/try-wheel dist/heaptop-*.whl

aarch64: $(DEV) ## on an emulated 64-bit ARM machine: attach, kill -9, samples; some hours, less with: make aarch64 CHECKS="attach --cycles 5"
	PYTHON=$(BIN)/python .ci/aarch64 4k $(CHECKS)

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
