"""The published prompt word for word, its other frames, templates, and instructions found again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.answers.parse import read_answer
from howsure.studies.grounding.frames import (
    FRAMES,
    MAY_REFUSE,
    asks_for_thousandths,
    document_prompt,
    fill,
    instruction_of,
)

THOUSAND = FRAMES["relative-1000"]
PUBLISHED = """\
Given a GUI image, what are the relative (0-1000) pixel point coordinates for the element corresponding to the \
following instruction: Open the menu

Think step-by-step, provide referring for the element first and then the grounded point coordinates.

### Output (Example)
```referring
"left arrow"
```
```grounding
(100, 200)
```"""
WRAPPED = """\
Given a GUI image, what are the relative (0-1000) pixel point coordinates 
for the element corresponding to the following instruction: Open the menu

Think step-by-step, provide referring for the element first 
and then the grounded point coordinates.
"""  # noqa: W291


def test_word_for_word() -> None:
    assert document_prompt("Open the menu", THOUSAND) == PUBLISHED


def test_refusing_is_one_sentence_more() -> None:
    may = document_prompt("Open the menu", THOUSAND, may_refuse=True)
    assert may.replace(f"\n{MAY_REFUSE}", "") == PUBLISHED
    assert "(-1, -1)" in MAY_REFUSE
    assert read_answer("(-1, -1)").says == "refusal"


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_a_frame_changes_its_words_and_its_example_alone(name: str) -> None:
    frame = FRAMES[name]
    prompt = document_prompt("Open the menu", frame)
    x, y = frame.example
    assert prompt.replace(frame.asks, THOUSAND.asks).replace(f"({x}, {y})", "(100, 200)") == PUBLISHED
    example = read_answer(prompt.partition("### Output (Example)\n")[2])
    assert (example.x, example.y, example.content) == (float(x), float(y), "left arrow")


@given(st.text(), st.sampled_from(sorted(FRAMES)), st.booleans())
def test_the_instruction_is_found_again(instruction: str, name: str, may_refuse: bool) -> None:
    prompt = document_prompt(instruction, FRAMES[name], may_refuse=may_refuse)
    assert instruction_of(prompt) == (instruction.strip() or None)


def test_the_instruction_wherever_lines_break() -> None:
    assert instruction_of(WRAPPED) == "Open the menu"
    assert instruction_of(PUBLISHED.replace(" ", "\n")) == "Open\nthe\nmenu"
    assert instruction_of("<image>\n" + PUBLISHED) == "Open the menu"


def test_an_instruction_that_quotes_the_prompt() -> None:
    quoted = "Think step-by-step, provide referring for the element first or not"
    assert instruction_of(document_prompt(quoted, THOUSAND)) == quoted


@pytest.mark.parametrize("text", ["", "Click the menu", "Given a GUI image, what is this?", WRAPPED[:150]])
def test_no_instruction_in_other_texts(text: str) -> None:
    assert instruction_of(text) is None


def test_a_template_of_ones_own() -> None:
    filled = fill('{instruction}: answer as {"point": [x, y]} in {frame}.', "Open {frame} {instruction}", THOUSAND)
    assert filled == f'Open {{frame}} {{instruction}}: answer as {{"point": [x, y]}} in {THOUSAND.asks}.'
    assert fill("{instruction}", "a", THOUSAND, True) == f"a\n\n{MAY_REFUSE}"


def test_a_template_without_its_place() -> None:
    with pytest.raises(InputError, match=r"\{instruction\}"):
        fill("Where is it?", "Open the menu", THOUSAND)


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        (document_prompt("open it", FRAMES["relative-1000"]), True),
        ("Give x and y between 0 and 1000.", True),
        ("coordinates in [0, 1000]", True),
        ("from 0 to 1000", True),
        (document_prompt("open it", FRAMES["pixels"]), False),
        (document_prompt("open it", FRAMES["relative-999"]), False),
        ("Click the price of 10-1000 dollars.", False),
        ("from 0 to 10000", False),
        ("from 0.0-1000.5", False),
    ],
    ids=str.split("published between brackets to pixels 999 price ten_thousand decimals"),
)
def test_whether_a_prompt_asks_for_thousandths(prompt: str, asks: bool) -> None:
    assert asks_for_thousandths(prompt) is asks
