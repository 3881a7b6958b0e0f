"""What an instruction asks for, and that no text at all breaks the reading of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.models.ocr.instruction import Place, Wish, understand


def only(instruction: str) -> Wish:
    found = understand(instruction)
    assert found is not None
    return found


def names(wish: Wish) -> list[str]:
    return [name.text for name in wish.names]


def relations(wish: Wish) -> list[tuple[str, list[str]]]:
    return [(anchor.relation, [name.text for name in anchor.names]) for anchor in wish.anchors]


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ('Click the "Save" button.', "Save"),
        ("Click the 'Save' button", "Save"),
        ("Click the “Save” button", "Save"),
        ("Please double-click on the Save button in the toolbar", "Save"),
        ('Select "Save" from the dropdown menu to keep the file', "Save"),
        ('Right-click in the list and select "Save" from the context menu.', "Save"),
        ('Look at the left of the screen and find the word "Save". Move the mouse to this word and click it.', "Save"),
        ('In the File menu, choose "Save"', "Save"),
        ("the button labeled Save", "Save"),
        ('Click the item that says "Save"', "Save"),
        ("Click the user's 'Don't save' option", "Don't save"),
    ],
)
def test_the_name_of_the_target(instruction: str, name: str) -> None:
    assert names(only(instruction))[0] == name


def test_the_first_quote_counts_most() -> None:
    first, second = only('Click "Bold" to open "Heading"').names
    assert (first.text, second.text) == ("Bold", "Heading")
    assert first.weight > second.weight


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("click File", "File"),
        ("Click the Forecast tab", "Forecast"),
        ("Select the Box List Red option", "Box List Red"),
        ("Open the terms of use", "terms of use"),
        ("Accept the cookies", "Accept the cookies"),
    ],
)
def test_names_without_quotes_keep_their_words(instruction: str, name: str) -> None:
    assert name in names(only(instruction))


def test_a_sort_of_thing_alone_is_no_name() -> None:
    assert names(only("Click the checkbox")) == []
    assert names(only("Click the button")) == []


@pytest.mark.parametrize(
    ("instruction", "relation"),
    [
        ('the checkbox on the left of "Grow"', "left_of"),
        ('the arrow to the right of "Grow"', "right_of"),
        ('the icon above "Grow"', "above"),
        ('the entry directly below "Grow"', "below"),
        ('the item under "Grow"', "below"),
        ('the "+" button next to "Grow"', "beside"),
        ('the toggle for "Grow"', "beside"),
        ('the toggle of "Grow"', "beside"),
        ('the cross in the right corner of "Grow"', "right_end"),
        ('"OK" in the "Grow" dialog', "inside"),
        ('"OK" of the "Grow" window', "inside"),
    ],
)
def test_quoted_words_behind_a_relation_are_anchors(instruction: str, relation: str) -> None:
    for asked in (instruction, f"Click {instruction}", f"Please click on {instruction} to go on."):
        wish = only(asked)
        assert relations(wish) == [(relation, ["Grow"])]
        assert "Grow" not in names(wish)


@pytest.mark.parametrize(
    ("instruction", "place"),
    [
        ('Click "OK" in the bottom right corner of the window', Place(1.0, 1.0)),
        ('Click "OK" in the left sidebar', Place(0.0, None)),
        ('Click "OK" at the top of the page', Place(None, 0.0)),
        ('Click "OK"', Place()),
    ],
)
def test_places(instruction: str, place: Place) -> None:
    assert only(instruction).place == place


@pytest.mark.parametrize(
    ("instruction", "kind", "sign"),
    [
        ("Click the small minus sign", None, "minus"),
        ('Click the "+" button', None, "plus"),
        ('Click the "x" icon', None, "cross"),
        ("Click the down arrow", "mark", None),
        ("Click the radio button", "mark", None),
        ("Click the toggle switch", "mark", None),
        ("Click the arrow of the dropdown", "mark", None),
        ("Click the input field", "field", None),
    ],
)
def test_sorts_of_things_and_signs(instruction: str, kind: str, sign: str | None) -> None:
    wish = only(instruction)
    assert (wish.kind, wish.sign) == (kind, sign)


def test_what_is_typed_is_not_what_is_clicked() -> None:
    wish = only('Type "hello world" into the "Name" field')
    assert names(wish) == ["Name"]
    assert wish.kind == "field"


def test_closing_and_increasing_say_what_to_click() -> None:
    wish = only("Close the Settings window")
    assert (wish.sign, relations(wish)[0][0]) == ("cross", "right_end")
    assert only("Minimize the window").sign == "minimise"
    wish = only('Increase "Width"')
    assert (wish.sign, relations(wish)) == ("plus", [("beside", ["Width"])])


def test_one_end_of_a_line() -> None:
    assert only('Click at the end of the line "one two"').edge == "end"
    assert only('Place the cursor at the beginning of "one two"').edge == "start"
    assert names(only('Place the cursor at the beginning of "one two"')) == ["one two"]


HOSTILE = {
    "empty": "",
    "spaces": "   \n\t ",
    "quotes": '""""""',
    "one quote": '"',
    "unbalanced": "Click \"Save and then 'close",
    "brackets": "((((((",
    "surrogates": "click \ud800\udfff the button",
    "private use": "click \ue000\ue001 here",
    "korean": "화면 오른쪽 위의 '저장' 버튼을 누르세요",
    "chinese": "点击“保存”按钮",
    "arabic": "انقر على زر «حفظ»",
    "nul": "click \x00 the\x00 button",
}


@pytest.mark.parametrize("instruction", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_instructions_are_read(instruction: str) -> None:
    assert isinstance(understand(instruction), Wish | None)


def test_quotes_are_found_in_other_scripts() -> None:
    assert names(only(HOSTILE["korean"])) == ["저장"]
    assert names(only(HOSTILE["chinese"])) == ["保存"]


@pytest.mark.parametrize("unit", ["click ", '"a" ', "the left of ", "(", "to be in the ", "a" * 40, "to ", "'"])
def test_long_instructions_take_no_time(unit: str) -> None:
    began = time.process_time()
    understand(unit * (100_000 // len(unit)))
    assert time.process_time() - began < 1.0


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(['"', "'", "(", ")", "click", "left of", "in", "A", "to", ","])).map(" ".join)
)
def test_no_text_breaks_it(instruction: str) -> None:
    wish = understand(instruction)
    assert wish is None or all(name.text for name in wish.names)
