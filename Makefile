# Targets are listed by `make help`. Everything they write lies in this checkout: .venv, .cache, .sandbox.
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
PROFILE ?= known_good
CHECKS ?=
GPU_PYTHON ?= /usr/bin/python3

ROOT := $(CURDIR)
CACHE := $(ROOT)/.cache
BIN := $(VENV)/bin

# A setting that is in the environment for another project must not reach this one, and nothing may land in $HOME or /tmp.
export ANSIBLE_CONFIG := $(ROOT)/ansible.cfg
export ANSIBLE_HOME := $(CACHE)/ansible
export ANSIBLE_LOCAL_TEMP := $(CACHE)/ansible/tmp
export ANSIBLE_COLLECTIONS_PATH := $(ROOT)/playbooks/collections
export PIP_CACHE_DIR ?= $(CACHE)/pip
export TMPDIR := $(CACHE)/tmp
# ansible-core refuses to start in a locale that is not UTF-8.
export LC_ALL := C.UTF-8
unexport ANSIBLE_INVENTORY ANSIBLE_ROLES_PATH ANSIBLE_LIBRARY ANSIBLE_STDOUT_CALLBACK ANSIBLE_VAULT_PASSWORD_FILE
unexport PYTHONPATH PYTHONHOME

PIP_INSTALL = $(BIN)/python -m pip install --quiet --quiet --no-input --disable-pip-version-check --no-deps

.PHONY: help setup demo test lint unit format pages sglang-options bench gpu-test gpu-bench changelog requirements clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: $(VENV)/.demo-stamp ## create .venv with ansible-core, pinned

demo: setup ## tune two sandbox nodes (no root, no GPU) and print what is in effect
	@$(BIN)/ansible-playbook playbooks/tune.yml -i inventories/sandbox -e profile=$(PROFILE)

test: $(CACHE)/tmp ## run every check; root or sudo installs what is missing (CHECKS="name ..." runs some)
	@$(PYTHON) tests/run_checks.py $(CHECKS)

lint: $(CACHE)/tmp ## run the fast checks: linters and conformance
	@$(PYTHON) tests/run_checks.py --group lint

unit: $(CACHE)/tmp ## run the unit tests
	@$(PYTHON) tests/run_checks.py --group unit

format: $(VENV)/.test-stamp ## sort imports and format the Python files
	@$(BIN)/ruff check --fix --exit-zero --quiet .
	@$(BIN)/ruff format .

pages: setup ## write the pages of docs/ that are made from data: the catalogue, the profiles' nodes, the causes of failed starts
	@$(BIN)/python tests/checks/nccl_variables.py --write
	@$(BIN)/python tests/checks/which_profile.py --write
	@$(BIN)/python tests/checks/sglang_causes.py --write

sglang-options: setup $(VENV)/.test-stamp ## write the options of SGLang anew from what its released parsers say (downloads all of them)
	@$(BIN)/python tests/checks/sglang_parsers.py --write

bench: setup ## compare steady-state tune.yml with a plain playbook, and measure start-up cost
	@$(BIN)/python tests/bench/run.py

changelog: $(VENV)/.test-stamp ## put the fragments, and new plugins, into the version that galaxy.yml names
	@PATH="$(ROOT)/$(BIN):$$PATH" antsibull-changelog release --update-existing --reload-plugins

gpu-test: setup ## on a GPU machine, as root, with nvcc: prove the probe, the preflight, the tune and the all-reduce (GPU_PYTHON=the Python with torch)
	@$(BIN)/python tests/gpu/probe_this_machine.py
	@$(BIN)/python tests/gpu/preflight_this_machine.py --interpreter $(GPU_PYTHON)
	@$(BIN)/python tests/gpu/tune_this_machine.py --interpreter $(GPU_PYTHON)
	@$(BIN)/python tests/gpu/allreduce_this_machine.py
	@$(BIN)/python tests/gpu/allreduce_this_machine.py --sanitizer memcheck
	@$(BIN)/python tests/gpu/allreduce_this_machine.py --sanitizer racecheck
	@$(BIN)/python tests/gpu/allreduce_layer.py --interpreter $(GPU_PYTHON)

gpu-bench: setup ## on a GPU machine with nvcc: time NCCL under the profiles, and the all-reduce beside NCCL and its rivals
	@$(BIN)/python tests/gpu/profile_latency.py --interpreter $(GPU_PYTHON)
	@$(BIN)/python tests/gpu/allreduce_latency.py --interpreter $(GPU_PYTHON)
	@$(BIN)/python tests/gpu/allreduce_rivals.py --interpreter $(GPU_PYTHON)

requirements: $(VENV)/.demo-stamp ## resolve requirements/*.in anew into the pinned *.txt
	@$(PIP_INSTALL) uv
	@cd requirements && for name in demo test; do \
	    "$(ROOT)/$(BIN)/uv" pip compile --quiet --upgrade --universal --python-version 3.11 --cache-dir "$(CACHE)/uv" \
	        --custom-compile-command "make requirements" --no-annotate "$$name.in" --output-file "$$name.txt" || exit 1; \
	done

clean: ## remove everything that these targets created
	@# An interrupted build of an image may have left /proc and /sys mounted below .cache.
	rm --one-file-system -rf .venv .cache .sandbox .ansible

$(CACHE)/tmp:
	@mkdir -p $@

# The stamps make a second run free of pip. A changed pin makes its stamp stale.
$(VENV)/.demo-stamp: requirements/demo.txt | $(CACHE)/tmp
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: Python 3.11 or newer is needed, and '$(PYTHON)' is not one. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    version=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "make: this Python cannot create virtual environments. On Debian and Ubuntu: apt-get install python$$version-venv" >&2; exit 1; }
	@echo "Creating $(VENV) with ansible-core ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --requirement requirements/demo.txt
	@touch $@

$(VENV)/.test-stamp: requirements/test.txt requirements/collections.txt requirements/unpack_podman.py $(VENV)/.demo-stamp
	@echo "Installing the test tools into $(VENV) ..."
	@$(PIP_INSTALL) --requirement requirements/test.txt
	@$(BIN)/python requirements/unpack_podman.py requirements/collections.txt $(CACHE)/wheels
	@touch $@
