"""Reading answers strictly: a table of forms, points written in any form read back, and texts that mean harm."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howsure.studies.grounding.answers import parse
from howsure.studies.grounding.answers.parse import (
    FORM_ORDERED_BY_NAME,
    MOST_CHARACTERS,
    WHY_NOT,
    Reading,
    is_ordered_by_name,
    read_answer,
)
from howsure.studies.grounding.answers.places import MOST, plain
from studies.grounding.answer_forms import ROWS, Row, fields


def check(text: str, reading: Reading) -> None:
    """What holds for every reading of every text."""
    if reading.says == "point":
        assert reading.x is not None
        assert reading.y is not None
        assert reading.why_not is None
        assert reading.form
        assert len(reading.spans) in (2, 4)
        numbers = [float(plain(text)[a:b]) for a, b in reading.spans]
        if reading.form.endswith("axes_and_size"):
            x, y, width, height = numbers
            numbers = [x, y, x + width, y + height]
        assert ((numbers[0] + numbers[-2]) / 2, (numbers[1] + numbers[-1]) / 2) == (reading.x, reading.y)
        return
    assert (reading.x, reading.y, reading.spans) == (None, None, ())
    assert (reading.why_not in WHY_NOT) == (reading.says == "wrong_format")


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_table(row: Row) -> None:
    reading = read_answer(row.text)
    assert fields(reading) == row.expected
    check(row.text, reading)


def test_the_table_is_large_and_gives_every_reason() -> None:
    assert len(ROWS) >= 100
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.expected.why_not for row in ROWS} - {None} == set(WHY_NOT)


def test_named_axes_are_known_by_their_form() -> None:
    assert is_ordered_by_name(read_answer("x=1, y=2").form)
    assert is_ordered_by_name(read_answer("```grounding\nx=1, y=2\n```").form)
    assert not is_ordered_by_name(read_answer("(1, 2)").form)
    assert not is_ordered_by_name(None)
    assert {row.expected.form.rpartition("/")[2] for row in ROWS if row.expected.form} >= set(FORM_ORDERED_BY_NAME)


@pytest.mark.parametrize(
    ("text", "cut", "why_not"),
    [
        ("100, 200", True, "cut_off"),
        ("100, 200", False, None),
        ("Answer: 100, 200", True, "cut_off"),
        ("x: 100, y: 200", True, "cut_off"),
        ("(100, 200)", True, None),
        ("(100, 200).", True, None),
        ("Coordinates: 0.52, 0.", True, "cut_off"),
        ("Coordinates: 0.52, 0.", False, None),
        ("x: 0.52, y: 0.", True, "cut_off"),
        ("<|box_start|>(100,200),", True, "cut_off"),
        ("(100, 200) to", True, "cut_off"),
        ("(100, 200) is where the", True, None),
        ("```grounding\n100, 200\n```", True, None),
    ],
)
def test_a_number_that_ends_a_cut_answer_may_go_on(text: str, cut: bool, why_not: str | None) -> None:
    assert read_answer(text, cut_short=cut).why_not == why_not


def test_spans_are_those_of_the_whole_answer() -> None:
    text = "<think>(7, 8)</think> Sure.\n```referring\nok\n```\n```grounding\n(123, 45.5)\n```"
    assert [text[a:b] for a, b in read_answer(text).spans] == ["123", "45.5"]
    text = "（１２，３４）"
    assert [text[a:b] for a, b in read_answer(text).spans] == ["１２", "３４"]


def test_of_equal_places_the_first_is_taken() -> None:
    assert read_answer("Click (1, 2). I repeat: click (1, 2).").spans == ((7, 8), (10, 11))


# -- a point in any form -------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-999, 4000).filter(lambda n: n != -1).map(str),
    st.decimals("0", "1000", places=3).map(str),
    st.integers(0, 999).map(lambda n: f"{n:03d}"),
)
POINT_FORMS = (
    "({x}, {y})",
    "[{x}, {y}]",
    "[[{x},{y}]]",
    "{x}, {y}",
    "```referring\nok\n```\n```grounding\n({x}, {y})\n```",
    "Let me see.\n```grounding\n[{x}, {y}]\n```\nDone.",
    '{{"point_2d": [{x}, {y}], "label": "ok"}}',
    '```json\n[{{"point_2d": [{x}, {y}]}}]\n```',
    "{{'coordinate': ({x}, {y})}}",
    '{{"x": {x}, "y": {y}}}',
    '{{"y": {y}, "x": {x}}}',
    '<tool_call>{{"name": "computer_use", "arguments": {{"action": "click", "coordinate": [{x}, {y}]}}}}</tool_call>',
    "<point>{x} {y}</point>",
    "<point>({x}, {y})</point>",
    '<point x="{x}" y="{y}" alt="ok">ok</point>',
    "<|point_start|>({x},{y})<|point_end|>",
    "click(start_box='({x},{y})')",
    "click(point='<point>{x} {y}</point>')",
    "pyautogui.click(x={x}, y={y})",
    "pyautogui.click({x}, {y})",
    "x: {x}, y: {y}",
    "Coordinates: {x}, {y}",
    "The button is located at ({x}, {y}).",
    "**({x}, {y})**",
    "$({x}, {y})$",
    "（{x}，{y}）",
    "<think>(1, 2)? (3, 4)?</think>\n({x}, {y})",
    "Top-left: ({x}, {y})",
    "<answer>({x}, {y})</answer>",
)
BOX_FORMS = (
    "({x}, {y}, {u}, {v})",
    "[[{x},{y},{u},{v}]]",
    "({x}, {y}) to ({u}, {v})",
    "({x},{y}),({u},{v})",
    "<|box_start|>({x},{y}),({u},{v})<|box_end|>",
    "Top-left: ({x}, {y}), Bottom-right: ({u}, {v})",
    '{{"bbox_2d": [{x}, {y}, {u}, {v}]}}',
    "<box>{x} {y} {u} {v}</box>",
    '{{"x1": {x}, "y1": {y}, "x2": {u}, "y2": {v}}}',
    "```grounding\n({x}, {y}, {u}, {v})\n```",
)


@settings(max_examples=400)
@given(st.sampled_from(POINT_FORMS), NUMBERS, NUMBERS)
def test_a_point_in_any_form_is_read_back(form: str, x: str, y: str) -> None:
    text = form.format(x=x, y=y)
    reading = read_answer(text)
    assert (reading.says, reading.x, reading.y) == ("point", float(x), float(y)), text
    first, second = (text[a:b] for a, b in reading.spans)
    assert (first, second) == (x, y)


@settings(max_examples=200)
@given(st.sampled_from(BOX_FORMS), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_a_box_in_any_form_is_read_as_its_centre(form: str, corners: tuple[str, str, str, str]) -> None:
    (x, u), (y, v) = (sorted(corners[i::2], key=float) for i in (0, 1))
    text = form.format(x=x, y=y, u=u, v=v)
    reading = read_answer(text)
    assert (reading.x, reading.y) == ((float(x) + float(u)) / 2, (float(y) + float(v)) / 2), text
    assert tuple(text[a:b] for a, b in reading.spans) == (x, y, u, v)


@settings(max_examples=100)
@given(st.sampled_from(POINT_FORMS))
def test_every_form_can_refuse(form: str) -> None:
    reading = read_answer(form.format(x="-1", y="-1"))
    assert reading.says == "refusal"
    assert reading.spans == ()


@settings(max_examples=200)
@given(st.sampled_from([form for form in POINT_FORMS if "{x}, {y})" in form or "{x}, {y}]" in form]), st.data())
def test_an_answer_that_ends_early_is_never_another_point(form: str, data: st.DataObject) -> None:
    """Cut anywhere, an answer gives its point or none, never one with half a number."""
    text = form.format(x="123", y="456")
    end = data.draw(st.integers(0, len(text)))
    reading = read_answer(text[:end], cut_short=True)
    assert reading.says != "point" or (reading.x, reading.y) == (123, 456)


# -- texts that mean harm ----------------------------------------------------------------------------------------

PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        ",",
        ", ",
        ";",
        " ",
        "\n",
        "-",
        "-1",
        ".",
        "1",
        "23",
        "4.5",
        "007",
        "9" * 30,
    ),
    *(
        "```",
        "```grounding\n",
        "```referring\n",
        "~~~",
        "`",
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "to",
        "at",
    ),
    *('"point_2d": ', "'bbox_2d': ", '"x": ', '"y": ', "x=", "y=", "<point>", "</point>", "<|box_start|>", "|>", '"'),
    *("click", "Answer: ", "Top-left: ", "Bottom-right: ", "Coordinates: ", "not found", "is not visible", "\\boxed{"),
    *(
        "（",
        "，",
        "１",
        "−",
        "%",
        "px",
        "\\left",
        "*",
        "\x00",
        "\ud800",
        "좌표",
        "点击",
        "İ",
        "x1=",
        "y2:",
        "width: ",
        "<points ",
    ),
)


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
@example("<points x1=1 y1=2")
@example("x=1, y=2, width: 3, height: 4")
def test_no_mixture_of_the_grammar_breaks_it(text: str) -> None:
    check(text, read_answer(text))
    check(text, read_answer(text, cut_short=True))


@settings(max_examples=400)
@given(st.text(st.characters()))
def test_no_text_breaks_it(text: str) -> None:
    check(text, read_answer(text))
    assert len(plain(text)) == len(text)


@settings(max_examples=200)
@given(st.integers(), st.integers())
def test_numbers_of_any_size(x: int, y: int) -> None:
    reading = read_answer(f"[{x}, {y}]")
    if max(abs(x), abs(y)) > MOST:
        assert reading.why_not == "absurd_number"
    elif (x, y) != (-1, -1):
        assert (reading.x, reading.y) == (x, y)


REPEATED = (
    *(
        "(",
        "((1,",
        "1",
        "1, ",
        "1 ",
        "(1, 2) ",
        "(1,2),",
        "(1" + " " * 300,
        "```grounding\n",
        "```",
        "~",
        "x=1 ",
        "x: 1, ",
    ),
    *(
        "x" + " " * 500,
        "<point>",
        "<point>1 2",
        '{"x": 1, "y"',
        "at 1, 2\n",
        '"',
        "'",
        "<think>",
        "</think>",
        "<answer>",
    ),
    *(
        '"label": "',
        "top-left: (1,2) ",
        "there is no ",
        "is not ",
        "-",
        ".",
        "\\",
        "*",
        "「",
        "（１，",
        " ",
        "\n",
        "İ",
        "\ud800",
    ),
)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("piece", "size"),
    list(itertools.product(range(len(REPEATED)), (MOST_CHARACTERS, 1_000_000))),
)
def test_a_piece_repeated_without_end_costs_little(piece: int, size: int) -> None:
    """Each takes milliseconds; a search that goes back over all that it read would take minutes."""
    text = (REPEATED[piece] * size)[:size]
    check(text, read_answer(text))


def test_no_part_of_a_long_answer_is_taken_for_the_whole() -> None:
    padding = "word " * (MOST_CHARACTERS // 5)
    assert read_answer(f"(1, 2) {padding} (3, 4)").why_not == "too_long"
    assert read_answer(f"<think>{padding}</think>(3, 4)").says == "point"


NAMES = st.one_of(
    st.text(max_size=30), st.sampled_from(["", '"left arrow"', "(1, 2)", "파란색 버튼", "a\nb", "x" * 600, "**Save**"])
)
SMALL = st.sampled_from(["0", "7", "100", "1000", "99999", "0.5", "12.25", "-1", "3.", ".5", "1.23456", "1e3"])


@given(
    NAMES, SMALL, SMALL, st.sampled_from(["()", "[]", "(]", "{}"]), st.sampled_from([",", ", ", " , ", ";"]),
    st.sampled_from(["```", "``` ", "~~~", "\n```"]), st.sampled_from(["", "\n", " ", "(3, 4)", "\n```"]),
    st.booleans(),
)  # fmt: skip
def test_the_usual_form_at_a_glance_is_read_as_otherwise(
    name: str, x: str, y: str, brackets: str, comma: str, fence: str, rest: str, cut_short: bool
) -> None:
    point = f"{brackets[0]}{x}{comma}{y}{brackets[1]}"
    text = f"```referring\n{name}\n```\n```grounding\n{point}\n{fence}{rest}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "_usual", lambda _: None)
        expected = read_answer(text, cut_short=cut_short)
    assert read_answer(text, cut_short=cut_short) == expected
