"""The training loop: minibatches, epochs, early stopping and checkpoints.

All randomness (the batches, the dropout) depends on the seed and the step alone. A run that was killed and resumed, on
the same machine with the same number of threads, ends with bitwise the same weights as an uninterrupted one.
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
from thalweg.errors import InputError
from thalweg.files.run_folder import RunFolder
from thalweg.progress import progress

CHECKPOINT = "checkpoint.safetensors"
WARMUP_SHARE = 1 / 16  # of the run
MAX_GRADIENT_NORM = 1.0
WEIGHT_DECAY = 0.01
CHECKPOINT_SECONDS = 60.0  # between checkpoints within an epoch
ADAM_STATE = ("exp_avg", "exp_avg_sq", "step")
Loss = Callable[[Tensor, list[int]], Tensor]  # of a batch's logits and its row numbers


@dataclass(frozen=True)
class ValidationScore:
    """Loss and accuracy on the validation examples."""

    loss: float
    accuracy: float

    def better_than(self, other: "ValidationScore") -> bool:
        """Compare by accuracy, then by loss.

        The loss of an overconfident classifier can rise while its accuracy still improves. On a few hundred examples
        accuracies are often equal; then the loss decides.
        """
        return (self.accuracy, -self.loss) > (other.accuracy, -other.loss)


@dataclass(frozen=True)
class Epoch:
    """One pass over the training examples: its mean loss, and the validation score after it. 0 is the start."""

    number: int
    training_loss: float | None
    validation_loss: float
    validation_accuracy: float

    @property
    def score(self) -> ValidationScore:
        return ValidationScore(self.validation_loss, self.validation_accuracy)


class DivergedError(InputError):
    """The loss is not finite, so training cannot continue."""


class TrainingState:
    """The weights of a model, the best ones so far, the optimizer and the history."""

    def __init__(self, model: nn.Module, rate: float) -> None:
        self.weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
        self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}
        self.optimizer = torch.optim.AdamW(self.weights.values(), rate, weight_decay=WEIGHT_DECAY, fused=True)
        self.step, self.batch = 0, 0  # steps in all, batches done in this epoch
        self.loss = 0.0  # sum over the texts of the epoch so far
        self.history: list[Epoch] = []

    @property
    def epochs(self) -> int:
        return self.history[-1].number if self.history else 0

    @property
    def best_epoch(self) -> Epoch:
        """The epoch with the best score; the start counts only while there is no other.

        An inherited model starts with the rank of its source's values, which training must first raise.
        """
        best, *others = [epoch for epoch in self.history if epoch.number] or self.history
        for epoch in others:
            best = epoch if epoch.score.better_than(best.score) else best
        return best

    def done(self, plan: TrainingPlan) -> bool:
        return self.epochs > 0 and (self.epochs >= plan.epochs or self.epochs - self.best_epoch.number >= plan.patience)

    def update(self, loss: Float[Tensor, ""], texts: int, rate: float) -> None:
        """Take one optimizer step on the mean loss of this many texts."""
        self._check_finite(loss.item())
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), MAX_GRADIENT_NORM)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.step += 1
        self.batch += 1
        self.loss += float(loss.detach()) * texts

    def end_epoch(self, score: ValidationScore, texts: int | None) -> None:
        """End an epoch of this many texts (None: the start), and keep its weights if they are the best so far."""
        self._check_finite(score.loss)
        number = 0 if texts is None else self.epochs + 1
        loss = None if texts is None else self.loss / texts
        self.history.append(Epoch(number, loss, score.loss, score.accuracy))
        self.batch, self.loss = 0, 0.0
        if self.best_epoch.number == number:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}

    def _check_finite(self, loss: float) -> None:
        if not isfinite(loss):
            raise DivergedError(
                f"training diverged: the loss is {loss} after {self.step} steps; use a rate below "
                f"{self.optimizer.defaults['lr']:g}, and check the initial weights, if any"
            )

    @torch.no_grad()
    def take_best(self) -> None:
        """Set the model to its best weights."""
        for name, weight in self.weights.items():
            weight.copy_(self.best[name])

    def checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything needed to resume: (tensors, header)."""
        tensors: dict[str, Tensor] = {}
        for name, weight in self.weights.items():
            tensors |= {f"now.{name}": weight.detach(), f"best.{name}": self.best[name]}
            tensors |= {f"{part}.{name}": value for part, value in self.optimizer.state[weight].items()}
        history = [asdict(epoch) for epoch in self.history]
        return tensors, {"step": self.step, "batch": self.batch, "loss": self.loss, "history": history}

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
        """Continue from what `checkpoint` returned."""
        self.step, self.batch, self.loss = header["step"], header["batch"], header["loss"]
        self.history = [Epoch(**epoch) for epoch in header["history"]]
        for name, weight in self.weights.items():
            weight.copy_(tensors[f"now.{name}"])
            self.best[name] = tensors[f"best.{name}"]
            if self.step:
                self.optimizer.state[weight] = {part: tensors[f"{part}.{name}"] for part in ADAM_STATE}


def fit(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    pad: int,
    loss: Loss,
    validate: Callable[[], ValidationScore],
    plan: TrainingPlan,
    run: RunFolder,
    score_start: bool = False,
) -> tuple[TrainingState, float]:
    """Train until the score stops improving, and leave the model with its best weights.

    Resumes from the last checkpoint of the run. Also returns the training time in seconds, over all its processes.
    With `score_start` the history begins with the initial weights.
    """
    assert plan.rate is not None
    state, seconds, start = TrainingState(model, plan.rate), 0.0, time.monotonic()
    resumed = run.read_tensors(CHECKPOINT)
    if resumed is not None:
        state.restore(*resumed)
        seconds = float(resumed[1]["seconds"])

    def save() -> float:
        tensors, header = state.checkpoint()
        run.write_tensors(CHECKPOINT, tensors, {**header, "seconds": seconds + time.monotonic() - start})
        return time.monotonic()

    with preserved_randomness(), progress("training") as report:
        if score_start and resumed is None:
            state.end_epoch(validate(), None)
        saved = start if resumed is not None else save()
        while not state.done(plan):
            epoch = state.epochs
            model.train()
            order = batches(ids, plan.batch_tokens, random.Random(f"{plan.seed} {epoch}"))
            for number in range(state.batch, len(order)):
                seed_step(plan.seed, state.step)
                rows = order[number]
                rate = plan.rate * relative_rate((epoch + (number + 0.5) / len(order)) / plan.epochs)
                logits = logits_of(model, [ids[row] for row in rows], pad)
                state.update(loss(logits, rows), len(rows), rate)
                report(epoch * len(order) + number + 1, plan.epochs * len(order))
                if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    saved = save()
            state.end_epoch(validate(), len(ids))
            saved = save()
    state.take_best()
    model.eval()
    return state, seconds + time.monotonic() - start


def relative_rate(share: float) -> float:
    """The learning rate after a share of the run, relative to its peak: linear warm-up, then linear decay to zero."""
    return min(share / WARMUP_SHARE, (1 - share) / (1 - WARMUP_SHARE))


def seed_step(seed: int, step: int) -> None:
    """Seed torch's CPU generator from these two alone."""
    torch.default_generator.manual_seed(random.Random(f"{seed} step {step}").getrandbits(32))


@contextmanager
def preserved_randomness() -> Iterator[None]:
    """Restore the state of torch's CPU generator on exit."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
