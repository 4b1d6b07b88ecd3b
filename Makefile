# `make demo` and `make test` set up everything they need, including the virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The package alone, which is all that the demo needs; and with everything that tests and development need.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
# Interpreters of `make pythons`, and the PyTorch version of `make lowest` (by default the lowest allowed one).
PYTHONS ?= python3.11 python3.12 python3.13
TORCH ?=
# With HASHED=1, packages are installed from requirements-ci.txt, and their files must have the hashes listed there.

.PHONY: demo test long quick lint types coverage trust sbom audit requirements lowest pythons docs package format bench hooks clean

# A quarter of the default epochs: the first run, with the installation, takes less than three minutes on two cores.
demo: $(INSTALLED)
	$(BIN)/epagcl train demo --epochs 60 --references --out runs/demo --overwrite
	@echo "open runs/demo/report.html; then your own graph: epagcl embed --edges e.csv --features f.npy --out z.npy"

# Linter, layers, types, all tests and doctests.
test: lint types
	$(BIN)/python -m pytest -n 2 -m "not long"

# The tests that take a quarter of a minute or more.
long: $(READY)
	$(BIN)/python -m pytest -n 2 -m long

# The tests without those marked slow: under two minutes on two cores.
quick: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow and not long"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy

# All tests, slower, with the coverage floor of pyproject.toml.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term-missing:skip-covered

# Damaged files, odd commands, kills, full disks, long runs, mutants: many cases, in a few hours; results in
# results/trust. With MINUTES=60, no part starts after an hour; the parts with the oldest results come first.
trust: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.trust $(if $(MINUTES),--minutes $(MINUTES))

# The list of dependencies (CycloneDX), known weaknesses among them, and their hashes for CI.
sbom audit requirements: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[audit]'
	$(BIN)/python tests/supply_chain.py $@ $(if $(FIND_LINKS),--find-links $(FIND_LINKS))

# The quick tests with the lowest versions that pyproject.toml allows, in an environment of their own.
lowest: $(READY)
	$(BIN)/python tests/environments.py lowest $(if $(TORCH),--torch $(TORCH))

# The quick tests with each Python that is installed.
pythons: $(READY)
	$(BIN)/python tests/environments.py pythons $(PYTHONS)

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

# Wheel and sdist, each installed and run in an empty environment, then every extra by itself.
package: $(READY)
	$(BIN)/python tests/package.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks

hooks: $(READY)
	$(BIN)/pre-commit install

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "epagcl needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "epagcl needs Python's venv module: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
ifdef HASHED
	$(PIP) -c constraints.txt torch
	$(PIP) --no-deps --require-hashes -r requirements-ci.txt
	$(PIP) --no-deps --no-build-isolation -e .
else
	$(PIP) -c constraints.txt -e .
endif
	@touch $(INSTALLED)

$(READY): $(INSTALLED)
ifndef HASHED
	$(PIP) -c constraints.txt -e '.[test]'
endif
	@touch $(READY)

clean:
	rm -rf $(VENV) .venv-* runs dist docs/_build .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .coverage
