"""Plots: what is drawn, what is said about what is not, and that the table has the same numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from howsure.report.charts import Axis, Chart, Named, dots
from howsure.report.document import Value
from howsure.report.sureness import histogram_by_outcome
from report import rendered

ATTACK = "<script>alert(1)</script>"


def drawn(chart: Chart, rows: object = ()) -> str:
    return rendered.drawn(chart.figure("how to read it", ["x", "y"], rows or [(1, 2.5)]))  # type: ignore[arg-type]


def svg_of(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(re.search(r"<svg.*?</svg>", html, re.S)[0])  # type: ignore[index]


def test_a_line_breaks_where_a_value_is_missing() -> None:
    html = drawn(Chart("t", Axis("x", 0, 4), Axis("y", 0, 1)).line([0, 1, 2, 3, 4], [0, 1, None, 1, 0], "a"))
    path = next(one.get("d") for one in svg_of(html).iter("path") if one.get("class") == "line s0")
    assert path is not None
    assert path.count("M") == 2
    assert path.count("L") == 2
    assert "1 mark or point of a line has no value, and is not drawn." in html


def test_the_table_has_the_numbers_and_the_picture_a_name() -> None:
    html = drawn(Chart("Bits", Axis("x"), Axis("y")).points([1], [2.5], "a"), [(1, 2.5), (2, None)])
    assert 'role="img"' in html
    assert 'aria-label="Bits: the table below has the numbers"' in html
    assert "<summary>The numbers of this plot</summary>" in html
    assert re.search(r'<td class="num">2.5</td></tr><tr><td class="num">2</td><td class="num">—</td>', html)


def test_points_lie_where_they_belong_and_lead_somewhere() -> None:
    chart = Chart("t", Axis("x", 0, 1), Axis("y", 0, 1), width=182, height=154)
    root = svg_of(drawn(chart.points([0.5], [0.5], "a", tips=["the middle"], links=["/sample?key=1"])))
    link = next(root.iter("a"))
    mark = link.find("circle")
    assert mark is not None
    assert (mark.get("cx"), mark.get("cy")) == ("112", "60")  # 62 to 162, and 110 down to 10
    assert link.get("href") == "/sample?key=1"
    assert mark.findtext("title") == "the middle"


def test_series_differ_in_more_than_colour() -> None:
    chart = Chart("t", Axis("x"), Axis("y"))
    for series in range(4):
        chart.points([1], [series], f"s{series}", series)
    marks = [one for one in svg_of(drawn(chart)).iter() if "point" in (one.get("class") or "")]
    corners = [re.findall(r"([\d.]+) [\d.]+", one.get("d") or "") for one in marks]
    assert [(len(xs), len(set(xs))) for xs in corners] == [(0, 0), (4, 2), (4, 3), (3, 3)], (
        "disc, square, diamond, triangle"
    )


def test_nothing_at_all_is_still_a_plot() -> None:
    assert "<svg" in drawn(
        Chart("t", Axis("x"), Axis("y")).line([], []).band([], [], []).bars([], [], []).whiskers([], [], [])
    )


def test_a_band_holds_no_missing_value_and_whiskers_neither() -> None:
    html = drawn(
        Chart("t", Axis("x"), Axis("y"))
        .band([1, 2, 3], [0, None, 0], [1, 1, float("inf")])
        .whiskers([1, 2], [0, 0], [1, None])
    )
    assert "nan" not in html
    assert "inf" not in html
    assert html.count('class="whisker') == 1


def test_a_band_has_a_gap_where_an_end_is_missing() -> None:
    chart = Chart("t", Axis("x"), Axis("y")).band([1, 2, 3, 4, 5], [0, 0, 0, 0, 0], [1, 1, float("inf"), 1, 1])
    path = next(one.get("d") for one in svg_of(drawn(chart)).iter("path") if one.get("class") == "band s0")
    assert path is not None
    assert (path.count("M"), path.count("Z"), path.count("L")) == (2, 2, 6)


def test_words_from_outside_stay_words() -> None:
    chart = (
        Chart("t", Axis(ATTACK), Axis("y")).points([1], [1], ATTACK, tips=[ATTACK]).level(1, ATTACK).upright(1, ATTACK)
    )
    html = drawn(chart, [(ATTACK, 1)])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 5
    named = rendered.drawn(dots("t", "c", Axis("x"), [Named(ATTACK, Value(0.5, "", 0.1, 0.9), ATTACK)]))
    assert "<script" not in named


def test_values_by_name() -> None:
    html = rendered.drawn(
        dots(
            "By group",
            "c",
            Axis("right", 0, 1, percent=True),
            [Named("a", Value(0.5, "", 0.25, 0.75), "2 of 4"), Named("b", Value(None))],
            level=(0.25, "chance"),
        )
    )
    root = svg_of(html)
    assert [one.get("cx") for one in root.iter("circle")] == ["360"]  # halfway between 190 and 530
    assert "no value" in html
    assert html.count("<tr>") == 3
    words = next(one for one in root.iter("text") if one.text == "chance")
    rule = next(one for one in root.iter("path") if one.get("class") == "rule")
    assert (words.get("x"), words.get("text-anchor")) == ("275", "middle"), "above its line, not beside the last tick"
    assert (rule.get("d") or "").startswith(f"M275 {float(words.get('y') or 0) + 5:g}V")


def test_only_so_many_names_are_drawn_and_the_rest_is_counted() -> None:
    html = rendered.drawn(dots("t", "c", Axis("x"), [Named(f"n{i}", Value(float(i))) for i in range(40)]))
    assert "The first 30 of 40 are drawn." in html
    assert "n39" in html, "the table has them all"


@pytest.mark.parametrize("word", ["style=", "onload", "<style"])
def test_a_plot_needs_no_style_of_its_own(word: str) -> None:
    assert word not in drawn(Chart("t", Axis("x"), Axis("y")).line([1, 2], [1, 2], "a").diagonal())


def test_labels_of_upright_lines_have_rows_of_their_own() -> None:
    chart = Chart("t", Axis("x", 0, 10), Axis("y", 0, 1)).upright(2, "first").upright(2.1, "second", row=1)
    html = rendered.drawn(chart.figure("", [], []))
    first, second = (html.index(">first<"), html.index(">second<"))
    places = [re.findall(r' y="([\d.]+)"', html[:at])[-1] for at in (first, second)]
    assert float(places[1]) - float(places[0]) == 14


def test_whole_numbers_are_counted_in_bars_of_whole_widths() -> None:
    values, right = np.array([0.0, 0.0, 3.0, 30.0]), np.array([1.0, 0.0, 1.0, 0.0])
    html = rendered.drawn(histogram_by_outcome("t", "c", "turns", values, right, whole=True))
    rows = re.findall(r"<tr>(.*?)</tr>", html)[1:]
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert cells[0] == ["0", "2", "1", "1"]
    assert cells[1] == ["2", "4", "1", "0"]
    assert cells[-1][:2] == ["30", "32"]
    one = np.array([1.0])
    assert ">runs<" in rendered.drawn(histogram_by_outcome("t", "c", "u", one, one, what="runs"))


def test_a_long_note_has_room_within_the_picture() -> None:
    note = "12,345,678 bytes, cut"
    root = svg_of(rendered.drawn(dots("t", "c", Axis("x", 0, 1), [Named("a", Value(1.0), note)])))
    words = next(one for one in root.iter("text") if one.text == note)
    assert float(words.get("x") or 0) + 6.2 * len(note) < 620
    assert float(next(root.iter("circle")).get("cx") or 0) < float(words.get("x") or 0), "and the dots end before it"
