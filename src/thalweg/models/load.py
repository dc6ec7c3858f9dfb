"""Load a model from a folder or the Hub, or take one that is already built."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import thalweg.encoders  # noqa: F401 - registers its models with AutoModel
from thalweg.errors import InputError, ModelError, unknown_name
from thalweg.models.subject import Subject
from thalweg.models.tasks import AUTO_CLASSES, Task, task_of

DEFAULT_FOLDER, DEFAULT_NAME = Path(__file__).parent / "default", "thalweg-default"
HUB_OPTIONS = ("trust_remote_code", "revision", "token", "cache_dir", "local_files_only", "subfolder", "gguf_file")
TOKENIZER_FILES = ("*token*", "*vocab*", "*.gguf")


@torch.inference_mode(False)  # also if the caller disabled gradients
def load(
    model: PreTrainedModel | str | Path | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    task: Task | None = None,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    trust_remote_code: bool = False,
    truncate: bool = False,
    **options: Any,
) -> Subject:
    """Load a model to explain: the bundled one, a folder, a Hub id, or a transformers model object.

    The task follows from the checkpoint's class unless `task` is set. Only safetensors weights are read
    (`use_safetensors=False` allows others), and code from the Hub runs only with `trust_remote_code=True`. With
    `truncate`, texts of more tokens than the model has positions for are cut instead of refused. Other options are
    passed to `from_pretrained`. A model object is used as it is: call `eval()` on it first.

    >>> import thalweg as tw
    >>> tw.load().task
    'classification'
    """
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"tokenizer must be a transformers tokenizer, got {type(tokenizer).__name__}")
    if isinstance(dtype, str) and dtype != "auto" and not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise InputError(f"dtype must be a torch dtype or its name, such as 'bfloat16', got {dtype!r}")
    check_task(task)
    if isinstance(model, PreTrainedModel):
        if device is not None or dtype is not None or options:
            raise InputError("device, dtype and loading options need a folder or Hub id: this model is already built")
        return _from_object(model, tokenizer, task, truncate)
    if model is not None and not isinstance(model, str | Path):
        raise InputError(f"model must be a transformers model, a folder or a Hub id, got {type(model).__name__}")
    name = DEFAULT_NAME if model is None else str(model)
    source = find_source(name)
    _check_device(device)
    options = {"dtype": dtype or "auto", "trust_remote_code": trust_remote_code, **options}
    subject = _from_checkpoint(source, name, tokenizer, task, device, options)
    return replace(subject, truncate=truncate)


def check_task(task: str | None) -> None:
    """Raise for a task that does not exist; None stands for that of the checkpoint."""
    if task is not None and task not in AUTO_CLASSES:
        raise unknown_name("task", task, AUTO_CLASSES)


def find_source(name: str) -> str:
    """The folder or Hub id of a model's name; raises for a path that is not a folder."""
    source = str(DEFAULT_FOLDER) if name == DEFAULT_NAME else name
    source = str(Path(source).expanduser()) if source.startswith("~") else source
    if _looks_like_path(source) and not Path(source).is_dir():
        raise ModelError(f"no folder {source!r}: use the path of a model folder, or a Hub id")
    return source


def _check_device(device: str | torch.device | None) -> None:
    """Raise for a device that does not exist, or that no numbers can be computed on."""
    if device is None:
        return
    try:
        torch.zeros(1, device=device).item()  # fails on the device meta as well, which holds no numbers
    except (RuntimeError, AssertionError, ImportError, NotImplementedError, ValueError, TypeError) as error:
        kinds = [kind for kind in ("cuda", "xpu", "mps") if getattr(torch, kind).is_available()]
        available = ", ".join(f"{kind}:{n}" for kind in kinds for n in range(getattr(torch, kind).device_count()))
        raise InputError(
            f"device {str(device)!r} is not available; this machine has {', '.join(filter(None, ('cpu', available)))}"
        ) from error


def _from_object(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, task: Task | None, truncate: bool
) -> Subject:
    if any(weight.is_inference() for weight in (*model.parameters(), *model.buffers())):
        raise ModelError(
            "the model's weights were made under torch.inference_mode(): build or load the model outside of it"
        )
    class_name = type(model).__name__
    own_task = task_of(class_name)
    if task not in (None, own_task):
        raise InputError(f"task must be {own_task!r} for a {class_name}, got {task!r}: omit it")
    return Subject(model, tokenizer, own_task, model.name_or_path or class_name, truncate)


def _from_checkpoint(
    source: str,
    name: str,
    tokenizer: PreTrainedTokenizerBase | None,
    task: Task | None,
    device: str | torch.device | None,
    options: dict[str, Any],
) -> Subject:
    hub = {key: options[key] for key in HUB_OPTIONS if key in options}
    try:
        config = AutoConfig.from_pretrained(source, **hub)
        class_name = (config.architectures or [""])[0]
        task = task or task_of(class_name)
        factory = getattr(transformers, AUTO_CLASSES[task])
        model, info = factory.from_pretrained(source, **{"use_safetensors": True, **options}, output_loading_info=True)
        if tokenizer is None and task != "image_classification":
            tokenizer = _tokenizer(source, hub)
        model = model.eval() if device is None else model.to(device).eval()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"cannot load a model from {source!r}: {_first_line(error)} (a Hub id needs the network or the local "
            "cache; a folder needs config.json, a tokenizer and safetensors weights, or use_safetensors=False)"
        ) from error
    _check_checkpoint(source, class_name, task, info["missing_keys"])
    return Subject(model, tokenizer, task, name)


def _check_checkpoint(source: str, class_name: str, task: Task, missing_keys: set[str]) -> None:
    """Raise if the checkpoint is for another task, or if weights would be left random."""
    if class_name and task_of(class_name) != task and task != "encoder":
        raise ModelError(f"the checkpoint {source!r} is a {class_name}, which does not support the task {task!r}")
    missing = sorted(key for key in missing_keys if "pooler" not in key or task != "encoder")
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelError(
            f"the checkpoint {source!r} has no weights for {missing[0]!r}{more}: with the task {task!r} they would be "
            "random. Choose another task"
        )


def _tokenizer(source: str, hub: dict[str, Any]) -> PreTrainedTokenizerBase | None:
    """The tokenizer of a checkpoint; None for a folder without tokenizer files."""
    folder = Path(source) / hub.get("subfolder", "")
    if Path(source).is_dir() and not any(path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
        return None
    return AutoTokenizer.from_pretrained(source, **hub)


def _looks_like_path(source: str) -> bool:
    return source.startswith((".", "/", "~")) or source.count("/") > 1 or "\\" in source


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
