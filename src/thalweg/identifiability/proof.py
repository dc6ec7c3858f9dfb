"""Run the model with one head's attention replaced, and compare its output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from thalweg.axes import TokenMap
from thalweg.capture.attention import Call
from thalweg.capture.record import Capture


@dataclass(frozen=True)
class Proof:
    """Change of the model's output for each map, relative to the largest output, and the change rounding explains.

    `output` is the output that is read for each map: the logits of the prediction, or a hidden state.
    """

    compared: str
    moved: dict[str, float]
    allowed: float
    output: dict[str, Float[np.ndarray, " entry"]]


def prove(capture: Capture, number: int, head: int, maps: Mapping[str, TokenMap]) -> Proof:
    """Run the model with one head's attention replaced by each map, and compare the output.

    All maps run in one batch whose first example is the unmodified model. The rounding allowance follows from the
    model's precision and from the change that the map "original" causes when it is recomputed and replaced likewise.
    """
    block = capture.blocks[number]
    values = block.attention.values()[head]
    outputs = [None, *(weights.to(values) @ values for weights in maps.values())]
    with torch.no_grad():
        record = capture.replay(_Replacing(number, head, outputs), copies=len(outputs))
    name, result = _output(record.result)
    result = result.to("cpu", torch.float64)
    size = result[0].abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    changes = ((result[1:] - result[:1]).flatten(1).abs().amax(1) / size).tolist()
    moved = dict(zip(maps, changes, strict=True))
    rounding = torch.finfo(block.attention.value.dtype).eps * len(capture.blocks) ** 0.5
    read = result
    if result.dim() > 2:  # at every position: the one where the prediction is read, or else the first
        before = len(capture.tokens) - result.shape[1]
        read = result[:, capture.readout[-1] - before if capture.readout else 0].flatten(1)
    output = dict(zip(maps, read[1:].numpy(), strict=True))
    return Proof(name, moved, 4 * max(rounding, moved["original"]), output)


@dataclass(eq=False)
class _Replacing:
    """Run the model's own attention; in one block, replace the output of one head in every copy that has another."""

    number: int
    head: int
    outputs: list[Float[Tensor, "query value_size"] | None]
    calls: int = 0

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        output, weights = call.run()  # [copy query head value_size]
        here, self.calls = self.calls == self.number, self.calls + 1
        if here:
            output = output.clone()
            for copy, written in enumerate(self.outputs):
                if written is not None:
                    output[copy, : len(written), self.head] = written.to(output)
        return output, weights


def _output(result: Any) -> tuple[str, Tensor]:
    """The model output to compare, with its name."""
    for name in ("logits", "last_hidden_state"):
        if isinstance(result, Mapping) and isinstance(result.get(name), Tensor):
            return name, result[name]
    values = result.values() if isinstance(result, Mapping) else result
    return "output", next(value for value in values if isinstance(value, Tensor))
