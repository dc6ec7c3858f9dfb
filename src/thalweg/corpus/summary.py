"""The summary of a corpus: figures over all its rows. `summarise` computes it, `page/` draws it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thalweg.corpus.shard_store import Counts
from thalweg.files.run_folder import RunHeader
from thalweg.identifiability.brief_certificate import BRIEF_VERDICTS
from thalweg.identifiability.result import VERDICTS

if TYPE_CHECKING:
    from rich.console import RenderableType

MAX_LISTED = 10  # tokens, texts or errors
MIN_TIMES_KEPT = 10  # of a token in the ranking by mean score
HEADLINE_CLASSES, HEADLINE_WORDS = 3, 2
MAX_NAME_CHARACTERS = 40  # of a word or class in a sentence
DEFAULT_METHOD = "alti"  # of `explain`
MIN_TOKENS = 10  # of a text in the ranking by agreement: rankings of fewer sources mean little


@dataclass(frozen=True)
class Band:
    """A mean with the 10th and 90th percentile, rounded to a thousandth, over `count` texts or targets."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class ErrorGroup:
    """Errors that differ in numbers and quotations only, in `part`: the text, a method or the certificate.

    `error` is the message of the first such `text`.
    """

    part: str
    count: int
    error: str
    text: int


@dataclass(frozen=True)
class WorstCheck:
    """A check on the text where its error is largest relative to the tolerance; `worst` is None if not finite."""

    method: str
    identity: str
    texts: int
    exceeding: int
    worst: float | None
    allowed: float
    text: int
    line: int


@dataclass(frozen=True)
class LayerFigures:
    """Mixing from the embeddings to a layer over texts; figures as in `MixingFigures`."""

    method: str
    layer: int
    figures: Mapping[str, Band | None]


@dataclass(frozen=True)
class LengthFigures:
    """Certificates of texts with at least `start` and fewer than `stop` tokens: means over heads, then over texts."""

    start: int
    stop: int
    texts: int
    null_share: Band | None
    null_share_row_sum: Band | None
    verdicts: Mapping[str, float]


@dataclass(frozen=True)
class HeadFigures:
    """The number of texts with each verdict on a head, and its mean null shares."""

    layer: int
    head: int
    verdicts: Mapping[str, int]
    null_share: float | None
    null_share_row_sum: float | None

    @property
    def texts(self) -> int:
        return sum(self.verdicts.values())


@dataclass(frozen=True)
class TokenFigures:
    """How often a token was the largest source or one of those kept, with its mean score and |score| when kept."""

    token: str
    times_largest: int
    times_kept: int
    mean_score: float
    mean_size: float


@dataclass(frozen=True)
class MethodFigures:
    """The sources of a method: shares, and tokens by how often they are largest and by mean |score|."""

    method: str
    targets: int
    special_share: Band | None
    own_share: Band | None
    entropy: Band | None
    most_often_largest: tuple[TokenFigures, ...]
    largest_mean: tuple[TokenFigures, ...]


@dataclass(frozen=True)
class PairAgreement:
    """Rank correlation of two methods; `undefined` counts targets where a method gives all sources the same score."""

    method: str
    other: str
    correlation: Band | None
    undefined: int


@dataclass(frozen=True)
class LowAgreement:
    """A target on which methods agree little: the mean over all pairs of methods, and the pair that agrees least."""

    text: int
    line: int
    target: int
    tokens: int
    correlation: float
    method: str
    other: str
    lowest: float


@dataclass(frozen=True)
class ClassFigures:
    """How often a class is predicted, with which mean probability, and the texts it is most probable for."""

    name: str
    texts: int
    share: float
    probability: float | None
    examples: tuple[int, ...]


@dataclass(frozen=True)
class WordFigures:
    """A word in lower case that speaks for a class.

    It is in `texts` texts, `class_texts` of them of this class, where it has the share `mean_share` on average.
    `pull` is the mean over its texts of share · ([text is of the class] − frequency of the class), from `low` to `high`
    by a 95 % bootstrap. `examples` are the texts of the class where its share is largest.
    """

    word: str
    texts: int
    class_texts: int
    mean_share: float
    pull: float
    low: float
    high: float
    examples: tuple[int, ...]


@dataclass(frozen=True)
class ClassWords:
    """The words that speak most for a class by a method, the clearest (largest `low`) first."""

    method: str
    name: str
    words: tuple[WordFigures, ...]


@dataclass(frozen=True)
class Example:
    """An excerpt of a text, and by method its words with their first character in the excerpt and their share."""

    text: int
    line: int
    id: str | None
    prediction: str
    probability: float | None
    excerpt: str
    words: Mapping[str, tuple[tuple[int, str, float], ...]]


@dataclass(frozen=True)
class Summary:
    """Figures over all rows of a corpus, finished or not."""

    folder: Path
    identity: Mapping[str, Any]
    provenance: Mapping[str, str]
    counts: Counts
    tokens: Band | None
    errors: tuple[ErrorGroup, ...]
    checks: tuple[WorstCheck, ...]
    layers: tuple[LayerFigures, ...]
    lengths: tuple[LengthFigures, ...]
    heads: tuple[HeadFigures, ...]
    methods: tuple[MethodFigures, ...]
    agreement: tuple[PairAgreement, ...]
    lowest_agreement: tuple[LowAgreement, ...]
    classes: tuple[ClassFigures, ...] = ()
    words: tuple[ClassWords, ...] = ()
    examples: tuple[Example, ...] = ()

    @property
    def digest(self) -> str:
        """The digest of the run's identity."""
        return RunHeader(self.identity, self.provenance).digest

    @property
    def complete(self) -> bool:
        """Whether every text of the file has been processed."""
        return self.counts.texts == self.identity["texts"]

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of heads with each verdict, over all texts."""
        return {verdict: sum(head.verdicts[verdict] for head in self.heads) for verdict in self.possible_verdicts}

    @property
    def possible_verdicts(self) -> tuple[str, ...]:
        """The verdicts that this run's certificates can give."""
        return possible_verdicts(self.identity)

    def sentences(self) -> tuple[str, ...]:
        """The main figures in a few sentences."""
        counts, total = self.counts, self.identity["texts"]
        texts = f"{total:,} texts" if self.complete else f"{counts.texts:,} of {total:,} texts"
        failed = f", {counts.failed:,} failed" if counts.failed else ""
        answers = f": {self._class_shares()}" if self.classes else ""
        sentences = [f"{texts}{failed}{answers}{self._clearest_words()}."]
        if self.heads:
            share = self.verdicts["identifiable"] / sum(self.verdicts.values())
            judged = " by their values" if self.identity["certificate"] == "values" else ""
            sentences.append(f"{share:.0%} of heads are identifiable{judged}, over all texts.")
        means = [(pair.correlation.mean, pair.method, pair.other) for pair in self.agreement if pair.correlation]
        if means:
            mean, method, other = min(means)
            lowest = " is lowest" if len(means) > 1 else ""
            sentences.append(f"Rank correlation{lowest} between {method} and {other}: {signed(mean)} on average.")
        return tuple(sentences)

    @property
    def leading_method(self) -> str | None:
        """The method whose words are in the headline: the default of `explain` if it ran, otherwise the first."""
        methods = list(dict.fromkeys(words.method for words in self.words))
        return DEFAULT_METHOD if DEFAULT_METHOD in methods else methods[0] if methods else None

    def _class_shares(self) -> str:
        listed = [f"{figures.share:.0%} {shortened(figures.name)}" for figures in self.classes[:HEADLINE_CLASSES]]
        others = len(self.classes) - len(listed)
        return ", ".join([*listed, *([f"{others:,} other classes"] if others > 0 else [])])

    def _clearest_words(self) -> str:
        candidates = [entry for entry in self.words if entry.method == self.leading_method and entry.words]
        if not candidates:
            return ""
        clearest = max(candidates, key=lambda entry: entry.words[0].low)
        names = [f"‘{shortened(word.word)}’" for word in clearest.words[:HEADLINE_WORDS]]
        verb = "speak" if len(names) > 1 else "speaks"
        return f"; {' and '.join(names)} {verb} most for {shortened(clearest.name)} ({clearest.method})"

    def __rich__(self) -> "RenderableType":
        from thalweg.corpus.view import summary_text

        return summary_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return {**asdict(self), "folder": str(self.folder), "digest": self.digest, "complete": self.complete}

    def to_html(self) -> str:
        """A self-contained HTML page."""
        from thalweg.corpus.summary_page import summary_page

        return summary_page(self)

    def _repr_html_(self) -> str:
        from thalweg.drawing.page import framed

        return framed(self.to_html())

    def save(self, path: str | Path) -> None:
        """Write the page atomically."""
        from thalweg.files.atomic import draft_of

        with draft_of(Path(path)) as draft:
            Path(draft).write_text(self.to_html(), encoding="utf-8")


def shortened(name: str) -> str:
    """A name from a text or a model, short enough for a sentence."""
    return name if len(name) <= MAX_NAME_CHARACTERS else f"{name[:MAX_NAME_CHARACTERS]}…"


def signed(value: float) -> str:
    """A correlation with two decimals and a proper minus sign."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def possible_verdicts(identity: Mapping[str, Any]) -> tuple[str, ...]:
    return BRIEF_VERDICTS if identity["certificate"] == "values" else VERDICTS
