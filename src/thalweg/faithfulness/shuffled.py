"""The same model knowing nothing: every parameter's numbers in a random order."""

from copy import deepcopy

import torch

from thalweg.models.load import Subject


@torch.no_grad()
def shuffled(subject: Subject, seed: int) -> Subject:
    """A copy; the model itself is left alone. Sizes, distributions and shared weights stay as they were."""
    model = deepcopy(subject.model)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return Subject(model, subject.tokenizer, subject.task, f"{subject.name}, weights shuffled")
