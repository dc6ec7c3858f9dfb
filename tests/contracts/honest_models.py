"""Honest models that look unusual: none of them may be refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import thalweg as tw
from tests.contracts.lying_models import after, attention_of, before, equal_words, half_padded, mlp_of, with_start
from tests.contracts.truths import Inputs, layers_of
from tests.families import BY_NAME, Family
from thalweg.capture.record import Capture

Change = Callable[[Any], object]


@dataclass(frozen=True, eq=False)
class Honest:
    """One honest model, with the batches it is captured on, in this order and by the same subject."""

    name: str
    family: Family
    change: Change
    inputs: tuple[Inputs, ...]
    late: bool  # the change comes after the first capture
    dtype: torch.dtype


HONEST: dict[str, Honest] = {}


def honest(
    *families: str,
    lengths: tuple[int, ...] = (12,),
    inputs: Callable[[int, int], Inputs] | None = None,
    batch: int = 1,
    late: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Callable[[Change], Change]:
    """Register an honest model for these families."""

    def register(change: Change) -> Change:
        for home in (BY_NAME[name] for name in families):
            cases = tuple((inputs or home.inputs)(batch, length) for length in lengths)
            cases = tuple({k: v.to(dtype) if v.is_floating_point() else v for k, v in c.items()} for c in cases)
            HONEST[f"{change.__name__}-{home.name}"] = Honest(
                f"{change.__name__}-{home.name}", home, change, cases, late, dtype
            )
        return change

    return register


def captures(case: Honest) -> list[Capture]:
    """All captures of an honest model."""
    model: Any = case.family.build()
    model.to(case.dtype)
    if not case.late:
        case.change(model)
    subject = tw.load(model)
    results: list[Capture] = []
    for number, inputs in enumerate([*case.inputs[: case.late], *case.inputs]):
        if case.late and number == 1:
            case.change(model)
        capture = subject.capture(inputs)
        results += capture if isinstance(capture, list) else [capture]
    return results


@honest("bert", "gpt2", "llama", "bloom", "t5", lengths=(1, 2, 3, 4, 5), inputs=None)
def very_short_texts(model: Any) -> None:
    pass


@honest("gpt2", "llama", "bert", "modernbert", "gptj", lengths=(1, 2, 3, 7, 12, 40), inputs=equal_words)
def equal_tokens(model: Any) -> None:
    pass


@honest("bert", "llama", "mistral", "gemma2", "bloom", lengths=(60, 33, 9))
def long_texts(model: Any) -> None:
    pass


@honest("bert", "llama", "gemma3_text", "modernbert", "bart", "vit", "mixtral", "bloom", dtype=torch.bfloat16)
def half_precision(model: Any) -> None:
    pass


@honest("bert", "gpt2", "roberta", "deberta_v2", "mistral", "modernbert", inputs=half_padded, batch=3)
def padded_batches(model: Any) -> None:
    pass


@honest("bert", "roberta", "gpt2", inputs=with_start)
def special_tokens(model: Any) -> None:
    pass


@honest("gpt_oss", "qwen3", "gemma2", "olmo2", "granite", "cohere", "deepseek_v3", "smollm3", lengths=(12, 5, 20))
def sinks_soft_caps_and_norms_of_queries(model: Any) -> None:
    pass


@honest("t5", "bart", "m2m_100", "whisper", lengths=(12, 2, 20))
def encoder_and_decoder(model: Any) -> None:
    pass


@honest("vit", "deit", "dinov2_with_registers", "clip_vision_model", batch=2)
def images(model: Any) -> None:
    pass


@honest("bert", "llama", "gptj", "bart", lengths=(12, 40))
def adapter_for_each_token(model: Any) -> None:
    generator = torch.Generator().manual_seed(5)
    down, up = (torch.randn(size, generator=generator) / 6 for size in ((32, 4), (4, 32)))
    before(mlp_of(model), lambda state: state + torch.relu(state @ down) @ up)


@honest("bert", "gpt2", "llama", lengths=(12, 40))
def layer_that_depends_on_the_position(model: Any) -> None:
    positions = torch.randn(64, 32, generator=torch.Generator().manual_seed(5))
    before(mlp_of(model), lambda state: state + positions[: state.shape[1]])


@honest("llama", "bert", lengths=(12, 40))
def scale_that_depends_on_the_length(model: Any) -> None:
    before(mlp_of(model), lambda state: state * state.shape[1] ** 0.5 / 4)


@honest("llama", lengths=(12, 40))
def temperature_that_depends_on_the_length(model: Any) -> None:
    attention = attention_of(model)
    scaling, forward = attention.scaling, attention.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        length = (args[0] if args else kwargs["hidden_states"]).shape[1]
        attention.scaling = scaling * (1 + length / 100)
        return forward(*args, **kwargs)

    attention.forward = changed


@honest("bert", "llama", late=True)
def hooks_that_only_look(model: Any) -> None:
    seen: list[Any] = []
    for module in model.modules():
        module.register_forward_hook(lambda _, args, output: seen.append(type(output)))
        module.register_forward_pre_hook(lambda _, args: seen.append(len(args)))


@honest("gpt2", late=True)
def hook_that_counts_in_a_buffer(model: Any) -> None:
    mlp = mlp_of(model)
    mlp.register_buffer("calls", torch.zeros((), dtype=torch.long))
    mlp.register_forward_hook(lambda module, args, output: module.calls.add_(1) and None)


@honest("gpt2")
def counter_in_an_attribute(model: Any) -> None:
    mlp = mlp_of(model)
    mlp.calls = 0

    def count(module: Any, args: Any) -> None:
        module.calls += 1

    mlp.register_forward_pre_hook(count)


@honest("llama", late=True)
def hook_that_keeps_states(model: Any) -> None:
    layer = layers_of(model)[1]
    layer.kept = []
    layer.register_forward_hook(lambda module, args, output: module.kept.append(output))


@honest("bert", "llama", late=True)
def weights_changed(model: Any) -> None:
    with torch.no_grad():
        for parameter in mlp_of(model).parameters():
            parameter.mul_(1.1)


@honest("llama", late=True)
def implementation_switched(model: Any) -> None:
    model.set_attn_implementation("eager")


@honest("gpt2", "llama", "dinov2")
def weights_times_thirty(model: Any) -> None:
    scale_linear(model, 30.0)


@honest("bert", "bloom")
def weights_times_five(model: Any) -> None:
    """More saturates the softmax of these: rounded logits of several thousands then miss the tolerance of parity."""
    scale_linear(model, 5.0)


@honest("bert", "gpt2", "llama", "bloom", "dinov2")
def weights_by_thirty(model: Any) -> None:
    scale_linear(model, 1 / 30)


def scale_linear(model: Any, factor: float) -> None:
    with torch.no_grad():
        for layer in layers_of(model):
            for module in layer.modules():
                if isinstance(getattr(module, "weight", None), Tensor) and module.weight.dim() == 2:
                    module.weight.mul_(factor)


@honest("gpt2")
def norms_of_a_layer_decayed_to_zero(model: Any) -> None:
    """Nothing enters the attention and the MLP of this layer but biases.

    Without biases (Llama) its heads are exactly zero, and no output projection can be found: such layers are refused.
    """
    with torch.no_grad():
        for module in layers_of(model)[1].modules():
            if "Norm" in type(module).__name__:
                module.weight.zero_()


@honest("llama", "bert")
def mlp_that_is_constant(model: Any) -> None:
    after(mlp_of(model), lambda state: torch.ones_like(state))


@honest("llama")
def mlp_that_is_zero(model: Any) -> None:
    after(mlp_of(model), torch.zeros_like)


@honest("gpt2", "bert")
def gradient_checkpointing(model: Any) -> None:
    model.gradient_checkpointing_enable()


@honest("bert", "llama")
def dropout_in_evaluation(model: Any) -> None:
    dropout = nn.Dropout(0.5).eval()
    before(mlp_of(model), dropout)


@honest("gpt2", "llama")
def tied_embeddings(model: Any) -> None:
    model.get_output_embeddings().weight = model.get_input_embeddings().weight


@honest("llama")
def layers_that_share_their_weights(model: Any) -> None:
    layers = layers_of(model)
    layers[2].mlp = layers[1].mlp


@honest("llama", "gemma")
def huge_channel(model: Any) -> None:
    """One channel a thousand times as large as the others, as large models have it."""
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 500.0


@honest("mixtral", "qwen3_moe", "deepseek_v3", lengths=(12, 40))
def experts(model: Any) -> None:
    pass


@honest("llama", lengths=(12, 5, 60))
def rotation_that_depends_on_the_length(model: Any) -> None:
    """Dynamic scaling: the longer the text, the slower the rotation."""
    rotary = model.model.rotary_emb
    forward = rotary.forward
    rotary.forward = lambda state, position_ids: forward(state, position_ids / (1 + state.shape[1] / 64))


@honest("bert")
def classifier_of_the_mean(model: Any) -> None:
    before(model.bert.pooler, lambda state: state.mean(1, keepdim=True))


@honest("bert")
def double_precision(model: Any) -> None:
    model.double()


@honest("llama")
def frozen_weights_in_inference_mode(model: Any) -> None:
    model.requires_grad_(False)
