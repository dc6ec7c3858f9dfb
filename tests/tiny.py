"""Tiny tokenizers that fit the 99 ids of `tests.families`, and the families' models with them."""

import string
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import thalweg as tw
from tests.families import BOS, BY_NAME, EOS, FIRST_WORD, MASK, PAD, VOCABULARY

UNKNOWN = FIRST_WORD - 1
SPECIAL = {"[PAD]": PAD, "[CLS]": BOS, "[MASK]": MASK, "[SEP]": EOS, "[UNK]": UNKNOWN}
_WORDS = """
the a an of to in on and is are was it this that not very old new good bad film movie story cat dog
keys cabinet table man woman sees likes runs play ##ing ##ed ##s ##er un ##happy happy wit ##ty . , !
? ' - ( ) : x ##x e ##e 1 2 3 مرحبا שלום 日 本
"""
WORDS = _WORDS.split()
SENTENCE = "the keys to the cabinet are on the old table."
HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
BYTE_LEVEL = ("gpt2", "llama", "opt")  # families that get the byte-level tokenizer


def tiny_subject(family: str = "bert") -> tw.Subject:
    """A random model of the family with a tokenizer that knows a few English words."""
    tokenizer = byte_level() if family in BYTE_LEVEL else wordpiece()
    return tw.load(BY_NAME[family].build(), tokenizer)


def save_folder(folder: Path, family: str = "bert") -> Path:
    """Write the same as a checkpoint folder."""
    subject = tiny_subject(family)
    subject.model.save_pretrained(folder)
    assert subject.tokenizer is not None
    subject.tokenizer.save_pretrained(folder)
    return folder


def wordpiece() -> PreTrainedTokenizerFast:
    """WordPiece, like BERT: words are split at white space and punctuation, then into ##pieces."""
    inner = Tokenizer(models.WordPiece(_vocabulary(WORDS), unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return _between_specials(inner)


def whole_words(words: Sequence[str] = WORDS) -> PreTrainedTokenizerFast:
    """One token for everything between spaces; nothing is normalised."""
    inner = Tokenizer(models.WordLevel(_vocabulary(words), unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return _between_specials(inner)


def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE, like GPT-2: no special tokens, spaces belong to words, an emoji is several bytes."""
    letters = [*string.ascii_lowercase, "Ġ", "Ċ", *".,!?'-", *"ðŁĺĢĤ"]
    merges = [("h", "e"), ("t", "he"), ("Ġ", "the"), ("k", "e"), ("ke", "y"), ("Ġ", "t")]
    pieces = [*letters, *("".join(pair) for pair in merges)]
    inner = Tokenizer(models.BPE(_vocabulary(pieces), merges, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return _fast(inner)


def sentence_pieces() -> PreTrainedTokenizerFast:
    """Unigram, like SentencePiece: the text is not split first, so all of it has one word id."""
    scores = [(piece, 0.0) for piece in SPECIAL]
    scores += [(f"▁{word}", -1.0) for word in ("the", "film", "un", "a")]
    scores += [(word, -1.0) for word in ("happy", "ing", "play", ".", ",")]
    scores += [(letter, -5.0) for letter in ["▁", *string.ascii_lowercase]]
    inner = Tokenizer(models.Unigram(scores, unk_id=UNKNOWN, byte_fallback=False))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    inner.decoder = decoders.Metaspace()
    return _fast(inner)


def _vocabulary(pieces: Sequence[str]) -> dict[str, int]:
    vocabulary = {**SPECIAL, **{piece: FIRST_WORD + i for i, piece in enumerate(pieces)}}
    assert len(vocabulary) == len(SPECIAL) + len(pieces) <= VOCABULARY
    return vocabulary


def _between_specials(inner: Tokenizer) -> PreTrainedTokenizerFast:
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", BOS), ("[SEP]", EOS)],
    )
    return _fast(inner)


def _fast(inner: Tokenizer) -> PreTrainedTokenizerFast:
    inner.add_special_tokens([AddedToken(piece, special=True) for piece in SPECIAL])
    assert inner.get_vocab_size() <= VOCABULARY
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def snapshot(model: PreTrainedModel) -> dict[str, object]:
    """Everything that a capture must leave unchanged, in a form that can be compared with ==."""
    modules = dict(model.named_modules())
    own = {id(c): c for m in modules.values() if (c := getattr(m, "config", None)) is not None}
    configs = [
        each for config in own.values() for each in (config, *(
            getattr(config, name) for name in config.sub_configs if hasattr(config, name)
        ))
    ]  # fmt: skip
    return {
        "implementations": [config._attn_implementation_internal for config in configs],
        "configs": [repr(config.to_dict()) for config in configs],
        "hooks": {(name, kind): list(vars(module)[kind].items()) for name, module in modules.items() for kind in HOOKS},
        "global hooks": [list(vars(torch.nn.modules.module)[f"_global{kind}"]) for kind in HOOKS[:2]],
        "forwards": [name for name, module in modules.items() if "forward" in vars(module)],
        "modes": {name: module.training for name, module in modules.items()},
        "parameters": {
            name: (p.requires_grad, p.grad is None, p._version, p.dtype) for name, p in model.named_parameters()
        },
        "random": torch.get_rng_state().tolist(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
    }
