"""What a person sees. Each module registers how it shows its results; `render` finds the right one."""

from thalweg.views import bench, claims, corpus, probes, report, training, trust
from thalweg.views.terminal import render

__all__ = ["bench", "claims", "corpus", "probes", "render", "report", "training", "trust"]
