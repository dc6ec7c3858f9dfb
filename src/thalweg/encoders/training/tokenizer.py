"""Tokenizers, learnt from the training texts or supplied, and texts as token ids."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase

from thalweg.errors import InputError
from thalweg.progress import progress

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS = 1000  # of the alphabet; rarer characters become [UNK]
MIN_FREQUENCY = 2  # occurrences of a piece
MODEL_INPUTS: tuple[str, ...] = ("input_ids", "attention_mask")
TEXTS_AT_ONCE = 1000


def learn_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """Learn a lower-casing WordPiece tokenizer of at most this many pieces; deterministic across processes.

    The trainer numbers pieces inside words (##a) in the order of a hash table and breaks ties by number. Passing them
    as special tokens, in the order of their code points, makes the result deterministic.
    """
    inner: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    characters = min(MAX_CHARACTERS, (vocabulary - len(SPECIAL)) // 2)  # each at the start of and inside words
    counts = Counter(character for text in texts for character in inner.normalizer.normalize_str(text))
    frequent = sorted(counts, key=lambda character: (-counts[character], character))[:characters]
    inside = [f"##{character}" for character in sorted(frequent) if not character.isspace()]
    trainer: Any = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL, *inside],
        limit_alphabet=characters,
        min_frequency=MIN_FREQUENCY,
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=inner.get_vocab(), do_lower_case=True)


def prepare_tokenizer(tokenizer: PreTrainedTokenizerBase, longest: int) -> PreTrainedTokenizerBase:
    """A copy of a tokenizer that returns the inputs of our models, truncated and padded on the right."""
    if tokenizer.pad_token_id is None:
        raise InputError("the tokenizer has no padding token; use one that has, such as BERT's")
    own = deepcopy(tokenizer)
    own.model_input_names = own.init_kwargs["model_input_names"] = list(MODEL_INPUTS)  # the latter is saved
    own.model_max_length = longest
    own.padding_side = own.truncation_side = "right"
    return own


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int | None) -> list[list[int]]:
    """The ids of every text, truncated to `longest` tokens; raises for a text without tokens of its own."""
    unknown: Any = tokenizer.unk_token_id  # counts as a word
    special = set(tokenizer.all_special_ids) - {unknown}
    options: dict[str, Any] = {} if longest is None else {"truncation": True, "max_length": longest}
    rows: list[list[int]] = []
    with progress("reading texts") as report:
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            ids = tokenizer(list(texts[start : start + TEXTS_AT_ONCE]), **options)["input_ids"]
            assert isinstance(ids, list)
            rows += ids
            report(len(rows), len(texts))
    for text, ids in zip(texts, rows, strict=True):
        if special.issuperset(ids):
            raise InputError(f"the text {text[:40]!r} has no tokens of its own with this tokenizer; remove it")
    return rows
