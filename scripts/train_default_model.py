"""Train the bundled sentiment classifier.

A pretrained BERT encoder is fine-tuned on SST-2 (the teacher). A small BERT with heads of size 16
(the student) then learns the gold labels and the teacher's logits, on SST-2 and on unlabelled
film-review text. The output folder holds the model, its tokenizer and a card with measured numbers.
"""

import argparse
import gzip
import json
import platform
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from transformers import AutoTokenizer, BertConfig, BertModel, BertTokenizer
from transformers import BertForSequenceClassification as Classifier

from thalweg.encoders.training.batches import batches, logits_of, predict

SEED = 0
LABELS = {"negative": 0, "positive": 1}
PAD = 0  # the id of [PAD], in the teacher's vocabulary and in the student's
VOCABULARY, WIDTH, LAYERS, HEAD_SIZE, POSITIONS = 9_000, 160, 4, 16, 512
SENTENCES, OPENINGS, HELD_OUT_REVIEWS = 3_000, 200, 1_000
Loss = Callable[[Tensor, list[int]], Tensor]  # of a batch's logits and its row numbers


class Recipe(NamedTuple):
    """Epochs, peak learning rate, padded tokens per batch, and the length that texts are truncated to."""

    epochs: int
    rate: float
    tokens: int
    cut: int


TEACHER = Recipe(epochs=2, rate=1e-4, tokens=1024, cut=64)
STUDENT = Recipe(epochs=3, rate=1e-3, tokens=2048, cut=POSITIONS)


class Split(NamedTuple):
    """Texts and their gold labels; -1 means unlabelled."""

    texts: list[str]
    labels: list[int]


def read_sst(path: Path) -> Split:
    """Read a `text<TAB>label` file; it has a header and no quoting."""
    rows = [line.split("\t") for line in path.read_text("utf-8").split("\n")[1:] if line]
    return Split([text.strip() for text, _ in rows], [LABELS[label] for _, label in rows])


def read_reviews(path: Path) -> Split:
    """Read the long film reviews in random order, without duplicates and line-break tags."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    reviews = {re.sub(r"\s*<br\s*/?>\s*", " ", row["text"]): row["label"] for row in rows}
    texts = random.Random(SEED).sample(list(reviews), len(reviews))
    return Split(texts, [reviews[text] for text in texts])


def merge(parts: list[Split], unseen: list[Split]) -> Split:
    """Join training files, without duplicates and texts of the evaluation splits."""
    noise = re.compile(r"[^a-z0-9]")  # spaces and punctuation of lower-cased text
    held_out = {noise.sub("", text.lower()) for split in unseen for text in split.texts}
    merged: dict[str, int] = {}
    for part in parts:
        for text, label in zip(part.texts, part.labels, strict=True):
            if noise.sub("", text.lower()) not in held_out:
                merged.setdefault(text, label)
    return Split(list(merged), list(merged.values()))


def transfer_text(reviews: list[str]) -> list[str]:
    """Single sentences, and some openings of reviews that are long enough to train late positions."""
    rng = random.Random(SEED)
    parts = {part for review in reviews for part in re.split(r"(?<=[.!?])\s+", review)}
    sentences = sorted(part for part in parts if 4 <= len(part.split()) <= 50)
    openings = [review.split()[: rng.randint(50, 450)] for review in rng.sample(reviews, OPENINGS)]
    return rng.sample(sentences, SENTENCES) + [" ".join(words) for words in openings]


def prune_tokenizer(full: BertTokenizer, texts: list[str]) -> BertTokenizer:
    """Keep the most frequent pieces, and all ASCII characters so that any word can be encoded."""
    counts = Counter(piece for text in texts for piece in full.tokenize(text))
    characters = sorted(p for p in full.get_vocab() if re.fullmatch(r"(##)?[!-~]", p))
    first = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    pieces = list(dict.fromkeys(first + [piece for piece, _ in counts.most_common()]))
    vocab = {piece: index for index, piece in enumerate(pieces[:VOCABULARY])}
    return BertTokenizer(vocab=vocab, do_lower_case=True, model_max_length=POSITIONS)


def encode(tokenizer: BertTokenizer, texts: list[str], cut: int = POSITIONS) -> list[list[int]]:
    """Token ids of every text, with [CLS] and [SEP]."""
    return tokenizer(texts, truncation=True, max_length=cut)["input_ids"]


def accuracy(model: Classifier, tokenizer: BertTokenizer, split: Split) -> str:
    """Share of texts whose most likely label is the gold one, with their number."""
    predicted = predict(model, encode(tokenizer, split.texts), PAD).argmax(-1)
    right = (predicted == torch.tensor(split.labels)).double().mean().item()
    return f"{100 * right:.1f} % (n = {len(split.texts):,})"


def fit(
    model: Classifier,
    tokenizer: BertTokenizer,
    train: Split,
    dev: Split,
    loss: Loss,
    recipe: Recipe,
) -> None:
    """Train with linear warm-up and decay of the learning rate; print the dev accuracy after each epoch."""
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    ids = encode(tokenizer, train.texts, recipe.cut)
    plan = [batches(ids, recipe.tokens, rng) for _ in range(recipe.epochs)]
    steps = sum(map(len, plan))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.rate, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 16, steps)
    for number, epoch in enumerate(plan, 1):
        model.train()
        for batch in epoch:
            loss(logits_of(model, [ids[row] for row in batch], PAD), batch).backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(f"epoch {number}: dev accuracy {accuracy(model, tokenizer, dev)}", flush=True)


def teach(folder: Path, train: Split, dev: Split, texts: list[str]) -> tuple[Tensor, str]:
    """Fine-tune the encoder on the gold labels with frozen embeddings; return its logits for `texts`."""
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = Classifier.from_pretrained(folder, num_labels=len(LABELS))
    model.bert.embeddings.requires_grad_(False)
    gold = torch.tensor(train.labels)
    fit(model, tokenizer, train, dev, lambda out, rows: cross_entropy(out, gold[rows]), TEACHER)
    return predict(model, encode(tokenizer, texts), PAD), accuracy(model, tokenizer, dev)


def new_student(tokenizer: BertTokenizer, folder: Path) -> Classifier:
    """A small classifier whose embeddings start as the principal components of the pretrained ones."""
    torch.manual_seed(SEED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // HEAD_SIZE,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=POSITIONS,
        id2label={label: name for name, label in LABELS.items()},
        label2id=LABELS,
    )
    student = Classifier(config)
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    kept = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(pieces)
    source, target = BertModel.from_pretrained(folder).embeddings, student.bert.embeddings
    inherit(target.word_embeddings.weight, source.word_embeddings.weight[kept])
    inherit(target.position_embeddings.weight, source.position_embeddings.weight[:POSITIONS])
    return student


@torch.no_grad()
def inherit(new: Tensor, old: Tensor) -> None:
    """Fill a narrower table with the old one's coordinates along its principal axes."""
    centred = old - old.mean(0)
    new.copy_(centred @ torch.linalg.svd(centred, full_matrices=False).Vh[: new.shape[1]].T)


def distil(student: Classifier, tokenizer: BertTokenizer, train: Split, logits: Tensor, dev: Split) -> None:
    """Train on the teacher's logits for every text, and on the gold labels of labelled ones."""
    gold = torch.tensor(train.labels)

    def loss(out: Tensor, rows: list[int]) -> Tensor:
        entropy = cross_entropy(out, gold[rows], ignore_index=-1, reduction="sum")
        return mse_loss(out, logits[rows]) + entropy / len(rows)

    fit(student, tokenizer, train, dev, loss, STUDENT)


def card(parameters: int, train: int, minutes: float, right: dict[str, str]) -> str:
    """The model card, from the constants above and the numbers of this run."""
    return f"""# Thalweg default model

A small English sentiment classifier (`BertForSequenceClassification`; 0 `negative`, 1 `positive`).
`scripts/train_default_model.py` wrote this folder and measured the numbers below.
{LAYERS} layers, width {WIDTH}, {WIDTH // HEAD_SIZE} heads of size {HEAD_SIZE},
{POSITIONS} positions; lower-casing WordPiece of {VOCABULARY:,} pieces; {parameters:,} parameters.

| accuracy on | used for | student | teacher |
| --- | --- | --- | --- |
| SST-2 dev | choosing the recipe | {right["dev"]} | {right["teacher"]} |
| SST-2 test | this number only | {right["test"]} | |
| held-out IMDB reviews, cut at {POSITIONS} tokens | this number only | {right["reviews"]} | |

## Training

A pretrained BERT, all-MiniLM-L6-v2 (weights Apache-2.0), is fine-tuned on the gold labels with its
embeddings frozen: `{TEACHER}`.
The student takes over its vocabulary, pruned, and its embeddings, along their main axes. It learns
the teacher's logits (squared error) on all text and the gold label (cross-entropy) on SST-2:
`{STUDENT}`.
Both: AdamW, weight decay 0.01, warm-up over 1/16 of the steps, then linear decay to zero, gradient
norm at most 1, dropout 0.1, batches of similar length (`tokens` with padding), last epoch kept.
Seed {SEED}; {minutes:.0f} minutes on two CPU cores; Python {platform.python_version()}, torch
{torch.__version__}, transformers {transformers.__version__}.

## Data

- SST-2 (Socher et al. 2013), train split: {train:,} phrases and sentences, none of them in dev or
  test even without case, spaces and punctuation. Licence: repositories Apache-2.0 and MIT; the
  original data carries no licence statement there.
- IMDB reviews (Maas et al. 2011), train half, labels unused: {SENTENCES:,} sentences and
  {OPENINGS:,} openings of reviews. Licence: package MIT; the reviews carry no licence statement.

## Intended use and limits

For demonstrations, tests and teaching of attention and attribution methods; not for production
decisions. It knows the sentiment of English film reviews only: on other domains, other languages,
irony, double negation ("not a bad film") or neutral text it can be confident and wrong. Few training
texts pass 64 tokens, so later positions are thinly trained; texts must be cut at {POSITIONS}.
It may carry its reviews' biases.
"""


def main() -> None:
    """Train teacher and student, measure, and write the model folder."""
    parser = argparse.ArgumentParser(description="Train the bundled sentiment classifier")
    parser.add_argument("--data", type=Path, required=True, help="folder of the text datasets")
    parser.add_argument("--teacher", type=Path, required=True, help="folder of a BERT encoder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    args, start = parser.parse_args(), time.perf_counter()
    torch.set_num_threads(2)
    dev, test = (read_sst(args.data / "sst2_sentences" / f"{name}.tsv") for name in ("dev", "test"))
    train = merge(list(map(read_sst, sorted(args.data.glob("sst2_*/train.tsv")))), [dev, test])
    reviews = read_reviews(args.data / "imdb25k" / "train.jsonl.gz")
    held_out = Split(reviews.texts[:HELD_OUT_REVIEWS], reviews.labels[:HELD_OUT_REVIEWS])
    transfer = transfer_text(reviews.texts[HELD_OUT_REVIEWS:])
    both = Split(train.texts + transfer, train.labels + [-1] * len(transfer))

    logits, teacher_dev = teach(args.teacher, train, dev, both.texts)
    tokenizer = prune_tokenizer(AutoTokenizer.from_pretrained(args.teacher), both.texts)
    student = new_student(tokenizer, args.teacher)
    distil(student, tokenizer, both, logits, dev)

    minutes = (time.perf_counter() - start) / 60
    splits = {"dev": dev, "test": test, "reviews": held_out}
    right = {name: accuracy(student, tokenizer, split) for name, split in splits.items()}
    right["teacher"] = teacher_dev
    text = card(student.num_parameters(), len(train.texts), minutes, right)
    student.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    (args.out / "model.safetensors").chmod(0o644)
    (args.out / "README.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
