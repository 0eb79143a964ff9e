# Two commands for a fresh machine with nothing but Python 3.11 or newer:
#   make verify   makes an environment, installs, checks the default kernels, prints the margins
#   make test     the same environment with the test tools, then the test suite
#   make replay   computes anew all that was recorded on an H200 and compares hashes
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Many small products: threads of a BLAS would fight each other for the cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

# What takes too long for every run is divided, and the number of the run chooses the part.
RUN ?= $(or $(GITHUB_RUN_NUMBER),$(shell git rev-list --count HEAD))

.PHONY: verify test replay replay-part lint types theorems package docs clean

verify: $(VENV)/core
	$(BIN)/dmverify verify

test: $(VENV)/test
	RUN=$(RUN) $(BIN)/python -m pytest -n 2 --dist worksteal

# Everything that an H200 answered, computed anew; replay-part takes smoke, the core, and of the rest
# the tenth that the number of commits chooses, so that ten runs in a row take all of it.
replay: $(VENV)/core
	$(BIN)/dmverify lab replay -j 2

replay-part: $(VENV)/core
	$(BIN)/dmverify lab replay --parts smoke,core --run $(RUN) -j 2

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

# The wheel and the sdist: built, compared with the tree, tried in an empty environment.
package: $(VENV)/test
	bash .ci/package $(BIN)/python

# The documentation as a site, in site/; any warning is an error.
docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# Needs coqc with Flocq (Debian: coq, libcoq-flocq, libcoq-interval); the two commands above do not.
theorems: $(VENV)/test
	$(BIN)/dmverify prove --theorems

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[torch]'
	touch $@

$(VENV)/test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[torch,test,oracle,prove,report,gpu,scale]'
	touch $@ $(VENV)/core

$(VENV)/docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info
