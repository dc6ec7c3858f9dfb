"""Tiny random models of all architecture families that the contract tests cover, built offline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D

import thalweg.encoders  # noqa: F401 - known to AutoModel from here on


@dataclass(frozen=True, eq=False)
class Family:
    name: str
    task: str
    build: Callable[[], PreTrainedModel]
    inputs: Callable[[int, int], dict[str, Tensor]]
    attentions: Mapping[str, int]  # attention calls that one forward pass makes, by kind
    traits: frozenset[str]


PAD, BOS, MASK, EOS = 0, 1, 2, 3  # an EOS of 2 turns on the legacy pooling of CLIP
FIRST_WORD, VOCABULARY = 5, 99
WINDOW = 4  # of sliding-window attention: texts of more than four tokens reach past it

# Used if the configuration has the field, under this name or an alias.
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "cls_token_id": BOS,
    "sep_token_id": EOS,
    "mask_token_id": MASK,
    "max_position_embeddings": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "decoder_start_token_id": EOS,
    "image_size": 16,
    "patch_size": 4,
    "num_labels": 3,
}
EXTRA = {"num_labels", "global_head_dim"}  # accepted by configurations without such a field
SEQ2SEQ: dict[str, Any] = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
T5: dict[str, Any] = {
    "num_layers": 2,
    "num_decoder_layers": 2,
    "d_ff": 48,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
}
MULTIPLIERS: dict[str, Any] = {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.3,
    "logits_scaling": 2.0,
}
IDENTIFIABLE: dict[str, Any] = {"model_type": "thalweg_identifiable", "key_size": 3}
LOCAL_GLOBAL = {
    "sliding_window": WINDOW,
    "layer_types": ["full_attention", "sliding_attention", "full_attention"],
}

AUTO: dict[str, Any] = {
    "classification": AutoModelForSequenceClassification,
    "masked_lm": AutoModelForMaskedLM,
    "causal_lm": AutoModelForCausalLM,
    "seq2seq": AutoModelForSeq2SeqLM,
    "encoder": AutoModel,
    "vision": AutoModelForImageClassification,
    "speech": AutoModelForSpeechSeq2Seq,
}


def config_of(model_type: str, overrides: Mapping[str, Any]) -> PreTrainedConfig:
    kind = CONFIG_MAPPING[model_type]
    aliases = kind.attribute_map  # an alias may also point from a field to a name that is not one
    known = {field.name for field in fields(kind)} | EXTRA
    values: dict[str, Any] = {}
    for name, value in [*overrides.items(), *SIZES.items()]:
        field = name if name in known else aliases.get(name)
        if field in known:
            values.setdefault(field, value)
        elif name in overrides:
            raise TypeError(f"{kind.__name__} has no {name!r}")
    return kind(**values)


@torch.no_grad()
def randomise(model: PreTrainedModel, generator: torch.Generator) -> None:
    """Move every parameter off its initial value, so that no 0 or 1 hides a term."""
    seen: set[int] = set()
    for module in model.modules():
        kind = type(module).__name__
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            noise = torch.randn(parameter.shape, generator=generator)
            if "sinks" in name:
                parameter.copy_(noise)
            elif "LayerScale" in kind:
                parameter.add_(0.5 * noise)
            elif parameter.ndim < 2 or "Norm" in kind or name == "A_log":
                parameter.add_(0.2 * noise)
            elif isinstance(module, nn.Embedding) or "embed" in name or "token" in name:
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(noise / fan_in(module, parameter) ** 0.5)


def fan_in(module: nn.Module, weight: Tensor) -> int:
    if isinstance(module, Conv1D):
        return weight.shape[0]
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        return weight[0].numel()
    return weight.shape[-1]


def words(batch: int, length: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(FIRST_WORD, VOCABULARY, (batch, length), generator=generator)


def text(batch: int, length: int) -> dict[str, Tensor]:
    ids = words(batch, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def text_with_end(batch: int, length: int) -> dict[str, Tensor]:
    inputs = text(batch, length)
    inputs["input_ids"][:, -1] = EOS
    return inputs


def text_pair(batch: int, length: int) -> dict[str, Tensor]:
    return {**text(batch, length), "decoder_input_ids": words(batch, length + 1, seed=2)}


def image(batch: int, length: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {"pixel_values": torch.randn(batch, 3, 16, 16, generator=generator)}


def speech(batch: int, length: int) -> dict[str, Tensor]:
    features = torch.randn(batch, 8, 22, generator=torch.Generator().manual_seed(1))
    return {"input_features": features, "decoder_input_ids": words(batch, length, seed=2)}


INPUTS = {"vision": image, "speech": speech, "seq2seq": text_pair}


def family(
    name: str,
    task: str,
    traits: str = "",
    *,
    model_type: str | None = None,
    auto: Any = None,
    inputs: Callable[[int, int], dict[str, Tensor]] | None = None,
    attentions: Mapping[str, int] | None = None,
    unscaled: str | None = None,  # query weights to shrink, if the model does not divide by sqrt(size)
    **overrides: Any,
) -> Family:
    def build() -> PreTrainedModel:
        config = config_of(model_type or name, overrides)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = (auto or AUTO[task]).from_config(config, dtype=torch.float32)
        randomise(model, torch.Generator().manual_seed(0))
        for parameter_name, parameter in model.named_parameters():
            if unscaled and parameter_name.endswith(unscaled):
                parameter.data.mul_(SIZES["head_dim"] ** -0.5)
        return model.eval()

    if attentions is None:
        pair = task in ("seq2seq", "speech")
        attentions = {"encoder": 2, "decoder": 2, "cross": 2} if pair else {"self": 3}
    implied = {
        "causal_lm": {"causal"},
        "seq2seq": {"cross_attention"},
        "speech": {"cross_attention"},
    }
    return Family(
        name=name,
        task=task,
        build=build,
        inputs=inputs or INPUTS.get(task, text),
        attentions=MappingProxyType(dict(attentions)),
        traits=frozenset(traits.split()) | implied.get(task, set()),
    )


THROUGH_REGISTRY: tuple[Family, ...] = (
    family("bert", "classification", "post_norm"),
    family("roberta", "classification", "post_norm"),
    family("xlm_roberta", "classification", "post_norm", model_type="xlm-roberta"),
    family("camembert", "masked_lm", "post_norm"),
    family("ernie", "classification", "post_norm"),
    family("distilbert", "classification", "post_norm", hidden_dim=48),
    family("albert", "classification", "post_norm shared_layers", embedding_size=16),
    family("electra", "masked_lm", "post_norm", embedding_size=16),
    family("identifiable_con", "classification", "post_norm own_value_size", **IDENTIFIABLE, value_size=5),
    family("identifiable_add", "classification", "post_norm own_value_size heads_added", **IDENTIFIABLE, combine="add"),
    family("layoutlm", "masked_lm", "post_norm", max_2d_position_embeddings=16),
    family("esm", "masked_lm", "pre_norm rotary", position_embedding_type="rotary"),
    family("modernbert", "masked_lm", "pre_norm rotary sliding_window", local_attention=2 * WINDOW),
    family("nomic_bert", "encoder", "post_norm rotary"),
    family("eurobert", "masked_lm", "pre_norm rotary gqa"),
    family("clip_text_model", "encoder", "pre_norm causal", inputs=text_with_end),
    family("gpt2", "causal_lm", "pre_norm conv1d"),
    family("gpt_bigcode", "causal_lm", "pre_norm gqa"),
    family("gpt_neox", "causal_lm", "pre_norm rotary parallel"),
    family("opt", "causal_lm", "pre_norm", ffn_dim=48),
    family("biogpt", "causal_lm", "pre_norm"),
    family("llama", "causal_lm", "pre_norm rotary gqa"),
    family("mistral", "causal_lm", "pre_norm rotary gqa sliding_window", sliding_window=WINDOW),
    family("mixtral", "causal_lm", "pre_norm rotary gqa moe"),
    family("qwen2", "causal_lm", "pre_norm rotary gqa"),
    family("qwen2_moe", "causal_lm", "pre_norm rotary gqa moe"),
    family("qwen3", "causal_lm", "pre_norm rotary gqa"),
    family("qwen3_moe", "causal_lm", "pre_norm rotary gqa moe"),
    family("gemma", "causal_lm", "pre_norm rotary gqa"),
    family(
        "gemma2",
        "causal_lm",
        "pre_norm branch_norm rotary gqa sliding_window soft_cap",
        query_pre_attn_scalar=12,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        **LOCAL_GLOBAL,
    ),
    family(
        "gemma3_text",
        "causal_lm",
        "pre_norm branch_norm rotary gqa sliding_window",
        query_pre_attn_scalar=12,
        **LOCAL_GLOBAL,
    ),
    family("phi", "causal_lm", "pre_norm rotary gqa parallel"),
    family("phi3", "causal_lm", "pre_norm rotary gqa"),
    family("olmo", "causal_lm", "pre_norm rotary gqa", clip_qkv=2.0),
    family("olmo2", "causal_lm", "branch_norm rotary gqa"),
    family("exaone4", "causal_lm", "branch_norm rotary gqa sliding_window", **LOCAL_GLOBAL),
    family("cohere", "causal_lm", "pre_norm rotary gqa parallel", use_qk_norm=True),
    family("cohere2", "causal_lm", "pre_norm rotary gqa parallel sliding_window", **LOCAL_GLOBAL),
    family("stablelm", "causal_lm", "pre_norm rotary gqa", qk_layernorm=True),
    family("granite", "causal_lm", "pre_norm rotary gqa residual_multiplier", **MULTIPLIERS),
    family("granitemoe", "causal_lm", "pre_norm rotary gqa residual_multiplier moe", **MULTIPLIERS),
    family("glm4", "causal_lm", "pre_norm branch_norm rotary gqa"),
    family("smollm3", "causal_lm", "pre_norm rotary gqa", no_rope_layer_interval=2),
    family("starcoder2", "causal_lm", "pre_norm rotary gqa sliding_window", sliding_window=WINDOW),
    family("helium", "causal_lm", "pre_norm rotary gqa"),
    family("arcee", "causal_lm", "pre_norm rotary gqa"),
    family("seed_oss", "causal_lm", "pre_norm rotary gqa"),
    family("hunyuan_v1_dense", "causal_lm", "pre_norm rotary gqa"),
    family("persimmon", "causal_lm", "pre_norm rotary"),
    family("olmo3", "causal_lm", "branch_norm rotary gqa sliding_window", **LOCAL_GLOBAL),
    family(
        "gemma4_text",
        "causal_lm",
        "pre_norm branch_norm rotary gqa sliding_window",
        unscaled="q_norm.weight",
        global_head_dim=12,
        num_kv_shared_layers=0,
        hidden_size_per_layer_input=0,
        **LOCAL_GLOBAL,
    ),
    family(
        "gpt_oss",
        "causal_lm",
        "pre_norm rotary gqa sinks sliding_window moe",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        **LOCAL_GLOBAL,
    ),
    family(
        "deepseek_v3",
        "causal_lm",
        "pre_norm rotary own_value_size moe",
        num_key_value_heads=4,
        q_lora_rank=16,
        kv_lora_rank=12,
        qk_rope_head_dim=4,
        qk_nope_head_dim=8,
        v_head_dim=6,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
    ),
    family("t5", "seq2seq", "pre_norm position_bias", unscaled=".q.weight", **T5),
    family("mt5", "seq2seq", "pre_norm position_bias", unscaled=".q.weight", **T5),
    family("bart", "seq2seq", "post_norm", **SEQ2SEQ),
    family("marian", "seq2seq", "post_norm", **SEQ2SEQ),
    family("mbart", "seq2seq", "pre_norm", **SEQ2SEQ),
    family("pegasus", "seq2seq", "pre_norm", **SEQ2SEQ),
    family("m2m_100", "seq2seq", "pre_norm", **SEQ2SEQ),
    family("blenderbot", "seq2seq", "pre_norm", **SEQ2SEQ),
    family("vit", "vision", "pre_norm"),
    family("deit", "vision", "pre_norm", architectures=["DeiTForImageClassification"]),
    family("dinov2", "vision", "pre_norm layer_scale", mlp_ratio=2),
    family("dinov2_with_registers", "vision", "pre_norm layer_scale", mlp_ratio=2),
    family("clip_vision_model", "vision", "pre_norm", auto=AutoModel),
    family("siglip_vision_model", "vision", "pre_norm", auto=AutoModel),
    family(
        "whisper",
        "speech",
        "pre_norm",
        num_mel_bins=8,
        max_source_positions=11,
        max_target_positions=64,
        **SEQ2SEQ,
    ),
)

AROUND_REGISTRY: tuple[Family, ...] = (
    family(
        "deberta_v2",
        "classification",
        "post_norm",
        model_type="deberta-v2",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
    ),
    family("mpnet", "classification", "post_norm position_bias"),
    family("bloom", "causal_lm", "pre_norm alibi"),
    family("mpt", "causal_lm", "pre_norm alibi", max_seq_len=64),
    family("falcon", "causal_lm", "pre_norm rotary parallel gqa"),
    family("gptj", "causal_lm", "pre_norm rotary parallel", rotary_dim=4),
    family("codegen", "causal_lm", "pre_norm rotary parallel", rotary_dim=4),
    family(
        "gpt_neo",
        "causal_lm",
        "pre_norm sliding_window",
        window_size=WINDOW,
        attention_types=[[["global", "local", "global"], 1]],
    ),
    family("xglm", "causal_lm", "pre_norm", ffn_dim=48),
)

PROVED = THROUGH_REGISTRY + AROUND_REGISTRY

# A norm or gate before the projection, two kernels per head, mixing without attention, no attention at all, or layers
# that read more than the state below: keys and values of another layer, or the token's embedding again.
REFUSED: tuple[Family, ...] = (
    family(
        "lfm2_below_and_above",
        "causal_lm",
        "pre_norm rotary gqa hybrid",
        model_type="lfm2",
        attentions={"self": 1},
        layer_types=["conv", "full_attention", "conv"],
        block_auto_adjust_ff_dim=False,
    ),
    family(
        "gemma4_shared_kv",
        "causal_lm",
        "pre_norm branch_norm rotary gqa sliding_window shared_kv",
        model_type="gemma4_text",
        unscaled="q_norm.weight",
        global_head_dim=12,
        num_kv_shared_layers=1,
        hidden_size_per_layer_input=0,
        **LOCAL_GLOBAL,
    ),
    family(
        "gemma4_per_layer_input",
        "causal_lm",
        "pre_norm branch_norm rotary gqa sliding_window per_layer_input",
        model_type="gemma4_text",
        unscaled="q_norm.weight",
        global_head_dim=12,
        num_kv_shared_layers=0,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=8,
        **LOCAL_GLOBAL,
    ),
    family("bitnet", "causal_lm", "pre_norm rotary gqa norm_before_projection"),
    family("diffllama", "causal_lm", "pre_norm rotary gqa two_calls", attentions={"self": 6}),
    family(
        "qwen3_next",
        "causal_lm",
        "pre_norm rotary gqa moe hybrid gate_before_projection",
        attentions={"self": 2},
        layer_types=["full_attention", "linear_attention", "full_attention"],
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
    ),
    family(
        "afmoe",
        "causal_lm",
        "pre_norm branch_norm rotary gqa moe sliding_window gate_before_projection",
        **LOCAL_GLOBAL,
    ),
    family(
        "lfm2",
        "causal_lm",
        "pre_norm rotary gqa hybrid",
        attentions={"self": 2},
        layer_types=["full_attention", "conv", "full_attention"],
        block_auto_adjust_ff_dim=False,
    ),
    family("mamba", "causal_lm", "pre_norm", attentions={}, state_size=4),
)

BY_NAME = {family.name: family for family in PROVED + REFUSED}
