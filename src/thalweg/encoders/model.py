"""A transformers encoder and classifier with that attention: learned positions, norms after the sums, [CLS] is read."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from thalweg.encoders.attention import HeadProjections, attend, check_whole, head_sizes
from thalweg.encoders.encoder import PostNorm
from thalweg.errors import InputError


class IdentifiableConfig(PreTrainedConfig):
    """Sizes of an encoder. Key and value sizes that are left out follow from width, heads and `combine`.

    >>> config = IdentifiableConfig(hidden_size=64, num_attention_heads=4, key_size=8, combine="add")
    >>> config.key_size, config.value_size
    (8, 64)
    """

    model_type = "thalweg_identifiable"
    __no_type_check__ = True  # the __init__ that transformers makes takes more than the fields

    vocab_size: int = 8000
    hidden_size: int = 128
    num_hidden_layers: int = 1
    num_attention_heads: int = 4
    key_size: int | None = None
    value_size: int | None = None
    combine: str = "con"
    intermediate_size: int = 256
    hidden_act: str = "gelu"
    dropout: float = 0.1
    max_position_embeddings: int = 512
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        self.key_size, self.value_size = head_sizes(
            self.hidden_size, self.num_attention_heads, self.key_size, self.value_size, self.combine
        )
        for name in ("vocab_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings"):
            check_whole(name, getattr(self, name))
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise InputError(
                f"pad_token_id was given {self.pad_token_id!r}; expected one of the {self.vocab_size} tokens, or None"
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout was given {self.dropout!r}; expected a number from 0 to below 1")
        super().__post_init__(**kwargs)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attention in plain sight, as transformers' registry calls it."""
    mixed, weights = attend(query, key, value, attention_mask, scaling, dropout if module.training else 0.0)
    return mixed.transpose(1, 2), weights


class IdentifiableAttention(HeadProjections):
    """The attention of one layer, through the registry of transformers."""

    is_causal = False

    def __init__(self, config: IdentifiableConfig, layer_idx: int) -> None:
        super().__init__(
            config.hidden_size,
            config.num_attention_heads,
            key_size=config.key_size,
            value_size=config.value_size,
            combine="add" if config.combine == "add" else "con",
            dropout=config.dropout,
        )
        self.config, self.layer_idx = config, layer_idx

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        kernel = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation or "eager", eager_attention_forward
        )
        mixed, weights = kernel(
            self,
            *self.split(hidden_states, hidden_states, hidden_states),
            attention_mask,
            scaling=self.scaling,
            dropout=self.dropout if self.training else 0.0,
            **kwargs,
        )
        return self.join(mixed), weights


class IdentifiableLayer(PostNorm, GradientCheckpointingLayer):
    def __init__(self, config: IdentifiableConfig, layer_idx: int) -> None:
        super().__init__(
            config.hidden_size, config.intermediate_size, config.dropout, config.hidden_act, config.layer_norm_eps
        )
        self.self_attn = IdentifiableAttention(config, layer_idx)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        return self.after(hidden_states, self.self_attn(hidden_states, attention_mask, **kwargs)[0])


class IdentifiableEmbeddings(nn.Module):
    """Words and positions, added, normed."""

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, words: Tensor, position_ids: Tensor | None) -> Tensor:
        length, limit = words.shape[1], self.position_embeddings.num_embeddings
        if position_ids is None:
            if length > limit:
                raise InputError(f"the input has {length} tokens; this model has learnt positions for {limit}: cut it")
            position_ids = torch.arange(length, device=words.device)[None]
        return self.dropout(self.norm(words + self.position_embeddings(position_ids)))


class IdentifiablePreTrainedModel(PreTrainedModel):
    config_class = IdentifiableConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _no_split_modules = ["IdentifiableEmbeddings", "IdentifiableLayer"]  # noqa: RUF012
    _supports_sdpa = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": IdentifiableLayer, "attentions": IdentifiableAttention}  # noqa: RUF012

    def _init_weights(self, module: nn.Module) -> None:
        """Linear maps keep the size of what passes through them: these encoders are small and learn from nothing."""
        super()._init_weights(module)
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)


class IdentifiableModel(IdentifiablePreTrainedModel):
    """The encoder: hidden states of all tokens, and a pooled one of the first."""

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__(config)
        self.embeddings = IdentifiableEmbeddings(config)
        self.layers = nn.ModuleList(IdentifiableLayer(config, number) for number in range(config.num_hidden_layers))
        self.pooler = nn.Sequential(nn.Linear(config.hidden_size, config.hidden_size), nn.Tanh())
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings.word_embeddings = value  # pyright: ignore[reportAttributeAccessIssue]

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("expected either input_ids or inputs_embeds, and not both")
        words = self.embeddings.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        state = self.embeddings(words, position_ids)
        mask = create_bidirectional_mask(config=self.config, inputs_embeds=state, attention_mask=attention_mask)
        for layer in self.layers:
            state = layer(state, mask, **kwargs)
        return BaseModelOutputWithPooling(last_hidden_state=state, pooler_output=self.pooler(state[:, 0]))


class IdentifiableForSequenceClassification(IdentifiablePreTrainedModel):
    """The encoder with a linear layer that reads the pooled state."""

    def __init__(self, config: IdentifiableConfig) -> None:
        super().__init__(config)
        self.encoder = IdentifiableModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label or {}))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        found = self.encoder(input_ids, attention_mask, position_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(found.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=found.hidden_states, attentions=found.attentions
        )


AutoConfig.register(IdentifiableConfig.model_type, IdentifiableConfig)
AutoModel.register(IdentifiableConfig, IdentifiableModel)
AutoModelForSequenceClassification.register(IdentifiableConfig, IdentifiableForSequenceClassification)
