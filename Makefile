PYTHON ?= python3
BIN := .venv/bin
# Tests sync thousands of times: a RAM disk spares a real one, where there is one with room.
ROOMY := import os, shutil; p = "/dev/shm"; print(p if os.path.isdir(p) and shutil.disk_usage(p).free > 4 << 30 else "")
RAM := $(shell $(PYTHON) -c '$(ROOMY)')

# Bytecode is kept, whatever the machine says: tests start hundreds of processes, and most of their time was compiling.
export PYTHONDONTWRITEBYTECODE :=

# One process more than there are cores, since many tests wait for a server.
WORKERS := $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# Frameworks that get an environment of their own, because their pins clash: each is an extra, and a folder of
# tests/adapters/. BESIDE_ names extras that its tests need as well.
ADAPTERS := claude-agent adk pydantic-ai pydantic-ai-harness
BESIDE_claude-agent := ,openai-agents

.PHONY: setup demo test test-adapters $(ADAPTERS:%=test-adapter-%) lint bench bench-check docs clean

setup: .venv/ready

.venv/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[dev]"
	touch $@

demo: setup
	$(BIN)/holdfast demo

test: setup
	$(if $(RAM),TMPDIR=$(RAM)) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-adapters:
	$(MAKE) --no-print-directory --jobs $(ADAPTERS:%=.venv-adapters/%/ready)
	$(MAKE) --no-print-directory $(ADAPTERS:%=test-adapter-%)

$(ADAPTERS:%=test-adapter-%): test-adapter-%: .venv-adapters/%/ready
	$(if $(RAM),TMPDIR=$(RAM)) .venv-adapters/$*/bin/python -m pytest -n auto tests/adapters/$(subst -,_,$*)

$(ADAPTERS:%=.venv-adapters/%/ready): .venv-adapters/%/ready: pyproject.toml Makefile .venv/ready
	test -x .venv-adapters/$*/bin/python || $(PYTHON) -m venv --without-pip .venv-adapters/$*
	$(BIN)/uv pip install --quiet --python .venv-adapters/$*/bin/python --editable ".[$*$(BESIDE_$*),adapter-tests]"
	touch $@

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/make_aio.py --check

# QUICK=--quick has tiny sizes, to see that everything works.
bench: .venv-bench/ready
	PYTHONPATH=tests .venv-bench/bin/python benchmarks/run.py $(QUICK)

bench-check: setup
	$(BIN)/python benchmarks/check.py

# The peers stay out of .venv, so that tests and lint need none of them.
.venv-bench/ready: pyproject.toml benchmarks/requirements.txt .venv/ready
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	$(BIN)/uv pip install --quiet --python .venv-bench/bin/python --editable ".[dev]" -r benchmarks/requirements.txt
	touch $@

docs: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	@echo "built build/site; to read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory build/site"

# The site's tools stay out of .venv, so that tests and lint need none of them.
.venv-docs/ready: pyproject.toml .venv/ready
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	$(BIN)/uv pip install --quiet --python .venv-docs/bin/python --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv .venv-docs .venv-adapters .venv-bench build benchmarks/bench-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
