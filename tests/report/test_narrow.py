"""Pages on a telephone, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import htpy as h
import pytest

import browser as chrome
from howsure.report.html import standalone, table

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(chrome.chromium() is None, reason="there is no Chromium here, and none could be installed"),
]


def test_words_in_a_table_stay_whole_on_a_telephone(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="Playwright, which drives the browser, is not installed")
    heads = ["turn of the agent", "runs that ended", "runs", "lower quartile", "median", "upper quartile"]
    rows = [(2, "solved", 5, 3.148, 3.5, 4.1)]
    (tmp_path / "page.html").write_text(standalone("t", h.main[table(heads, rows, numeric=(0, 2, 3, 4, 5))]))
    with chrome.browser() as opened, chrome.new_page(opened) as watched:
        watched.page.set_viewport_size({"width": 390, "height": 844})
        watched.page.goto((tmp_path / "page.html").as_uri())
        heights = watched.page.evaluate("[...document.querySelectorAll('tr')].map(row => row.offsetHeight)")
        assert heights[0] < 120, "no header is broken into letters"
        assert heights[1] < 40, "and a word of a cell stands on one line"
        assert not watched.is_too_wide()
