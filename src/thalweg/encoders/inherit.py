"""Begin with a pretrained encoder's weights, as far as shapes allow.

Keys enter a head only through W_q·W_kᵀ, values only through W_v·W_o, so these products are what is inherited. With as
many dimensions as before, or more, they are the same; with fewer they are the nearest of that rank. Added heads share
their way out: with values as wide as the model W_v·W_o itself becomes the values' map, and the layer computes what it
did. Only a source whose hidden states a copy reproduces is accepted, whatever it is called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from thalweg.encoders.attention import Combine, HeadProjections
from thalweg.encoders.model import (
    IdentifiableConfig,
    IdentifiableForSequenceClassification,
    IdentifiableLayer,
    IdentifiableModel,
)
from thalweg.errors import InputError
from thalweg.numerics import relative_error, tolerance

SAMPLE = 512  # tokens on which a copy must agree with the source, or as many as it has positions
SPARSE = ("attention_window", "attention_type")  # settings of encoders whose attention changes with the length
# Where encoders with norms after the sums keep their parts: as BERT and its kin, as DistilBERT, and as ours.
LAYOUTS = (
    {
        "embedding norm": "LayerNorm",
        "layers": "encoder.layer",
        "q_proj": "attention.self.query",
        "k_proj": "attention.self.key",
        "v_proj": "attention.self.value",
        "out_proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm2": "output.LayerNorm",
    },
    {
        "embedding norm": "LayerNorm",
        "layers": "transformer.layer",
        "q_proj": "attention.q_lin",
        "k_proj": "attention.k_lin",
        "v_proj": "attention.v_lin",
        "out_proj": "attention.out_lin",
        "norm1": "sa_layer_norm",
        "linear1": "ffn.lin1",
        "linear2": "ffn.lin2",
        "norm2": "output_layer_norm",
    },
    {
        "embedding norm": "norm",
        "layers": "layers",
        **{name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj")},
        **{name: name for name in ("norm1", "linear1", "linear2", "norm2")},
    },
)
# a dense layer, then the logits
HEADS = (("pooler.dense", "classifier"), ("classifier.dense", "classifier.out_proj"), ("pooler.0", "classifier"))


@dataclass(frozen=True)
class Inherited:
    """What a model took over: as it was, as near as fewer dimensions allow, and what it begins without."""

    exact: tuple[str, ...]
    approximate: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Source:
    """The parts of a pretrained encoder, under the names that they have here."""

    model: PreTrainedModel
    base: Any
    embedding_norm: str
    layers: tuple[Mapping[str, Any], ...]
    heads: int
    width: int

    @property
    def key_size(self) -> int:
        return len(self.layers[0]["k_proj"].weight) // self.heads

    @property
    def value_size(self) -> int:
        return len(self.layers[0]["v_proj"].weight) // self.heads

    @property
    def combine(self) -> Combine:
        """Concatenated heads have a row of the projection for each of their values, added ones share them."""
        rows = self.layers[0]["out_proj"].weight.shape[1]
        return "con" if rows == self.heads * self.value_size else "add"

    def embeddings(self) -> tuple[Tensor, Tensor, nn.LayerNorm]:
        """(words, positions, norm); what the first segment adds to every token is in the positions."""
        found = self.base.embeddings
        positions = found.position_embeddings
        offset = 0 if positions.padding_idx is None else positions.padding_idx + 1  # RoBERTa counts from there
        table = positions.weight[offset:].double()
        if hasattr(found, "token_type_embeddings"):
            table = table + found.token_type_embeddings.weight[0].double()
        return found.word_embeddings.weight, table, getattr(found, self.embedding_norm)


def read_source(model: PreTrainedModel) -> Source:
    """The parts of an encoder that can be inherited from; others are refused."""
    base = getattr(model, model.base_model_prefix, model)
    for layout in () if any(hasattr(model.config, name) for name in SPARSE) else LAYOUTS:
        try:
            heads, width = model.config.num_attention_heads, model.config.hidden_size
            names = {name: place for name, place in layout.items() if name not in ("layers", "embedding norm")}
            stack = list(base.get_submodule(layout["layers"]).children())
            layers = tuple({name: layer.get_submodule(place) for name, place in names.items()} for layer in stack)
            source = Source(model, base, layout["embedding norm"], layers, heads, width)
            words = source.embeddings()[0]
        except AttributeError:
            continue
        if words.shape[1] == width:
            return source
    raise InputError(
        f"a {type(model).__name__} cannot be inherited from; expected an encoder with learned positions, norms "
        "after its sums and embeddings of its own width, such as BERT, RoBERTa or DistilBERT"
    )


def config_like(
    model: PreTrainedModel,
    *,
    combine: str = "con",
    key_size: int | None = None,
    value_size: int | None = None,
    layers: int | None = None,
    dropout: float = 0.1,
    id2label: Mapping[int, str] | None = None,
) -> IdentifiableConfig:
    """Sizes of a pretrained encoder, or of its lowest layers, with other attention; keys stay as large as they are."""
    source = read_source(model)
    if value_size is None and combine == source.combine:
        value_size = source.value_size
    if layers is not None and not 1 <= layers <= len(source.layers):
        raise InputError(f"layers was given {layers}; {_name(model)} has {len(source.layers)}: expected 1 to that many")
    words, positions, norm = source.embeddings()
    inner = source.layers[0]["linear1"].weight.shape[0]
    labels: Any = dict(enumerate(_labels(model)) if id2label is None else id2label)
    return IdentifiableConfig(
        vocab_size=len(words),
        hidden_size=source.width,
        num_hidden_layers=layers or len(source.layers),
        num_attention_heads=source.heads,
        key_size=source.key_size if key_size is None else key_size,
        value_size=value_size,
        combine=combine,
        intermediate_size=inner,
        hidden_act=model.config.hidden_act if hasattr(model.config, "hidden_act") else model.config.activation,
        dropout=dropout,
        max_position_embeddings=len(positions),
        layer_norm_eps=norm.eps,
        pad_token_id=model.config.pad_token_id,
        id2label=labels,
        label2id={label: number for number, label in labels.items()},
    )


@torch.no_grad()
def inherit(model: IdentifiableForSequenceClassification, pretrained: PreTrainedModel) -> Inherited:
    """Fill a model with what a pretrained encoder has, and say what was taken.

    >>> import thalweg as tw
    >>> from thalweg.encoders import IdentifiableForSequenceClassification, config_like, inherit
    >>> source = tw.load().model
    >>> model = IdentifiableForSequenceClassification(config_like(source, combine="add"))
    >>> inherit(model, source).approximate
    ()
    """
    source = read_source(pretrained)
    if model.config.hidden_size != source.width:
        raise InputError(
            f"nothing fits: {_name(pretrained)} has a width of {source.width}, the model {model.config.hidden_size}"
        )
    head = _prove(source)
    took = _Took()
    encoder = model.encoder
    _take_embeddings(encoder, source, took)
    for number, layer in enumerate(encoder.layers):
        assert isinstance(layer, IdentifiableLayer)
        _take_layer(layer, source, number, took)
    dense, logits = head or (None, None)
    linear = encoder.pooler[0]
    took.note("pooler", "exact" if dense is not None and _copy(linear, dense) else "left")
    same = _labels(model) == _labels(pretrained)
    took.note("classifier", "exact" if logits is not None and same and _copy(model.classifier, logits) else "left")
    return Inherited(*(tuple(names) for names in (took.exact, took.approximate, took.left)))


@dataclass
class _Took:
    exact: list[str] = field(default_factory=list)
    approximate: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def note(self, name: str, how: str) -> None:
        getattr(self, how).append(name)


def _prove(source: Source) -> tuple[nn.Module, nn.Module] | None:
    """Build the source's own sizes from its parts: hidden states must agree; its head is returned if logits do too."""
    twin = IdentifiableForSequenceClassification(config_like(source.model, combine=source.combine, dropout=0.0))
    nn.Module.to(twin, device=source.model.device, dtype=source.model.dtype).eval()
    _take_embeddings(twin.encoder, source, _Took())
    for number, layer in enumerate(twin.encoder.layers):
        assert isinstance(layer, IdentifiableLayer)
        _take_layer(layer, source, number, _Took())
    length, words = min(SAMPLE, twin.config.max_position_embeddings), twin.config.vocab_size
    ids = torch.arange(length, device=source.model.device)[None] * 7919 % words  # a prime: many different words
    ids = torch.where(ids == twin.config.pad_token_id, (ids + 1) % words, ids)
    was_training = source.model.training
    source.model.eval()
    try:
        found = source.base(input_ids=ids).last_hidden_state
        logits = source.model(input_ids=ids).get("logits")
    finally:
        source.model.train(was_training)
    error = relative_error(twin.encoder(input_ids=ids).last_hidden_state[0], found[0])
    allowed = tolerance(found.dtype, source.width * len(source.layers))
    if not error <= allowed:
        raise InputError(
            f"{_name(source.model)} does more than can be copied: an encoder of its parts differs by {error:.1e} where "
            f"{allowed:.1e} is allowed; expected one such as BERT, RoBERTa or DistilBERT"
        )
    for dense, last in _heads(source):
        fits = _copy(twin.encoder.pooler[0], dense) and _copy(twin.classifier, last)
        if fits and logits is not None and relative_error(twin(input_ids=ids).logits, logits) <= allowed:
            return dense, last
    return None


def _heads(source: Source) -> Iterator[tuple[nn.Module, nn.Module]]:
    for place, last in HEADS:
        for root in (source.base, source.model):
            try:
                yield root.get_submodule(place), source.model.get_submodule(last)
            except AttributeError:
                continue


def _take_embeddings(encoder: IdentifiableModel, source: Source, took: _Took) -> None:
    words, positions, norm = source.embeddings()
    own = encoder.embeddings
    if own.word_embeddings.weight.shape == words.shape:
        own.word_embeddings.weight.copy_(words)
        took.note("embeddings.words", "exact")
    else:
        took.note("embeddings.words", "left")
    known = min(len(positions), own.position_embeddings.num_embeddings)
    own.position_embeddings.weight[:known].copy_(positions[:known])
    took.note("embeddings.positions", "exact" if known == own.position_embeddings.num_embeddings else "approximate")
    own.norm.load_state_dict(norm.state_dict())


def _take_layer(layer: IdentifiableLayer, source: Source, number: int, took: _Took) -> None:
    name = f"layers.{number}"
    if number >= len(source.layers):
        took.note(name, "left")
        return
    parts = source.layers[number]
    if layer.self_attn.num_heads == source.heads:
        exact = _take_attention(layer.self_attn, parts, source)
        took.note(f"{name}.self_attn", "exact" if exact else "approximate")
    else:
        took.note(f"{name}.self_attn", "left")
    for norm in ("norm1", "norm2"):
        getattr(layer, norm).load_state_dict(parts[norm].state_dict())
    fits = layer.linear1.weight.shape == parts["linear1"].weight.shape
    if fits:
        _copy(layer.linear1, parts["linear1"])
        _copy(layer.linear2, parts["linear2"])
    took.note(f"{name}.mlp", "exact" if fits else "left")


def _take_attention(own: HeadProjections, parts: Mapping[str, Any], source: Source) -> bool:
    """Queries and keys, values and the way out; whether nothing was lost."""
    keys, values, heads = source.key_size, source.value_size, source.heads
    weights = {name: parts[name].weight.double() for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    query, key = (weights[name].unflatten(0, (heads, keys)) for name in ("q_proj", "k_proj"))
    value = weights["v_proj"].unflatten(0, (heads, values))
    query_bias = parts["q_proj"].bias.double().unflatten(0, (heads, keys))
    value_bias = parts["v_proj"].bias.double().unflatten(0, (heads, values))
    out = weights["out_proj"].T  # [head size width], or shared
    out = out.unflatten(0, (heads, values)) if source.combine == "con" else out.expand(heads, -1, -1)
    # a bias of the keys adds the same to all logits of a row: softmax does not see it
    asked = torch.cat([query, query_bias[..., None]], -1).mT  # [head width+1 size]
    asking, answering = _resized(asked, key, own.key_size)
    asking = asking * (own.key_size / keys) ** 0.5  # what the new scaling takes away
    own.q_proj.weight.copy_(asking[:, :-1].mT.flatten(0, 1))
    own.q_proj.bias.copy_(asking[:, -1].flatten())
    own.k_proj.weight.copy_(answering.flatten(0, 1))
    own.k_proj.bias.zero_()
    exact = own.key_size >= keys
    if own.combine == "con":
        giving, outward = _resized(value.mT, out, own.value_size)
        own.out_proj.weight.copy_(outward.flatten(0, 1).T)
        exact &= own.value_size >= values
    else:
        whole = (value.mT @ out).flatten(0, 1)  # [head·width width]: what each head makes of a token
        if own.value_size == source.width:
            shared = torch.eye(source.width, dtype=whole.dtype, device=whole.device)
        else:
            shared = torch.linalg.eigh(whole.mT @ whole).eigenvectors[:, -own.value_size :].mT
            exact &= source.combine == "add" and own.value_size >= values
        giving = (whole @ shared.mT).unflatten(0, (heads, source.width))
        own.out_proj.weight.copy_(shared.T)
    own.v_proj.weight.copy_(giving.mT.flatten(0, 1))
    own.v_proj.bias.zero_()
    # rows of attention sum to one, so that a bias of the values comes out as it went in
    own.out_proj.bias.copy_(parts["out_proj"].bias.double() + torch.einsum("hv,hvw->w", value_bias, out))
    return exact


def _resized(left: Tensor, right: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Two factors of left·right, [head rows inner] and [head inner columns], with `size` inner dimensions.

    The nearest of that rank where there are fewer than before; where there are more the product stays, and what is
    new can be learnt: its left factor is zero, its right one is not.
    """
    inner = left.shape[-1]
    if size >= inner:
        fresh = torch.randn(len(right), size - inner, right.shape[-1], dtype=right.dtype, device=right.device)
        scale = right.square().mean().sqrt()
        return nn.functional.pad(left, (0, size - inner)), torch.cat([right, scale * fresh], 1)
    first, second = torch.linalg.qr(left), torch.linalg.qr(right.mT)
    u, sizes, v = torch.linalg.svd(first.R @ second.R.mT)
    root = sizes[:, None, :size].sqrt()
    return first.Q @ u[..., :size] * root, (second.Q @ v.mT[..., :size] * root).mT


def _copy(own: nn.Module, other: nn.Module) -> bool:
    """Copy a linear layer if it has the same shape."""
    if not isinstance(own, nn.Linear) or not isinstance(other, nn.Linear) or own.weight.shape != other.weight.shape:
        return False
    own.weight.copy_(other.weight)
    if other.bias is None:
        own.bias.zero_()
    else:
        own.bias.copy_(other.bias)
    return True


def _labels(model: PreTrainedModel) -> list[str]:
    labels: dict[Any, str] = dict(model.config.id2label or {})
    return [labels[number] for number in sorted(labels)]


def _name(model: PreTrainedModel) -> str:
    return repr(model.name_or_path or type(model).__name__)
