"""A subject as it is sent to another process: the model without weights, and the weights as plain arrays.

Processes on one machine share arrays; the unpacked model reads its weights from there without a copy.
"""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from thalweg.models.subject import Subject
from thalweg.models.tasks import Task


@dataclass(frozen=True, eq=False)
class Weight:
    """A placeholder for one tensor of a model, with its bytes."""

    data: UInt8[np.ndarray, "byte"]
    shape: torch.Size
    dtype: torch.dtype
    kind: type[Tensor]
    requires_grad: bool


@dataclass(frozen=True, eq=False)
class Parcel:
    """Everything a subject consists of, ready to be pickled."""

    model: nn.Module
    weights: tuple[Weight, ...]
    device: str
    tokenizer: PreTrainedTokenizerBase | None
    task: Task
    name: str
    truncate: bool


def pack(subject: Subject) -> Parcel:
    """Copy the model with a `Weight` in place of every tensor; the subject itself is not changed."""
    model = subject.model
    tensors = {id(t): t for t in (*model.parameters(), *model.buffers()) if type(t) in (Tensor, nn.Parameter)}
    weights = {key: _weight(tensor) for key, tensor in tensors.items()}
    memo: dict[int, Any] = dict(weights)  # deepcopy takes what is in the memo instead of copying
    stripped = copy.deepcopy(model, memo)
    facts = subject.tokenizer, subject.task, subject.name, subject.truncate
    return Parcel(stripped, tuple(weights.values()), model.device.type, *facts)


def unpack(parcel: Parcel) -> Subject:
    """Rebuild the subject on the type of device it came from; on the CPU, weights are not copied."""
    memo: dict[int, Any] = {id(weight): _tensor(weight) for weight in parcel.weights}
    model: Any = copy.deepcopy(parcel.model, memo)
    return Subject(model.to(parcel.device), parcel.tokenizer, parcel.task, parcel.name, parcel.truncate)


def _weight(tensor: Tensor) -> Weight:
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return Weight(data, tensor.shape, tensor.dtype, type(tensor), tensor.requires_grad)


def _tensor(weight: Weight) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # weights are only read
        data = torch.from_numpy(weight.data)
    tensor = data.view(weight.dtype).view(weight.shape)
    return nn.Parameter(tensor, weight.requires_grad) if weight.kind is nn.Parameter else tensor
