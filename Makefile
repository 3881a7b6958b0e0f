# Everything here works on a machine that has Python 3.11 or newer, pip and make, and nothing else set up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
DEPS   := pyproject.toml constraints.txt

.PHONY: demo test lint bench clean

demo: $(VENV)/.local  ## run every study on real weights and print one table
	$(BIN)/howsure demo

test: lint  ## lint, then the whole suite, two files at a time with one thread each
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev  ## measure, as ratios within one run; see benchmarks/README.md
	$(BIN)/python -m benchmarks

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: $(DEPS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable ".[local,grid,gui,web]"
	touch $@

$(VENV)/.dev: $(DEPS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable ".[local,grid,gui,gemini,web,dev]"
	@# KenLM comes as source only. Without a C++ compiler the tests that hold ours against it are left out, and say so.
	$(PIP) install --quiet --constraint constraints.txt --editable ".[kenlm]" || echo "kenlm could not be built here"
	touch $@ $(VENV)/.local

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
