"""A subject as it is sent to another process: the model without its weights, and these as plain arrays beside it.

Arrays are what processes of one machine can share; the model that arrives reads them where they lie.
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

from thalweg.models.load import Subject, Task


@dataclass(frozen=True, eq=False)
class Weight:
    """What stands in a model for one of its tensors."""

    data: UInt8[np.ndarray, "byte"]
    shape: torch.Size
    dtype: torch.dtype
    kind: type[Tensor]
    requires_grad: bool


@dataclass(frozen=True, eq=False)
class Parcel:
    """The very model of a subject, whether it came from a folder or was built by hand."""

    model: nn.Module
    weights: tuple[Weight, ...]
    device: str
    tokenizer: PreTrainedTokenizerBase | None
    task: Task
    name: str


def pack(subject: Subject) -> Parcel:
    """Leave the model as it is, and give one like it in which a `Weight` stands for every tensor."""
    model = subject.model
    tensors = {id(one): one for one in (*model.parameters(), *model.buffers()) if type(one) in (Tensor, nn.Parameter)}
    weights = {key: _weight(one) for key, one in tensors.items()}
    memo: dict[int, Any] = dict(weights)  # what is in a memo counts as copied already
    stripped = copy.deepcopy(model, memo)
    return Parcel(stripped, tuple(weights.values()), model.device.type, subject.tokenizer, subject.task, subject.name)


def unpack(parcel: Parcel) -> Subject:
    """The subject again, its weights where the parcel has them; on the device that it came from, if that is another."""
    memo: dict[int, Any] = {id(one): _tensor(one) for one in parcel.weights}
    model: Any = copy.deepcopy(parcel.model, memo)
    return Subject(model.to(parcel.device), parcel.tokenizer, parcel.task, parcel.name)


def _weight(tensor: Tensor) -> Weight:
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return Weight(data, tensor.shape, tensor.dtype, type(tensor), tensor.requires_grad)


def _tensor(weight: Weight) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes into weights
        data = torch.from_numpy(weight.data)
    tensor = data.view(weight.dtype).view(weight.shape)
    return nn.Parameter(tensor, weight.requires_grad) if weight.kind is nn.Parameter else tensor
