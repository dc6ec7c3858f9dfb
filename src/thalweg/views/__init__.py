"""What a person sees. Each module registers how it shows its results; `render` finds the right one."""

from thalweg.views import probes, report, training, trust
from thalweg.views.terminal import render

__all__ = ["probes", "render", "report", "training", "trust"]
