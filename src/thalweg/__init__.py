"""Thalweg: where each token's information comes from inside a Transformer, and when to trust attention.

    import thalweg as tw
    subject = tw.load()
    print(tw.explain(subject, "a gorgeous, witty, seductive movie.").top(3))

Importing the package is light: torch and transformers are imported when a model is loaded. The public names are
listed in `__init__.pyi`, which type checkers read as well.
"""

import lazy_loader

from thalweg.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
