"""Model input as one right-padded batch on the model's device, and the tokens of each example."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from transformers import PreTrainedModel

from thalweg.capture.run import Lengths
from thalweg.errors import InputError
from thalweg.models.inputs import ModelInput, read_inputs
from thalweg.models.padding import batch_of, pad_id, real_rows, right_padded
from thalweg.models.tokenize import Tokenizer, special_ids, tokenize_target, tokens_from_ids
from thalweg.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Encoded:
    """A batch for the model; `lengths` and tokens are None where inputs are pixels or sound.

    `cut` holds the number of tokens of a text before it was cut, and 0 for a text that was not.
    """

    inputs: dict[str, Tensor]
    lengths: list[Lengths] | None
    source: list[Tokens] | None  # tokens of the encoder of an encoder-decoder
    target: list[Tokens] | None
    single: bool
    cut: tuple[int, ...] = ()

    @property
    def longest(self) -> int:
        """The most tokens that an example has in one sequence; 0 for pixels and sound."""
        return max((max(length.source or 0, length.target) for length in self.lengths or ()), default=0)


def encode(
    model: PreTrainedModel,
    tokenizer: Tokenizer | None,
    inputs: ModelInput,
    target_text: str | Sequence[str] | None = None,
    truncate: bool = False,
) -> Encoded:
    """Check the input and convert it to a batch, without running the model.

    With `truncate`, texts of more tokens than the model has positions for are cut.
    """
    has_decoder = bool(getattr(model.config, "is_encoder_decoder", False))
    if target_text is not None and not has_decoder:
        raise InputError("target_text is for encoder-decoder models; this model has no decoder")
    raw = read_inputs(tokenizer, inputs, pad_id(model, tokenizer), position_limit(model) if truncate else None)
    tensors, sources = raw.tensors, None
    expected = getattr(model, "main_input_name", "input_ids")
    if expected not in tensors:
        raise InputError(f"the model expects {expected}, got {', '.join(tensors)}")
    if "input_ids" in tensors:
        tensors = right_padded(tensors)
        rows = real_rows(tensors)
        _check_ids(model, tokenizer, rows)
        sources = raw.tokens or [tokens_from_ids(tokenizer, row) for row in rows]
    if not has_decoder:
        lengths = [Lengths(None, len(tokens)) for tokens in sources] if sources else None
        return Encoded(_placed(model, tensors), lengths, None, sources, raw.single, raw.cut)
    tensors, targets = _with_decoder(model, tokenizer, tensors, target_text)
    lengths = None
    if sources:
        lengths = [Lengths(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    return Encoded(_placed(model, tensors), lengths, sources, targets, raw.single, raw.cut)


def position_limit(model: PreTrainedModel, decoder: bool = False) -> int | None:
    """The number of tokens that the model has positions for; None if positions are unlimited."""
    limit = getattr(model.config, "max_position_embeddings", None)
    if decoder:
        limit = getattr(model.config, "max_target_positions", limit)  # Whisper's name for its text
    if not isinstance(limit, int) or limit <= 0:
        return None
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return limit - module.padding_idx - 1  # RoBERTa counts from after its padding id
    return limit


def _check_ids(
    model: PreTrainedModel, tokenizer: Tokenizer | None, rows: list[list[int]], decoder: bool = False
) -> None:
    vocabulary = getattr(model.get_input_embeddings(), "num_embeddings", None)
    positions = position_limit(model, decoder)
    special = special_ids(tokenizer)
    for ids in rows:
        if positions is not None and len(ids) > positions:
            raise InputError(
                f"the input has {len(ids)} tokens, but the model has positions for {positions}: shorten or split it, "
                "or load the model with truncate=True (--truncate) to cut long texts"
            )
        unknown = [i for i in ids if i < 0 or (vocabulary is not None and i >= vocabulary)]
        if unknown:
            raise InputError(
                f"token id {unknown[0]} is outside the model's vocabulary of {vocabulary} ids: use the tokenizer that "
                "belongs to the model"
            )
        if special.issuperset(ids):
            raise InputError("the input has only special tokens; expected a text to explain")


def _with_decoder(
    model: PreTrainedModel,
    tokenizer: Tokenizer | None,
    inputs: dict[str, Tensor],
    target_text: str | Sequence[str] | None,
) -> tuple[dict[str, Tensor], list[Tokens]]:
    """Add the decoder's input: its own ids, the target text after the start token, or that token alone."""
    if "decoder_input_ids" in inputs:
        if target_text is not None:
            raise InputError("expected target_text or decoder_input_ids, not both")
        inputs = right_padded(inputs, "decoder_")
        rows = real_rows(inputs, "decoder_")
        _check_ids(model, None, rows, decoder=True)
        return inputs, [tokens_from_ids(tokenizer, row) for row in rows]
    tokens = _target_tokens(model, tokenizer, len(next(iter(inputs.values()))), target_text)
    rows = [[i for i in target.ids if i is not None] for target in tokens]
    _check_ids(model, None, rows, decoder=True)
    batch = batch_of(rows, pad_id(model, tokenizer))
    return {**inputs, **{f"decoder_{name}": tensor for name, tensor in batch.items()}}, tokens


def _target_tokens(
    model: PreTrainedModel, tokenizer: Tokenizer | None, batch: int, target_text: str | Sequence[str] | None
) -> list[Tokens]:
    start = getattr(model.config, "decoder_start_token_id", None)
    start = model.generation_config.decoder_start_token_id if start is None else start
    if start is None:
        raise InputError("the model has no decoder_start_token_id: add decoder_input_ids to the input")
    if target_text is None:
        return [tokens_from_ids(tokenizer, [start])] * batch
    texts = [target_text] if isinstance(target_text, str) else target_text
    if not (isinstance(texts, Sequence) and all(isinstance(text, str) for text in texts)):
        kind = type(target_text).__name__
        raise InputError(f"target_text must be a text, or one text per input, got {target_text!r} ({kind})")
    if tokenizer is None:
        raise InputError("target_text needs a tokenizer, but the model was loaded without one")
    if len(texts) != batch:
        raise InputError(f"expected one target text per input, got {len(texts)} target texts for {batch} inputs")
    return [tokenize_target(tokenizer, text, start) for text in texts]


def _placed(model: PreTrainedModel, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value.to(model.device, model.dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
    }
