"""Grounding: read from files, grown sentence by sentence, and never a way for the instruction to get out."""

from __future__ import annotations

from pathlib import Path

import pytest

from howsure.errors import InputError
from howsure.models.contract import Answer, Capability, Counters, Model
from howsure.studies.trust.knowledge import (
    one_sentence,
    read_knowledge,
    read_sets,
    repeats,
    sentence_from_feedback,
    summary_of,
    take_up,
)


def test_a_file_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text(
        "\ufeff# a comment\n- The kitchen is north.\n\n2) Beds block the way.\n* 문은 왼쪽에 있다.\n", "utf-8"
    )
    assert read_knowledge(path) == ["The kitchen is north.", "Beds block the way.", "문은 왼쪽에 있다."]


def test_a_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('["The kitchen is north.", " ", "Beds block."]', "utf-8")
    assert read_knowledge(path) == ["The kitchen is north.", "Beds block."]


def test_sentences_are_lines(tmp_path: Path) -> None:
    """Whatever they came as, they are read back from a file of lines as they are."""
    path = tmp_path / "s.json"
    path.write_text('["# one\\nline", "- * two", "3) three", "#"]', "utf-8")
    found = read_knowledge(path)
    assert found == ["one line", "two", "three"]
    path.write_text("\n".join(found), "utf-8")
    assert read_knowledge(path) == found
    assert one_sentence("# 1. First. Second.") == "First."


def test_sets_of_sentences(tmp_path: Path) -> None:
    path = tmp_path / "sets.txt"
    path.write_text("- One.\n- Two.\n\n-\n\n# nothing but a remark\nThree.\n", "utf-8")
    assert read_sets(path) == [["One.", "Two."], [], ["Three."]]
    path.write_text('[["One."], []]', "utf-8")
    assert read_sets(path) == [["One."], []]
    path.write_text('[["- One\\nline."], [" "]]', "utf-8")
    assert read_sets(path) == [["One line."], []]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "byte 0"),
        (b"[1, 2]", "no list of texts"),
        (b"[" * 100_000, "no list of texts"),
        (b"x" * (2**20 + 1), "larger than 1 MiB"),
    ],
)
def test_a_file_that_is_no_grounding(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_knowledge(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_knowledge(tmp_path / "none.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_knowledge(tmp_path)


@pytest.mark.parametrize(
    ("sentence", "told", "held"),
    [
        ("The task is to GO  to the red ball!", "go to the red ball", True),
        ("Go-to the red ball is what I do", "Go to the red ball.", True),
        ("The ball is red.", "go to the red ball", False),
        ("you must bring the blue box from the shed", "Please bring the blue box from the shed to the door.", True),
        ("The blue box is in the shed.", "Please bring the blue box from the shed to the door.", False),
        ("목표는 빨간 공으로 가세요 입니다", "빨간 공으로 가세요", True),
        ("任务是走到红球那里。", "走到红球", True),
        ("goal", "go", False),
        ("Then go!", "go", True),
        ("go_to_the_red_ball", "go to the red ball", True),
        ("goToTheRedBall", "go to the red ball", True),
        ("ＧＯ to the red ball", "go to the red ball", True),
        ("g\u200bo to\u200bthe red ball", "go to the red ball", True),
        ("walk to the cafe\u0301 door", "to the caf\u00e9 door", True),
        ("one two three four five six", "zero one two three four five six seven", True),
        ("one two three four five", "zero one two three four five six seven", False),
        ("one two three four five seven", "zero one two three four five six seven", False),
        ("anything", "", False),
        ("anything", "  ", False),
    ],
)
def test_what_repeats_the_instruction(sentence: str, told: str, held: bool) -> None:
    assert repeats(sentence, [None, told]) is held


def test_taking_up() -> None:
    known = ["Beds block the way."]
    assert take_up("beds block the way", "feedback", known, []) is None, "known already"
    assert take_up(" \n ", "feedback", known, []) is None
    good = take_up("The door is left. It is red.", "feedback", known, ["go home"])
    assert good is not None
    assert (good.sentence, good.refused) == ("The door is left.", None)
    bad = take_up("You should go home.", "feedback", known, ["go home"])
    assert bad is not None
    assert bad.refused == "repeats_instruction"


def test_one_sentence_is_bounded() -> None:
    assert len(one_sentence("word " * 1000)) == 300
    assert one_sentence('"Quoted."\nMore.') == "Quoted."


class Words(Model):
    """Answers with what it was given; keeps what it was asked."""

    name = "words"
    capabilities = frozenset({Capability.GENERATE})

    def __init__(self, text: str | None) -> None:
        self.counters, self._text = Counters(), text
        self.asked: list[str] = []

    def fingerprint(self) -> dict[str, str]:
        return {}

    def generate(self, conversations, **options):  # type: ignore[no-untyped-def]
        asked = [list(one) for one in conversations]
        self.asked += [message.content for one in asked for message in one]
        return [Answer(self._text, failure=None if self._text else "server said no") for _ in asked]


def test_feedback_becomes_one_sentence() -> None:
    model = Words("Carpets slow the robot. And more.")
    assert sentence_from_feedback(model, "careful, the carpet is slow!!") == (
        "Carpets slow the robot.",
        "feedback, worded by the model",
    )
    assert "careful, the carpet is slow!!" in model.asked[0]


def test_a_summary_is_at_most_five_sentences() -> None:
    model = Words("\n".join(f"- Fact {i}. And more." for i in range(9)))
    assert summary_of(model, ["At (1, 1), up: A wall stopped you."]) == [f"Fact {i}." for i in range(5)]
    assert "At (1, 1), up: A wall stopped you." in model.asked[0]
    assert summary_of(Words(None), ["a fact"]) == []


def test_feedback_in_the_users_words_where_the_model_gives_none() -> None:
    sentence, source = sentence_from_feedback(Words(None), "The carpet is slow")
    assert (sentence, source) == ("The carpet is slow", "feedback, in the user's words")
