"""Change the tokens that a model reads, and prove that each first state follows from the token at its own position."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from thalweg.capture.observe import StopPassError, Tap, watch
from thalweg.capture.prove.intervention import Place, Rows, Scene, channel_sizes, movement
from thalweg.errors import ProofError

MARKERS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")  # heads may count them, embeddings do not
CHUNK_ELEMENTS = 2**23
UNEQUAL = (
    "differed between two equal passes: the model adds noise, or keeps something from one call to the next; make it "
    "deterministic (model.eval(), no caches or hooks that change states)"
)
MIXED = (
    "moved when only other tokens were changed: tokens are mixed by something that is not attention before the first "
    "block (such as a convolution, embeddings of neighbours, or positions that depend on other tokens), which "
    "contributions would miss; this model is not supported"
)


def prove_inputs(model: nn.Module, inputs: Mapping[str, Any], scene: Scene, random: np.random.Generator) -> float:
    """Change tokens in coded halves, so that each position is once kept while any other one is changed.

    The copies of the batch form a single pass, which ends where the first block starts. Returns the largest movement
    of a kept position; raises ProofError if it is too large. Pixels and sound have no positions that could be kept.
    """
    real, tap = scene.real[0], scene.anatomy.states.starts[0]
    ids = inputs.get("input_ids")
    if ids is None or ids.shape != real.shape:
        return 0.0
    then = scene.state(("start", 0))
    sizes = channel_sizes(then)
    special = special_ids(getattr(model, "config", None), MARKERS)
    everything = np.ones(int(real.sum()), dtype=bool)
    choices = [everything, *codes(len(everything), random)]
    step = max(1, CHUNK_ELEMENTS // then.numel())
    worst = 0.0
    for first in range(0, len(choices), step):
        kept = np.stack([_placed(choice, real) for choice in choices[first : first + step]])  # [copy example position]
        copies = len(kept)
        arguments = {
            name: value.repeat(copies, *(1,) * (value.dim() - 1)) if isinstance(value, Tensor) else value
            for name, value in inputs.items()
        }
        arguments["input_ids"] = _other_tokens(arguments["input_ids"], kept.reshape(-1, ids.shape[1]), special, random)
        now = _state_at(tap, model, arguments, scene.anatomy.through_registry).reshape(copies, *then.shape)
        for number, rows in enumerate(torch.from_numpy(kept).to(now.device)):
            ratio = float(movement(now[number][rows], then[rows], sizes, scene.allowed).max())
            if not ratio <= 1:
                raise ProofError(f"the {tap} {MIXED if first + number else UNEQUAL}")
            worst = max(worst, ratio * scene.allowed)
    return worst


def codes(count: int, random: np.random.Generator) -> Iterator[Bool[np.ndarray, " row"]]:
    """Choices of rows such that for any two rows there is a choice with the first and without the second.

    Each row has its own set of choices, and all of these sets have the same size: none contains another.
    """
    passes = next(passes for passes in range(2, 64) if comb(passes, passes // 2) >= count)
    sets = np.array(list(islice(combinations(random.permutation(passes), passes // 2), count)))
    chosen = np.zeros((count, passes), dtype=bool)
    np.put_along_axis(chosen, random.permutation(sets), True, axis=1)
    yield from chosen.T


def _placed(choice: Bool[np.ndarray, " row"], real: Rows) -> Rows:
    placed = np.zeros_like(real)
    placed[real] = choice
    return placed


def _state_at(tap: Tap, model: nn.Module, inputs: Mapping[str, Any], through_registry: bool) -> Tensor:
    """Run a pass up to this tap: the tensor that is seen there."""
    states: list[Tensor] = []

    def stop(_: Tap, value: Tensor) -> Tensor:
        states.append(value)
        raise StopPassError

    with torch.no_grad():
        watch(model, inputs, {tap}, None, through_registry, stop)
    return states[0]


def changed_inputs(
    model: Any, inputs: Mapping[str, Any], kept: Mapping[Place, Rows], random: np.random.Generator
) -> dict[str, Any]:
    """The inputs with other tokens where they are not kept; pixels and sound are changed everywhere."""
    changed = dict(inputs)
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            continue
        if value.is_floating_point():
            changed[name] = -value.roll(1, -1)
        elif name in ("input_ids", "decoder_input_ids"):
            place: Place = ("input", int(name == "decoder_input_ids"))
            changed[name] = _other_tokens(value, kept[place], special_ids(model.config), random)
    return changed


def _other_tokens(ids: Tensor, kept: Rows, special: set[int], random: np.random.Generator) -> Tensor:
    """Exchange the tokens that are not kept; special ones stay, since models count them.

    Exchanged tokens still occur, so that what a certain token does is seen at another position. A position that would
    receive its own token gets another one of the text.
    """
    tokens = ids.cpu().numpy()
    plain = ~np.isin(tokens, list(special))
    if kept.shape == tokens.shape:
        plain &= ~kept
    known = np.unique(tokens[~np.isin(tokens, list(special))])
    if len(known) == 1:
        known = np.array(
            sorted({int(known[0]), next(i for i in range(len(special) + 2) if i not in {*special, *known})})
        )
    if len(known) < 2:
        return ids
    own = tokens[plain]
    cycle = random.permutation(len(own))
    other = np.empty_like(own)
    other[cycle] = own[np.roll(cycle, 1)]
    shift = random.integers(1, len(known), own.shape)
    other = np.where(other == own, known[(np.searchsorted(known, own) + shift) % len(known)], other)
    result = tokens.copy()
    result[plain] = other
    return torch.from_numpy(result).to(ids.device)


def special_ids(config: Any, free: Collection[str] = ()) -> set[int]:
    """All ids that a config gives a meaning, such as padding or the place of an image, but those named in `free`."""
    special: set[int] = set()
    for name, value in vars(config).items():
        if name.endswith(("_token_id", "_token_index")) and name not in free:
            special.update(i for i in (value if isinstance(value, Sequence) else [value]) if isinstance(i, int))
        elif name.endswith("_config") and hasattr(value, "__dict__"):
            special |= special_ids(value, free)
    return special
