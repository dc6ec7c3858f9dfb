"""Files that are written whole or not at all: safetensors for the numbers, JSON in its header for the rest."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from thalweg.errors import InputError


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """A killed run leaves what was there before: a draft beside the file takes its place when it is complete."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".draft")
    os.close(handle)
    try:
        whole = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
        save_file(whole, draft, metadata={"thalweg": json.dumps(header, allow_nan=False)})
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)  # a draft is private; the result is a file like any other
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def read_tensors(path: Path, what: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote: (tensors, header). Anything else is refused; `what` names what was expected."""
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("thalweg", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is not iterable
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise InputError(f"{str(path)!r} is not {what} that Thalweg saved: {error}") from error
    if not isinstance(header, dict):
        raise InputError(f"{str(path)!r} is not {what} that Thalweg saved: it has no header of ours")
    return tensors, header
