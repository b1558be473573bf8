# Everything runs in .venv; stamp files make a second run start at once.
#   make demo     profile two kernels, leave trace.json and show it
#   make test     lint, types, tests on the Triton of .venv
#   make matrix   what depends on Triton, on the other supported versions
#   make lint     ruff and mypy alone
#   make docs     the site, in build/site
#   make bench    profscope beside Proton; needs a GPU

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCHED := $(VENV)/.torch
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs

# The pair that a machine without a GPU gets. A machine with one uses the torch and Triton it has.
TORCH := torch==2.13.0
TRITON := triton==3.7.1
MATRIX := 3.6.0 3.8.0 3.9.0

# Where torch and Triton are installed, if they are and see a GPU. (A venv made from a venv does not see the
# outer one's packages, so the path is handed on.)
FIND_GPU := import os, sys, torch, triton; torch.cuda.is_available() or sys.exit(1); \
    print("import site; site.addsitedir(" + repr(os.path.dirname(os.path.dirname(torch.__file__))) + ")")
SITE := import sysconfig; print(sysconfig.get_path("purelib"))
OLD_PYTHON := "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12 ..."

# Most modules of torch and Triton are never imported; those that are get compiled then.
INSTALL := $(BIN)/pip install -q --no-compile

# Where nothing compiled is kept, every process that a test starts compiles all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test tests lint types docs bench matrix exhaustive $(MATRIX:%=matrix-%) clean

demo: $(RUNTIME)
	$(BIN)/python -m profscope.demo trace.json
	$(BIN)/profscope view trace.json

# One process uses the GPU, if there is one; the rest of the tests have a process for each core.
PYTEST := -m pytest -q -p no:cacheprovider
HAS_GPU := import ctypes, sys; sys.exit(ctypes.CDLL("libcuda.so.1").cuInit(0))
PARALLEL := -n auto --dist worksteal

# mypy and the tests run at the same time; if either fails, so does this.
test: $(DEV)
	$(MAKE) --no-print-directory -j2 lint types tests

tests: lint
	if $(BIN)/python -c '$(HAS_GPU)' 2>/dev/null; then $(BIN)/python $(PYTEST) -m gpu; fi
	$(BIN)/python $(PYTEST) $(PARALLEL) -m 'not gpu and not exhaustive'

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

# Links that lead nowhere stop it.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(RUNTIME)
	$(BIN)/python -m bench

matrix: $(MATRIX:%=matrix-%)

# What `make test` leaves out, to take less than ten minutes; and all examples of Hypothesis's tests.
exhaustive: $(DEV)
	$(BIN)/python $(PYTEST) $(PARALLEL) -m 'not gpu and (exhaustive or hypothesis)' --hypothesis-profile=thorough

# What depends on the version (tests/support/other_tritons.py) on one Triton alone, first on the path; pytest
# stops if another one is imported.
# (A static pattern: make looks for no implicit rule for a phony target.)
$(MATRIX:%=matrix-%): matrix-%: .matrix/%/.installed
	PYTHONPATH=.matrix/$* $(BIN)/python $(PYTEST) $(PARALLEL) -m 'not gpu' --expect-triton $*

.matrix/%/.installed: $(DEV)
	rm -rf .matrix/$*
	$(INSTALL) --no-deps --target .matrix/$* triton==$*
	touch $@

.PRECIOUS: .matrix/%/.installed

$(TORCHED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo $(OLD_PYTHON) >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	if outer=$$($(PYTHON) -c '$(FIND_GPU)' 2>/dev/null); \
	then echo "$$outer" > "$$($(BIN)/python -c '$(SITE)')/outer.pth"; \
	else $(INSTALL) $(TORCH) $(TRITON); fi
	touch $@

$(RUNTIME): pyproject.toml $(TORCHED)
	$(INSTALL) 'setuptools>=77'
	$(INSTALL) --no-build-isolation -e .
	touch $@

# What $(RUNTIME) installs, and more.
$(DEV): pyproject.toml $(TORCHED)
	$(INSTALL) 'setuptools>=77'
	$(INSTALL) --no-build-isolation -e '.[dev]'
	touch $(RUNTIME) $@

$(DOCS): $(RUNTIME)
	$(INSTALL) --no-build-isolation -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) .matrix build dist *.egg-info trace.json
