"""Token identifiability: can the input token be recovered from its hidden state at each layer?

texts → split by sentence → sums from one pass → linear maps → MLPs → rates on the test sentences
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from thalweg.capture.checks import block_checks
from thalweg.capture.record import Capture
from thalweg.digests import text_digest
from thalweg.errors import InputError
from thalweg.files.run_folder import RunFolder, open_run
from thalweg.jsonable import jsonable
from thalweg.models.subject import Subject
from thalweg.probing.learning import MLPS, SUMS, fit_linear, fit_mlps
from thalweg.probing.plan import Candidates, ProbeKey, ProbeKind, ProbePlan, SentenceSplit
from thalweg.probing.result import KIND, Probes, TrainedMap, read_probes, write_probes
from thalweg.probing.search import Metric, Part
from thalweg.probing.states import encode_texts, verified_capture
from thalweg.probing.testing import measure
from thalweg.progress import progress
from thalweg.receipt import Receipt


@torch.inference_mode(False)  # also if the caller disabled gradients
def probe(
    subject: Subject,
    texts: Sequence[str],
    *,
    kinds: Sequence[ProbeKind] = ProbePlan.kinds,
    metrics: Sequence[Metric] = ProbePlan.metrics,
    parts: Sequence[Part] = ProbePlan.parts,
    candidates: Candidates = ProbePlan.candidates,
    to: int | Literal["previous"] = ProbePlan.to,
    seed: int = ProbePlan.seed,
    folder: str | Path | None = None,
) -> Probes:
    """Recover tokens from their hidden states, layer by layer, and measure how often that succeeds.

    A probe maps the state h of a token at layer l to an estimate g(h) of its state x at layer `to`. The token is
    recovered if x is the nearest of all `candidates` to g(h), by cosine or by l2. g is the identity, a linear map or
    an MLP, fitted on other sentences than it is tested on; `parts` restrict its input to the direction ("angle") or
    the length ("norm") of h. A strict hit is the same position, a lenient hit any token with the same id. Special
    tokens are candidates but are not counted. With candidates="vocabulary", a candidate is the output of the model's
    own embedding stage for a word at the token's position.

    Probes show that information is present, not that the model uses it. Rates grow with the capacity of the probe and
    fall with the number of candidates, so compare them with `chance`.

    With a `folder`, the probes are saved there and an interrupted run resumes. (Brunner et al. 2020.)

    >>> import thalweg as tw
    >>> lines = [f"a {word} movie, {n} of ten." for n in "123" for word in ("bad", "fine", "great", "dull")]
    >>> probes = probe(tw.load(), lines, kinds=["identity"])
    >>> probes.curve("identity", "cosine")[0].rate
    1.0
    """
    plan = ProbePlan(kinds, metrics, parts, candidates, to, seed)
    texts = _checked_texts(subject, texts)
    split = SentenceSplit.of(texts, seed)
    capture = verified_capture(subject, split.test[0])
    plan.pairs(len(capture.blocks))  # raises for a layer that the model does not have, before a folder is claimed
    configuration = {**jsonable(asdict(plan)), "texts": text_digest(texts), **subject.identity()}
    duplicates = len(texts) - len(set(texts))
    if folder is None:
        return _fit_and_test(subject, split, plan, capture, configuration, duplicates, None)
    with open_run(Path(folder), KIND, configuration, capture.provenance) as run:
        probes = read_probes(run)
        if probes is None:
            probes = _fit_and_test(subject, split, plan, capture, configuration, duplicates, run)
            write_probes(run, probes)
        run.remove(SUMS, MLPS)
    return probes


def _fit_and_test(
    subject: Subject,
    split: SentenceSplit,
    plan: ProbePlan,
    capture: Capture,
    configuration: dict[str, Any],
    duplicates: int,
    run: RunFolder | None,
) -> Probes:
    """Fit all probes, from the last checkpoint of the run if there is one, and test them."""
    layers = len(capture.blocks)
    keys = plan.keys(layers)
    figures: dict[str, float] = {}
    maps: dict[ProbeKey, TrainedMap] = {}
    if set(plan.kinds) - {"identity"}:
        linear, starts, figures["largest ridge"] = fit_linear(subject, split, plan, layers, run)
        maps |= {key: linear[key] for key in keys if key.kind == "linear"}
        if "mlp" in plan.kinds:
            mlps, epochs = fit_mlps(subject, split, plan, starts, run)
            figures["mlp epochs"] = float(epochs)
            maps |= mlps
    rates, chance, tokens = measure(subject, split, keys, maps, plan.candidates)
    anatomy = subject.anatomy(encode_texts(subject, split.test[:1]))
    assumed = ["special tokens are candidates, but are not counted"]
    if anatomy.states.top:
        assumed.append(anatomy.states.top)
    return Probes(
        rates=rates,
        chance=chance,
        counts={
            "train sentences": len(split.train),
            "validation sentences": len(split.validation),
            "test sentences": len(split.test),
            "test tokens": tokens,
            "duplicate texts": duplicates,
        },
        configuration=configuration,
        receipt=Receipt(block_checks(capture.blocks), figures, tuple(assumed), capture.learnt),
        provenance=capture.provenance,
        maps=maps,
    )


def _checked_texts(subject: Subject, texts: Sequence[str]) -> list[str]:
    """Encode every text on its own, so that an unusable one is reported before the long part of the run."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError("texts must be a list of strings, one sentence each")
    with progress("reading texts") as report:
        for number, text in enumerate(texts, 1):
            try:
                encode_texts(subject, [text])
            except InputError as error:
                raise InputError(f"text {number} of {len(texts)}, {text[:40]!r}: {error}") from error
            report(number, len(texts))
    return list(texts)
