# Everything rests on `make setup`: Python 3.11, make and a C compiler are enough.
PYTHON ?= python3
UV := $(shell command -v uv 2>/dev/null || echo $(PYTHON) -m uv)
BIN := .venv/bin

.PHONY: setup demo test lint mutants reproduce bench torture ensembles calibration table1 clean

setup: .venv/.made

.venv/.made: pyproject.toml uv.lock
	@command -v uv >/dev/null 2>&1 || $(PYTHON) -m uv --version >/dev/null 2>&1 || $(PYTHON) -m pip install --quiet uv \
		|| $(PYTHON) -m pip install --quiet --user --break-system-packages uv
	$(UV) sync --locked --quiet --compile-bytecode
	@touch $@

demo: setup
	$(BIN)/seerax train maze4 --steps 16000000 --out runs/demo --overwrite
	$(BIN)/seerax film runs/demo

reproduce: setup
	$(BIN)/seerax reproduce

bench: setup
	$(BIN)/seerax bench

test: setup lint
	$(BIN)/pytest -q -n 2 --dist loadfile tests

mutants: setup
	$(BIN)/python tools/mutants.py --baseline

torture: setup
	$(BIN)/python benchmarks/torture.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ensembles calibration table1: setup
	$(BIN)/python benchmarks/$@.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache
