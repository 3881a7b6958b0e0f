"""What an instruction asks for, and that no text at all breaks the reading of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.models.ocr.phrases import understand
from howsure.models.ocr.wishes import Place, Wish


def only(instruction: str) -> Wish:
    found = understand(instruction)
    assert len(found) == 1, found
    return found[0]


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


def test_what_the_click_is_for_is_left_out() -> None:
    assert names(only('Click "Bold" to set the text in "Heading" style')) == ["Bold"]
    assert relations(only('Click "Bold" to set the text in "Heading" style')) == []


@pytest.mark.parametrize(
    ("instruction", "relation"),
    [
        ('the checkbox on the left of "Grow"', "left_of"),
        ('the arrow to the right of "Grow"', "right_of"),
        ('the icon above "Grow"', "above"),
        ('the entry directly below "Grow"', "below"),
        ('the item under "Grow"', "below"),
        ('the "+" button next to "Grow"', "beside"),
        ('the toggle for "Grow"', "for"),
        ('the cross in the right corner of the bar labeled "Grow"', "right_end"),
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
        ('On the left side of the screen, click "OK"', Place(0.0, None)),
        ('Click "OK" in the left sidebar', Place(0.0, None)),
        ('Click "OK" at the top of the page', Place(None, 0.0)),
        ('Click "OK" in the middle of the screen', Place(0.5, 0.5)),
        ('Click "OK"', Place()),
    ],
)
def test_places(instruction: str, place: Place) -> None:
    assert only(instruction).place == place


def test_toolbars_are_near_the_top_and_status_bars_at_the_bottom() -> None:
    top, bottom = only('Click "A" in the toolbar').place, only('Click "A" in the status bar').place
    assert (top.down or 0.0) < 0.2
    assert (bottom.down or 0.0) > 0.8


@pytest.mark.parametrize(
    ("instruction", "kind", "sign"),
    [
        ("Click the small minus sign", "icon", "minus"),
        ('Click the "+" button', "button", "plus"),
        ('Click the "x" icon', "icon", "cross"),
        ("Click the down arrow", "arrow", "down"),
        ("Click the radio button", "checkbox", None),
        ("Click the toggle switch", "toggle", None),
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
    assert only("Close the Settings window").window_button == "close"
    assert only("Minimize the window").window_button == "minimise"
    wish = only('Increase the value of "Width"')
    assert (wish.sign, relations(wish)) == ("plus", [("for", ["Width"])])


def test_an_aside_may_say_it_better() -> None:
    first, second = understand('Click the "Apr" header (which is an "E" above "Apr")')
    assert names(first) == ["Apr"]
    assert (names(second), relations(second)) == (["E"], [("above", ["Apr"])])
    assert only("Click the 'New' button (which is a plus sign)").sign == "plus"


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
    assert isinstance(understand(instruction), list)


def test_quotes_are_found_in_other_scripts() -> None:
    assert any(name.text == "저장" for wish in understand(HOSTILE["korean"]) for name in wish.names)
    assert any(name.text == "保存" for wish in understand(HOSTILE["chinese"]) for name in wish.names)


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
    for wish in understand(instruction):
        assert all(name.text for name in wish.names)
