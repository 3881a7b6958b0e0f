"""Which of several places is clicked: each rule on a screen where another answer would come without it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from howsure.models.ocr.matcher import choose
from howsure.models.ocr.screen import Box, Mark, Text, apart

from .boards import board, clicked, hits, mark, text


def test_a_whole_text_beats_one_that_contains_the_name() -> None:
    long, button = text("Click Save to keep your work", 100, 100), text("Save", 500, 400)
    choice = clicked('Click the "Save" button', board(long, button))
    assert hits(choice, button)
    assert choice.how == "exact"
    assert choice.words == "Save"


def test_a_word_of_a_line_is_clicked_where_it_stands() -> None:
    menu = text("File Edit View", 0, 0)
    choice = clicked('Click "Edit"', board(menu))
    assert choice.how == "part"
    assert menu.places[5] <= choice.x <= menu.places[8]


@pytest.mark.parametrize(
    ("where", "at"),
    [
        ("in the top left corner of the screen", 0),
        ("in the bottom right corner of the window", 1),
        ("at the bottom left", 2),
        ("at the top right", 3),
    ],
)
def test_the_place_decides_between_equals(where: str, at: int) -> None:
    corners = [text("Help", 50, 30), text("Help", 900, 550), text("Help", 50, 550), text("Help", 900, 30)]
    assert hits(clicked(f'Click "Help" {where}', board(*corners)), corners[at])


@pytest.mark.parametrize(
    ("relation", "at"),
    [("above", 0), ("below", 1), ("to the left of", 2), ("to the right of", 3)],
)
def test_an_anchor_decides_between_equals(relation: str, at: int) -> None:
    anchor = text("Videos", 480, 300)
    around = [text("Open", 490, 260), text("Open", 490, 340), text("Open", 400, 300), text("Open", 580, 300)]
    assert hits(clicked(f'Click "Open" {relation} "Videos"', board(anchor, *around)), around[at])


def test_a_title_decides_between_equals() -> None:
    near, far = text("OK", 520, 300), text("OK", 60, 560)
    title = text("Paragraph", 480, 150)
    assert hits(clicked('Click "OK" in the "Paragraph" dialog', board(far, near, title)), near)
    assert hits(clicked('Click "OK" in the bottom left corner', board(far, near, title)), far)


def test_the_anchor_itself_is_not_clicked() -> None:
    label, rim = text("Quality:", 100, 100), Mark(Box(220, 92, 420, 122), "frame")
    choice = clicked('Click the field next to "Quality:"', board(label, rim, Mark(Box(220, 292, 420, 322), "frame")))
    assert hits(choice, rim)
    assert choice.how == "relation"


def test_a_box_to_tick_stands_before_its_label() -> None:
    box, label, other = mark(80, 102), text("Allow growing", 100, 100), mark(230, 102)
    screen = board(box, label, other, mark(80, 142), text("Shrink", 100, 140))
    assert hits(clicked('Click the checkbox on the left of "Allow growing"', screen), box)
    assert hits(clicked('Click the checkbox next to "Shrink"', screen), screen.marks[-1])
    assert hits(clicked('Click the icon to the right of "Allow growing"', screen), other)
    assert hits(clicked('Click "Allow growing"', screen), label)


def test_a_sign_in_the_row_of_its_anchor() -> None:
    rows = [text("Above", 100, 100), text("Below", 100, 140)]
    signs = [mark(300, 102, "minus"), mark(340, 102, "plus"), mark(300, 142, "minus"), mark(340, 142, "plus")]
    screen = board(*rows, *signs)
    assert hits(clicked('Click the "+" button next to "Above"', screen), signs[1])
    assert hits(clicked('Click the "+" button next to "Below"', screen), signs[3])
    assert hits(clicked('Click the minus sign next to "Below"', screen), signs[2])
    assert hits(clicked('Increase the value of "Below"', screen), signs[3])
    assert clicked('Click the "+" button next to "Above"', screen).how == "sign"


def test_a_sign_may_have_been_read_as_a_text() -> None:
    sign = text("+", 300, 100)
    assert hits(clicked('Click "+" next to "Above"', board(text("Above", 100, 100), sign, text("+", 300, 400))), sign)


@pytest.mark.parametrize("asked", ["Click the {} toggle", 'Click the toggle of "{}"', 'Turn on the switch for "{}"'])
def test_what_has_no_text_stands_beside_its_label(asked: str) -> None:
    switches = {words: Mark(Box(600, top, 640, top + 20)) for words, top in (("Night light", 98), ("Hot corner", 198))}
    screen = board(*switches.values(), *(text(words, 100, mark.box.top + 2) for words, mark in switches.items()))
    for words, switch in switches.items():
        assert hits(clicked(asked.format(words), screen), switch)
    assert clicked("Click the Night light toggle", board(text("Night light", 100, 100))).confidence < 0.7


def test_a_field_is_the_rim_after_its_label() -> None:
    rim = Mark(Box(200, 92, 400, 122), "frame")
    choice = clicked(
        'Click the input field to the right of "Pages:"', board(text("Pages:", 100, 100), rim, mark(450, 100))
    )
    assert hits(choice, rim)


def test_the_buttons_of_a_window() -> None:
    trio = [mark(900, 20), mark(930, 20), mark(960, 20, "cross")]
    dialog = mark(700, 202, "cross")
    screen = board(text("Terminal", 450, 20), *trio, text("Preferences", 480, 200), dialog, text("Cancel", 600, 400))
    assert hits(clicked("Minimize the window", screen), trio[0])
    assert hits(clicked('Click the "Restore" button in the top-right corner of the Terminal window', screen), trio[1])
    assert hits(clicked("Close the Terminal window", screen), trio[2])
    assert hits(clicked("Close the Preferences dialog", screen), dialog)


def test_one_end_of_a_line_is_clicked() -> None:
    line = text("4. Nobu", 100, 100)
    screen = board(line, text("5. Else", 100, 130))
    assert clicked('Click the end of the line "4. Nobu"', screen).x > line.box.right - 8
    assert clicked('Click the start of the line "4. Nobu"', screen).x < line.box.left + 8


def test_letters_far_apart_are_different_things() -> None:
    letters = Text("BIU", Box(100, 100, 190, 116), (105, 145, 185))
    assert [piece.words for piece in apart(letters)] == ["B", "I", "U"]
    assert 120 < clicked('Click the "I" button', board(*apart(letters))).x < 160
    menu = Text("FileEdit", Box(0, 0, 90, 16), (4, 9, 14, 19, 40, 46, 52, 58))
    assert [piece.words for piece in apart(menu)] == ["File", "Edit"]
    plain = text("one two", 0, 0)
    assert apart(plain) == [plain]
    assert [piece.box for piece in apart(text("  one ", 0, 0))] == [Box(16, 0, 40, 16)]
    assert apart(text("  ", 0, 0)) == []


# -- meaning and guesses ----------------------------------------------------------------------------------------------


def test_meaning_is_asked_only_where_no_letters_fit() -> None:
    calls: list[str] = []

    def likeness(phrase: str, texts: Sequence[str]) -> list[float]:
        calls.append(phrase)
        return [0.8 if words == "Preferences" else 0.1 for words in texts]

    settings = text("Preferences", 100, 100)
    screen = board(settings, text("Help", 300, 100))
    choice = clicked('Open "Options"', screen, likeness)
    assert (choice.how, hits(choice, settings)) == ("meaning", True)
    assert calls == ["Options"]
    assert clicked('Click "Help"', screen, likeness).how == "exact"
    assert calls == ["Options"]


def test_a_guess_is_hardly_sure() -> None:
    icon = mark(940, 560, size=20)
    choice = clicked(
        "Click the strange thing in the bottom right corner", board(text("File", 0, 0), mark(0, 300, size=20), icon)
    )
    assert choice.how == "guess"
    assert hits(choice, icon)
    assert choice.confidence < 0.05


def test_no_words_and_nothing_to_click() -> None:
    assert choose("", board(text("File", 0, 0))) is None
    assert choose('Click "File"', board()) is None


# -- certainty --------------------------------------------------------------------------------------------------------


def test_certainty_falls_with_the_fit_and_with_rivals() -> None:
    sure = clicked('Click "Preferences"', board(text("Preferences", 100, 100))).confidence
    blurred = clicked('Click "Preferences"', board(text("Preferemces", 100, 100))).confidence
    twice = clicked('Click "Preferences"', board(text("Preferences", 100, 100), text("Preferences", 100, 400)))
    assert sure > 0.9
    assert blurred < sure
    assert twice.confidence < 0.7 * sure


def test_equal_input_gives_equal_clicks_in_any_order() -> None:
    things = [text("Help", 50 + 90 * i, 30 + 40 * (i % 5)) for i in range(9)]
    forth, back = board(*things), board(*reversed(things))
    assert choose('Click "Help"', forth) == choose('Click "Help"', back) == choose('Click "Help"', forth)


HOSTILE = [
    "\ud800",
    '"' * 999,
    "(" * 5000,
    "click " * 20_000,
    "左边的“文件”",
    "'a' left of 'a' left of 'a'",
    "x",
    "+",
    "cell",
    "A1",
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_instructions_end_in_a_click_on_the_screen_or_in_nothing(number: int) -> None:
    screen = board(text("File", 0, 0), text("a", 990, 590), mark(500, 500, "cross"), text("\ud800", 5, 300))
    choice = choose(HOSTILE[number], screen)
    assert choice is None or (0 <= choice.x <= 1000 and 0 <= choice.y <= 600 and 0 <= choice.confidence <= 1)


def test_a_crowded_screen_takes_little_time() -> None:
    import time

    screen = board(*(text(f"item {i} of many", 10 + 120 * (i % 8), 4 + 5 * (i // 8)) for i in range(800)))
    choose('Click "item 77 of many" next to "item 78"', screen)
    began = time.perf_counter()
    choose('Click "item 77 of many" next to "item 78"', screen)
    assert time.perf_counter() - began < 1.0
