# A fresh machine needs only Python 3.11 or newer with pip and venv, make and, for the tests, a C compiler.
PYTHON ?= python3
VENV := .venv
WORKERS ?= $(shell nproc)
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
# An environment names its own place: in a clone that was copied or moved it would run what is where that was.
MOVED := $(shell test ! -s $(RUNS) || pwd -P | cmp -s - $(RUNS) || echo yes)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What people have set for other programs must not lead pip and Python out of .venv.
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PYTHONPATH PYTHONHOME
# What is compiled once need not be compiled by each worker and by each program that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-engines test-more check docs bench release lock clean

demo: $(RUNS)  ## everything on simulated GPUs, with real processes
	@$(BIN)/python -P -m fallow demo

PYTEST = $(BIN)/python -m pytest -q
test: $(READY)  ## the tests that every change must pass; real processes, locks and signals, a stand-in only for the driver
	@$(PYTEST) -n $(WORKERS) --dist worksteal -m "not gpu and not engine and not more"

test-engines: $(READY)  ## whole paths through real Jupyter, Podman, sshd, Prometheus, Slurm and Chromium; .ci/run installs them
	@$(PYTEST) -n $(WORKERS) --dist loadfile -m "engine and not more"

test-more: SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))
test-more: $(READY)  ## all tests, with more and new examples: make test-more SEED=… draws those of an earlier run again
	@echo "make test-more SEED=$(SEED)"
	@FALLOW_TEST_MORE=$(SEED) $(PYTEST) -n $(WORKERS) --dist worksteal --hypothesis-seed=$(SEED) --timeout 600

check: $(READY)  ## format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site is built from a copy in which files lie as they do here, so that links lead to the same places.
PAGES := build/pages
docs: $(VENV)/docs/.ready  ## the documents as a site, in build/site; a link that leads nowhere is an error
	@rm -rf $(PAGES) && mkdir -p $(PAGES)
	@cp -r --parents $(wildcard *.md) LICENSE docs examples src/fallow/examples $(PAGES)
	@$(BIN)/python -P -m fallow.engine.config.schema >$(PAGES)/docs/reference/fallow.schema.json
	@PYTHONPATH=$(VENV)/docs $(BIN)/python -m zensical build --strict --clean
	@! grep -rlE --include=*.html '<(script|link|img|iframe)[^>]+(src|href)="?(https?:)?//' build/site  # nothing from elsewhere

bench: $(READY)  ## ratios measured side by side in one run
	$(BIN)/python -m bench

release: $(READY)  ## all files of a release, made, checked and tried, as root: make release VERSION=1.2.3; uploads and tags nothing
	@$(BIN)/python scripts/release $(or $(VERSION),$(error which version? make release VERSION=1.2.3))
	@.ci/release dist/$(VERSION)

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q
lock: $(READY)  ## resolve requirements/*.in again
	$(COMPILE) --upgrade -o requirements/dev.txt requirements/dev.in pyproject.toml
	$(COMPILE) -c requirements/dev.txt -o requirements/run.txt requirements/run.in pyproject.toml
	$(COMPILE) -c requirements/dev.txt -o requirements/docs.txt requirements/docs.in

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

ifneq ($(MOVED),)
.PHONY: $(RUNS)
endif
# What fallow needs to run, and fallow itself in place; the developers' tools come on top of it.
# Each file in requirements is complete: with --no-deps pip installs that, and does not look for newer versions.
$(RUNS): requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fallow needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "this Python has no venv; try: apt install python3-venv"; exit 1; }
	$(if $(MOVED),rm -rf $(VENV))
	$(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)  # one that was interrupted has a part of pip, and keeps it
	$(BIN)/pip install --quiet --no-compile --no-deps --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --no-build-isolation --no-deps -e .
	@pwd -P > $(RUNS)

$(READY): $(RUNS) requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/dev.txt
	@touch $(READY)

$(VENV)/docs/.ready: $(RUNS) requirements/docs.txt
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-compile --no-deps --require-hashes --target $(@D) -r requirements/docs.txt
	@touch $@
