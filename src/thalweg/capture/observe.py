"""Watch one forward pass from outside: attention calls, and tensors at the boundaries of modules."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call, intercepted
from thalweg.capture.functions import intercepted_functions
from thalweg.errors import InputError, ThalwegError


@dataclass(frozen=True)
class Tap:
    """A place where a tensor can be seen: argument or result `slot` of the nth call of a module."""

    module: str
    side: Literal["in", "out"]
    slot: int | str | None
    call: int

    def __str__(self) -> str:
        return f"{'input' if self.side == 'in' else 'output'} of {self.module or 'the model'}"


@dataclass(frozen=True, eq=False)
class Seen:
    tap: Tap
    time: int
    value: Tensor


@dataclass(eq=False)
class Pass:
    """What a watched pass left: its result, the attention calls in order, the tensors at the taps."""

    result: Any = None
    calls: list[tuple[int, Call, Tensor]] = field(default_factory=list)  # time, call, kernel's output
    seen: list[Seen] = field(default_factory=list)
    clock: int = 0

    def tick(self) -> int:
        self.clock += 1
        return self.clock


class EnoughError(Exception):
    """Raised by a handler or an edit that needs nothing of what follows: the pass ends here, without a result."""


Edit = Callable[[Tap, Tensor], Tensor]  # what the model goes on with, instead of the tensor at a tap


def watch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    taps: Iterable[Tap] | None = None,
    handle: Callable[[Call], tuple[Tensor, Tensor | None]] | None = None,
    through_registry: bool = True,
    edit: Edit | None = None,
) -> Pass:
    """Run `model(**inputs)` once; keep copies of the tensors at `taps`, or of all when it is None.

    `handle` decides what an attention call returns; left out, it is the model's own kernel. A model that
    goes round transformers' registry is watched through torch's functions instead. With `edit` nothing is
    kept: it is given the tensor at each tap and decides what the model goes on with. A handler or an edit that
    raises `EnoughError` ends the pass there; what was seen until then is kept, without a result.
    """
    record = Pass()
    wanted = None if taps is None else set(taps)

    def see(tap: Tap, value: Tensor) -> Tensor:
        if wanted is not None and tap not in wanted:
            return value
        if edit is not None:
            return edit(tap, value)
        record.seen.append(Seen(tap, record.tick(), value.clone()))  # some models add to a tensor in place later
        return value

    def attend(call: Call) -> tuple[Tensor, Tensor | None]:
        output, weights = handle(call) if handle else call.run()
        if edit is None:
            record.calls.append((record.tick(), call, output))
        return output, weights

    names = None if wanted is None else {tap.module for tap in wanted}
    if through_registry:
        attention = intercepted(model, attend)
    else:
        batch = next(len(value) for value in inputs.values() if isinstance(value, Tensor))
        attention = intercepted_functions(batch, attend)
    with _hooks(model, names, see), attention:
        try:
            record.result = model(**inputs)
        except EnoughError:
            pass
        except (IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            if isinstance(error, ThalwegError | torch.OutOfMemoryError):
                raise
            shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in inputs.items() if isinstance(v, Tensor))
            raise InputError(f"the model could not run on {shapes}: {type(error).__name__}: {error}") from error
    return record


@contextmanager
def _hooks(model: nn.Module, names: set[str] | None, see: Edit) -> Iterator[None]:
    """Hooks on the named modules (all when None) that only the thread which set them feels."""
    thread = threading.get_ident()
    handles = []
    try:
        for name, module in model.named_modules():
            if names is None or name in names:
                look = _Look(name, see, thread)
                handles.append(module.register_forward_pre_hook(look.before, with_kwargs=True))
                handles.append(module.register_forward_hook(look.after))
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Look:
    """What one module is given and gives back, seen by the thread that set the hooks."""

    def __init__(self, name: str, see: Edit, thread: int) -> None:
        self.name, self.see, self.thread, self.count = name, see, thread, 0

    def before(self, _: nn.Module, args: tuple, kwargs: Mapping[str, Any] | None = None) -> tuple[tuple, dict] | None:
        if threading.get_ident() != self.thread:  # another may call while torch still sets this hook up
            return None
        edited = self._edited("in", [*enumerate(args), *(kwargs or {}).items()], self.count)
        self.count += 1
        if not edited:
            return None
        return tuple(edited.pop(slot, value) for slot, value in enumerate(args)), {**(kwargs or {}), **edited}

    def after(self, _: nn.Module, __: tuple, output: Any) -> Any:
        if threading.get_ident() != self.thread:
            return None
        edited = self._edited("out", _slots(output), self.count - 1)
        return _with_slots(output, edited) if edited else None

    def _edited(self, side: Literal["in", "out"], slots: Iterable[tuple[Any, Any]], call: int) -> dict[Any, Tensor]:
        """What is to stand in the slots where something else stood."""
        edited = {}
        for slot, value in slots:
            if isinstance(value, Tensor) and value.is_floating_point():
                result = self.see(Tap(self.name, side, slot, call), value)
                if result is not value:
                    edited[slot] = result
        return edited


def _slots(output: Any) -> Iterable[tuple[int | str | None, Any]]:
    if isinstance(output, Tensor):
        return [(None, output)]
    if isinstance(output, Mapping):
        return output.items()
    if isinstance(output, tuple | list):
        return enumerate(output)
    return []


def _with_slots(output: Any, edited: Mapping[Any, Tensor]) -> Any:
    """The output as it was, other tensors in some of its slots."""
    if isinstance(output, Tensor):
        return edited[None]
    if isinstance(output, Mapping):
        return type(output)(**{**output, **edited})  # pyright: ignore[reportCallIssue]
    return type(output)(edited.get(slot, value) for slot, value in enumerate(output))
