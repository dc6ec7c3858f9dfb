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
{body}
<script>{script}</script>
</body>
</html>
"""
BODY = """\
<main id="report"><noscript>{headline} This page draws the rest with JavaScript, which is off.</noscript></main>
<script type="application/octet-stream" id="payload">{payload}</script>"""


def page(report: Report) -> str:
    """The whole file."""
    shown = " ".join(map(printable, report.tokens.pieces[:12]))
    headline = html.escape(printable(report.headline()))
    body = BODY.format(headline=headline, payload=payload(report))
    return shell(f"Thalweg: {shown}", body, *style_and_script())


def shell(title: str, body: str, style: str, script: str) -> str:
    """A page around a body of HTML."""
    guard = html.escape(policy(style, script))
    return PAGE.format(policy=guard, title=html.escape(title), body=body, style=style, script=script)


def frame(report: Report) -> str:
    return framed(page(report))


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
    folder = files("thalweg.views") / "html"
    return "".join("\n" + folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
