"""Files of results that are damaged or crafted: each is refused with an error that names it, or read and shown."""

import copy
import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from rich.console import Console
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import thalweg as tw
from tests.attribution.handmade import SCORES, attribution
from tests.corpus.folders import hand_made, write_folder
from tests.tiny import tiny_subject
from thalweg.files.run_folder import HEADER, RunHeader

TEXTS = [f"the {old} {cat} sees {it}." for old in ("old", "new", "bad") for cat in ("cat", "dog") for it in ("it", "a")]
JUNK: tuple[Any, ...] = (
    None, True, -1, 10**30, 1e308, float("nan"), float("inf"), "", "\x1b[2J", "x" * 99, [], {}, [None], [[]], {"a": 1},
)  # fmt: skip
MUTATIONS = 100  # of each file


@dataclass(frozen=True)
class Kind:
    """A kind of result: how to write one, which of its files hold JSON, and how to read it."""

    write: Callable[[Path], None]
    load: Callable[[Path], Any]
    files: tuple[str, ...]


def _attribution(folder: Path) -> None:
    attribution(per_layer=np.stack([SCORES, SCORES.T]), errors=np.abs(SCORES)).save(folder / "saved.safetensors")


def _train(folder: Path) -> None:
    examples = tw.LabelledTexts(TEXTS * 2, ["a", "b"] * len(TEXTS))
    tw.train(examples, folder, tw.TrainingPlan(epochs=1, width=8, heads=1, layers=1))


def _corpus(folder: Path) -> None:
    write_folder(folder, [hand_made(0, error="failed"), hand_made(1)])


KINDS = {
    "attribution": Kind(
        _attribution, lambda folder: tw.Attribution.load(folder / "saved.safetensors"), ("saved.safetensors",)
    ),
    "probes": Kind(
        lambda folder: tw.probe(tiny_subject(), TEXTS, kinds=["mlp"], folder=folder) and None,
        tw.Probes.load,
        ("run.json", "probes.safetensors"),
    ),
    "training": Kind(_train, tw.Training.load, ("training.json",)),
    "bench": Kind(
        lambda folder: tw.bench(tiny_subject(), TEXTS[:2], ["alti", "random"], ["sufficiency"], folder=folder) and None,
        tw.Bench.load,
        ("run.json", "rows.parquet"),
    ),
    "corpus": Kind(_corpus, tw.Corpus.load, ("run.json", "shard-000000.parquet")),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name, kind in KINDS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        kind.write(folders[name])
    return folders


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield from places(entry, (*here, name))


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with one entry removed, replaced by junk, doubled or nested deeply."""
    value = copy.deepcopy(value)
    *above, last = chance.choice(list(places(value))[1:])
    parent = value
    for name in above:
        parent = parent[name]
    what = chance.choice(("remove", "junk", "junk", "junk", "double", "nest"))
    if what == "remove":
        del parent[last]
    elif what == "double" and isinstance(parent, list):
        parent.append(parent[last])
    elif what == "nest":
        for _ in range(chance.choice((5, 100))):
            parent[last] = [parent[last]]
    else:
        parent[last] = copy.deepcopy(chance.choice(JUNK))
    return value


def rewrite(file: Path, chance: random.Random) -> None:
    """Change one thing in a file, keeping its format and the digest of a run's header."""
    if file.suffix == ".json":
        content = mutated(json.loads(file.read_text()), chance)
        if file.name == HEADER and isinstance(content.get("identity"), dict):
            content["digest"] = RunHeader(content["identity"], {}).digest  # else nothing but the digest would be read
        file.write_text(json.dumps(content))
    elif file.suffix == ".safetensors":
        with safe_open(str(file), framework="numpy") as opened:
            header = json.loads(opened.metadata()["thalweg"])
        tensors = load_file(file)
        if chance.random() < 0.2:
            name = chance.choice(sorted(tensors))
            tensors[name] = chance.choice(
                [
                    tensors[name][..., :1],
                    np.full_like(tensors[name], np.nan),
                    tensors[name].astype(np.int32),
                    np.ones(()),
                ]
            ).copy()
        else:
            header = mutated(header, chance)
        save_file(tensors, file, metadata={"thalweg": json.dumps(header)})
    else:
        table = parquet.read_table(file)
        metadata = dict(table.schema.metadata or {})
        if metadata.get(b"thalweg") and chance.random() < 0.7:
            metadata[b"thalweg"] = json.dumps(mutated(json.loads(metadata[b"thalweg"]), chance)).encode()
        else:
            name = chance.choice(table.column_names)
            table = table.drop_columns([name])
            if chance.random() < 0.7:
                junk = chance.choice([[None], [-1], ["x"], [1e308], [float("nan")], [[["a"]]], [b"\xff"]])
                table = table.append_column(name, pyarrow.array(junk * table.num_rows))
        parquet.write_table(table.replace_schema_metadata(metadata), file)


def damage(file: Path, chance: random.Random) -> None:
    """Truncate the file, or flip bits or overwrite bytes in it."""
    content = bytearray(file.read_bytes())
    what = chance.choice(("cut", "flip", "flip", "fill"))
    if what == "cut":
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.choice((1, 8)) if what == "flip" else 0):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    if what == "fill":
        start = chance.randrange(len(content))
        content[start : start + 16] = bytes(16)
    file.write_bytes(content)


def outcome(load: Callable[[Path], Any], folder: Path) -> str | None:
    """What is wrong with how a folder is read; None if it is refused with its name, or read and shown."""
    try:
        result = load(folder)
    except tw.InputError as error:
        return None if str(folder) in str(error) else f"error without the file: {error}"
    except Exception as error:  # noqa: BLE001 - that is what is counted
        return f"load: {error!r}"
    try:
        Console(file=io.StringIO(), width=100).print(result)
        str(result)
        result.to_dict()
    except Exception as error:  # noqa: BLE001
        return f"show: {error!r}"
    return None


@pytest.mark.parametrize("how", [rewrite, damage])
@pytest.mark.parametrize(("name", "file"), [(name, file) for name, kind in KINDS.items() for file in kind.files])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_file_when_it_is_damaged_or_crafted_then_is_refused_by_name_or_shown(
    name: str,
    file: str,
    how: Callable[[Path, random.Random], None],
    originals: dict[str, Path],
    tmp_path: Path,
    as_a_user: None,
) -> None:
    assert outcome(KINDS[name].load, originals[name]) is None
    KINDS[name].load(originals[name])
    wrong: dict[str, int] = {}
    for seed in range(MUTATIONS):
        folder = tmp_path / str(seed)
        shutil.copytree(originals[name], folder)
        how(folder / file, random.Random(seed))
        problem = outcome(KINDS[name].load, folder)
        if problem:
            wrong[problem] = seed
        shutil.rmtree(folder)
    assert not wrong


@pytest.mark.parametrize("name", KINDS)
def test_header_when_it_is_nested_a_hundred_thousand_times_then_is_refused(
    name: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(originals[name], folder)
    file = folder / KINDS[name].files[0]
    deep = '{"schema": ' + "[" * 100_000 + "]" * 100_000 + "}"
    digits = '{"schema": ' + "9" * 10_000 + "}"
    for content in (deep, digits):
        if file.suffix == ".json":
            file.write_text(content)
        else:
            save_file({"scores": SCORES}, file, metadata={"thalweg": content})
        with pytest.raises(tw.InputError, match=folder.name):
            KINDS[name].load(folder)
