"""The pieces of pages: text stays text, long ones are cut and say so, missing values are dashes."""

from __future__ import annotations

from typing import Any

import htpy as h

from howsure.report import html as parts
from howsure.report.document import Card, Cards, Facts, Prose, Section, Side, Table, Value
from howsure.studies.summary import Coverage, Figure
from report.rendered import drawn

ATTACK = '"><img src=x onerror=alert(1)>'


def test_a_text_from_outside_is_one_visible_line() -> None:
    shown = parts.words("a\nb\u202ec\0")
    assert "\u202e" not in shown
    assert shown.startswith("a⏎b")
    assert shown.endswith("c␀")
    assert len(parts.words("x" * 1_000_000)) == parts.CELL_CHARACTERS


def test_a_long_text_is_folded_and_a_very_long_one_is_cut_and_counted() -> None:
    short, folded = (str(h.div[parts.long_text("a" * count)]) for count in (100, 5_000))
    assert "<details" not in short
    assert "<details" in folded
    cut = str(h.div[parts.long_text("a" * 1_000_000)])
    assert "980,000 more characters" in cut
    assert len(cut) < 25_000


def test_marks_that_turn_the_direction_of_text_are_shown_and_not_obeyed() -> None:
    shown = str(h.div[parts.long_text("\u202eevil\u2066")])
    assert "\u202e" not in shown
    assert "\u2066" not in shown
    assert "evil" in shown


def test_cells_missing_values_and_numbers() -> None:
    html = str(parts.table(["a", "b"], [(None, float("nan")), (True, 12345), (ATTACK, 0.123456)], numeric=(1,)))
    assert html.count("—") == 2
    assert "12,345" in html
    assert "0.1235" in html
    assert "<img" not in html
    assert parts.number(None, 3, "nats") == "—"
    assert parts.number(1.5, 1, "nats") == "1.5 nats"


def test_a_table_of_many_rows_shows_some_and_counts_the_rest() -> None:
    assert "and 500 more rows" in str(parts.table(["a"], [(i,) for i in range(1000)]))


def tiles(**more: Any) -> str:
    known = {"name": "accuracy", "value": 0.5, "unit": "share", "low": 0.4, "high": 0.6, "level": 0.95}
    coverage = Coverage(10, 8, {"x": 2})
    return str(parts.tiles([Figure(**(known | {"method": "Wilson"} | more))], coverage))


def test_headline_figures_carry_their_doubt_and_the_coverage_stands_beside_them() -> None:
    html = tiles()
    assert "<strong>50.0 %</strong>" in html
    assert "95% interval 40.0 to 60.0" in html
    assert "8 of 10" in html
    assert "2 missing: 2 x" in html
    assert "no interval" in tiles(low=None, high=None, level=None)
    assert "not identified" in tiles(value=None, method="not identified")


def test_the_two_kinds_stand_side_by_side_and_lead_to_their_pages() -> None:
    wrong, right = (
        Card(f"{key} {ATTACK}", "90 % sure", key == "r", lambda: [Prose("body")], links={"": f"/sample?key={key}"})
        for key in ("w", "r")
    )
    html = drawn(Cards([Side("Confident but wrong", "", [wrong]), Side("Right but unsure", "", [right])]))
    assert (
        html.index("Confident but wrong")
        < html.index("/sample?key=w")
        < html.index("Right but unsure")
        < html.index("/sample?key=r")
    )
    assert "<img" not in html
    assert "no such samples" in drawn(Cards([Side("a", "", []), Side("b", "", [])]))
    assert "None." in drawn(Cards([Side("a", "", []), Side("b", "", [right])]))


def test_a_section_of_which_a_page_shows_nothing_is_left_out() -> None:
    assert parts.section(Section("t", [Prose("x", on="terminal")])) is None
    assert parts.section(Section("t", [Prose("x")], on="terminal")) is None
    assert "<h2>t</h2>" in str(parts.section(Section("t", [Facts([("a", Value(0.5, "share"))])])))


def test_cells_are_made_safe_whatever_they_are() -> None:
    html = drawn(Table(["a"], [(ATTACK,), (Value(0.5, ATTACK),), (None,)]))
    assert "<img" not in html
    assert "50.0 %" in drawn(Table(["a"], [(Value(0.5, "share"),)]))
