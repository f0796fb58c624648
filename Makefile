# One entry point for people and CI; `make` alone lists the targets. Needs GNU make, Python 3.11+ with venv, and cc for tests.

SHELL := /bin/sh
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help venv demo test soak lint format bench screenshots clean

help:
	@printf '%s\n' \
	  'make demo         the screen on simulated GPUs and a sample queue of real jobs' \
	  'make test         all tests with reduced counts (under 10 minutes on 2 cores)' \
	  'make soak         the same tests with full counts (under 35 minutes)' \
	  'make lint         ruff, mypy --strict, import arrows' \
	  'make format       rewrite the code in the project style' \
	  'make bench        measure gputui against its peers and print a table of ratios' \
	  'make screenshots  draw the pictures of the README anew' \
	  'make clean        remove .venv and what tools left behind'

venv: $(READY)

$(READY): requirements.lock pyproject.toml
	@python=; for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo 'gputui needs Python 3.11 or newer: sudo apt-get install python3 python3-venv' >&2; exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "$$python has no venv module: sudo apt-get install python3-venv python$$version-venv" >&2; exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -c '' 2>/dev/null; then $$python -m venv --clear .venv; fi
	@echo 'Installing what gputui needs into .venv (a minute or so the first time)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: compiler
compiler:
	@command -v cc >/dev/null || { echo 'The tests build a stand-in for the NVIDIA library and need a C compiler: sudo apt-get install gcc libc6-dev' >&2; exit 1; }

demo: $(READY)
	@$(BIN)/gputui demo

test: $(READY) compiler
	$(PYTEST)

soak: $(READY) compiler
	GPUTUI_SOAK=1 $(PYTEST) --timeout 1800

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY) compiler
	$(BIN)/python -m bench.run

screenshots: $(READY)
	$(BIN)/python -m tests.tui.screenshots screenshots

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find gputui tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
