"""Section on examples: texts with their words shaded by share; other sections link to them."""

from collections.abc import Iterator

from thalweg.corpus.summary import Example, Summary, shortened
from thalweg.drawing.elements import Markup, details, el, section
from thalweg.models.prediction import percent

SHADES = 5  # of positive and of negative shares, in the style sheet
NOTE = (
    "Texts in which a listed word has its largest share, or a class its highest probability. Words are shaded by their "
    "share relative to the largest of the text: blue for the prediction, orange against it."
)


def example_anchor(text: int) -> str:
    """The id of an example on the page."""
    return f"text-{text}"


def example_section(summary: Summary) -> Markup | str:
    if not summary.examples:
        return ""
    leading = summary.leading_method or next((name for example in summary.examples for name in example.words), None)
    return section("examples", "Examples", NOTE, *(_example(example, leading) for example in summary.examples))


def _example(example: Example, leading: str | None) -> Markup:
    answer = shortened(example.prediction)
    if example.probability is not None:
        answer += f" ({percent(example.probability)})"
    place = f"text {example.text:,}, line {example.line:,}"
    if example.id is not None:
        place += f", id {shortened(example.id)}"
    others = [
        el("p", el("b", f"{name}: "), *shaded(example, name), class_="shaded")
        for name in example.words
        if name != leading
    ]
    return el(
        "article",
        el("p", el("b", answer), f" · {place} · ", el("a", "back to the words", href="#words"), class_="aside"),
        el("p", *shaded(example, leading), class_="shaded"),
        details("Other methods", *others) if others else "",
        id=example_anchor(example.text),
        class_="example",
    )


def shaded(example: Example, method: str | None) -> Iterator[Markup | str]:
    """The excerpt with its words marked by the shares of a method."""
    words = example.words.get(method or "", ())
    largest = max((abs(share) for *_, share in words), default=0.0) or 1.0
    end = 0
    for start, word, share in words:
        if start < end:
            continue  # a word that a tokenizer places inside another
        yield example.excerpt[end:start]
        shade, end = round(SHADES * abs(share) / largest), start + len(word)
        name = f"{'more' if share > 0 else 'less'}-{shade}"
        tooltip = f"{100 * share:.1f} %".replace("-", "−")
        yield el("mark", word, class_=name, title=tooltip) if shade else word
    yield example.excerpt[end:]
