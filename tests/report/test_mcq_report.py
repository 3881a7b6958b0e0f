"""A multiple-choice run and a comparison as they are printed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import howsure
from howsure.report.compare import mcnemar_in_words, print_comparison
from howsure.report.mcq import confidence_in_words, ece_in_words, print_mcq
from howsure.report.text import signed_nats, signed_points
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


def printed(show: Any, width: int, *, terminal: bool = False) -> str:
    stream, colours = io.StringIO(), "truecolor" if terminal else None
    show(Console(file=stream, width=width, force_terminal=terminal, color_system=colours))
    return stream.getvalue()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("pair")
    path = write(folder / "q.jsonl", *ROWS)
    return howsure.mcq(path, model(1, "first"), model_b=model(-1, "second"), out=folder / "out")


@pytest.mark.parametrize("width", [80, 120])
def test_a_run_fits_its_width_and_says_it_in_words(pair: Any, width: int) -> None:
    shown = printed(lambda console: print_mcq(console, *pair.a), width)
    folder = next(i for i, line in enumerate(shown.splitlines()) if line.startswith("run folder"))
    assert max(map(len, shown.splitlines()[:folder])) <= width
    assert "\x1b" not in shown, "plain where the output is no terminal, whatever stands in the data"
    for words in (
        "accuracy", "mean margin", "coverage", "scored 12 of 12",
        "sum of log-probabilities, decides", "mean per token", "mean per byte", "PMI", "chance",
        "on average: not clearly over- or underconfident: ", "ECE, 15 equal-width bins",
        "a perfectly calibrated model", "in 19 of 20",
        "smooth ECE", "Brier", "AUROC (correct vs wrong)", "excess AURC", "of the surest 50%", "of the surest 80%",
        "by, points", "questions", "no interval for 3 of 3 groups",
    ):  # fmt: skip
        assert words in " ".join(shown.split()), words


@pytest.mark.parametrize("width", [80, 120])
def test_a_comparison_fits_its_width_and_shows_some_flips(pair: Any, width: int) -> None:
    shown = printed(lambda console: print_comparison(console, pair.comparison, 2), width)
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for words in ("A", "B − A", "first", "second", "accuracy", "mean margin", "right in A, wrong in B: 6,", "McNemar"):
        assert words in " ".join(shown.split()), words
    assert "and 4 more: --flips 6 shows all" in shown
    none = printed(lambda console: print_comparison(console, pair.comparison, 0), width)
    assert "right in A" not in none


def test_hostile_text_is_not_obeyed_on_a_terminal(pair: Any) -> None:
    for show in (
        lambda console: print_mcq(console, *pair.a),
        lambda console: print_comparison(console, pair.comparison, 5),
    ):
        shown = printed(show, 200, terminal=True)
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
    entry = {"mean_confidence": 0.8, "overconfidence": surplus, "overconfidence_low": low, "overconfidence_high": high}
    assert confidence_in_words(entry) == words
    if low is not None:
        assert "(about " in confidence_in_words(entry | {"overconfidence_approximate": True})


def test_an_ece_stands_beside_what_perfect_calibration_would_show() -> None:
    entry = {"ece_equal_width": 0.225, "ece_equal_width_floor": {"mean": 0.1331, "high": 0.1899}}
    assert ece_in_words(entry, "equal_width") == (
        "0.225; a perfectly calibrated model with these confidences: 0.133 on average, up to 0.190 in 19 of 20"
    )
    assert ece_in_words({"ece_equal_width": 0.225}, "equal_width") == "0.225", "a run of an earlier version"


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
    def words(only_a: int, only_b: int, p: float, units: int = 50) -> str:
        test = {"only_a_correct": only_a, "only_b_correct": only_b, "p_value": p}
        paired = {"paired_count": 50, "paired_unit_count": units, "paired_accuracy": None}
        return mcnemar_in_words({"mcnemar": test} | paired)

    assert words(0, 0, 1.0) == "no answer flipped"
    assert words(5, 3, 0.727).endswith("p = 0.727: chance alone could do this")
    assert words(1, 20, 2e-5).endswith("p = 2.0e-05: more than chance explains, at the 5 % level")
    assert words(1, 20, 2e-5, 12).endswith("at the 5 % level, were all questions independent")
    assert words(5, 3, 0.727, 12).endswith("chance alone could do this")


def test_differences_carry_sign_unit_and_interval() -> None:
    assert signed_points(0.1, {"low": 0.02, "high": 0.18}) == "+10.0 points (+2.0 to +18.0)"
    assert signed_points(-0.1) == "-10.0 points"
    assert signed_nats(0.5222, {"low": -0.1, "high": 1.0}) == "+0.522 nats (-0.100 to +1.000)"
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
    shown = printed(lambda console: print_comparison(console, pair.comparison, 2), 100)
    lines = {line.split("  ")[0].strip() or line.strip(): " ".join(line.split()) for line in shown.splitlines()}
    assert lines["accuracy"] == "accuracy 66.7 % 100.0 % +33.3 points"
    assert "of 2 in both 100.0 % 100.0 % +0.0 points mean margin" in " ".join(shown.split())
    assert "note: no interval: 2 questions, and it takes at least 5" in shown
    assert "note: 1 of 3 questions were not scored by both (1 failed in a)" in " ".join(shown.split())


def test_what_is_missing_is_a_dash(tmp_path: Path) -> None:
    """Nothing scored, then no PMI asked for."""
    path = write(tmp_path / "q.jsonl", {"question": "fail", "choices": ["a", "b"], "answer_index": 0})
    nothing = howsure.mcq(path, OnPaper({" a": -1.0, " b": -2.0}), out=tmp_path / "nothing")
    shown = printed(lambda console: print_mcq(console, *nothing), 120)
    assert "failed" in shown
    assert "should it be so sure?" not in shown
    path = write(tmp_path / "r.jsonl", {"question": "q", "choices": ["a", "b"], "answer_index": 0})
    plain = howsure.mcq(path, OnPaper({" a": -1.0, " b": -2.0}), out=tmp_path / "plain", pmi=False)
    shown = printed(lambda console: print_mcq(console, *plain), 120)
    assert "not asked for" in shown
    assert "AUROC (correct vs wrong)  — (all answers are alike)" in shown
