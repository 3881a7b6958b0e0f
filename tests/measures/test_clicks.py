"""Distances, regions and the spread of clicks: by hand, and against other ways to the same answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import EvidenceError, InputError
from howsure.measures import agreement, click_distances, in_box, in_polygon, spread

few = settings(max_examples=200, deadline=None)
whole = st.integers(-8, 8)
places = st.tuples(whole, whole)
polygons = st.lists(places, min_size=1, max_size=8)
coordinates = st.floats(-2000, 2000)

STAR = [(500 + 400 * math.sin(math.radians(144 * i)), 500 - 400 * math.cos(math.radians(144 * i))) for i in range(5)]
"""A five-pointed star drawn in one go, which encloses its middle twice."""

U_SHAPE = [(0, 0), (10, 0), (10, 10), (7, 10), (7, 3), (3, 3), (3, 10), (0, 10)]


# -- distances ------------------------------------------------------------------------------------------------------


def test_distances_by_hand():
    assert click_distances([[0, 0], [100, 200]], [[3, 4], [100, 60]]).tolist() == [5.0, 140.0]
    assert click_distances([], []).tolist() == []


@few
@given(st.lists(st.tuples(coordinates, coordinates, coordinates, coordinates), min_size=1, max_size=20))
def test_distances_are_those_of_the_definition(rows):
    points, targets = np.array(rows)[:, :2], np.array(rows)[:, 2:]
    expected = [math.dist(point, target) for point, target in zip(points, targets, strict=True)]
    assert click_distances(points, targets) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("points", "targets", "words"),
    [
        ([[0, 0]], [[0, 0], [1, 1]], "points and targets must be as many, got 1 and 2"),
        ([[0, math.nan]], [[0, 0]], "points: \\[0.0, nan\\] at position 0"),
        ([[0, 0], [math.inf, 0]], [[0, 0], [1, 1]], "at position 1 are not finite"),
        ([0, 0], [[0, 0]], "rows of 2 numbers each, got shape \\(2,\\)"),
        ([[0, 0, 1]], [[0, 0]], "got shape \\(1, 3\\)"),
        ([["left", "top"]], [[0, 0]], "rows of 2 numbers each"),
        ([[0, None]], [[0, 0]], "not finite"),
    ],
    ids=["counts", "nan", "infinite", "one_place", "three", "words", "none"],
)
def test_what_is_no_place_is_refused(points, targets, words):
    with pytest.raises(EvidenceError, match=words):
        click_distances(points, targets)


# -- boxes ----------------------------------------------------------------------------------------------------------


def test_the_edges_belong_to_the_box():
    box = [10, 20, 30, 40]
    inside = [(10, 20), (30, 40), (10, 40), (20, 20), (20, 30)]
    outside = [(9.999, 30), (30.001, 30), (20, 19.999), (20, 40.001), (0, 0)]
    assert in_box(inside, [box] * 5).all()
    assert not in_box(outside, [box] * 5).any()


def test_a_box_may_be_a_line_or_a_place():
    assert in_box([[5, 5], [5, 5], [5, 6]], [[5, 0, 5, 9], [5, 5, 5, 5], [5, 5, 5, 5]]).tolist() == [True, True, False]


def test_a_box_that_ends_before_it_begins_is_refused():
    with pytest.raises(EvidenceError, match="position 1 ends before it begins"):
        in_box([[0, 0], [0, 0]], [[0, 0, 1, 1], [5, 0, 4, 1]])


@few
@given(places, places, places)
def test_a_box_is_the_polygon_of_its_corners(point, first, second):
    (left, right), (top, bottom) = (sorted(pair) for pair in zip(first, second, strict=True))
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    assert in_polygon(point, corners) == in_box([point], [[left, top, right, bottom]])[0]


# -- polygons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "inside"),
    [((5, 1), True), ((1, 9), True), ((9, 9), True), ((5, 5), False), ((5, 3), True), ((3, 7), True), ((11, 5), False)],
)
def test_a_hollow_is_outside_and_its_rim_inside(point, inside):
    assert in_polygon(point, U_SHAPE) is inside


def test_what_is_enclosed_twice_is_outside():
    assert not in_polygon((500, 500), STAR), "the middle of the star"
    assert in_polygon((500, 150), STAR), "its upper point"
    assert in_polygon(STAR[2], STAR), "a corner"
    bow_tie = [(0, 0), (4, 4), (4, 0), (0, 4)]
    assert [in_polygon(place, bow_tie) for place in ((1, 2), (3, 2), (2, 2), (2, 1))] == [True, True, True, False]


def test_lines_and_single_places_hold_only_themselves():
    line = [(0, 0), (4, 4), (2, 2)]
    assert in_polygon((3, 3), line)
    assert not in_polygon((3, 2), line)
    assert not in_polygon((5, 5), line), "on the line, but beyond its end"
    assert in_polygon((1, 1), [(1, 1)])
    assert not in_polygon((1, 2), [(1, 1)])
    with pytest.raises(EvidenceError, match="without corners"):
        in_polygon((1, 1), [])
    with pytest.raises(EvidenceError, match="point must be one x and one y"):
        in_polygon((1, 1, 1), line)


def test_a_far_away_click_is_outside_and_overflows_nothing():
    assert not in_polygon((1e308, -1e308), U_SHAPE)


def on_an_edge(point, corners):
    """Exact for whole numbers: |point − a| · |b − a| in line, and between the two."""
    for i, a in enumerate(corners):
        b = corners[(i + 1) % len(corners)]
        along, across = (b[0] - a[0], b[1] - a[1]), (point[0] - a[0], point[1] - a[1])
        dot = along[0] * across[0] + along[1] * across[1]
        in_line = along[0] * across[1] == along[1] * across[0]
        if in_line and 0 <= dot <= along[0] ** 2 + along[1] ** 2 and (any(along) or not any(across)):
            return True
    return False


def winding_number(point, corners):
    """How often the polygon goes round the point, from the angles that its edges take up there."""
    angles = [math.atan2(y - point[1], x - point[0]) for x, y in corners]
    turns = [(angles[(i + 1) % len(angles)] - angle + math.pi) % math.tau - math.pi for i, angle in enumerate(angles)]
    return round(math.fsum(turns) / math.tau)


@few
@given(places, polygons)
def test_inside_is_what_is_gone_round_an_odd_number_of_times(point, corners):
    expected = on_an_edge(point, corners) or winding_number(point, corners) % 2 == 1
    assert in_polygon(point, corners) == expected


@few
@given(places, polygons, st.integers(0, 7), st.booleans())
def test_where_a_polygon_begins_and_which_way_it_goes_do_not_count(point, corners, first, backwards):
    turned = corners[first % len(corners) :] + corners[: first % len(corners)]
    again = turned[::-1] if backwards else turned
    assert in_polygon(point, again) == in_polygon(point, corners)
    assert in_polygon(point, [*corners, corners[0]]) == in_polygon(point, corners), "closed by hand"


@few
@given(places, st.lists(places, min_size=3, max_size=7, unique=True))
def test_inside_is_what_shapely_says(point, corners):
    """Of polygons that do not cross themselves: on the others shapely would first have to repair them."""
    shapely = pytest.importorskip("shapely", reason="an outside library to compare with")
    polygon = shapely.Polygon(corners)
    if not polygon.is_valid:
        return
    assert in_polygon(point, corners) == polygon.covers(shapely.Point(point))


# -- clicks that were asked for again -------------------------------------------------------------------------------


def test_spread_by_hand():
    assert spread([[0, 0], [6, 8]]) == 5.0
    assert spread([[0, 0], [0, 3], [0, 6]]) == pytest.approx(math.sqrt((9 + 0 + 9) / 3))
    assert spread([[7, 7]] * 4) == 0.0
    assert spread([[0, 0], [6e200, 8e200]]) == pytest.approx(5e200)


def test_one_click_has_no_spread():
    assert spread([]) is None
    assert spread([[1, 2]]) is None


@few
@given(st.lists(st.tuples(coordinates, coordinates), min_size=2, max_size=9))
def test_spread_is_the_root_of_half_the_mean_square_between_any_two(points):
    """Σ_i Σ_j |p_i − p_j|² = 2 n² · spread², which needs no centre."""
    squares = [math.dist(p, q) ** 2 for p in points for q in points]
    assert spread(points) ** 2 == pytest.approx(sum(squares) / (2 * len(points) ** 2), abs=1e-6)


def test_agreement_by_hand():
    points = [[100, 110], [100, 120], [100, 120.001], [400, 400]]
    assert agreement([100, 100], points, asked=4, delta=20) == 2 / 4, "a distance of delta still agrees"
    assert agreement([100, 100], points, asked=8, delta=20) == 2 / 8, "an answer without a place does not agree"
    assert agreement([100, 100], [], asked=3, delta=20) == 0.0
    assert agreement([100, 100], [], asked=0, delta=20) is None


def test_agreement_refuses_what_cannot_be():
    with pytest.raises(InputError, match="2 clicks cannot come from 1 answers"):
        agreement([0, 0], [[1, 1], [2, 2]], asked=1, delta=20)
    for delta in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="must be a finite distance"):
            agreement([0, 0], [[1, 1]], asked=1, delta=delta)
