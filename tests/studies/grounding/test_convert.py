"""Conversion: from what is written, the same samples are read again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.options import ConvertOptions
from howsure.studies.grounding.reading.data import convert, read_items

from .screens import answer, chat, flat, screen, spot, write_array, write_lines, write_pickle

OSWORLD = Path(__file__).parents[4] / "shared" / "data" / "osworld_g"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: text.strip())
PLACE = st.floats(0, 1000)


def assert_round_trip(data: Path, to: Path, **options: Any) -> None:
    before = read_items(data, **options)
    told = convert(ConvertOptions(data, to=to, **options))
    after = read_items(to, image_root=told.image_root)
    assert (told.written, told.skipped) == (len(before.items), before.skipped)
    assert after.items == before.items
    assert after.fingerprint == before.fingerprint
    assert after.form == "flat_jsonl"
    again = convert(ConvertOptions(to, to=to.with_suffix(".again.jsonl"), image_root=told.image_root))
    assert again.image_root == told.image_root
    assert to.with_suffix(".again.jsonl").read_bytes() == to.read_bytes()


def test_pickles_of_several_users(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("shots/1.png", "shots/2.png"):
        screen(data / name)
    write_pickle(data / "user_1.pkl", [chat("shots/1.png"), chat("shots/2.png", "닫아", answer(0.1, 999.9))])
    write_pickle(data / "user_2.pkl", [chat("shots/1.png", said="?"), chat("shots/1.png")])
    assert_round_trip(data, tmp_path / "all.jsonl", skip_bad=True)
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["user_1-0", "user_1-1", "user_2-1"]
    assert lines[1]["image"] == "shots/2.png"
    assert lines[1]["target"] == {"kind": "point", "coords": [0.1, 999.9]}
    assert lines[1]["labels"] == {"user": ["1"]}
    assert "닫아" in lines[1]["prompt"]
    assert_round_trip(data, tmp_path / "one.jsonl", users=[1], max_samples=1)


def test_screens_in_other_folders_than_the_data(tmp_path: Path) -> None:
    screen(tmp_path / "images" / "x" / "s.png")
    for name in ("a", "b"):
        entry = spot([10, 20, 31, 47], "x\\s.png", application=name, img_size=[200, 100])
        write_array(tmp_path / "annotations" / f"{name}.json", [entry])
    data = tmp_path / "annotations"
    assert_round_trip(data, tmp_path / "out.jsonl")
    told = convert(ConvertOptions(data, to=tmp_path / "more.jsonl"))
    assert told.image_root == os.path.realpath(tmp_path / "images")
    assert json.loads((tmp_path / "more.jsonl").read_text().splitlines()[0])["image"] == "x/s.png"


@pytest.mark.skipif(not OSWORLD.is_dir(), reason="the shared data is not here: osworld_g")
def test_the_real_osworld_g(tmp_path: Path) -> None:
    assert_round_trip(OSWORLD, tmp_path / "out.jsonl", max_samples=20)


SHAPES = st.one_of(
    st.tuples(st.just("point"), st.tuples(PLACE, PLACE)),
    st.tuples(st.just("refusal"), st.just(())),
    st.tuples(st.just("box"), st.tuples(PLACE, PLACE, PLACE, PLACE)),
    st.tuples(st.just("polygon"), st.lists(PLACE, min_size=6, max_size=6)),
)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            TEXT, SHAPES, st.none() | TEXT, st.none() | TEXT, st.dictionaries(st.sampled_from(["user", "type"]), TEXT)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_any_samples(tmp_path_factory: pytest.TempPathFactory, entries: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("convert", numbered=True)
    screen(folder / "a.png", (7, 3))
    lines = [flat(id="sure")] + [
        flat(list(coords), kind, content=content, prompt=prompt, labels=labels) | {"instruction": instruction}
        for instruction, (kind, coords), content, prompt, labels in entries
    ]
    assert_round_trip(write_lines(folder / "in.jsonl", lines), folder / "out.jsonl", skip_bad=True)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.floats(0, 100), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from(["xywh", "xyxy"]),
    st.sampled_from(["pixels", "fractions", "thousandths"]),
)
def test_any_boxes(tmp_path_factory: pytest.TempPathFactory, boxes: list[list[float]], order: str, units: str) -> None:
    folder = tmp_path_factory.mktemp("convert", numbered=True)
    screen(folder / "a.png", (7, 3))
    path = write_array(folder / "in.json", [spot([0, 0, 1, 1]), *map(spot, boxes)])
    assert_round_trip(path, folder / "out.jsonl", skip_bad=True, boxes=order, box_units=units)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    screen(tmp_path / "a.png")
    path = write_lines(tmp_path / "x.jsonl", [flat()])
    content = path.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        convert(ConvertOptions(path, to=path))
    assert path.read_bytes() == content
    with pytest.raises(InputError, match="is not a folder"):
        convert(ConvertOptions(path, to=tmp_path / "nowhere" / "y.jsonl"))


def test_bad_data_writes_nothing(tmp_path: Path) -> None:
    screen(tmp_path / "a.png")
    path = write_lines(tmp_path / "x.jsonl", [flat(), flat([1])])
    with pytest.raises(InputError, match="1 entry of"):
        convert(ConvertOptions(path, to=tmp_path / "y.jsonl"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "x.jsonl"]
