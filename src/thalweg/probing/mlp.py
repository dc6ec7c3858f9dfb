"""MLP probes, trained by minibatches on repeated passes over the corpus.

All probes of a run train side by side on the same pass, so hidden states are never stored: memory grows with the
number of layers and the square of the width, not with the corpus.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from thalweg.probing.linear import LinearMap
from thalweg.probing.plan import ProbeKey
from thalweg.probing.search import take
from thalweg.probing.states import HiddenStates

MINIBATCH_TOKENS = 256
LEARNING_RATE = 1e-3
PATIENCE_EPOCHS = 2  # without a better validation loss before a probe stops
MAX_EPOCHS = 20
ADAM_STATE = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True, eq=False)
class MlpMap:
    """g(h) = h W + b + gelu(z W₁ + b₁) W₂ + b₂ with z the standardised h: an MLP on top of the linear probe.

    W and b are the linear probe's and stay fixed; W₂ starts at zero, so g starts as the linear probe.
    """

    linear: LinearMap
    mean: Float[Tensor, " taken"]
    spread: Float[Tensor, " taken"]
    enter: Float[Tensor, "taken hidden"]
    enter_bias: Float[Tensor, " hidden"]
    leave: Float[Tensor, "hidden width"]
    leave_bias: Float[Tensor, " width"]

    def __call__(self, states: Float[Tensor, "*token taken"]) -> Float[Tensor, "*token width"]:
        weights = {name: value for name, value in vars(self).items() if name != "linear"}
        return self.linear(states) + _correction(states.float(), **weights).to(states.dtype)


def _correction(
    states: Tensor, mean: Tensor, spread: Tensor, enter: Tensor, enter_bias: Tensor, leave: Tensor, leave_bias: Tensor
) -> Tensor:
    """gelu(z W₁ + b₁) W₂ + b₂ with z = (h − mean)/spread, for one probe or several stacked."""
    return F.gelu(((states - mean) / spread) @ enter + enter_bias) @ leave + leave_bias


@dataclass(frozen=True, eq=False)
class MlpStart:
    """The start of an MLP probe: its linear map, each input channel's mean and spread, the targets' mean ‖x‖²."""

    linear: LinearMap
    mean: Float[Tensor, " taken"]
    spread: Float[Tensor, " taken"]
    size: float


class MlpStack:
    """MLP probes that read the same part of a state, stacked along one axis, with their optimizer."""

    def __init__(self, keys: Sequence[ProbeKey], starts: Sequence[MlpStart], seed: int) -> None:
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
        self.optimizer = torch.optim.Adam(self.weights.values(), LEARNING_RATE)

    @property
    def stopped(self) -> Bool[Tensor, " probe"]:
        return self.waited >= PATIENCE_EPOCHS

    def losses(self, states: HiddenStates, tokens: Tensor) -> Float[Tensor, "probe token"]:
        """The loss of each token: 1 − cos(g, x) for cosine, ‖g − x‖² over the mean ‖x‖² for l2."""
        inputs = torch.stack([take(key.part, states.layers[key.layer][tokens]) for key in self.keys]).float()
        targets = torch.stack([states.layers[key.to][tokens] for key in self.keys]).float()
        correction = _correction(inputs, self.mean, self.spread, **self.weights)
        estimates = inputs @ self.linear + self.linear_bias + self.scale * correction  # [probe token width]
        cosine = 1 - F.cosine_similarity(estimates, targets, dim=-1)
        square = (estimates - targets).square().sum(-1) / self.size[:, None]
        return torch.where(self.cosine[:, None], cosine, square)

    def learn(self, states: HiddenStates) -> None:
        """Take one optimizer step per minibatch of tokens."""
        for tokens in (~states.special).nonzero()[:, 0].split(MINIBATCH_TOKENS):
            self.optimizer.zero_grad()
            self.losses(states, tokens).mean(1).sum().backward()
            self.optimizer.step()

    def total(self, states: HiddenStates) -> Float[Tensor, " probe"]:
        """The sum of the losses of all tokens."""
        with torch.no_grad():
            minibatches = (~states.special).nonzero()[:, 0].split(MINIBATCH_TOKENS)
            return torch.stack([self.losses(states, tokens).double().sum(1) for tokens in minibatches]).sum(0)

    def judge(self, loss: Float[Tensor, " probe"]) -> None:
        """Keep the weights of each probe whose validation loss is the best so far."""
        better = (loss < self.loss) & ~self.stopped
        for name, weight in self.weights.items():
            self.best[name][better] = weight.detach()[better]
        self.loss = torch.where(better, loss, self.loss)
        self.waited = torch.where(better, 0, self.waited + 1)

    def maps(self) -> dict[ProbeKey, MlpMap]:
        """The best probes so far."""
        maps = {}
        for number, (key, start) in enumerate(zip(self.keys, self.starts, strict=True)):
            best = {name: weight[number] for name, weight in self.best.items()}
            maps[key] = MlpMap(
                linear=start.linear,
                mean=start.mean,
                spread=start.spread,
                enter=best["enter"],
                enter_bias=best["enter_bias"][0],
                leave=self.scale[number] * best["leave"],
                leave_bias=self.scale[number, 0] * best["leave_bias"][0],
            )
        return maps

    def state(self) -> dict[str, Tensor]:
        """Everything that changes during training, for a checkpoint."""
        state = {"loss": self.loss, "waited": self.waited}
        for name, weight in self.weights.items():
            state |= {f"{name}.now": weight.detach(), f"{name}.best": self.best[name]}
            state |= {f"{name}.{part}": value for part, value in self.optimizer.state[weight].items()}
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self.loss, self.waited = state["loss"], state["waited"]
        for name, weight in self.weights.items():
            weight.data.copy_(state[f"{name}.now"])
            self.best[name] = state[f"{name}.best"]
            if f"{name}.step" in state:
                self.optimizer.state[weight] = {part: state[f"{name}.{part}"] for part in ADAM_STATE}


def train_mlps(
    stacks: Sequence[MlpStack],
    training: Callable[[int], Iterator[HiddenStates]],
    validation: Callable[[], Iterator[HiddenStates]],
    epoch: int,
    checkpoint: Callable[[int], None],
) -> int:
    """Train from `epoch` on until no probe improves, with a checkpoint after each epoch; returns the last epoch.

    Epoch 0 only evaluates the start, so that no probe ends with a worse validation loss than its linear map.
    """
    while epoch <= MAX_EPOCHS and not all(bool(stack.stopped.all()) for stack in stacks):
        if epoch > 0:
            for states in training(epoch):
                for stack in stacks:
                    stack.learn(states)
        totals, count = [torch.zeros(len(stack.keys), dtype=torch.float64) for stack in stacks], 0
        for states in validation():
            totals = [total + stack.total(states) for stack, total in zip(stacks, totals, strict=True)]
            count += int((~states.special).sum())
        for stack, total in zip(stacks, totals, strict=True):
            stack.judge(total / count)
        epoch += 1
        checkpoint(epoch)
    return epoch - 1
