"""The hidden states of a batch of texts at every layer: what probes read, and what they are asked to recover."""

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
from thalweg.models.encode import Encoded, encode
from thalweg.models.load import Subject
from thalweg.numerics import relative_error, tolerance, working
from thalweg.tokens import Tokens

CANDIDATE_ELEMENTS = 2**22  # numbers of vocabulary candidates held at once: 16 MB in float32


@dataclass(frozen=True, eq=False)
class States:
    """All tokens of some texts, one text after the other, at every layer.

    Layer 0 is what enters the first attention block (the embedding stage's output), layer l what leaves the lth
    layer, MLP included. `special` tokens ([CLS], [SEP]) are candidates of a search, but nobody asks for them.
    """

    layers: Float[Tensor, "layer token width"]
    ids: Int[Tensor, " token"]
    special: Bool[Tensor, " token"]
    texts: tuple[slice, ...]  # where each text's tokens stand
    tokens: tuple[Tokens, ...]
    encoded: Encoded


def read_states(subject: Subject, texts: Sequence[str]) -> States:
    """Run the texts as one batch; each has the states that it would have alone, padding is cut away."""
    encoded = encoded_texts(subject, texts)
    assert encoded.target is not None
    anatomy = subject.anatomy(encoded)
    places = _Layers(anatomy)
    with torch.no_grad():
        record = replay(subject.model, encoded.inputs, anatomy, places)
    seen = record.tensors
    batch, length = encoded.inputs["input_ids"].shape
    counts = [len(tokens) for tokens in encoded.target]
    real = torch.arange(length)[None] < torch.tensor(counts)[:, None]  # [text position]
    kept = [seen[tap].reshape(batch, length, -1).cpu()[real] for tap in places.order]
    layers = torch.stack(kept).to(working(kept[0].dtype))
    if not layers.isfinite().all():
        raise non_finite_error(places.order[int((~layers.isfinite()).flatten(1).any(1).int().argmax())].module)
    ends = torch.tensor(counts).cumsum(0).tolist()
    return States(
        layers=layers,
        ids=encoded.inputs["input_ids"].cpu()[real],
        special=torch.tensor([special for tokens in encoded.target for special in tokens.special]),
        texts=tuple(slice(end - count, end) for end, count in zip(ends, counts, strict=True)),
        tokens=tuple(encoded.target),
        encoded=encoded,
    )


def encoded_texts(subject: Subject, texts: Sequence[str]) -> Encoded:
    """The texts as a batch for a model that reads one text and is one stack of layers; others are refused."""
    if subject.task in ("seq2seq", "speech_seq2seq") or getattr(subject.model.config, "is_encoder_decoder", False):
        raise InputError(
            f"{subject.name!r} is an encoder-decoder, where a token has no one column of states to follow: probes take "
            "an encoder or a decoder-only language model"
        )
    if getattr(subject.model, "main_input_name", "input_ids") != "input_ids":
        raise InputError(f"{subject.name!r} reads no text, and what it reads has no token to recover")
    check_ready(subject.model)
    return encode(subject.model, subject.tokenizer, list(texts))


def words_at_positions(
    subject: Subject, states: States
) -> Iterator[tuple[slice, Float[Tensor, "word position width"]]]:
    """Every word of the vocabulary as the model's own embedding stage has it at each position, a few at a time.

    The stage lets each token go its own way (that was proved when the wiring was learnt), so a row that holds one
    word everywhere gives that word at all positions. The pass ends before attention.
    """
    encoded = states.encoded
    anatomy = subject.anatomy(encoded)
    longest = int(encoded.inputs["attention_mask"].sum(1).argmax())
    row = {name: value[longest : longest + 1] for name, value in encoded.inputs.items()}
    length = row["input_ids"].shape[1]
    count = vocabulary_size(subject)
    step = max(1, CANDIDATE_ELEMENTS // (length * states.layers.shape[-1]))
    bottom = _Bottom(anatomy.blocks[0].residual)
    for first in range(0, count, step):
        words = torch.arange(first, min(first + step, count), device=row["input_ids"].device)
        inputs = {name: value.expand(len(words), *value.shape[1:]) for name, value in row.items()}
        inputs["input_ids"] = words[:, None].expand(-1, length)
        with torch.no_grad():
            seen = replay(subject.model, inputs, anatomy, bottom).seen[0].value
        candidates = seen.reshape(len(words), length, -1).cpu()
        yield slice(first, first + len(words)), candidates.to(states.layers.dtype)


def vocabulary_size(subject: Subject) -> int:
    """How many words the model can embed, special and unused ones among them."""
    size: Any = subject.model.get_input_embeddings().num_embeddings
    return int(size)


def proved(subject: Subject, text: str) -> Capture:
    """A verified capture of one text, whose blocks have the states that are read here."""
    capture = subject.capture(text)
    states = read_states(subject, [text]).layers
    for block, state in zip(capture.blocks, states[:-1], strict=True):
        error = relative_error(state, block.input.cpu())
        if not error <= tolerance(block.input.dtype, block.input.shape[-1]):
            raise ProofError(f"the states entering {block.name!r} differ by {error:.1e} of their size when read again")
    return capture


class _Layers:
    """Runs the model's own attention and keeps the states between its layers."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.order = [anatomy.blocks[0].residual, *anatomy.states.after]

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        return set(self.order)

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        return call.run()


@dataclass(frozen=True)
class _Bottom:
    """Keeps what enters the first block, and ends the pass there."""

    tap: Tap

    def taps(self, model: nn.Module, anatomy: Anatomy) -> set[Tap]:
        return {self.tap}

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        raise StopPassError
