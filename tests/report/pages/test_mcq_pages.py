"""Pages of multiple choice: the surest of the wrong, the least sure of the right, and questions of odd kinds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from htpy import fragment
from PIL import Image

import howsure
from howsure.report.pages import mcq as pages
from howsure.report.run_data import Embedded, Material
from howsure.report.html import section
from studies.on_paper import OnPaper, write

TABLE = {" x": -1.0, " y": -2.0, " z": -2.0, " w": -float("inf")}


def question(number: int, choices: list[str], answer: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": f"Question {number}?", "choices": choices, "answer_index": answer} | more


def run_of(tmp_path: Path, *lines: dict[str, Any], table: dict[str, float] | None = None, **how: Any) -> Material:
    howsure.mcq(write(tmp_path / "q.jsonl", *lines), OnPaper(table or TABLE, **how), out=tmp_path / "run")
    return Material(tmp_path / "run", Embedded(tmp_path / "run", 1_000_000))


def shown(material: Material) -> str:
    return "".join(str(section(one)) for one in pages.sections(material))


def cards(material: Material, most: int = 5) -> tuple[list[str], list[str]]:
    found = pages.picks(material, most)
    assert found is not None
    sides = (found.surely_wrong, found.doubtfully_right)
    first, second = ([f"{card.verdict}: {fragment[card.body]}" for card in side] for side in sides)
    return first, second


def about(material: Material, row: int = 0) -> str:
    return "".join(str(section(one)) for one in pages.about(material.sample(row), material))


def test_the_surest_of_the_wrong_and_the_least_sure_of_the_right_come_first(tmp_path: Path) -> None:
    table = {f" {name}": -value for name, value in {"a": 1.0, "b": 1.1, "c": 4.0, "d": 2.0}.items()}
    lines = [
        question(0, ["a", "b"], 0),  # right by little
        question(1, ["a", "c"], 0),  # right by much
        question(2, ["a", "c"], 1),  # wrong by much
        question(3, ["a", "d"], 1),  # wrong by less
    ]
    wrong, right = cards(run_of(tmp_path, *lines, table=table))
    assert ["Question 2?" in wrong[0], "Question 3?" in wrong[1], len(wrong)] == [True, True, 2]
    assert ["Question 0?" in right[0], "Question 1?" in right[1], len(right)] == [True, True, 2]
    assert wrong[0].startswith("95.3 % sure, wrong")
    assert right[0].startswith("52.5 % sure, right")


def test_the_right_and_the_chosen_answer_are_said_in_words(tmp_path: Path) -> None:
    wrong, right = cards(run_of(tmp_path, question(0, ["x", "y"], 1), question(1, ["x", "y"], 0)))
    assert re.findall(r"(right answer|chosen)<", wrong[0]) == ["chosen", "right answer"]
    assert re.findall(r"(right answer|chosen)<", right[0]) == ["right answer", "chosen"]


def test_of_many_choices_a_card_has_the_likeliest_and_the_right_one_and_the_page_all(tmp_path: Path) -> None:
    names = [f"choice {number}" for number in range(40)]
    table = {f" {name}": -1.0 - 0.1 * number for number, name in enumerate(names)}
    material = run_of(tmp_path, question(0, names, 33), table=table)
    (card,), _ = cards(material)
    assert re.findall(r"<td>choice (\d+)</td>", card) == ["0", "1", "2", "3", "4", "5", "6", "33"]
    assert "and 32 more choices" in card
    assert len(re.findall(r"<td>choice (\d+)</td>", about(material))) == 40


def test_a_tie_is_called_one(tmp_path: Path) -> None:
    wrong, right = cards(run_of(tmp_path, question(0, ["y", "z"], 0), question(1, ["y", "z"], 1)))
    assert [card.partition(":")[0] for card in wrong + right] == [
        "50.0 % sure, wrong by a tie",
        "50.0 % sure, right by a tie",
    ]


def test_long_choices_are_cut_on_the_card_and_longer_on_the_page(tmp_path: Path) -> None:
    long = "word " * 199 + "end"
    material = run_of(tmp_path, question(0, [long, "y"], 1), table={f" {long}": -1.0, " y": -2.0})
    (card,), _ = cards(material)
    assert len(card) < 2_000
    assert "end" not in card
    assert long in about(material)


def test_a_question_with_an_image_shows_it(tmp_path: Path) -> None:
    Image.new("RGB", (40, 20), (9, 9, 9)).save(tmp_path / "pic.png")
    line = question(0, ["x", "y"], image_path=str(tmp_path / "pic.png"))
    material = run_of(tmp_path, line, images=True)
    _, (card,) = cards(material)
    assert 'src="data:image/jpeg;base64,' in card
    assert 'alt="' in card
    assert 'src="data:image/' in about(material)


def test_what_failed_is_listed_with_its_reason(tmp_path: Path) -> None:
    material = run_of(tmp_path, question(0, ["x", "y"]), question(1, ["x", "y"]) | {"question": "<i>fail</i>"})
    page = shown(material)
    assert "What has no answer" in page
    assert re.search(r"<td>q1</td><td>[a-z ]+</td><td>[^<]+</td>", page)
    assert "No answer" in about(material, 1)
    assert "&lt;i&gt;fail" in about(material, 1)
    assert "<i>" not in about(material, 1)


def test_where_all_failed_there_is_nothing_to_draw(tmp_path: Path) -> None:
    material = run_of(tmp_path, *(question(i, ["x", "y"]) | {"question": "fail"} for i in range(12)))
    page = shown(material)
    assert "<figure" not in page
    assert "Would another score" not in page
    assert "The first 10 of 12." in page
    assert cards(material) == ([], [])


@pytest.mark.parametrize(
    "lines",
    [
        [question(0, ["x", "y"])],
        [question(i, ["x", "y"]) for i in range(20)],
        [question(i, ["x", "y"], 1) for i in range(20)],
        [question(i, ["y", "z"], i % 2) for i in range(6)],
        [question(i, ["x", "w"], i % 2, group="g") for i in range(4)],
    ],
    ids=["one", "all-right", "all-wrong", "ties", "impossible"],
)
def test_odd_runs_have_pages(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    material = run_of(tmp_path, *lines)
    finished = shown(material)
    assert "Would another score choose better?" in finished
    assert ">nan" not in finished
    assert ">inf" not in finished
    material.summary = None
    assert "Would another score" not in shown(material), "a run in progress has its rows alone"
    assert all(about(material, row) for row in range(len(material.table)))


def test_tokens_that_are_pieces_of_a_character_are_read_as_one(tmp_path: Path) -> None:
    material = run_of(tmp_path, question(0, ["x", "y"]))
    path = material.folder / "samples.jsonl"
    sample = json.loads(path.read_text())
    sample["evidence"]["choices"][0] = {"tokens": ["\ufffd"] * 2, "logprobs": [-1.0, -1.0], "bytes": ["c3", "a9"]}
    path.write_text(json.dumps(sample) + "\n")
    page = about(Material(material.folder, Embedded(material.folder, 0)))
    assert "«é»" in page
    assert "\ufffd" not in page
