"""Hidden states of a batch of texts at every layer: the inputs and the targets of probes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import StopPassError, Tap
from thalweg.capture.prove.block import non_finite_error
from thalweg.capture.record import Capture
from thalweg.capture.run import check_ready, replay
from thalweg.errors import InputError, ProofError
from thalweg.models.encode import Encoded
from thalweg.models.subject import Subject
from thalweg.numerics import relative_error, tolerance, working
from thalweg.tokens import Tokens

CANDIDATE_ELEMENTS = 2**22  # numbers of vocabulary candidates held at once: 16 MB in float32


@dataclass(frozen=True, eq=False)
class HiddenStates:
    """The states of all tokens of several texts, concatenated, at every layer.

    Layer 0 is the input of the first attention block (the output of the embedding stage), layer l the output of the
    lth layer, MLP included. `special` tokens ([CLS], [SEP]) are candidates of a search but are not tested.
    """

    layers: Float[Tensor, "layer token width"]
    ids: Int[Tensor, " token"]
    special: Bool[Tensor, " token"]
    texts: tuple[slice, ...]  # the tokens of each text
    tokens: tuple[Tokens, ...]
    encoded: Encoded


def read_states(subject: Subject, texts: Sequence[str]) -> HiddenStates:
    """Run the texts as one batch; padding is removed, so each text has the states it would have alone."""
    encoded = encode_texts(subject, texts)
    assert encoded.target is not None
    anatomy = subject.anatomy(encoded)
    layer_taps = _LayerTaps(anatomy)
    with torch.no_grad():
        record = replay(subject.model, encoded.inputs, anatomy, layer_taps)
    values = record.tensors
    batch, length = encoded.inputs["input_ids"].shape
    counts = [len(tokens) for tokens in encoded.target]
    real = torch.arange(length)[None] < torch.tensor(counts)[:, None]  # [text position]
    kept = [values[tap].reshape(batch, length, -1).cpu()[real] for tap in layer_taps.order]
    layers = torch.stack(kept).to(working(kept[0].dtype))
    if not layers.isfinite().all():
        raise non_finite_error(layer_taps.order[int((~layers.isfinite()).flatten(1).any(1).int().argmax())].module)
    ends = torch.tensor(counts).cumsum(0).tolist()
    return HiddenStates(
        layers=layers,
        ids=encoded.inputs["input_ids"].cpu()[real],
        special=torch.tensor([special for tokens in encoded.target for special in tokens.special]),
        texts=tuple(slice(end - count, end) for end, count in zip(ends, counts, strict=True)),
        tokens=tuple(encoded.target),
        encoded=encoded,
    )


def encode_texts(subject: Subject, texts: Sequence[str]) -> Encoded:
    """Encode texts as a batch; raises for models that are not a single stack of layers over one text."""
    if subject.task in ("seq2seq", "speech_seq2seq") or getattr(subject.model.config, "is_encoder_decoder", False):
        raise InputError(
            f"{subject.name!r} is an encoder-decoder, where a token has no single column of states; probes need an "
            "encoder or a decoder-only language model"
        )
    if getattr(subject.model, "main_input_name", "input_ids") != "input_ids":
        raise InputError(f"{subject.name!r} does not read text; probes need a model with token inputs")
    check_ready(subject.model)
    return subject.encode(list(texts))


def words_at_positions(
    subject: Subject, states: HiddenStates
) -> Iterator[tuple[slice, Float[Tensor, "word position width"]]]:
    """Embed every word of the vocabulary at each position with the model's own embedding stage, in chunks.

    The stage treats tokens independently (verified when the wiring was learnt), so a row that repeats one word gives
    the embeddings of that word at all positions. The pass ends before attention.
    """
    encoded = states.encoded
    anatomy = subject.anatomy(encoded)
    longest = int(encoded.inputs["attention_mask"].sum(1).argmax())
    row = {name: value[longest : longest + 1] for name, value in encoded.inputs.items()}
    length = row["input_ids"].shape[1]
    count = vocabulary_size(subject)
    step = max(1, CANDIDATE_ELEMENTS // (length * states.layers.shape[-1]))
    embedding_tap = _EmbeddingTap(anatomy.blocks[0].residual)
    for first in range(0, count, step):
        words = torch.arange(first, min(first + step, count), device=row["input_ids"].device)
        inputs = {name: value.expand(len(words), *value.shape[1:]) for name, value in row.items()}
        inputs["input_ids"] = words[:, None].expand(-1, length)
        with torch.no_grad():
            embedded = replay(subject.model, inputs, anatomy, embedding_tap).seen[0].value
        embedded = embedded.reshape(len(words), length, -1).cpu()
        yield slice(first, first + len(words)), embedded.to(states.layers.dtype)


def vocabulary_size(subject: Subject) -> int:
    """The number of words that the model can embed, including special and unused ones."""
    size: Any = subject.model.get_input_embeddings().num_embeddings
    return int(size)


def verified_capture(subject: Subject, text: str) -> Capture:
    """Capture one text, and check that its blocks have the states that `read_states` returns."""
    capture = subject.capture(text)
    states = read_states(subject, [text]).layers
    for block, state in zip(capture.blocks, states[:-1], strict=True):
        error = relative_error(state, block.input.cpu())
        if not error <= tolerance(block.input.dtype, block.input.shape[-1]):
            raise ProofError(f"the input states of {block.name!r} differ by {error:.1e} (relative) between two passes")
    return capture


class _LayerTaps:
    """Run the model's own attention and record the states between its layers."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.order = [anatomy.blocks[0].residual, *anatomy.states.after]

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        return set(self.order)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()


@dataclass(frozen=True)
class _EmbeddingTap:
    """Record the input of the first block, and end the pass there."""

    tap: Tap

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        return {self.tap}

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        raise StopPassError
