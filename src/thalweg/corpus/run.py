"""Every text of a file through a model: bounded in memory, and killed at any moment it goes on where it was.

file → texts → shards → rows (`work`) → Parquet, one file for each shard
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from thalweg.capture.run import check_ready
from thalweg.capture.target import TargetLike
from thalweg.corpus.job import Certified, Job, make_job
from thalweg.corpus.memory import bound
from thalweg.corpus.result import Corpus
from thalweg.corpus.shards import Reader, Shard, Survey, Text, shards
from thalweg.corpus.storage import Folder
from thalweg.corpus.work import Done, Tick, learn, work
from thalweg.digests import config_digest, tokenizer_digest, weights_digest
from thalweg.errors import InputError, MissingExtraError
from thalweg.models.load import Subject
from thalweg.progress import progress

METHODS = ("attention_rollout", "alti")
ENGINES = ("local", "ray")
Engine = Callable[[Subject, Job, Text | None, Iterator[Shard], Tick], Generator[tuple[Shard, Done]]]


def run_corpus(
    subject: Subject,
    file: str | Path,
    folder: str | Path,
    methods: Sequence[str] = METHODS,
    target: TargetLike = None,
    *,
    certificate: Certified | None = "values",
    maps: bool = False,
    top: int = 5,
    max_tokens: int | None = None,
    batch: int = 32,
    shard: int = 256,
    column: str = "text",
    limit: int | None = None,
    engine: str = "local",
    workers: int | None = None,
) -> Corpus:
    """Put every text of a file through methods and certificates, and write a row for each text and target.

    `file` has one text per line, or is a .csv, .tsv, .jsonl or .parquet with texts in a `column`. `methods` may have
    options, as in "alti:measure=l2"; `target` is as in `explain`. Of each method the `top` sources are kept, all
    scores as safetensors with `maps`. `certificate` "values" says for every head what its values do; "full" asks its
    keys too and costs many times more. Texts of more than `max_tokens` tokens (512, or the model's positions), and
    whatever else fails, become rows with their error. `batch` texts of like length go through the model together;
    `shard` of them are written together. The same call again goes on where a run was stopped. The `engine` "ray" does
    the same work in so many `workers`, or as many as there are cores, here or on the cluster that RAY_ADDRESS names.

    >>> import tempfile
    >>> import thalweg as tw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "texts.txt"
    ...     _ = file.write_text("a witty movie.\\ndull and long.\\n")
    ...     found = run_corpus(tw.load(), file, Path(folder) / "rows", ["attention_rollout"])
    >>> found.texts, found.counts.failed
    (2, 0)
    """
    start = perf_counter()
    run = _engine(engine, workers)
    check_ready(subject.model)
    job = make_job(
        subject, methods, target, certificate=certificate, maps=maps, top=top, max_tokens=max_tokens, batch=batch
    )
    if shard < 1 or (limit is not None and limit < 1):
        raise InputError(f"shard was given {shard} and limit {limit}; expected 1 or more")
    reader = Reader(Path(file), column, limit)
    survey, shown = _survey(subject, reader)
    configuration = _configuration(subject, job, shard, survey)
    store = Folder(Path(folder), configuration, subject.provenance)
    with store.alone(), progress("corpus") as report:
        found = store.counts.texts
        again, done, total = Reader(reader.file, column, limit), 0, survey.texts - found

        def tick(count: int) -> None:
            nonlocal done
            done += count
            report(done, total)

        count = 0

        def missing() -> Iterator[Shard]:
            nonlocal count
            for part in shards(again, shard):
                count += 1
                if not store.has(part):
                    yield part

        with closing(run(subject, job, shown, missing(), tick)) as parts:
            for part, rows in parts:
                store.add(part, rows)
        store.keep_only(count)
        if again.survey() != survey:
            raise InputError(f"{str(file)!r} changed while it was read: run again once it is as it should be")
    return Corpus(
        folder=store.path,
        configuration=configuration,
        provenance=subject.provenance,
        counts=store.counts,
        shards=len(store.done),
        found=found,
        seconds=perf_counter() - start,
        memory=bound(subject, job, shard),
    )


def _engine(name: str, workers: int | None) -> Engine:
    """What takes a job and shards, and gives shards with their rows, in any order."""
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; expected one of {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise InputError(f"workers was given {workers}; expected 1 or more")
    if name == "local":
        if workers is not None:
            raise InputError(f"workers was given {workers}, but the engine 'local' works in this process: choose 'ray'")
        return _here
    try:
        from thalweg.corpus.ray.cluster import on_ray
    except ImportError as error:
        raise MissingExtraError("the engine 'ray' needs Ray: install thalweg[ray]") from error
    return partial(on_ray, workers=workers)


def _here(
    subject: Subject, job: Job, _: Text | None, parts: Iterator[Shard], tick: Tick
) -> Generator[tuple[Shard, Done]]:
    for part in parts:
        yield part, work(subject, job, part, tick)


def _survey(subject: Subject, reader: Reader) -> tuple[Survey, Text | None]:
    """Read the corpus once: how many texts there are, and the one from which the model was understood."""
    shown = None
    for text in reader:
        if shown is None and learn(subject, text):
            shown = text
    survey = reader.survey()
    if not survey.texts:
        raise InputError(f"{str(reader.file)!r} is empty; expected texts under {reader.column!r}")
    return survey, shown


def _configuration(subject: Subject, job: Job, shard: int, survey: Survey) -> dict[str, Any]:
    """All that rows depend on: choices as they are, texts, weights, architecture and tokenizer by a digest."""
    assert subject.tokenizer is not None
    return {
        **job.asked(),
        "shard": shard,
        "texts": survey.texts,
        "digest": survey.digest,
        "weights": weights_digest(subject.model),
        "architecture": config_digest(subject.model.config),
        "tokenizer": tokenizer_digest(subject.tokenizer),
        "task": subject.task,
        "dtype": subject.provenance["dtype"],
    }
