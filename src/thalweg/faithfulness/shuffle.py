"""A model with randomly permuted weights: the entries of every parameter in random order."""

from copy import deepcopy

import torch

from thalweg.models.subject import Subject


@torch.no_grad()
def shuffle_weights(subject: Subject, seed: int) -> Subject:
    """Copy a subject and permute each parameter; shapes, value distributions and shared weights are preserved."""
    model = deepcopy(subject.model)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return Subject(model, subject.tokenizer, subject.task, f"{subject.name}, weights shuffled", subject.truncate)
