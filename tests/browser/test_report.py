"""Reports in a real browser, used as a reader would."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import thalweg as tw
from tests.browser.conftest import Open, Opened
from tests.tiny import SENTENCE, tiny_subject
from thalweg.receipt import Check, Receipt
from thalweg.tokens import Tokens

ROOT = Path(__file__).parents[2]
TEXT = "a gorgeous, witty, seductive movie that never quite manages to make its characters as real as its places."
ATTACK = "</script><img src=x onerror=window.pwned=1>"


@pytest.fixture(scope="module")
def report(bundled: tw.Subject) -> tw.Report:
    return tw.report(bundled, TEXT, methods=["alti", "attention_rollout", "attention_flow", "decompx"], intervals=True)


def token(opened: Opened, label: str) -> object:
    return opened.page.locator(".token", has_text=re.compile(rf"^{re.escape(label)}$")).first


def attribution_of(pieces: list[str], seed: int = 0) -> tw.Attribution:
    """A random attribution of these tokens through two layers; every token is a target."""
    count = len(pieces)
    nothing = (None,) * count
    tokens = Tokens(tuple(pieces), nothing, (False,) * count, nothing, nothing, (0,) * count, (None,))
    layers = np.random.default_rng(seed).dirichlet(np.ones(count), (2, count))
    receipt = Receipt({"parity": Check((0.0,), 1e-5)}, {}, (ATTACK,))
    return tw.Attribution(
        scores=layers[1] @ layers[0],
        per_layer=layers,
        targets=tokens,
        sources=tokens,
        positions=tuple(range(count)),
        method="alti",
        params={},
        receipt=receipt,
        provenance={"model": ATTACK},
        chain="product",
    )


def pixels(opened: Opened, selector: str) -> str:
    return opened.page.eval_on_selector(selector, "canvas => canvas.toDataURL()")


def unfolded(opened: Opened, selector: str) -> str:
    """The text of a part, also where it is folded."""
    return opened.page.text_content(selector) or ""


# --- what it shows ---------------------------------------------------------------------------------


def test_page_when_opened_then_says_and_shades_what_was_computed(
    report: tw.Report, bundled: tw.Subject, open_page: Open
) -> None:
    opened = open_page(report.to_html())
    result = tw.explain(bundled, TEXT, "alti")
    (first, score), *_ = result.top(3)
    assert opened.text("h1") == f"Prediction {str(result.answer.outcomes[0]).replace('(', '').replace(')', '')}"  # pyright: ignore
    assert opened.text(".others").startswith("Runners-up: ")
    assert opened.text("#verdict").startswith(
        f"The prediction ‘{result.prediction}’ is read at [CLS]. By alti, it comes mostly from {first} ({score:.2f})"
    )
    assert opened.text("#heads .summary").startswith(tw.trust(bundled, TEXT).summary()[:40])
    labels = opened.page.eval_on_selector_all(".token", "all => all.map(token => token.getAttribute('aria-label'))")
    assert len(labels) == len(result.sources)
    shown = [float(re.search(r"contributes (\S+) to", label).group(1)) for label in labels]  # pyright: ignore
    np.testing.assert_allclose(shown, result.scores[0], atol=6e-3)
    assert "parity" not in opened.text("#receipt .body") and "checks passed" in opened.text("#receipt .body")
    assert "parity" in unfolded(opened, "#receipt")
    assert opened.page.title().startswith("Thalweg: [CLS] a gorgeous")


def test_page_when_methods_are_compared_then_agreement_is_that_of_the_library(
    report: tw.Report, bundled: tw.Subject, open_page: Open
) -> None:
    opened = open_page(report.to_html())
    cells = opened.page.eval_on_selector_all(".agreement td", "all => all.map(cell => cell.textContent)")
    shown = np.array([float(cell.replace("−", "-")) for cell in cells]).reshape(4, 4)
    wanted = tw.compare(bundled, TEXT, [packed.method for packed in report.explained]).agreement()
    np.testing.assert_allclose(shown, wanted, atol=0.006)


def test_token_when_clicked_then_is_the_target_and_everything_follows(
    report: tw.Report, bundled: tw.Subject, open_page: Open
) -> None:
    opened = open_page(report.to_html())
    before = [pixels(opened, "#river canvas"), opened.text("#methods"), opened.text(".row-table")]
    token(opened, "movie").click()  # pyright: ignore[reportAttributeAccessIssue]
    best = tw.explain(bundled, TEXT, "alti", "movie").top(1)[0]
    assert f"By alti, ‘movie’ comes mostly from {best[0]} ({best[1]:.2f})" in opened.text("#verdict")
    assert token(opened, "movie").get_attribute("aria-pressed") == "true"  # pyright: ignore
    after = [pixels(opened, "#river canvas"), opened.text("#methods"), opened.text(".row-table")]
    assert all(old != new for old, new in zip(before, after, strict=True))
    opened.page.click("text=Back to the initial target")
    assert pixels(opened, "#river canvas") == before[0]


def test_token_when_chosen_as_source_then_shows_where_it_goes(
    report: tw.Report, bundled: tw.Subject, open_page: Open
) -> None:
    opened = open_page(report.to_html())
    opened.page.click("label[for=direction-source]")
    token(opened, "witty").click()  # pyright: ignore[reportAttributeAccessIssue]
    everything = tw.explain(bundled, TEXT, "alti", "all")
    place = everything.sources.pieces.index("witty")
    shown = token(opened, "movie").get_attribute("aria-label")  # pyright: ignore[reportAttributeAccessIssue]
    score = everything.scores[everything.sources.pieces.index("movie"), place]
    assert shown.startswith("movie receives ") and shown.endswith("from ‘witty’")
    assert float(shown.split()[2]) == pytest.approx(score, abs=6e-3)


def test_method_when_switched_then_headline_river_and_shades_are_its_own(report: tw.Report, open_page: Open) -> None:
    opened = open_page(report.to_html())
    before = pixels(opened, "#river canvas")
    opened.page.click("[data-method=attention_flow]")
    assert "By attention_flow, it comes mostly from" in opened.text("#verdict")
    assert "A maximum flow from [CLS] to" in opened.text("#river")
    assert pixels(opened, "#river canvas") != before
    opened.page.click("[data-method=decompx]")
    assert "orange negative" in opened.text("#text")
    assert "decompx has no per-layer maps, so the river shows alti" in opened.text("#river")
    token(opened, "movie").click()  # pyright: ignore[reportAttributeAccessIssue]
    assert "decompx was computed for the prediction only" in opened.text("#text")


def test_flow_when_drawn_then_is_as_large_as_the_solver_says(bundled: tw.Subject, open_page: Open) -> None:
    raw = tw.explain(bundled, TEXT, "attention_flow", normalise=False)
    opened = open_page(raw.to_html())
    match = re.search(r"with attention as capacities: (\S+)\. Other", opened.text("#river-status"))
    assert match is not None
    assert float(match.group(1)) == pytest.approx(raw.scores.max(), rel=0.02)


def test_river_when_pointed_at_then_traces_the_token(report: tw.Report, open_page: Open) -> None:
    opened = open_page(report.to_html())
    before = pixels(opened, "#river canvas")
    opened.page.hover("#river canvas", position={"x": 500, "y": 200})
    opened.page.wait_for_selector(".tip:not([hidden])")
    assert re.search(r"(after layer \d|in the input) carries .*% of the prediction", opened.text(".tip"))
    assert pixels(opened, "#river canvas") != before
    opened.page.hover("h1")
    opened.page.wait_for_selector(".tip", state="hidden")
    assert pixels(opened, "#river canvas") == before


def test_text_when_pointed_at_then_the_river_traces_it_too(report: tw.Report, open_page: Open) -> None:
    opened = open_page(report.to_html())
    before = pixels(opened, "#river canvas")
    token(opened, "witty").hover()  # pyright: ignore[reportAttributeAccessIssue]
    opened.page.wait_for_timeout(80)
    assert opened.text(".tip").startswith("witty contributes ")
    assert pixels(opened, "#river canvas") != before


def test_head_when_chosen_then_verdict_row_and_map_are_shown(report: tw.Report, open_page: Open) -> None:
    opened = open_page(report.to_html())
    opened.page.click("[data-head='1.2']")
    head = report.certificate.head(1, 2)  # pyright: ignore[reportOptionalMemberAccess]
    assert head.verdict in opened.text(".detail .verdict")
    assert head.sentence().split(": ", 1)[1][:60].lower() in opened.text(".detail .sentence").lower()
    maps = [pixels(opened, ".map")]
    for kind in ("effective", "null", "width"):
        opened.page.click(f"label[for=kind-{kind}]")
        maps.append(pixels(opened, ".map"))
    assert len(set(maps)) == 4
    ranges = next(entry for entry in report.intervals if (entry.layer, entry.head) == (1, 2))
    row = opened.page.inner_text(f".row-table tr:has-text('{report.tokens.pieces[int(ranges.sources[0])]}')")
    low, high = row.split("\t")[-1].split(" to ")
    assert float(low) == pytest.approx(ranges.low[0], abs=6e-3)
    assert float(high) == pytest.approx(ranges.high[0], abs=6e-3)


def test_teaching_picture_when_a_row_is_chosen_then_both_maps_and_outputs_are_shown(
    bundled: tw.Subject, open_page: Open
) -> None:
    report = tw.trust_head(bundled, TEXT, 1, 2, target=5)
    opened = open_page(report.to_html())
    other = report.alternatives.polytope
    assert other is not None
    page = opened.page
    assert f"{other.total_variation[5]:.0%} of the attention of" in opened.text("#alternatives .moved")
    first, second = page.query_selector_all("#alternatives figure")
    assert [figure.query_selector("figcaption").inner_text() for figure in (first, second)] == [  # pyright: ignore
        "Original attention",
        "Alternative attention",
    ]
    outputs = [figure.query_selector("tbody").inner_text() for figure in (first, second)]  # pyright: ignore
    assert outputs[0] == outputs[1]
    assert "positive" in outputs[0]
    strips = [
        strip.evaluate("canvas => canvas.toDataURL()") for strip in page.query_selector_all("#alternatives .vector")
    ]
    assert strips[0] == strips[1]
    maps = [
        canvas.evaluate("canvas => canvas.toDataURL()") for canvas in page.query_selector_all("#alternatives .whole")
    ]
    assert maps[0] != maps[1]
    assert len(page.query_selector_all("#alternatives .range")) > 2
    page.select_option("#alternatives-row", index=9)
    assert f"{other.total_variation[9]:.0%} of the attention of" in opened.text("#alternatives .moved")
    assert not page.query_selector_all("#alternatives .range")  # intervals of another row


def test_words_and_special_tokens_when_chosen_then_are_merged_and_hidden(open_page: Open) -> None:
    opened = open_page(tw.report(tiny_subject(), "the unhappy man", methods=["alti"]).to_html())
    labels = "all => all.map(token => token.textContent)"
    assert opened.page.eval_on_selector_all(".token", labels) == ["[CLS]", "the", "un", "happy", "man", "[SEP]"]
    opened.page.click("label[for=unit-words]")
    assert opened.page.eval_on_selector_all(".token", labels) == ["[CLS]", "the", "unhappy", "man", "[SEP]"]
    opened.page.click("label[for=special-merged]")
    assert opened.page.eval_on_selector_all(".token", labels) == ["the", "unhappy", "man", "2 special tokens"]
    assert "merged into one" in opened.text("#text .legend")
    opened.page.click("label[for=special-hidden]")
    assert opened.page.eval_on_selector_all(".token", labels) == ["the", "unhappy", "man"]
    assert re.search(r"Special tokens are hidden; they contribute 0\.\d+", opened.text("#text .legend"))


def test_generated_token_when_clicked_then_is_explained_where_it_was_predicted(open_page: Open) -> None:
    subject = tiny_subject("gpt2")
    report = tw.report(subject, "the keys", methods=["alti", "raw_attention"], generate=3)
    opened = open_page(report.to_html())
    assert opened.page.locator(".token.generated").count() == len(report.tokens) - (report.prompt or 0) > 0
    assert "generated:" in opened.text("#text")
    assert "was generated after" in opened.text("#verdict")
    opened.page.locator(".token.generated").last.click()
    label = opened.page.locator(".token").last.get_attribute("aria-label") or ""
    assert "contributes 0 to" in label  # the token itself was not visible when it was predicted


@pytest.mark.parametrize("family", ["t5", "vit"])
def test_page_when_tokens_have_no_text_or_two_texts_then_works(family: str, open_page: Open) -> None:
    from tests.families import BY_NAME

    tiny = BY_NAME[family]
    report = tw.report(tw.load(tiny.build()), tiny.inputs(1, 8))
    opened = open_page(report.to_html())
    assert opened.page.locator(".token").count() == len(report.tokens)
    assert "Word boundaries are unknown" in opened.text("#text")
    assert (family == "t5") == ("encoder positions" in unfolded(opened, "#receipt"))


def test_certificate_when_it_is_all_there_is_then_has_a_page(bundled: tw.Subject, open_page: Open) -> None:
    opened = open_page(tw.trust(bundled, TEXT).to_html())
    assert opened.page.locator(".head").count() == 40
    opened.page.click("[data-head='0.1']")
    assert "Layer 0, head 1" in opened.text(".detail")


def test_answer_when_scores_are_signed_then_says_what_speaks_for_and_against(
    report: tw.Report, open_page: Open
) -> None:
    opened = open_page(report.to_html())
    opened.page.click("[data-method=decompx]")
    assert re.search(rf"By decompx, for .*‘{report.prediction}’: .*; against it: .*\(-\d", opened.text("#verdict"))


def test_tokens_when_unknown_or_repeated_then_are_marked(open_page: Open) -> None:
    opened = open_page(tw.report(tiny_subject(), "the CC Cat sees the dog", methods=["alti"]).to_html())
    assert "1 of 8 tokens is unknown to the model" in opened.text(".warning") and "[UNK] ‹CC›" in opened.text(
        ".warning"
    )
    labels = opened.page.eval_on_selector_all(".token", "all => all.map(token => token.textContent)")
    assert labels == ["[CLS]", "the1", "[UNK]‹CC›", "cat", "sees", "the5", "dog", "[SEP]"]
    spoken = opened.page.eval_on_selector_all(".token", "all => all.map(token => token.getAttribute('aria-label'))")
    assert spoken[2].endswith("unknown to the model, the text is ‘CC’") and spoken[3].endswith("the text is ‘Cat’")
    assert spoken[1].startswith("the₁ contributes")


def test_head_map_when_drawn_then_rows_and_columns_are_named(open_page: Open) -> None:
    report = tw.report(tiny_subject(), "the cat sees the dog", methods=["alti"])
    opened = open_page(report.to_html())
    names = "all => all.map(name => name.textContent)"
    expected = ["[CLS]", "the₁", "cat", "sees", "the₄", "dog", "[SEP]"]
    assert opened.page.eval_on_selector_all(".map-rows span", names) == expected
    assert opened.page.eval_on_selector_all(".map-columns span", names) == expected


def test_links_when_followed_then_lead_to_sections_and_the_glossary(report: tw.Report, open_page: Open) -> None:
    page = open_page(report.to_html()).page
    ids = page.eval_on_selector_all("section", "all => all.map(part => part.id)")
    assert page.eval_on_selector_all("nav a", "all => all.map(link => link.hash.slice(1))") == ids
    page.click("nav a[href='#receipt']")
    assert (
        page.evaluate("document.activeElement.id") == "receipt" and page.locator("#receipt details[open]").count() == 1
    )
    page.focus("#mixing .term >> nth=0")
    assert page.get_attribute("#mixing .term >> nth=0", "title")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "glossary-mixing"
    missing = "all => all.filter(link => !document.getElementById(link.hash.slice(1))).length"
    assert page.eval_on_selector_all("a", missing) == 0


def test_glossary_when_on_the_page_then_is_that_of_the_documentation(report: tw.Report, open_page: Open) -> None:
    page = open_page(report.to_html()).page
    terms = page.eval_on_selector_all("dt", "all => all.map(term => [term.textContent, term.nextSibling.textContent])")
    documented = re.sub(r"[*`]", "", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    for name, meaning in terms:
        assert re.search(rf"^\| ([^|]+, )?{re.escape(name)}(, [^|]+)? \| {re.escape(meaning)} \|$", documented, re.M), (
            name
        )


# --- keyboard, colours, widths ----------------------------------------------------------------------------


def test_keyboard_when_used_alone_then_reaches_tokens_river_and_methods(report: tw.Report, open_page: Open) -> None:
    opened = open_page(report.to_html())
    page = opened.page
    page.focus(".token[tabindex='0']")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "gorgeous"
    page.keyboard.press("Enter")
    assert "By alti, ‘gorgeous’ comes mostly from" in opened.text("#verdict")
    # the longer headline may add a scroll bar, and then the river is redrawn
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.focus("#river canvas")
    page.keyboard.press("ArrowDown")
    assert re.search(r"after layer 2 carries .*% of", opened.text("#river-status"))
    page.focus("[role=radio][aria-checked=true]")
    page.keyboard.press("ArrowDown")
    assert "By attention_rollout, " in opened.text("#verdict")
    assert page.evaluate("document.querySelectorAll('#river-table tbody tr').length") == 5


def test_page_when_dark_then_is_dark_and_can_be_switched(report: tw.Report, open_page: Open) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = open_page(report.to_html()), open_page(report.to_html(), dark=True)
    assert light.page.evaluate(colour) == "rgb(246, 247, 249)"
    assert dark.page.evaluate(colour) == "rgb(15, 18, 23)"
    assert pixels(light, "#river canvas") != pixels(dark, "#river canvas")
    light.page.click(".theme")
    assert light.page.evaluate(colour) == "rgb(15, 18, 23)"
    assert pixels(light, "#river canvas") == pixels(dark, "#river canvas")


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_page_when_narrow_or_wide_then_never_scrolls_sideways(report: tw.Report, open_page: Open, width: int) -> None:
    opened = open_page(report.to_html(), width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_parts_when_wider_than_a_telephone_then_fade_at_the_edge(report: tw.Report, open_page: Open) -> None:
    page = open_page(report.to_html(), width=390).page
    page.wait_for_timeout(100)
    cut = "all => all.filter(part => part.checkVisibility() && part.scrollWidth > part.clientWidth + 1)"
    assert page.eval_on_selector_all(".scroll", f"all => ({cut})(all).length") > 0
    assert page.eval_on_selector_all(".scroll", f"all => ({cut})(all).every(part => part.matches('.more-right'))")


def test_parts_at_1440_pixels_when_drawn_then_fit(report: tw.Report, open_page: Open) -> None:
    page = open_page(report.to_html(), width=1440).page
    assert page.eval_on_selector_all(".scroll", "all => all.every(part => part.scrollWidth <= part.clientWidth + 1)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_page_when_printed_then_is_light_and_unfolded(report: tw.Report, open_page: Open) -> None:
    page = open_page(report.to_html(), dark=True).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("details:not([open])").count() == 0
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert not page.is_visible("nav") and not page.is_visible(".controls >> nth=0")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    assert page.evaluate("document.documentElement.dataset.theme") is None
    assert page.pdf().startswith(b"%PDF")


def test_contrast_of_tokens_when_shaded_then_stays_readable(report: tw.Report, open_page: Open) -> None:
    script = """all => all.map(token => {
        const parts = text => text.match(/[0-9.]+/g).slice(0, 3).map(v => {
            v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        const light = text => { const [r, g, b] = parts(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const style = getComputedStyle(token);
        const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05); })"""
    for dark in (False, True):
        opened = open_page(report.to_html(), dark=dark)
        opened.page.emulate_media(reduced_motion="reduce")
        assert min(opened.page.eval_on_selector_all(".token", script)) >= 4.5


# --- untrusted texts ---------------------------------------------------------------------------


def test_tokens_when_they_are_html_then_are_shown_and_never_run(open_page: Open) -> None:
    pieces = [ATTACK, "<b>bold</b>", '"><svg onload=window.pwned=1>', "${window.pwned=1}", "\u202egnp.exe", "\0\x1b[2J"]
    opened = open_page(attribution_of(pieces).to_html())
    labels = opened.page.eval_on_selector_all(".token", "all => all.map(token => token.textContent)")
    assert labels == [*pieces[:4], "\\u202egnp.exe", "\\x00\\x1b[2J"]
    opened.page.locator(".token").first.click()
    opened.page.hover("#river canvas", position={"x": 500, "y": 100})
    opened.page.wait_for_selector(".tip:not([hidden])")
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.evaluate("document.querySelectorAll('img, b, main svg[onload]').length") == 0


def test_script_when_put_into_the_page_then_the_policy_stops_it(open_page: Open) -> None:
    opened = open_page(attribution_of(["a", "b"]).to_html())
    opened.page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.pwned = 1';
        document.body.append(script);
    }""")
    assert opened.page.evaluate("window.pwned") is None
    assert "Content Security Policy" in opened.messages.pop()


# --- frames -----------------------------------------------------------------


def test_two_reports_when_on_one_page_then_do_not_disturb_each_other(report: tw.Report, open_page: Open) -> None:
    other = attribution_of(["one", "two", "three"])
    html = f"<!doctype html><p>before</p>{report._repr_html_()}<p>between</p>{other._repr_html_()}"
    opened = open_page(html, ready="iframe")
    first, second = opened.page.frames[1:]
    for frame in (first, second):
        frame.wait_for_selector("html[data-ready]", state="attached")
    before = first.inner_text("#verdict")
    second.click(".token >> nth=1")
    assert "By alti, ‘two’ comes mostly from" in second.inner_text("#verdict")
    assert first.inner_text("#verdict") == before
    first.click("[data-method=attention_rollout]")
    assert "By attention_rollout, " in first.inner_text("#verdict")
    assert "By alti, " in second.inner_text("#verdict")
    assert second.evaluate("window.origin") == "null"  # the frame cannot reach the page around it


# --- long texts -------------------------------------------------------------------------------------


def long_subject(tokens: int, layers: int = 2, heads: int = 4) -> tw.Subject:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=99,
        hidden_size=8 * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=32,
        max_position_embeddings=tokens,
    )
    return tw.load(BertForSequenceClassification(config).eval())


def time_of_a_click(opened: Opened) -> float:
    """Milliseconds until the page has followed a click, the fastest of five."""
    script = """() => {
        const tokens = document.querySelectorAll('.token');
        const times = [3, 5, 7, 9, 11].map((place) => {
            const start = performance.now();
            tokens[place].click();
            return performance.now() - start;
        });
        return Math.min(...times);
    }"""
    return opened.page.evaluate(script)


def ids(count: int) -> list[int]:
    return [5 + i % 90 for i in range(count)]


def test_page_when_there_are_512_tokens_then_stays_fluid(open_page: Open) -> None:
    subject = long_subject(512)
    short = open_page(tw.report(subject, ids(32), methods=["alti", "attention_rollout"]).to_html())
    long = open_page(tw.report(subject, ids(512), methods=["alti", "attention_rollout"]).to_html())
    nodes: Callable[[Opened], int] = lambda opened: opened.page.evaluate("document.querySelectorAll('*').length")  # noqa: E731
    assert long.page.locator(".token").count() == 512
    assert nodes(long) - nodes(short) < 3 * (512 - 32)  # a button per token; links and maps are drawn, not built
    assert time_of_a_click(long) < 60 * time_of_a_click(short) + 50  # 256 times as many links
    assert "each cell covers" in unfolded(long, "#receipt") or long.page.evaluate(
        "document.querySelectorAll('.thumb').length"
    )


def test_page_when_there_are_2048_tokens_then_opens_and_says_what_is_missing(open_page: Open) -> None:
    report = tw.report(long_subject(2048), ids(2048), methods=["alti"])
    html = report.to_html()
    assert len(html) < 8_000_000
    opened = open_page(html)
    opened.page.locator(".token").nth(1500).click()
    assert "comes mostly from" in opened.text("#verdict")
    receipt = unfolded(opened, "#receipt")
    for missing in (
        "alti: per-layer maps keep the",
        "alti: scores of the",
        "mixing: not computed above 1024 tokens",
        "certificate: not computed above 512 tokens",
        "each cell covers",
    ):
        assert missing in receipt


def test_page_when_all_methods_are_on_it_then_is_small_enough(open_page: Open) -> None:
    subject = long_subject(128, layers=6, heads=12)
    report = tw.report(subject, ids(128), methods=list(tw.list_methods()))
    html = report.to_html()
    assert len(html.encode()) <= 5_000_000
    opened = open_page(html)
    assert opened.page.locator(".method").count() == len(tw.list_methods())
    assert opened.page.locator(".thumb").count() == 72


def test_sentence_when_report_is_of_a_bare_encoder_then_names_a_token(open_page: Open) -> None:
    subject = tiny_subject("modernbert")
    opened = open_page(tw.report(subject, SENTENCE, methods=["alti"]).to_html())
    assert "‘the₁’" in opened.text("#verdict")
