"""Self-contained pages: policy, scripts and escaping."""

import base64
import hashlib
import html
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from tests.payloads import decode, payload_of
from thalweg.drawing.elements import el
from thalweg.drawing.page import framed, report_assets, report_page, static_page
from thalweg.drawing.payload import Arrays
from thalweg.tokens import anonymous

ATTACK = "</title></script><script>alert(1)</script>\u202e"


def page() -> str:
    tokens = replace(anonymous(1), pieces=(ATTACK,))
    return report_page(tokens, (0,), ATTACK, {"provenance": {"model": ATTACK}}, Arrays())


@pytest.mark.parametrize("text", [page(), static_page(ATTACK, el("main", ATTACK))])
def test_page_when_written_then_its_policy_allows_its_own_style_and_script_only(text: str) -> None:
    policy = html.unescape(re.search(r'Policy" content="([^"]*)"', text).group(1))  # pyright: ignore
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)  # pyright: ignore[reportOptionalMemberAccess]
    script = re.search(r"<script>(.*?)</script>", text, re.S).group(1)  # pyright: ignore[reportOptionalMemberAccess]
    for kind, inside in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "innerHTML" not in script and "eval(" not in script


@pytest.mark.parametrize("text", [page(), static_page(ATTACK, el("main", ATTACK))])
def test_page_when_texts_hold_html_or_bidi_characters_then_they_stay_text(text: str) -> None:
    assert "alert(1)</script>" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text


def test_page_when_parts_are_missing_then_their_sections_are_empty() -> None:
    description, _ = decode(payload_of(page()))
    assert description["target"] == [0]
    assert description["methods"] == [] and description["certificate"] is None
    assert description["provenance"] == {"model": ATTACK}  # set as text by the scripts


def test_scripts_when_joined_then_all_files_are_in() -> None:
    _, script = report_assets()
    names = []
    for file in (files("thalweg.drawing") / "html").iterdir():
        if file.name.endswith(".js"):
            names.append(file.name)
            assert file.read_text(encoding="utf-8") in script
    assert len(names) == 14


def test_page_when_framed_then_is_sandboxed_and_unchanged() -> None:
    shown = framed(page())
    assert shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', shown).group(1))  # pyright: ignore
    assert inside == page()
