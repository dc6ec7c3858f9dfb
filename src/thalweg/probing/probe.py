"""Token identifiability: can the input token be recovered from its hidden state at each layer?

texts → split by sentence → sums of one pass → linear maps → MLPs, pass after pass → test sentences → rates
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from thalweg.errors import InputError
from thalweg.models.load import Subject
from thalweg.probing.linear import LinearMap, Moments, fit, target
from thalweg.probing.mlp import LONGEST, Learner, Start, train
from thalweg.probing.plan import BATCH, Candidates, Key, Kind, Plan, Split, batches
from thalweg.probing.rates import Tally
from thalweg.probing.recover import Map, search
from thalweg.probing.result import Checked, Match, Probes, Trained, result_of
from thalweg.probing.search import Metric, Part, take
from thalweg.probing.states import States, check_captured, encoded_texts, read_states
from thalweg.probing.storage import Folder, digest, fingerprint
from thalweg.progress import progress

KEPT_EVERY = 100  # batches between two files of sums

Sums = dict[tuple[int, int, Part], tuple[Moments, Moments]]  # (layer, to, part) -> of training and of validation


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

    With a `folder` a run that was killed goes on where it was. Bruner et al. 2020, section 3.

    >>> import thalweg as tw
    >>> lines = [f"a {word} movie, {n} of ten." for n in "123" for word in ("bad", "fine", "great", "dull")]
    >>> probes = probe(tw.load(), lines, kinds=["identity"])
    >>> probes.curve("identity", "cosine")[0].rate
    1.0
    """
    plan = Plan(tuple(kinds), tuple(metrics), tuple(parts), candidates, to, seed)
    texts = _checked(subject, texts)
    split = Split.of(texts, seed)
    weights = fingerprint(subject.model)
    configuration = {**_plain(asdict(plan)), "texts": digest(texts), "weights": weights}
    store = Folder(None if folder is None else Path(folder), configuration)
    if done := store.read("probes"):
        return result_of(*done, f"{folder}")
    parity, sum_of_parts, allowed = check_captured(subject, split.test[0])
    keys = plan.keys(len(parity))
    figures: dict[str, float] = {}
    maps: dict[Key, Trained] = {}
    if set(kinds) - {"identity"}:
        linear, starts, figures["largest ridge"] = _fit_linear(subject, split, plan, len(parity), store)
        maps |= {key: linear[key] for key in keys if key.kind == "linear"}
        if "mlp" in kinds:
            found, figures["mlp epochs"] = _fit_mlp(subject, split, plan, starts, store)
            maps |= found
    rates, chance, tokens = _test(subject, split, keys, maps, candidates)
    anatomy = subject.anatomy(encoded_texts(subject, split.test[:1]))
    assumed = ["special tokens are candidates, but are not asked for"]
    if anatomy.top is None:
        assumed.append("where the last layer ends was not found: its state is its attention block's output")
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
        receipt=Checked(tuple(parity), tuple(sum_of_parts), allowed, figures, tuple(assumed)),
        provenance=subject.capture(split.test[0]).provenance,
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
    for number, text in enumerate(texts, 1):
        try:
            encoded_texts(subject, [text])
        except InputError as error:
            raise InputError(f"text {number} of {len(texts)}, {text[:40]!r}: {error}") from error
    return list(texts)


def _plain(choices: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in choices.items()}


def _read(subject: Subject, texts: Sequence[str], seed: object = None) -> Iterator[States]:
    """The states of the texts, batch by batch; in an order of its own for every seed."""
    if seed is not None:
        texts = random.Random(str(seed)).sample(texts, len(texts))
    for some in batches(texts):
        yield read_states(subject, some)


def _fit_linear(
    subject: Subject, split: Split, plan: Plan, layers: int, store: Folder
) -> tuple[dict[Key, LinearMap], dict[Key, Start], float]:
    """Linear maps, what MLPs begin with, and the strongest ridge that was chosen."""
    maps: dict[Key, LinearMap] = {}
    starts: dict[Key, Start] = {}
    strongest = 0.0
    for (layer, to, part), (training, validation) in _sums(subject, split, plan, layers, store).items():
        mean, spread = training.spread()
        size = _mean_square(training, plan.metrics)
        for metric, (linear, strength) in zip(plan.metrics, fit(training, validation), strict=True):
            maps[Key(layer, to, "linear", metric, part)] = linear
            floor = float(spread.max()) * 1e-6 + torch.finfo(torch.float32).tiny
            start = Start(linear, mean.float(), spread.clamp_min(floor).float(), size)
            starts[Key(layer, to, "mlp", metric, part)] = start
            strongest = max(strongest, strength)
    return maps, starts, strongest


def _mean_square(training: Moments, metrics: Sequence[Metric]) -> float:
    """The mean ‖x‖² of the targets that l2 is measured against; cosine has no need of it."""
    return float(training.size[list(metrics).index("l2")]) / training.count if "l2" in metrics else 1.0


def _sums(subject: Subject, split: Split, plan: Plan, layers: int, store: Folder) -> Sums:
    """One pass over what may be learnt from; every hundred batches the sums are kept."""
    triples = [(layer, to, part) for part in plan.parts for layer, to in plan.pairs(layers)]
    kept, done = store.read("statistics"), 0
    sums: Sums = {}
    if kept is not None:
        done = kept[1]["batches"]
        for number, triple in enumerate(triples):
            pair = (
                Moments(*(kept[0][f"{number}.{half}.{name}"] for name in Moments.__annotations__)) for half in (0, 1)
            )
            sums[triple] = (next(pair), next(pair))
    groups = [(0, some) for some in batches(split.train)] + [(1, some) for some in batches(split.validation)]
    with progress("sums for linear maps") as report:
        for number, (half, some) in enumerate(groups[done:], done + 1):
            states = read_states(subject, some)
            for triple in triples:
                layer, to, part = triple
                given = take(part, states.layers[layer][~states.special])
                wanted = states.layers[to][~states.special]
                if triple not in sums:
                    shape = given.shape[1], len(plan.metrics), wanted.shape[1]
                    sums[triple] = (Moments.empty(*shape), Moments.empty(*shape))
                sums[triple][half].add(given, torch.stack([target(metric, wanted) for metric in plan.metrics]))
            report(number, len(groups))
            if number % KEPT_EVERY == 0 or number == len(groups):
                store.keep("statistics", _named(triples, sums), {"batches": number})
    return sums


def _named(triples: Sequence[tuple[int, int, Part]], sums: Sums) -> dict[str, Tensor]:
    return {
        f"{number}.{half}.{name}": tensor
        for number, triple in enumerate(triples)
        for half in (0, 1)
        for name, tensor in vars(sums[triple][half]).items()
    }


def _fit_mlp(
    subject: Subject, split: Split, plan: Plan, starts: Mapping[Key, Start], store: Folder
) -> tuple[Mapping[Key, Trained], int]:
    """MLPs of all layers at once, and the number of passes that they took."""
    learners = {}
    for number, part in enumerate(plan.parts):
        chosen = [key for key in starts if key.part == part]
        learners[part] = Learner(chosen, [starts[key] for key in chosen], plan.seed + number)
    epoch = 0
    if kept := store.read("mlp"):
        epoch = kept[1]["epoch"]
        for part, learner in learners.items():
            learner.restore({n.removeprefix(f"{part}."): t for n, t in kept[0].items() if n.startswith(f"{part}.")})

    with progress("training MLPs") as report:
        per_epoch = -(-len(split.train) // BATCH)

        def training(epoch: int) -> Iterator[States]:
            for number, states in enumerate(_read(subject, split.train, f"{plan.seed}/{epoch}")):
                yield states
                report((epoch - 1) * per_epoch + number + 1, LONGEST * per_epoch)

        def keep(epoch: int) -> None:
            state = {f"{part}.{name}": t for part, one in learners.items() for name, t in one.state().items()}
            store.keep("mlp", state, {"epoch": epoch})

        validation = lambda: _read(subject, split.validation)  # noqa: E731
        epochs = train(list(learners.values()), training, validation, epoch, keep)
    return dict(chain.from_iterable(one.maps().items() for one in learners.values())), epochs


def _test(
    subject: Subject, split: Split, keys: Sequence[Key], maps: Mapping[Key, Map], candidates: Candidates
) -> tuple[dict[tuple[Key, Match], Any], dict[Match, float], int]:
    """Rates on the test sentences, the chance of a hit by drawing lots, and how many tokens were asked for."""
    ways: tuple[Match, Match] = ("strict", "lenient")
    tallies = {(key, way): Tally() for key in keys for way in ways}
    chance = {way: Tally() for way in ways}
    with progress("testing") as report:
        for number, states in enumerate(_read(subject, split.test)):
            found = search(subject, keys, maps, states, candidates)
            lots = _lots(subject, states, candidates)
            for text in states.texts:
                asked = ~states.special[text]
                for way, lot in zip(ways, lots, strict=True):
                    chance[way].add(lot[text][asked])
                for key in keys:
                    for way, nearest in zip(ways, found[key], strict=True):
                        tallies[key, way].add(nearest.hits[text][asked])
            report((number + 1) * BATCH, len(split.test))
    rates = {which: tally.rate() for which, tally in tallies.items()}
    means = {way: tally.rate().rate for way, tally in chance.items()}
    return rates, means, int(chance["strict"].tokens)


def _lots(subject: Subject, states: States, candidates: Candidates) -> tuple[Tensor, Tensor]:
    """Of each token the share of candidates that would be right: one of them, or those with its id."""
    if candidates == "vocabulary":
        even = torch.full(states.ids.shape, 1 / subject.model.get_input_embeddings().num_embeddings)
        return even, even
    strict, lenient = [], []
    for text in states.texts:
        ids = states.ids[text]
        strict.append(torch.full(ids.shape, 1 / len(ids)))
        lenient.append((ids[:, None] == ids[None]).double().mean(1).float())
    return torch.cat(strict), torch.cat(lenient)
