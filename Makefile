# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Each creates the virtual environment it needs and is quick the second time.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
SEED ?= 1
COUNT ?=
EACH ?=
KIND ?=
SECONDS ?=
TARGETS ?=
BENCH ?=
QUICK ?=
AZURITE := 3.35.0
PIP_AUDIT := 2.10.1
AUDIT_ARGS ?=
RELEASE_TOOLS := build==1.6.1 check-wheel-contents==0.6.3 cyclonedx-bom==7.5.0 setuptools==84.2.1 twine==7.0.0
ACTIONLINT := v1.7.12
HELM := v3.19.2
TAG ?=
PACKAGES := tables index checkpoints streaming
# As pip does for a wheel: a first question compiles nothing, also where Python may write no bytecode itself.
COMPILED = $(BIN)/python -m compileall -q tailbit $(PACKAGES)

.PHONY: help test tools lint audit licences suites demo demo-hudi demo-iceberg support-page functions-page python-page cli-page site fuzz proof soak load kill bench time-zones constraints hudi-env hudi-live hudi-tables iceberg-env iceberg-tables clean java jar pictures verdicts mutations

help:
	@echo "make demo             index a live table while it changes, and answer from it"
	@echo "make demo-hudi        the same with two tables of Hudi, which need no Hudi"
	@echo "make demo-iceberg     the same with two tables of an Iceberg catalog, which pyiceberg writes"
	@echo "make test             lint, types, layers, tests; suites of the night where a change concerns them (docs/testing.md)"
	@echo "make tools            Prometheus, Alertmanager and Chromium, which some tests of make test need: as root of Debian"
	@echo "make lint             ruff, mypy and import-linter alone"
	@echo "make audit            known vulnerabilities of the pinned packages; status 75 of its command where nobody can be asked"
	@echo "make licences         the licences of what is installed beside tailbit: checks them, and writes their list into NOTICE"
	@echo "make proof            the suites of the night, and Spark judges every version of every history: SEED=1; to docs/testing.md"
	@echo "make suites           the suites of the night alone, those that a change since their last run concerns; to docs/testing.md"
	@echo "make mutations        hand-made faults, one a room, each of which a test must find: an hour or two; to docs/testing.md"
	@echo "make verdicts         ask Spark the constant questions of the tests and record its answers in tests/verdicts"
	@echo "make soak             kills and other faults under a live writer: SECONDS=3600 SEED=1; to docs/guarantees.md"
	@echo "make load             20 commits a second to 20 tables of one application: lag, memory (SECONDS=1200 TABLES=20 COMPACT=200);"
	@echo "                      KIND=definitions: indexes made and dropped beside a stream (KILLS=1: and killed)"
	@echo "make kill             an application of 5 tables is killed, and another takes over: KILLS=200 MINUTES=60; KIND=restarts:"
	@echo "                      the same is started again (RESTARTS=50); KIND=changes: a process that changes rows is killed"
	@echo "make bench            every benchmark, an hour or so: QUICK=1 for two minutes, BENCH='count rows' for some"
	@echo "make fuzz             random histories, indexes and questions, judged by other engines: KIND=histories SEED=1 SECONDS=3600;"
	@echo "                      make fuzz alone lists the kinds; KIND=bytes fuzzes the parsers, KIND=properties the property tests"
	@echo "make support-page     write docs/delta-support.md, hudi-support.md and iceberg-support.md from the marks on the tests"
	@echo "make functions-page   write docs/functions.md from the expressions that Spark judges"
	@echo "make python-page      write docs/python.md from the docstrings of the front door"
	@echo "make cli-page         write docs/cli.md from the help of the commands"
	@echo "make configuration-page write the options, arguments and keys of the code into docs/configuration.md"
	@echo "make pictures         take the pictures of the status page and of Spark's UI in docs/assets: needs Chromium"
	@echo "make site             the pages as a site with a search, a folder for each release, in build/site"
	@echo "make time-zones       write tables/zone_rules.txt from the JVM that Spark starts"
	@echo "make hudi-live        Hudi's own writer at work beside the shipped command, which is killed: INSTANTS=30 SEED=1"
	@echo "make hudi-tables      write the packed Hudi tables of the tests with Hudi on Spark 3.5: TABLES='cow_v9' for some"
	@echo "make iceberg-tables   write the packed Iceberg tables of the tests with Iceberg on Spark 4.1, and by pyiceberg and DuckDB: TABLES='lines_v2' for some"
	@echo "make constraints      pin the newest versions that fit pyproject.toml (needs uv)"
	@echo "make jar              the jar with which Spark's own queries use the index: javac, against the installed Spark"
	@echo "make release          wheel with the jar, source archive, Maven repository, bill of materials and checksums, in dist; TAG=v0.1.0"
	@echo "                      refuses what is not ready for that tag"
	@echo "make chart            helm lint on deploy/helm (needs Go), and the objects that it makes, in build/chart.yaml"
	@echo "make workflows        actionlint on .github/workflows (needs Go)"
	@echo "make clean            remove what the other targets made"

# Spark's classes are archived beside the tests that come first: every JVM that is started later maps them. The code is
# linted beside them, too: tests wait for limits and for Spark. One of the workers has Spark. Tests are compiled once
# before, not by each of the workers, also where Python may write no bytecode by itself.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.test-installed java jar
	@mkdir -p build; \
	(cd tests && nice $(BIN)/python -m support.shared_classes >/dev/null 2>&1) & \
	{ $(MAKE) --no-print-directory lint >build/lint.txt 2>&1 || { cat build/lint.txt >&2; false; }; } & lint=$$!; \
	$(BIN)/pytest -q --collect-only $(PYTEST_ARGS) >/dev/null; \
	$(BIN)/pytest -n 4 --dist loadscope --no-loadscope-reorder -q --since-proof $(PYTEST_ARGS); tests=$$?; \
	wait $$lint || { echo "make lint fails: build/lint.txt" >&2; exit 1; }; exit $$tests

# mypy and import-linter need the packages under their import names: a copied tree gives them that.
lint: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf build/tree && mkdir -p build/tree
	@cp -Rp tailbit build/tree/tailbit
	@cp -Rp $(PACKAGES) build/tree/tailbit/
	cd build/tree && $(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache tailbit ../../tests/support ../../examples/demo
	cd build/tree && $(BIN)/lint-imports --config ../../pyproject.toml --cache-dir ../../.import_linter_cache

# pip-audit has an environment of its own; CI goes on where it cannot be installed or cannot ask.
audit: | $(BIN)/python
	cd tests && $(BIN)/python -m support.audit --version $(PIP_AUDIT) --folder $(VENV)/audit $(AUDIT_ARGS)

licences: $(VENV)/.test-installed
	cd tests && $(BIN)/python -m support.licences --write

demo: $(VENV)/.demo-installed java
	@rm -rf build/demo
	cd examples && $(BIN)/python -m demo --folder $(CURDIR)/build/demo

demo-hudi: $(VENV)/.test-installed java
	cd tests && PYTHONPATH=../examples $(BIN)/python -m support.hudi_demo --folder $(CURDIR)/build/demo-hudi

demo-iceberg: $(VENV)/.test-installed java
	cd tests && PYTHONPATH=../examples $(BIN)/python -W ignore -m support.iceberg_demo --folder $(CURDIR)/build/demo-iceberg

# What `make test` judges at chosen versions, at all versions, and the suites of the night; it takes several times as long.
proof: $(VENV)/.test-installed java
	cd tests && $(BIN)/python -m support.proof --seed $(SEED) --record ../docs/testing.md

# The suites of the night that are due, one after the other; each that passes is recorded.
suites: $(VENV)/.test-installed java jar
	cd tests && $(BIN)/python -m support.proof --suites --record ../docs/testing.md

# Each fault alone in a copy of the tree; FAULTS=index/sql for some, which are not recorded.
mutations: $(VENV)/.test-installed java jar
	cd tests && nice $(BIN)/python -m support.mutations $(or $(FAULTS),--record ../docs/testing.md)

# Spark's answers to the constant questions of tests, recorded anew: review the difference before it is committed.
verdicts: $(VENV)/.test-installed java
	rm -rf tests/verdicts
	TAILBIT_RECORD_VERDICTS=1 $(BIN)/pytest -q $(shell grep -lE "verdicts|replayed_" tests/integration/test_*.py)

# The shipped command under faults, while a writer, readers and upkeep work on the same table.
soak: SECONDS = 3600
soak: $(VENV)/.test-installed java
	cd tests && $(BIN)/python -m support.soak --seconds $(SECONDS) --seed $(SEED) --record ../docs/guarantees.md

# Load of an application of tables, which get commits faster than people make them; of `definitions`, indexes of every
# kind are made, dropped and rebuilt beside the shipped command. Each run is recorded.
LOAD = cd tests && $(BIN)/python -m
load: $(VENV)/.test-installed java
ifeq ($(KIND),definitions)
	$(LOAD) support.load.definitions --seconds $(or $(SECONDS),600) --rate $(or $(RATE),2) --seed $(SEED) \
		$(if $(KILLS),--kill-every 45) --record ../docs/guarantees.md
else
	$(LOAD) support.load.many --seconds $(or $(SECONDS),1200) --rate $(or $(RATE),20) $(if $(TABLES),--tables $(TABLES)) \
		$(if $(COMPACT),--compact $(COMPACT)) --seed $(SEED) --record ../docs/guarantees.md
endif

# Kills of a kind: an application of tables, which another takes over (or, `restarts`, which is started again), or a
# process that changes rows.
kill: $(VENV)/.test-installed java
ifeq ($(KIND),changes)
	$(LOAD) support.row_changes.kills --seed $(SEED) --kills $(or $(KILLS),20) --record ../docs/guarantees.md
else ifeq ($(KIND),restarts)
	$(LOAD) support.kills_of_many --restarts $(or $(RESTARTS),50) --minutes $(or $(MINUTES),60) --seed $(SEED) --record ../docs/guarantees.md
else
	$(LOAD) support.kills_of_many --kills $(or $(KILLS),200) --minutes $(or $(MINUTES),60) --seed $(SEED) --record ../docs/guarantees.md
endif

bench: $(VENV)/.bench-installed java
	$(BIN)/python benchmarks/running/bench.py $(if $(QUICK),--quick) $(BENCH)

# What is fuzzed: a kind or several of them, as `python -m support.fuzzer --help` lists them; `bytes` are the parsers
# under a coverage-guided fuzzer, `properties` the tests of tests/property with many more examples.
fuzz: $(if $(filter bytes,$(KIND)),$(VENV)/.fuzz-installed,$(VENV)/.test-installed) java
ifeq ($(KIND),bytes)
	PYTHONPATH=tests $(BIN)/python tests/support/fuzz_bytes.py --seconds $(or $(SECONDS),60) $(TARGETS)
else ifeq ($(KIND),properties)
	HYPOTHESIS_PROFILE=deep TAILBIT_EXAMPLES=30 TAILBIT_SEEDS=20 $(BIN)/pytest -q tests/property tests/integration/test_differential.py $(PYTEST_ARGS)
else
	cd tests && $(BIN)/python -m support.fuzzer $(or $(KIND),--help) --seed $(SEED) $(if $(COUNT),--count $(COUNT)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(EACH),--each $(EACH)) --record ../docs/guarantees.md
endif

support-page: $(VENV)/.test-installed
	$(BIN)/pytest -q --collect-only tests --support-page docs/delta-support.md \
		--hudi-support-page docs/hudi-support.md --iceberg-support-page docs/iceberg-support.md >/dev/null

functions-page: $(VENV)/.test-installed
	cd tests && $(BIN)/python -m support.functions_page ../docs/functions.md

python-page: $(VENV)/.test-installed
	cd tests && $(BIN)/python -m support.python_page ../docs/python.md

cli-page: $(VENV)/.test-installed
	cd tests && $(BIN)/python -m support.cli_page ../docs/cli.md

.PHONY: configuration-page
configuration-page: $(VENV)/.test-installed
	cd tests && $(BIN)/python -m support.configuration_page ../docs/configuration.md

pictures: $(VENV)/.test-installed java
	TAILBIT_PICTURES=$(CURDIR)/docs/assets $(BIN)/pytest -q tests/e2e/test_browser.py

site: $(VENV)/.test-installed
	@rm -rf build/site
	cd tests && $(BIN)/python -m support.site_versions $(CURDIR)/build/site
	@echo "build/site/index.html"

# The rules of the JDK that the tests are run with: review the difference before it is committed.
time-zones: $(VENV)/.test-installed java
	cd tests && $(BIN)/python -m support.jvm_zones ../tables/zone_rules.txt

# The test environment is a superset of the demo's.
$(VENV)/.demo-installed: pyproject.toml constraints.txt | $(BIN)/python
	@test -e $(VENV)/.test-installed && test $(VENV)/.test-installed -nt pyproject.toml || \
		$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[demo]'
	@$(COMPILED)
	@touch $@

# Azurite is a server for the tests of tables in Azure: without npm these are left out.
$(VENV)/.test-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	@mkdir -p $(VENV)/azurite && cd $(VENV)/azurite && npm install --silent --no-audit --no-fund --prefix . \
		azurite@$(AZURITE) >/dev/null 2>&1 || echo "npm installs no Azurite: tables in Azure are not tested" >&2
	@$(COMPILED)
	@touch $@

$(VENV)/.bench-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	@touch $@

$(VENV)/.fuzz-installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[fuzz]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "tailbit needs Python 3.10 or newer; give one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

java:
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version >/dev/null 2>&1 || \
		{ echo "Java 17 or newer is needed (Spark runs on it): install a JDK, e.g. openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; }

# From Debian, as root; started by the tests alone. Without them the tests that need them are left out.
TOOLS := prometheus prometheus-alertmanager chromium
APT := DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=30

tools:
	@$(APT) update && $(APT) install -y --no-install-recommends $(TOOLS) >/dev/null

# A JDK of Java 17 or newer; what is built is carried by the wheel that is made after it.
jar: $(VENV)/.test-installed java
	@$(BIN)/python -m tailbit.spark.jar >/dev/null

.PHONY: release workflows chart
# The tools have an environment of their own: what they need pins nothing of ours.
release: $(VENV)/release/.installed $(VENV)/.test-installed java
	cd tests && $(BIN)/python -m support.release --tools $(VENV)/release/bin --into $(CURDIR)/dist $(if $(TAG),--tag "$(TAG)")

$(VENV)/release/.installed: Makefile | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip install --quiet $(RELEASE_TOOLS)
	@touch $@

# Helm is built from its source, once.
chart: $(VENV)/helm/helm
	$< lint --strict deploy/helm/tailbit
	@mkdir -p build
	$< template tailbit deploy/helm/tailbit --namespace tailbit --set namespace.create=true >build/chart.yaml

$(VENV)/helm/helm: Makefile
	GOBIN=$(VENV)/helm go install helm.sh/helm/v3/cmd/helm@$(HELM)
	@touch $@

workflows:
	GOBIN=$(VENV)/actionlint go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)
	$(VENV)/actionlint/actionlint

# Hudi has no bundle for the Spark of the tests: its tables are written in an environment of their own. What is
# written into a table names the folder where it was made, so that is the same folder on every machine.
HUDI_ENV := $(CURDIR)/build/hudi-env
HUDI_FOLDER ?= /tmp/tailbit-hudi-tables
INSTANTS ?= 30
TABLES ?=

hudi-env: $(HUDI_ENV)/.installed

$(HUDI_ENV)/.installed: tests/hudi_tables/requirements.txt
	$(PYTHON) -m venv $(HUDI_ENV)
	$(HUDI_ENV)/bin/python -m pip install --quiet -r tests/hudi_tables/requirements.txt
	$(HUDI_ENV)/bin/python tests/hudi_tables/session.py
	@touch $@

hudi-live: hudi-env $(VENV)/.test-installed java
	TAILBIT_LIVE_INSTANTS=$(INSTANTS) TAILBIT_LIVE_SEED=$(SEED) $(BIN)/pytest -q tests/fault/test_live_writers.py -k hudis

hudi-tables: hudi-env java
	nice $(HUDI_ENV)/bin/python tests/hudi_tables/make.py --folder $(HUDI_FOLDER) $(TABLES)

ICEBERG_ENV := $(CURDIR)/build/iceberg-env
ICEBERG_FOLDER ?= /tmp/tailbit-iceberg-tables

iceberg-env: $(ICEBERG_ENV)/.installed

$(ICEBERG_ENV)/.installed: tests/iceberg_tables/requirements.txt
	$(PYTHON) -m venv $(ICEBERG_ENV)
	$(ICEBERG_ENV)/bin/python -m pip install --quiet -r tests/iceberg_tables/requirements.txt
	@touch $@

iceberg-tables: iceberg-env java
	nice $(ICEBERG_ENV)/bin/python tests/iceberg_tables/make.py --folder $(ICEBERG_FOLDER) $(TABLES)
	nice $(ICEBERG_ENV)/bin/python tests/iceberg_tables/by_pyiceberg.py --folder $(ICEBERG_FOLDER)
	nice $(ICEBERG_ENV)/bin/python tests/iceberg_tables/by_duckdb.py --folder $(ICEBERG_FOLDER)

constraints:
	@{ echo "# Exact versions that were tested together; regenerate with: make constraints"; \
		uv pip compile --universal --python-version 3.10 --extra test --extra bench --extra fuzz \
		--quiet --no-header --no-annotate pyproject.toml; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
