"""Overlays: marks where they belong, words that can be read, and only screens that are what they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageColor

from howsure.errors import InputError
from howsure.models.images import Picture
from howsure.runs import Run, Sample
from howsure.studies.grounding import marks as look
from howsure.studies.grounding.drawing import BUILT_IN, LEAST_SIDE_PX, Sheet, spelled
from howsure.studies.grounding.overlay import (
    chosen_samples,
    draw_overlay,
    file_names,
    surely_wrong_samples,
    worst_samples,
    write_overlays,
)
from howsure.studies.grounding.record import Confidence
from studies.grounding.clicks_on_paper import about, answered, failed, run_of, screen

BLACK, BLUE, GREEN, VERMILION, WHITE, YELLOW = (
    ImageColor.getrgb(colour) for colour in (look.BLACK, look.BLUE, look.GREEN, look.VERMILION, look.WHITE, look.YELLOW)
)
OSWORLD_G = Path(__file__).parents[4] / "shared" / "data" / "osworld_g"


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Picture:
    return screen(tmp_path_factory.mktemp("screens") / "light.png")


@pytest.fixture(scope="module")
def dark(tmp_path_factory: pytest.TempPathFactory) -> Picture:
    return screen(tmp_path_factory.mktemp("screens") / "dark.png", colour=(12, 12, 16))


def pixel(image: Any, sheet: Sheet, place: tuple[float, float]) -> tuple[int, int, int]:
    x, y = sheet.at(place)
    return image.getpixel((int(x), int(y)))


def sheet_of(picture: Picture, most_side_px: int = 1600) -> Sheet:
    return Sheet(picture.load(), most_side_px)


def count(image: Any, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(image) == colour).all(axis=-1).sum())


def marks_only(image: Any, sheet: Sheet) -> Any:
    """Without the caption."""
    return image.crop((0, 0, image.width, sheet.size[1]))


# -- marks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["light", "dark"])
def test_a_point_and_a_click_are_where_they_belong(name: str, request: pytest.FixtureRequest) -> None:
    picture = request.getfixturevalue(name)
    image = draw_overlay(answered("s", 0, about(picture, (250.0, 500.0)), (750.0, 250.0)), delta=140.0)
    sheet = sheet_of(picture)
    assert pixel(image, sheet, (250.0, 500.0)) == BLUE
    assert pixel(image, sheet, (750.0, 250.0)) == VERMILION
    around = marks_only(image, sheet)
    assert count(around, WHITE) > 300, "every stroke has a rim that is seen on the dark"
    assert pixel(image, sheet, (750.0, 750.0)) == picture.load().getpixel((600, 300)), "the rest stays as it was"


def test_the_reach_is_an_ellipse_in_pixels_and_only_around_points(light: Picture) -> None:
    sheet = sheet_of(light)
    click = (100.0, 100.0)
    with_reach = np.asarray(draw_overlay(answered("s", 0, about(light), click), delta=200.0)).astype(int)
    without = np.asarray(draw_overlay(answered("s", 0, about(light), click), delta=None)).astype(int)
    rows, columns = np.nonzero(np.abs(with_reach - without)[: sheet.size[1]].sum(axis=-1))
    x, y = sheet.at((500.0, 500.0))
    assert columns.min() == pytest.approx(x - 0.2 * 800, abs=6)
    assert columns.max() == pytest.approx(x + 0.2 * 800, abs=6)
    assert rows.min() == pytest.approx(y - 0.2 * 400, abs=6)
    assert rows.max() == pytest.approx(y + 0.2 * 400, abs=6)
    box = about(light, (480.0, 480.0, 520.0, 520.0))
    drawn = [marks_only(draw_overlay(answered("s", 0, box, click), delta=d), sheet) for d in (200.0, None)]
    assert drawn[0].tobytes() == drawn[1].tobytes()


def test_a_box_is_drawn_around_what_is_to_be_clicked(light: Picture) -> None:
    image = draw_overlay(answered("s", 0, about(light, (400.0, 400.0, 600.0, 600.0)), (100.0, 100.0)))
    sheet = sheet_of(light)
    (left, top), (right, bottom) = sheet.at((400.0, 400.0)), sheet.at((600.0, 600.0))
    for x, y in ((left - 2, 215), (right + 1, 215), (430, top - 2), (430, bottom + 1)):
        assert image.getpixel((int(x), int(y))) == BLUE
    inside = image.crop((int(left) + 3, int(top) + 3, int(right) - 3, int(bottom) - 3))
    assert count(inside, (250, 250, 250)) == inside.width * inside.height, "nothing covers it, the line neither"


def test_a_polygon_is_drawn_along_its_corners(light: Picture) -> None:
    target = (300.0, 300.0, 700.0, 300.0, 500.0, 800.0)
    image = draw_overlay(answered("s", 0, about(light, target), (100.0, 100.0)))
    sheet = sheet_of(light)
    for place in ((500.0, 300.0), (400.0, 550.0), (600.0, 550.0), (300.0, 300.0)):
        assert pixel(image, sheet, place) == BLUE
    assert pixel(image, sheet, (300.0, 700.0)) == (250, 250, 250)


@pytest.mark.parametrize(
    ("click", "border"),
    [((1500.0, 500.0), (1000.0, 500.0)), ((500.0, -80.0), (500.0, 0.0)), ((-1e308, 1e308), (0.0, 1000.0))],
)
def test_a_click_beside_the_screen_is_at_its_border_with_an_arrow(
    light: Picture, click: tuple[float, float], border: tuple[float, float]
) -> None:
    sample = answered("s", 0, about(light), click, l2=999.0)
    image, sheet = draw_overlay(sample), sheet_of(light)
    shown = sheet.at(border)
    assert image.getpixel((round(shown[0]), round(shown[1]))) == VERMILION
    margin = np.asarray(marks_only(image, sheet)).copy()
    margin[sheet.margin : -sheet.margin, sheet.margin : -sheet.margin] = 0
    at_border = answered("s", 0, about(light), (min(max(click[0], 0.0), 1000.0), min(max(click[1], 0.0), 1000.0)))
    plain = np.asarray(marks_only(draw_overlay(at_border), sheet)).copy()
    plain[sheet.margin : -sheet.margin, sheet.margin : -sheet.margin] = 0
    arrow = count(margin, VERMILION) - count(plain, VERMILION)
    assert arrow > 20, "the arrow stands in the margin"


def test_other_answers_are_small_dots(light: Picture) -> None:
    drawn = {"asked": 4, "points": [[200.0, 200.0], [800.0, 900.0]], "wrong_format": 1, "refusals": 0, "failed": 1}
    image = draw_overlay(answered("s", 0, about(light), (500.0, 100.0), samples=drawn))
    sheet = sheet_of(light)
    assert pixel(image, sheet, (200.0, 200.0)) == pixel(image, sheet, (800.0, 900.0)) == YELLOW


@pytest.mark.parametrize(
    ("sample", "target_seen"),
    [
        (lambda p: answered("s", 0, about(p), None), True),
        (lambda p: failed("s", 0, about(p)), True),
        (lambda p: answered("s", 0, about(p, None), None, "refusal"), False),
    ],
    ids=["wrong format", "failed", "refusal"],
)
def test_without_a_click_none_is_drawn(light: Picture, sample: Any, target_seen: bool) -> None:
    """No answer is no place: not the corner, not the middle."""
    sheet = sheet_of(light)
    marks = marks_only(draw_overlay(sample(light), delta=140.0), sheet)
    assert count(marks, VERMILION) == 0
    assert (count(marks, BLUE) > 0) is target_seen


def test_a_click_where_there_is_nothing_to_click_has_no_line(light: Picture) -> None:
    sheet = sheet_of(light)
    marks = marks_only(draw_overlay(answered("s", 0, about(light, None), (300.0, 300.0))), sheet)
    assert count(marks, VERMILION) > 50
    assert count(marks, BLUE) == count(marks, BLACK) == 0


# -- the caption ------------------------------------------------------------------------------------------------------


def test_a_hit_and_a_miss_differ_in_more_than_colour(light: Picture) -> None:
    top = sheet_of(light).size[1]
    hit, miss = (
        draw_overlay(answered("s", 0, about(light), click), delta=140.0).crop((0, top, 200, top + 40))
        for click in ((500.0, 500.0), (900.0, 900.0))
    )
    assert count(hit, GREEN) > 500, "filled"
    assert 50 < count(miss, VERMILION) < 500, "an outline"


def test_the_caption_grows_with_the_instruction_and_not_for_ever(light: Picture) -> None:
    heights = [
        draw_overlay(answered("s", 0, about(light, instruction=text), (1.0, 1.0))).height - sheet_of(light).size[1]
        for text in ("short", "words " * 60, "words " * 100_000, "w" * 1_000_000)
    ]
    assert 60 < heights[0] < heights[1] <= heights[2] == heights[3] < 400


@pytest.mark.parametrize("size", [(16, 12), (4000, 3000), (1080, 2400), (9000, 10), (1, 3000)])
def test_screens_of_every_shape_have_room_for_words(tmp_path: Path, size: tuple[int, int]) -> None:
    picture = screen(tmp_path / "odd.png", size)
    image = draw_overlay(answered("s", 0, about(picture), (20.0, 30.0)), delta=140.0, most_side_px=900)
    sheet = sheet_of(picture, 900)
    assert image.width >= LEAST_SIDE_PX
    assert max(sheet.width, sheet.height) == min(900, max(*size, LEAST_SIDE_PX))
    assert image.height > sheet.size[1] + 60


def test_hostile_words_are_only_words(light: Picture) -> None:
    text = "\x1b[2J\u202e\x00 [bold]x[/] \ud800 \U000e0001" + "\n" * 500
    sample = answered("s", 0, about(light, instruction=text), (1.0, 1.0), pred_raw=text, pred_content=text)
    assert draw_overlay(sample, chosen_as=text).width > 0


@pytest.mark.parametrize("most_side_px", [0, 199, 10_001])
def test_a_size_that_makes_no_sense_is_refused(light: Picture, most_side_px: int) -> None:
    with pytest.raises(InputError, match="200 to 10000 pixels"):
        draw_overlay(answered("s", 0, about(light), (1.0, 1.0)), most_side_px=most_side_px)


def test_the_same_sample_is_the_same_picture(light: Picture) -> None:
    sample = answered("s", 0, about(light, instruction="파란색 버튼"), (300.0, 20.0))
    assert draw_overlay(sample, delta=9.0).tobytes() == draw_overlay(sample, delta=9.0).tobytes()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain “words” · 5 %", "plain “words” · 5 %"),
        ("파란색 더하기 버튼", "paransaeg deohagi beoteun"),
        ("Öffne — naïve Straße", "Offne - naive Strasse"),
        ("Нажмите Щит", "Nazhmite Shchit"),
        ("カタカナ ひらがな", "katakana hiragana"),
        ("Άλφα δ≤5", "Alfa d<=5"),
        ("点击 搜索 按钮 now", "(6 Chinese characters) now"),
        ("กดปุ่ม", "(4 Thai characters)"),
        ("click 🔍!", "click [left-pointing magnifying glass]!"),
        ("a\x1b\u202eb\ud800\n\n c", "ab c"),
        ("", ""),
    ],
)
def test_letters_that_the_font_lacks_are_spelled(text: str, shown: str) -> None:
    assert spelled(text) == shown


def test_whatever_is_spelled_can_be_drawn() -> None:
    for start in range(0, 0x3000, 64):
        text = "".join(map(chr, range(start, start + 64)))
        assert set(spelled(text)) <= BUILT_IN, hex(start)


# -- the screen -------------------------------------------------------------------------------------------------------


def test_a_screen_that_changed_is_not_drawn(tmp_path: Path) -> None:
    picture = screen(tmp_path / "a.png")
    sample = answered("s", 0, about(picture), (1.0, 1.0))
    screen(tmp_path / "a.png", colour=(0, 0, 0))
    with pytest.raises(InputError, match="sample 's' cannot be drawn: .*a.png has changed since it was checked"):
        draw_overlay(sample)
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match="a.png cannot be read: No such file.*--image-root"):
        draw_overlay(sample)


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n\x00"], ids=["empty", "text", "torn"])
def test_a_broken_screen_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    import hashlib

    path = tmp_path / "x.png"
    path.write_bytes(content)
    picture = Picture(str(path), 10, 10, hashlib.sha256(content).hexdigest())
    with pytest.raises(InputError, match="x.png"):
        draw_overlay(answered("s", 0, about(picture), (1.0, 1.0)))


def test_a_screen_that_moved_is_found_by_its_name_and_bytes(tmp_path: Path) -> None:
    picture = screen(tmp_path / "old" / "apps" / "a.png", colour=(9, 80, 9))
    sample = answered("s", 0, about(picture), (1.0, 1.0))
    before = draw_overlay(sample)
    shutil.move(tmp_path / "old", tmp_path / "new")
    screen(tmp_path / "new" / "a.png")  # the same name, another screen
    assert draw_overlay(sample, image_root=tmp_path / "new").tobytes() == before.tobytes()
    assert draw_overlay(sample, image_root=tmp_path / "new" / "apps").tobytes() == before.tobytes()
    (tmp_path / "new" / "apps" / "a.png").unlink()
    with pytest.raises(InputError, match="nothing under .*new is it"):
        draw_overlay(sample, image_root=tmp_path / "new")


def test_a_path_that_climbs_is_not_followed_out_of_the_root(tmp_path: Path) -> None:
    picture = screen(tmp_path / "outside" / "a.png")
    sample = answered("s", 0, about(picture), (1.0, 1.0))
    sample.result.image_path = "/gone/../outside/a.png"
    (tmp_path / "root").mkdir()
    with pytest.raises(InputError, match="nothing under .*root is it"):
        draw_overlay(sample, image_root=tmp_path / "root")


# -- which samples ----------------------------------------------------------------------------------------------------


def misses(picture: Picture) -> list[Sample]:
    """By distance: far, near, hit; by confidence: near, far."""
    item = about(picture)
    return [
        answered("hit", 0, item, (500.0, 500.0), confidence={"coordinate_mean": 1.0, "spread": 0.0}),
        answered("near", 1, item, (700.0, 500.0), confidence={"coordinate_mean": 0.9, "spread": 50.0}),
        answered("far", 2, item, (950.0, 500.0), confidence={"coordinate_mean": 0.8, "spread": 5.0}),
        answered("unread", 3, item, None, confidence={"coordinate_mean": None, "spread": None}),
        failed("lost", 4, item),
    ]


@pytest.fixture(scope="module")
def run(light: Picture, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("run") / "run", misses(light))


def test_the_worst_and_the_surely_wrong(light: Picture) -> None:
    made = misses(light)
    assert [s.id for s in worst_samples(made, 2)] == ["far", "near"]
    assert [s.id for s in worst_samples(made, 9)] == ["far", "near", "hit"], "only those that have a distance"
    kind, wrong = surely_wrong_samples(made, 9)
    assert (kind, [s.id for s in wrong]) == ("coordinate_mean", ["near", "far"])
    for sample in made:
        if sample.result.confidence is not None:
            sample.result.confidence = Confidence(spread=sample.result.confidence.spread)
    kind, wrong = surely_wrong_samples(made, 9)
    assert (kind, [s.id for s in wrong]) == ("spread", ["far", "near"]), "of a distance, the least is the surest"
    assert surely_wrong_samples([], 3) == (None, [])


def test_each_chosen_sample_is_written_once_in_the_order_of_the_choice(run: Run, tmp_path: Path) -> None:
    paths = write_overlays(run, tmp_path / "o", ids=["hit"], worst=1, surely_wrong=2)
    assert [path.name for path in paths] == ["hit.png", "far.png", "near.png"]
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["far.png", "hit.png", "near.png"]
    assert {Image.open(path).format for path in paths} == {"PNG"}
    every = write_overlays(run, tmp_path / "all", every=True)
    assert [path.stem for path in every] == ["hit", "near", "far", "unread", "lost"]
    assert [s.id for s in chosen_samples(run, worst=2)] == ["far", "near"]


def test_the_reach_of_the_run_is_drawn(run: Run, light: Picture, tmp_path: Path) -> None:
    (path,) = write_overlays(run, tmp_path, ids=["near"])
    expected = draw_overlay(misses(light)[1], delta=140.0)
    assert Image.open(path).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"ids": ["Neer"]}, "has no sample 'Neer'; do you mean 'near'?"),
        ({"ids": ["zzzz"]}, "has no sample 'zzzz'; it has 'hit', 'near', 'far' and others"),
        ({}, "there is nothing to draw"),
        ({"worst": -1}, "must be 0 or more, not -1"),
    ],
    ids=["close", "far", "nothing", "negative"],
)
def test_what_cannot_be_chosen_is_one_sentence(run: Run, tmp_path: Path, wanted: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        write_overlays(run, tmp_path / "o", **wanted)
    assert sentence in str(caught.value)
    assert not (tmp_path / "o").exists()


def test_without_any_confidence_the_surely_wrong_cannot_be_asked_for(light: Picture, tmp_path: Path) -> None:
    bare = run_of(tmp_path / "run", [answered("a", 0, about(light), (900.0, 900.0), confidence={})])
    with pytest.raises(InputError, match="no confidence of any kind"):
        write_overlays(bare, tmp_path / "o", surely_wrong=3)
    assert [path.stem for path in write_overlays(bare, tmp_path / "o", worst=1, surely_wrong=3)] == ["a"]


def test_only_grounding_runs(tmp_path: Path, light: Picture) -> None:
    with pytest.raises(InputError, match="is a run of 'mcq'"):
        write_overlays(run_of(tmp_path / "r", misses(light), study="mcq"), tmp_path / "o", every=True)


def test_file_names_are_ids_where_that_is_safe() -> None:
    ids = ["7JW3-0", "a", "A", "../up", "x" * 500, "con.txt", "a/b"]
    names = file_names(ids)
    assert names["7JW3-0"] == "7JW3-0.png"
    assert names["a"] == "a.png"
    assert len({name.lower() for name in names.values()}) == len(ids)
    assert all("/" not in name and len(name) < 120 for name in names.values())


def test_real_screens(tmp_path: Path) -> None:
    """OSWorld-G's own sizes and places: the middle of the box of each has the target's box around it."""
    if not OSWORLD_G.is_dir():
        pytest.skip("the shared data is not here: osworld_g")
    rows = json.loads((OSWORLD_G / "osworld_g_refined_sample.json").read_text())
    from howsure.models.images import inspect_picture

    for row in [row for row in rows if row["box_type"] == "bbox"][:3]:
        picture = inspect_picture(OSWORLD_G / "images" / row["image_path"])
        x, y, w, h = row["box_coordinates"]
        edges = [x, y, x + w, y + h]
        target = [value / (picture.width, picture.height)[i % 2] * 1000 for i, value in enumerate(edges)]
        image = draw_overlay(answered(row["id"], 0, about(picture, target), (500.0, 500.0)))
        sheet = Sheet(picture.load(), 1600)
        left, middle = sheet.at((target[0], (target[1] + target[3]) / 2))
        assert image.getpixel((int(left) - 2, int(middle))) == BLUE
        assert pixel(image, sheet, (500.0, 500.0)) == VERMILION
