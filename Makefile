PYTHON ?= python3
BIN := .venv/bin
# Tests sync thousands of times: a RAM disk spares a real one, where there is one with room.
ROOMY := import os, shutil; p = "/dev/shm"; print(p if os.path.isdir(p) and shutil.disk_usage(p).free > 4 << 30 else "")
RAM := $(shell $(PYTHON) -c '$(ROOMY)')

.PHONY: setup demo test lint bench clean

setup: .venv/ready

.venv/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[dev]"
	touch $@

demo: setup
	$(BIN)/python examples/demo.py

test: setup
	$(if $(RAM),TMPDIR=$(RAM)) $(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/make_aio.py --check

bench: setup
	$(BIN)/python benchmarks/append.py

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
