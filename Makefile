# The project's verbs. Each makes what it needs; the first one on a fresh machine makes `.venv`.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test check fix fuzz soak docs wheel sanitize bench bench-train

demo: .venv/.installed            ## embed sentences with "bow", show which occurrences are alike
	$(BIN)/python examples/bow.py

test: check                       ## everything that must hold; pytest speaks last
	$(BIN)/python -m pytest --quiet

check: .venv/.installed-dev       ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: .venv/.installed-dev         ## what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: .venv/.installed-dev        ## damaged files of every format, for five minutes; findings in build/fuzz
	$(BIN)/python -m tools.fuzz --seconds 300

soak: .venv/.installed-dev        ## load, kills, full disks, fuzzing: under 20 minutes
	$(BIN)/python -m tools.soak --json docs/benchmarks/soak.json

docs: .venv/.installed-dev        ## the documentation site, from docs/ and the docstrings; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo build/docs/index.html

wheel: .venv/.installed-dev       ## a wheel with compiled kernels, installed and tried without a compiler
	tools/check_wheel.sh

sanitize:                         ## the kernels under AddressSanitizer, UBSan and ThreadSanitizer
	tools/sanitize.sh

bench: .venv/.installed-dev       ## the numbers of docs/ and README, measured here
	benchmarks/peers.sh allennlp
	$(BIN)/python -m benchmarks.embed --json docs/benchmarks/embed.json
	$(BIN)/python -m benchmarks.score --json docs/benchmarks/score.json
	$(BIN)/python -m benchmarks.tables

bench-train: .venv/.installed-dev ## training speed against AI2's bilm, in one run
	benchmarks/peers.sh bilm
	$(BIN)/python -m benchmarks.train --json docs/benchmarks/train.json
	$(BIN)/python -m benchmarks.tables

# The stamps say "installed from these two files". An environment that cannot run pip
# (half-made, or its Python has gone) is made anew; a working one is kept and brought up to date.
.venv/.installed: pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(PIP_INSTALL) --editable ".[dev]"
	@touch .venv/.installed $@
