"""The page around: one file that lets nothing else run, and style that stays at home."""

from __future__ import annotations

import base64
import hashlib
import re

import htpy as h

from howsure.report.html import asset, fragment, served, standalone


def test_a_report_names_its_style_and_script_by_digest_and_allows_nothing_else() -> None:
    html = standalone("<b>title</b>", h.p["body"])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    assert rules["default-src"] == "'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "<b>title" not in html
    assert "http://" not in re.sub(r"http://www.w3.org/2000/svg", "", html)
    assert "https://" not in html


def test_a_page_of_the_viewer_holds_no_script_and_no_style() -> None:
    html = served("t", h.p["body"])
    assert "<style" not in html
    assert re.findall(r"<script([^>]*)>", html) == [' src="/assets/howsure.js" defer', ' src="/assets/viewer.js" defer']


def test_every_rule_of_the_style_stays_within_our_own_elements() -> None:
    text = re.sub(r"/\*.*?\*/", "", asset("howsure.css"), flags=re.S)
    text = re.sub(r"@media[^{]*\{", "", text)
    selectors = [one.strip() for group in re.findall(r"([^{}]+)\{", text) for one in group.split(",")]
    assert len(selectors) > 50
    assert [one for one in selectors if not re.match(r"(body)?\.hs\b", one)] == []


def test_a_fragment_for_notebooks_has_no_script() -> None:
    html = fragment(h.p["x"])
    assert html.startswith('<div class="hs"><style>')
    assert "<script" not in html
