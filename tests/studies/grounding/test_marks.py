"""What is drawn of a click and what is said of it, whoever paints it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from howsure.runs import Sample
from howsure.studies.grounding.marks import Circle, Label, Mark, Reach, Stroke, marks
from howsure.studies.grounding.words import direction, in_words, legend, outcome_in_words, thousandths
from studies.grounding.clicks_on_paper import DELTA, about, answered, failed

BOX = (400.0, 450.0, 600.0, 550.0)
POLYGON = (400.0, 400.0, 600.0, 380.0, 620.0, 600.0, 420.0, 620.0)
ROOM = (800.0, 400.0)


def drawn(sample: Sample, room: tuple[float, float] = ROOM) -> list[Mark]:
    return marks(sample.result, DELTA, *room)


def of_role(several: Sequence[Mark], *roles: str) -> list[Any]:
    return [mark for mark in several if not isinstance(mark, Label) and mark.role in roles]


def clicks(points: list[list[float]]) -> dict[str, Any]:
    return {"asked": len(points) + 1, "points": points, "wrong_format": 1, "refusals": 0, "failed": 0}


# -- marks ------------------------------------------------------------------------------------------------------------


def test_marks_lie_where_they_belong() -> None:
    sample = answered("s", 0, about(target=BOX), (700.0, 250.0), samples=clicks([[690.0, 240.0], [2000.0, 500.0]]))
    several = drawn(sample)
    (box,) = of_role(several, "target")
    half = 2.5 / 2
    assert box.closed
    assert box.points[0] == pytest.approx((400.0 - half / 0.8, 450.0 - half / 0.4)), "just outside of it"
    assert box.points[2] == pytest.approx((600.0 + half / 0.8, 550.0 + half / 0.4))
    ring, dot = of_role(several, "miss")
    assert ring.at == dot.at == (700.0, 250.0)
    assert (ring.filled, dot.filled) == (False, True)
    (link,) = of_role(several, "link")
    assert link.points[0] == pytest.approx((540.0, 450.0)), "from the border of the box on the way to the click"
    end = [place * side / 1000 for place, side in zip(link.points[1], ROOM, strict=True)]
    assert math.dist(end, (560.0, 100.0)) == pytest.approx(ring.radius_px), "to the ring"
    assert [mark.at for mark in of_role(several, "other")] == [(690.0, 240.0), (1000.0, 500.0)]
    (label,) = (mark for mark in several if isinstance(mark, Label))
    assert label.text == "320"


def test_a_point_has_a_cross_and_its_reach_and_a_hit_no_number() -> None:
    several = drawn(answered("s", 0, about(target=(300.0, 600.0)), (310.0, 600.0)))
    assert Reach((300.0, 600.0), DELTA) in several
    (cross,) = of_role(several, "target")
    assert cross.at == (300.0, 600.0)
    assert len(of_role(several, "hit")) == 2, "a hit has a colour of its own"
    assert not of_role(several, "miss", "link"), "the line has no room"
    assert not any(isinstance(mark, Label) for mark in several), "it would cover what was clicked"
    assert not of_role(marks(answered("s", 0, about(), (1.0, 1.0)).result, None, *ROOM), "reach")


def test_a_polygon_is_drawn_through_its_corners_and_nothing_is_clicked() -> None:
    (outline,) = drawn(answered("s", 0, about(target=POLYGON), None))
    assert isinstance(outline, Stroke)
    assert outline.points == [(400.0, 400.0), (600.0, 380.0), (620.0, 600.0), (420.0, 620.0)]


@pytest.mark.parametrize(
    ("click", "at", "degrees"),
    [
        ((1500.0, 500.0), (1000.0, 500.0), 0.0),
        ((500.0, -300.0), (500.0, 0.0), -90.0),
        ((-200.0, 1100.0), (0.0, 1000.0), 166.0),
    ],
)
def test_a_click_off_the_screen_is_at_its_edge_with_an_arrow(
    click: tuple[float, float], at: tuple[float, float], degrees: float
) -> None:
    """The screen is twice as wide as high, so that 200 across are four times 100 down."""
    several = drawn(answered("s", 0, about(), click))
    arrow, ring, _ = of_role(several, "miss")
    assert arrow.at == ring.at == at
    tip = arrow.points[0]
    assert math.degrees(math.atan2(tip[1], tip[0])) == pytest.approx(degrees, abs=0.1)
    assert math.hypot(*tip) > ring.radius_px


@pytest.mark.parametrize("room", [ROOM, (540.0, 304.0), (180.0, 360.0), (1600.0, 900.0)])
@pytest.mark.parametrize(
    "target", [(500.0, 500.0), (5.0, 5.0, 30.0, 30.0), (400.0, 450.0, 600.0, 550.0), (0.0, 900.0, 1000.0, 1000.0)]
)
@pytest.mark.parametrize(
    "click", [(700.0, 300.0), (620.0, 500.0), (500.0, 320.0), (35.0, 35.0), (990.0, 10.0), (-90.0, 500.0)]
)
def test_the_number_covers_neither_target_nor_click_and_lies_on_the_screen(
    target: tuple[float, ...], click: tuple[float, float], room: tuple[float, float]
) -> None:
    sample = answered("s", 0, about(target=target), click)
    if sample.result.hit:
        return
    (label,) = (mark for mark in drawn(sample, room) if isinstance(mark, Label))
    (x, y), (ring, *_) = (
        [place * side / 1000 for place, side in zip(label.at, room, strict=True)],
        [mark for mark in drawn(sample, room) if isinstance(mark, Circle)],
    )
    left, right = x - label.width_px / 2, x + label.width_px / 2
    top, bottom = y - label.height_px / 2, y + label.height_px / 2
    assert left > -1
    assert right < room[0] + 1
    assert top > -1
    assert bottom < room[1] + 1
    for box, grown in ((target, 0.0), (ring.at, ring.radius_px)):
        xs = [value * room[0] / 1000 for value in box[0::2]]
        ys = [value * room[1] / 1000 for value in box[1::2]]
        beside = right < min(xs) - grown or left > max(xs) + grown
        assert beside or bottom < min(ys) - grown or top > max(ys) + grown


def test_places_far_away_are_brought_near() -> None:
    for target in ((1e308, -1e308), (-1e308, 0.0, 1e308, 1e308), (1e300, 0.0) * 5_000):
        for mark in drawn(answered("s", 0, about(target=target), (-1e308, 1e308), l2=1e300)):
            places = mark.points if isinstance(mark, Stroke) else [mark.at]
            assert len(places) <= 400
            assert all(abs(value) < 10_000 for place in places for value in place)


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dx", "dy", "words"),
    [
        (0, 56, "below"),
        (0, -1, "above"),
        (9, 1, "to the right of"),
        (-5, 5, "below and to the left of"),
        (5, -5, "above and to the right of"),
        (0, 0, "from"),
        (1.7e308, 1.7e308, "from"),
    ],
)
def test_directions(dx: float, dy: float, words: str) -> None:
    assert direction(dx, dy) == words


@pytest.mark.parametrize(
    ("target", "click", "says", "sentence", "verdict"),
    [
        ((500, 500), (500, 556), None, "The click is 56 thousandths below the place where it belongs, within δ = 140.",
         "hit, 56 off"),
        ((500, 500), (812, 500), None, "The click is 312 thousandths to the right of the place where it belongs, "
         "beyond δ = 140.", "missed, 312 off"),
        (BOX, (500, 500), None, "The click is inside the target, 0.0 thousandths from its middle.", "hit, 0.0 off"),
        (BOX, (500, 440), None, "The click is outside of the target, 60 thousandths above its middle.",
         "missed, 60 off"),
        ((500, 500), (-100, 1200), None, "The click is 922 thousandths below and to the left of the place where it "
         "belongs, beyond δ = 140. It lies outside of the screen, beyond its bottom and left edges.",
         "missed, 922 off"),
        (None, None, "refusal", "Nothing on this screen is to be clicked. The model says that there is nothing to "
         "click, which is right.", "refused rightly"),
        (None, (5, 5), None, "Nothing on this screen is to be clicked. The model clicks.",
         "clicked where there is nothing to click"),
        (BOX, None, "refusal", "The model says that there is nothing to click.", "refused wrongly"),
        (BOX, None, None, "No place can be read in the answer (no numbers).", "in wrong format"),
    ],
)  # fmt: skip
def test_what_is_seen_is_said(target: Any, click: Any, says: str | None, sentence: str, verdict: str) -> None:
    sample = answered("s", 0, about(target=target), click, says)
    assert in_words(sample, DELTA) == sentence
    assert outcome_in_words(sample) == verdict


def test_a_failed_call_is_said() -> None:
    sample = failed("s", 0, about())
    assert in_words(sample, DELTA) == "There is no answer."
    assert outcome_in_words(sample) == "no answer"


def test_only_the_marks_that_are_drawn_are_explained() -> None:
    hit = "; ".join(legend(answered("s", 0, about(), (510.0, 500.0)).result, DELTA))
    assert hit == (
        "blue cross: where the click belongs; blue dashes: 140 thousandths around it; green ring: where the model "
        "clicks, a hit"
    )
    far = "; ".join(legend(answered("s", 0, about(target=BOX), (900.0, 2500.0)).result, DELTA))
    assert far == (
        "blue box: where the click belongs; orange ring: where the model clicks, farther that way; the number: how far "
        "off, in thousandths of the screen"
    )
    nothing = answered("s", 0, about(target=None), None, "refusal", samples=clicks([[1.0, 1.0]])).result
    assert list(legend(nothing, DELTA))[1:] == ["yellow dots: where its other answers click"]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "—"), (0.04, "0.0"), (9.9, "9.9"), (9.96, "10"), (1234.0, "1,234"), (1e300, "1e+300")]
)
def test_distances_have_as_many_digits_as_are_read(value: float | None, shown: str) -> None:
    assert thousandths(value) == shown
