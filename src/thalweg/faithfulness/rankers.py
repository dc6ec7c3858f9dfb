"""Whatever ranks tokens, by the name a user gives it: the library's methods, baselines, and the inverse of each.

`attention_rollout:residual=measured` is a method with an option, `inverse_alti` the same scores with the other sign.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from thalweg.attribution.explain import explain
from thalweg.errors import InputError, ProofError
from thalweg.faithfulness.case import Case, Ranked
from thalweg.faithfulness.registry import list_baselines
from thalweg.methods.params import options, split_options
from thalweg.methods.registry import Method, list_methods

INVERSE = "inverse_"


@dataclass(frozen=True)
class Ranker:
    """A method or a baseline with its options, and whether its ranking is turned round."""

    name: str
    chosen: Method
    params: Mapping[str, Any]
    baseline: bool
    inverse: bool = False

    def inverted(self) -> "Ranker":
        return replace(self, name=f"{INVERSE}{self.name}", inverse=True)

    def __call__(self, case: Case) -> Ranked:
        """Rank the tokens of a case. A ranking and its inverse are computed once."""
        key = ("scores", self.name.removeprefix(INVERSE))
        if key not in case.memory:
            case.memory[key] = self._scores(case)
        scores, _ = case.memory[key]
        return Ranked(case, -scores if self.inverse else scores, self)

    def sum_error(self, case: Case) -> float | None:
        """How far the scores are from adding up to what they should, where the method promises that."""
        return case.memory["scores", self.name.removeprefix(INVERSE)][1].get("sum error")

    def _scores(self, case: Case) -> tuple[Float[np.ndarray, " token"], Mapping[str, float]]:
        if self.baseline:
            maps = cast(Any, self.chosen.function)(case, self.chosen.params(**self.params))
            scores, figures = maps.scores.detach().cpu().double().numpy(), maps.figures
        else:
            known = {one.name: one for one in options(self.chosen.params)}
            given = {**case.options(known), **self.params}
            found = explain(case.subject, case.capture, self.chosen.name, "prediction", **given)
            scores, figures = found.scores, found.receipt.figures
        if scores.shape != (1, len(case.whole)) or not np.isfinite(scores).all():
            raise ProofError(f"{self.name} gave scores of shape {scores.shape}, or not finite ones")
        return scores[0], figures


def find_rankers(names: Sequence[str], inverses: bool = False) -> tuple[Ranker, ...]:
    """The rankers of these names, "all" for every one; with `inverses` each is followed by its inverse."""
    if isinstance(names, str):
        raise InputError(f"expected a list of methods; {names!r} was given")
    listed = [name for one in names for name in ((*list_methods(), *list_baselines()) if one == "all" else (one,))]
    found = [_ranker(name) for name in dict.fromkeys(listed)]
    if inverses:
        found = [one for each in found for one in ((each,) if each.inverse else (each, each.inverted()))]
        found = list({one.name: one for one in found}.values())
    if not found:
        raise InputError("no method was given; choose one or more, or all")
    return tuple(found)


def _ranker(name: str) -> Ranker:
    if name.startswith(INVERSE):
        turned = _ranker(name.removeprefix(INVERSE))
        if turned.inverse:
            raise InputError(f"{name!r} turns a ranking round twice; give {turned.name.removeprefix(INVERSE)!r}")
        return turned.inverted()
    base, asked = split_options(name)
    known = {**list_methods(), **list_baselines()}
    if base not in known:
        raise InputError(f"unknown method {base!r}; expected one of {', '.join(known)}, or all")
    given = known[base].make_params(asked)
    params = {option: getattr(given, option) for option in asked}
    return Ranker(name, known[base], params, base in list_baselines())
