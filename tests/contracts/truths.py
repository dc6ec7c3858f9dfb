"""What is true of a model, measured by replacing tokens, states and attention results; nothing here is Thalweg's proof.

A truth takes a function that builds a model and the inputs of a pass, and returns the size of an effect that the chain
of attention blocks does not allow, relative to the rows where it was measured. Without a lie it is zero.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from tests.families import FIRST_WORD, VOCABULARY
from thalweg.capture.attention import Handler
from thalweg.capture.observe import Pass, watch
from thalweg.capture.run import arguments_of

Inputs = dict[str, Tensor]
Truth = Callable[[Callable[[], PreTrainedModel], Inputs, int], float]
BYPASSING = ("Bloom", "GPTJ", "DebertaV2", "Falcon", "GPTNeoFor", "MPNet", "XGLM", "CodeGen", "Mpt")
PATCH = 4


def beside(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """Replace one token while every attention call returns what it returned before: no other position may move."""
    model = build()
    record = run(model, inputs)
    frozen = run(model, replaced(inputs, source), returning(output for _, _, output in record.calls))
    return effect(record.result, frozen.result, inputs, source)


def beside_decoder(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """The same for a token that the decoder reads."""
    model = build()
    record = run(model, inputs)
    changed = replaced(inputs, source, "decoder_input_ids")
    frozen = run(model, changed, returning(output for _, _, output in record.calls))
    return largest(record.result["logits"], frozen.result["logits"], source)


def ahead(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """Replace one token of a causal model: no earlier position may move, and every method gives it zero there."""
    model, name = build(), "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    rows = slice(0, source)
    before, after = run(model, inputs), run(model, replaced(inputs, source, name))
    return largest(before.result["logits"][:, rows], after.result["logits"][:, rows])


def around(layer: int) -> Truth:
    """Replace all tokens while one layer receives the state that it received before: nothing may move above it."""

    def truth(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
        model = build()
        states: list[Tensor] = []
        with entering(layers_of(model)[layer], lambda state: states.append(state) or state):
            before = run(model, inputs)
        changed = inputs
        for name in ("input_ids", "pixel_values"):
            if name in inputs:
                changed = {**changed, name: others(inputs[name])}
        with entering(layers_of(model)[layer], lambda state: states[0]):
            after = run(model, changed)
        return effect(before.result, after.result, inputs, None)

    return truth


def spread(call: int) -> Truth:
    """Change one row of the result of an attention call while the other calls are frozen: no other row may move."""

    def truth(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
        model = build()
        record = run(model, inputs)
        outputs = [output.clone() for _, _, output in record.calls]
        outputs[call][:, source] *= -2
        after = run(model, inputs, returning(outputs))
        return effect(record.result, after.result, inputs, source)

    return truth


def idle(call: int) -> Truth:
    """Change the result of an attention call that the methods multiply through: 1 if nothing moves."""

    def truth(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
        model = build()
        record = run(model, inputs)
        outputs = [output.clone() for _, _, output in record.calls]
        outputs[call] *= -2
        after = run(model, inputs, returning(outputs))
        return float(effect(record.result, after.result, inputs, None) < 1e-6)

    return truth


def again(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """Run the same inputs several times: the answers must be equal."""
    model = build()
    answers = [run(model, inputs).result for _ in range(3)]
    return max(effect(answers[0], answer, inputs, None) for answer in answers[1:])


def among(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """Replace the other examples of a batch: the first one may not move."""
    model = build()
    changed = {**inputs, "input_ids": torch.cat([inputs["input_ids"][:1], others(inputs["input_ids"][1:])])}
    before, after = run(model, inputs), run(model, changed)
    return largest(before.result["logits"][:1], after.result["logits"][:1])


def padded(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
    """Change what attention returns at padding: no real position may move."""
    model = build()
    record = run(model, inputs)
    padding = inputs["attention_mask"] == 0
    outputs = [output.clone() for _, _, output in record.calls]
    for output in outputs:
        output[padding] *= -2
    after = run(model, inputs, returning(outputs))
    return largest(record.result["logits"], after.result["logits"])


def anywhere(truth: Truth) -> Truth:
    """The largest effect over all positions but the last, where a causal classifier reads its prediction."""

    def largest_of_all(build: Callable[[], PreTrainedModel], inputs: Inputs, source: int) -> float:
        model = build()
        return max(truth(lambda: model, inputs, position) for position in range(inputs["input_ids"].shape[1] - 1))

    return largest_of_all


def run(model: PreTrainedModel, inputs: Mapping[str, Any], handle: Handler | None = None) -> Pass:
    """Run a pass; its result also has the output of the last layer, and that of the decoder's."""
    through_registry = not type(model).__name__.startswith(BYPASSING)
    states: dict[str, Tensor] = {}
    stacks = {"last_state": layers_of(model)}
    if "decoder_input_ids" in inputs:
        stacks["decoder_state"] = layers_of(model.get_decoder())
    hooks = [
        layers[-1].register_forward_hook(
            lambda _, args, output, name=name: states.update(
                {name: output if isinstance(output, Tensor) else output[0]}
            )
        )
        for name, layers in stacks.items()
    ]
    try:
        with torch.no_grad():
            record = watch(model, arguments_of(model, inputs), (), handle, through_registry)
    finally:
        for hook in hooks:
            hook.remove()
    record.result = {**record.result, **states}
    return record


def returning(outputs: Any) -> Handler:
    """A handler that returns these results, whatever attention is called with."""
    remaining = iter(list(outputs))
    return lambda call: (next(remaining), None)


def replaced(inputs: Inputs, source: int, name: str = "input_ids") -> Inputs:
    """The inputs with another token (or patch) at one position."""
    if "pixel_values" in inputs:
        pixels, across = inputs["pixel_values"].clone(), inputs["pixel_values"].shape[-1] // PATCH
        row, column = PATCH * ((source - 1) // across), PATCH * ((source - 1) % across)
        pixels[..., row : row + PATCH, column : column + PATCH] *= -1
        return {**inputs, "pixel_values": pixels}
    ids = inputs[name].clone()
    ids[:, source] = others(ids[:, source])
    return {**inputs, name: ids}


def others(values: Tensor) -> Tensor:
    """Another word for every word, or other pixels."""
    if values.is_floating_point():
        return -values
    return (values - FIRST_WORD + 17) % (VOCABULARY - FIRST_WORD) + FIRST_WORD


def effect(before: Any, after: Any, inputs: Inputs, source: int | None) -> float:
    """How far the answers moved, at all positions other than the one where a token was replaced."""
    effects = []
    for name in ("logits", "last_hidden_state", "encoder_last_hidden_state", "last_state"):
        if before.get(name) is not None:
            elsewhere_only = before[name].dim() == 3 and (name != "logits" or "decoder_input_ids" not in inputs)
            place = source
            if source is not None and "pixel_values" in inputs:  # after the tokens that are no patches
                place = source - 1 + before["last_state"].shape[1] - (inputs["pixel_values"].shape[-1] // PATCH) ** 2
            effects.append(largest(before[name], after[name], place if elsewhere_only else None))
    return max(effects)


def largest(before: Tensor, after: Tensor, without: int | None = None) -> float:
    """The largest movement of a row, relative to its length."""
    ratio = (after - before).float().norm(dim=-1) / before.float().norm(dim=-1).clamp_min(1e-9)
    if without is not None:
        ratio[:, without] = 0
    return float(ratio.max())


def layers_of(model: nn.Module) -> Any:
    """The layers of a model; of an encoder-decoder those of the encoder."""
    names = ("layer", "layers", "h", "block", "blocks", "albert_layers")
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    return next(m for name, m in lists if name.split(".")[-1] in names)


@contextmanager
def entering(layer: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Replace the state that enters a layer."""

    def before(_: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        if args:
            return (change(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": change(kwargs["hidden_states"])}

    handle = layer.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
