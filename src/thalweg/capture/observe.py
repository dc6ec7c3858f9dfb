"""Watch one forward pass from outside: attention calls, and tensors at the boundaries of modules."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from thalweg.capture.attention import Call, Handler, intercepted
from thalweg.capture.functions import intercepted_functions
from thalweg.capture.interrupts import held_interrupts
from thalweg.errors import InputError, ThalwegError

COPIED = 2**20  # numbers of an option, above which it is kept without a copy


@dataclass(frozen=True)
class Tap:
    """A place where a tensor can be observed: argument or result `slot` of the nth call of a module."""

    module: str
    side: Literal["in", "out"]
    slot: int | str | None
    call: int

    def __str__(self) -> str:
        return f"{'input' if self.side == 'in' else 'output'} of {self.module or 'the model'}"


@dataclass(frozen=True, eq=False)
class Seen:
    """A copy of the tensor at a tap, and when it passed."""

    tap: Tap
    time: int
    value: Tensor


@dataclass(eq=False)
class Pass:
    """Record of a watched pass: its result, the attention calls in order, the tensors at the taps."""

    result: Any = None
    calls: list[tuple[int, Call, Tensor]] = field(default_factory=list)  # time, call, kernel output
    seen: list[Seen] = field(default_factory=list)
    clock: int = 0

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    @property
    def tensors(self) -> dict[Tap, Tensor]:
        """The recorded tensors by tap."""
        return {seen.tap: seen.value for seen in self.seen}


class StopPassError(Exception):
    """Raised by a handler or an edit to end the pass early; the record then has no result."""


Edit = Callable[[Tap, Tensor], Tensor]  # returns the tensor that the model continues with


def watch(
    model: nn.Module,
    inputs: Mapping[str, Any],
    taps: Iterable[Tap] | None = None,
    handle: Handler | None = None,
    through_registry: bool = True,
    edit: Edit | None = None,
) -> Pass:
    """Run `model(**inputs)` once and keep copies of the tensors at `taps` (None: all of them).

    `handle` decides what each attention call returns (default: the model's own kernel). Models that bypass the
    attention registry of transformers are watched through torch functions instead (`through_registry=False`).
    With `edit` nothing is kept: it receives the tensor at each tap and returns the one the model continues with.
    A handler or edit that raises `StopPassError` ends the pass there; the record keeps everything seen so far.
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
            record.calls.append((record.tick(), _kept_as_it_is(call), output))
        return output, weights

    names = None if wanted is None else {tap.module for tap in wanted}
    if through_registry:
        attention = intercepted(model, attend)
    else:
        batch = next(len(value) for value in inputs.values() if isinstance(value, Tensor))
        attention = intercepted_functions(batch, attend)
    with held_interrupts() as interrupts, _hooks(model, names, see), attention:
        try:
            with interrupts.allowed():
                record.result = model(**inputs)
        except StopPassError:
            pass
        except (IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            if isinstance(error, ThalwegError | torch.OutOfMemoryError):
                raise
            shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in inputs.items() if isinstance(v, Tensor))
            raise InputError(f"the model could not run on {shapes}: {type(error).__name__}: {error}") from error
    return record


def _kept_as_it_is(call: Call) -> Call:
    """The call with copies of its small tensors, since some modules write to their own parameters during a pass."""
    options = {
        name: value.clone() if isinstance(value, Tensor) and value.numel() < COPIED else value
        for name, value in call.options.items()
    }
    return replace(call, options=options)


@contextmanager
def _hooks(model: nn.Module, names: set[str] | None, see: Edit) -> Iterator[None]:
    """Hook the named modules (None: all); the hooks act only in the thread that set them."""
    thread = threading.get_ident()
    handles = []
    try:
        for name, module in model.named_modules():
            if names is None or name in names:
                hooks = ModuleHooks(name, see, thread)
                handles.append(module.register_forward_pre_hook(hooks.before, with_kwargs=True))
                handles.append(module.register_forward_hook(hooks.after))
        yield
    finally:
        for handle in handles:
            handle.remove()


class ModuleHooks:
    """The two hooks of one module: they show its arguments and results to `see`."""

    def __init__(self, name: str, see: Edit, thread: int) -> None:
        self.name, self.see, self.thread, self.count = name, see, thread, 0

    def before(self, _: nn.Module, args: tuple, kwargs: Mapping[str, Any] | None = None) -> tuple[tuple, dict] | None:
        if threading.get_ident() != self.thread:  # another thread may call while torch is still registering this hook
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
        """The slots whose tensor was replaced, with the replacement."""
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
    """A copy of the output with some of its tensors replaced."""
    if isinstance(output, Tensor):
        return edited[None]
    if isinstance(output, Mapping):
        return type(output)(**{**output, **edited})  # pyright: ignore[reportCallIssue]
    return type(output)(edited.get(slot, value) for slot, value in enumerate(output))
