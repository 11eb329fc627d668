# One command for each thing. Needs python3 (3.11 or newer) with venv, git and make; nothing else.

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-deps --require-hashes
# An own interpreter: make setup PYTHON=python3.13
PYTHON  ?=
# Passed on to the command: make test ARGS="tests/unit -k forms", make up ARGS="--port 9000"
ARGS    ?=
DATA    ?= $(or $(REJOINDER_DATA),.data)
GROUPS  := run agents build test check live bench lock
HERE    := $(abspath $(VENV))

.PHONY: help setup setup-test setup-check up test check live bench package lock clean distclean venv

help:
	@echo "make up      start everything on this machine and print the inbox' address (Ctrl-C stops it)"
	@echo "make setup   install into $(VENV) only; the command is then $(BIN)/rejoinder"
	@echo "make test    run the tests; make test ARGS=tests/unit runs some of them"
	@echo "make check   linters, types, import rules, and that the lock fits pyproject.toml"
	@echo "make live    tests in a real browser, with a real OpenClaw Gateway and a real Open WebUI"
	@echo "make bench   measure everything that docs/reference/performance.md tells"
	@echo "make package build the wheel and the source archive into dist/"
	@echo "make lock    pin the dependencies anew after a change (UPGRADE=1 takes newer versions)"
	@echo "make clean   remove caches and built files; make distclean removes $(VENV) too. Neither touches $(DATA)"

# In two steps, because make looks for the mark before the first step may have removed it.
setup: venv
	@$(MAKE) -s $(VENV)/.run

up: setup
	@$(BIN)/rejoinder up --data "$(DATA)" $(ARGS)

# A file of tests for each core. ARGS="-n 0 ..." runs them in one process, as a debugger wants it.
test: setup-test
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

check: setup-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests $(if $(wildcard bench/*.py),bench) $(if $(wildcard examples/*.py examples/*/*.py),examples)
	$(BIN)/lint-imports
	$(BIN)/python requirements/verify.py
	$(PIP) check

live: setup-test
	@$(MAKE) -s $(VENV)/.live
	@sh tests/live/browser.sh
	@$(BIN)/python -m tests.live.install
	@$(BIN)/python -m pytest tests/live $(ARGS)

# What Rejoinder is measured beside lives in an environment of its own.
bench: setup-test
	@[ -x .venv-bench/bin/python ] || $(BIN)/python -m venv .venv-bench
	@$(MAKE) -s .venv-bench/.bench
	@$(BIN)/python -m bench $(ARGS)

.venv-bench/.bench: requirements/bench.txt
	@echo "Installing what Rejoinder is measured beside"
	@.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r $<
	@touch $@

package: setup
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t wheel -t sdist

setup-test: setup
	@$(MAKE) -s $(VENV)/.test

setup-check: setup-test
	@$(MAKE) -s $(VENV)/.check

# A moved clone or a removed interpreter leaves an environment that cannot run; it is made anew.
venv:
	@if [ -e $(VENV) ] && ! { $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    && head -n 1 $(BIN)/pip 2>/dev/null | grep -qF "$(HERE)/"; }; then \
	    echo "$(VENV) does not work here any more; making it anew."; rm -rf $(VENV); fi
	@[ -e $(BIN)/python ] || { python=`PYTHON="$(PYTHON)" sh requirements/python.sh` \
	    && echo "Making $(VENV) with `$$python --version`" && $$python -m venv $(VENV); }

# The marks are files in the environment: nothing is done where nothing changed.
$(VENV)/.run: requirements/run.txt requirements/agents.txt requirements/build.txt pyproject.toml
	@echo "Installing the dependencies (under a minute)"
	@$(INSTALL) -r requirements/run.txt -r requirements/agents.txt -r requirements/build.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@# Python may have been told not to write compiled files; without them every command starts a second later.
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.test $(VENV)/.check $(VENV)/.live: $(VENV)/.%: requirements/%.txt
	@echo "Installing what 'make $*' needs"
	@$(INSTALL) -r $<
	@touch $@

# uv only resolves; it lives in an environment of its own and is needed by nobody but whoever changes dependencies.
lock: venv
	@[ -x .venv-lock/bin/uv ] || { $(BIN)/python -m venv .venv-lock && .venv-lock/bin/pip install --quiet -r requirements/lock.txt; }
	@sh requirements/lock.sh $(if $(UPGRADE),--upgrade) $(GROUPS)
	@$(BIN)/python requirements/verify.py

clean:
	rm -rf dist build .mypy_cache .ruff_cache .hypothesis .import_linter_cache .pytest_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .venv-lock .venv-bench
