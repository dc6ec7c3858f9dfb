"""Probes from texts to rates: what must hold of any model, and what a folder keeps."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import thalweg as tw
from tests.probing.corpus import sentences
from tests.tiny import SENTENCE, tiny_subject
from thalweg.probing import learning, mlp
from thalweg.probing.linear import Moments, fit, target
from thalweg.probing.plan import Key, Split, batches
from thalweg.probing.probe import probe
from thalweg.probing.recover import in_sentence
from thalweg.probing.result import Probes
from thalweg.probing.states import read_states
from thalweg.probing.storage import Folder

TEXTS = sentences(60)


@pytest.fixture(scope="module")
def subject() -> tw.Subject:
    return tiny_subject("bert")


@pytest.fixture(scope="module")
def probes(subject: tw.Subject) -> Probes:
    return probe(subject, TEXTS, parts=("whole", "angle", "norm"))


def same(one: Probes, other: Probes) -> bool:
    tensors = zip(one.maps.values(), other.maps.values(), strict=True)
    equal = all(torch.equal(a.leave, b.leave) for a, b in tensors if isinstance(a, mlp.MlpMap))  # type: ignore
    return equal and one.rates == other.rates


def test_identity_when_asked_at_layer_0_then_is_always_right(probes: Probes) -> None:
    for metric in ("cosine", "l2"):
        for part in ("whole", "angle"):
            assert probes.curve("identity", metric, part)[0].rate == 1.0


def test_rates_when_measured_then_lenient_is_not_less_than_strict_and_intervals_hold_them(probes: Probes) -> None:
    assert len(probes.rates) == 4 * 3 * 2 * 3 * 2  # layers, kinds, metrics, parts, matches
    for (key, way), rate in probes.rates.items():
        assert 0 <= rate.low <= rate.rate <= rate.high <= 1
        assert probes.rates[key, "lenient"].rate >= probes.rates[key, "strict"].rate or way == "lenient"
    assert probes.chance["lenient"] >= probes.chance["strict"] > 0


def test_cosine_when_only_the_angle_is_shown_then_is_what_it_was_for_identity(probes: Probes) -> None:
    assert probes.curve("identity", "cosine") == probes.curve("identity", "cosine", "angle")
    for rate in probes.curve("identity", "cosine", "norm").values():
        assert rate.rate == pytest.approx(probes.chance["strict"])


def test_states_when_rotated_then_linear_recovers_them_and_identity_does_not(subject: tw.Subject) -> None:
    states = read_states(subject, TEXTS[:10])
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0))).Q
    turned = replace(states, layers=torch.stack([states.layers[0], states.layers[0] @ turn]))
    identity, linear = Key(1, 0, "identity", "cosine", "whole"), Key(1, 0, "linear", "cosine", "whole")
    assert float(in_sentence(identity, turned.layers[1], turned)[0].hits.mean()) < 0.5
    assert float(in_sentence(linear, turned.layers[1] @ turn.T, turned)[0].hits.mean()) == 1.0


def test_split_when_texts_are_given_twice_then_none_is_in_two_sets() -> None:
    split = Split.of(TEXTS + TEXTS[::-1], seed=3)
    sets = [set(split.train), set(split.validation), set(split.test)]
    assert sum(map(len, sets)) == len(set().union(*sets)) == len(TEXTS)
    assert len(split.test) == 9
    assert Split.of(TEXTS, 3) != Split.of(TEXTS, 4)


def test_batches_when_shuffled_then_hold_every_text_once() -> None:
    groups = batches(TEXTS, "0/1")
    assert sorted(text for group in groups for text in group) == sorted(TEXTS)
    assert groups == batches(TEXTS, "0/1")


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_decoder_when_probed_then_has_rates_of_every_layer(family: str) -> None:
    texts = [text[:30] for text in sentences(30)]
    found = probe(tiny_subject(family), texts, kinds=("identity", "linear"), metrics=("cosine",))
    lenient = found.curve("identity", "cosine", match="lenient")
    assert list(lenient) == [0, 1, 2, 3]
    assert lenient[0].rate == pytest.approx(1.0)
    strict = found.curve("identity", "cosine")[0].rate
    assert strict < 1 if family == "llama" else strict == 1  # without positions equal letters enter as equal


def test_vocabulary_when_searched_then_identity_at_layer_0_is_right_and_both_matches_agree(subject: tw.Subject) -> None:
    found = probe(subject, TEXTS[:30], kinds=("identity", "linear"), candidates="vocabulary")
    assert found.curve("identity", "cosine")[0].rate == 1.0
    assert found.curve("linear", "l2") == found.curve("linear", "l2", match="lenient")
    assert found.chance["strict"] == pytest.approx(1 / 99)
    asked = found.apply(subject, SENTENCE, "identity")
    assert asked.taken_for[0] == tuple(asked.tokens.pieces)
    assert asked.hits[0].min() == 1.0


def test_vocabulary_when_searched_then_finds_what_a_search_by_hand_finds(
    subject: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thalweg.probing import states as module
    from thalweg.probing.recover import in_vocabulary

    monkeypatch.setattr(module, "CANDIDATE_ELEMENTS", 10_000)  # several pieces
    states = read_states(subject, TEXTS[:3])
    key = Key(3, 0, "identity", "l2", "whole")
    found = in_vocabulary(subject, [key], {}, states)[key]
    words = torch.cat([candidates for _, candidates in module.words_at_positions(subject, states)])
    for text in states.texts:
        for place in range(text.stop - text.start):
            away = (words[:, place] - states.layers[3][text][place]).norm(dim=1)
            assert int(found.first[text][place]) == int(away.argmin())


def test_previous_layer_when_asked_for_then_every_layer_is_compared_with_the_one_below(subject: tw.Subject) -> None:
    found = probe(subject, TEXTS[:30], kinds=("identity", "linear"), metrics=("l2",), to="previous")
    assert [(key.layer, key.to) for key, way in found.rates if key.kind == "linear" and way == "strict"] == [
        (1, 0), (2, 1), (3, 2),
    ]  # fmt: skip
    later = probe(subject, TEXTS[:30], kinds=("identity",), to=2)
    assert list(later.curve("identity", "l2")) == [2, 3]
    assert later.curve("identity", "l2")[2].rate == 1.0


def test_mlp_when_trained_then_is_no_worse_than_linear_on_validation_and_seeds_repeat(
    subject: tw.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "LONGEST", 4)
    first = probe(subject, TEXTS, kinds=("linear", "mlp"), seed=1)
    assert same(first, probe(subject, TEXTS, kinds=("linear", "mlp"), seed=1))
    assert not same(first, probe(subject, TEXTS, kinds=("linear", "mlp"), seed=2))
    held = read_states(subject, Split.of(TEXTS, 1).validation)
    asked = ~held.special
    for key, mapped in first.maps.items():
        if key.kind == "mlp":
            given, wanted = held.layers[key.layer][asked], held.layers[0][asked]
            linear = first.maps[key._replace(kind="linear")]
            assert loss(key.metric, mapped(given), wanted) <= loss(key.metric, linear(given), wanted) * (1 + 1e-5)


def test_mlp_when_states_are_bent_then_learns_what_a_linear_map_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "RATE", 1e-2)
    wanted = torch.randn(8000, 16, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(8000, dtype=torch.int64)
    layers = torch.stack([wanted, wanted**3])
    states = replace(read_states(tiny_subject(), TEXTS[:1]), layers=layers, ids=nothing, special=nothing.bool())
    keys = [Key(1, 0, "mlp", metric, "whole") for metric in ("cosine", "l2")]
    moments = Moments.empty(16, 2, 16)
    moments.add(layers[1], torch.stack([target(key.metric, wanted) for key in keys]))
    mean, spread = (part.float() for part in moments.spread())
    sizes = (moments.size / moments.count).tolist()
    fitted = zip(fit(moments, moments), sizes, strict=True)
    learner = mlp.Learner(keys, [mlp.Start(linear, mean, spread, size) for (linear, _), size in fitted], seed=0)
    before = learner.total(states) / 8000
    mlp.train([learner], lambda _: iter([states]), lambda: iter([states]), 0, lambda _: None)
    assert bool((learner.loss < 0.95 * before).all())


def loss(metric: str, made: torch.Tensor, wanted: torch.Tensor) -> float:
    cosine = (1 - torch.cosine_similarity(made, wanted, dim=-1)).sum()
    return float(cosine if metric == "cosine" else (made - wanted).square().sum())


@pytest.mark.parametrize("killed_after", [0, 1, 3])
def test_mlp_when_killed_and_resumed_then_equals_a_run_in_one_go(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    monkeypatch.setattr(mlp, "LONGEST", 4)
    whole = probe(subject, TEXTS, kinds=("linear", "mlp"))
    keep, kept = Folder.keep, []

    def dying(self: Folder, stage: str, *rest: object) -> None:
        keep(self, stage, *rest)  # type: ignore[arg-type]
        kept.append(stage)
        if kept.count("mlp") > killed_after:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "keep", dying)
        with pytest.raises(KeyboardInterrupt):
            probe(subject, TEXTS, kinds=("linear", "mlp"), folder=tmp_path)
    assert same(probe(subject, TEXTS, kinds=("linear", "mlp"), folder=tmp_path), whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["probes.safetensors"]


def test_sums_when_killed_and_resumed_then_equal_a_pass_in_one_go(
    subject: tw.Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "KEPT_EVERY", 1)
    whole = probe(subject, TEXTS, kinds=("linear",))
    calls = []

    def dying(subject: tw.Subject, texts: list[str]) -> object:
        calls.append(texts)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read_states(subject, texts)

    with monkeypatch.context() as patch:
        patch.setattr(learning, "read_states", dying)
        with pytest.raises(KeyboardInterrupt):
            probe(subject, TEXTS, kinds=("linear",), folder=tmp_path)
        found = probe(subject, TEXTS, kinds=("linear",), folder=tmp_path)
    assert len(calls) == 2 + 2  # 42 sentences to learn from are two batches, then one of validation: one was kept
    assert found.rates == whole.rates
    for key, linear in whole.maps.items():
        assert torch.equal(linear(torch.eye(32)), found.maps[key](torch.eye(32)))


def test_probes_when_saved_and_loaded_then_say_the_same_of_a_text(
    subject: tw.Subject, probes: Probes, tmp_path: Path
) -> None:
    probes.save(tmp_path)
    loaded = Probes.load(tmp_path)
    assert loaded.to_dict() == probes.to_dict()
    for kind in ("identity", "linear", "mlp"):
        one, other = (p.apply(subject, SENTENCE, kind, "cosine", "whole") for p in (probes, loaded))
        np.testing.assert_array_equal(one.hits, other.hits)
        assert one.taken_for == other.taken_for
        assert one.hits.shape == (4, len(one.tokens))
    assert probes.apply(subject, SENTENCE, "identity", "cosine", "whole").hits[0].min() == 1.0
    assert probes.__rich__() is not None
    assert loaded.apply(subject, SENTENCE).__rich__() is not None


def test_probes_when_applied_to_another_model_then_are_refused(probes: Probes) -> None:
    with pytest.raises(tw.InputError, match="other weights"):
        probes.apply(tiny_subject("roberta"), SENTENCE)


def test_folder_when_it_holds_another_run_then_is_refused_and_the_same_one_is_taken(
    subject: tw.Subject, tmp_path: Path
) -> None:
    first = probe(subject, TEXTS, kinds=("identity",), folder=tmp_path)
    assert probe(subject, TEXTS, kinds=("identity",), folder=tmp_path).to_dict() == first.to_dict()
    with pytest.raises(tw.InputError, match="another choice of seed"):
        probe(subject, TEXTS, kinds=("identity",), seed=5, folder=tmp_path)
    with pytest.raises(tw.InputError, match="another choice of texts"):
        probe(subject, TEXTS[1:], kinds=("identity",), folder=tmp_path)


def test_folder_when_its_file_is_junk_then_is_refused(subject: tw.Subject, tmp_path: Path) -> None:
    (tmp_path / "probes.safetensors").write_bytes(b"junk")
    with pytest.raises(tw.InputError, match="not a run of probes"):
        probe(subject, TEXTS, kinds=("identity",), folder=tmp_path)
    with pytest.raises(tw.InputError, match="not a run of probes"):
        Probes.load(tmp_path)
    with pytest.raises(tw.InputError, match="no finished probes"):
        Probes.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kinds": ()}, "kinds"),
        ({"kinds": ("linear", "linear")}, "each once"),
        ({"metrics": ("euclid",)}, "cosine, l2"),
        ({"parts": ("phase",)}, "whole, angle, norm"),
        ({"candidates": "world"}, "vocabulary"),
        ({"to": -1}, "previous"),
        ({"to": 9}, "0 to 3"),
        ({"to": 1, "candidates": "vocabulary"}, "layer 0 only"),
        ({"seed": 0.5}, "whole number"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_choices_when_wrong_then_are_refused_in_words(subject: tw.Subject, wrong: dict, said: str) -> None:
    with pytest.raises(tw.InputError, match=said):
        probe(subject, TEXTS, **wrong)


def test_texts_when_too_few_or_empty_then_are_refused_by_name(subject: tw.Subject) -> None:
    with pytest.raises(tw.InputError, match="10 or more"):
        probe(subject, TEXTS[:1] * 50)
    with pytest.raises(tw.InputError, match="text 3 of 60"):
        probe(subject, [*TEXTS[:2], "  ", *TEXTS[3:]])
    with pytest.raises(tw.InputError, match="list of texts"):
        probe(subject, SENTENCE)
