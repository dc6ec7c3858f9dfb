"""Run a job over every text of a file, in bounded memory; interrupted runs resume.

file → texts → shards → rows (`process_shard`) → one Parquet file per shard
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any

from thalweg.capture.run import check_ready
from thalweg.capture.target import TargetLike
from thalweg.corpus.engines import Engine, find_engine
from thalweg.corpus.job import CertificateKind, Job, TextKind, check_positive, make_job
from thalweg.corpus.memory import memory_bound
from thalweg.corpus.process import learn_wiring
from thalweg.corpus.result import Corpus
from thalweg.corpus.shard_store import ShardStore, open_store
from thalweg.corpus.shards import CorpusText, Shard, TextReader, TextSurvey, split_shards
from thalweg.errors import InputError
from thalweg.models.subject import Subject
from thalweg.progress import progress

DEFAULT_METHODS = ("attention_rollout", "alti")


def run_corpus(
    subject: Subject,
    file: str | Path,
    folder: str | Path,
    methods: Sequence[str] = DEFAULT_METHODS,
    target: TargetLike = None,
    *,
    certificate: CertificateKind | None = "values",
    maps: bool = False,
    top: int = 5,
    max_tokens: int | None = None,
    batch: int = 32,
    shard: int = 256,
    column: str = "text",
    id_column: str | None = None,
    text: TextKind = "keep",
    limit: int | None = None,
    engine: str = "local",
    workers: int | None = None,
) -> Corpus:
    """Run methods and certificates over every text of a file, and write a row per text and target.

    `file` has one text per line, or is a .csv, .tsv, .jsonl or .parquet with texts in a `column` and, if there is an
    `id_column`, their ids in another. Rows keep the text and the shares of its words; with `text` "hash" only a hash of
    it and the largest sources. `methods` may carry
    options, as in "alti:measure=l2"; `target` is as in `explain`. The `top` sources of each method are kept; `maps`
    writes all scores as safetensors. `certificate` "values" judges every head by its values; "full" uses the keys as
    well and is far slower. Texts with more than `max_tokens` tokens (512, or the model's positions) and texts that fail
    become rows with an error. `batch` texts of similar length share a forward pass, and `shard` texts share a file.
    The same call resumes an interrupted run. The `engine` "ray" uses `workers` processes (default: one per core), on
    this machine or on the cluster at RAY_ADDRESS.

    >>> import tempfile
    >>> import thalweg as tw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "texts.txt"
    ...     _ = file.write_text("a witty movie.\\ndull and long.\\n")
    ...     corpus = run_corpus(tw.load(), file, Path(folder) / "rows", ["attention_rollout"])
    >>> corpus.texts, corpus.counts.failed
    (2, 0)
    """
    start = perf_counter()
    process = find_engine(engine, workers)
    check_ready(subject.model)
    job = make_job(
        subject,
        methods,
        target,
        certificate=certificate,
        maps=maps,
        top=top,
        max_tokens=max_tokens,
        batch=batch,
        text=text,
    )
    check_positive(shard=shard, limit=limit)
    reader = TextReader(Path(file), column, limit, id_column)
    survey, wiring_text = _survey(subject, reader)
    identity: dict[str, Any] = {
        **subject.identity(),
        "texts": survey.texts,
        "texts_digest": survey.digest,
        **job.identity(),
        "shard": shard,
    }
    with open_store(Path(folder), identity, subject.provenance) as store:
        resumed = store.counts.texts
        _write_missing(store, process, subject, job, wiring_text, reader.restarted(), survey)
        return Corpus(
            folder=store.folder.path,
            identity=store.folder.header.identity,
            provenance=store.folder.header.provenance,
            counts=store.counts,
            shards=len(store.labels),
            resumed=resumed,
            seconds=perf_counter() - start,
            memory=memory_bound(subject, job, shard),
        )


def _survey(subject: Subject, reader: TextReader) -> tuple[TextSurvey, CorpusText | None]:
    """Read the file once: count and digest its texts, and learn the model's wiring from the first usable one."""
    wiring_text = None
    for text in reader:
        if wiring_text is None and learn_wiring(subject, text):
            wiring_text = text
    survey = reader.survey()
    if not survey.texts:
        raise InputError(f"{reader.file} has no texts in column {reader.column!r}")
    return survey, wiring_text


def _write_missing(
    store: ShardStore,
    process: Engine,
    subject: Subject,
    job: Job,
    wiring_text: CorpusText | None,
    reader: TextReader,
    survey: TextSurvey,
) -> None:
    """Process the shards that the store lacks; raise if the file changed since it was surveyed."""
    finished, shard_count, total = 0, 0, survey.texts - store.counts.texts

    def missing() -> Iterator[Shard]:
        nonlocal shard_count
        for shard in split_shards(reader, store.folder.header.identity["shard"]):
            shard_count += 1
            if not store.has(shard):
                yield shard

    with progress("corpus") as report:

        def tick(texts: int) -> None:
            nonlocal finished
            finished += texts
            report(finished, total)

        with closing(process(subject, job, wiring_text, missing(), tick)) as results:
            for shard, result in results:
                store.add(shard, result)
    store.keep_only(shard_count)
    if reader.survey() != survey:
        raise InputError(f"{reader.file} was modified during the run; run the same command again to update the rows")
