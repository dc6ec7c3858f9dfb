"""Token identifiability: can the input token be recovered from its hidden state at each layer?

texts → split by sentence → sums of one pass → linear maps → MLPs, pass after pass → test sentences → rates
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from thalweg.capture.checks import block_checks
from thalweg.digests import text_digest, weights_digest
from thalweg.errors import InputError
from thalweg.models.load import Subject
from thalweg.probing.learning import learn_linear, learn_mlp
from thalweg.probing.plan import Candidates, Key, Kind, ProbePlan, Split
from thalweg.probing.result import Probes, Trained, result_of
from thalweg.probing.search import Metric, Part
from thalweg.probing.states import encoded_texts, proved
from thalweg.probing.storage import Folder
from thalweg.probing.testing import measure
from thalweg.progress import progress
from thalweg.receipt import Receipt


def probe(
    subject: Subject,
    texts: Sequence[str],
    *,
    kinds: Sequence[Kind] = ("identity", "linear", "mlp"),
    metrics: Sequence[Metric] = ("cosine", "l2"),
    parts: Sequence[Part] = ("whole",),
    candidates: Candidates = "sentence",
    to: int | Literal["previous"] = 0,
    seed: int = 0,
    folder: str | Path | None = None,
) -> Probes:
    """Recover tokens from their hidden states, layer by layer, and say how often that succeeds.

    A probe maps the state h of a token at layer l to an estimate g(h) of its state x at layer `to`; the token is
    recovered if x is the nearest to g(h) among the `candidates`. g is the identity, a linear map or an MLP, fitted
    on other sentences than it is tested on; nearest is meant by cosine or by l2. `parts` restrict what g is shown
    of h: its direction ("angle") or its length ("norm"). Strict counts a hit at the same position, lenient at any
    token with the same id; special tokens are candidates but are not asked for. In the vocabulary a candidate is a
    word as the model's own embedding stage has it at the token's position.

    Probes say that information is there, not that the model uses it; and a rate grows with what the probe is
    allowed to learn and falls with the number of candidates, so compare it with `chance`.

    With a `folder` a run that was killed goes on where it was. (Brunner et al. 2020.)

    >>> import thalweg as tw
    >>> lines = [f"a {word} movie, {n} of ten." for n in "123" for word in ("bad", "fine", "great", "dull")]
    >>> probes = probe(tw.load(), lines, kinds=["identity"])
    >>> probes.curve("identity", "cosine")[0].rate
    1.0
    """
    plan = ProbePlan(kinds, metrics, parts, candidates, to, seed)
    texts = _checked(subject, texts)
    split = Split.of(texts, seed)
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(plan).items()}
    configuration = {**chosen, "texts": text_digest(texts), "weights": weights_digest(subject.model)}
    store = Folder(None if folder is None else Path(folder), configuration)
    if done := store.read("probes"):
        return result_of(*done, f"{folder}")
    capture = proved(subject, split.test[0])
    layers = len(capture.blocks)
    keys = plan.keys(layers)
    figures: dict[str, float] = {}
    maps: dict[Key, Trained] = {}
    if set(plan.kinds) - {"identity"}:
        linear, starts, figures["largest ridge"] = learn_linear(subject, split, plan, layers, store)
        maps |= {key: linear[key] for key in keys if key.kind == "linear"}
        if "mlp" in plan.kinds:
            found, epochs = learn_mlp(subject, split, plan, starts, store)
            figures["mlp epochs"] = float(epochs)
            maps |= found
    rates, chance, tokens = measure(subject, split, keys, maps, candidates)
    anatomy = subject.anatomy(encoded_texts(subject, split.test[:1]))
    assumed = ["special tokens are candidates, but are not asked for"]
    if anatomy.states.top:
        assumed.append(anatomy.states.top)
    result = Probes(
        rates=rates,
        chance=chance,
        counts={
            "train sentences": len(split.train),
            "validation sentences": len(split.validation),
            "test sentences": len(split.test),
            "test tokens": tokens,
            "repeated texts left out": len(texts) - len(set(texts)),
        },
        configuration=configuration,
        receipt=Receipt(block_checks(capture.blocks), figures, tuple(assumed)),
        provenance=capture.provenance,
        maps=maps,
    )
    if folder is not None:
        result.save(folder)
        store.drop_unfinished()
    return result


def _checked(subject: Subject, texts: Sequence[str]) -> list[str]:
    """Every text on its own, so that a bad one is named before hours of work."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("probe takes a list of texts, one sentence each")
    with progress("reading texts") as report:
        for number, text in enumerate(texts, 1):
            try:
                encoded_texts(subject, [text])
            except InputError as error:
                raise InputError(f"text {number} of {len(texts)}, {text[:40]!r}: {error}") from error
            report(number, len(texts))
    return list(texts)
