# A clone needs two commands: `make benchmark` and `make test`. Each sets itself up. `make help` lists all targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SUITE ?= quick
CORES := $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
JOBS ?= $(CORES)
RESULTS ?= results
SITE ?= site
RUN ?=
EDITION ?=
COMMITS ?= 3
DRAWS ?= 10000
INSTANCES ?= 1000
LIMIT ?= 1
CROSSCHECK ?= crosscheck-results
MUTANTS ?= 200
KERNELS ?= 50
SEED ?= 0
BRANCH ?=
BUILDER ?= auditwheel

# pip without its update notice; versions are pinned in constraints.txt, and the pinned cffi compiles the C core
C_CORE := $(shell find c_src -name '*.[ch]')
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt

.PHONY: setup help benchmark run leaderboard edition docs review test thorough fuzz crosscheck mutants measure large screenshots lint format dist trial replay asv instances clean

setup: $(VENV)/base ## the virtual environment (every other target sets it up)

help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# Packages that pyproject.toml lists under a key.
PACKAGES = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]$(1))'

# One core compiles while the other unpacks. Compile again whenever the C core or the list of dependencies changes.
$(VENV)/base: pyproject.toml setup.py constraints.txt $(C_CORE) c_src/build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: expected Python 3.11 or newer as $(PYTHON), found $$($(PYTHON) -V 2>&1); try make PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) (half a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) setuptools cffi
	@$(INSTALL) --no-build-isolation --no-deps --editable . & core=$$!; \
	  $(INSTALL) $$($(call PACKAGES,["dependencies"])); unpacked=$$?; wait $$core && exit $$unpacked
	@touch $@

# One stamp per extra: test, lint, asv, docs, run, stablehlo, .... Only its packages, as reinstalling the project would compile
# the core again; Python compiles their modules once they are imported, which most never are.
$(VENV)/extra-%: $(VENV)/base
	@$(INSTALL) --no-compile $$($(call PACKAGES,["optional-dependencies"]["$*"]))
	@touch $@

RUNS = $(BIN)/shardmark run --suite '$(SUITE)' --jobs $(JOBS) --results '$(RESULTS)' $(RUN)
PAGES = $(BIN)/shardmark leaderboard --suite '$(SUITE)' --results '$(RESULTS)' --output '$(SITE)'

# Runs that failed (3) have their place on the site as well, and fail the target after it.
benchmark: $(VENV)/base ## run a suite (SUITE=quick JOBS=N RUN=options) and build its site; quick: 2 to 4 minutes on 2 cores
	@$(RUNS); runs=$$?; { test $$runs -eq 0 || test $$runs -eq 3; } && $(PAGES) || exit; \
	  echo "open file://$$(realpath '$(SITE)')/index.html"; \
	  test -f '$(SITE)/docs/index.html' || echo 'make docs adds the documentation'; exit $$runs

run: $(VENV)/base ## the runs of a suite alone
	@$(RUNS)

leaderboard: $(VENV)/base ## the site of runs that are done (RESULTS=results SITE=site)
	@$(PAGES)

edition: $(VENV)/base ## the site of the newest published campaign, in seconds, with nothing run (EDITION=name SITE=site)
	@$(BIN)/shardmark edition site $(EDITION) --output '$(SITE)'
	@echo "open file://$$(realpath '$(SITE)')/index.html"

# It opens from disk; the leaderboard links to it.
docs: $(VENV)/extra-docs ## the documentation, into site/docs (SITE=site)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --site-dir '$(SITE)/docs'
	@test ! -f '$(RESULTS)/results.sqlite' || $(MAKE) --no-print-directory leaderboard # now with a link to it
	@echo "open $(SITE)/docs/index.html"

# The workflow `submission` does this for a pull request; its seed is the number of the workflow's run.
review: $(VENV)/base ## run and verify what a branch adds to this commit (BRANCH=name SEED=0 JOBS=N RUN=options)
	@$(BIN)/shardmark review '$(BRANCH)' --seed '$(SEED)' --jobs $(JOBS) $(RUN)

# Test files run in parallel, two more than cores but at most four, as tests often wait.
# PYTEST="--forks=0 -x tests/harness" runs one after another.
test: $(VENV)/extra-test ## the quick tests (PYTEST=options); all of them with SHARDMARK_GATE=1
	@$(BIN)/python -m pytest --forks=$$(($(CORES) < 2 ? 3 : 4)) --durations=10 $(PYTEST)

thorough: ## all cases of all tests, of which the gate runs a part; ten minutes (PYTEST=options)
	@SHARDMARK_GATE=thorough $(MAKE) --no-print-directory test

# Small instances with extreme numbers, every solver and bound on each, against exact oracles, a dot is 50 instances.
fuzz: $(VENV)/extra-test ## all claims of all solvers against exact oracles, about two hours (DRAWS=10000 per track)
	@SHARDMARK_DRAWS=$(DRAWS) $(BIN)/python -m pytest --numprocesses=logical --show-capture=no tests/fuzz $(PYTEST)

# Instances of 8 to 60 nodes, every bound and exact method on each, against each other. Resumes where it stopped.
crosscheck: $(VENV)/extra-test ## claims of methods against each other, 8 to 60 nodes (INSTANCES=1000 per track LIMIT=1 JOBS=N CROSSCHECK=folder)
	@$(BIN)/python -m tests.fuzz.crosscheck --instances $(INSTANCES) --seconds $(LIMIT) --jobs $(JOBS) --results '$(CROSSCHECK)'

# A survivor changes nothing that matters, or no test says what its line is for. Interrupted, it goes on from there; after a
# new test, RUN=--again repeats the survivors.
mutants: $(VENV)/extra-test ## random changes of one place that no test notices, about an hour (MUTANTS=200 KERNELS=50 SEED=0)
	@$(BIN)/python -m tests.mutants --draws $(MUTANTS) --c $(KERNELS) --seed $(SEED) $(RUN)

# Precision of limits, overhead of 10,000 runs, predictions of stages, campaigns on Dask that are disturbed, and 100 kills each
# of a campaign and of a site's build: minutes, on an otherwise idle machine.
measure: $(VENV)/extra-test ## how precisely limits hold and stages are predicted, some minutes
	@SHARDMARK_KILLS=100 $(BIN)/python -m pytest -s $(wildcard tests/harness/sandbox/precision/measure_*.py tests/performance/measure_*.py tests/harness/campaign/dask/measure_*.py) tests/harness/campaign/test_kill.py tests/leaderboard/test_kill.py $(PYTEST)

large: $(VENV)/extra-test ## seconds, memory and sizes of the site of 300,000 generated runs (SITE=site)
	@$(BIN)/python -m tests.performance.large_site '$(SITE)-large'

# Needs Debian's package chromium. Look at them after a change of a page.
screenshots: $(VENV)/extra-test ## pictures of the site's pages, phone to screen, light and dark (SITE=site)
	@$(BIN)/python tests/leaderboard/browser/screenshots.py '$(SITE)' '$(SITE)-screenshots'
	@echo "look at $(SITE)-screenshots"

lint: $(VENV)/extra-lint ## format, rules and types of all code, and the workflows
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/clang-format --dry-run --Werror $(C_CORE) $(wildcard tests/c_src/*.[ch] tests/c_src/*/*.[ch] examples/c/*.c)
	@$(BIN)/zizmor --offline --quiet .github/workflows
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml

format: $(VENV)/extra-lint ## fix what `make lint` finds, as far as possible
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(C_CORE) $(wildcard tests/c_src/*.[ch] tests/c_src/*/*.[ch] examples/c/*.c)

# The wheel is built from the source distribution, here or, for a release, by cibuildwheel in a container with old libraries.
WHEEL_BY_auditwheel = $(PIP) wheel --no-deps --wheel-dir build/wheel dist/*.tar.gz && \
  PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
WHEEL_BY_cibuildwheel = $(BIN)/cibuildwheel --platform linux --output-dir dist dist/*.tar.gz

dist: $(VENV)/extra-dist ## source distribution and wheel, checked (BUILDER=cibuildwheel: the wheel in manylinux's container)
	@rm -rf dist build/wheel
	@$(BIN)/python -m build --sdist >/dev/null
	@$(WHEEL_BY_$(BUILDER))
	@$(BIN)/twine check --strict dist/*

trial: ## the wheel of `make dist` in an empty environment, without a compiler (PYTHON=python3.12)
	@$(PYTHON) tests/support/github/trial.py dist/*.whl

# Pythons that are not installed are skipped. Nothing is published, and no container is used.
replay: $(VENV)/extra-test ## the workflows ci, pages and release in new clones, as GitHub would run them; an hour (PYTEST="-k pages")
	@SHARDMARK_REPLAY=1 $(BIN)/python -m pytest -n0 -ra --timeout 0 tests/test_workflow_replay.py $(PYTEST)

# Times and gaps of the last COMMITS commits, drawn as a page of the site that opens from disk.
asv: ## times and gaps of the last commits (COMMITS=3)
	@expr '$(COMMITS)' : '[1-9][0-9]*$$' >/dev/null || \
	  { echo "make: expected a whole number of commits of at least 1, found COMMITS=$(COMMITS)" >&2; exit 2; }
	@command -v git >/dev/null || { echo "make: expected git, from which asv takes the commits" >&2; exit 2; }
	@test -e .git && git rev-parse --quiet --verify HEAD >/dev/null || \
	  { echo "make: expected a clone with its commits, which asv measures; found no git repository in $(CURDIR)" >&2; exit 2; }
	@git rev-parse --quiet --verify 'HEAD~$(COMMITS)' >/dev/null || \
	  { found=$$(git rev-list --first-parent --count HEAD); \
	    fewer=$$(test $$found -eq 1 || echo "; give COMMITS=$$((found - 1)) or fewer"); \
	    whole=$$(test $$(git rev-parse --is-shallow-repository) = false || echo "; fetch the whole history with git fetch --unshallow"); \
	    echo "make: expected at least $$(($(COMMITS) + 1)) commits, found $$found$$fewer$$whole" >&2; exit 2; }
	@git diff --quiet HEAD || echo "make: changes that are not committed are not measured" >&2
	@$(MAKE) --no-print-directory $(VENV)/extra-asv
	@$(BIN)/asv machine --yes >/dev/null
	@$(BIN)/asv run --skip-existing-successful HEAD~$(COMMITS)..HEAD || test $$? -eq 2 # 2: a benchmark failed: its history has a gap
	@$(BIN)/python -m shardmark.leaderboard.regressions .asv/results '$(SITE)'
	@test ! -f '$(RESULTS)/results.sqlite' || $(MAKE) --no-print-directory leaderboard # now with a link to it

# The embedded instances again from their seeds and models; `git diff` stays empty.
instances: $(VENV)/extra-stablehlo ## the embedded instances again from their seeds and models
	@$(BIN)/python -m shardmark.instances.generate.embedded
	@$(BIN)/python -m shardmark.instances.models.suite

clean: ## delete everything that was made, including results
	rm -rf $(VENV) $(SITE) $(RESULTS) .asv build dist *.egg-info solvers/_core.* instances/files/_reader.* .pytest_cache .hypothesis .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
