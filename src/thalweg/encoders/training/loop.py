"""Learning by minibatches, epoch after epoch, from wherever a run was stopped.

Everything random depends on the seed and the step alone: which texts run together, and what dropout leaves out. A run
that was killed and went on from its last checkpoint, on the same machine with as many threads, ends with the same
weights, to the bit, as one that was not.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from thalweg.encoders.training.batches import batches, logits_of
from thalweg.encoders.training.plan import TrainingPlan
from thalweg.encoders.training.storage import Folder
from thalweg.errors import InputError
from thalweg.progress import progress

WARM = 1 / 16  # of the run, in which the rate rises from zero to its peak; then it falls to zero
STEEPEST = 1.0  # norm that gradients are cut to
DECAY = 0.01
EVERY = 60.0  # seconds between checkpoints within an epoch
MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # of Adam
Loss = Callable[[Tensor, list[int]], Tensor]  # of a batch's logits and its row numbers


@dataclass(frozen=True)
class Score:
    """How well a model does on the validation examples."""

    loss: float
    accuracy: float

    def better_than(self, other: "Score") -> bool:
        """Accuracy is what is asked of a classifier; its loss may rise while it still gets better, grown too sure of
        itself. On a few hundred examples accuracies are often equal, and then the loss decides."""
        return (self.accuracy, -self.loss) > (other.accuracy, -other.loss)


@dataclass(frozen=True)
class Epoch:
    """One pass over the training examples: its mean loss, and how the model did afterwards. 0 is before the first."""

    number: int
    training_loss: float | None
    validation_loss: float
    validation_accuracy: float

    @property
    def score(self) -> Score:
        return Score(self.validation_loss, self.validation_accuracy)


class DivergedError(InputError):
    """Nothing can be learnt on from here."""


class Learner:
    """A model's weights, the best so far, and all that changes while they are learnt."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.optimizer = torch.optim.AdamW(self.weights.values(), rate, weight_decay=DECAY, fused=True)
        self.step, self.place = 0, 0  # since the beginning, and within the epoch
        self.loss = 0.0  # summed over the texts of the epoch so far
        self.history: list[Epoch] = []

    @property
    def epochs(self) -> int:
        return self.history[-1].number if self.history else 0

    @property
    def best_epoch(self) -> Epoch:
        """Of those in which something was learnt: a model that starts as another one has its values' rank too."""
        best, *others = [one for one in self.history if one.number] or self.history
        for one in others:
            best = one if one.score.better_than(best.score) else best
        return best

    def done(self, plan: TrainingPlan) -> bool:
        return self.epochs > 0 and (self.epochs >= plan.epochs or self.epochs - self.best_epoch.number >= plan.patience)

    def learn(self, loss: Float[Tensor, ""], texts: int, rate: float) -> None:
        """One step against a mean loss of so many texts."""
        self._check(loss.item())
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), STEEPEST)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.step += 1
        self.place += 1
        self.loss += float(loss.detach()) * texts

    def judge(self, score: Score, texts: int | None) -> None:
        """End an epoch of so many texts, or judge the start, and keep the weights if they are the best so far."""
        self._check(score.loss)
        number = 0 if texts is None else self.epochs + 1
        loss = None if texts is None else self.loss / texts
        self.history.append(Epoch(number, loss, score.loss, score.accuracy))
        self.place, self.loss = 0, 0.0
        if self.best_epoch.number == number:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def _check(self, loss: float) -> None:
        if not isfinite(loss):
            raise DivergedError(
                f"the loss is {loss} after {self.step} steps: the training came apart. Choose a lower rate than "
                f"{self.optimizer.defaults['lr']:g}, and check the weights that it starts from, if any"
            )

    @torch.no_grad()
    def take_best(self) -> None:
        for name, weight in self.weights.items():
            weight.copy_(self.best[name])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that is needed to go on later: (tensors, header)."""
        tensors: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            tensors |= {f"now.{name}": weight.detach(), f"best.{name}": self.best[name]}
            tensors |= {f"{part}.{name}": value for part, value in self.optimizer.state[weight].items()}
        history = [asdict(one) for one in self.history]
        return tensors, {"step": self.step, "place": self.place, "loss": self.loss, "history": history}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        self.step, self.place, self.loss = header["step"], header["place"], header["loss"]
        self.history = [Epoch(**one) for one in header["history"]]
        for name, weight in self.weights.items():
            weight.copy_(tensors[f"now.{name}"])
            self.best[name] = tensors[f"best.{name}"]
            if self.step:
                self.optimizer.state[weight] = {part: tensors[f"{part}.{name}"] for part in MOMENTS}


def fit(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    pad: int,
    loss: Loss,
    validate: Callable[[], Score],
    plan: TrainingPlan,
    store: Folder,
    judge_start: bool = False,
) -> tuple[Learner, float]:
    """Learn until nothing gets better; the model ends with its best weights. Also returns the seconds of all runs.

    With `judge_start` the history begins with the weights that the model comes with.
    """
    assert plan.rate is not None
    learner, before, start = Learner(model, plan.rate), 0.0, time.monotonic()
    if kept := store.read("checkpoint"):
        learner.restore(*kept)
        before = float(kept[1]["seconds"])

    def keep() -> float:
        tensors, header = learner.state()
        store.keep("checkpoint", tensors, {**header, "seconds": before + time.monotonic() - start})
        return time.monotonic()

    with same_randomness(), _forgotten_if_it_comes_apart(store), progress("training") as report:
        if judge_start and not kept:
            learner.judge(validate(), None)
        last = start if kept else keep()
        while not learner.done(plan):
            epoch = learner.epochs
            model.train()
            order = batches(ids, plan.batch_tokens, random.Random(f"{plan.seed} {epoch}"))
            for place in range(learner.place, len(order)):
                seed_step(plan.seed, learner.step)
                rows = order[place]
                part = (epoch + (place + 0.5) / len(order)) / plan.epochs
                learner.learn(
                    loss(logits_of(model, [ids[row] for row in rows], pad), rows), len(rows), plan.rate * height(part)
                )
                report(epoch * len(order) + place + 1, plan.epochs * len(order))
                if time.monotonic() - last >= EVERY:
                    last = keep()
            learner.judge(validate(), len(ids))
            last = keep()
    learner.take_best()
    model.eval()
    return learner, before + time.monotonic() - start


@contextmanager
def _forgotten_if_it_comes_apart(store: Folder) -> Iterator[None]:
    """What was kept of a training that came apart would only be in the way of the next."""
    try:
        yield
    except DivergedError:
        store.drop_unfinished()
        raise


def height(part: float) -> float:
    """The rate at some part of the run, relative to its peak: up, then down to zero, in straight lines."""
    return min(part / WARM, (1 - part) / (1 - WARM))


def seed_step(seed: int, step: int) -> None:
    """Let what torch draws next on the CPU depend on these two alone."""
    torch.default_generator.manual_seed(random.Random(f"{seed} step {step}").getrandbits(32))


@contextmanager
def same_randomness() -> Iterator[None]:
    """Leave the caller's random numbers as they were."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
