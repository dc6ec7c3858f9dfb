"""Atomic files, and safetensors with a JSON header."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from safetensors import SafetensorError, safe_open

from thalweg.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

DRAFT = ".draft"


@contextmanager
def draft_of(path: Path) -> Iterator[str]:
    """Yield a draft that replaces the file once complete; a killed process leaves the old file intact."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=DRAFT)
    os.close(handle)
    try:
        yield draft
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)  # a draft is private; the result is a file like any other
        _sync(Path(draft))  # a rename that reaches the disk before its content would lose both
        os.replace(draft, path)
        _sync(path.parent)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_tensors(path: Path, tensors: Mapping[str, "Tensor"], header: Mapping[str, Any]) -> None:
    """Write tensors with a header; not atomic by itself, so write to a draft."""
    import torch
    from safetensors.torch import save_file

    contiguous = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    try:
        save_file(contiguous, path, metadata={"thalweg": json.dumps(header, allow_nan=False)})
    except SafetensorError as error:  # how safetensors reports a full disk
        raise OSError(str(error)) from error


def read_tensors(
    path: Path, content: str, framework: Literal["pt", "numpy"] = "pt"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the (tensors, header) that `write_tensors` wrote; `content` names what is expected in errors."""
    with _tensors(path, content, framework) as (file, header):
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118 - a file is not iterable


def read_header_of_tensors(path: Path, content: str) -> dict[str, Any]:
    """Read the header alone; a truncated file is an error."""
    with _tensors(path, content, "numpy") as (_, header):
        return header


def _sync(path: Path) -> None:
    """Flush a file or the entries of a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _tensors(path: Path, content: str, framework: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    try:
        with safe_open(str(path), framework=framework) as file:
            header = json.loads((file.metadata() or {}).get("thalweg", "null"))
            if not isinstance(header, dict):
                raise InputError(f"{path} is not {content} saved by Thalweg: it has no Thalweg header")
            yield file, header
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"cannot read {content} from {path}: {error}") from error
