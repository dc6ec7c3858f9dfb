"""Sketches of modules: their own code, without the packages that they import.

The names, parameters and checks of methods and metrics stand in files that import torch at their top, which takes
seconds. In a sketch such a file is run with placeholders for all packages but its own and the standard library: its
declarations can be read, and functions that work with plain values can be called, in a few milliseconds. Whatever
depends on the value of a placeholder raises `SketchError`; the module must then be imported.
"""

import builtins
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, resolve_name
from types import ModuleType
from typing import Any, NoReturn

SHARED = ("thalweg.errors", "thalweg.version")  # light, and an error must be of the type that callers catch
LIGHT = ("lazy_loader",)


class SketchError(BaseException):
    """Something depends on a package that is a placeholder. Not an `Exception`: no module may handle it."""


def _undecided(*_: Any) -> NoReturn:
    raise SketchError("a sketch cannot use the value of an imported name")


class _Fields:
    """The fields of a dataclass that inherits from a placeholder are not known."""

    __get__ = _undecided


_Base = type("_Base", (), {"__dataclass_fields__": _Fields()})  # stands for an imported base class


class _Placeholder:
    """An imported name: it can be an annotation, a decorator or a base class, but nothing can depend on its value."""

    def __getattr__(self, name: str) -> "_Placeholder":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> "_Placeholder":
        return self

    __getitem__ = __or__ = __ror__ = __call__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Base,) if bases[0] is self else ()

    __bool__ = __iter__ = __len__ = __contains__ = __eq__ = __lt__ = __gt__ = __le__ = __ge__ = _undecided
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _undecided
    __pow__ = __rpow__ = __int__ = __float__ = __index__ = __format__ = _undecided
    __enter__ = __exit__ = __instancecheck__ = __subclasscheck__ = _undecided
    __str__ = _undecided  # pyright: ignore[reportAssignmentType]
    __hash__, __repr__ = object.__hash__, object.__repr__  # dataclasses use both


class Sketch:
    """Modules of some packages, loaded without other packages, beside `sys.modules` and independent of it."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = {"thalweg", *packages}
        self._modules: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    def load(self, name: str) -> Any:
        """The sketch of a module, which is run on first use."""
        if name in self._modules:
            return self._modules[name]
        parent, _, child = name.rpartition(".")
        package = self.load(parent) if parent else None
        spec = _find(name, None if package is None else getattr(package, "__path__", ()))
        code = getattr(spec.loader, "get_code", _undecided)(name)
        module = self._modules[name] = module_from_spec(spec)
        vars(module)["__builtins__"] = self._builtins
        try:
            exec(code, vars(module))
        except BaseException:
            del self._modules[name]
            raise
        if package is not None:
            setattr(package, child, module)
        return module

    def _import(
        self, name: str, scope: Any = None, _locals: Any = None, names: tuple[str, ...] | None = (), level: int = 0
    ) -> Any:
        """What `import` does in a sketched module."""
        if level:
            name = resolve_name("." * level + name, scope["__package__"])
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top in LIGHT or name in SHARED:
            return __import__(name, None, None, names)
        if top not in self._packages:
            if find_spec(top) is None:
                raise ModuleNotFoundError(f"No module named {top!r}", name=top)
            return _Placeholder()
        try:
            module = self.load(name)
            for attribute in names or ():
                if not hasattr(module, attribute):
                    self.load(f"{name}.{attribute}")
        except (Exception, SketchError):
            if scope is None:  # a call of __import__: the module is loaded for its own sake
                raise
            return _Placeholder()
        return module if names else self._modules[top]


def _find(name: str, path: Any) -> ModuleSpec:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
