"""Digests of what a run depends on: texts, and a model's weights, config and tokenizer."""

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

LENGTH = 16  # hexadecimal digits
INCIDENTAL = ("transformers_version", "_name_or_path", "dtype")  # config entries that describe a file, not a model


def weights_digest(model: "nn.Module") -> str:
    """Digest of all parameters and buffers, independent of where they were loaded from."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        digest.update(name.encode())
        digest.update(tensor.detach().flatten().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:LENGTH]


def config_digest(config: "PreTrainedConfig") -> str:
    """Digest of a config, independent of its origin and of the version of transformers that wrote it."""
    entries = {name: value for name, value in config.to_diff_dict().items() if name not in INCIDENTAL}
    return text_digest([repr(sorted(entries.items(), key=str))])


def tokenizer_digest(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Digest of everything a tokenizer does, whatever padding or truncation its last call used."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return text_digest([repr(sorted(tokenizer.get_vocab().items()))])
    from tokenizers import Tokenizer

    copy: Any = Tokenizer.from_str(backend.to_str())
    copy.no_padding()
    copy.no_truncation()
    return text_digest([str(copy.to_str())])


def text_digest(texts: Sequence[str]) -> str:
    """Digest of texts in their order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:LENGTH]
