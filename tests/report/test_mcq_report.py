"""Multiple choice as it is shown: in a terminal, on pages, two runs compared."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import howsure
from howsure.report.comparison import mcnemar_in_words
from howsure.report.run_data import StoredRun
from howsure.report.sureness import confidence_in_words, ece_in_words
from howsure.report.text import signed_nats, signed_points
from howsure.studies.comparing import McNemar
from howsure.studies.sureness import Calibration, Floor
from report.rendered import about, body, cards, page, printed, stored
from studies.on_paper import OnPaper, write

HOSTILE = "\x1b[2Jwho [bold]was[/] it?"
ROWS: list[dict[str, Any]] = [
    {
        "question": f"{i} {HOSTILE} {'and so on ' * 20}",
        "choices": [f"yes{i} {HOSTILE}", f"no{i}"],
        "answer_index": i % 2,
        "group": f"{HOSTILE} a group with a name that is far too long for any table {i % 3}",
    }
    for i in range(12)
]


def model(sign: float, name: str) -> OnPaper:
    table: dict[str, float | list[float]] = {}
    for i, row in enumerate(ROWS):
        gap = sign * (i - 5.5) / 4
        table |= {f" {row['choices'][0]}": -3.0 + min(gap, 0), f" {row['choices'][1]}": -3.0 - max(gap, 0)}
    return OnPaper(table, name=name)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pair")
    path = write(folder / "q.jsonl", *ROWS)
    return howsure.mcq(path, model(1, "first"), model_b=model(-1, "second"), out=folder / "out")


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_fits_its_width_and_says_it_in_words(pair: Any, width: int) -> None:
    shown = printed(pair.a, width)
    folder = next(i for i, line in enumerate(shown.splitlines()) if line.startswith("run folder"))
    assert max(map(len, shown.splitlines()[:folder])) <= width
    assert "\x1b" not in shown, "plain where the output is no terminal, whatever stands in the data"
    for words in (
        "accuracy", "mean margin", "coverage", "scored 12 of 12",
        "sum of log-probabilities, decides", "mean per token", "mean per byte", "PMI", "a blind guess",
        "on average: not clearly over- or underconfident: ", "ECE, 15 equal-width bins",
        "a perfectly calibrated model", "in 19 of 20",
        "smooth ECE", "Brier", "AUROC (correct vs wrong)", "excess AURC", "of the surest 50%", "of the surest 80%",
        "overconfident by", "questions", "Confident but wrong", "Right but unsure", "no interval for 3 of 3 groups",
    ):  # fmt: skip
        assert words in " ".join(shown.split()), words


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_fits_its_width_and_shows_some_flips(pair: Any, width: int) -> None:
    shown = printed(pair.comparison, width, cards=2)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for words in ("A", "B − A", "first", "second", "accuracy", "mean margin", "right in A, wrong in B: 6", "McNemar"):
        assert words in " ".join(shown.split()), words
    assert "and 4 more: `howsure compare --flips 6` lists all" in shown
    none = printed(pair.comparison, width, cards=0)
    assert "right in A" not in none


def test_hostile_text_is_not_obeyed_on_a_terminal(pair: Any) -> None:
    for result in (pair.a, pair.comparison):
        shown = printed(result, 200, is_terminal=True)
        assert "\x1b[2J" not in shown
        assert "[bold]was[/]" in shown


@pytest.mark.parametrize(
    ("surplus", "low", "high", "words"),
    [
        (0.12, 0.04, 0.2, "80.0 % on average: overconfident by 12.0 points (4.0 to 20.0)"),
        (-0.12, -0.2, -0.04, "80.0 % on average: underconfident by 12.0 points (4.0 to 20.0)"),
        (0.02, -0.03, 0.07, "80.0 % on average: not clearly over- or underconfident: +2.0 points (-3.0 to 7.0)"),
        (-0.02, -0.2, 0.0, "80.0 % on average: not clearly over- or underconfident: -2.0 points (-20.0 to 0.0)"),
        (
            0.12,
            None,
            None,
            "80.0 % on average: 12.0 points above the share right (no interval: too few independent answers)",
        ),
        (
            -0.12,
            None,
            None,
            "80.0 % on average: 12.0 points below the share right (no interval: too few independent answers)",
        ),
    ],
)
def test_overconfidence_in_words(surplus: float, low: float | None, high: float | None, words: str) -> None:
    none = dict.fromkeys(Calibration.__struct_fields__)
    bounds = {"overconfidence": surplus, "overconfidence_low": low, "overconfidence_high": high}
    entry: dict[str, Any] = none | {"mean_confidence": 0.8, **bounds}
    assert confidence_in_words(Calibration(**entry)) == words
    if low is not None:
        assert "(about " in confidence_in_words(Calibration(**(entry | {"overconfidence_approximate": True})))


def test_an_ece_stands_beside_what_perfect_calibration_would_show() -> None:
    assert ece_in_words(0.225, Floor(0.1331, 0.1899)) == (
        "0.225; a perfectly calibrated model with these confidences: 0.133 on average, up to 0.190 in 19 of 20"
    )
    assert ece_in_words(0.225, None) == "0.225 (too few independent answers to tell it from chance)"


def test_a_difference_says_how_good_its_interval_is() -> None:
    paired = {"low": 0.02, "high": 0.18, "approximate": True, "note": None}
    assert signed_points(0.1, paired) == "+10.0 points (about +2.0 to +18.0)"
    exact = paired | {"approximate": False}
    assert signed_points(0.1, exact) == "+10.0 points (+2.0 to +18.0)"
    alike = {"low": None, "high": None, "note": "no interval: all changed alike"}
    assert signed_nats(0.5, alike) == "+0.500 nats (all changed alike)"
    few = alike | {"note": "no interval: 4 questions, and it takes at least 5"}
    assert signed_nats(0.5, few) == "+0.500 nats"


def test_mcnemar_in_words() -> None:
    def words(only_a: int, only_b: int, p: float, hang_together: bool = False) -> str:
        test = McNemar(both_correct=9, only_a_correct=only_a, only_b_correct=only_b, both_wrong=9, p_value=p)
        return mcnemar_in_words(test, None, "question", hang_together=hang_together)

    assert words(0, 0, 1.0) == "No question flipped."
    assert words(5, 3, 0.727).endswith("p = 0.727: chance alone could do this.")
    assert words(1, 20, 2e-5).endswith("p = 2.0e-05: more than chance explains, at the 5 % level.")
    assert words(1, 20, 2e-5, True).endswith("at the 5 % level, were all questions independent.")
    assert words(5, 3, 0.727, True).endswith("chance alone could do this.")


def test_differences_carry_sign_unit_and_interval() -> None:
    assert signed_points(0.1, {"low": 0.02, "high": 0.18}) == "+10.0 points (+2.0 to +18.0)"
    assert signed_points(-0.1) == "-10.0 points"
    assert signed_nats(0.5222, {"low": -0.1, "high": 1.0}) == "+0.5 nats (-0.1 to +1.0)"
    assert signed_points(None) == signed_nats(None) == "—"


def test_what_failed_in_one_gets_a_row_of_its_own(tmp_path: Path) -> None:
    """Three questions; A fails on one of them, which B gets right: +1 of 3 in the table, none of 2 in the pairs."""
    rows = [{"question": q, "choices": ["yes", "no"], "answer_index": 0} for q in ("a?", "b?", "fail?")]
    path = write(tmp_path / "q.jsonl", *rows)

    class Sturdy(OnPaper):
        def _score(self, item: Any) -> Any:
            return super()._score(item._replace(prefix="anything" if item.prefix else ""))

    table = {" yes": -1.0, " no": -2.0}
    pair = howsure.mcq(path, OnPaper(table), model_b=Sturdy(table, name="sturdy"), out=tmp_path / "out")
    shown = printed(pair.comparison, 110, cards=2)
    lines = {line.split("  ")[0].strip() or line.strip(): " ".join(line.split()) for line in shown.splitlines()}
    assert lines["accuracy"] == "accuracy 66.7 % 100.0 % +33.3 points"
    assert "of 2 in both 100.0 % 100.0 % +0.0 points mean margin" in " ".join(shown.split())
    assert "note: no interval: 2 questions, and it takes at least 5" in shown
    assert "note: 1 of 3 questions were not scored by both (1 failed in a)" in " ".join(shown.split())


def test_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    """Nothing scored, then no PMI asked for."""
    path = write(tmp_path / "q.jsonl", {"question": "fail", "choices": ["a", "b"], "answer_index": 0})
    nothing = howsure.mcq(path, OnPaper({" a": -1.0, " b": -2.0}), out=tmp_path / "nothing")
    shown = printed(nothing)
    assert "failed" in shown
    assert "Should it be so sure?" not in shown
    path = write(tmp_path / "r.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    plain = howsure.mcq(path, OnPaper({" a": -1.0, " b": -2.0}), out=tmp_path / "plain", pmi=False)
    shown = printed(plain)
    assert "not asked for" in shown
    assert "AUROC (correct vs wrong) — (all answers are alike)" in " ".join(shown.split())


# -- pages ------------------------------------------------------------------------------------------------------------

TABLE = {" x": -1.0, " y": -2.0, " z": -2.0, " w": -float("inf")}


def question(number: int, choices: list[str], answer: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": f"Question {number}?", "choices": choices, "answer_index": answer} | more


def run_of(tmp_path: Path, *lines: dict[str, Any], table: dict[str, float] | None = None, **how: Any) -> StoredRun:
    howsure.mcq(write(tmp_path / "q.jsonl", *lines), OnPaper(table or TABLE, **how), out=tmp_path / "run")
    return stored(tmp_path / "run", 1_000_000)


def told(run: StoredRun) -> tuple[list[str], list[str]]:
    wrong, right = ([f"{card.verdict}: {body(card)}" for card in side] for side in cards(run))
    return wrong, right


def test_the_surest_of_the_wrong_and_the_least_sure_of_the_right_come_first(tmp_path: Path) -> None:
    table = {f" {name}": -value for name, value in {"a": 1.0, "b": 1.1, "c": 4.0, "d": 2.0}.items()}
    lines = [
        question(0, ["a", "b"], 0),  # right by little
        question(1, ["a", "c"], 0),  # right by much
        question(2, ["a", "c"], 1),  # wrong by much
        question(3, ["a", "d"], 1),  # wrong by less
    ]
    wrong, right = told(run_of(tmp_path, *lines, table=table))
    assert ["Question 2?" in wrong[0], "Question 3?" in wrong[1], len(wrong)] == [True, True, 2]
    assert ["Question 0?" in right[0], "Question 1?" in right[1], len(right)] == [True, True, 2]
    assert wrong[0].startswith("95.3 % sure, wrong")
    assert right[0].startswith("52.5 % sure, right")


def test_the_right_and_the_chosen_answer_are_said_in_words(tmp_path: Path) -> None:
    wrong, right = told(run_of(tmp_path, question(0, ["x", "y"], 1), question(1, ["x", "y"], 0)))
    assert re.findall(r"(right answer|chosen)<", wrong[0]) == ["chosen", "right answer"]
    assert re.findall(r"(right answer, chosen)<", right[0]) == ["right answer, chosen"]


def test_of_many_choices_a_card_has_the_likeliest_and_the_right_one_and_the_page_all(tmp_path: Path) -> None:
    names = [f"choice {number}" for number in range(40)]
    table = {f" {name}": -1.0 - 0.1 * number for number, name in enumerate(names)}
    run = run_of(tmp_path, question(0, names, 33), table=table)
    (card,), _ = told(run)
    assert re.findall(r"<td>choice (\d+)</td>", card) == ["0", "1", "2", "3", "4", "5", "6", "33"]
    assert "and 32 more choices" in card
    assert len(re.findall(r"<td>choice (\d+)</td>", about(run))) == 40


def test_a_tie_is_called_one(tmp_path: Path) -> None:
    wrong, right = told(run_of(tmp_path, question(0, ["y", "z"], 0), question(1, ["y", "z"], 1)))
    assert [card.partition(":")[0] for card in wrong + right] == [
        "50.0 % sure, wrong by a tie",
        "50.0 % sure, right by a tie",
    ]


def test_long_choices_are_cut_on_the_card_and_longer_on_the_page(tmp_path: Path) -> None:
    long = "word " * 199 + "end"
    run = run_of(tmp_path, question(0, [long, "y"], 1), table={f" {long}": -1.0, " y": -2.0})
    (card,), _ = told(run)
    assert len(card) < 2_000
    assert "end" not in card
    assert long in about(run)


def test_a_question_with_an_image_shows_it(tmp_path: Path) -> None:
    Image.new("RGB", (40, 20), (9, 9, 9)).save(tmp_path / "pic.png")
    line = question(0, ["x", "y"], image_path=str(tmp_path / "pic.png"))
    run = run_of(tmp_path, line, images=True)
    _, (card,) = told(run)
    assert 'src="data:image/jpeg;base64,' in card
    assert 'alt="' in card
    assert 'src="data:image/' in about(run)


def test_what_failed_is_listed_with_its_reason(tmp_path: Path) -> None:
    run = run_of(tmp_path, question(0, ["x", "y"]), question(1, ["x", "y"]) | {"question": "<i>fail</i>"})
    shown = page(run)
    assert "What has no answer" in shown
    assert re.search(r"<td>q1</td><td>[a-z ]+</td><td>[^<]+</td>", shown)
    assert "No answer" in about(run, 1)
    assert "&lt;i&gt;fail" in about(run, 1)
    assert "<i>" not in about(run, 1)


def test_where_all_failed_there_is_nothing_to_draw(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(question(i, ["x", "y"]) | {"question": "fail"} for i in range(12)))
    shown = page(run)
    assert "<figure" not in shown
    assert "Would another score" not in shown
    assert "The first 10 of 12." in shown
    assert told(run) == ([], [])


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
    run = run_of(tmp_path, *lines)
    finished = page(run)
    assert "Would another score choose better?" in finished
    assert ">nan" not in finished
    assert ">inf" not in finished
    run.summary = None
    assert "Would another score" not in page(run), "a run in progress has its rows alone"
    assert all(about(run, row) for row in range(len(run.table)))


def test_tokens_that_are_pieces_of_a_character_are_read_as_one(tmp_path: Path) -> None:
    run = run_of(tmp_path, question(0, ["x", "y"]))
    path = run.folder / "samples.jsonl"
    sample = json.loads(path.read_text())
    sample["evidence"]["choices"][0] = {"tokens": ["\ufffd"] * 2, "logprobs": [-1.0, -1.0], "bytes": ["c3", "a9"]}
    path.write_text(json.dumps(sample) + "\n")
    shown = about(stored(run.folder))
    assert "«é»" in shown
    assert "\ufffd" not in shown
