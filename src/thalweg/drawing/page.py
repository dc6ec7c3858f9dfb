"""Self-contained HTML pages: nothing is fetched, and no text of a model or user is run as code."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from thalweg.drawing.escaping import Markup, attribute, escaped
from thalweg.drawing.payload import Arrays, describe_tokens, encode_payload
from thalweg.printable import printable
from thalweg.tokens import Tokens

SCRIPTS = (
    "data",
    "units",
    "flow",
    "colour",
    "elements",
    "glossary",
    "text",
    "river",
    "methods",
    "heads",
    "alternatives",
    "mixing",
    "receipt",
)
FRAME_HEIGHT = 760  # pixels of a page inside a notebook
TITLE_TOKENS = 12
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
<script>{script}</script>
</body>
</html>
"""
BODY = """\
<main id="report"><noscript>{headline} Enable JavaScript to see the rest of this page.</noscript></main>
<script type="application/octet-stream" id="payload">{payload}</script>"""


def report_page(tokens: Tokens, target: Sequence[int], headline: str, parts: Mapping[str, Any], arrays: Arrays) -> str:
    """An interactive page about one text that opens with this target.

    `parts` overrides the empty sections below; the scripts in `html/` draw a section for each part that is present.
    """
    description = {
        "tokens": describe_tokens(tokens),
        "target": list(target),
        "answer": [],
        "outputs": [],
        "prompt": None,
        "openWords": False,
        "methods": [],
        "blocks": [],
        "certificate": None,
        "alternatives": None,
        "maps": [],
        "intervals": [],
        "mixing": None,
        "leftOut": [],
        **parts,
    }
    text = " ".join(map(printable, tokens.pieces[:TITLE_TOKENS]))
    body = Markup(BODY.format(headline=escaped(headline), payload=encode_payload(description, arrays)))
    return _page(f"Thalweg: {text}", body, *report_assets())


def static_page(title: str, body: Markup) -> str:
    """A page of elements and charts drawn in Python; its script only switches colours and opens details for print."""
    return _page(title, body, *static_assets())


def framed(page: str) -> str:
    """A page in a sandboxed frame, so that several can share one notebook."""
    return (
        f'<iframe srcdoc="{attribute(page)}" sandbox="allow-scripts" width="100%" height="{FRAME_HEIGHT}" '
        'frameborder="0" title="Thalweg report"></iframe>'
    )


@cache
def report_assets() -> tuple[str, str]:
    """Style sheet and script of interactive pages."""
    return _read("report.css"), _function(*(f"{name}.js" for name in (*SCRIPTS, "main")))


@cache
def static_assets() -> tuple[str, str]:
    """Style sheet and script of static pages."""
    return _read("report.css", "static/static.css"), _function("colour.js", "static/static.js")


def _page(title: str, body: Markup, style: str, script: str) -> str:
    return PAGE.format(
        policy=attribute(_policy(style, script)), title=escaped(title), body=body, style=style, script=script
    )


def _policy(style: str, script: str) -> str:
    """A content security policy that allows this style and this script, and no requests."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _function(*names: str) -> str:
    """Scripts joined into one function, which keeps their names out of the global scope."""
    return f"\n(() => {{\n'use strict';{_read(*names)}\n}})();\n"


def _read(*names: str) -> str:
    folder = files("thalweg.drawing") / "html"
    return "".join("\n" + folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
