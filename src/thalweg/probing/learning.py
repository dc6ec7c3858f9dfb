"""Learn probes from the training sentences: linear maps from one pass, MLPs from as many as they need."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain

import torch

from thalweg.models.load import Subject
from thalweg.probing.linear import LinearMap, Moments, fit, target
from thalweg.probing.mlp import LONGEST, Learner, MlpMap, Start, train
from thalweg.probing.plan import BATCH, Key, ProbePlan, Split, batches
from thalweg.probing.search import Part, take
from thalweg.probing.states import States, read_states
from thalweg.probing.storage import Folder
from thalweg.progress import progress

KEPT_EVERY = 100  # batches between two files of sums

Which = tuple[int, int, Part]  # the layer that is read, the layer that is asked for, the part that is shown
Sums = dict[Which, tuple[Moments, Moments]]  # of training and of validation


def learn_linear(
    subject: Subject, split: Split, plan: ProbePlan, layers: int, store: Folder
) -> tuple[dict[Key, LinearMap], dict[Key, Start], float]:
    """Linear maps, what MLPs begin with, and the strongest ridge that was chosen."""
    maps: dict[Key, LinearMap] = {}
    starts: dict[Key, Start] = {}
    strongest = 0.0
    for (layer, to, part), (training, validation) in _sums(subject, split, plan, layers, store).items():
        mean, spread = training.spread()
        spread = spread.clamp_min(float(spread.max()) * 1e-6 + torch.finfo(torch.float32).tiny)
        fitted = zip(plan.metrics, fit(training, validation), training.size / training.count, strict=True)
        for metric, (linear, strength), size in fitted:
            maps[Key(layer, to, "linear", metric, part)] = linear
            starts[Key(layer, to, "mlp", metric, part)] = Start(linear, mean.float(), spread.float(), float(size))
            strongest = max(strongest, strength)
    return maps, starts, strongest


def _sums(subject: Subject, split: Split, plan: ProbePlan, layers: int, store: Folder) -> Sums:
    """One pass over what may be learnt from; every hundred batches the sums are kept."""
    which: list[Which] = [(layer, to, part) for part in plan.parts for layer, to in plan.pairs(layers)]
    sums, done = _kept(which, store)
    groups = [(0, some) for some in batches(split.train)] + [(1, some) for some in batches(split.validation)]
    with progress("sums for linear maps") as report:
        for number, (half, some) in enumerate(groups[done:], done + 1):
            states = read_states(subject, some)
            for layer, to, part in which:
                given = take(part, states.layers[layer][~states.special])
                wanted = states.layers[to][~states.special]
                if (layer, to, part) not in sums:
                    shape = given.shape[1], len(plan.metrics), wanted.shape[1]
                    sums[layer, to, part] = (Moments.empty(*shape), Moments.empty(*shape))
                aims = torch.stack([target(metric, wanted) for metric in plan.metrics])
                sums[layer, to, part][half].add(given, aims)
            report(number, len(groups))
            if number % KEPT_EVERY == 0 or number == len(groups):
                tensors = {
                    f"{n}.{half}.{name}": tensor
                    for n, one in enumerate(which)
                    for half in (0, 1)
                    for name, tensor in vars(sums[one][half]).items()
                }
                store.keep("statistics", tensors, {"batches": number})
    return sums


def _kept(which: Sequence[Which], store: Folder) -> tuple[Sums, int]:
    """The sums that an earlier run has kept, and of how many batches they are."""
    if (kept := store.read("statistics")) is None:
        return {}, 0

    def moments(n: int, half: int) -> Moments:
        return Moments(*(kept[0][f"{n}.{half}.{part.name}"] for part in fields(Moments)))

    return {one: (moments(n, 0), moments(n, 1)) for n, one in enumerate(which)}, kept[1]["batches"]


def learn_mlp(
    subject: Subject, split: Split, plan: ProbePlan, starts: Mapping[Key, Start], store: Folder
) -> tuple[dict[Key, MlpMap], int]:
    """MLPs of all layers at once, and the number of passes that they took."""
    learners = {}
    for number, part in enumerate(plan.parts):
        chosen = [key for key in starts if key.part == part]
        learners[part] = Learner(chosen, [starts[key] for key in chosen], plan.seed + number)
    epoch = 0
    if kept := store.read("mlp"):
        epoch = kept[1]["epoch"]
        for part, learner in learners.items():
            learner.restore({n.removeprefix(f"{part}."): t for n, t in kept[0].items() if n.startswith(f"{part}.")})

    with progress("training MLPs") as report:
        per_epoch = -(-len(split.train) // BATCH)

        def training(epoch: int) -> Iterator[States]:
            for number, some in enumerate(batches(split.train, f"{plan.seed}/{epoch}"), 1):
                yield read_states(subject, some)
                report((epoch - 1) * per_epoch + number, LONGEST * per_epoch)

        def validation() -> Iterator[States]:
            return (read_states(subject, some) for some in batches(split.validation))

        def keep(epoch: int) -> None:
            state = {f"{part}.{name}": t for part, one in learners.items() for name, t in one.state().items()}
            store.keep("mlp", state, {"epoch": epoch})

        epochs = train(list(learners.values()), training, validation, epoch, keep)
    return dict(chain.from_iterable(one.maps().items() for one in learners.values())), epochs
