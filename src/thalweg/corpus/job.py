"""What is asked of every text of a corpus: plain values, which another process can be sent."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from thalweg.capture.target import TargetLike
from thalweg.corpus.memory import sizes_of, tokens_at_once
from thalweg.errors import InputError
from thalweg.methods.params import split_options
from thalweg.methods.registry import find_method
from thalweg.models.encode import position_limit
from thalweg.models.load import Subject

LONGEST = 512  # tokens of a text, unless more are asked for or the model has fewer positions
TOKENS_AT_ONCE = 2048  # of a batch at most, padding included; a longer text goes alone
CHARACTERS = 2**20  # of a text; more are not even given to the tokenizer

Certified = Literal["values", "full"]


@dataclass(frozen=True)
class Job:
    """`methods` with their options as in alti:measure=l2; `top` sources are kept of each.

    `batch` texts go through the model at once, and `tokens` at most, padding included; a longer text goes alone.
    """

    methods: tuple[str, ...]
    target: int | str | tuple[int, ...] | None
    certificate: Certified | None
    maps: bool
    top: int
    max_tokens: int
    batch: int
    tokens: int

    def asked(self) -> dict[str, Any]:
        """As plain values, for the header of a folder."""
        target = list(self.target) if isinstance(self.target, tuple) else self.target
        return {
            **asdict(self),
            "methods": list(self.methods),
            "target": target,
        }


def make_job(
    subject: Subject,
    methods: Sequence[str],
    target: TargetLike = None,
    *,
    certificate: Certified | None = "values",
    maps: bool = False,
    top: int = 5,
    max_tokens: int | None = None,
    batch: int = 32,
) -> Job:
    """A job for this model, with all that could be wrong with it said before the work begins."""
    if subject.tokenizer is None:
        raise InputError("a corpus is a file of texts; the model was loaded without a tokenizer")
    if isinstance(methods, str) or len(set(methods)) < len(methods):
        raise InputError(f"expected a list of different methods; {methods!r} was given")
    if certificate is not None and certificate not in get_args(Certified):
        expected = ", ".join(map(repr, get_args(Certified)))
        raise InputError(f"certificate was given {certificate!r}; expected {expected} or none")
    if not methods and certificate is None:
        raise InputError("no method and no certificate was asked for; choose one or more")
    for name in methods:
        chosen, options = split_options(name)
        find_method(chosen).make_params(options)
    for name, value in (("top", top), ("batch", batch), ("max_tokens", max_tokens)):
        if value is not None and value < 1:
            raise InputError(f"{name} was given {value}; expected 1 or more")
    limit = position_limit(subject.model)
    if max_tokens is not None and limit is not None and max_tokens > limit:
        raise InputError(f"max_tokens was given {max_tokens}, but the model has positions for {limit} only")
    longest = max_tokens or min(LONGEST, limit or LONGEST)
    places = target if target is None or isinstance(target, int | str) else tuple(target)
    tokens = tokens_at_once(sizes_of(subject), TOKENS_AT_ONCE)
    return Job(tuple(methods), places, certificate, maps, top, longest, batch, tokens)
