"""HTML pages as one self-contained file: nothing is fetched, and no text is ever run as code."""

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from thalweg.drawing.payload import Arrays, describe_tokens, encode_payload
from thalweg.drawing.terminal import printable
from thalweg.tokens import Tokens

SCRIPTS = ("data", "reading", "flow", "colour", "elements", "text", "river", "methods", "heads", "mixing", "receipt")
FRAME_HEIGHT = 760  # pixels of a page inside a notebook
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
<main id="report"><noscript>{headline} This page draws the rest with JavaScript, which is off.</noscript></main>
<script type="application/octet-stream" id="payload">{payload}</script>"""


def report_page(tokens: Tokens, target: Sequence[int], headline: str, parts: Mapping[str, Any], arrays: Arrays) -> str:
    """A page about one text: its tokens, what it opens with, and whatever `parts` describe.

    The scripts draw a section for each part that is there: methods, blocks, certificate, maps, intervals, mixing.
    """
    description = {
        "tokens": describe_tokens(tokens),
        "target": list(target),
        "prediction": None,
        "outputs": [],
        "prompt": None,
        "openWords": False,
        "methods": [],
        "blocks": [],
        "certificate": None,
        "maps": [],
        "intervals": [],
        "mixing": None,
        "leftOut": [],
        **parts,
    }
    shown = " ".join(map(printable, tokens.pieces[:12]))
    body = BODY.format(headline=html.escape(printable(headline)), payload=encode_payload(description, arrays))
    return shell(f"Thalweg: {shown}", body, *style_and_script())


def shell(title: str, body: str, style: str, script: str) -> str:
    """A page around a body of HTML."""
    guard = html.escape(policy(style, script))
    return PAGE.format(policy=guard, title=html.escape(title), body=body, style=style, script=script)


def framed(page: str) -> str:
    """A page in a frame of its own, for notebooks and other pages: several do not disturb each other."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" width="100%" height="{FRAME_HEIGHT}" '
        'frameborder="0" title="Thalweg report"></iframe>'
    )


def policy(style: str, script: str) -> str:
    """Nothing is fetched, and only our own style and script count."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def style_and_script() -> tuple[str, str]:
    """The style sheet, and the scripts joined into one function of their own."""
    return joined("report.css"), function(*(f"{name}.js" for name in (*SCRIPTS, "main")))


def function(*names: str) -> str:
    """Scripts as one function, which leaves nothing behind but what it does."""
    return f"\n(() => {{\n'use strict';{joined(*names)}\n}})();\n"


def joined(*names: str) -> str:
    folder = files("thalweg.drawing") / "html"
    return "".join("\n" + folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
