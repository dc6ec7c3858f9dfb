"""The bundled model performs as its card says."""

import re
from pathlib import Path
from typing import Any

import torch

import thalweg as tw
from thalweg.models.load import DEFAULT_FOLDER


def test_bundled_model_when_measured_then_has_the_accuracy_of_its_card(bundled: tw.Subject, shared_data: Path) -> None:
    lines = (shared_data / "sst2_sentences" / "dev.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    assert len(rows) == 872
    assert bundled.tokenizer is not None
    right = 0
    for start in range(0, len(rows), 64):
        texts, labels = zip(*rows[start : start + 64], strict=True)
        with torch.no_grad():
            logits = bundled.model(**bundled.tokenizer(list(texts), return_tensors="pt", padding=True)).logits
        predicted = [("negative", "positive")[int(i)] for i in logits.argmax(-1)]
        right += sum(a == b for a, b in zip(predicted, labels, strict=True))
    card = re.search(r"SST-2 dev \|[^|]*\| ([0-9.]+) %", (DEFAULT_FOLDER / "README.md").read_text())
    assert card is not None
    assert abs(100 * right / len(rows) - float(card[1])) < 0.06
    assert right / len(rows) >= 0.82


def test_bundled_model_when_inspected_then_is_small_and_has_small_heads(bundled: tw.Subject) -> None:
    files = {path.name: path.stat().st_size for path in DEFAULT_FOLDER.iterdir()}
    assert sum(files.values()) <= 12_000_000
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in files)
    config: Any = bundled.model.config
    assert config.id2label == {0: "negative", 1: "positive"}
    assert config.hidden_size // config.num_attention_heads == 16
    assert type(bundled.model).__name__ == "BertForSequenceClassification"
