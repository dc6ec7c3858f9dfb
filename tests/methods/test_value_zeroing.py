"""Value zeroing against zeroing by hand."""

import numpy as np
import torch
from torch import Tensor

import thalweg as tw
from tests.families import BY_NAME


def test_value_zeroing_when_compared_with_zeroing_by_hand_then_is_the_same() -> None:
    family = BY_NAME["bert"]
    model, inputs = family.build(), family.inputs(1, 6)
    result = tw.explain(tw.load(model), inputs, "value_zeroing", "all")
    assert result.per_layer is not None
    for number in range(3):
        with torch.no_grad():
            before = model(**inputs, output_hidden_states=True).hidden_states[number + 1][0]
        by_hand = torch.zeros(6, 6)
        for key in range(6):

            def silence(_: object, __: object, output: Tensor, key: int = key) -> Tensor:
                output = output.clone()
                output[:, key] = 0
                return output

            value = model.get_submodule(f"bert.encoder.layer.{number}.attention.self.value")
            hook = value.register_forward_hook(silence)
            with torch.no_grad():
                after = model(**inputs, output_hidden_states=True).hidden_states[number + 1][0]
            hook.remove()
            by_hand[:, key] = 1 - torch.nn.functional.cosine_similarity(after, before)
        expected = by_hand / by_hand.sum(-1, keepdim=True)
        np.testing.assert_allclose(result.per_layer[number], expected.numpy(), atol=1e-4)
