"""Reading data in every form: what comes out, and what is refused in which words."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.reading import data as data_module
from howsure.studies.grounding.reading.boxes import Convention, Evidence, decide
from howsure.studies.grounding.reading.data import read_items
from howsure.studies.grounding.reading.sources import MOST_BYTES
from howsure.studies.grounding.record import Labels, Target

from .hostile_pickles import that_would_run, that_would_swell
from .screens import PROMPT, answer, chat, flat, screen, spot, write_array, write_lines, write_pickle

OSWORLD = Path(__file__).parents[4] / "shared" / "data" / "osworld_g"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two screens of 200 × 100 and one of 64 × 48 pixels."""
    screen(tmp_path / "a.png")
    screen(tmp_path / "b.png", colour="red")
    screen(tmp_path / "small.png", (64, 48))
    return tmp_path


def refusal(data: Path, **options: Any) -> str:
    """The sentence that this ends in."""
    with pytest.raises(InputError) as caught:
        read_items(data, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- the document's pickles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(6))
def test_a_users_pickle(folder: Path, protocol: int) -> None:
    samples = [chat(), chat("b.png", "close", answer(10, 20.5, "×"), role="user")]
    found = read_items(write_pickle(folder / "user_3.pkl", samples, protocol))
    first, second = found.items
    assert (found.form, found.skipped, found.decided) == ("chat_pickle", 0, {"parser": "strict"})
    assert (first.id, second.id) == ("user_3-0", "user_3-1")
    assert first.image.path == os.path.realpath(folder / "a.png")
    assert (first.image.width, first.image.height) == (200, 100)
    assert first.instruction == "더하기를 눌러"
    assert first.prompt == PROMPT.format("더하기를 눌러")
    assert (first.target, second.target) == (Target("point", (311.0, 541.0)), Target("point", (10.0, 20.5)))
    assert (first.content, second.content) == ("파란색 더하기 버튼", "×")
    assert first.labels == Labels(user=("3",))


def test_users_of_a_folder_in_the_order_of_their_numbers(folder: Path) -> None:
    for user in (10, 2, 1):
        write_pickle(folder / f"user_{user}.pkl", [chat()] * user)
    (folder / "notes.json").write_text("{}")
    everyone = read_items(folder).items
    assert [item.id for item in everyone] == [f"user_{u}-{i}" for u in (1, 2, 10) for i in range(u)]
    some = read_items(folder, users=[2, 10]).items
    assert Counter(item.labels.user for item in some) == {("2",): 2, ("10",): 10}
    assert [item.id for item in read_items(folder, max_samples=2).items] == ["user_1-0", "user_2-0"]


def test_a_user_without_a_file_is_named_with_those_that_are_there(folder: Path) -> None:
    write_pickle(folder / "user_2.pkl", [chat()])
    write_pickle(folder / "user_10.pkl", [chat()])
    assert "no user 1, 3; it has 2, 10" in refusal(folder, users=[1, 2, 3])
    assert "no user 10; it has 2" in refusal(folder / "user_2.pkl", users=[10])


def test_tuples_and_plain_strings_and_other_prompts(folder: Path) -> None:
    question = {"role": "user", "content": ({"type": "image", "image": "a.png"}, {"type": "text", "text": "press OK"})}
    sample = (question, {"role": "assistant", "content": "(5, 6)"})
    (item,) = read_items(write_pickle(folder / "clicks.pkl", (sample,))).items
    assert (item.id, item.instruction, item.prompt) == ("clicks-0", "press OK", "press OK")
    assert item.target == Target("point", (5.0, 6.0))
    assert (item.labels, item.content) == (Labels(), None)


def test_texts_of_several_parts_are_one(folder: Path) -> None:
    sample = chat()
    sample[0]["content"] = [
        {"type": "text", "text": "press "},
        *chat()[0]["content"][:1],
        {"type": "text", "text": "OK"},
    ]
    assert read_items(write_pickle(folder / "user_1.pkl", [sample])).items[0].prompt == "press OK"


def test_the_parser_that_is_asked_for_reads_the_right_answers(folder: Path) -> None:
    path = write_pickle(folder / "user_1.pkl", [chat(said="```grounding\n(10, 20, 110, 60)\n```")])
    assert read_items(path).items[0].target.coords == (60.0, 40.0)
    found = read_items(path, parser="compat")
    assert found.items[0].target.coords == (10.0, 20.0)
    assert found.decided == {"parser": "compat"}


def message(**fields: Any) -> list[Any]:
    return [{**chat()[0], **fields}, chat()[1]]


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ("text", "Expected `array`, got `str`"),
        (None, "Expected `array`, got `null`"),
        (7, "Expected `array`"),
        ([], "0 messages, not two"),
        (chat()[:1], "1 messages, not two"),
        (chat() + chat(), "4 messages, not two"),
        (chat()[::-1], "not of system or user and then assistant"),
        (message(role="tool"), "'tool' and 'assistant'"),
        (message(role=None), "Expected `str`, got `null`"),
        (message(content=None), "at `$[0].content`"),
        (message(content="only text"), "0 images, not one"),
        (message(content=[]), "the question's text is empty"),
        (message(content=[{"type": "text", "text": "press"}]), "0 images, not one"),
        (message(content=chat()[0]["content"] + chat()[0]["content"]), "2 images, not one"),
        (message(content=[{"type": "image"}]), "no field 'image'"),
        (message(content=[{"type": "video", "video": "a.mp4"}]), "of type 'video'"),
        (message(content=[{"type": "text", "text": "p" * 100_001}]), "more than 100000"),
        (chat(image=5), "Expected `str | null`, got `int`"),
        (chat(said=""), "the answer is empty"),
        (chat(said="somewhere on the left"), "no place can be read from its answer"),
        (chat(said=answer(1200, 5)), "[1200, 5] lies outside the image"),
        (chat(image=""), "is none"),
        (chat(image="a\0.png"), "is none"),
        (chat(image="missing.png"), "is no file in"),
        (chat(image="x/" * 3000), "is none"),
        (chat(image="https://example.com/a.png"), "is no file in"),
        ({"messages": chat(), "id": ""}, "its id must have 1 to 300 characters"),
        ({"messages": chat(), "id": "x" * 301}, "its id must have 1 to 300 characters"),
        ({"messages": 3}, "at `$.messages`"),
        ({"role": "user"}, "missing required field `messages`"),
    ],
    ids=range(30),
)
def test_samples_that_are_none(folder: Path, sample: Any, words: str) -> None:
    path = write_pickle(folder / "user_1.pkl", [chat(), sample, chat("b.png")])
    said = refusal(path)
    assert words in said
    assert said.startswith(f"1 entry of {path} cannot be used: user_1.pkl, entry 2")
    assert "--skip-bad" in said
    assert len(said) < 1500
    found = read_items(path, skip_bad=True)
    assert [item.id for item in found.items] == ["user_1-0", "user_1-2"]
    assert found.skipped == 1


def test_bad_entries_are_listed_ten_of_them(folder: Path) -> None:
    write_pickle(folder / "user_1.pkl", [chat(said="?")] * 8)
    write_pickle(folder / "user_2.pkl", [chat()] + [chat("none.png")] * 5)
    said = refusal(folder)
    assert said.startswith(f"13 entries of {folder} cannot be used: user_1.pkl, entry 1: no place")
    assert "user_2.pkl, entry 3 (user_2-2): the image 'none.png' is no file" in said
    assert "entry 4 (" not in said
    assert "; and 3 more; mend" in said
    found = read_items(folder, skip_bad=True)
    assert ([item.id for item in found.items], found.skipped) == (["user_2-0"], 13)


def test_bad_entries_beyond_the_limit_are_not_looked_at(folder: Path) -> None:
    path = write_pickle(folder / "user_1.pkl", [chat(), chat(), chat(said="?")])
    assert len(read_items(path, max_samples=2).items) == 2
    assert "entry 3" in refusal(path, max_samples=3)


def test_a_limit_counts_good_entries(folder: Path) -> None:
    path = write_pickle(folder / "user_1.pkl", [chat(said="?"), chat(), chat("none.png"), chat(), chat()])
    found = read_items(path, max_samples=2, skip_bad=True)
    assert ([item.id for item in found.items], found.skipped) == (["user_1-1", "user_1-3"], 2)


def test_nothing_usable_is_a_sentence(folder: Path) -> None:
    path = write_pickle(folder / "user_1.pkl", [chat(said="?")])
    assert "no usable sample" in refusal(path, skip_bad=True)
    assert "holds no samples" in refusal(write_pickle(folder / "user_1.pkl", []))
    assert "holds a dict, not a list" in refusal(write_pickle(folder / "user_1.pkl", {"a": []}))


def test_ten_thousand_samples_open_their_image_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    inspect = data_module.inspect_pictures

    def watched(paths: list[str]) -> Any:
        looked_at.extend(dict.fromkeys(paths))
        return inspect(paths)

    monkeypatch.setattr(data_module, "inspect_pictures", watched)
    samples = [chat(("a.png", "./a.png", "b.png")[i % 3], f"press {i}", answer(i % 1000, 5)) for i in range(10_000)]
    write_pickle(folder / "user_1.pkl", samples)
    write_pickle(folder / "user_2.pkl", samples[:3])
    found = read_items(folder)
    assert len(found.items) == 10_003
    assert found.items[4321].target.coords == (321.0, 5.0)
    assert sorted(looked_at) == sorted(os.path.realpath(folder / name) for name in ("a.png", "b.png"))


@pytest.mark.parametrize("name", ["os_system_4", "eval_0", "reduce_chain", "after_good_samples"])
def test_a_hostile_pickle_stops_the_reading_even_among_good_ones(folder: Path, name: str) -> None:
    canary = folder / "canary"
    write_pickle(folder / "user_1.pkl", [chat()])
    (folder / "user_2.pkl").write_bytes(that_would_run(canary)[name][0])
    said = refusal(folder, skip_bad=True)
    assert f"{folder / 'user_2.pkl'} asks for «" in said
    assert not canary.exists()


@pytest.mark.parametrize("name", ["lists_by_doubling", "nested_lists", "trailing", "several", "truncated"])
def test_a_bomb_stops_the_reading(folder: Path, name: str) -> None:
    (folder / "data.pkl").write_bytes(that_would_swell()[name][0])
    assert str(folder / "data.pkl") in refusal(folder / "data.pkl")


def test_a_bomb_in_a_field_that_nobody_reads_is_one_too(folder: Path) -> None:
    bomb: Any = []
    for _ in range(40):
        bomb = [bomb, bomb]
    sample = chat()
    sample[0]["meta"] = bomb
    assert "is a bomb" in refusal(write_pickle(folder / "user_1.pkl", [sample]))


# -- the same as JSON lines ---------------------------------------------------------------------------------------


def test_chats_as_json_lines_bare_and_with_fields(folder: Path) -> None:
    bare = read_items(write_lines(folder / "user_4.jsonl", [chat(), chat("b.png")]))
    assert bare.form == "chat_jsonl"
    assert [(item.id, item.labels) for item in bare.items] == [
        ("user_4-0", Labels(user=("4",))),
        ("user_4-1", Labels(user=("4",))),
    ]
    entries = [{"messages": chat(), "user": 9, "id": "x"}, {"messages": chat(), "user": "8"}, {"messages": chat()}]
    named = read_items(write_lines(folder / "all.jsonl", entries)).items
    assert [item.id for item in named] == ["x", "all-1", "all-2"]
    assert [item.labels for item in named] == [Labels(user=("9",)), Labels(user=("8",)), Labels()]


@pytest.mark.parametrize("entries", [[chat()], [{"messages": chat()}], [chat(), chat()]], ids=["bare", "record", "two"])
def test_few_lines_are_lines(folder: Path, entries: list[Any]) -> None:
    assert len(read_items(write_lines(folder / "x.jsonl", entries)).items) == len(entries)
    assert len(read_items(write_array(folder / "x.json", entries)).items) == len(entries)


def test_users_within_one_file_are_chosen_by_their_label(folder: Path) -> None:
    path = write_lines(folder / "all.jsonl", [{"messages": chat(), "user": user} for user in (1, 2, 3, 1)])
    assert [item.id for item in read_items(path, users=[1, 3]).items] == ["all-0", "all-2", "all-3"]
    assert "has no user 7; it has 1, 2, 3" in refusal(path, users=[1, 7])
    unnamed = write_lines(folder / "none.jsonl", [flat()])
    assert "does not say whose samples" in refusal(unnamed, users=[1])


def test_a_user_twice_in_one_folder_is_refused(folder: Path) -> None:
    write_pickle(folder / "user_1.pkl", [chat()])
    write_lines(folder / "user_1.jsonl", [chat()])
    assert "has user 1 twice, as user_1.jsonl and user_1.pkl" in refusal(folder)


def test_the_name_does_not_tell_the_form(folder: Path) -> None:
    path = write_lines(folder / "user_1.pkl", [chat()])
    assert read_items(path).form == "chat_jsonl"
    assert read_items(write_pickle(folder / "user_2.jsonl", [chat()], 0)).form == "chat_pickle"
    assert read_items(write_array(folder / "user_3.pkl", [spot([1, 2, 3, 4])])).form == "screenspot"


def test_marks_and_line_ends_of_windows(folder: Path) -> None:
    lines = b"\r\n".join(json.dumps(flat(id=i)).encode() for i in range(3))
    (folder / "x.jsonl").write_bytes(b"\xef\xbb\xbf" + lines + b"\r\n\r\n")
    assert [item.id for item in read_items(folder / "x.jsonl").items] == ["0", "1", "2"]


# -- hostile JSON -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"id": 1', "no JSON"),
        (b"nonsense", "no JSON"),
        (b"3", "Expected `object`, got `int`"),
        (b"null", "Expected `object`, got `null`"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a":' * 100_000, "nested too deep"),
        (b'{"image": "\xff"}', "not UTF-8"),
        (b'{"image": "a.png", "image": "b.png"}', "key 'image' stands twice"),
        (b'{"image": "a.png", "instruction": "\\ud800", "target": {"kind": "refusal"}}', "half a character"),
        (b'{"image": "a.png", "target": {"kind": "point", "coords": [NaN, 1]}}', "NaN is no number"),
        (b'{"image": "a.png", "target": {"kind": "point", "coords": [-Infinity, 1]}}', "-Infinity is no number"),
        (b'{"x": ' + b"9" * 5000 + b"}", "no JSON"),
    ],
    ids=range(12),
)
def test_lines_that_are_no_json(folder: Path, line: bytes, words: str) -> None:
    good = json.dumps(flat(id="good")).encode()
    (folder / "x.jsonl").write_bytes(good + b"\n" + line + b"\n" + good.replace(b"good", b"fine") + b"\n")
    said = refusal(folder / "x.jsonl")
    assert "x.jsonl, line 2: " in said
    assert words in said
    assert len(said) < 700
    found = read_items(folder / "x.jsonl", skip_bad=True)
    assert ([item.id for item in found.items], found.skipped) == (["good", "fine"], 1)


def test_a_torn_first_line_can_be_left_out(folder: Path) -> None:
    (folder / "x.jsonl").write_bytes(b'{"id": 3, "ima\n' + json.dumps(flat()).encode() + b"\n")
    assert "line 1" in refusal(folder / "x.jsonl")
    assert [item.id for item in read_items(folder / "x.jsonl", skip_bad=True).items] == ["x-1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"[]", "holds no samples"),
        (b"[1, 2]", "of no form that is known"),
        (b'{"a": 1}', "of no form that is known"),
        (b'[{"a": 1}]', "of no form that is known"),
        (b'{"a": 1}\n{"b": NaN}', "entry 2: NaN is no number"),
        (b"[" * 100_000, "nested too deep"),
        (b'[{"img_filename": "a.png",', "neither a JSON array nor JSON lines"),
        (b"hello, world", "neither a pickle nor JSON"),
        (b"id,image,x,y\n1,a.png,3,4\n", "neither a pickle nor JSON"),
        (b"PK\x03\x04 not even a zip", "neither a pickle nor JSON"),
        (b"\x89PNG\r\n", "neither a pickle nor JSON"),
    ],
    ids=range(14),
)
def test_files_that_are_no_data(folder: Path, content: bytes, words: str) -> None:
    (folder / "x.json").write_bytes(content)
    said = refusal(folder / "x.json")
    assert words in said
    assert str(folder / "x.json") in said
    assert len(said) < 700


@settings(max_examples=100)
@given(st.data())
def test_no_json_ends_in_anything_but_items_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Entries of every form with values of every kind in their fields."""
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    )
    entry: Any = data.draw(
        st.sampled_from(
            [
                {"messages": chat(), "id": "a", "user": 1},
                spot([1, 2, 3, 4], img_size=[200, 100], ui_type="icon", platform="ios", id=1),
                flat(labels={"user": ["1"]}, prompt="p", content="c", id="i"),
                {"id": "q", "image_path": "a.png", "instruction": "i", "box_type": "bbox", "image_size": [200, 100],
                 "box_coordinates": [1, 2, 3, 4], "GUI_types": ["Icon"]},
            ]
        )
    )  # fmt: skip
    field = data.draw(st.sampled_from(sorted(entry)))
    folder = tmp_path_factory.mktemp("x", numbered=True)
    screen(folder / "a.png")
    path = folder / "x.json"
    path.write_text(json.dumps([entry, entry | {field: data.draw(anything)}]))
    try:
        found = read_items(path, skip_bad=True)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert 1 <= len(found.items) <= 2


# -- flat lines ---------------------------------------------------------------------------------------------------


def test_flat_lines(folder: Path) -> None:
    entries = [
        flat([1, 2.5], id="p", content="OK", prompt="press OK"),
        flat([0, 0, 10, 20], "box", labels={"user": "7", "type": ["icon", "text"], "platform": None}),
        flat([0, 0, 10, 0, 5, 8], "polygon"),
        flat([], "refusal"),
    ]
    found = read_items(write_lines(folder / "clicks.jsonl", entries))
    assert (found.form, found.decided) == ("flat_jsonl", {})
    assert [item.id for item in found.items] == ["p", "clicks-1", "clicks-2", "clicks-3"]
    assert [item.target for item in found.items] == [
        Target("point", (1.0, 2.5)),
        Target("box", (0.0, 0.0, 10.0, 20.0)),
        Target("polygon", (0.0, 0.0, 10.0, 0.0, 5.0, 8.0)),
        Target("refusal"),
    ]
    assert (found.items[0].content, found.items[0].prompt) == ("OK", "press OK")
    assert found.items[1].labels == Labels(user=("7",), type=("icon", "text"))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (flat([1, 2, 3]), "must have 2 numbers, not 3"),
        (flat([]), "must have 2 numbers, not 0"),
        (flat([1, 2], "box"), "must have 4 numbers, not 2"),
        (flat([1, 2], "refusal"), "must have 0 numbers, not 2"),
        (flat([1, 2, 3, 4], "polygon"), "at least 3 corners"),
        (flat([1, 2, 3, 4, 5, 6, 7], "polygon"), "at least 3 corners"),
        (flat([0, 0, 5, 5, 10, 10], "polygon"), "has no area"),
        (flat([5, 5, 5, 5, 5, 5], "polygon"), "has no area"),
        (flat([10, 10, 10, 20], "box"), "has no area"),
        (flat([20, 10, 10, 20], "box"), "has no area"),
        (flat([1000, 10, 1100, 20], "box"), "lies outside the image"),
        (flat([-9, -9, -1, -3, -2, -8], "polygon"), "lies outside the image"),
        (flat([-1, 5]), "lies outside the image"),
        (flat([0, 0, 1e308, 1e308], "box") | {"id": True}, "at `$.id`"),
        (flat([1, 2], "circle"), "Invalid enum value 'circle'"),
        (flat(["1", "2"]), "Expected `float`, got `str`"),
        (flat([True, 2]), "Expected `float`, got `bool`"),
        (flat([10**400, 2]), "out of range"),
        (flat(labels={"colour": ["red"]}), "'colour', which is none of user, platform"),
        (flat(labels={"type": ["x" * 301]}), "a label of kind type is longer"),
        (flat(labels=[1]), "at `$.labels`"),
        (flat(prompt=" "), "prompt is empty"),
        (flat() | {"instruction": ""}, "instruction is empty"),
        (flat() | {"instruction": None}, "Expected `str`, got `null`"),
        (flat() | {"image": None}, "Expected `str`, got `null`"),
        (flat(id="first"), "its id is that of x.jsonl, line 1 already"),
    ],
    ids=range(26),
)
def test_flat_lines_that_are_none(folder: Path, entry: Any, words: str) -> None:
    path = write_lines(folder / "x.jsonl", [flat(id="first"), entry])
    said = refusal(path)
    assert words in said
    assert "x.jsonl, line 2" in said
    assert read_items(path, skip_bad=True).skipped == 1


def test_fractions_where_thousandths_belong(folder: Path) -> None:
    """They would all be clicks into the first corner, and nothing would tell."""
    chats = [chat(said=answer(0.311, 0.541)), chat(said=answer(1, 0))]
    assert "[0.311, 0.541]: they are fractions" in refusal(write_pickle(folder / "user_1.pkl", chats))
    assert "multiply them by 1000" in refusal(write_lines(folder / "f.jsonl", [flat([0.1, 0.2, 0.5, 0.6], "box")]))
    corner = [flat([0.5, 0.5]), flat([700, 200])]
    assert len(read_items(write_lines(folder / "c.jsonl", corner)).items) == 2
    assert len(read_items(write_lines(folder / "o.jsonl", [flat([0, 1])])).items) == 1


def test_pixels_where_thousandths_belong_are_told_the_frame(folder: Path) -> None:
    said = refusal(write_pickle(folder / "user_1.pkl", [chat(said=answer(1500, 700))]))
    assert "[1500, 700] lies outside the image, whose width and height are 1000 each here" in said
    spots = refusal(write_array(folder / "spots.json", [spot([300, 20, 30, 40])]))
    assert "outside the image;" in spots


def test_numbers_beyond_all_bounds_and_boxes_that_reach_out(folder: Path) -> None:
    (folder / "x.jsonl").write_text(json.dumps(flat(id=1)) + "\n" + json.dumps(flat()).replace("500,", "1e999,") + "\n")
    assert "beyond all bounds" in refusal(folder / "x.jsonl")
    (item,) = read_items(write_lines(folder / "y.jsonl", [flat([-5, 0, 1e308, 10], "box")])).items
    assert item.target.coords == (-5.0, 0.0, 1e308, 10.0)


# -- ScreenSpot ---------------------------------------------------------------------------------------------------


def box_of(coords: tuple[float, ...]) -> tuple[float, ...]:
    return pytest.approx(coords)  # type: ignore[return-value]


def test_screenspot_as_published(folder: Path) -> None:
    (folder / "a.png").rename(screen(folder / "screenspot_imgs" / "a.png"))
    entries = [
        spot([100, 50, 20, 10], data_type="icon", data_source="ios"),
        spot([10, 20, 30, 40], data_type="text", data_source="windows"),
    ]
    found = read_items(write_array(folder / "screenspot_mobile.json", entries))
    assert found.form == "screenspot"
    assert found.decided == {
        "boxes": {
            "screenspot_mobile.json": {
                "order": "xywh",
                "units": "pixels",
                "rule": "xyxy_impossible",
                "because": "entry 1",
            }
        }
    }
    first, second = found.items
    assert (first.id, second.id) == ("screenspot_mobile-0", "screenspot_mobile-1")
    assert first.target.coords == box_of((500, 500, 600, 600))
    assert second.target.coords == box_of((50, 200, 200, 600))
    assert first.labels == Labels(platform=("ios",), type=("icon",))
    assert first.prompt is None


def test_a_folder_of_screenspot_files_in_the_order_of_names(folder: Path) -> None:
    write_array(folder / "screenspot_web_v2.json", [spot([1, 2, 3, 4])])
    write_array(folder / "screenspot_desktop_v2.json", [spot([0.1, 0.1, 0.2, 0.3])])
    screen(folder / "screenspotv2_image" / "a.png")
    found = read_items(folder)
    assert [item.id for item in found.items] == ["screenspot_desktop_v2-0", "screenspot_web_v2-0"]
    rules = {name: (one["order"], one["units"], one["rule"]) for name, one in found.decided["boxes"].items()}
    assert rules == {
        "screenspot_desktop_v2.json": ("xyxy", "fractions", "known_for_form"),
        "screenspot_web_v2.json": ("xywh", "pixels", "known_for_form"),
    }


def test_screenspot_pro_with_images_beside_annotations(tmp_path: Path) -> None:
    screen(tmp_path / "images" / "blender" / "s.png", (400, 200))
    for name in ("blender_windows", "autocad_windows"):
        entry = spot(
            [100, 50, 200, 100], "blender/s.png", id=f"{name}_0", ui_type="icon", platform="windows", group="CAD",
            application=name.split("_")[0], img_size=[400, 200], instruction_cn="按", language="en", gt_type="positive",
        )  # fmt: skip
        write_array(tmp_path / "annotations" / f"{name}.json", [entry])
    for where in (tmp_path, tmp_path / "annotations"):
        found = read_items(where)
        assert [item.id for item in found.items] == ["autocad_windows_0", "blender_windows_0"]
        assert found.items[1].target.coords == box_of((250, 250, 500, 500))
        assert found.items[1].labels == Labels(
            platform=("windows",), type=("icon",), application=("blender",), group=("CAD",)
        )
        assert found.decided["boxes"]["blender_windows.json"]["rule"] == "known_for_form"


@pytest.mark.parametrize(
    ("boxes", "size", "pro", "expected"),
    [
        ([[100, 50, 20, 10]], (200, 100), True, ("xywh", "pixels", "xyxy_impossible")),
        ([[10, 50, 20, 30]], (200, 100), True, ("xywh", "pixels", "xyxy_impossible")),
        ([[10, 10, 20, 20], [90, 20, 150, 40]], (200, 100), False, ("xyxy", "pixels", "xywh_impossible")),
        ([[10, 60, 20, 80]], (200, 100), False, ("xyxy", "pixels", "xywh_impossible")),
        ([[10, 10, 20, 20]], (200, 100), False, ("xywh", "pixels", "known_for_form")),
        ([[10, 10, 20, 20]], (200, 100), True, ("xyxy", "pixels", "known_for_form")),
        ([[10, 10, 20, 20]], None, False, ("xywh", "pixels", "known_for_form")),
        ([[0.1, 0.1, 0.2, 0.2]], (200, 100), False, ("xyxy", "fractions", "known_for_form")),
        ([[0, 0, 1, 1]], (200, 100), False, ("xyxy", "fractions", "known_for_form")),
        ([[0.1, 0.5, 0.2, 0.2]], None, False, ("xywh", "fractions", "xyxy_impossible")),
        ([[0.6, 0.1, 0.7, 0.2]], None, False, ("xyxy", "fractions", "xywh_impossible")),
        # a pixel's rounding says nothing
        ([[90, 10, 110.9, 20]], (200, 100), False, ("xywh", "pixels", "known_for_form")),
        ([[90, 10, 111.1, 20]], (200, 100), False, ("xyxy", "pixels", "xywh_impossible")),
        # boxes that are wrong either way say nothing
        ([[10, 10, 20, 20], [50, 50, 0, 0]], (200, 100), True, ("xyxy", "pixels", "known_for_form")),
        ([[10, 10, 20, 20], [900, 900, 990, 990]], (200, 100), False, ("xywh", "pixels", "known_for_form")),
        ([[0.1, 0.1, 0.2, 0.2], [0.2, 0.2, float("inf"), 1]], None, False, ("xyxy", "fractions", "known_for_form")),
    ],
    ids=range(16),
)
def test_how_boxes_are_told_apart(
    boxes: list[list[float]], size: tuple[int, int] | None, pro: bool, expected: tuple[str, str, str]
) -> None:
    evidence = [Evidence(i, tuple(box), size) for i, box in enumerate(boxes, 1)]
    assert decide(evidence, order=None, units=None, pro=pro)[:3] == expected
    assert decide(evidence, order="xywh", units="thousandths", pro=pro) == Convention("xywh", "thousandths", "given")


def test_boxes_that_are_written_neither_way(folder: Path) -> None:
    path = write_array(folder / "x.json", [spot([1, 1, 5, 5]), spot([100, 50, 20, 10]), spot([90, 40, 150, 70])])
    said = refusal(path)
    assert "entry 2, [100, 50, 20, 10], cannot be left, top, right, bottom" in said
    assert "entry 3, [90, 40, 150, 70], as x, y, width, height, reaches out" in said
    assert "--boxes" in said
    found = read_items(path, boxes="xywh")
    assert found.items[2].target.coords == box_of((450, 400, 1200, 1100))
    assert found.decided["boxes"]["x.json"] == {"order": "xywh", "units": "pixels", "rule": "given"}


def test_fractions_with_one_slip(folder: Path) -> None:
    path = write_array(folder / "x.json", [spot([0.1, 0.1, 0.2, 0.2]), spot([0.1, 0.1, 1.2, 0.2])])
    assert "entry 2 has [0.1, 0.1, 1.2, 0.2]" in refusal(path)
    assert read_items(path, box_units="fractions").items[1].target.coords == box_of((100, 100, 1200, 200))


def test_overrides(folder: Path) -> None:
    path = write_array(folder / "x.json", [spot([10, 20, 30, 40])])
    assert read_items(path, boxes="xyxy").items[0].target.coords == box_of((50, 200, 150, 400))
    assert read_items(path, box_units="thousandths").items[0].target.coords == (10.0, 20.0, 40.0, 60.0)
    assert "--boxes must be one of xywh, xyxy" in refusal(path, boxes="yxyx")
    assert "--box-units must be one of" in refusal(path, box_units="percent")
    assert "--parser must be one of strict, compat" in refusal(path, parser="lenient")
    assert "--max-samples must be at least 1" in refusal(path, max_samples=0)
    other = write_lines(folder / "y.jsonl", [flat()])
    assert "y.jsonl is flat_jsonl" in refusal(other, boxes="xywh")


def test_with_a_limit_only_its_images_are_opened_where_the_numbers_tell(folder: Path) -> None:
    entries = [spot([100, 50, 20, 10]), spot([10, 10, 5, 5], "missing.png")]
    assert len(read_items(write_array(folder / "x.json", entries), max_samples=1).items) == 1
    open_both_ways = [spot([10, 10, 20, 20]), spot([90, 10, 150, 20], "b.png")]
    found = read_items(write_array(folder / "y.json", open_both_ways), max_samples=1)
    assert found.decided["boxes"]["y.json"]["rule"] == "xywh_impossible"  # as the whole file has it


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (spot([1, 2, 3]), "bbox must have four numbers, not 3"),
        (spot([100, 50, 0, 10]), "has no area"),
        (spot([100, 50, -20, 10]), "has no area"),
        (spot([300, 50, 20, 10]), "lies outside the image"),
        (spot([1e308, 1, 1e308, 1]), "beyond all bounds"),
        (spot([100, 50, 20, 10], img_size=[100, 200]), "said to have 100 × 200 pixels, but has 200 × 100"),
        (spot([100, 50, 20, 10], img_size=[100]), "img_size must be a width and a height"),
        (spot([100, 50, 20, 10], img_size=[0, -1]), "img_size must be a width and a height"),
        (spot([100, 50, 20, 10], img_size="big"), "at `$.img_size`"),
        (spot([100, 50, 20, 10], image=None), "it has no img_filename"),  # type: ignore[arg-type]
        (spot([100, 50, 20, 10], instruction=""), "instruction is empty"),
        (spot([100, 50, 20, 10], instruction=None), "got `null`"),
        (spot(None), "Expected `array`, got `null`"),  # type: ignore[arg-type]
        (spot([100, 50, 20, 10], platform=5), "at `$.platform`"),
        ({"img_filename": "a.png"}, "missing required field `bbox`"),
        (7, "Expected `object`"),
    ],
    ids=range(16),
)
def test_screenspot_entries_that_are_none(folder: Path, entry: Any, words: str) -> None:
    path = write_array(folder / "x.json", [spot([100, 50, 20, 10]), entry])
    said = refusal(path)
    assert words in said
    assert "x.json, entry 2" in said
    assert len(read_items(path, skip_bad=True).items) == 1


def test_other_names_and_empty_fields(folder: Path) -> None:
    entry = {
        "file_name": "a.png",
        "bbox": [0.1, 0.2, 0.3, 0.4],
        "instruction": "press",
        "data_type": "",
        "platform": None,
    }
    (item,) = read_items(write_array(folder / "x.json", [entry])).items
    assert item.target.coords == box_of((100, 200, 300, 400))
    assert item.labels == Labels()


# -- OSWorld-G ----------------------------------------------------------------------------------------------------


def osworld(box_type: str, coordinates: list[float], **more: Any) -> dict[str, Any]:
    entry = {"id": f"{box_type}-0", "image_path": "a.png", "image_size": [200, 100], "instruction": "press"}
    return {**entry, "box_type": box_type, "box_coordinates": coordinates, "GUI_types": ["Icon", "Button"], **more}


def test_osworld_g(folder: Path) -> None:
    entries = [
        osworld("bbox", [100, 50, 20, 10]),
        osworld("polygon", [0, 0, 20, 0, 10, 50]),
        osworld("refusal", [0, 0, 0, 0], GUI_types=["/"]),
    ]
    found = read_items(write_array(folder / "x.json", entries))
    box, polygon, nothing = found.items
    assert box.target.coords == box_of((500, 500, 600, 600))
    assert polygon.target == Target("polygon", (0.0, 0.0, 100.0, 0.0, 50.0, 500.0))
    assert nothing.target == Target("refusal")
    assert (box.labels, nothing.labels) == (Labels(type=("Icon", "Button")), Labels())
    assert found.decided == {"boxes": {"x.json": {"order": "xywh", "units": "pixels", "rule": "form"}}}
    corners = read_items(folder / "x.json", boxes="xyxy", skip_bad=True)
    assert corners.skipped == 1  # 100 to 20 is no box
    assert corners.decided["boxes"]["x.json"]["rule"] == "given"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (osworld("circle", [1, 2, 3]), "box_type 'circle' is none of bbox, polygon, refusal"),
        (osworld("bbox", [1, 2, 3]), "must have 4 numbers, not 3"),
        (osworld("bbox", [1, 2, 0, 3]), "has no area"),
        (osworld("polygon", [1, 2, 3, 4]), "at least 3 corners"),
        (osworld("bbox", [1, 2, 3, 4], image_size=[1, 1]), "said to have 1 × 1 pixels"),
        (osworld("bbox", [1, 2, 3, 4], id="refusal-0"), "its id is that of x.json, entry 1 already"),
        (osworld("bbox", [1, 2, 3, 4], GUI_types=7), "at `$.GUI_types`"),
    ],
    ids=range(7),
)
def test_osworld_entries_that_are_none(folder: Path, entry: Any, words: str) -> None:
    path = write_array(folder / "x.json", [osworld("refusal", []), entry])
    assert words in refusal(path)


@pytest.mark.skipif(not OSWORLD.is_dir(), reason="the shared data is not here: osworld_g")
def test_the_real_osworld_g() -> None:
    found = read_items(OSWORLD)
    assert found.form == "osworld_g"
    assert Counter(item.target.kind for item in found.items) == {"box": 66, "polygon": 4, "refusal": 7}
    first = found.items[0]
    assert first.id == "7JW3IENVKW-0"
    # 128.44, 1047.07, 26.69, 28.36 in an image of 1920 × 1080
    assert first.target.coords == box_of((66.8958, 969.5093, 80.7969, 995.7685))
    assert first.labels == Labels(type=("Icon", "Button"))
    assert len({item.image.path for item in found.items}) == 32
    inside = [0 <= value <= 1000 for item in found.items for value in item.target.coords]
    assert all(inside)


# -- images -------------------------------------------------------------------------------------------------------


def test_the_root_is_named_or_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = write_lines(tmp_path / "data" / "x.jsonl", [flat(image="s/a.png")])
    assert f"'s/a.png' is no file in {os.path.realpath(tmp_path / 'data')}; mend the data, name the folder" in refusal(
        path
    )
    screen(tmp_path / "data" / "imgs" / "s" / "a.png")
    assert read_items(path).items[0].image.path.endswith("/data/imgs/s/a.png")
    screen(tmp_path / "data" / "images" / "s" / "a.png")
    assert read_items(path).items[0].image.path.endswith("/data/images/s/a.png")
    screen(tmp_path / "else" / "s" / "a.png")
    assert read_items(path, image_root=tmp_path / "else").items[0].image.path.endswith("/else/s/a.png")
    assert "is not a folder" in refusal(path, image_root=tmp_path / "nowhere")


def test_the_root_is_where_most_images_are(tmp_path: Path) -> None:
    screen(tmp_path / "a.png")
    for name in ("a.png", "b.png"):
        screen(tmp_path / "imgs" / name, colour="red")
    path = write_lines(tmp_path / "x.jsonl", [flat(image="a.png"), flat(image="b.png")])
    assert {Path(item.image.path).parent.name for item in read_items(path).items} == {"imgs"}


@pytest.mark.parametrize(
    "written",
    [
        "../out.png",
        "s/../../out.png",
        "..\\out.png",
        "s\\..\\..\\out.png",
        "C:\\a.png",
        "C:/a.png",
        "link.png",
        "links/out.png",
    ],
)
def test_images_may_not_lie_outside_the_root(tmp_path: Path, written: str) -> None:
    screen(tmp_path / "out.png")
    root = tmp_path / "root"
    screen(root / "s" / "a.png")
    (root / "link.png").symlink_to(tmp_path / "out.png")
    (root / "links").symlink_to(tmp_path)
    said = refusal(write_lines(root / "x.jsonl", [flat(image=written)]))
    assert f"leads out of {os.path.realpath(root)}, which it may not; mend the data, name the folder" in said
    assert "leads out of" in refusal(write_lines(root / "x.jsonl", [flat(image=written)]), image_root=root)


def test_absolute_paths_are_good_within_the_root_alone(tmp_path: Path) -> None:
    inside, outside = screen(tmp_path / "root" / "a.png"), screen(tmp_path / "out.png")
    path = write_lines(tmp_path / "root" / "x.jsonl", [flat(image=str(inside)), flat(image=f"file://{inside}")])
    assert [item.image.path for item in read_items(path).items] == [os.path.realpath(inside)] * 2
    other = write_lines(tmp_path / "root" / "y.jsonl", [flat(image=str(outside))])
    assert "leads out of" in refusal(other)
    assert len(read_items(other, image_root=tmp_path).items) == 1
    assert "leads out of" in refusal(write_lines(tmp_path / "root" / "z.jsonl", [flat(image="/etc/passwd")]))


def test_roots_with_names_alike_are_not_one(tmp_path: Path) -> None:
    screen(tmp_path / "root-2" / "a.png")
    (tmp_path / "root").mkdir()
    assert "leads out of" in refusal(write_lines(tmp_path / "root" / "x.jsonl", [flat(image="../root-2/a.png")]))


def test_paths_from_windows_and_links_within(tmp_path: Path) -> None:
    screen(tmp_path / "shots" / "한글 a.png")
    screen(tmp_path / "odd\\name.png")
    (tmp_path / "again.png").symlink_to(tmp_path / "shots" / "한글 a.png")
    images = ["shots\\한글 a.png", "again.png", "shots/../shots/한글 a.png", "odd\\name.png"]
    found = read_items(write_lines(tmp_path / "x.jsonl", [flat(image=image) for image in images])).items
    assert [Path(item.image.path).name for item in found] == ["한글 a.png"] * 3 + ["odd\\name.png"]


@pytest.mark.parametrize(("on_disk", "written"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_names_in_hangul_joined_or_taken_apart(tmp_path: Path, on_disk: Any, written: Any) -> None:
    screen(tmp_path / normalize(on_disk, "경로/화면.png"))
    data = write_pickle(tmp_path / "user_1.pkl", [chat(normalize(written, "경로/화면.png"))])
    assert len(read_items(data).items) == 1


def test_a_link_that_leads_to_itself_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to(tmp_path / "a.png")
    assert "is no file in" in refusal(write_lines(tmp_path / "x.jsonl", [flat()]))


def bomb() -> bytes:
    """A PNG whose header promises 50,000 × 50,000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))


@pytest.mark.parametrize("kind", ["empty", "torn", "bomb", "text", "folder"])
def test_bad_images_are_bad_entries(folder: Path, kind: str) -> None:
    whole = (folder / "b.png").read_bytes()
    contents = {"empty": b"", "torn": whole[: len(whole) // 2], "bomb": bomb(), "text": b"this is no image"}
    words = {"empty": "is empty", "torn": "cannot be decoded", "bomb": "absurdly large", "text": "none of PNG"}
    if kind == "folder":
        (folder / "bad.png").mkdir()
    else:
        (folder / "bad.png").write_bytes(contents[kind])
    path = write_pickle(folder / "user_1.pkl", [chat(), chat("bad.png")])
    said = refusal(path)
    assert "entry 2 (user_1-1): " in said
    assert words.get(kind, "is no file in") in said
    assert read_items(path, skip_bad=True).skipped == 1


def test_a_wrong_ending_is_fine_where_the_image_is(folder: Path) -> None:
    (folder / "a.png").rename(folder / "a.jpg")
    assert read_items(write_lines(folder / "x.jsonl", [flat(image="a.jpg")])).items[0].image.width == 200


# -- files and folders --------------------------------------------------------------------------------------------


def test_what_is_not_there_or_no_file(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "nowhere")
    assert "holds no .json, .jsonl, .pkl, .pickle file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    assert "is no regular file" in refusal(tmp_path / "pipe.json")
    assert "holds no .json" in refusal(tmp_path)


def test_a_file_beyond_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "user_1.pkl").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "larger than 256 MiB" in refusal(tmp_path / "user_1.pkl")


@pytest.mark.parametrize(
    "content", [b"\x80\x02(" + b"N" * 600_000 + b"l.", b"[" + b"1," * 600_000 + b"1]", b"{}\n" * 600_000]
)
def test_entries_beyond_the_limit(tmp_path: Path, content: bytes) -> None:
    """A byte each in the file, and a sentence each in memory, if nobody counted."""
    (tmp_path / "many").write_bytes(content)
    assert "more than 500000; split it" in refusal(tmp_path / "many")


def test_two_forms_in_one_folder(folder: Path) -> None:
    write_array(folder / "a.json", [spot([1, 2, 3, 4])])
    write_lines(folder / "b.jsonl", [flat()])
    assert "two forms, a.json (screenspot) and b.jsonl (flat_jsonl); name one" in refusal(folder)


def test_the_same_ids_in_two_files(folder: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(folder / name, [flat(id="same")])
    assert "b.jsonl, line 1 (same): its id is that of a.jsonl, line 1 already" in refusal(folder)


def test_hidden_files_are_not_data(folder: Path) -> None:
    (folder / "._x.json").write_bytes(b"\0\0")
    write_lines(folder / "x.jsonl", [flat()])
    assert len(read_items(folder).items) == 1


# -- the fingerprint ----------------------------------------------------------------------------------------------


def test_the_fingerprint_is_of_what_matters(tmp_path: Path) -> None:
    def fingerprint(where: str, colour: str = "navy", **more: Any) -> str:
        (tmp_path / where).mkdir(exist_ok=True)
        screen(tmp_path / where / "a.png", colour=colour)
        return read_items(write_lines(tmp_path / where / "x.jsonl", [flat(**{"id": "1", **more})])).fingerprint

    base = fingerprint("one")
    assert base == fingerprint("two")
    assert base.startswith("sha256:")
    others = [
        fingerprint("one", colour="red"),
        fingerprint("one", id="2"),
        fingerprint("one", coords=[500, 500.001]),
        fingerprint("one", coords=[], kind="refusal"),
        fingerprint("one", prompt="p"),
        fingerprint("one", content="c"),
        fingerprint("one", content="p"),
        fingerprint("one", labels={"user": ["1"]}),
        fingerprint("one", labels={"type": ["1"]}),
    ]
    assert len({base, *others}) == 10


def test_pickles_and_lines_of_the_same_samples_are_the_same_data(folder: Path) -> None:
    samples = [chat(), chat("b.png", "close", "(3, 4)")]
    pickled = read_items(write_pickle(folder / "user_1.pkl", samples))
    lines = read_items(write_lines(folder / "user_1.jsonl", samples))
    assert pickled.fingerprint == lines.fingerprint
    assert pickled.items == lines.items
    assert pickle.loads((folder / "user_1.pkl").read_bytes()) == samples
