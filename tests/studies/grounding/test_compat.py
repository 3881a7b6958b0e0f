"""The parser by the published patterns: their order, what it reads beyond, and what it shares with the strict one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.studies.grounding.answers import compat, parse
from howsure.studies.grounding.answers.parse import WHY_NOT
from studies.grounding.answer_forms import ROWS, referring


@pytest.mark.parametrize(
    ("text", "x", "y", "content", "form"),
    [
        (referring('"left arrow"', "(100, 200)"), 100, 200, '"left arrow"', "compat/pair"),
        (referring("파란색 더하기 버튼", "[311, 541]"), 311, 541, "파란색 더하기 버튼", "compat/pair"),
        ("(10, 20, 110, 60)", 10, 20, None, "compat/four"),
        ("[10, 20, 110, 60]", 10, 20, None, "compat/four"),
        ("(10, 20) to (110, 60)", 10, 20, None, "compat/to"),
        ("Top-left: (10, 20), Bottom-right: (110, 60)", 10, 20, None, "compat/top_left"),
        ("100, 200", 100, 200, None, "compat/bare"),
        ("(0.5, -3)", 0.5, -3, None, "compat/pair"),
        ("(-1, -1)", -1, -1, None, "compat/pair"),
        # the order of the patterns, not that of the text
        ("(1, 2), or rather (10, 20, 110, 60)", 10, 20, None, "compat/four"),
        ("(1, 2), or Top-left: (10, 20)", 10, 20, None, "compat/top_left"),
        ("(1, 2) or (3, 4)", 1, 2, None, "compat/pair"),
        ("(5, 6)\n```grounding\n(1, 2)\n```", 1, 2, None, "compat/pair"),
        ("The screen is 1920, 1080 wide", 1920, 1080, None, "compat/bare"),
    ],
)
def test_the_first_match_of_the_first_pattern_decides(
    text: str, x: float, y: float, content: str | None, form: str
) -> None:
    reading = compat.read_answer(text)
    assert reading[:5] == ("point", x, y, content, form)
    assert [float(text[a:b]) for a, b in reading.spans] == [x, y]


@pytest.mark.parametrize(
    ("text", "x", "y"),
    [
        (referring("ok", "(-5, 20)"), -5, 20),
        (referring("none", "(-1, -1)"), -1, -1),
        (referring("ok", "(0.125, .5)"), 0.125, 0.5),
        ("```grounding\n(1, 2)", 1, 2),
        ("(100, 200)", 100, 200),
    ],
    ids=["sign", "refusal", "decimals", "open block", "no block"],
)
def test_what_is_read_beyond_the_published_code(text: str, x: float, y: float) -> None:
    """It gave (5, 20) for the first, and (0, 0) for the others."""
    assert compat.read_answer(text)[:3] == ("point", x, y)


def test_of_an_answer_only_what_follows_the_last_assistant() -> None:
    text = "user\nclick (1, 2)\nassistant\n(3, 4)"
    assert compat.read_answer(text)[:3] == ("point", 3, 4)
    assert [text[a:b] for a, b in compat.read_answer(text).spans] == ["3", "4"]
    assert compat.read_answer(text, is_answer=False)[:3] == ("point", 1, 2)


@pytest.mark.parametrize(
    ("text", "why_not"),
    [
        ("", "empty"),
        ("(1, 2) assistant ", "empty"),
        ("I do not know.", "no_numbers"),
        ("Number 12", "no_point"),
        (referring("ok", "unknown") + " (1, 2)", "no_numbers"),
        ("(" + "9" * 400 + ", 1)", "absurd_number"),
    ],
)
def test_what_cannot_be_read_is_never_a_point(text: str, why_not: str) -> None:
    reading = compat.read_answer(text)
    assert (reading.says, reading.x, reading.y, reading.why_not) == ("wrong_format", None, None, why_not)


SIMPLE = ("({x}, {y})", "[{x}, {y}]", "```grounding\n({x}, {y})\n```", "Top-left: ({x}, {y})", "{x}, {y}")


@given(st.sampled_from(SIMPLE), st.integers(0, 1000), st.integers(0, 1000), st.booleans())
def test_agrees_with_the_strict_one_on_the_simple_forms(form: str, x: int, y: int, named: bool) -> None:
    text = ("```referring\nok\n```\n" if named and "grounding" in form else "") + form.format(x=x, y=y)
    old, new = compat.read_answer(text), parse.read_answer(text)
    assert (old.says, old.x, old.y, old.content, old.spans) == (new.says, new.x, new.y, new.content, new.spans)


@settings(max_examples=300)
@given(st.one_of(st.text(st.characters()), st.sampled_from([row.text for row in ROWS])))
def test_no_text_breaks_it(text: str) -> None:
    reading = compat.read_answer(text)
    if reading.says == "point":
        assert [float(text[a:b]) for a, b in reading.spans] == [reading.x, reading.y]
    else:
        assert reading.why_not in WHY_NOT


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", range(8))
def test_a_piece_repeated_without_end_costs_little(piece: int) -> None:
    """Each takes milliseconds; a search that goes back over all that it read would take minutes."""
    repeated = ("(", "1", "1,", "(1, 2) to", "```grounding", "```referring\n", "assistant", "top left (1,")[piece]
    assert compat.read_answer(repeated * 100_000).says in ("point", "wrong_format")
