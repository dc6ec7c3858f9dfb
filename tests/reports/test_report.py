"""What a report keeps and how: numbers in few bytes, the payload, the policy, and what is left out."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.console import Console

import thalweg as tw
from tests.families import BY_NAME
from tests.tiny import SENTENCE, tiny_subject, wordpiece
from thalweg.attribution import packed as budgets
from thalweg.attribution.packed import POOLED
from thalweg.drawing.packed import pack
from thalweg.drawing.page import style_and_script
from thalweg.identifiability.certificate import certify

TEXT = "a gorgeous, witty, seductive movie that never quite manages to make its characters as real as its places."
ROWS = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 20)), elements=st.floats(-1e3, 1e3, width=32))


def read(encoded: str) -> tuple[dict[str, Any], bytes]:
    """The payload as the page reads it."""
    whole = zlib.decompress(base64.b64decode(encoded))
    length = int.from_bytes(whole[:4], "little")
    return json.loads(whole[4 : 4 + length]), whole[4 + length :]


def payload(page: str) -> str:
    """The payload that stands in a page."""
    match = re.search(r'id="payload">([^<]*)</script>', page)
    assert match is not None
    return match[1]


def rows_of(place: dict[str, Any], buffer: bytes) -> np.ndarray:
    def array(at: dict[str, Any]) -> np.ndarray:
        return np.frombuffer(buffer, np.dtype(at["type"]).newbyteorder("<"), at["length"], at["offset"])

    codes = array(place["codes"]).reshape(place["rows"], place["kept"])
    values = codes * array(place["scale"])[:, None].astype(np.float64)
    if place["columns"] is None:
        return values
    full = np.zeros((place["rows"], place["width"]))
    np.put_along_axis(full, array(place["columns"]).reshape(codes.shape).astype(np.int64), values, 1)
    return full


# --- numbers in few bytes ----------------------------------------------------------------------------


@given(ROWS, st.sampled_from([np.uint8, np.uint16]))
def test_rows_when_packed_then_are_half_a_step_away_at_most(rows: np.ndarray, kind: type) -> None:
    found = pack(rows, kind)
    assert found.codes.itemsize == np.dtype(kind).itemsize
    steps = np.iinfo(found.codes.dtype).max
    allowed = np.abs(rows).max(1, keepdims=True) / steps * 0.501 + 1e-30
    assert (np.abs(found.unpacked() - rows) <= allowed).all()


@given(ROWS, st.integers(1, 6))
def test_rows_when_only_the_largest_are_kept_then_the_rest_is_stated(rows: np.ndarray, keep: int) -> None:
    found = pack(rows, np.uint16, keep)
    kept = (found.unpacked() != 0).sum(1)
    assert (kept <= min(keep, rows.shape[1])).all()
    if keep < rows.shape[1]:
        assert found.columns is not None and found.rest is not None
        chosen = np.take_along_axis(rows, found.columns.astype(np.int64), 1)
        left = np.abs(rows).sum(1) - np.abs(chosen).sum(1)
        smallest = np.abs(chosen).min(1)
        assert (left <= smallest * (rows.shape[1] - keep) + 1e-6).all()
        np.testing.assert_allclose(found.rest + chosen.sum(1), rows.sum(1), atol=1e-2)


def test_row_when_all_zero_then_stays_zero() -> None:
    assert not pack(np.zeros((2, 3))).unpacked().any()


# --- what a page carries -----------------------------------------------------------------------------


def test_payload_when_read_back_then_holds_scores_maps_heads_and_receipts(shipped: tw.Subject) -> None:
    report = tw.report(shipped, TEXT, methods=["alti", "attention_rollout", "attention_flow", "decompx"])
    data, buffer = read(payload(report.to_html()))
    assert [one["name"] for one in data["methods"]] == ["alti", "attention_rollout", "attention_flow", "decompx"]
    for one in data["methods"][:3]:
        found = tw.explain(shipped, TEXT, one["name"], "all")
        np.testing.assert_allclose(rows_of(one["scores"], buffer), found.scores, atol=1e-5)
        assert found.per_layer is not None
        layers = rows_of(one["layers"], buffer).reshape(found.per_layer.shape)
        np.testing.assert_allclose(layers, found.per_layer, atol=2.1e-3)
    rollout, flow = data["methods"][1:3]
    assert rollout["layers"]["codes"] == flow["layers"]["codes"]  # the same maps are there once
    assert (rollout["chain"], flow["chain"]) == ("product", "flow")
    signed = tw.explain(shipped, TEXT, "decompx")
    np.testing.assert_allclose(rows_of(data["methods"][3]["scores"], buffer), signed.scores, atol=1e-4)
    assert data["methods"][3]["targets"] == [0] and data["methods"][3]["signed"]
    assert set(data["mixing"]) == {"alti", "attention_rollout", "attention_flow"}
    own = tw.mixing(shipped, TEXT, methods=["alti"]).own["alti"]
    np.testing.assert_allclose(data["mixing"]["alti"]["own"], own, atol=1e-6)
    assert data["certificate"]["counts"] == dict(tw.trust(shipped, TEXT).counts())
    assert {check["name"] for check in data["methods"][0]["receipt"]["checks"]} == {"parity", "sum of parts"}


def test_maps_of_heads_when_packed_then_are_attention_and_its_null_component(shipped: tw.Subject) -> None:
    report = tw.report(shipped, TEXT, methods=["raw_attention"])
    block = shipped.capture(TEXT).blocks[2]
    raw = block.weights().double().numpy()
    kept = tw.explain(shipped, TEXT, "effective_attention", "all", layer=2, head=4, constraint="row_sum").scores
    one = report.heads[2]
    assert one.null is not None
    found = one.weights.unpacked().reshape(raw.shape)
    np.testing.assert_allclose(found, raw, atol=2.1e-3)
    null = one.null.unpacked().reshape(raw.shape)[4]
    np.testing.assert_allclose(null, raw[4] - kept, atol=2.1e-3)


def test_certificate_when_watched_then_is_the_same_and_the_maps_are_shown(shipped: tw.Subject) -> None:
    capture = shipped.capture(TEXT)
    seen: list[tuple[int, float]] = []
    found = certify(capture, watch=lambda layer, weights, used: seen.append((layer, float((weights - used).norm()))))
    assert found.to_dict() == certify(capture).to_dict()
    assert [layer for layer, _ in seen] == [0, 1, 2, 3]
    assert all(size > 0 for _, size in seen)


def test_texts_in_the_payload_when_they_hold_control_characters_then_are_spelled_out() -> None:
    report = tw.report(tiny_subject(), "the \u202e cat", methods=["alti"])
    data, _ = read(payload(report.to_html()))
    assert all(label.isprintable() for label in data["tokens"]["labels"])
    assert not re.search("[\u202e<]", re.sub(r"\\u202e", "", payload(report.to_html())))


def test_words_when_merged_in_the_payload_then_are_those_of_the_result() -> None:
    subject = tiny_subject()
    report = tw.report(subject, "the unhappy man", methods=["alti"], words=True)
    data, buffer = read(payload(report.to_html()))
    words = np.array(data["tokens"]["words"])
    scores = rows_of(data["methods"][0]["scores"], buffer)[0]
    merged = [scores[words == word].sum() for word in range(words.max() + 1)]
    wanted = tw.explain(subject, "the unhappy man", "alti").words()
    assert data["tokens"]["wordLabels"] == list(wanted.sources.pieces)
    np.testing.assert_allclose(merged, wanted.scores[0], atol=1e-4)
    assert data["tokens"]["glued"] == [False, False, False, True, False, False]
    assert data["openWords"]


# --- the page ------------------------------------------------------------------------------------------


def test_page_when_written_then_its_policy_names_its_own_style_and_script(shipped: tw.Subject) -> None:
    text = tw.explain(shipped, TEXT).to_html()
    policy = html.unescape(re.search(r'Policy" content="([^"]*)"', text).group(1))  # pyright: ignore
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)  # pyright: ignore[reportOptionalMemberAccess]
    script = re.search(r"<script>(.*?)</script>", text, re.S).group(1)  # pyright: ignore[reportOptionalMemberAccess]
    for kind, inside in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "innerHTML" not in script and "eval(" not in script


def test_scripts_when_joined_then_all_files_are_in(shipped: tw.Subject) -> None:
    from importlib.resources import files

    _, script = style_and_script()
    for file in (files("thalweg.views") / "html").iterdir():
        if file.name.endswith(".js"):
            assert file.read_text(encoding="utf-8") in script


def test_results_when_shown_in_a_notebook_then_stand_in_a_frame_of_their_own(shipped: tw.Subject) -> None:
    both = tw.compare(shipped, TEXT, ["alti", "raw_attention"])
    results = (both, both.attributions[0], tw.trust(shipped, TEXT), tw.report(shipped, TEXT, ["alti"]))
    for result in results:
        shown = result._repr_html_()
        assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
        inside = html.unescape(re.search(r'srcdoc="([^"]*)"', shown).group(1))  # pyright: ignore
        assert inside == result.to_html()


def test_page_when_saved_then_is_what_was_shown(shipped: tw.Subject, tmp_path: Any) -> None:
    report = tw.report(shipped, TEXT, ["alti"])
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.to_html()


# --- what is asked for and left out -------------------------------------------------------------------


def test_report_when_the_prediction_is_pooled_then_has_a_target_for_all_positions() -> None:
    family = next(one for one in ("xlnet", "bart_classifier", "vit", "identifiable") if one in BY_NAME)
    made = BY_NAME[family]
    subject = tw.load(made.build())
    capture = subject.capture(made.inputs(1, 8))
    assert not isinstance(capture, list)
    report = tw.report(subject, capture, ["alti"])
    pooled = len(capture.readout) > 1
    assert (report.target == (POOLED,)) == pooled
    assert (POOLED in report.explained[0].targets) == pooled


def test_report_when_text_is_long_then_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = tiny_subject()
    monkeypatch.setattr("thalweg.reports.report.CERTIFIED_TOKENS", 5)
    monkeypatch.setattr("thalweg.reports.report.MIXING_TOKENS", 5)
    monkeypatch.setattr("thalweg.reports.report.HEAD_CELLS", 12 * 16**2 // 4)
    monkeypatch.setitem(__import__("thalweg.reports.report", fromlist=["x"]).EVERY_TARGET, "attention_flow", 5)
    monkeypatch.setattr(budgets, "LINK_BYTES", 400)
    monkeypatch.setattr(budgets, "SCORE_BYTES", 100)
    words = " ".join([SENTENCE] * 2)
    report = tw.report(subject, words, ["alti", "attention_flow"])
    said = "\n".join(report.left_out)
    for part in ("links of alti beyond", "targets of attention_flow", "mixing", "certificate", "a cell stands for"):
        assert part in said
    assert report.certificate is None and report.mixing is None
    assert report.explained[1].targets == report.target
    full = tw.explain(subject, words, "alti", "all").scores
    kept = report.explained[0].scores.unpacked()
    places = kept != 0
    np.testing.assert_allclose(kept[places], full[places], atol=1e-4)


def test_report_when_a_method_cannot_explain_the_model_then_says_so_unless_it_was_asked_for() -> None:
    made = BY_NAME["t5"]
    subject = tw.load(made.build())
    report = tw.report(subject, made.inputs(1, 8))
    assert [one.method for one in report.explained] == ["alti", "attention_rollout", "attention_flow", "raw_attention"]
    assert any(one.startswith("decompx: ") for one in report.left_out)
    with pytest.raises(tw.InputError, match="encoder-decoder"):
        tw.report(subject, made.inputs(1, 8), ["decompx"])


def test_report_when_a_language_model_goes_on_then_its_tokens_are_its_own_choices() -> None:
    subject = tiny_subject("gpt2")
    report = tw.report(subject, "the keys", ["alti"], generate=4)
    assert report.prompt is not None and report.target == (report.prompt - 1,)
    ids = list(report.tokens.ids)
    capture = subject.capture([int(one or 0) for one in ids])
    assert not isinstance(capture, list) and capture.logits is not None
    assert capture.logits.argmax(-1)[report.prompt - 1 : -1].tolist() == ids[report.prompt :]
    assert len(report.outputs) == len(report.tokens)


@pytest.mark.parametrize(
    ("subject", "text", "options", "said"),
    [
        ("bert", "the cat", {"generate": 2}, "causal language models"),
        ("gpt2", [5, 6], {"generate": 2}, "continues one text"),
        ("gpt2", "the cat", {"generate": 100}, "too many"),
        ("bert", "the cat", {"methods": []}, "one or more different methods"),
        ("bert", "the cat", {"methods": ["alti", "alti"]}, "one or more different methods"),
        ("bert", "the cat", {"methods": ["alchemy"]}, "unknown method"),
        ("bert", "the cat", {"target": "dog"}, "is not there"),
    ],
)
def test_report_when_asked_wrongly_then_says_what_is_wrong(
    subject: str, text: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(tw.InputError, match=said):
        tw.report(tiny_subject(subject), text, **options)


def test_model_when_reported_on_then_is_left_as_it_was() -> None:
    from tests.tiny import snapshot

    subject = tiny_subject("gpt2")
    before = snapshot(subject.model)
    tw.report(subject, "the keys", ["alti"], generate=2)
    assert snapshot(subject.model) == before


# --- figures -------------------------------------------------------------------------------------------


def test_figures_when_plotted_then_have_tokens_as_labels_and_leave_matplotlib_as_it_was(shipped: tw.Subject) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    both = tw.compare(shipped, TEXT, ["alti", "decompx"])
    pictures = [
        both.attributions[0].plot(),
        tw.explain(shipped, "a witty movie.", "alti", "all").plot(),
        both.plot(),
        tw.compare(shipped, "a witty movie.", ["alti", "raw_attention"], "all").plot(),
        tw.trust(shipped, TEXT).plot(),
        tw.report(shipped, TEXT, ["alti"]).plot(),
    ]
    for figure in pictures:
        figure.draw_without_rendering()
    labels = [label.get_text() for label in pictures[0].axes[0].get_xticklabels()]
    assert labels == list(both.attributions[0].sources.pieces)
    heights = [bar.get_height() for bar in pictures[0].axes[0].patches]  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(heights, both.attributions[0].scores[0])
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_figure_when_tokens_look_like_formulas_or_have_no_letters_then_is_drawn_as_they_are() -> None:
    subject = tw.load(BY_NAME["bert"].build(), wordpiece())
    found = tw.explain(subject, "the cat 日 本", "alti")
    from dataclasses import replace

    strange = replace(found.sources, pieces=("$x^", "$\\frac{1}{", "日", "\x1b[2J", "%", "_")[: len(found.sources)])
    figure = replace(found, sources=strange).plot()
    figure.draw_without_rendering()
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == ["$x^", "$\\frac{1}{", "▯", "\\x1b[2J", "%", "_"][: len(found.sources)]


def test_figure_when_matplotlib_is_missing_then_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['matplotlib'] = None\nsys.modules['matplotlib.figure'] = None\n"
        "import thalweg as tw\n"
        "try:\n    tw.explain(tw.load(), 'a witty movie.').plot()\n"
        "except tw.ThalwegError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "MissingExtraError figures need matplotlib: install thalweg[plots]"


def test_headline_when_the_first_method_has_not_the_target_then_another_speaks(shipped: tw.Subject) -> None:
    found = tw.report(shipped, "a witty movie", methods=["decompx", "alti"], target="witty")
    assert found.headline().startswith("By alti, ‘witty’ comes most from")
    alone = tw.report(shipped, "a witty movie", methods=["decompx"], target="witty")
    assert alone.headline().startswith("No method that was asked for explains this target.")
    assert alone.to_html().startswith("<!doctype html>")


def test_headline_when_there_are_several_targets_then_names_all_and_takes_their_mean(shipped: tw.Subject) -> None:
    found = tw.report(shipped, "a witty movie", methods=["alti"], target=[2, 3])
    assert "‘witty’ and ‘movie’" in found.headline()
    row = found.explained[0].received((2, 3))
    assert row == pytest.approx(tw.explain(shipped, "a witty movie", "alti", [2, 3]).scores.mean(0), abs=1e-3)


def test_to_html_when_a_model_has_an_odd_name_then_is_written_all_the_same(shipped: tw.Subject) -> None:
    named = replace(shipped, name="odd \x1b[31m \ud800 name")
    found = tw.report(named, "a witty movie", methods=["alti"])
    found.to_html().encode()
    console = Console(file=StringIO(), width=80)
    console.print(found)
    assert "\x1b" not in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
