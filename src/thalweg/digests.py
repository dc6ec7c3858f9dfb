"""Short names for what a run depends on, so that it can be told from another: texts, and the weights of a model."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

NOT_OF_A_MODEL = ("transformers_version", "_name_or_path", "dtype")  # in its config: who wrote it, where, how precisely


def fingerprint(model: "nn.Module") -> str:
    """The same for the same weights, wherever they were loaded from."""
    import torch

    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().flatten().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def architecture(config: "PreTrainedConfig") -> str:
    """The same for the same config, wherever it was loaded from and whatever version of transformers wrote it down."""
    found = {name: value for name, value in config.to_diff_dict().items() if name not in NOT_OF_A_MODEL}
    return digest([repr(sorted(found.items(), key=str))])


def described(tokenizer: "PreTrainedTokenizerBase") -> str:
    """All that a tokenizer does, as text: the same for the same one, however it was padded or cut by its last call."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return repr(sorted(tokenizer.get_vocab().items()))
    from tokenizers import Tokenizer

    own: Any = Tokenizer.from_str(backend.to_str())
    own.no_padding()
    own.no_truncation()
    return str(own.to_str())


def digest(texts: Sequence[str]) -> str:
    """The same for the same texts in the same order."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
