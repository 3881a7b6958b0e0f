# Everything here works on a machine that has Python 3.11 or newer, pip and make, and nothing else set up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
DEPS   := pyproject.toml constraints.txt
# Two files at a time with one thread each. Some hundred processes are started, which need not compile all anew.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-all test-faults fuzz lint bench coverage clean

demo: $(VENV)/.local  ## run every study on real weights and print one table
	$(BIN)/howsure demo

test:  ## lint, then the suite; about six minutes on two cores
test-all:  ## lint, then everything: every study, every fault, many examples of each property
test test-all: $(VENV)/.dev $(VENV)/.browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# mypy works beside the tests, and is heard at their end.
	@$(BIN)/mypy >$(VENV)/mypy.log 2>&1 & mypy=$$!; \
	$(PYTEST); tests=$$?; wait $$mypy; types=$$?; cat $(VENV)/mypy.log; exit $$((tests | types))

test-faults: $(VENV)/.dev  ## the long fault suite: kills, full disks, bad servers, dead workers and machines
	$(PYTEST) tests/faults

test-all test-faults: export HOWSURE_TESTS = long

fuzz: $(VENV)/.dev  ## every reader against broken input, a minute each; see docs/security.md
	$(BIN)/python -m fuzz

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev  ## measure, as ratios within one run; see benchmarks/README.md
	$(BIN)/python -m benchmarks

coverage: $(VENV)/.dev  ## do the intervals cover what they say? see docs/intervals.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: $(DEPS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable ".[local,grid,gui,web]"
	touch $@

$(VENV)/.dev: $(DEPS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable ".[local,grid,gui,gemini,inspect,web,ray,s3,dev]"
	@# KenLM comes as source only. Without a C++ compiler the tests that hold ours against it are left out, and say so.
	$(PIP) install --quiet --constraint constraints.txt --editable ".[kenlm]" || echo "kenlm could not be built here"
	touch $@ $(VENV)/.local

# The viewer's tests need a real Chromium. Debian's package is installed where that is allowed; elsewhere these tests are
# left out, and say so. CHROMIUM names one that lies somewhere else.
$(VENV)/.browser: | $(VENV)/bin/python
	@if [ -n "$$CHROMIUM" ] || command -v chromium || command -v chromium-browser || command -v google-chrome; then touch $@; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing Debian's chromium for the viewer's tests"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
	    >$(VENV)/chromium.log 2>&1 && touch $@ || \
	    echo "chromium could not be installed ($(VENV)/chromium.log): the viewer's tests in a browser are left out"; \
	else echo "no chromium here, and no right to install it: the viewer's tests in a browser are left out"; fi

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
