"""Fit probes on the training sentences: linear maps from one pass, MLPs from as many as they need."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain

import torch

from thalweg.files.run_folder import RunFolder
from thalweg.models.subject import Subject
from thalweg.probing.linear import LinearMap, Moments, fit_ridge, regression_target
from thalweg.probing.mlp import MAX_EPOCHS, MlpMap, MlpStack, MlpStart, train_mlps
from thalweg.probing.plan import BATCH_SENTENCES, ProbeKey, ProbePlan, SentenceSplit, sentence_batches
from thalweg.probing.search import Part, take
from thalweg.probing.states import HiddenStates, read_states
from thalweg.progress import progress

SUMS, MLPS = "sums.safetensors", "mlps.safetensors"  # checkpoints in the run folder
CHECKPOINT_BATCHES = 100  # between two checkpoints of the sums

Regression = tuple[int, int, Part]  # the layer read, the layer recovered, the part of the state shown
Sums = dict[Regression, tuple[Moments, Moments]]  # training and validation


def fit_linear(
    subject: Subject, split: SentenceSplit, plan: ProbePlan, layers: int, run: RunFolder | None
) -> tuple[dict[ProbeKey, LinearMap], dict[ProbeKey, MlpStart], float]:
    """Fit the linear maps; also returns the starts of the MLPs and the strongest ridge that was chosen."""
    maps: dict[ProbeKey, LinearMap] = {}
    starts: dict[ProbeKey, MlpStart] = {}
    strongest = 0.0
    for (layer, to, part), (training, validation) in _sums(subject, split, plan, layers, run).items():
        mean, spread = training.spread()
        spread = spread.clamp_min(float(spread.max()) * 1e-6 + torch.finfo(torch.float32).tiny)
        fits = zip(plan.metrics, fit_ridge(training, validation), training.size / training.count, strict=True)
        for metric, (linear, strength), size in fits:
            maps[ProbeKey(layer, to, "linear", metric, part)] = linear
            start = MlpStart(linear, mean.float(), spread.float(), float(size))
            starts[ProbeKey(layer, to, "mlp", metric, part)] = start
            strongest = max(strongest, strength)
    return maps, starts, strongest


def _sums(subject: Subject, split: SentenceSplit, plan: ProbePlan, layers: int, run: RunFolder | None) -> Sums:
    """Gather the sums in one pass over the training and validation sentences, with regular checkpoints."""
    regressions: list[Regression] = [(layer, to, part) for part in plan.parts for layer, to in plan.pairs(layers)]
    sums, done = _restored_sums(regressions, run)
    batches = [(0, texts) for texts in sentence_batches(split.train)]
    batches += [(1, texts) for texts in sentence_batches(split.validation)]
    with progress("sums for linear maps") as report:
        for number, (half, texts) in enumerate(batches[done:], done + 1):
            states = read_states(subject, texts)
            for layer, to, part in regressions:
                inputs = take(part, states.layers[layer][~states.special])
                wanted = states.layers[to][~states.special]
                if (layer, to, part) not in sums:
                    shape = inputs.shape[1], len(plan.metrics), wanted.shape[1]
                    sums[layer, to, part] = (Moments.empty(*shape), Moments.empty(*shape))
                targets = torch.stack([regression_target(metric, wanted) for metric in plan.metrics])
                sums[layer, to, part][half].add(inputs, targets)
            report(number, len(batches))
            if run is not None and (number % CHECKPOINT_BATCHES == 0 or number == len(batches)):
                tensors = {
                    f"{place}.{half}.{name}": tensor
                    for place, regression in enumerate(regressions)
                    for half in (0, 1)
                    for name, tensor in vars(sums[regression][half]).items()
                }
                run.write_tensors(SUMS, tensors, {"batches": number})
    return sums


def _restored_sums(regressions: Sequence[Regression], run: RunFolder | None) -> tuple[Sums, int]:
    """The sums of the last checkpoint, and the number of batches in them."""
    checkpoint = run and run.read_tensors(SUMS)
    if checkpoint is None:
        return {}, 0
    tensors, header = checkpoint

    def moments(place: int, half: int) -> Moments:
        return Moments(*(tensors[f"{place}.{half}.{part.name}"] for part in fields(Moments)))

    sums = {regression: (moments(place, 0), moments(place, 1)) for place, regression in enumerate(regressions)}
    return sums, header["batches"]


def fit_mlps(
    subject: Subject,
    split: SentenceSplit,
    plan: ProbePlan,
    starts: Mapping[ProbeKey, MlpStart],
    run: RunFolder | None,
) -> tuple[dict[ProbeKey, MlpMap], int]:
    """Train the MLPs of all layers at once; also returns the number of epochs."""
    stacks: dict[Part, MlpStack] = {}
    for number, part in enumerate(plan.parts):
        keys = [key for key in starts if key.part == part]
        stacks[part] = MlpStack(keys, [starts[key] for key in keys], plan.seed + number)
    epoch = _restore_mlps(stacks, run)

    with progress("training MLPs") as report:
        per_epoch = -(-len(split.train) // BATCH_SENTENCES)

        def training(epoch: int) -> Iterator[HiddenStates]:
            for number, texts in enumerate(sentence_batches(split.train, f"{plan.seed}/{epoch}"), 1):
                yield read_states(subject, texts)
                report((epoch - 1) * per_epoch + number, MAX_EPOCHS * per_epoch)

        def validation() -> Iterator[HiddenStates]:
            return (read_states(subject, texts) for texts in sentence_batches(split.validation))

        def checkpoint(epoch: int) -> None:
            if run is not None:
                state = {f"{part}.{name}": t for part, stack in stacks.items() for name, t in stack.state().items()}
                run.write_tensors(MLPS, state, {"epoch": epoch})

        epochs = train_mlps(list(stacks.values()), training, validation, epoch, checkpoint)
    return dict(chain.from_iterable(stack.maps().items() for stack in stacks.values())), epochs


def _restore_mlps(stacks: Mapping[Part, MlpStack], run: RunFolder | None) -> int:
    """Restore the last checkpoint; returns the epoch to continue with."""
    checkpoint = run and run.read_tensors(MLPS)
    if checkpoint is None:
        return 0
    tensors, header = checkpoint
    for part, stack in stacks.items():
        prefix = f"{part}."
        stack.restore({name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)})
    return header["epoch"]
