# Every target sets up what it needs first; nothing is done twice.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup sim test lint format lock clean distclean

PYTHON_FILES := $(wildcard src launch scripts benchmarks)
ACTIVATE := source env.sh

# Variables on make's command line become launch arguments: `make sim seed=2` launches with seed:=2.
GIVEN = $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
LAUNCH_ARGUMENTS = $(foreach name,$(filter-out ARGS,$(GIVEN)),$(name):='$($(name))')

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: ## install what is missing, make .venv, build the workspace
	@scripts/setup.sh

sim: setup ## calibrate in the simulated world; arguments: make sim seed=2, or ARGS="seed:=2"
	@$(ACTIVATE); exec cue launch sim_world.launch.py $(if $(filter headless,$(GIVEN)),,headless:=true) $(LAUNCH_ARGUMENTS) $(ARGS)

# Whole graphs of processes are tested alone: they have to keep time.
SYSTEM_TESTS := src/cue/test/system
test: setup ## run the default tests; ARGS="-k table" chooses
ifeq ($(strip $(ARGS)),)
	@$(ACTIVATE); failed=0; python -m pytest -n 2 --dist loadfile --ignore=$(SYSTEM_TESTS) || failed=1; \
	python -m pytest $(SYSTEM_TESTS) || failed=1; exit $$failed
else
	@$(ACTIVATE); exec python -m pytest $(ARGS)
endif

lint: setup ## check style, types and the project's own rules
	@$(ACTIVATE); ruff check $(PYTHON_FILES); ruff format --check $(PYTHON_FILES); mypy; \
	for check in scripts/check_*.py; do if [[ -e $$check ]]; then python "$$check"; fi; done

format: setup ## put the Python files into shape
	@$(ACTIVATE); ruff check --fix --select I $(PYTHON_FILES); ruff format $(PYTHON_FILES)

lock: setup ## resolve requirements*.in into requirements.lock anew (needs the registry)
	@scripts/lock.sh

clean: ## remove what was built, keep .venv and runs/
	@rm -rf build install log .mypy_cache .pytest_cache .ruff_cache

distclean: clean ## remove .venv too; runs/ stays
	@rm -rf .venv .venv-bench
