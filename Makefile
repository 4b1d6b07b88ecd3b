# make demo and make test set up everything they need, the virtual environment included.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test docs package lint format bench clean

demo: $(READY)
	$(BIN)/epagcl train demo --references --out runs/demo --overwrite
	@echo "open runs/demo/report.html; then your own graph: epagcl embed --edges e.csv --features f.npy --out z.npy"

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2

docs: $(READY)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

# Wheel and sdist, each installed and run in an empty environment, then every extra by itself.
package: $(READY)
	$(BIN)/python tests/package.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "epagcl needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "epagcl needs Python's venv module: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $(READY)

clean:
	rm -rf $(VENV) runs dist docs/_build .pytest_cache .ruff_cache
