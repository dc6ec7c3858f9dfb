"""Rankers: the methods and baselines of a bench by the name a user writes, and the inverse of each.

`attention_rollout:residual=measured` is a method with an option; `inverse_alti` has the scores of alti, negated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from thalweg.attribution.explain import explain
from thalweg.errors import InputError, ProofError, unknown_name
from thalweg.faithfulness.case import Case, Ranking
from thalweg.faithfulness.registry import Baseline, list_baselines
from thalweg.methods.params import split_options
from thalweg.methods.registry import Method, list_methods

INVERSE = "inverse_"
ALL = "all"


def is_inverse(name: str) -> bool:
    """Whether a ranker of this name reverses another."""
    return name.startswith(INVERSE)


def inverse_name(name: str) -> str:
    return f"{INVERSE}{name}"


def base_name(name: str) -> str:
    """The method or baseline behind a ranker's name, without inverse and options.

    >>> base_name("inverse_occlusion:window=1")
    'occlusion'
    """
    return name.removeprefix(INVERSE).partition(":")[0]


def is_floor(name: str) -> bool:
    """Whether a ranker's scores depend on neither text nor model, such as random scores."""
    entry = list_baselines().get(base_name(name))
    return entry is not None and entry.is_floor


@dataclass(frozen=True)
class Ranker:
    """A method or baseline with the parameters that the user set; `inverse` negates its scores."""

    name: str
    method: Method | Baseline
    params: Mapping[str, Any]
    inverse: bool = False

    def inverted(self) -> "Ranker":
        return replace(self, name=inverse_name(self.name), inverse=True)

    def all_params(self) -> dict[str, Any]:
        """Every parameter with its value, defaults included."""
        return asdict(self.method.make_params(self.params))

    def __call__(self, case: Case) -> Ranking:
        """Rank the tokens of a case. A ranking and its inverse are computed once."""
        key = ("scores", self.name.removeprefix(INVERSE))
        if key not in case.cache:
            case.cache[key] = self._scores(case)
        scores, figures = case.cache[key]
        return Ranking(case, -scores if self.inverse else scores, self, figures.get("sum error"))

    def _scores(self, case: Case) -> tuple[Float[np.ndarray, " token"], Mapping[str, float]]:
        if isinstance(self.method, Baseline):
            maps = self.method.function(case, self.method.make_params(self.params))
            scores, figures = maps.scores.detach().cpu().double().numpy(), maps.figures
        else:
            params = {**_logit_params(self.method, case), **self.params}
            attribution = explain(case.subject, case.capture, self.method.name, "prediction", **params)
            scores, figures = attribution.scores, attribution.receipt.figures
        expected = (1, len(case.original))
        if scores.shape != expected or not np.isfinite(scores).all():
            raise ProofError(f"{self.name} must return finite scores of shape {expected}, got shape {scores.shape}")
        return scores[0], figures


def _logit_params(method: Method, case: Case) -> dict[str, int]:
    """The output and foil to explain, if the method takes them."""
    if not method.traits.explains_logit:
        return {}
    accepted = {option.name for option in method.options}
    return {name: value for name, value in case.logit_params().items() if name in accepted}


def find_rankers(names: Sequence[str], inverses: bool = False) -> tuple[Ranker, ...]:
    """Look rankers up by name, "all" for every one; with `inverses` each is followed by its inverse."""
    if isinstance(names, str):
        raise InputError(f"methods must be a list of names, got {names!r}")
    everything = (*list_methods(), *list_baselines())
    expanded = [name for entry in names for name in (everything if entry == ALL else (entry,))]
    rankers = {name: _find_ranker(name) for name in dict.fromkeys(expanded)}
    if inverses:
        both = [pair for ranker in rankers.values() for pair in _with_inverse(ranker)]
        rankers = {ranker.name: ranker for ranker in both}
    if not rankers:
        raise InputError("methods must name at least one method, or all")
    return tuple(rankers.values())


def _with_inverse(ranker: Ranker) -> tuple[Ranker, ...]:
    return (ranker,) if ranker.inverse else (ranker, ranker.inverted())


def _find_ranker(name: str) -> Ranker:
    if is_inverse(name):
        plain = name.removeprefix(INVERSE)
        if is_inverse(plain):
            raise InputError(f"{name!r} inverts a ranking twice; use {plain.removeprefix(INVERSE)!r}")
        return _find_ranker(plain).inverted()
    base, options = split_options(name)
    known: dict[str, Method | Baseline] = {**list_methods(), **list_baselines()}
    if base not in known:
        raise unknown_name("method", base, [*known, ALL])
    params = known[base].make_params(options)
    return Ranker(name, known[base], {option: getattr(params, option) for option in options})
