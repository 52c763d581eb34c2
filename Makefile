# On a fresh machine that has Python >= 3.11, make and a package registry:
#     make demo     sets everything up and runs piwo demo: all steps on bundled data
#     make test     sets everything up and runs the tests; test-clusters and test-statistics run the rest
# Another Python: make test PYTHON=python3.12        Another environment: make test VENV=/some/where

# The first of these that is new enough; python3 if none is, so that the message below can say what was found.
FIND_PYTHON = for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; exit 0; fi; \
	done; echo python3
PYTHON ?= $(shell $(FIND_PYTHON))
VENV ?= .venv
# Where an environment has its programs. On Windows run make in Git Bash.
ifeq ($(OS),Windows_NT)
BIN = $(VENV)/Scripts
else
BIN = $(VENV)/bin
endif

# Everything that the wheel is built from. Folders are listed too: a deleted file changes its folder's time.
SOURCES := pyproject.toml README.md LICENSE $(shell find src -name __pycache__ -prune -o ! -name '*.pyc' -print)

# Tests and checks see the installed wheel, never a tree that happens to be on the path.
unexport PYTHONPATH
unexport PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PYTHONDONTWRITEBYTECODE = 1

.DEFAULT_GOAL := help
.PHONY: help demo fuzz gallery site test-notebooks screenshots test test-browser test-clusters test-statistics check lint format types layers rules examples runtime-types oldest \
	test-duckdb-extensions clean
# A stamp is removed when its recipe fails, and no two recipes install into one environment at once.
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo "make demo            set up, then run piwo demo"
	@echo "make test            set up, then run the tests against the built wheel"
	@echo "make test-browser    the tests of pages in Chromium"
	@echo "make screenshots     the pages of docs/report as PNG, drawn by Chromium"
	@echo "make test-clusters   the tests on Spark and Dask"
	@echo "make test-statistics the tests that simulate the promises many times over"
	@echo "make fuzz            damage COUNT files (20000) and watch what the command makes of them"
	@echo "make test-notebooks  run the notebooks of docs/notebooks"
	@echo "make gallery         draw the figures of docs/gallery.md"
	@echo "make site            the documentation site in build/site; warnings are errors"
	@echo "make check           lint, format, types, layers, house rules, docstring examples, the site"
	@echo "make runtime-types   the tests again, with every annotation checked while they run"
	@echo "make oldest          the tests with the oldest dependencies that pyproject.toml allows"
	@echo "make test-duckdb-extensions"
	@echo "                     the tests of addresses and DuckDB with a DuckDB that has its extension httpfs"
	@echo "make clean           remove the environments and all that was generated"

# ------------------------------------------------------------------------------------------------ environment
$(VENV)/made.stamp:
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
		echo "piwo: no Python called '$(PYTHON)' was found; install Python 3.11 or newer," \
			"or name yours: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "piwo: needs Python 3.11 or newer, but '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1);" \
			"name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "piwo: '$(PYTHON)' was installed without its venv module;" \
			"add it (on Debian and Ubuntu: the package python3-venv) and run make again" >&2; exit 1; }
	"$(PYTHON)" -m venv "$(VENV)"
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

# `pip install .` builds a wheel and installs that.
$(VENV)/demo.stamp: $(VENV)/made.stamp $(SOURCES)
	@echo "Installing piwo; the first time this takes a minute or two."
	$(BIN)/python -m pip install --quiet .
	@touch $@

$(VENV)/test.stamp: $(VENV)/made.stamp $(SOURCES)
	@echo "Installing piwo and its test tools; the first time this takes a minute or two."
	$(BIN)/python -m pip install --quiet ".[test]"
	@touch $@

$(VENV)/dev.stamp: $(VENV)/made.stamp $(SOURCES)
	@echo "Installing piwo and its development tools; the first time this takes a minute or two."
	$(BIN)/python -m pip install --quiet ".[dev]"
	@touch $@

# ---------------------------------------------------------------------------------------------- what users run
demo: $(VENV)/demo.stamp
	$(BIN)/piwo demo

# PYTEST_ARGS=... is handed on, for example: make test PYTEST_ARGS="-k clip". A worker per core; -n 0 for one process.
test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not browser and not clusters and not statistics and not notebooks" $(PYTEST_ARGS)

test-clusters: $(VENV)/test.stamp
	$(BIN)/python -m pytest -m clusters $(PYTEST_ARGS)

test-statistics: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n auto -m statistics $(PYTEST_ARGS)

test-notebooks: $(VENV)/test.stamp
	$(BIN)/python -m pytest -m notebooks $(PYTEST_ARGS)

# The figures of docs/gallery.md, and the numbers that they show.
gallery: $(VENV)/test.stamp
	$(BIN)/python scripts/draw_gallery.py
# Skipped, with the reason, where no Chromium is installed.
test-browser: $(VENV)/test.stamp
	$(BIN)/python -m pytest -m browser $(PYTEST_ARGS)

# Looked at before they are committed; scenarios whose data is not here are left out.
screenshots: $(VENV)/test.stamp
	$(BIN)/python scripts/screenshots.py docs/report

# `make test` runs the first inputs of the same series; FUZZ_ARGS="--seed 1 --keep build/fuzz" for others, kept.
COUNT ?= 20000
fuzz: $(VENV)/test.stamp
	$(BIN)/python tests/fuzz/fuzzer.py --count $(COUNT) $(FUZZ_ARGS)

# ------------------------------------------------------------------------------------------------------ checks
check: lint format types layers rules site examples
	@echo "All checks passed."

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .

format: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/public_names.py tests/typing/user_script.py
	$(BIN)/pyright --level error tests/typing/user_script.py
	MYPYPATH=. $(BIN)/mypy benchmarks/*.py
	MYPYPATH=. $(BIN)/mypy --explicit-package-bases benchmarks/statistics benchmarks/quality

layers: $(VENV)/dev.stamp
	PYTHONPATH=src $(BIN)/lint-imports

rules: $(VENV)/dev.stamp
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_divisions.py
	$(BIN)/python scripts/check_sizes.py
	$(BIN)/python scripts/check_lines.py
	$(BIN)/python scripts/check_stray.py
	$(BIN)/python scripts/check_docstrings.py
	$(BIN)/python scripts/check_docs.py

# Links to pages, sections and pictures are checked as well. The variable silences an advertisement.
site: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The examples are run with runtime type checks on , in a temporary directory (scripts/pytest_examples.py).
examples: $(VENV)/dev.stamp
	PYTHONPATH=scripts $(BIN)/python -m pytest -c pyproject.toml --rootdir . -q \
		-p pytest_runtime_types -p pytest_examples --doctest-modules --pyargs piwo experiments

# ---------------------------------------------------------------------------------------------- wider test runs
runtime-types: $(VENV)/test.stamp
	PYTHONPATH=scripts $(BIN)/python -m pytest -p pytest_runtime_types $(PYTEST_ARGS)

# In a folder of its own, within the environment's, where no check looks: see the script.
test-duckdb-extensions: $(VENV)/test.stamp
	$(BIN)/python scripts/duckdb_extensions.py $(VENV)/duckdb-extensions $(PYTEST_ARGS)

# pip reads the constraint from its environment variable.
oldest:
	@mkdir -p build
	"$(PYTHON)" scripts/oldest.py > build/oldest.txt
	PIP_CONSTRAINT=build/oldest.txt $(MAKE) test test-clusters test-statistics VENV=.venv-oldest

clean:
	rm -rf .venv .venv-oldest build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
