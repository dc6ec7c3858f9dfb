"""Run a recorded pass again with attention frozen and states changed, and see which of the kept ones move."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from thalweg.capture.anatomy import Anatomy
from thalweg.capture.attention import Call
from thalweg.capture.observe import Pass, Tap, watch
from thalweg.errors import ProofError
from thalweg.numerics import tolerance, working

Rows = Bool[np.ndarray, "_ _"]  # [example position], of one sequence or another
Place = tuple[str, int]  # an "input" or "end" with the number of its sequence, a "start" or "total" with its block's


AMPLIFICATION = 16.0  # how much a layer may enlarge the rounding errors of changes that cancel


@dataclass(frozen=True, eq=False)
class Scene:
    """A recorded pass: where its states can be changed, and which positions of its examples are real.

    Sequences are numbered: 0, or 0 and 1 for source and target of an encoder-decoder. `groups` are runs of blocks of
    which only the first one's start can be replaced; each of the others starts from the sum before it.
    """

    anatomy: Anatomy
    record: Pass
    real: tuple[Rows, ...]  # of each sequence

    @property
    def sequences(self) -> list[int]:
        """The sequence of each block."""
        return [int(role != "encoder" and len(self.real) == 2) for role in self.anatomy.roles]

    @property
    def allowed(self) -> float:
        """How far a number may move that should stay, relative to the numbers around it."""
        output = self.record.calls[0][2]
        return 4 * tolerance(output.dtype, output.shape[2] * output.shape[3])

    @property
    def readout(self) -> Rows:
        """The rows of the last sequence that logits are read at: the first or the last of each example."""
        real = self.real[-1]
        first = self.anatomy.pooling == "first"
        return real & (np.cumsum(real, 1) == (1 if first else real.sum(1, keepdims=True)))

    def groups(self) -> list[range]:
        groups: list[range] = []
        for number, tap in enumerate(self.anatomy.states.starts):
            if tap in self.anatomy.states.fixed and groups:
                groups[-1] = range(groups[-1].start, number + 1)
            else:
                groups.append(range(number, number + 1))
        return groups

    def before(self, place: Place) -> Place:
        """The place that the state at a start or an end is computed from."""
        kind, number = place
        sequences = self.sequences
        sequence, stop = (number, len(sequences)) if kind == "end" else (sequences[number], number)
        previous = [block for block in range(stop) if sequences[block] == sequence]
        return ("total", previous[-1]) if previous else ("input", sequence)

    def sequence_of(self, place: Place) -> int:
        kind, number = place
        return number if kind in ("input", "end") else self.sequences[number]

    def state(self, place: Place) -> Tensor:
        """The recorded state at a start, a sum or an end, [example position width]."""
        kind, number = place
        blocks = self.anatomy.blocks
        tap = (
            self.anatomy.states.ends[number]
            if kind == "end"
            else blocks[number].residual
            if kind == "start"
            else blocks[number].total
        )
        return self.record.tensors[tap].reshape(*self.real[self.sequence_of(place)].shape, -1)


@dataclass(frozen=True, eq=False)
class Movement:
    """How far rows are from the recorded ones that they should equal, in units of what is allowed.

    Rows that are kept at `place` should equal their own; rows that carry another row's state should equal that row's.
    """

    place: Place
    quantity: str  # queries, keys, values, sum, state or logits
    what: str
    ratio: Tensor
    rows: tuple[Tensor, Tensor] | None = None  # (example, position) of the ratios, for rows that carry others

    @property
    def check(self) -> tuple[str, Place]:
        return self.quantity, self.place


def intervene(
    model: nn.Module,
    inputs: Mapping[str, Any],
    scene: Scene,
    kept: Mapping[Place, Rows],
    seed: int,
    strange: float = 1 / 16,
) -> "Intervention":
    """Run the pass on `inputs`, with every position changed at the places where it is not kept.

    Changed positions carry the state of another one, except for a share of `strange` ones.
    """
    intervention = Intervention(scene, kept, np.random.default_rng(seed), strange)
    with torch.no_grad():
        record = watch(
            model, inputs, set(intervention.at), intervention, scene.anatomy.through_registry, intervention.edit
        )
    intervention.finish(record.result)
    return intervention


@dataclass(eq=False)
class Intervention:
    """Attention handler and editor of one pass."""

    scene: Scene
    kept: Mapping[Place, Rows]
    random: np.random.Generator
    strange_share: float = 1 / 16
    movements: list[Movement] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        anatomy, record = self.scene.anatomy, self.scene.record
        self.device = record.calls[0][2].device
        self.allowed = self.scene.allowed
        self.at: dict[Tap, list[Place]] = {}  # a sum comes before the start that it may be
        for kind, taps in (
            ("total", [wiring.total for wiring in anatomy.blocks]),
            ("start", anatomy.states.starts),
            ("end", anatomy.states.ends),
        ):
            for number, tap in enumerate(taps):
                self.at.setdefault(tap, []).append((kind, number))
        self.unseen = set(self.at)
        self.group = {number: group for group in self.scene.groups() for number in group}
        self.partners = self._draw_partners()
        self.rows = {
            place: self._index(rows & self.scene.real[self.scene.sequence_of(place)])
            for place, rows in self.kept.items()
        }
        self.strange: dict[Place, Rows] = {}
        self.carried = {place: self._carried(place) for place in self.kept}
        self.slack: dict[Place, Tensor] = {}  # by how much more a row may move, [example position]

    def __call__(self, call: Call) -> tuple[Tensor, Tensor | None]:
        """Compare what attention reads; return its former result, with the rows of partners where it changes."""
        number = self.calls
        self.calls += 1
        if number >= len(self.scene.record.calls):
            raise _calls_differ()
        _, before, output = self.scene.record.calls[number]
        name, role = self.scene.anatomy.blocks[number].attention, self.scene.anatomy.roles[number]
        queries: Place = ("start", number)
        keys: Place = ("end", 0) if role == "cross" else queries
        if not _same_settings(call, before):
            raise ProofError(
                f"the mask, scaling or position bias of {name!r} changed when tokens and states were changed: "
                "attention depends on positions in more ways than by their queries, keys and values; this model is not "
                "supported"
            )
        compared: tuple[tuple[str, Place, Tensor | None, Tensor | None], ...] = (
            ("queries", queries, call.query, before.query),
            ("keys", keys, call.key, before.key),
            ("values", keys, call.value, before.value),
        )
        positional = self.scene.anatomy.positional
        for quantity, place, now, then in compared:
            if now is not None and then is not None:
                what = f"the {quantity} of {name!r}"
                now, then = now.transpose(1, 2), then.transpose(1, 2)  # [example position head size]
                self._compare(place, quantity, what, now, then)
                if positional is None or (quantity, place) in positional:  # a rotation keeps lengths
                    self._compare(place, f"lengths of {quantity}", what, now.norm(dim=-1), then.norm(dim=-1))
        if call.query is None and call.weights is not None and before.weights is not None:
            self._compare_weights(queries, keys, f"the weights of {name!r}", call.weights, before.weights)
        swapped = self._swapped(number)
        if not swapped.any():
            return output, None
        result = output.clone()
        result[self._index(swapped)] = output[self._partners_of(queries, swapped)]
        return result, None

    def _compare_weights(self, queries: Place, keys: Place, what: str, now: Tensor, then: Tensor) -> None:
        """Compare weights [example head query key]: how a kept query divides its attention among kept keys stays."""
        seen = torch.from_numpy(self.kept[keys]).to(self.device)[:, None, None]
        now, then = now * seen, then * seen
        total, before = now.sum(-1, keepdim=True), then.sum(-1, keepdim=True)
        least = torch.finfo(now.dtype).tiny / torch.finfo(now.dtype).eps  # smaller ones have few digits
        known = (total > least) & (before > least)
        now, then = torch.where(known, now / total, 0), torch.where(known, then / before, 0)
        rows = self.rows[queries]
        if len(rows[0]):
            moved = (now - then).transpose(1, 2)[rows].abs().amax((1, 2)) / self.allowed
            self.movements.append(Movement(queries, "weights", what, moved))

    def edit(self, tap: Tap, value: Tensor) -> Tensor:
        """Compare the state that arrives at a tap; return the one that the model continues with."""
        self.unseen.discard(tap)
        result = value
        for place in self.at[tap]:
            then = self.scene.state(place)
            now = value.reshape(then.shape) if value.numel() == then.numel() else value
            if place[0] == "total":
                name = self.scene.anatomy.blocks[place[1]].attention
                self._compare(place, "sum", f"the sum of {name!r} and its input", now, then, self.slack.get(place))
                continue
            before = self.scene.before(place)
            slack = self.slack.get(before)
            self._compare(
                before, "state", f"the {tap}", now, then, None if slack is None else 1 + AMPLIFICATION * (slack - 1)
            )
            if tap not in self.scene.anatomy.states.fixed:
                result = self._changed(place, then).to(value.dtype).view(value.shape)
        return result

    def finish(self, result: Any) -> None:
        """Check that nothing was left out, and compare the logits."""
        if self.calls != len(self.scene.record.calls):
            raise _calls_differ()
        if self.unseen:
            raise ProofError(f"the {min(self.unseen, key=str)} was not seen again in a second pass")
        former = self.scene.record.result
        if not isinstance(former, Mapping):
            return
        name = "logits" if former.get("logits") is not None else "last_hidden_state"
        if former.get(name) is not None:
            now, then = result[name], former[name]
            end: Place = ("end", len(self.scene.real) - 1)
            if then.dim() == 3:
                self._compare(end, name, f"the {name} that the model returns", now, then)
            elif then.dim() == 2:
                self.movements.append(
                    Movement(end, name, "the logits", movement(now, then, channel_sizes(then[None]), self.allowed))
                )

    def first_moved(self) -> Movement | None:
        """The first state of the pass that moved although it was kept."""
        return next(self._too_far(carried=False), None)

    def uneven(self) -> list[Movement]:
        """What differs between positions that carry the same state, and is not known to depend on the position."""
        return list(self._too_far(carried=True))

    def _too_far(self, carried: bool) -> Iterator[Movement]:
        movements = [movement for movement in self.movements if (movement.rows is not None) == carried]
        if movements:
            ratios = torch.stack([movement.ratio.max() for movement in movements]).tolist()
            yield from (movement for movement, ratio in zip(movements, ratios, strict=True) if not ratio <= 1)

    def errors(self, positional: Collection[tuple[str, Place]]) -> list[float]:
        """The largest movement of what each block reads and what follows from its sum."""
        errors = [0.0] * len(self.group)
        for movement in self.movements:
            if movement.rows is not None and movement.check in positional:
                continue
            kind, number = movement.place
            block = number if kind in ("start", "total") else 0 if kind == "input" else len(errors) - 1
            errors[block] = max(errors[block], self.allowed * float(movement.ratio.max()))
        return errors

    def _compare(
        self, place: Place, quantity: str, what: str, now: Tensor, then: Tensor, slack: Tensor | None = None
    ) -> None:
        """Note how far the rows [example position …] are from what is kept or carried at `place`."""
        if now.shape != then.shape or then.shape[:2] != self.kept[place].shape:
            raise ProofError(
                f"{what} had the shape {tuple(then.shape)} and in a second pass {tuple(now.shape)}, where the sequence "
                f"has {self.kept[place].shape[1]} positions: positions that are added, merged or dropped inside the "
                "model are not supported"
            )
        rows, sizes = self.rows[place], channel_sizes(then)
        if len(rows[0]):
            ratio = movement(now[rows], then[rows], sizes, self.allowed)
            self.movements.append(Movement(place, quantity, what, ratio if slack is None else ratio / slack[rows]))
        carrying, partners = self.carried[place]
        if len(carrying[0]) and (quantity, place) not in (self.scene.anatomy.positional or ()):
            ratio = movement(now[carrying], then[partners], sizes, self.allowed)
            self.movements.append(Movement(place, quantity, what, ratio, carrying))

    def _changed(self, place: Place, state: Tensor) -> Tensor:
        """The recorded state with other rows where they are not kept."""
        kept = self.kept[place]
        cancelled = np.zeros_like(kept)
        result = state.clone()
        if place[0] == "start":
            last: Place = ("total", self.group[place[1]][-1])
            cancelled = ~kept & self.kept[last]
            if cancelled.any():
                self._cancel(result, cancelled, last)
        changed = ~kept & ~cancelled
        if changed.any():
            at = self._index(changed)
            others = state[self._partners_of(place, changed)]
            strange = torch.from_numpy(self._strange(place)).to(self.device)[at]
            others[strange] = self._strange_states(int(strange.sum()), state)
            result[at] = others
        return result

    def _cancel(self, result: Tensor, cancelled: Rows, last: Place) -> None:
        """Change these rows of a start such that the attention result that is swapped there leaves the sum as it is."""
        exact = working(result.dtype)
        total = self.scene.state(last)
        slack = torch.ones(total.shape[:2], dtype=exact, device=total.device)
        for number in self.group[last[1]]:
            rows = cancelled & self._swapped(number)
            if not rows.any():
                continue
            at, partner = self._index(rows), self._partners_of(last, rows)
            start = self.scene.state(("start", number)).to(exact)
            summed = self.scene.state(("total", number)).to(exact)
            changed = result[at].to(exact) + (summed[at] - start[at]) - (summed[partner] - start[partner])
            result[at] = changed.to(result.dtype)
            length = total[at].to(exact).norm(dim=-1)
            parts = changed.norm(dim=-1) + summed[partner].norm(dim=-1) + start[partner].norm(dim=-1)
            slack[at] = 1 + parts / length.clamp_min(0.01 * length.mean())
        self.slack[last] = slack

    def _swapped(self, number: int) -> Rows:
        """The rows whose attention result in this block is their partner's.

        Where the changes of a group cancel, that of one block does so.
        """
        group = self.group[number]
        start, total = self.kept["start", group[0]], self.kept["total", group[-1]]
        turn = np.add.outer(*map(np.arange, start.shape)) % len(group) == number - group[0]
        return ~total | (~start & turn)

    def _carried(self, place: Place) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """The rows that carry their partner's state at a place, and these partners."""
        kind, number = place
        rows = self.scene.real[self.scene.sequence_of(place)] & ~self.kept[place]
        if kind == "input":
            return (none := self._index(np.zeros_like(rows))), none
        if kind in ("start", "total"):
            group = self.group[number]
            rows = rows & ~self.kept["start", group[0]] & ~self.kept["total", group[-1]]
        elif self.scene.anatomy.states.ends[number] in self.scene.anatomy.states.fixed:
            return self._carried(self.scene.before(place))
        rows = rows & ~self._strange(place)
        return self._index(rows), self._partners_of(place, rows)

    def _draw_partners(self) -> dict[Place, tuple[np.ndarray, np.ndarray]]:
        """For every row at every end and in every group of blocks one of two real rows of the batch.

        All other states vanish, so that whatever is chosen among positions, such as the largest, changes too. The two
        rows differ from group to group, so that what goes around a group carries other states.
        """
        partners: dict[Place, tuple[np.ndarray, np.ndarray]] = {}
        for place in self.kept:
            if place[0] == "end" or (place[0] == "start" and self.group[place[1]][0] == place[1]):
                real = self.scene.real[self.scene.sequence_of(place)]
                examples, positions = np.nonzero(real)
                if place == ("end", len(self.scene.real) - 1) and self.scene.anatomy.pooling == "all":
                    partners[place] = _exchanged(real)
                    continue
                partner = self.random.permutation(len(examples))[:2][
                    self.random.integers(min(2, len(examples)), size=real.shape)
                ]
                partners[place] = examples[partner], positions[partner]
        return partners

    def _partners_of(self, place: Place, rows: Rows) -> tuple[Tensor, Tensor]:
        kind, number = place
        examples, positions = self.partners[place if kind == "end" else ("start", self.group[number][0])]
        return self._on_device(examples[rows]), self._on_device(positions[rows])

    def _strange_states(self, count: int, state: Tensor) -> Float[Tensor, "count width"]:
        """Rows that differ from any of the state, also after a norm: a single large number, or another row negated."""
        channels = self._on_device(self.random.integers(state.shape[-1], size=count))
        signs = self._on_device(self.random.choice([-3.0, 3.0], size=count)).to(state.dtype)
        spikes = state.new_zeros(count, state.shape[-1])
        spikes[torch.arange(count, device=self.device), channels] = signs * state.norm(dim=-1).max()
        rows = state.flatten(0, 1)
        negated = -3 * rows[self._on_device(self.random.integers(len(rows), size=count))]
        return torch.where(self._on_device(self.random.random(count) < 0.5)[:, None], spikes, negated)

    def _strange(self, place: Place) -> Rows:
        """The rows that are changed to a state unlike any of the text, which they cannot be compared with.

        These are rows whose partner has the same state, such as equal words of a model without positions, and a few
        others, such that extrema and thresholds over the text move too.
        """
        own: Place = place if place[0] == "end" else ("start", self.group[place[1]][0])
        if own[0] == "end" and self.scene.anatomy.pooling == "all":  # rows are exchanged, and nothing may move
            return np.zeros_like(self.scene.real[-1])
        if own not in self.strange:
            state = self.scene.state(own)
            others = state[self._partners_of(own, np.ones(state.shape[:2], dtype=bool))].reshape(state.shape)
            equal = (others - state).norm(dim=-1) <= self.allowed * state.norm(dim=-1)
            rank = self.random.random(state.shape[:2]).argsort(1).argsort(1)
            few = rank < max(2, self.strange_share * state.shape[1])
            if self.strange_share < 1 and self.scene.sequence_of(own) == len(self.scene.real) - 1:
                few &= ~self.scene.readout
            self.strange[own] = equal.cpu().numpy() | few
        return self.strange[own]

    def _index(self, rows: Rows) -> tuple[Tensor, Tensor]:
        examples, positions = np.nonzero(rows)
        return self._on_device(examples), self._on_device(positions)

    def _on_device(self, index: Shaped[np.ndarray, " row"]) -> Tensor:
        return torch.from_numpy(index).to(self.device)


def channel_sizes(recorded: Float[Tensor, "example position *rest"]) -> Float[Tensor, " channel"]:
    """How large the numbers of each channel are, over all rows.

    A channel that is huge in every row would hide what moves beside it, so channels are measured by their own size.
    With few rows that is uncertain, so the median of all channels counts too.
    """
    rows = recorded.flatten(0, 1).flatten(1).to(working(recorded.dtype))
    sizes = rows.square().mean(0).sqrt()
    median = sizes.median().clamp_min(1e-6 * sizes.mean() + torch.finfo(sizes.dtype).tiny)
    return sizes + max(1e-4, len(rows) ** -2.0) * median


def movement(
    now: Float[Tensor, "row *rest"],
    then: Float[Tensor, "row *rest"],
    sizes: Float[Tensor, " channel"],
    allowed: float,
) -> Float[Tensor, " _"]:
    """The largest movement of a number in each row, relative to its own size and that of its channel.

    In units of what is allowed; a single zero if nothing moved at all.
    """
    if now.device.type == "cpu" and torch.equal(now, then):
        return torch.zeros(1)
    then = then.flatten(1).to(sizes.dtype)
    return ((now.flatten(1).to(sizes.dtype) - then).abs() / (allowed * (sizes + then.abs()))).amax(1)


def _same_settings(call: Call, before: Call) -> bool:
    """Whether attention is called with the same mask and options."""
    if call.options.keys() != before.options.keys() or call.implementation != before.implementation:
        return False
    pairs = [(call.mask, before.mask), *((value, before.options[name]) for name, value in call.options.items())]
    return all(_same(now, then) for now, then in pairs)


def _same(now: Any, then: Any) -> bool:
    if isinstance(now, Tensor) and isinstance(then, Tensor):
        return now.shape == then.shape and torch.equal(now, then)
    if type(now) is not type(then):
        return False
    if isinstance(now, tuple | list):
        return len(now) == len(then) and all(map(_same, now, then))
    return now == then if isinstance(now, bool | int | float | str) else True


def _exchanged(real: Rows) -> tuple[np.ndarray, np.ndarray]:
    """For every row the one before it in its own example, and for the first one the last."""
    counts = np.maximum(real.sum(1, keepdims=True), 1)
    examples, positions = np.indices(real.shape)
    return np.asarray(examples), np.asarray((positions - 1) % counts)


def _calls_differ() -> ProofError:
    return ProofError(
        "a second pass made a different number of attention calls; models whose layers depend on the input are not "
        "supported"
    )
