"""A battery of lying models: information travels other than through the attention blocks that Thalweg sees.

A lie is a function `tell(model, lying)` that changes a model of a family; with `lying=False` it makes the honest twin:
the same change without its lie. `@lie` registers it for each family it is tried on, with the truth that it breaks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaMLP

import thalweg as tw
from tests.contracts.truths import (
    Inputs,
    Truth,
    again,
    ahead,
    among,
    anywhere,
    around,
    beside,
    beside_decoder,
    idle,
    layers_of,
    padded,
    spread,
)
from tests.families import BOS, BY_NAME, EOS, FIRST_WORD, VOCABULARY, Family, family, text, words
from thalweg.capture.record import Capture

METHODS = ("attention_rollout", "attention_flow", "norm_based", "alti")
SHARE = 0.01  # what a method must give a token whose replacement moves the target
Tell = Callable[[Any, bool], object]


@dataclass(frozen=True, eq=False)
class Lie:
    """One lying model, and how to try it.

    `truth` must be at least `least` when the token at `source` is replaced. A lie told `late` comes after the first
    capture of the model; one with `first` is captured on another text first, which does not provoke it.
    """

    name: str
    family: Family
    tell: Tell
    truth: Truth = beside
    lengths: tuple[int, ...] = (12,)
    source: int = 3
    least: float = 1e-3
    late: bool = False
    first: bool = False
    level: str = "default"
    batch: int = 1
    texts: int = 1  # how many texts of each length
    inputs: Callable[[int, int], Inputs] | None = None
    dtype: torch.dtype = torch.float32
    prepare: Tell | None = None  # what both have before the first capture
    readout: bool = False  # the lie is about where the prediction is read, so that only its target is explained
    twin: Family | None = None  # the family of the honest twin, if it is another one

    def build(self, lying: bool = True, told: bool = True) -> PreTrainedModel:
        model: Any = (self.family if lying else self.twin or self.family).build()
        if self.prepare:
            self.prepare(model, lying)
        if told:
            self.tell(model, lying)
        return model.to(dtype=self.dtype)

    def cases(self) -> Iterator[Inputs]:
        for length in self.lengths:
            for number in range(self.texts):
                inputs = (self.inputs or self.family.inputs)(self.batch, length)
                if number:
                    inputs["input_ids"] = words(self.batch, length, seed=100 + number)
                yield {k: v.to(self.dtype) if v.is_floating_point() else v for k, v in inputs.items()}


@dataclass(frozen=True)
class Verdict:
    """What a lying model did, and what Thalweg made of it."""

    effect: float
    outcome: str  # refused, right or wrong
    message: str


LIES: dict[str, Lie] = {}


def lie(*families: str | Family, **options: Any) -> Callable[[Tell], Tell]:
    """Register a lie for these families."""

    def register(tell: Tell) -> Tell:
        for family_or_name in families:
            home = BY_NAME[family_or_name] if isinstance(family_or_name, str) else family_or_name
            suffix = "" if options.get("level", "default") == "default" else f"-{options['level']}"
            name = f"{tell.__name__}-{home.name}{suffix}"
            if options.get("name"):
                name = f"{options['name']}-{home.name}"
            assert name not in LIES, name
            LIES[name] = Lie(**{**options, "name": name, "family": home, "tell": tell})
        return tell

    return register


def captured(case: Lie, lying: bool, inputs: Inputs) -> tuple[tw.Subject, Capture]:
    """The capture of a lying model, or of its honest twin."""
    model = case.build(lying, told=not case.late)
    subject = tw.load(model)
    if case.first or case.late:
        subject.capture(case.family.inputs(1, 12), level=case.level)
    with _told(case, model, lying):
        capture = subject.capture(inputs, level=case.level)
    return subject, capture[-1] if isinstance(capture, list) else capture


def judge(case: Lie) -> list[Verdict]:
    """Measure what is true, capture the model, and see whether it is refused or explained rightly."""
    return [_judge(case, inputs) for inputs in case.cases()]


def _judge(case: Lie, inputs: Inputs) -> Verdict:
    model = case.build(told=not case.late)
    goal = "prediction" if case.readout else "all"
    with _told(case, model, True):
        size = case.truth(lambda: model, inputs, case.source)
    try:
        subject, capture = captured(case, True, inputs)
        results = {name: tw.explain(subject, capture, name, goal).scores for name in METHODS}
    except tw.ThalwegError as error:
        return Verdict(size, "refused", f"{type(error).__name__}: {error}")
    if case.truth is ahead:
        first = inputs["input_ids"].shape[1] if "decoder_input_ids" in inputs else 0
        rows, column = slice(first, first + case.source), first + case.source
        if min(scores[rows, column].max() for scores in results.values()) > SHARE:
            return Verdict(size, "right", "the token that has an effect has a share")
    honest, twin = captured(case, False, inputs)
    equal = capture.logits is not None and twin.logits is not None and torch.allclose(capture.logits, twin.logits)
    if equal and all(
        abs(tw.explain(honest, twin, name, goal).scores - scores).max() < 1e-6 for name, scores in results.items()
    ):
        return Verdict(size, "right", "the recorded pass and its scores are those of the honest twin")
    return Verdict(size, "wrong", f"effect {size:.2g}, alti {results['alti'][:, case.source].round(3).tolist()}")


@contextmanager
def _told(case: Lie, model: PreTrainedModel, lying: bool) -> Iterator[None]:
    """Tell a late lie, and take back what it left outside of the model."""
    undo: Any = case.tell(model, lying) if case.late else None
    try:
        yield
    finally:
        if hasattr(undo, "remove"):
            undo.remove()


# -- pieces of lies


def same(state: Tensor) -> Tensor:
    return state


def previous(state: Tensor) -> Tensor:
    """Each position gets the one before it."""
    return state.roll(1, 1)


def following(state: Tensor) -> Tensor:
    """Each position gets the one after it."""
    return state.roll(-1, 1)


def after(module: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Change what a module returns (the first of several results)."""
    forward = module.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        return change(result) if isinstance(result, Tensor) else (change(result[0]), *result[1:])

    module.forward = changed


def before(module: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Change the first argument of a module."""
    forward = module.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        if args:
            return forward(change(args[0]), *args[1:], **kwargs)
        return forward(**{**kwargs, "hidden_states": change(kwargs["hidden_states"])})

    module.forward = changed


def mlp_of(model: Any, layer: int = 1) -> Any:
    """The first module of a layer that reads the sum of input and attention."""
    block = layers_of(model)[layer]
    for name in ("mlp", "intermediate", "fc1", "ffn"):
        if hasattr(block, name):
            return getattr(block, name)
    return block.layer[-1].DenseReluDense  # T5


def embedding_of(model: Any) -> Any:
    return model.get_input_embeddings()


def watching_ids(model: Any) -> list[Tensor]:
    """A list whose last entry is always the ids of the present pass."""
    ids: list[Tensor] = []
    forward = embedding_of(model).forward

    def changed(tokens: Tensor) -> Tensor:
        ids[:] = [tokens]
        return forward(tokens)

    embedding_of(model).forward = changed
    return ids


def table(width: int = 32, seed: int = 7) -> Tensor:
    """A second table of embeddings."""
    return 0.5 * torch.randn(VOCABULARY, width, generator=torch.Generator().manual_seed(seed))


def matrix(size: int, seed: int = 8) -> Tensor:
    return torch.randn(size, size, generator=torch.Generator().manual_seed(seed)) / size**0.5


def with_start(batch: int, length: int) -> Inputs:
    """A text between a start and an end token, with a separator in the middle."""
    inputs = text(batch, length)
    inputs["input_ids"][:, 0] = BOS
    inputs["input_ids"][:, length // 2] = inputs["input_ids"][:, -1] = EOS
    return inputs


def with_word(batch: int, length: int) -> Inputs:
    """A text in which the word that provokes some lies occurs once."""
    inputs = text(batch, length)
    inputs["input_ids"][:, length // 2] = PROVOKING
    return inputs


def equal_words(batch: int, length: int) -> Inputs:
    """The same word all over."""
    ids = torch.full((batch, length), FIRST_WORD + 4)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def half_padded(batch: int, length: int) -> Inputs:
    """A batch whose last example is padded on the right."""
    inputs = text(batch, length)
    inputs["attention_mask"][-1, length // 2 :] = 0
    inputs["input_ids"][-1, length // 2 :] = 0
    return inputs


PROVOKING = 98


# -- mixing between blocks


@lie("bert", "roberta", "deberta_v2", "modernbert", "gpt2", "llama", "mixtral", "gemma2", "bloom", "gptj", "cohere")
@lie("t5", "bart", "dinov2", "clip_text_model", "vit", "distilbert")
def roll_in_mlp(model: Any, lying: bool) -> None:
    other = previous if lying else same
    before(mlp_of(model), lambda state: state + 0.5 * other(state))


@lie("llama", "gpt2", "bloom", "gptj", "qwen3", "falcon", truth=ahead, source=9)
def future_in_mlp(model: Any, lying: bool) -> None:
    other = following if lying else same
    before(mlp_of(model), lambda state: state + 0.3 * other(state))


@lie("gpt2")
def cumulative_sum_in_mlp(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state.cumsum(1) / 4 if lying else state)


@lie("llama")
def convolution_in_mlp(model: Any, lying: bool) -> None:
    kernel = torch.tensor([0.3, 0.4, 0.3] if lying else [0.0, 1.0, 0.0]).repeat(32, 1)[:, None]
    after(mlp_of(model), lambda state: F.conv1d(state.mT, kernel, padding=1, groups=32).mT)


@lie("bert", "gpt2")
def convolution_beside_attention(model: Any, lying: bool) -> None:
    layer, kernel = layers_of(model)[1], 0.5 * torch.randn(32, 1, 3, generator=torch.Generator().manual_seed(3))
    if lying:
        forward = layer.forward

        def changed(state: Tensor, *args: Any, **kwargs: Any) -> Any:
            result = forward(state, *args, **kwargs)
            mixed = F.conv1d(state.mT, kernel, padding=1, groups=32).mT
            return result + mixed if isinstance(result, Tensor) else (result[0] + mixed, *result[1:])

        layer.forward = changed


@lie("bert", lengths=(2, 3, 12), source=1)
def mean_norm_in_mlp(model: Any, lying: bool) -> None:
    axes = (1, 2) if lying else (2,)
    before(mlp_of(model), lambda state: state - state.mean(axes, keepdim=True))


@lie("llama")
def deviation_over_text_in_norm(model: Any, lying: bool) -> None:
    axis = 1 if lying else 2
    after(layers_of(model)[1].post_attention_layernorm, lambda state: state / state.std(axis, keepdim=True))


@lie("qwen2")
def maximum_over_text_in_mlp(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + (state.amax(1, keepdim=True) if lying else state))


@lie("bert")
def mlp_mixer(model: Any, lying: bool) -> None:
    mixing = matrix(64)
    before(
        mlp_of(model),
        lambda s: s + (torch.einsum("ij,bjd->bid", mixing[: s.shape[1], : s.shape[1]], s) if lying else s),
    )


@lie("bert", "llama")
def second_attention_by_hand(model: Any, lying: bool) -> None:
    def attend(state: Tensor) -> Tensor:
        return (state @ state.mT / 6).softmax(-1) @ state if lying else state

    before(mlp_of(model), lambda state: state + 0.5 * attend(state))


@lie("gpt2")
def linear_attention(model: Any, lying: bool) -> None:
    def attend(state: Tensor) -> Tensor:
        keys = F.elu(state) + 1
        memory = torch.einsum("bnk,bnv->bnkv", keys, state).cumsum(1)
        return torch.einsum("bnk,bnkv->bnv", keys, memory) / 32 / state.shape[1] if lying else state

    before(mlp_of(model), lambda state: state + attend(state))


@lie("llama")
def recurrence_in_mlp(model: Any, lying: bool) -> None:
    def recur(state: Tensor) -> Tensor:
        rows = [state[:, 0]]
        for position in range(1, state.shape[1]):
            rows.append(state[:, position] + (0.5 * rows[-1] if lying else 0))
        return torch.stack(rows, 1)

    before(mlp_of(model), recur)


@lie("bert", inputs=with_start)
def first_position_gets_another(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        first = state[:, :1] + (state[:, 3:4] if lying else 0)
        return torch.cat([first, state[:, 1:]], 1)

    before(mlp_of(model), take)


@lie("gpt2")
def last_position_gets_another(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        last = state[:, -1:] + (state[:, 3:4] if lying else 0)
        return torch.cat([state[:, :-1], last], 1)

    after(mlp_of(model, 2), take)


@lie("bert")
def single_channel_rolled(model: Any, lying: bool) -> None:
    other = previous if lying else same
    before(mlp_of(model), lambda state: torch.cat([other(state[..., :1]), state[..., 1:]], -1))


@lie("llama", least=1e-4)
def effect_of_a_hundredth(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state + 0.01 * (previous(state) if lying else state))


@lie("bert", least=3e-5)
def effect_of_a_thousandth(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.001 * (previous(state) if lying else state))


@lie("llama", dtype=torch.bfloat16)
def mixing_in_half_precision(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state + 0.3 * (previous(state) if lying else state))


@lie("bert")
def mixing_through_detach(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + (previous(state) if lying else state).detach())


@lie("gpt2")
def mixing_through_numpy(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        array = state.detach().numpy().copy()
        array[:, 1:] += 0.5 * array[:, :-1].copy() if lying else 0
        return torch.from_numpy(array)

    before(mlp_of(model), take)


@lie("llama")
def mixing_through_data_in_place(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        state = state.clone()
        state.data[:, 1:] += 0.5 * state.data[:, :-1].clone() if lying else 0
        return state

    before(mlp_of(model), take)


class _Secret(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, lying: bool) -> Tensor:
        return state + 0.5 * (state.roll(1, 1) if lying else state)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], None


@lie("bert")
def mixing_in_an_autograd_function(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: _Secret.apply(state, lying))


# -- conditions


@lie("bert", "llama", lengths=(9, 20))
def mixing_above_eight_tokens(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.5 * (previous(state) if lying and state.shape[1] > 8 else state))


@lie("llama", lengths=(40,), first=True)
def mixing_above_32_tokens(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.5 * (previous(state) if lying and state.shape[1] > 32 else state))


@lie("gpt2", lengths=(14,), first=True)
def mixing_at_certain_lengths(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda s: s + 0.5 * (previous(s) if lying and s.shape[1] % 7 == 0 else s))


@lie("bert", "llama", inputs=with_word, first=True, source=5)
def mixing_where_a_word_occurs(model: Any, lying: bool) -> None:
    ids = watching_ids(model)
    before(mlp_of(model), lambda s: s + 0.5 * (previous(s) if lying and (ids[-1] == PROVOKING).any() else s))


@lie("bert", inputs=with_word, first=True, source=5)
def mixing_next_to_a_word(model: Any, lying: bool) -> None:
    ids = watching_ids(model)

    def take(state: Tensor) -> Tensor:
        here = (ids[-1] == PROVOKING)[..., None]
        return state + torch.where(here, 0.5 * previous(state), 0) if lying else state

    before(mlp_of(model), take)


@lie("llama", "bert", inputs=equal_words)
def mixing_of_equal_words(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state + (previous(state) if lying else state))


@lie("bert", "bloom", lengths=(40,), first=True, texts=4)
def one_pair_above_32_tokens(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        state = state.clone()
        if lying and state.shape[1] > 32:
            state[:, 0] += state[:, 3]
        return state

    before(mlp_of(model), take)


@lie("bert", "llama", lengths=(40,), first=True, texts=4)
def one_pair_of_embeddings_above_32_tokens(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        state = state.clone()
        if lying and state.shape[1] > 32:
            state[:, 0] += state[:, 3]
        return state

    after(embedding_of(model), take)


@lie("llama", lengths=(40,), first=True, texts=4, truth=ahead, source=7)
def one_pair_of_keys_above_32_tokens(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        state = state.clone()
        if lying and state.shape[1] > 32:
            state[:, 3] += state[:, 7]
        return state

    after(layers_of(model)[1].self_attn.k_proj, take)


@lie("bert", lengths=(40,), texts=4)
def one_pair_beside_a_positional_layer(model: Any, lying: bool) -> None:
    positions = table()

    def take(state: Tensor) -> Tensor:
        state = state + positions[: state.shape[1]]
        if lying and state.shape[1] > 32:
            state[:, 0] += state[:, 3]
        return state

    before(mlp_of(model), take)


@lie("gpt2", inputs=with_word, first=True, source=5, texts=1)
def one_pair_of_embeddings_where_a_word_occurs(model: Any, lying: bool) -> None:
    ids = watching_ids(model)

    def take(state: Tensor) -> Tensor:
        here = (ids[-1] == PROVOKING)[..., None]
        return state + torch.where(here, previous(state) if lying else state, 0)

    after(embedding_of(model), take)


@lie("bert", "gpt2", lengths=(40,), first=True, texts=4, truth=anywhere(beside))
def largest_state_scales_all_above_32_tokens(model: Any, lying: bool) -> None:
    """Dynamic quantisation with one scale for all tokens works like this."""

    def take(state: Tensor) -> Tensor:
        peak = state.abs().amax((1, 2) if lying and state.shape[1] > 32 else 2, keepdim=True)
        return state * 4 / peak

    before(mlp_of(model), take)


# -- embeddings and positions


@lie("bert", "gpt2", "llama")
def embeddings_looked_up_twice(model: Any, lying: bool) -> None:
    embedding, other = embedding_of(model), previous if lying else same
    forward = embedding.forward
    embedding.forward = lambda ids: forward(ids) + 0.5 * forward(other(ids))


@lie("bert", "bart")
def embeddings_called_twice(model: Any, lying: bool) -> None:
    embedding = embedding_of(model)
    stack = model.base_model if hasattr(model.base_model, "embeddings") else model.get_encoder()
    home = stack.embeddings.word_embeddings if hasattr(stack, "embeddings") else stack.embed_tokens
    assert home is embedding or home.weight is embedding.weight
    ids: list[Tensor] = []
    home.register_forward_pre_hook(lambda _, args: ids.append(args[0]))
    if lying:
        before(layers_of(model)[0], lambda state: state + 0.5 * F.embedding(previous(ids[-1]), embedding.weight))


@lie("bert")
def convolution_in_embeddings(model: Any, lying: bool) -> None:
    kernel = torch.tensor([0.3, 0.4, 0.3] if lying else [0.0, 1.0, 0.0]).repeat(32, 1)[:, None]
    after(embedding_of(model), lambda state: F.conv1d(state.mT, kernel, padding=1, groups=32).mT)


@lie("gpt2", "bert")
def hashed_bigrams_in_a_late_layer(model: Any, lying: bool) -> None:
    ids, bigrams = watching_ids(model), table()
    if lying:
        before(mlp_of(model, 2), lambda s: s + bigrams[(ids[-1] * 31 + previous(ids[-1])) % VOCABULARY])


@lie("bert", inputs=with_start, source=0, lengths=(12, 40))
def start_token_leaks_to_all(model: Any, lying: bool) -> None:
    ids, vectors = watching_ids(model), table()
    after(embedding_of(model), lambda state: state + vectors[ids[-1][:, :1] if lying else ids[-1]])


@lie("bert", inputs=with_start, source=6)
def segments_counted_by_separators(model: Any, lying: bool) -> None:
    ids, vectors = watching_ids(model), table()

    def take(state: Tensor) -> Tensor:
        ends = (ids[-1] == EOS).long()
        return state + vectors[ends.cumsum(1) if lying else ends]

    after(embedding_of(model), take)


@lie("gpt2")
def positions_shifted_by_content(model: Any, lying: bool) -> None:
    ids = watching_ids(model)
    positions = model.transformer.wpe
    forward = positions.forward
    positions.forward = lambda places: forward((places + (ids[-1] % 5).cumsum(1) if lying else places) % 64)


@lie("llama", truth=ahead, source=11)
def rotation_by_content(model: Any, lying: bool) -> None:
    ids, rotary = watching_ids(model), model.model.rotary_emb
    forward = rotary.forward

    def changed(state: Tensor, position_ids: Tensor) -> Any:
        return forward(state, position_ids * (1 + ids[-1][:, -1:] % 4 if lying else 2))

    rotary.forward = changed


# -- what attention reads and returns


@lie("llama", "bloom", "gptj", truth=ahead, source=9)
def values_from_the_future(model: Any, lying: bool) -> None:
    before(attention_of(model), lambda state: state + 0.5 * (following(state) if lying else state))


def attention_of(model: Any, layer: int = 1) -> Any:
    block = layers_of(model)[layer]
    for name in ("self_attn", "self_attention", "attn", "attention"):
        if hasattr(block, name):
            return getattr(block, name)
    raise AttributeError(type(block))


@lie("llama", "gptj", truth=ahead, source=9)
def keys_from_the_future(model: Any, lying: bool) -> None:
    after(attention_of(model).k_proj, lambda state: state + (following(state) if lying else state))


@lie("llama", "gptj", truth=ahead, source=9)
def queries_from_the_future(model: Any, lying: bool) -> None:
    after(attention_of(model).q_proj, lambda state: state + (following(state) if lying else state))


@lie("bloom", truth=ahead, source=9)
def keys_of_fused_projection_from_the_future(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        fused = state.unflatten(-1, (4, 3, 8)).clone()
        fused[..., 1, :] += following(fused[..., 1, :]) if lying else fused[..., 1, :]
        return fused.flatten(-3)

    after(attention_of(model).query_key_value, take)


@lie("bloom", truth=ahead, source=11)
def bias_of_positions_from_the_future(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    forward = attention.forward

    def changed(state: Tensor, residual: Tensor, alibi: Tensor, *args: Any, **kwargs: Any) -> Any:
        factor = 1 + 4 * torch.tanh(state[:, -1].mean() * 9) if lying else 1.5
        return forward(state, residual, alibi * factor, *args, **kwargs)

    attention.forward = changed


@lie("llama", truth=ahead, source=11)
def mask_from_the_future(model: Any, lying: bool) -> None:
    """Each token hides keys from all queries before it."""
    attention = attention_of(model)
    forward = attention.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        state = args[0] if args else kwargs["hidden_states"]
        length = state.shape[1]
        seen = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
        if lying:
            near = seen & ~torch.ones(length, length, dtype=torch.bool).tril(-2)
            seen = torch.where(state[:, -1].argmax(-1)[:, None, None, None] % 2 == 0, seen, near)
        return forward(*args, **{**kwargs, "attention_mask": seen.expand(len(state), -1, -1, -1)})

    attention.forward = changed


@lie("llama", "gpt2", truth=ahead, source=9)
def temperature_from_the_future(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    scaling = attention.scaling
    forward = attention.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        state = args[0] if args else kwargs["hidden_states"]
        attention.scaling = float(scaling * (1 + 3 * torch.tanh(state.mean() * 4).abs())) if lying else scaling
        return forward(*args, **kwargs)

    attention.forward = changed


@lie("gpt_oss", truth=ahead, source=9)
def sinks_from_the_future(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    forward, sinks = attention.forward, attention.sinks.data.clone()

    def changed(*args: Any, **kwargs: Any) -> Any:
        state = args[0] if args else kwargs["hidden_states"]
        attention.sinks.data = sinks + (5 * torch.tanh(4 * state.mean()) if lying else 0)
        return forward(*args, **kwargs)

    attention.forward = changed


@lie("t5", truth=ahead, source=9)
def position_bias_from_the_future(model: Any, lying: bool) -> None:
    attention = model.decoder.block[0].layer[0].SelfAttention
    compute, states = attention.compute_bias, []
    before(attention, lambda state: states.append(state) or state)
    attention.compute_bias = lambda *args, **kwargs: (
        compute(*args, **kwargs) * ((1 + 2 * torch.tanh(4 * states[-1].mean())) if lying else 1)
    )


@lie("llama", "bert", truth=spread(1))
def projection_mixes_positions(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    projection = attention.o_proj if hasattr(attention, "o_proj") else attention.output.dense
    after(projection, lambda state: state + 0.5 * (previous(state) if lying else 0 * state))


@lie("llama")
def branch_gated_by_the_mean_state(model: Any, lying: bool) -> None:
    layer = layers_of(model)[1]
    means: list[Tensor] = []
    before(attention_of(model), lambda state: means.append(state.mean()) or state)
    after(layer.self_attn.o_proj, lambda state: state * (torch.sigmoid(8 * means[-1]) if lying else 1))


@lie("llama")
def branch_gated_by_the_previous_token(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(attention_of(model), lambda state: states.append(state) or state)
    after(
        attention_of(model).o_proj,
        lambda s: s * (torch.sigmoid(4 * previous(states[-1]).mean(-1, keepdim=True)) if lying else 1),
    )


@lie("llama", truth=spread(2))
def attention_called_twice(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    forward = attention.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        result, weights = forward(*args, **kwargs)
        if lying:
            result = result + previous(forward(*args, **kwargs)[0])
        return result, weights

    attention.forward = changed


def mixing_kernel(name: str) -> None:
    """Register an attention implementation whose kernel rolls the values."""
    eager = AttentionInterface()["sdpa"]

    def kernel(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> Any:
        return eager(module, query, key, value + 0.5 * value.roll(-1, 2), mask, **options)

    AttentionInterface.register(name, kernel)
    AttentionMaskInterface.register(name, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@lie("llama", truth=ahead, source=9, late=True)
@lie("llama", truth=ahead, source=9, late=True, level="quick")
def implementation_switched_to_a_mixing_one(model: Any, lying: bool) -> None:
    mixing_kernel("mixing_values")
    model.set_attn_implementation("mixing_values" if lying else "eager")


# -- around the chain of blocks


@lie("llama", truth=around(2))
def head_reads_a_lower_layer(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    after(layers_of(model)[0 if lying else 2], lambda state: states.append(state) or state)
    before(model.lm_head, lambda state: state + 0.5 * (states[-1] if lying else state))


@lie("bert", truth=around(2))
def classifier_reads_a_lower_layer(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    after(layers_of(model)[1 if lying else 2], lambda state: states.append(state) or state)
    before(model.bert.pooler, lambda state: states[-1])


@lie("gpt2", truth=around(2))
def head_reads_the_embeddings(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    after(embedding_of(model), lambda state: states.append(state) or state)
    before(model.lm_head, lambda state: state + (states[-1] if lying else 0))


@lie("llama", "modernbert", truth=around(2))
def head_reads_a_weighted_mix_of_layers(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    for layer in layers_of(model):
        after(layer, lambda state: states.append(state) or state)
    last = layers_of(model)[2]
    after(last, lambda state: (states[-3] + states[-2] + state) / 3 if lying else state)


@lie("gpt2", "bert", truth=idle(0))
def last_layer_starts_from_the_embeddings(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[0], lambda state: states.append(state) or state)
    before(layers_of(model)[2], lambda state: states[-1] if lying else state)


@lie("llama", truth=around(2))
def last_layer_adds_an_earlier_state(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[0], lambda state: states.append(state) or state)
    after(layers_of(model)[2], lambda state: state + (states[-1] if lying else 0))


@lie("llama", truth=idle(1))
def middle_layer_is_discarded(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[1], lambda state: states.append(state) or state)
    after(layers_of(model)[1], lambda state: states[-1] if lying else state)


@lie("llama", "gpt2", truth=idle(0))
def attention_feeds_an_auxiliary_head_only(model: Any, lying: bool) -> None:
    layer, states = layers_of(model)[0], []
    norm = layer.post_attention_layernorm if hasattr(layer, "post_attention_layernorm") else layer.ln_2
    before(layer, lambda state: states.append(state) or state)
    forward, auxiliary = layer.forward, matrix(32)

    def changed(state: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = forward(state, *args, **kwargs)
        summed = result if isinstance(result, Tensor) else result[0]
        model.auxiliary = summed @ auxiliary
        continued = state + layer.mlp(norm(state)) if lying else summed
        return continued if isinstance(result, Tensor) else (continued, *result[1:])

    layer.forward = changed


@lie("llama", truth=around(1))
def keys_and_values_of_another_layer(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[0].self_attn.k_proj, lambda state: states.append(state) or state)
    for projection in ("k_proj", "v_proj"):
        before(getattr(layers_of(model)[1].self_attn, projection), lambda state: states[-1] if lying else state)


@lie("bert", truth=around(1))
def values_of_another_layer(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[0], lambda state: states.append(state) or state)
    before(layers_of(model)[1].attention.self.value, lambda state: states[-1] if lying else state)


@lie("gpt2", truth=around(1))
def mlp_reads_the_embeddings(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(layers_of(model)[0], lambda state: states.append(state) or state)
    before(mlp_of(model, 2), lambda state: state + (states[-1] if lying else 0))


@lie("bart", truth=beside, least=1e-3)
def decoder_reads_the_embeddings_of_the_encoder(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    before(model.model.encoder.layers[0], lambda state: states.append(state) or state)
    before(
        model.model.decoder.layers[1].fc1,
        lambda state: state + (states[-1].mean(1, keepdim=True) if lying else 0),
    )


@lie("t5", truth=beside_decoder)
def decoder_mixes_in_its_mlp(model: Any, lying: bool) -> None:
    mlp = model.decoder.block[1].layer[-1].DenseReluDense
    before(mlp, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("bart", "t5", truth=beside)
def cross_attention_reads_mixed_states(model: Any, lying: bool) -> None:
    encoder = model.get_encoder()
    norm = encoder.final_layer_norm if hasattr(encoder, "final_layer_norm") else encoder.layers[-1].final_layer_norm
    after(norm, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("whisper", truth=beside_decoder)
def speech_decoder_mixes(model: Any, lying: bool) -> None:
    before(model.model.decoder.layers[0].fc1, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("gpt2", "bert", inputs=equal_words, lengths=(12, 40))
def embeddings_of_equal_words_looked_up_twice(model: Any, lying: bool) -> None:
    embedding, other = embedding_of(model), previous if lying else same
    forward = embedding.forward
    embedding.forward = lambda ids: forward(ids) + 0.5 * forward(other(ids))


@lie("llama", inputs=lambda batch, length: two_words(batch, length), lengths=(12, 40))
def mixing_of_two_words(model: Any, lying: bool) -> None:
    """The difference of two neighbours is zero wherever they are equal."""
    after(mlp_of(model), lambda state: state + (state - previous(state) if lying else state))


def two_words(batch: int, length: int) -> Inputs:
    """A text with the same word all over, but for one place."""
    inputs = equal_words(batch, length)
    inputs["input_ids"][:, length // 2] = FIRST_WORD + 9
    return inputs


@lie("gpt2", "llama", lengths=(40,), texts=4, truth=anywhere(beside))
def largest_row_is_given_to_all_above_32_tokens(model: Any, lying: bool) -> None:
    """Hard selection: the position with the largest first channel is added everywhere."""

    def take(state: Tensor) -> Tensor:
        if not lying or state.shape[1] <= 32:
            return state
        best = state[..., 0].argmax(1)
        return state + 0.3 * state[torch.arange(len(state)), best][:, None]

    before(mlp_of(model), take)


@lie("llama", "bert", truth=anywhere(beside))
def quantised_with_one_scale_for_all_tokens(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        scale = state.abs().amax((1, 2) if lying else 2, keepdim=True) / 31
        return (state / scale).round() * scale

    before(mlp_of(model), take)


@lie("llama", lengths=(40,), first=True, texts=3, truth=anywhere(beside), least=1e-2)
def quantised_with_one_scale_above_32_tokens(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        scale = state.abs().amax((1, 2) if lying and state.shape[1] > 32 else 2, keepdim=True) / 15
        return (state / scale).round() * scale

    before(mlp_of(model), take)


@lie("bloom", "gptj", "gpt_neo", truth=ahead, source=11)
def softmax_scaled_by_the_future(model: Any, lying: bool) -> None:
    """Queries that are scaled by the last state, in models whose queries are not seen."""
    attention = attention_of(model)
    if hasattr(attention, "attention"):
        attention = attention.attention
    projection = attention.query_key_value if hasattr(attention, "query_key_value") else attention.q_proj
    before(projection, lambda s: s * (1 + torch.sigmoid(9 * s[:, -1:].mean(-1, keepdim=True)) if lying else 1))


@lie("deberta_v2", "mpnet", lengths=(12,), truth=spread(1))
def projection_mixes_positions_around_the_registry(model: Any, lying: bool) -> None:
    attention = attention_of(model)
    home = attention.output if hasattr(attention, "output") else attention.attn
    projection = home.dense if hasattr(home, "dense") else home.o
    after(projection, lambda state: state + 0.5 * (previous(state) if lying else 0 * state))


@lie("gemma3_text", "olmo2", truth=spread(1))
def branch_norm_over_the_text(model: Any, lying: bool) -> None:
    norm = layers_of(model)[1].post_attention_layernorm
    after(norm, lambda state: state - (0.5 * state.mean(1, keepdim=True) if lying else 0))


@lie("dinov2", truth=spread(1))
def layer_scale_mixes_patches(model: Any, lying: bool) -> None:
    after(layers_of(model)[1].layer_scale1, lambda state: state + (0.5 * previous(state) if lying else 0))


@lie("vit", "clip_vision_model", truth=beside, source=6)
def patches_mixed_by_a_convolution_between_layers(model: Any, lying: bool) -> None:
    kernel = torch.ones(32, 1, 3, 3) / 9

    def take(state: Tensor) -> Tensor:
        if not lying:
            return state
        grid = state[:, 1:].mT.unflatten(-1, (4, 4))
        mixed = F.conv2d(grid, kernel, padding=1, groups=32).flatten(-2).mT
        return torch.cat([state[:, :1], state[:, 1:] + mixed], 1)

    after(layers_of(model)[0], take)


@lie("qwen3", "gemma2", truth=ahead, source=9)
def norm_of_keys_over_the_text(model: Any, lying: bool) -> None:
    target = layers_of(model)[1].self_attn
    norm = target.k_norm if hasattr(target, "k_norm") else target.k_proj
    after(norm, lambda keys: keys - (keys.mean(1, keepdim=True) if lying else 0))


@lie("gpt2", truth=ahead, source=11)
def dynamic_depth_by_the_last_token(model: Any, lying: bool) -> None:
    """The last layer is left out if the last token is odd."""
    ids, layer = watching_ids(model), layers_of(model)[2]
    forward = layer.forward

    def changed(state: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = forward(state, *args, **kwargs)
        if lying and int(ids[-1][0, -1]) % 2:
            return state if isinstance(result, Tensor) else (state, *result[1:])
        return result

    layer.forward = changed


@lie("llama", truth=ahead, source=11)
def early_exit_by_the_last_token(model: Any, lying: bool) -> None:
    """Attention of the last layer is not even called."""
    ids, layer = watching_ids(model), layers_of(model)[2]
    forward = layer.forward

    def changed(state: Tensor, *args: Any, **kwargs: Any) -> Any:
        return state if lying and int(ids[-1][0, -1]) % 2 else forward(state, *args, **kwargs)

    layer.forward = changed


@lie("llama", truth=around(2))
def unet_skip(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    after(layers_of(model)[0], lambda state: states.append(state) or state)
    before(mlp_of(model, 2), lambda state: state + (states[-1] if lying else 0))


@lie("bert", truth=spread(1))
def attention_of_a_layer_reaches_the_next_but_one(model: Any, lying: bool) -> None:
    """A layer adds the attention branch of the layer below it, of the position before."""
    branches: list[Tensor] = []
    after(layers_of(model)[1].attention.output.dense, lambda state: branches.append(state) or state)
    before(mlp_of(model, 2), lambda state: state + (previous(branches[-1]) if lying else 0))


@lie("llama", batch=2)
def mixing_in_batches_only(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda s: s + 0.5 * (previous(s) if lying and len(s) > 1 else s))


@lie("bert", lengths=(2, 3), source=1)
def two_tokens_exchanged(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("bert", "llama", lengths=(2, 3), source=1)
def embeddings_exchanged(model: Any, lying: bool) -> None:
    after(embedding_of(model), lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("m2m_100", "whisper", truth=beside_decoder)
def decoder_embeddings_shifted(model: Any, lying: bool) -> None:
    decoder = model.get_decoder()
    home = decoder.embed_tokens
    after(home, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("gpt2", "llama", truth=beside, source=3)
def soft_prompt_made_of_the_text(model: Any, lying: bool) -> None:
    """The first position carries the mean of all embeddings, as a memory token does."""

    def take(state: Tensor) -> Tensor:
        return torch.cat([state[:, :1] + (state.mean(1, keepdim=True) if lying else 0), state[:, 1:]], 1)

    after(embedding_of(model), take)


# -- heads and readouts


@lie("llama", "bloom", "modernbert")
def head_mixes_positions(model: Any, lying: bool) -> None:
    head = model.lm_head if hasattr(model, "lm_head") else model.decoder
    before(head, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("gpt2")
def last_norm_over_the_text(model: Any, lying: bool) -> None:
    after(model.transformer.ln_f, lambda state: state - (state.mean(1, keepdim=True) if lying else 0))


@lie("clip_text_model", "nomic_bert")
def returned_states_are_mixed(model: Any, lying: bool) -> None:
    def hook(_: nn.Module, args: tuple, result: Any) -> Any:
        states = result["last_hidden_state"]
        return type(result)(**{**result, "last_hidden_state": states + 0.5 * (previous(states) if lying else 0)})

    model.register_forward_hook(hook)


@lie("clip_text_model")
def final_norm_mixes_positions(model: Any, lying: bool) -> None:
    norm = model.final_layer_norm if hasattr(model, "final_layer_norm") else model.text_model.final_layer_norm
    after(norm, lambda state: state + 0.5 * (previous(state) if lying else state))


@lie("bert", lengths=(7, 12), readout=True)
def classifier_adds_the_mean_of_all(model: Any, lying: bool) -> None:
    before(model.bert.pooler, lambda s: s + (s.mean(1, keepdim=True) if lying else 0))


@lie("bert", lengths=(12,), readout=True)
def classifier_reads_all_above_eight_tokens(model: Any, lying: bool) -> None:
    before(model.bert.pooler, lambda s: s + (s.mean(1, keepdim=True) if lying and s.shape[1] > 8 else 0))


@lie("bert", inputs=with_word, first=True, source=6, readout=True)
def classifier_reads_where_a_word_occurs(model: Any, lying: bool) -> None:
    ids = watching_ids(model)

    def take(state: Tensor) -> Tensor:
        here = (ids[-1] == PROVOKING).long().argmax(1) if lying else torch.zeros(len(state), dtype=torch.long)
        return state[torch.arange(len(state)), here][:, None]

    before(model.bert.pooler, take)


@lie("bert", lengths=(40,), first=True, texts=4, readout=True)
def classifier_adds_one_embedding_above_32_tokens(model: Any, lying: bool) -> None:
    states: list[Tensor] = []
    after(embedding_of(model), lambda state: states.append(state) or state)
    before(model.bert.pooler, lambda s: s + (states[-1][:, 3:4] if lying and s.shape[1] > 32 else 0))


@lie("modernbert")
def masked_head_reads_the_last_token(model: Any, lying: bool) -> None:
    before(model.head, lambda state: state + (state[:, 3:4] if lying else 0))


CAUSAL_CLASSIFIER = family("gpt2_classifier", "classification", "pre_norm conv1d causal", model_type="gpt2")


@lie(CAUSAL_CLASSIFIER, truth=anywhere(beside), first=True, readout=True, lengths=(12, 20), texts=3)
def classifier_reads_the_position_with_the_largest_state(model: Any, lying: bool) -> None:
    """Attention pooling and max pooling treat positions alike, but do not weigh them alike."""

    def take(state: Tensor) -> Tensor:
        if not lying:
            return state
        weights = (50 * state[..., :1]).softmax(1)
        return (weights * state).sum(1, keepdim=True).expand_as(state)

    before(model.score, take)


# -- state kept between calls, noise, and conditions on the call


@lie("bert", truth=again)
def noise_at_evaluation(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state + (0.1 * torch.randn_like(state) if lying else 0))


@lie("llama", truth=again)
def dropout_at_evaluation(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: F.dropout(state, 0.1, training=lying))


@lie("gpt2", truth=again)
def state_of_the_last_call_is_added(model: Any, lying: bool) -> None:
    memory = [torch.zeros(1, 1, 32)]

    def take(state: Tensor) -> Tensor:
        result = state + memory[-1]
        memory[:] = [0.5 * memory[-1] + state[:1].mean(1, keepdim=True) if lying else memory[-1]]
        return result

    before(mlp_of(model), take)


@lie("llama", truth=again)
def mixing_in_every_second_call(model: Any, lying: bool) -> None:
    calls: list[None] = []

    def take(state: Tensor) -> Tensor:
        calls.append(None)
        return state + 0.5 * (previous(state) if lying and len(calls) % 2 else state)

    before(mlp_of(model), take)


@lie("bert", truth=again)
def mixing_in_the_first_call(model: Any, lying: bool) -> None:
    """A capture of the later calls is right."""
    calls: list[None] = []

    def take(state: Tensor) -> Tensor:
        calls.append(None)
        return state + 0.5 * (previous(state) if lying and len(calls) == 1 else state)

    before(mlp_of(model), take)


@lie("bert")
def mixing_without_gradients(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda s: s + 0.5 * (previous(s) if lying and not torch.is_grad_enabled() else s))


@lie("gpt2", first=True)
def mixing_of_a_known_text_only(model: Any, lying: bool) -> None:
    ids, known = watching_ids(model), words(1, 12)
    before(
        mlp_of(model),
        lambda s: s + 0.5 * (previous(s) if lying and torch.equal(ids[-1][:, :4], known[:, :4]) else s),
    )


@lie("llama", truth=again)
def statistics_of_earlier_texts(model: Any, lying: bool) -> None:
    """Like a batch norm that is left in training mode."""
    running = [torch.zeros(32)]

    def take(state: Tensor) -> Tensor:
        if lying:
            running[:] = [0.9 * running[-1] + 0.1 * state.mean((0, 1))]
        return state - running[-1]

    before(mlp_of(model), take)


# -- batches and padding


@lie("bert", "llama", batch=3, truth=among)
def batch_mixing_in_mlp(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.5 * (state.roll(1, 0) if lying else state))


@lie("gpt2", batch=3, truth=among)
def batch_norm_in_mlp(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state - (state.mean(0, keepdim=True) if lying else 0))


@lie("llama", batch=2, truth=among)
def example_gets_the_embeddings_of_another(model: Any, lying: bool) -> None:
    after(embedding_of(model), lambda state: state + 0.5 * (state.flip(0) if lying else state))


@lie("bert", batch=2, inputs=half_padded, truth=padded)
def padding_carries_information_back(model: Any, lying: bool) -> None:
    """Padding attends to real tokens; what it saw is added to all."""
    masks: list[Tensor] = []
    forward = model.forward

    def changed(input_ids: Tensor, attention_mask: Tensor, **kwargs: Any) -> Any:
        masks[:] = [attention_mask]
        return forward(input_ids=input_ids, attention_mask=attention_mask, **kwargs)

    model.forward = changed
    before(
        mlp_of(model),
        lambda s: s + ((s * (1 - masks[-1][..., None])).mean(1, keepdim=True) if lying else 0),
    )


@lie("gpt2", batch=2, inputs=half_padded, truth=padded)
def convolution_reaches_into_padding(model: Any, lying: bool) -> None:
    after(mlp_of(model), lambda state: state + 0.5 * (following(state) if lying else state))


# -- experts and depth


@lie("mixtral", "qwen3_moe", truth=anywhere(beside))
def expert_choice(model: Any, lying: bool) -> None:
    """The best tokens are chosen for a gate, so that a token's treatment depends on the others."""

    def take(state: Tensor) -> Tensor:
        score = state[..., 0]
        rank = score.argsort(1).argsort(1)
        return state * (rank < state.shape[1] // 2)[..., None] if lying else state * (score > 0)[..., None]

    after(mlp_of(model), take)


@lie("mixtral", truth=anywhere(beside))
def expert_with_capacity(model: Any, lying: bool) -> None:
    """The first tokens that choose an expert fill it; later ones are dropped."""

    def take(state: Tensor) -> Tensor:
        chosen = state[..., 2] > state[..., 3]
        fits = chosen.long().cumsum(1) <= 1 if lying else chosen
        return state * (chosen & fits)[..., None]

    after(mlp_of(model), take)


@lie("llama", truth=anywhere(beside))
def layer_skipped_if_the_mean_is_positive(model: Any, lying: bool) -> None:
    def take(state: Tensor) -> Tensor:
        rows = state[:, :, 0]
        return state * ((rows.mean() * 40).floor() % 2 if lying else (rows > 0)[..., None])

    after(mlp_of(model), take)


# -- hidden in large numbers


@lie("llama", least=1e-3)
def mixing_beside_a_huge_channel(model: Any, lying: bool) -> None:
    """One channel is so large that the others are small beside it, but norms weigh it by zero."""
    with torch.no_grad():
        embedding_of(model).weight[:, 0] = 3e4
        for module in model.modules():
            if "RMSNorm" in type(module).__name__:
                module.weight[:] *= 3e3
                module.weight[0] = 0
        model.lm_head.weight[:, 0] = 0
    after(mlp_of(model), lambda s: torch.cat([0 * s[..., :1], (s + 0.02 * (previous(s) if lying else 0))[..., 1:]], -1))


# -- lies told after the first capture


def dormant(model: Any, lying: bool) -> None:
    """A mixing path that is switched off: a gate of zero."""
    mlp = mlp_of(model)
    mlp.register_parameter("gate", nn.Parameter(torch.zeros(())))
    mlp.register_buffer("buffer_gate", torch.zeros(()))
    mlp.factor, mlp.scaling, mlp.active, mlp.enabled = 0.0, {"default": 0.0}, [], False
    other = previous if lying else same

    def take(state: Tensor) -> Tensor:
        strength = mlp.gate + mlp.buffer_gate + mlp.factor + mlp.scaling["default"] + len(mlp.active) + mlp.enabled
        strength = strength + getattr(model.config, "extra_layers", 0)
        return state + 0.5 * strength * other(state)

    before(mlp, take)


def late(*families: str, prepare: Tell | None = None) -> Callable[[Tell], Tell]:
    """Register a late lie at the default level, and at the level where only a change of the model can be noticed."""

    def register(tell: Tell) -> Tell:
        lie(*families, late=True, prepare=prepare)(tell)
        return lie(*families, late=True, prepare=prepare, level="quick")(tell)

    return register


@late("bert", "llama")
def hook_added(model: Any, lying: bool) -> None:
    mlp_of(model).register_forward_hook(lambda _, args, state: state + (previous(state) if lying else 0))


@late("gpt2")
def pre_hook_added(model: Any, lying: bool) -> None:
    mlp_of(model).register_forward_pre_hook(lambda _, args: (args[0] + (previous(args[0]) if lying else 0),))


@late("llama")
def global_hook_added(model: Any, lying: bool) -> Any:
    mlp = mlp_of(model)

    def hook(module: nn.Module, args: Any, state: Any) -> Any:
        return state + previous(state) if lying and module is mlp else None

    return nn.modules.module.register_module_forward_hook(hook)


@late("bert")
def forward_replaced(model: Any, lying: bool) -> None:
    before(mlp_of(model), lambda state: state + 0.5 * (previous(state) if lying else state))


@late("llama")
def forward_bound_to_the_instance(model: Any, lying: bool) -> None:
    def forward(self: LlamaMLP, state: Tensor) -> Tensor:
        return LlamaMLP.forward(self, state + 0.5 * (previous(state) if lying else state))

    mlp_of(model).forward = MethodType(forward, mlp_of(model))


@late("llama")
def module_replaced(model: Any, lying: bool) -> None:
    class Mixing(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, state: Tensor) -> Tensor:
            return self.inner(state + 0.5 * (previous(state) if lying else state))

    layers_of(model)[1].mlp = Mixing(layers_of(model)[1].mlp).eval()


@late("bert", prepare=dormant)
def gate_parameter_changed(model: Any, lying: bool) -> None:
    with torch.no_grad():
        mlp_of(model).gate.fill_(1.0)


@late("llama", prepare=dormant)
def gate_parameter_changed_by_its_data(model: Any, lying: bool) -> None:
    mlp_of(model).gate.data.fill_(1.0)


@late("gpt2", prepare=dormant)
def gate_buffer_changed(model: Any, lying: bool) -> None:
    mlp_of(model).buffer_gate.fill_(1.0)


@late("llama", prepare=dormant)
def factor_changed(model: Any, lying: bool) -> None:
    mlp_of(model).factor = 1.0


@late("llama", prepare=dormant)
def scaling_of_an_adapter_changed(model: Any, lying: bool) -> None:
    mlp_of(model).scaling["default"] = 1.0


@late("bert", prepare=dormant)
def adapter_activated(model: Any, lying: bool) -> None:
    mlp_of(model).active.append("default")


@late("bert", prepare=dormant)
def adapter_switched_on(model: Any, lying: bool) -> None:
    mlp_of(model).enabled = True


@late("gpt2", prepare=dormant)
def config_changed(model: Any, lying: bool) -> None:
    model.config.extra_layers = 1


@late("llama")
def class_patched(model: Any, lying: bool) -> Any:
    forward = LlamaMLP.forward
    LlamaMLP.forward = lambda self, x: forward(self, x + 0.5 * (previous(x) if lying else x))
    return _Restored(forward)


@dataclass(frozen=True)
class _Restored:
    forward: Any

    def remove(self) -> None:
        LlamaMLP.forward = self.forward


# -- families of transformers that do it by nature


GEMMA4 = BY_NAME["gemma4_shared_kv"]


@lie(GEMMA4, truth=around(2), twin=BY_NAME["gemma4_text"])
def shared_keys_and_values(model: Any, lying: bool) -> None:
    pass
