"""A model that was packed and unpacked is the model that was packed."""

import pickle

import pytest
import torch

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import SENTENCE, snapshot, tiny_subject
from thalweg.models.parcel import pack, unpack


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5"])
def test_parcel_when_sent_to_another_process_then_holds_the_same_model(family: str) -> None:
    model = BY_NAME[family].build()
    before = snapshot(model)
    parcel = pack(tw.load(model))
    assert snapshot(model) == before
    there = unpack(pickle.loads(pickle.dumps(parcel))).model
    assert {name: (p.dtype, p.requires_grad) for name, p in there.named_parameters()} == {
        name: (p.dtype, p.requires_grad) for name, p in model.named_parameters()
    }  # tied ones count once, so they are tied still
    for mine, other in ((model.named_parameters, there.named_parameters), (model.named_buffers, there.named_buffers)):
        assert all(torch.equal(a, dict(other())[name]) for name, a in mine())
    inputs = BY_NAME[family].inputs(2, 5)
    assert torch.equal(model(**inputs)[0], there(**inputs)[0])


def test_parcel_when_unpacked_then_weights_are_not_copied() -> None:
    parcel = pack(tiny_subject("bert"))
    places = {weight.data.ctypes.data for weight in parcel.weights}
    assert {p.data_ptr() for p in unpack(parcel).model.parameters()} <= places


def test_parcel_when_weights_are_of_half_precision_then_every_bit_is_there() -> None:
    subject = tiny_subject("bert")
    subject.model.bfloat16()
    there = unpack(pack(subject))
    assert there.model.dtype == torch.bfloat16
    assert (there.name, there.task) == (subject.name, subject.task)
    mine, other = (one.capture(SENTENCE).logits for one in (subject, there))
    assert mine is not None and other is not None and torch.equal(mine, other)


def test_parcel_when_the_subject_truncates_then_the_unpacked_one_does_too() -> None:
    assert unpack(pack(tw.load(tiny_subject().model, truncate=True))).truncate
    assert not unpack(pack(tiny_subject())).truncate
