# llm-atlas: `make help` lists what there is. GNU make 4 and Python 3.11 or newer are enough;
# once installed, nothing here needs a network.

PYTHON ?= python3
VENV := .venv
PEER := .venv-peer
MKDOCS := .venv-mkdocs
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
NO_DEPS := --no-deps --no-build-isolation
NODE_MODULES := tests/browser/node_modules
# those that need no record from elsewhere and no GPU
BENCHMARKS := benchmarks/bootstrap.py benchmarks/build.py

# No code of ours or of a library may ask a hub for anything.
export HF_HUB_OFFLINE := 1
export TRANSFORMERS_OFFLINE := 1
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help site demo test lint format test-slow test-peer test-browser test-crash test-fuzz \
	test-cluster bench bench-quick check \
	install-capture clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# --- environments: one stamp for each lock, so that a second run installs nothing ---

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v < (3, 11) and sys.exit("$(PYTHON): expected Python 3.11 or newer, found %d.%d (name another with make PYTHON=...)" % v)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.site.stamp: requirements/site.txt pyproject.toml | $(BIN)/python
	@echo "installing what the site's build needs into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/site.txt
	@$(BIN)/python $(PIP_INSTALL) $(NO_DEPS) -e .
	@touch $@

$(VENV)/.capture.stamp: requirements/capture.txt $(VENV)/.site.stamp
	@echo "installing what the capture needs into $(VENV) (torch and transformers: minutes)"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/capture.txt
	@touch $@

$(VENV)/.test.stamp: requirements/test.txt requirements/no-deps.txt $(VENV)/.capture.stamp
	@echo "installing what the tests need into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/test.txt
	@$(BIN)/python $(PIP_INSTALL) --no-deps -r requirements/no-deps.txt
	@touch $@

$(VENV)/.cluster.stamp: requirements/cluster.txt $(VENV)/.test.stamp
	@echo "installing Ray into $(VENV)"
	@$(BIN)/python $(PIP_INSTALL) -r requirements/cluster.txt
	@touch $@

$(PEER)/bin/python: | $(BIN)/python
	$(PYTHON) -m venv $(PEER)

$(PEER)/.peer.stamp: requirements/peer.txt | $(PEER)/bin/python
	@echo "installing the peer's transformers into $(PEER) (torch again: minutes)"
	@$(PEER)/bin/python $(PIP_INSTALL) -r requirements/peer.txt
	@touch $@

$(MKDOCS)/bin/python: | $(BIN)/python
	$(PYTHON) -m venv $(MKDOCS)

$(MKDOCS)/.mkdocs.stamp: requirements/mkdocs.txt | $(MKDOCS)/bin/python
	@echo "installing MkDocs Material into $(MKDOCS)"
	@$(MKDOCS)/bin/python $(PIP_INSTALL) -r requirements/mkdocs.txt
	@touch $@

# without npm the checks that need these skip and say so
$(NODE_MODULES)/.stamp: tests/browser/package.json tests/browser/package-lock.json
	@if command -v npm >/dev/null; then \
	echo "installing axe-core and the Nu HTML checker into $(NODE_MODULES)" && \
	npm ci --prefix tests/browser --ignore-scripts --no-audit --no-fund --silent && touch $@; \
	else echo "npm is not on the path: axe and the Nu HTML checker will be skipped"; fi

# --- what a user runs ---

site: $(VENV)/.site.stamp ## build site/ from the committed data (no GPU, no torch)
	$(BIN)/python build.py build
	@echo "Open site/index.html in a browser, or run: $(BIN)/python build.py serve"

demo: $(VENV)/.capture.stamp ## run the capture on the embedded checkpoint, on the CPU
	$(BIN)/python -m capture demo

install-capture: $(VENV)/.capture.stamp ## install what a workstation run needs
	@echo "Ready: $(BIN)/python -m capture --help"

# --- what a developer runs ---

test: lint ## lint, types and all tests but the peer, browser and slow ones
	$(BIN)/python -m pytest

lint: $(VENV)/.test.stamp ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test.stamp ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-slow: $(VENV)/.test.stamp ## the tests that take more than a minute
	$(BIN)/python -m pytest -m slow

test-peer: $(VENV)/.test.stamp $(PEER)/.peer.stamp ## the embedded checkpoint against transformers' native deepseek_v2
	$(BIN)/python tests/peer/ours.py $(PEER)/ours.npz
	LLM_ATLAS_PEER_RECORD=$(PEER)/ours.npz $(PEER)/bin/python -m pytest -m peer tests/peer

test-browser: $(VENV)/.test.stamp $(NODE_MODULES)/.stamp ## the site in a real Chromium (needs chromium, chromedriver, npm, java)
	$(BIN)/python -m pytest -m browser tests/browser

test-crash: $(VENV)/.test.stamp ## 100 random kills, full disks: every run resumes to the same bytes
	$(BIN)/python -m pytest -m crash tests/crash

test-fuzz: $(VENV)/.test.stamp ## 10,000 damaged files: read or refused in one line
	$(BIN)/python -m pytest -m fuzz tests/fuzz

test-cluster: $(VENV)/.cluster.stamp ## the corpus over 1, 2 and 4 local Ray workers
	$(BIN)/python -m pytest tests/capture/test_engine.py

bench: $(VENV)/.test.stamp $(PEER)/.peer.stamp $(MKDOCS)/.mkdocs.stamp ## the benchmarks behind the README's figures (8 GB of disk, minutes); FULL=DIR: also all 27 layers (31 GB in DIR)
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file; done
	@echo "== benchmarks/streaming.py"; $(BIN)/python benchmarks/streaming.py $(if $(FULL),--full $(FULL))

bench-quick: $(VENV)/.test.stamp ## the same programs at small sizes; writes nothing
	@set -e; for file in $(BENCHMARKS) benchmarks/streaming.py; do echo "== $$file"; $(BIN)/python $$file --quick; done

check: $(VENV)/.site.stamp ## does the committed site equal what the build gives?
	$(BIN)/python build.py check

clean: ## remove the environments and what tools left
	rm -rf $(VENV) $(PEER) $(MKDOCS) $(NODE_MODULES) .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info *.egg-info
