# A fresh machine needs only Python 3.11 or newer with pip and venv, make and, for the tests, a C compiler.
PYTHON ?= python3
VENV := .venv
# Many tests wait for real programs more than they compute.
WORKERS ?= $(shell expr 2 \* $$(nproc) + 1)
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

.PHONY: demo test check docs bench release lock clean

demo: $(RUNS)  ## everything on simulated GPUs, with real processes
	@$(BIN)/python -P -m fallow demo

test: $(READY)  ## all tests, the longest only if FALLOW_TEST_ALL is set; real processes, real locks, a stand-in only for the driver
	@$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal --a-share

# The tests of the project itself that start no program of their own, or only a short one.
HOUSE := claim_files commands contributing documented doors layers policy_arrows reasons security_page sentences site words

check: $(READY)  ## format, lint, types, import contracts, and the rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:xdist $(HOUSE:%=tests/house/test_%.py)

# The site is built from a copy in which files lie as they do here, so that links lead to the same places.
PAGES := build/pages
docs: $(VENV)/docs/.ready  ## the documents as a site, in build/site; a link that leads nowhere is an error
	@rm -rf $(PAGES) && mkdir -p $(PAGES)
	@cp -r --parents $(wildcard *.md) LICENSE docs examples src/fallow/examples $(PAGES)
	@PYTHONPATH=$(VENV)/docs $(BIN)/python -m zensical build --strict --clean
	@! grep -rlE --include=*.html '<(script|link|img|iframe)[^>]+(src|href)="?(https?:)?//' build/site  # nothing from elsewhere

bench: $(READY)  ## ratios measured side by side in one run
	$(BIN)/python -m bench

release: $(READY)  ## all files of a release, made and checked: make release VERSION=1.2.3; as root, also tried; uploads and tags nothing
	@$(BIN)/python scripts/release $(or $(VERSION),$(error which version? make release VERSION=1.2.3))
	@if [ "$$(id -u)" -eq 0 ]; then scripts/try-bare dist/$(VERSION); else echo "not tried yet; as root: scripts/try-bare dist/$(VERSION)"; fi

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q
lock: $(READY)  ## resolve requirements/*.in again
	$(COMPILE) --upgrade -o requirements/dev.txt requirements/dev.in pyproject.toml
	$(COMPILE) -c requirements/dev.txt -o requirements/run.txt requirements/run.in pyproject.toml
	$(COMPILE) --no-deps -o requirements/peers.txt requirements/peers.in
	$(COMPILE) -c requirements/dev.txt -o requirements/docs.txt requirements/docs.in

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

ifneq ($(MOVED),)
.PHONY: $(RUNS)
endif
# What fallow needs to run, and fallow itself in place; the developers' tools come on top of it.
$(RUNS): requirements/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fallow needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "this Python has no venv; try: apt install python3-venv"; exit 1; }
	$(if $(MOVED),rm -rf $(VENV))
	$(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)  # one that was interrupted has a part of pip, and keeps it
	$(BIN)/pip install --quiet --no-compile --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --no-build-isolation --no-deps -e .
	@pwd -P > $(RUNS)

$(READY): $(RUNS) requirements/dev.txt requirements/peers.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	rm -rf $(VENV)/peers
	$(BIN)/pip install --quiet --require-hashes --no-deps --target $(VENV)/peers -r requirements/peers.txt
	@touch $(READY)

$(VENV)/docs/.ready: $(RUNS) requirements/docs.txt
	rm -rf $(@D)
	$(BIN)/pip install --quiet --no-compile --require-hashes --target $(@D) -r requirements/docs.txt
	@touch $@
