"""Tokenizers: learnt from the training texts, or somebody else's; and texts as token ids."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase

from thalweg.errors import InputError
from thalweg.progress import progress

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CHARACTERS = 1000  # that the most frequent are spelt with; others become [UNK]
TWICE = 2  # how often something is seen before it becomes a piece
READ = ["input_ids", "attention_mask"]  # what the models here are given


def learn_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """A lower-casing WordPiece of at most so many pieces; the same texts give the same one, whatever the process.

    The trainer numbers the pieces inside of words (##a) in the order of a hash table, and breaks ties by number. It
    is told them beforehand, in the order of their code points.
    """
    inner: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    characters = min(CHARACTERS, (vocabulary - len(SPECIAL)) // 2)  # each alone and inside of words
    counts = Counter(character for text in texts for character in inner.normalizer.normalize_str(text))
    frequent = sorted(counts, key=lambda character: (-counts[character], character))[:characters]
    inside = [f"##{character}" for character in sorted(frequent) if not character.isspace()]
    trainer: Any = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL, *inside],
        limit_alphabet=characters,
        min_frequency=TWICE,
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return BertTokenizer(vocab=inner.get_vocab(), do_lower_case=True)


def prepared(tokenizer: PreTrainedTokenizerBase, longest: int) -> PreTrainedTokenizerBase:
    """A copy that gives the model what it reads; the caller's stays as it is."""
    if tokenizer.pad_token_id is None:
        raise InputError("the tokenizer has no padding token; choose one that has, such as that of a BERT")
    own = deepcopy(tokenizer)
    own.model_input_names = own.init_kwargs["model_input_names"] = list(READ)  # the second is what is saved
    own.model_max_length = longest
    own.padding_side = own.truncation_side = "right"
    return own


def token_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], longest: int | None) -> list[list[int]]:
    """The ids of every text, cut at so many tokens; a text without a token of its own is an error."""
    unknown: Any = tokenizer.unk_token_id  # still a word
    special = set(tokenizer.all_special_ids) - {unknown}
    options: dict[str, Any] = {} if longest is None else {"truncation": True, "max_length": longest}
    found: list[list[int]] = []
    with progress("reading texts") as report:
        for first in range(0, len(texts), 1000):
            some = tokenizer(list(texts[first : first + 1000]), **options)["input_ids"]
            assert isinstance(some, list)
            found += some
            report(len(found), len(texts))
    for text, ids in zip(texts, found, strict=True):
        if special.issuperset(ids):
            raise InputError(f"the text {text[:40]!r} has no tokens of its own for this tokenizer: leave it out")
    return found
