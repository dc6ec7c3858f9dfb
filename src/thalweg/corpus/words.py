"""Words by class: which words speak for which predicted class, with bootstrap intervals and examples.

While the shards are read, the share of every word in every text goes to a temporary file. The words are ranked by sums
over that file, and only the few that are listed are resampled. Memory does not grow with the number of texts.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from thalweg.corpus.summary import MAX_LISTED, ClassFigures, ClassWords, WordFigures
from thalweg.corpus.tallies import Names, Tally, entries, numbers

MAX_WORDS = 2**18  # different words that are counted, the first to appear
MAX_CLASSES = 5  # whose words are listed, the most frequent
MIN_TEXTS = 10  # of a word that is listed
EXAMPLES = 2  # of a word or a class
RESAMPLES = 1000
BLOCKS = 1000  # at most, of a bootstrap: more texts are resampled in blocks
CHUNK = 2**18  # records that are read at once
RECORD = np.dtype([("word", "<i4"), ("output", "<i4"), ("text", "<i8"), ("share", "<f4")])


class ClassTally:
    """Classes of texts and the shares of words in them, added batch by batch; use it as a context manager."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._methods, self._classes, self._words = Names(methods), Names(), Names(limit=MAX_WORDS)
        self._counts, self._probabilities = Tally(), Tally(1)
        self._best: dict[int, list[tuple[float, int]]] = {}  # by class: −probability and number of a text
        self._files: list[IO[bytes]] = []
        self._stack = ExitStack()

    def __enter__(self) -> "ClassTally":
        self._files = [self._stack.enter_context(TemporaryFile()) for _ in self._methods.list]  # noqa: SIM115
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, first: Any) -> None:
        """Add rows of first targets."""
        outputs, texts = self._classes.codes(first["prediction"].combine_chunks()), first["text"].to_numpy()
        probabilities = numbers(first["probability"])
        self._counts.add(outputs[outputs >= 0])
        known = (outputs >= 0) & ~np.isnan(probabilities)
        self._probabilities.add(outputs[known], probabilities[known])
        for output in np.unique(outputs[known]).tolist():
            own = np.flatnonzero(known & (outputs == output))
            order = own[np.lexsort((texts[own], -probabilities[own]))[:EXAMPLES]]
            best = zip((-probabilities[order]).tolist(), texts[order].tolist(), strict=True)
            self._best[output] = sorted([*self._best.get(output, []), *best])[:EXAMPLES]
        self._add_words(first, outputs, texts)

    def _add_words(self, first: Any, outputs: np.ndarray, texts: np.ndarray) -> None:
        from pyarrow import compute

        word_rows, words = entries(first["words"])
        method_rows, methods = entries(first["methods"])
        if not len(word_rows) or not len(method_rows):
            return
        codes = self._words.codes(compute.call_function("utf8_lower", [words.field("word")]))
        owners, shares = entries(methods.field("word_shares"))
        rows = method_rows[owners]
        within = np.arange(len(owners)) - np.searchsorted(owners, owners)
        share_codes = codes[np.searchsorted(word_rows, rows) + within]
        share_methods = self._methods.codes(methods.field("method"))[owners]
        values = numbers(shares)
        for method, file in enumerate(self._files):
            own = (share_methods == method) & (share_codes >= 0) & (outputs[rows] >= 0)
            keys, places = np.unique(rows[own] * MAX_WORDS + share_codes[own], return_inverse=True)
            records = np.empty(len(keys), RECORD)
            row, records["word"] = np.divmod(keys, MAX_WORDS)
            records["output"], records["text"] = outputs[row], texts[row]
            records["share"] = np.bincount(places, values[own], len(keys))  # a word that occurs twice counts once
            file.write(records.tobytes())

    def classes(self) -> tuple[ClassFigures, ...]:
        """All classes, the most frequent first."""
        total, probabilities = int(self._counts.counts.sum()), self._probabilities.means()
        counted = zip(self._counts.keys.tolist(), self._counts.counts.tolist(), strict=True)
        return tuple(
            ClassFigures(
                self._classes[output],
                texts,
                texts / total,
                probabilities[output][0] if output in probabilities else None,
                tuple(text for _, text in self._best.get(output, ())),
            )
            for output, texts in sorted(counted, key=lambda entry: (-entry[1], self._classes[entry[0]]))
        )

    def words(self) -> tuple[ClassWords, ...]:
        """The words that speak most for each of the most frequent classes, by method."""
        classes = [(self._classes.code(figures.name), figures) for figures in self.classes()]
        if len(classes) < 2:
            return ()  # nothing to tell apart
        return tuple(
            ClassWords(self._methods[method], figures.name, words)
            for method, file in enumerate(self._files)
            for (_, figures), words in zip(
                classes,
                self._rank(file, [(code, figures.share) for code, figures in classes[:MAX_CLASSES]]),
                strict=False,
            )
        )

    def _rank(self, file: IO[bytes], classes: Sequence[tuple[int, float]]) -> Iterator[tuple[WordFigures, ...]]:
        names = self._words.list
        size = len(names)
        texts, shares, squares = np.zeros((3, size))
        own_texts, own_shares, own_squares = np.zeros((3, len(classes), size))
        for records in _chunks(file):
            word, share = records["word"], records["share"].astype(float)
            texts += np.bincount(word, minlength=size)
            shares += np.bincount(word, share, size)
            squares += np.bincount(word, share**2, size)
            for place, (code, _) in enumerate(classes):
                own = records["output"] == code
                own_texts[place] += np.bincount(word[own], minlength=size)
                own_shares[place] += np.bincount(word[own], share[own], size)
                own_squares[place] += np.bincount(word[own], share[own] ** 2, size)
        count = np.maximum(texts, 1)
        listed: list[np.ndarray] = []
        for place, (_, frequency) in enumerate(classes):
            pull = (own_shares[place] - frequency * shares) / count
            square = (own_squares[place] * (1 - 2 * frequency) + frequency**2 * squares) / count
            low = pull - 2 * np.sqrt(np.maximum(square - pull**2, 0) / count)  # about that of the bootstrap
            low[(texts < MIN_TEXTS) | (own_texts[place] == 0)] = -np.inf
            order = np.argsort(-low, kind="stable")[:MAX_LISTED]
            listed.append(order[low[order] > 0])
        samples = {int(word): _WordSample(int(texts[word]), len(classes)) for word in np.concatenate(listed)}
        for records in _chunks(file):
            for word in set(records["word"].tolist()) & samples.keys():
                samples[word].add(records[records["word"] == word], [code for code, _ in classes])
        for place, (_, frequency) in enumerate(classes):
            figures = (samples[int(word)].figures(names[word], place, frequency) for word in listed[place])
            clear = (entry for entry in figures if entry.low > 0)
            yield tuple(sorted(clear, key=lambda entry: (-entry.low, entry.word)))


class _WordSample:
    """The shares of a word, summed over blocks of texts, in all texts and in those of each class."""

    def __init__(self, texts: int, classes: int) -> None:
        blocks = min(texts, BLOCKS)
        self._texts, self._seen = texts, 0
        self._all, self._sizes, self._own = np.zeros(blocks), np.zeros(blocks), np.zeros((classes, blocks))
        self._own_texts = [0] * classes
        self._best: list[list[tuple[float, int]]] = [[] for _ in range(classes)]  # −share and number of a text

    def add(self, records: np.ndarray, codes: Sequence[int]) -> None:
        """Add the next records of the word."""
        blocks, share = len(self._sizes), records["share"].astype(float)
        members = (self._seen + np.arange(len(records))) * blocks // self._texts
        self._seen += len(records)
        self._sizes += np.bincount(members, minlength=blocks)
        self._all += np.bincount(members, share, blocks)
        for place, code in enumerate(codes):
            own = records["output"] == code
            self._own[place] += np.bincount(members[own], share[own], blocks)
            self._own_texts[place] += int(own.sum())
            candidates = zip((-share[own]).tolist(), records["text"][own].tolist(), strict=True)
            self._best[place] = sorted([*self._best[place], *candidates])[:EXAMPLES]

    def figures(self, name: str, place: int, frequency: float) -> WordFigures:
        pulls = self._own[place] - frequency * self._all
        own_texts = self._own_texts[place]
        return WordFigures(
            name,
            self._texts,
            own_texts,
            float(self._own[place].sum() / own_texts),
            float(pulls.sum() / self._texts),
            *bootstrap(pulls, self._sizes),
            tuple(text for _, text in self._best[place]),
        )


def bootstrap(sums: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """The 95 % percentile interval of a mean by resampling blocks of `sizes` values; the same on every call."""
    draws = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    low, high = np.percentile(sums[draws].sum(1) / sizes[draws].sum(1), (2.5, 97.5))
    return float(low), float(high)


def _chunks(file: IO[bytes]) -> Iterator[np.ndarray]:
    file.seek(0)
    while content := file.read(CHUNK * RECORD.itemsize):
        yield np.frombuffer(content, RECORD)
