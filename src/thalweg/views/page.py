"""A report as one HTML file: data, style and script inside, nothing fetched, nothing that a text says is run."""

import base64
import hashlib
import html
from functools import cache
from importlib.resources import files

from thalweg.results.report import Report
from thalweg.views.payload import payload
from thalweg.views.terminal import printable

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
<main id="report"><noscript>{headline} This page draws the rest with JavaScript, which is off.</noscript></main>
<script type="application/octet-stream" id="payload">{payload}</script>
<script>{script}</script>
</body>
</html>
"""


def page(report: Report) -> str:
    """The whole file."""
    style, script = style_and_script()
    shown = " ".join(map(printable, report.tokens.pieces[:12]))
    return PAGE.format(
        policy=html.escape(policy(style, script)),
        title=html.escape(f"Thalweg: {shown}"),
        headline=html.escape(printable(report.headline())),
        style=style,
        script=script,
        payload=payload(report),
    )


def frame(report: Report) -> str:
    """The page in a frame of its own, for notebooks and other pages: several do not disturb each other."""
    inside = html.escape(page(report))
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="{FRAME_HEIGHT}" frameborder="0" '
        'title="Thalweg report"></iframe>'
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
    folder = files("thalweg.views") / "html"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    parts = "\n".join(read(f"{name}.js") for name in (*SCRIPTS, "main"))
    return f"\n{read('report.css')}", f"\n(() => {{\n'use strict';\n{parts}\n}})();\n"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
