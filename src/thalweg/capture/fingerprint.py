"""A cheap fingerprint of a model: what was learnt about it holds as long as this stays the same."""

import torch
from torch import nn
from torch.nn.modules import module as registry

from thalweg.capture.attention import PREFIX, configs_of
from thalweg.capture.observe import ModuleHooks


def fingerprint(model: nn.Module) -> int:
    """Hash of the module tree: classes, `forward` functions, hooks, switches, configs, edits of weights and buffers.

    Counters, which a pass itself may change, are no part of it; nor are the hooks of a capture that another thread is
    taking. An edit of weights through `.data` is noticed if it changes a tensor's first number.
    """
    parts: list[object] = [tuple(registry._global_forward_hooks), tuple(registry._global_forward_pre_hooks)]
    firsts: list[torch.Tensor] = []
    for module in model.modules():
        own = vars(module)
        parts += [id(module), id(type(module).forward), id(own.get("forward"))]
        for kind in ("_forward_hooks", "_forward_pre_hooks"):
            hooks = own[kind].copy()  # another thread may be adding its own
            parts += [kind, *(key for key, hook in hooks.items() if not _is_ours(hook))]
        parts += [str(value) for name, value in own.items() if "_hooks" not in name and _is_switch(value)]
        for tensor in (*own["_parameters"].values(), *own["_buffers"].values()):
            if tensor is not None:
                parts += [id(tensor), 0 if tensor.is_inference() else tensor._version]
                firsts += [tensor.detach().flatten()[:1].float()] if tensor.device.type == "cpu" else []
    parts += torch.cat(firsts).tolist() if firsts else []
    parts += [str(vars(config)).replace(PREFIX, "") for config in configs_of(model)]
    return hash(tuple(parts))


def _is_ours(hook: object) -> bool:
    return isinstance(getattr(hook, "__self__", None), ModuleHooks)


def _is_switch(value: object) -> bool:
    """Whether an attribute is a flag, a name or a factor, or a collection of these such as the active adapters."""
    if isinstance(value, dict):
        return all(map(_is_switch, value.values()))
    if isinstance(value, list | tuple | set):
        return all(map(_is_switch, value))
    return isinstance(value, bool | str | float)
