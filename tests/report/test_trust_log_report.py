"""An analysis of steps as it is printed: in words, within its width, whatever stands in the logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from howsure.report.trust import document, trust_in_words
from howsure.report.views import document_of
from howsure.studies.trust.logs import LogSummary, analyse
from howsure.studies.trust.ratio import Mean, TrustBounds, TrustFigure
from report.rendered import as_html, printed

HOSTILE = "\x1b[2Jroom [bold]one[/]"
HEAD = "episode,action_probability,on_shortest_path,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T\n"


def write(path: Path, low: list[float], high: list[float], *, episodes: int = 6, n: int = 40, tail: str = "") -> Path:
    rng = np.random.default_rng(episodes)
    rows = rng.uniform(low, high, size=(n, 3)).tolist()
    lines = [
        f"{'a very long name ' * 4}{HOSTILE}{i % episodes},{rng.random():.3f},{i % 3 and 1},"
        f"{x:.4f},{y:.4f},{z:.4f},{(x - y) / (x - z):.4f}\n"
        for i, (x, y, z) in enumerate(rows)
    ]
    path.write_text(HEAD + "".join(lines) + tail, encoding="utf-8")
    return path


def shown(summary: LogSummary, width: int, *, is_terminal: bool = False) -> str:
    return printed(document_of("trust", summary, None), width, is_terminal=is_terminal)


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory) -> LogSummary:
    path = tmp_path_factory.mktemp("logs") / "clear.csv"
    return analyse([write(path, [2, 1, 0], [3, 2.2, 1.5], tail="a,,,x,1,0.5,\na,,,1\na,,,2,1,,0.3\n")]).summary


@pytest.fixture(scope="module")
def unclear(tmp_path_factory: pytest.TempPathFactory) -> LogSummary:
    folder = tmp_path_factory.mktemp("logs")
    paths = [write(folder / f"{HOSTILE[1:9]}{name}.csv", [2, 0.5, 1.5], [3, 1.2, 3.5], episodes=e) for name, e in
             (("one", 3), ("two", 24))]  # fmt: skip
    return analyse([*paths, folder / "nowhere.csv"]).summary


@pytest.mark.parametrize("width", [80, 200])
def test_an_analysis_fits_its_width_and_says_it_in_words(clear: LogSummary, width: int) -> None:
    said = shown(clear, width)
    assert max(len(line) for line in said.splitlines() if not line.startswith("note: ")) <= width
    assert "\x1b" not in said
    joined = " ".join(said.split())
    for words in (
        "trust T 0.", "ΔH_S", "ΔH_L,S", "(about ", "95% interval",
        "H(X), told neither", "H(X|S), told what is known", "H(X|L,S), told the instruction too",
        "the mean of 40 complete steps", "independent episodes 6 of 6",
        "H(X) ≥ H(X|S) ≥ H(X|L,S)", "in 0 to 1", "below 0", "above 1", "T of a step, median",
        "Actions on a shortest path to the goal: 26 of 40, 65.0 %", "AUROC (on vs off the path)", "Brier",
        "a perfectly calibrated model",
        "coverage scored 40 of 43; 3 missing: 1 empty field, 1 too few fields, 1 unreadable",
        "H(X|L,S) missing 1 empty field, 1 too few fields",
        "line 42: entropy_H_X 'x' is not a number",
        "has no column action_confidence",
    ):  # fmt: skip
        assert words in joined, words
    for words in ("not identified", "bootstrap", "Fieller", "drawing", "Worth a look"):
        assert words not in said, words


@pytest.mark.parametrize("width", [80, 200])
def test_what_is_not_identified_is_told_in_words(unclear: LogSummary, width: int) -> None:
    said = shown(unclear, width)
    assert "\x1b" not in said
    lines = said.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("note: ", "problem: "))) <= width
    joined = " ".join(said.split())
    assert "not identified: ΔH_L,S is not clearly above zero (" in joined
    assert "note: trust T is not identified: " in joined
    assert "and 7 more rows in --json" in said, "27 episodes, of which 20 are shown"
    assert "problem: " in said
    assert "nowhere.csv is not there; check the path" in joined
    (files,) = [i for i, line in enumerate(lines) if line.startswith("file ")]
    assert "one.csv" in lines[files + 1]
    assert "two.csv" in lines[files + 2]
    assert ("H(X|S)" in lines[files]) == (width == 200), "a narrow table leaves out the entropies"


def test_colours_do_not_let_names_move_the_cursor(unclear: LogSummary) -> None:
    said = shown(unclear, 100, is_terminal=True)
    assert "\x1b[2J" not in said
    assert "[bold]" in said, "what looks like markup is only text"


def test_the_names_of_logs_are_text_on_a_page_too(unclear: LogSummary, tmp_path: Path) -> None:
    path = write(tmp_path / "a<b>c.csv", [2, 1, 0], [3, 2.2, 1.5], episodes=2)
    page = as_html(document(analyse([path, *[tmp_path / "gone<i>.csv"]]).summary, None))
    assert "<b>" not in page
    assert "gone&lt;i&gt;.csv is not there" in page


def test_nothing_complete_is_printed_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,entropy_H_X\n1,2.0\n2,1.5\n", encoding="utf-8")
    said = shown(analyse([path]).summary, 200)
    assert "not identified: no step has all three entropies" in said
    assert "No step has all three entropies, so nothing can be said about T." in said
    assert "has no columns entropy_H_X_given_S, entropy_H_X_given_LS, so that none of its rows is complete" in said
    assert "nan" not in said.replace("nan,", "")
    assert "scored 0 of 2; 2 missing: 2 no column" in said


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "0.25 (0.12 to 0.38; over 12 episodes)"),
        ({"approximate": True}, "0.25 (about 0.12 to 0.38; over 12 episodes)"),
        ({"value": -0.1, "low": -0.2}, "-0.10 (-0.20 to 0.38; over 12 episodes; below 0, though not clearly)"),
        (
            {"bounds": TrustBounds(0.2, 0.3)},
            "0.25 (0.12 to 0.38; over 12 episodes; between 0.200 and 0.300 whatever the unlisted tokens are)",
        ),
        ({"identified": False, "reason": "1 episode, and T takes at least 5"},
         "not identified: 1 episode, and T takes at least 5"),
    ],
)  # fmt: skip
def test_trust_in_words(entry: dict[str, Any], words: str) -> None:
    none = Mean(value=None, low=None, high=None, level=None, method=None, approximate=None)
    told: dict[str, Any] = {"value": 0.25, "identified": True, "why": None, "reason": None, "low": 0.125, "high": 0.375}
    told |= {"level": 0.95, "method": "", "approximate": False, "bounds": None, "floor_bits": 0.01, "steps": 60}
    told |= {"delta_h_s_bits": none, "delta_h_ls_bits": none, "episode_count": 12, "independent_episodes": 12}
    assert str(trust_in_words(TrustFigure(**told | entry))) == words


def test_an_ordering_that_is_no_figure_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    head = "episode,step,grounded,instructed,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS\n"
    path.write_text(head + "".join(f"{i},1,0,1,2.0,2.0,1.{i}\n" for i in range(6)), encoding="utf-8")
    assert "H(X) ≥ H(X|S)                     — (X and X|S are the same prompt)" in shown(analyse([path]).summary, 200)


def test_a_few_episodes_have_no_interval_and_no_trust_of_their_own(tmp_path: Path) -> None:
    summary = analyse([write(tmp_path / "a.csv", [2, 1, 0], [3, 2.2, 1.5], episodes=3)]).summary
    said = shown(summary, 200)
    assert "not identified: 3 episodes, and T takes at least 5" in said
    assert " to " not in said[said.index("H(X), told neither") : said.index("independent episodes")]
    assert "no interval: too few independent answers" in said
    assert "no interval: it takes 5 independent units, 3 right and 3 wrong" in said
    (heads,) = (line.split() for line in said.splitlines() if line.startswith("episode "))
    assert heads[-2:] == ["ΔH_S", "ΔH_L,S"], "one episode has no T"


def test_steps_that_lost_are_left_out_of_the_shares(tmp_path: Path) -> None:
    said = shown(analyse([write(tmp_path / "a.csv", [1, 1.1, 1.3], [1.05, 1.2, 1.4], episodes=6)]).summary, 200)
    assert "told everything, the model was less sure" in said
    assert "40 steps with ΔH_L,S below 0: less sure when told everything" in said
    assert "in 0 to 1" not in said


def test_actions_all_on_the_path_cannot_be_ranked(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [2, 1, 0], [3, 2.2, 1.5])
    path.write_text(path.read_text().replace(",0,", ",1,").replace(",2,", ",1,"))
    assert "— (all answers are alike)" in shown(analyse([path]).summary, 200)
