"""Names in texts: by their letters, wherever they stand, with a few wrong ones."""

from __future__ import annotations

import random

import pytest

from howsure.models.ocr.names import as_sign, find, search


def naive(wanted: str, text: str) -> int:
    """The fewest wrong letters with which `wanted` stands in `text`, by the table of its definition."""
    row = [0] * (len(text) + 1)
    for i, letter in enumerate(wanted, 1):
        before, row = row, [i] + [0] * len(text)
        for j, other in enumerate(text, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
    return min(row)


def test_the_search_gives_what_its_definition_gives() -> None:
    draw = random.Random(0)
    for _ in range(400):
        wanted = "".join(draw.choices("abc", k=draw.randint(1, 9)))
        text = "".join(draw.choices("abcd", k=draw.randint(0, 20)))
        wrong, end = search(wanted, text)
        assert wrong == naive(wanted, text)
        assert wrong == naive(wanted, text[:end]), "the place that it names is one of the best"


def test_longer_than_a_machine_word() -> None:
    wanted = "abcdefghij" * 12
    assert search(wanted, f"xx{wanted[:60]}{wanted[61:]}yy")[0] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("Save As", "Save As"), ("Save As…", "SaveAs"), ("Ｓave", "Save"), ("Save", "SAVE")],
)
def test_the_same_letters_are_the_same_name(name: str, text: str) -> None:
    found = find(name, text)
    assert found is not None
    assert (found.how, found.score) == ("exact", 1.0)


def test_a_name_inside_a_longer_text_has_its_place() -> None:
    found = find("Edit", "File Edit View")
    assert found is not None
    assert (found.first, found.last, found.how) == (5, 9, "part")
    whole = find("Edit", "Edit")
    assert whole is not None
    assert whole.score > found.score


def test_a_whole_text_beats_a_word_in_a_line_beats_letters_in_a_word() -> None:
    scores = [found.score for text in ("OK", "Click OK now", "Bookmarks") if (found := find("OK", text)) is not None]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == len(scores)


def test_wrong_letters_are_forgiven_in_long_names_only() -> None:
    found = find("Additional Preferences", "Additonal Preferancas")
    assert found is not None
    assert found.how == "fuzzy"
    assert found.score < 0.9
    assert find("Cut", "Put") is None
    assert find("File", "Help") is None


def test_signs_are_compared_as_they_are() -> None:
    assert find("+", "+") is not None
    assert find("+", "-") is None
    assert find("+", "a") is None
    assert as_sign(" + ") == "plus"
    assert as_sign("Save") is None


@pytest.mark.parametrize(
    ("name", "text"), [("", "a"), ("a", ""), ("", ""), ("\ud800", "a"), ("저장", "save"), (" ", " ")]
)
def test_nothing_fits_nothing(name: str, text: str) -> None:
    assert find(name, text) is None


def test_other_scripts() -> None:
    found = find("저장", "다른 이름으로 저장")
    assert found is not None
    assert found.last == len("다른 이름으로 저장")
