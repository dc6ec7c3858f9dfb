"""Maps with a hidden layer, learnt by minibatches while the model runs over the corpus again and again.

All probes of a run learn side by side from the same pass, so that states are never kept: memory grows with the
number of layers and the square of the width, not with the corpus.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.probing.linear import LinearMap
from thalweg.probing.plan import Key
from thalweg.probing.search import take
from thalweg.probing.states import States

MINIBATCH = 256  # tokens
RATE = 1e-3
PATIENCE = 2  # epochs without a better validation loss before a probe stops
LONGEST = 20  # epochs
SAVED = ("exp_avg", "exp_avg_sq", "step")  # of Adam


@dataclass(frozen=True, eq=False)
class MlpMap:
    """g(h) = h W + b + gelu(z W₁ + b₁) W₂ + b₂ with z the standardised h: what a linear map leaves, learnt.

    W and b are the linear probe's and stay as they are; W₂ begins at zero, so that g begins as that probe.
    """

    linear: LinearMap
    mean: Float[Tensor, " taken"]
    spread: Float[Tensor, " taken"]
    enter: Float[Tensor, "taken hidden"]
    enter_bias: Float[Tensor, " hidden"]
    leave: Float[Tensor, "hidden width"]
    leave_bias: Float[Tensor, " width"]

    def __call__(self, given: Float[Tensor, "*token taken"]) -> Float[Tensor, "*token width"]:
        learnt = {name: value for name, value in vars(self).items() if name != "linear"}
        return self.linear(given) + _rest(given.float(), **learnt).to(given.dtype)


def _rest(
    given: Tensor, mean: Tensor, spread: Tensor, enter: Tensor, enter_bias: Tensor, leave: Tensor, leave_bias: Tensor
) -> Tensor:
    """gelu(z W₁ + b₁) W₂ + b₂ with z = (h − mean)/spread, of one probe or of several stacked."""
    return F.gelu(((given - mean) / spread) @ enter + enter_bias) @ leave + leave_bias


@dataclass(frozen=True, eq=False)
class Start:
    """What a probe begins with: the linear map, each input channel's mean and spread, the targets' mean ‖x‖²."""

    linear: LinearMap
    mean: Float[Tensor, " taken"]
    spread: Float[Tensor, " taken"]
    size: float


class Learner:
    """Probes that read the same part of a state, stacked along one axis, with what is needed to go on later."""

    def __init__(self, keys: Sequence[Key], starts: Sequence[Start], seed: int) -> None:
        self.keys, self.starts = list(keys), list(starts)
        taken, width = starts[0].linear.weight.shape
        count, hidden = len(keys), width
        generator = torch.Generator().manual_seed(seed)
        self.weights: dict[str, Tensor] = {
            "enter": torch.randn(count, taken, hidden, generator=generator) / taken**0.5,
            "enter_bias": torch.zeros(count, 1, hidden),
            "leave": torch.zeros(count, hidden, width),
            "leave_bias": torch.zeros(count, 1, width),
        }
        self.best = {name: weight.clone() for name, weight in self.weights.items()}
        self.loss = torch.full((count,), torch.inf, dtype=torch.float64)
        self.waited = torch.zeros(count, dtype=torch.int64)
        self.mean = torch.stack([start.mean for start in starts])[:, None]  # [probe 1 taken]
        self.spread = torch.stack([start.spread for start in starts])[:, None]
        self.linear = torch.stack([start.linear.weight for start in starts])
        self.linear_bias = torch.stack([start.linear.bias for start in starts])[:, None]
        self.size = torch.tensor([start.size for start in starts])
        self.scale = (self.size / width).sqrt()[:, None, None]  # of a target's channel, so that all learn at one pace
        self.cosine = torch.tensor([key.metric == "cosine" for key in keys])
        for weight in self.weights.values():
            weight.requires_grad_()
        self.optimizer = torch.optim.Adam(self.weights.values(), RATE)

    @property
    def stopped(self) -> Bool[Tensor, " probe"]:
        return self.waited >= PATIENCE

    def losses(self, states: States, asked: Tensor) -> Float[Tensor, "probe token"]:
        """Of each token: 1 − cos(g, x) for cosine, ‖g − x‖² over the mean ‖x‖² for l2."""
        given = torch.stack([take(key.part, states.layers[key.layer][asked]) for key in self.keys])
        wanted = torch.stack([states.layers[key.to][asked] for key in self.keys])
        given, wanted = given.float(), wanted.float()
        rest = _rest(given, self.mean, self.spread, **self.weights)
        made = given @ self.linear + self.linear_bias + self.scale * rest  # [probe token width]
        cosine = 1 - F.cosine_similarity(made, wanted, dim=-1)
        square = (made - wanted).square().sum(-1) / self.size[:, None]
        return torch.where(self.cosine[:, None], cosine, square)

    def learn(self, states: States) -> None:
        for asked in (~states.special).nonzero()[:, 0].split(MINIBATCH):
            self.optimizer.zero_grad()
            self.losses(states, asked).mean(1).sum().backward()
            self.optimizer.step()

    def total(self, states: States) -> Float[Tensor, " probe"]:
        """The losses of all tokens together."""
        with torch.no_grad():
            asked = (~states.special).nonzero()[:, 0].split(MINIBATCH)
            return torch.stack([self.losses(states, some).double().sum(1) for some in asked]).sum(0)

    def judge(self, loss: Float[Tensor, " probe"]) -> None:
        """Keep the weights of each probe whose validation loss is the best so far."""
        better = (loss < self.loss) & ~self.stopped
        for name, weight in self.weights.items():
            self.best[name][better] = weight.detach()[better]
        self.loss = torch.where(better, loss, self.loss)
        self.waited = torch.where(better, 0, self.waited + 1)

    def maps(self) -> dict[Key, MlpMap]:
        found = {}
        for number, (key, start) in enumerate(zip(self.keys, self.starts, strict=True)):
            best = {name: weight[number] for name, weight in self.best.items()}
            found[key] = MlpMap(
                linear=start.linear,
                mean=start.mean,
                spread=start.spread,
                enter=best["enter"],
                enter_bias=best["enter_bias"][0],
                leave=self.scale[number] * best["leave"],
                leave_bias=self.scale[number, 0] * best["leave_bias"][0],
            )
        return found

    def state(self) -> dict[str, Tensor]:
        """All that changes while learning, to go on from later."""
        state = {"loss": self.loss, "waited": self.waited}
        for name, weight in self.weights.items():
            state |= {f"{name}.now": weight.detach(), f"{name}.best": self.best[name]}
            state |= {f"{name}.{part}": value for part, value in self.optimizer.state[weight].items()}
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.loss, self.waited = state["loss"], state["waited"]
        for name, weight in self.weights.items():
            weight.data.copy_(state[f"{name}.now"])
            self.best[name] = state[f"{name}.best"]
            if f"{name}.step" in state:
                self.optimizer.state[weight] = {part: state[f"{name}.{part}"] for part in SAVED}


def train(
    learners: Sequence[Learner],
    training: Callable[[int], Iterator[States]],
    validation: Callable[[], Iterator[States]],
    epoch: int,
    keep: Callable[[int], None],
) -> int:
    """Learn from `epoch` on until no probe gets better; `keep` is told after each epoch. Returns the epochs run.

    Epoch 0 only judges what the probes begin with, so that none ends behind its linear map on the validation loss.
    """
    while epoch <= LONGEST and not all(bool(one.stopped.all()) for one in learners):
        if epoch > 0:
            for states in training(epoch):
                for one in learners:
                    one.learn(states)
        totals, count = [torch.zeros(len(one.keys), dtype=torch.float64) for one in learners], 0
        for states in validation():
            totals = [total + one.total(states) for one, total in zip(learners, totals, strict=True)]
            count += int((~states.special).sum())
        for one, total in zip(learners, totals, strict=True):
            one.judge(total / count)
        epoch += 1
        keep(epoch)
    return epoch - 1
