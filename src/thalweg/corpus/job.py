"""A corpus job: the options that apply to every text, as plain values that can be sent to another process."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from thalweg.capture.target import TargetLike
from thalweg.corpus.model_sizes import max_batch_tokens, sizes_of
from thalweg.errors import InputError
from thalweg.methods.params import split_options
from thalweg.methods.registry import find_method
from thalweg.models.encode import position_limit
from thalweg.models.subject import Subject

DEFAULT_MAX_TOKENS = 512  # of a text, unless `max_tokens` says otherwise or the model has fewer positions
MAX_BATCH_TOKENS = 2048  # including padding; a longer text is a batch of its own
MAX_TEXT_CHARACTERS = 2**20  # longer texts are not tokenized

CertificateKind = Literal["values", "full"]
TextKind = Literal["keep", "hash"]


@dataclass(frozen=True)
class Job:
    """What to compute for every text.

    `methods` may carry options, as in alti:measure=l2, and `top` sources are kept of each. A batch has at most `batch`
    texts and, including padding, `batch_tokens` tokens; a longer text is a batch of its own. Rows keep the `text` and
    the shares of its words, or only its hash.
    """

    methods: tuple[str, ...]
    target: int | str | tuple[int, ...] | None
    certificate: CertificateKind | None
    maps: bool
    top: int
    max_tokens: int
    batch: int
    batch_tokens: int
    text: TextKind = "keep"

    def identity(self) -> dict[str, Any]:
        """The options as JSON can hold them."""
        target = list(self.target) if isinstance(self.target, tuple) else self.target
        return {**asdict(self), "methods": list(self.methods), "target": target}


def make_job(
    subject: Subject,
    methods: Sequence[str],
    target: TargetLike = None,
    *,
    certificate: CertificateKind | None = "values",
    maps: bool = False,
    top: int = 5,
    max_tokens: int | None = None,
    batch: int = 32,
    text: TextKind = "keep",
) -> Job:
    """Check the options against the model and the registry of methods before any text is read."""
    if subject.tokenizer is None:
        raise InputError("a file of texts needs a tokenizer, but the model was loaded without one")
    check_work(methods, certificate, text)
    check_positive(top=top, batch=batch, max_tokens=max_tokens)
    limit = position_limit(subject.model)
    if max_tokens is not None and limit is not None and max_tokens > limit:
        raise InputError(f"max_tokens must be at most {limit}, the number of positions of the model, got {max_tokens}")
    return Job(
        methods=tuple(methods),
        target=target if target is None or isinstance(target, int | str) else tuple(target),
        certificate=certificate,
        maps=maps,
        top=top,
        max_tokens=max_tokens or min(DEFAULT_MAX_TOKENS, limit or DEFAULT_MAX_TOKENS),
        batch=batch,
        batch_tokens=max_batch_tokens(sizes_of(subject), MAX_BATCH_TOKENS),
        text=text,
    )


def check_work(methods: Sequence[str], certificate: str | None, text: str) -> None:
    """Raise unless these are different methods, with options that they have, or a kind of certificate, or both."""
    if isinstance(methods, str) or len(set(methods)) < len(methods):
        raise InputError(f"methods must be a list of different methods, got {methods!r}")
    if certificate is not None and certificate not in get_args(CertificateKind):
        kinds = ", ".join(map(repr, get_args(CertificateKind)))
        raise InputError(f"certificate must be one of {kinds} or None, got {certificate!r}")
    if text not in get_args(TextKind):
        raise InputError(f"text must be one of {', '.join(map(repr, get_args(TextKind)))}, got {text!r}")
    if not methods and certificate is None:
        raise InputError("nothing to compute: choose at least one method or a certificate")
    for name in methods:
        method, options = split_options(name)
        find_method(method).make_params(options)


def check_positive(**values: int | None) -> None:
    """Raise for a value below 1; None stands for a default."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
