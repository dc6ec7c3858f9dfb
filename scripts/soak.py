"""Attack the library for a while, and write what it withstood to docs/reliability.md (needs chromium).

    python -m scripts.soak           # about a quarter of an hour on two cores
    python -m scripts.soak --quick   # about two minutes; --tiny: what the tests run

Exits with 1 if anything was lost, went unnoticed, leaked or ran.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from playwright.sync_api import Browser, sync_playwright

import thalweg as tw
from benchmarks.timing import peak_megabytes
from tests.corpus.folders import sentences, untimed_rows
from tests.encoders.training.corpus import TINY, cued
from tests.probing.corpus import sentences as distinct_sentences
from tests.tiny import snapshot, tiny_subject
from thalweg.cli.output import silence_transformers
from thalweg.corpus.query import query
from thalweg.corpus.run import run_corpus
from thalweg.encoders.training import loop
from thalweg.encoders.training import train as training
from thalweg.errors import DamagedFileWarning
from thalweg.faithfulness.bench import bench
from thalweg.faithfulness.row_store import RowStore
from thalweg.files.run_folder import HEADER, LOCK
from thalweg.probing import mlp
from thalweg.probing import probe as probing

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
FLAT_MEGABYTES = 16.0  # growth that counts as none
Run = Callable[[Path], Any]


@dataclass(frozen=True)
class Size:
    """How often each attack is tried."""

    kills: int  # of each kind of run
    flips: int  # of each folder
    escapes: int
    pages: int
    explains: int
    lines: int
    interrupts: int


SIZES = {
    "tiny": Size(kills=2, flips=3, escapes=25, pages=1, explains=30, lines=300, interrupts=20),
    "quick": Size(kills=5, flips=10, escapes=100, pages=4, explains=200, lines=2_000, interrupts=150),
    "full": Size(kills=95, flips=25, escapes=120, pages=15, explains=2_000, lines=30_000, interrupts=1_000),
}


@dataclass(frozen=True)
class Finding:
    """What an attack did, how it ended, and whether that is as it should be."""

    attack: str
    outcome: str
    held: bool


# Four kinds of runs, small enough to be repeated, and their results without times.


@cache
def subject() -> tw.Subject:
    return tiny_subject("bert")


def run_small_corpus(folder: Path) -> None:
    file = folder.parent / "texts.txt"
    file.write_text("\n".join(sentences(14)))
    run_corpus(subject(), file, folder, ["attention_rollout", "alti"], shard=2, maps=True)


def run_small_bench(folder: Path) -> None:
    bench(subject(), sentences(5), ["alti", "random"], ["aopc"], folder=folder)


def run_small_probe(folder: Path) -> None:
    probing.probe(subject(), distinct_sentences(60), kinds=("linear", "mlp"), metrics=("cosine",), folder=folder)


def run_small_train(folder: Path) -> None:
    training.train(cued(120), folder, replace(TINY, epochs=2))


RUNS: dict[str, Run] = {
    "corpus": run_small_corpus,
    "bench": run_small_bench,
    "probe": run_small_probe,
    "train": run_small_train,
}


def result_of(kind: str, folder: Path) -> Any:
    """The result of a finished run, without times."""
    if kind == "corpus":
        return untimed_rows(folder), [file.read_bytes() for file in sorted(folder.glob("maps-*"))]
    if kind == "bench":
        return [{**row, "seconds": None} for row in tw.Bench.load(folder).rows]
    if kind == "probe":
        return tw.Probes.load(folder).to_dict(), _digest(folder / "probes.safetensors")
    return tw.Training.load(folder).figures, _digest(folder / "model.safetensors")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def kills(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Kill runs at random moments; each must end with the result of a run that was left alone."""
    counts, wrong = Counter[str](), []
    for kind, run in RUNS.items():
        whole = folder / f"{kind}-whole" / "run"
        whole.parent.mkdir()
        run(whole)
        start = time.monotonic()
        _wait(_start(run, _fresh(folder / f"{kind}-timed")))
        duration, expected = time.monotonic() - start, result_of(kind, whole)
        out = _fresh(folder / kind)
        while counts[kind] < size.kills:
            child = _start(run, out)
            time.sleep(chance.uniform(0, duration))
            os.kill(child, signal.SIGKILL)
            if _wait(child) == -signal.SIGKILL:
                counts[kind] += 1
                continue
            if result_of(kind, out) != expected:  # it had ended before the kill
                wrong.append(kind)
            out = _fresh(folder / kind)
        if _wait(_start(run, out)) or result_of(kind, out) != expected:
            wrong.append(kind)
    listed = ", ".join(f"{count} of `{kind}`" for kind, count in counts.items())
    outcome = f"{listed}: " + (f"other results in {wrong}" if wrong else "every result equals that of an unkilled run")
    return Finding(f"{counts.total()} SIGKILLs at random moments", outcome, not wrong)


def _fresh(folder: Path) -> Path:
    """An empty place for a run."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder / "run"


def _start(run: Run, folder: Path) -> int:
    """Run in a child process, where damage is a failure."""
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            warnings.simplefilter("error", DamagedFileWarning)
            run(folder)
            code = 0
        os._exit(code)
    return child


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def damage(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Flip a bit in a file of a run; the next run must notice it and end with the result of an intact one."""
    counts, wrong = Counter[str](), []
    for kind, run in RUNS.items():
        whole = _fresh(folder / f"intact-{kind}")
        run(whole)
        expected = result_of(kind, whole)
        for finished in (True, False):
            intact = _fresh(folder / f"damaged-{kind}")
            with suppress(KeyboardInterrupt), _stopped_late(not finished):
                run(intact)
            names = sorted(file.name for file in intact.iterdir() if file.name != LOCK)
            chance.shuffle(names)
            for number in range(size.flips):
                copy, name = _fresh(folder / "flipped"), names[number % len(names)]
                shutil.copytree(intact, copy)
                _flip_bit(copy / name, chance)
                outcome = _resumed(run, copy, kind, expected)
                counts[outcome] += 1
                if outcome == "unnoticed" or (outcome == "refused" and name != HEADER):
                    wrong.append(f"{kind} {name}")
    noticed = f"{counts['repaired']} reported and computed again, {counts['refused']} headers refused"
    outcome = f"{noticed}, {counts['harmless']} without effect; " + (
        f"not noticed: {sorted(set(wrong))}" if wrong else "no result differs"
    )
    return Finding(
        f"{counts.total()} single bits flipped in shards, maps, rows, checkpoints, models, …", outcome, not wrong
    )


@contextmanager
def _stopped_late(wanted: bool) -> Iterator[None]:
    """Stop probe and train after their last checkpoint, and bench before it merges its files."""
    places = [(probing, "measure"), (training, "figures"), (RowStore, "finish")] if wanted else []
    before = [getattr(owner, name) for owner, name in places]

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    for owner, name in places:
        setattr(owner, name, stop)
    try:
        yield
    finally:
        for (owner, name), function in zip(places, before, strict=True):
            setattr(owner, name, function)


def _flip_bit(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes() or b"\0")
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def _resumed(run: Run, folder: Path, kind: str, expected: Any) -> str:
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", DamagedFileWarning)
        try:
            run(folder)
        except tw.InputError:
            return "refused"
    if result_of(kind, folder) != expected:
        return "unnoticed"
    return "repaired" if any(warning.category is DamagedFileWarning for warning in raised) else "harmless"


SECRET = "the secret of this machine"
ESCAPES = (
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT content FROM read_text((SELECT '{secret}'))",
    "WITH leak AS (SELECT * FROM read_text('{secret}')) SELECT * FROM leak",
    "SELECT count(*) FROM rows; SELECT * FROM read_text('{secret}')",
    "COPY (SELECT 1) TO '{folder}/written.csv'",
    "COPY rows TO '{folder}/written.parquet' (FORMAT parquet)",
    "EXPORT DATABASE '{folder}/written'",
    "ATTACH '{folder}/written.db' AS other; CREATE TABLE other.t AS SELECT 1",
    "ATTACH '{folder}/written.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "INSTALL '{secret}'",
    "SET enable_external_access = true; SELECT * FROM read_text('{secret}')",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "PRAGMA enable_external_access",
    "SELECT getenv('HOME')",
    "CREATE TABLE t AS SELECT * FROM read_text('{secret}')",
    "CREATE MACRO leak() AS TABLE SELECT * FROM read_text('{secret}'); SELECT * FROM leak()",
    "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "IMPORT DATABASE '{folder}'",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SET temp_directory = '{folder}/written'",
    "SELECT * FROM subject",
    "SELECT * FROM SECRET",
)
FRAMES = ("{}", "/* rows */ {}", "{};", "EXPLAIN ANALYZE {}")


def escapes(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Try to read or write outside of the rows from SQL."""
    rows, outside = folder / "sql" / "run", folder / "outside"
    rows.parent.mkdir()
    outside.mkdir()
    run_small_corpus(rows)
    secret = outside / "secret.txt"
    secret.write_text(SECRET)
    before = {file.name: file.stat().st_mtime_ns for file in (*outside.iterdir(), *rows.iterdir())}
    attempts = [frame.format(sql) for frame in FRAMES for sql in ESCAPES][: size.escapes]
    refused, leaked = 0, []
    for sql in attempts:
        try:
            answer = str(query(rows, sql.format(secret=secret, folder=outside)).rows)
        except tw.InputError:
            refused += 1
            continue
        if SECRET in answer or os.environ.get("HOME", SECRET) in answer or "secret.txt" in answer:
            leaked.append(sql)
    after = {file.name: file.stat().st_mtime_ns for file in (*outside.iterdir(), *rows.iterdir())}
    answers = query(rows, "SELECT count(*) > 0 FROM rows").rows == ((True,),)  # it does not refuse everything
    held = answers and not leaked and after == before
    outcome = (
        f"{refused} refused, {len(attempts) - refused} answered with nothing from outside"
        if held
        else f"leaked: {leaked}"
    )
    return Finding(
        f"{len(attempts)} SQL queries that try to read or write files, load extensions or change settings",
        outcome,
        held,
    )


HOSTILE = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    '"><iframe srcdoc="<script>parent.pwned=1</script>">',
    "javascript:window.pwned=1",
    "' onmouseover='window.pwned=1",
    '" autofocus onfocus="window.pwned=1',
    "<style>@import'http://192.0.2.1/x'</style>",
    "<link rel=stylesheet href=http://192.0.2.1/x>",
    "<base href=http://192.0.2.1/>",
    "<!--<script>window.pwned=1//-->",
    "]]><script>window.pwned=1</script>",
    "${window.pwned=1}`;window.pwned=1//",
    "\u2028window.pwned=1\u202e<meta http-equiv=refresh content='0;url=http://192.0.2.1'>",
)


def pages(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Open reports whose tokens, labels and model names are HTML and scripts."""
    attacked = []
    with _browser() as browser:
        control = folder / "control.html"
        control.write_text(f"<html data-ready>{HOSTILE[0]}</html>")
        if _is_harmless(browser, control):
            attacked.append("nothing, but the control page was not noticed")
        for attack in HOSTILE[: size.pages]:
            hostile = _hostile_subject(attack)
            file = folder / "page.html"
            file.write_text(tw.report(hostile, f"a {attack} movie.").to_html(), encoding="utf-8")
            if not _is_harmless(browser, file):
                attacked.append(attack)
    opened = min(size.pages, len(HOSTILE))
    outcome = f"ran or fetched: {attacked}" if attacked else "none ran a script, fetched anything or logged an error"
    return Finding(
        f"{opened} hostile pages in a browser (tokens, labels and names that are HTML or scripts)",
        outcome,
        not attacked,
    )


@contextmanager
def _browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    root = os.geteuid() == 0  # chromium's sandbox does not run as root
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()


def _hostile_subject(attack: str) -> tw.Subject:
    """The bundled model with the attack as a token, as its labels and as its name."""
    bundled = tw.load()
    tokenizer: Any = bundled.tokenizer
    tokenizer.add_tokens([attack])
    bundled.model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    bundled.model.config.id2label = {0: attack, 1: f"other {attack}"}
    return replace(tw.load(bundled.model, tokenizer), name=attack)


def _is_harmless(browser: Browser, file: Path) -> bool:
    page = browser.new_page()
    events: list[str] = []
    page.on("request", lambda request: events.append(request.url))
    page.on("console", lambda message: events.append(message.text))
    page.on("pageerror", lambda error: events.append(str(error)))
    page.on("dialog", lambda dialog: events.append(dialog.message))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    for token in page.query_selector_all("[data-token], button")[:20]:
        with suppress(Exception):  # not every one can be reached
            token.hover(timeout=50)
    page.wait_for_timeout(100)
    pwned = page.evaluate("window.pwned")
    page.close()
    return pwned is None and [url for url in events if url not in (file.as_uri(), "about:srcdoc")] == []


def explains(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Explain many texts; memory must not grow."""
    model, texts = tw.load(), sentences(9)

    def explain(count: int) -> float:
        for number in range(count):
            tw.explain(model, texts[number % len(texts)], ("alti", "attention_rollout", "norm_based")[number % 3])
        return _resident_megabytes()

    start = explain(max(30, size.explains // 10))
    end = explain(size.explains)
    return Finding(
        f"{size.explains:,} explains in one process",
        f"resident memory {start:.0f} MB before, {end:.0f} MB after",
        end - start < FLAT_MEGABYTES,
    )


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def lines(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Run over files of two lengths; the peak must not depend on it."""
    few, many = max(100, size.lines // 20), size.lines
    small, large = (peak_megabytes("benchmarks.corpus", str(count)) for count in (few, many))
    return Finding(
        f"`corpus` over {many:,} lines", f"peak {large:.0f} MB; over {few:,} lines {small:.0f} MB", large < 1.1 * small
    )


def interrupts(size: Size, folder: Path, chance: random.Random) -> Finding:
    """Press Ctrl-C at random moments of a capture; nothing may stay on the model."""
    model = tiny_subject("bert")
    text = sentences(9)[-1]
    start = time.monotonic()
    model.capture(text)
    first = time.monotonic() - start
    before, stopped, dirty = {**snapshot(model.model), "random": None}, 0, 0
    for number in range(size.interrupts):
        fresh = tw.load(model.model, model.tokenizer) if number % 2 else model  # every other one learns the wiring too
        timer = threading.Timer(chance.uniform(0, first / 2), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while timer.is_alive():
                fresh.capture(text)
            timer.join()
        except KeyboardInterrupt:
            stopped += 1
        dirty += {**snapshot(model.model), "random": None} != before
    return Finding(
        f"{stopped:,} times Ctrl-C at random moments of a capture",
        f"hooks or settings left on the model: {dirty}",
        not dirty,
    )


# Lines first: the peak of a child process counts from the memory that this process has when it starts it.
ATTACKS = (lines, kills, damage, escapes, pages, explains, interrupts)


def write_page(findings: list[Finding], name: str, minutes: float) -> str:
    option = "" if name == "full" else f" --{name}"
    rows = "\n".join(f"| {row.attack} | {row.outcome} | {'yes' if row.held else '**no**'} |" for row in findings)
    return f"""# Reliability

Written by `python -m scripts.soak{option}` (`make soak` runs the full size) with Thalweg {tw.__version__} and torch
{torch.__version__} on {os.cpu_count()} cores, in {minutes:.0f} minutes. Every row is one function of
[`scripts/soak.py`](../scripts/soak.py); moments, files and bits are drawn with a fixed seed. The tests run the same
attacks at the smallest size.

| attack | outcome | held |
| --- | --- | --- |
{rows}

Kills and damage use tiny models, so that runs can be repeated often; explains, lines and pages use the bundled model. A
flipped bit without effect hit white space in a header, or the digest of a file that is gone or was replaced.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name in ("quick", "tiny"):
        parser.add_argument(f"--{name}", dest="size", action="store_const", const=name, default="full")
    parser.add_argument("--page", type=Path, default=PAGE, help="file to write")
    parser.add_argument("--only", choices=[attack.__name__ for attack in ATTACKS], help="a single attack, no page")
    options = parser.parse_args()
    silence_transformers()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of child processes
    loop.CHECKPOINT_SECONDS, mlp.MAX_EPOCHS = 0.0, 3  # many checkpoints in a short run
    size, start, findings = SIZES[options.size], time.monotonic(), []
    for attack in ATTACKS:
        if options.only in (None, attack.__name__):
            began = time.monotonic()
            with TemporaryDirectory() as folder:
                findings.append(attack(size, Path(folder), random.Random(7)))
            finding = findings[-1]
            verdict = "held" if finding.held else "BROKEN"
            print(f"{verdict}: {finding.attack}: {finding.outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    if options.only is None:
        options.page.write_text(write_page(findings, options.size, (time.monotonic() - start) / 60), encoding="utf-8")
    sys.exit(not all(finding.held for finding in findings))


if __name__ == "__main__":
    main()
