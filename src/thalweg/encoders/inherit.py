"""Initialise an encoder from a pretrained one, as far as shapes allow.

Keys enter a head only through W_q·W_kᵀ and values only through W_v·W_o, so these products are inherited. With as many
dimensions as before, or more, they are the same; with fewer they are the best approximation of that rank. Added heads
share their output projection: with values as wide as the model, W_v·W_o itself becomes the value projection, and the
layer computes what it did before. A source is accepted if a copy reproduces its hidden states, whatever its class.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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

PROOF_TOKENS = 512  # on which a copy must agree with the source, or all positions that it has
SPARSE = ("attention_window", "attention_type")  # config entries of encoders whose attention changes with the length
# Names of the parts of post-norm encoders: BERT and its relatives, DistilBERT, and ours.
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
# Classifier heads: a dense layer, then the logits.
HEADS = (("pooler.dense", "classifier"), ("classifier.dense", "classifier.out_proj"), ("pooler.0", "classifier"))
Origin = Literal["exact", "approximate", "fresh"]


@dataclass(frozen=True)
class Inherited:
    """The parts of a model by origin: copied exactly, approximated at a lower rank, or freshly initialised."""

    exact: tuple[str, ...]
    approximate: tuple[str, ...]
    fresh: tuple[str, ...]

    @staticmethod
    def of(origins: Mapping[str, Origin]) -> "Inherited":
        def names(origin: Origin) -> tuple[str, ...]:
            return tuple(name for name, own in origins.items() if own == origin)

        return Inherited(names("exact"), names("approximate"), names("fresh"))


@dataclass(frozen=True, eq=False)
class PretrainedEncoder:
    """The parts of a pretrained encoder, under our names."""

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
        """Concatenated heads have their own rows of the output projection, added heads share them."""
        rows = self.layers[0]["out_proj"].weight.shape[1]
        return "con" if rows == self.heads * self.value_size else "add"

    def embeddings(self) -> tuple[Tensor, Tensor, nn.LayerNorm]:
        """(words, positions, norm); positions include the embedding of the first segment."""
        stage = self.base.embeddings
        positions = stage.position_embeddings
        offset = 0 if positions.padding_idx is None else positions.padding_idx + 1  # RoBERTa counts from there
        table = positions.weight[offset:].double()
        if hasattr(stage, "token_type_embeddings"):
            table = table + stage.token_type_embeddings.weight[0].double()
        return stage.word_embeddings.weight, table, getattr(stage, self.embedding_norm)


def read_encoder(model: PreTrainedModel) -> PretrainedEncoder:
    """Find the parts of an encoder; raises for encoders that cannot be inherited from."""
    base = getattr(model, model.base_model_prefix, model)
    for layout in () if any(hasattr(model.config, name) for name in SPARSE) else LAYOUTS:
        try:
            heads, width = model.config.num_attention_heads, model.config.hidden_size
            paths = {name: path for name, path in layout.items() if name not in ("layers", "embedding norm")}
            stack = list(base.get_submodule(layout["layers"]).children())
            layers = tuple({name: layer.get_submodule(path) for name, path in paths.items()} for layer in stack)
            source = PretrainedEncoder(model, base, layout["embedding norm"], layers, heads, width)
            words = source.embeddings()[0]
        except AttributeError:
            continue
        if words.shape[1] == width:
            return source
    raise InputError(
        f"cannot inherit from a {type(model).__name__}; expected an encoder with learned positions, post-norm layers "
        "and embeddings as wide as its layers, such as BERT, RoBERTa or DistilBERT"
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
    """The config of a pretrained encoder, or of its lowest layers, with other attention; keys keep their size."""
    source = read_encoder(model)
    if value_size is None and combine == source.combine:
        value_size = source.value_size
    if layers is not None and not 1 <= layers <= len(source.layers):
        raise InputError(
            f"layers must be between 1 and {len(source.layers)}, the layers of {_name(model)}, got {layers}"
        )
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
    """Copy the weights of a pretrained encoder into a model, and return the origin of each part.

    >>> import thalweg as tw
    >>> from thalweg.encoders import IdentifiableForSequenceClassification, config_like, inherit
    >>> source = tw.load().model
    >>> model = IdentifiableForSequenceClassification(config_like(source, combine="add"))
    >>> inherit(model, source).approximate
    ()
    """
    source = read_encoder(pretrained)
    if model.config.hidden_size != source.width:
        raise InputError(
            f"the model must be as wide as {_name(pretrained)}, {source.width}, got {model.config.hidden_size}"
        )
    head = _verified_head(source)
    origins = _copy_encoder(model.encoder, source)
    dense, logits = head or (None, None)
    origins["pooler"] = "exact" if dense is not None and _copy(model.encoder.pooler[0], dense) else "fresh"
    same = _labels(model) == _labels(pretrained)
    copied = logits is not None and same and _copy(model.classifier, logits)
    origins["classifier"] = "exact" if copied else "fresh"
    return Inherited.of(origins)


def _verified_head(source: PretrainedEncoder) -> tuple[nn.Module, nn.Module] | None:
    """Raise unless a copy of the source has its hidden states; return its classifier head if logits agree, too."""
    copy = IdentifiableForSequenceClassification(config_like(source.model, combine=source.combine, dropout=0.0))
    nn.Module.to(copy, device=source.model.device, dtype=source.model.dtype).eval()
    _copy_encoder(copy.encoder, source)
    length, words = min(PROOF_TOKENS, copy.config.max_position_embeddings), copy.config.vocab_size
    ids = torch.arange(length, device=source.model.device)[None] * 7919 % words  # a prime: many different words
    ids = torch.where(ids == copy.config.pad_token_id, (ids + 1) % words, ids)
    was_training = source.model.training
    source.model.eval()
    try:
        states = source.base(input_ids=ids).last_hidden_state
        logits = source.model(input_ids=ids).get("logits")
    finally:
        source.model.train(was_training)
    error = relative_error(copy.encoder(input_ids=ids).last_hidden_state[0], states[0])
    allowed = tolerance(states.dtype, source.width * len(source.layers))
    if not error <= allowed:
        raise InputError(
            f"{_name(source.model)} cannot be copied: an encoder with its weights differs by {error:.1e} (allowed "
            f"{allowed:.1e}); expected one such as BERT, RoBERTa or DistilBERT"
        )
    for dense, last in _heads(source):
        fits = _copy(copy.encoder.pooler[0], dense) and _copy(copy.classifier, last)
        if fits and logits is not None and relative_error(copy(input_ids=ids).logits, logits) <= allowed:
            return dense, last
    return None


def _heads(source: PretrainedEncoder) -> Iterator[tuple[nn.Module, nn.Module]]:
    for dense, last in HEADS:
        for root in (source.base, source.model):
            try:
                yield root.get_submodule(dense), source.model.get_submodule(last)
            except AttributeError:
                continue


def _copy_encoder(encoder: IdentifiableModel, source: PretrainedEncoder) -> dict[str, Origin]:
    """Copy embeddings and layers; returns the origin of each part."""
    origins = _copy_embeddings(encoder, source)
    for number, layer in enumerate(encoder.layers):
        assert isinstance(layer, IdentifiableLayer)
        origins |= _copy_layer(layer, source, number)
    return origins


def _copy_embeddings(encoder: IdentifiableModel, source: PretrainedEncoder) -> dict[str, Origin]:
    words, positions, norm = source.embeddings()
    own = encoder.embeddings
    same_words = own.word_embeddings.weight.shape == words.shape
    if same_words:
        own.word_embeddings.weight.copy_(words)
    known = min(len(positions), own.position_embeddings.num_embeddings)
    own.position_embeddings.weight[:known].copy_(positions[:known])
    own.norm.load_state_dict(norm.state_dict())
    return {
        "embeddings.words": "exact" if same_words else "fresh",
        "embeddings.positions": "exact" if known == own.position_embeddings.num_embeddings else "approximate",
    }


def _copy_layer(layer: IdentifiableLayer, source: PretrainedEncoder, number: int) -> dict[str, Origin]:
    name = f"layers.{number}"
    if number >= len(source.layers):
        return {name: "fresh"}
    parts = source.layers[number]
    attention: Origin = "fresh"
    if layer.self_attn.num_heads == source.heads:
        attention = "exact" if _copy_attention(layer.self_attn, parts, source) else "approximate"
    for norm in ("norm1", "norm2"):
        getattr(layer, norm).load_state_dict(parts[norm].state_dict())
    same_size = layer.linear1.weight.shape == parts["linear1"].weight.shape
    if same_size:
        _copy(layer.linear1, parts["linear1"])
        _copy(layer.linear2, parts["linear2"])
    return {f"{name}.self_attn": attention, f"{name}.mlp": "exact" if same_size else "fresh"}


def _copy_attention(own: HeadProjections, parts: Mapping[str, Any], source: PretrainedEncoder) -> bool:
    """Copy the projections at the sizes of the layer; returns whether the result is exact."""
    keys, values, heads = source.key_size, source.value_size, source.heads
    weights = {name: parts[name].weight.double() for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
    query, key = (weights[name].unflatten(0, (heads, keys)) for name in ("q_proj", "k_proj"))
    value = weights["v_proj"].unflatten(0, (heads, values))
    query_bias = parts["q_proj"].bias.double().unflatten(0, (heads, keys))
    value_bias = parts["v_proj"].bias.double().unflatten(0, (heads, values))
    out = weights["out_proj"].T  # [head size width], or shared
    out = out.unflatten(0, (heads, values)) if source.combine == "con" else out.expand(heads, -1, -1)
    # a key bias adds a constant to all logits of a row, which softmax ignores
    biased_query = torch.cat([query, query_bias[..., None]], -1).mT  # [head width+1 size]
    new_query, new_key = _resized(biased_query, key, own.key_size)
    new_query = new_query * (own.key_size / keys) ** 0.5  # compensates for the new scaling
    own.q_proj.weight.copy_(new_query[:, :-1].mT.flatten(0, 1))
    own.q_proj.bias.copy_(new_query[:, -1].flatten())
    own.k_proj.weight.copy_(new_key.flatten(0, 1))
    own.k_proj.bias.zero_()
    exact = own.key_size >= keys
    if own.combine == "con":
        new_value, new_out = _resized(value.mT, out, own.value_size)
        own.out_proj.weight.copy_(new_out.flatten(0, 1).T)
        exact &= own.value_size >= values
    else:
        product = (value.mT @ out).flatten(0, 1)  # [head·width width]: each head's contribution of a token
        if own.value_size == source.width:
            shared = torch.eye(source.width, dtype=product.dtype, device=product.device)
        else:
            shared = torch.linalg.eigh(product.mT @ product).eigenvectors[:, -own.value_size :].mT
            exact &= source.combine == "add" and own.value_size >= values
        new_value = (product @ shared.mT).unflatten(0, (heads, source.width))
        own.out_proj.weight.copy_(shared.T)
    own.v_proj.weight.copy_(new_value.mT.flatten(0, 1))
    own.v_proj.bias.zero_()
    # attention rows sum to one, so a value bias reaches the output unchanged
    own.out_proj.bias.copy_(parts["out_proj"].bias.double() + torch.einsum("hv,hvw->w", value_bias, out))
    return exact


def _resized(left: Tensor, right: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Factors of left·right, [head rows inner] and [head inner columns], with `size` inner dimensions.

    With fewer dimensions than before, the best approximation of that rank. With more, the product stays the same and
    the new dimensions are trainable: their left factor is zero, their right one is not.
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
    """Copy a linear layer of the same shape; returns False for anything else."""
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
