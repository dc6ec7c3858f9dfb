"""Section on classes: how often each is predicted, and the words that speak for it, with links to examples."""

from collections.abc import Iterable

from thalweg.corpus.page.example_section import example_anchor
from thalweg.corpus.summary import ClassWords, Summary, shortened
from thalweg.corpus.words import MIN_TEXTS, RESAMPLES
from thalweg.drawing.elements import Markup, details, el, section, table
from thalweg.models.prediction import percent

NOTE = (
    "How often each class is predicted, and which words speak for it over all texts, with 95 % intervals. Numbers and "
    "words link to example texts. These are associations with the model's answers, not effects of a word."
)
DEFINITION = (
    "A word's share is its part of the sum of |score| in a text, negative if it speaks against the prediction. Its "
    "pull towards a class is the mean, over all texts with the word, of share × (c − f), where c is 1 if the text is "
    "of the class and 0 otherwise, and f is the frequency of the class; a word unrelated to the class has a pull of 0. "
    f"Intervals are percentile bootstraps over texts ({RESAMPLES:,} resamples), each for a word by itself, without a "
    f"correction for the choice among all words. Words in at least {MIN_TEXTS} texts whose interval is above 0 are "
    "listed, by its lower end. A word is counted once per text, in lower case."
)


def word_section(summary: Summary) -> Markup:
    title = "Words by class"
    if not summary.classes:
        return section("words", title, "No class was predicted: the model is not a classifier, or every text failed.")
    leading = summary.leading_method
    methods = list(dict.fromkeys(entry.method for entry in summary.words))
    by_method = {name: _tables(entry for entry in summary.words if entry.method == name) for name in methods}
    parts = [by_method[leading]] if leading else [el("p", _reason(summary), class_="aside")]
    others = [by_method[name] for name in methods if name != leading]
    folded = [details("Words by other methods", *others)] if others else []
    definition = details("How words are ranked", el("p", DEFINITION, class_="note"))
    return section("words", title, NOTE, _classes(summary), *parts, definition, *folded)


def _classes(summary: Summary) -> Markup:
    linked = {example.text for example in summary.examples}
    return table(
        "Predicted classes; the examples are the texts with the highest probability",
        ("class", "texts", "%", "mean probability", "examples"),
        (
            (
                shortened(figures.name),
                f"{figures.texts:,}",
                f"{100 * figures.share:.1f}",
                "–" if figures.probability is None else percent(figures.probability),
                _links(figures.examples, linked),
            )
            for figures in summary.classes
        ),
    )


def _tables(entries: Iterable[ClassWords]) -> Markup:
    listed = list(entries)
    return el("div", el("h3", listed[0].method), el("div", *map(_table, listed), class_="tables"))


def _table(entry: ClassWords) -> Markup:
    name = shortened(entry.name)
    if not entry.words:
        return el("p", f"No word in at least {MIN_TEXTS} texts clearly speaks for {name}.", class_="note")
    return table(
        f"Speak for {name}; in per cent",
        ("word", f"texts that are {name}", "mean share there", "pull (95 % interval)", "examples"),
        (
            (
                _link(word.examples[0], shortened(word.word)),
                f"{word.class_texts:,} of {word.texts:,}",
                _percent(word.mean_share),
                f"{_percent(word.pull)} ({_percent(word.low)} to {_percent(word.high)})",
                _links(word.examples, word.examples),
            )
            for word in entry.words
        ),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", "−")


def _links(texts: Iterable[int], known: Iterable[int]) -> Markup:
    links = (_link(text, f"{text:,}") for text in texts if text in known)
    return el("td", *(part for link in links for part in (link, " ")))


def _link(text: int, label: str) -> Markup:
    return el("a", label, href=f"#{example_anchor(text)}")


def _reason(summary: Summary) -> str:
    if summary.identity["text"] != "keep":
        return "This run keeps hashes instead of texts, so its words are unknown."
    if len(summary.classes) < 2:
        return "All texts have the same class, so no word tells classes apart."
    return "This run has no methods."
