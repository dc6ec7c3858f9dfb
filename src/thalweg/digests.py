"""Digests of the things that a run depends on: texts, and a model's weights, config and tokenizer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

DIGEST_LENGTH = 16  # hexadecimal digits
# Config entries that describe a file or how it was loaded, not the model.
INCIDENTAL = {"transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures"}


def weights_digest(model: "nn.Module") -> str:
    """Digest of the names, shapes, dtypes and values of all parameters and buffers, also of non-persistent ones."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        digest.update(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
        digest.update(tensor.detach().flatten().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:DIGEST_LENGTH]


def config_digest(config: "PreTrainedConfig") -> str:
    """Digest of a config and its class, independent of its origin and of the version of transformers."""
    entries = [type(config).__name__, config.model_type, _without_incidental(config.to_diff_dict())]
    return text_digest([json.dumps(entries, sort_keys=True, default=repr)])


def tokenizer_digest(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Digest of how a tokenizer splits texts, independent of the padding and truncation of its last call."""
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
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:DIGEST_LENGTH]


def _without_incidental(entry: Any) -> Any:
    """The entry without incidental names, at any depth; keys become text, so that they can be sorted."""
    if isinstance(entry, Mapping):
        return {str(key): _without_incidental(value) for key, value in entry.items() if key not in INCIDENTAL}
    return [_without_incidental(item) for item in entry] if isinstance(entry, list | tuple) else entry
