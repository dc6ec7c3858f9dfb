"""An upper bound of the memory that a run takes beyond the model and the libraries.

    batch   tokens · (14 · layers · width + 16 · width + 4 · logits)       a forward pass and what is cut out of it
    text    layers · n² · (7 + methods) + 10 · min(heads · n², 2²³)        maps of one text, weights of one layer
    shard   rows · methods · (600 + 350 · top) bytes, and per text layers · (800 · heads + 600 · methods) and, if texts
            are kept, n · (350 + 40 · methods) for its words, twice

Numbers have 4 bytes, or 8 in double precision; n is `max_tokens`. The bound does not depend on the length of the file.
"""

from thalweg.capture.record import CHUNK_WEIGHTS
from thalweg.corpus.job import Job
from thalweg.corpus.model_sizes import sizes_of
from thalweg.corpus.shards import MAX_SHARD_CHARACTERS
from thalweg.models.subject import Subject

OVERHEAD_BYTES = 2**27  # tables under construction, and memory that an allocator does not return


def memory_bound(subject: Subject, job: Job, shard: int) -> int:
    """Bytes that a run takes at most beyond the model, with `shard` texts in a shard."""
    sizes, tokens, methods = sizes_of(subject), job.max_tokens, max(1, len(job.methods))
    square = tokens**2
    batch = max(job.batch_tokens, tokens) * sizes.bytes_per_token
    text = sizes.layers * square * (7 + methods) + 10 * min(sizes.heads * square, CHUNK_WEIGHTS)
    if job.certificate == "full":
        text += 4 * CHUNK_WEIGHTS
    rows = min(shard * _max_targets(subject, job), max(shard, MAX_SHARD_CHARACTERS))
    heads = sizes.heads * 800 if job.certificate else 0
    written = rows * methods * (600 + 350 * job.top) + shard * sizes.layers * (heads + methods * 600)
    if job.text == "keep":
        written += min(shard * tokens, max(tokens, MAX_SHARD_CHARACTERS)) * (350 + 40 * methods)
    maps = 4 * methods * rows * tokens if job.maps else 0
    return batch + sizes.number_bytes * text + 2 * written + maps + 4 * MAX_SHARD_CHARACTERS + OVERHEAD_BYTES


def _max_targets(subject: Subject, job: Job) -> int:
    """Rows of a text at most."""
    if isinstance(job.target, tuple):
        return len(job.target)
    predicts_once = subject.task in ("classification", "causal_lm", "seq2seq")
    single = isinstance(job.target, int) or (job.target in (None, "prediction") and predicts_once)
    return 1 if single else job.max_tokens
