"""An analysis of steps as it is printed: in words, within its width, whatever stands in the logs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from howsure.report.trust_log import (
    ordering_in_words,
    part_table,
    print_analysis,
    sureness_in_words,
    trust_in_words,
    trust_sections,
)
from howsure.studies.trust.logs import analyse

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


def printed(summary: dict[str, Any], width: int, *, terminal: bool = False) -> str:
    stream, colours = io.StringIO(), "truecolor" if terminal else None
    print_analysis(Console(file=stream, width=width, force_terminal=terminal, color_system=colours), summary)
    return stream.getvalue()


@pytest.fixture(scope="module")
def clear(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("logs") / "clear.csv"
    return analyse([write(path, [2, 1, 0], [3, 2.2, 1.5], tail="a,,,x,1,0.5,\na,,,1\na,,,2,1,,0.3\n")]).summary


@pytest.fixture(scope="module")
def unclear(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("logs")
    paths = [write(folder / f"{HOSTILE[1:9]}{name}.csv", [2, 0.5, 1.5], [3, 1.2, 3.5], episodes=e) for name, e in
             (("one", 3), ("two", 24))]  # fmt: skip
    return analyse([*paths, folder / "nowhere.csv"]).summary


@pytest.mark.parametrize("width", [80, 200])
def test_an_analysis_fits_its_width_and_says_it_in_words(clear: dict[str, Any], width: int) -> None:
    shown = printed(clear, width)
    tables = shown[: shown.index("rows: scored")]
    assert max(map(len, tables.splitlines())) <= width
    assert "\x1b" not in shown
    told = clear["trust"]
    for words in (
        "mean of 40 complete rows (95% interval)",
        "H(X), given neither", "H(X|S), given grounding", "H(X|L,S), given instruction too",
        "ΔH_S = H(X) − H(X|S)", "ΔH_L,S = H(X) − H(X|L,S)",
        f"{told['value']:.3f} (about {told['low']:.3f} to {told['high']:.3f}, over 6 episodes)",
        "H(X) ≥ H(X|S) ≥ H(X|L,S)", "in 0 to 1", "below 0", "above 1", "median",
        "on a shortest path", "26 of 40, 65.0 %", "AUROC (on vs off the path)", "Brier", "a perfectly calibrated model",
        "rows: scored 40 of 43; 3 missing: 1 empty field, 1 too few fields, 1 unreadable",
        "H(X|L,S) missing: 1 empty field, 1 too few fields",
        "line 42: entropy_H_X 'x' is not a number",
        "has no column action_confidence",
    ):  # fmt: skip
        assert words in shown, words
    for words in ("not identified", "bootstrap", "Fieller", "drawing"):
        assert words not in shown, words


@pytest.mark.parametrize("width", [80, 200])
def test_what_is_not_identified_is_told_in_words(unclear: dict[str, Any], width: int) -> None:
    shown = printed(unclear, width)
    assert "\x1b" not in shown
    tables = shown[: shown.index("rows: scored")]
    assert max(map(len, tables.splitlines())) <= width
    assert "not identified: ΔH_L,S is not clearly above zero (" in " ".join(tables.split())
    assert "note: trust T is not identified: " in shown
    assert "and 7 more" in tables, "27 episodes, of which 20 are shown"
    assert "problem: " in shown
    assert "nowhere.csv is not there; check the path" in shown
    lines = tables.splitlines()
    (files,) = [i for i, line in enumerate(lines) if line.startswith("file ")]
    assert "one.csv" in lines[files + 1]
    assert "two.csv" in lines[files + 2]


def test_colours_do_not_let_names_move_the_cursor(unclear: dict[str, Any]) -> None:
    shown = printed(unclear, 100, terminal=True)
    assert "\x1b[2J" not in shown
    assert "[bold]" in shown, "what looks like markup is only text"


def test_sections_of_a_run_fit_the_narrowest_screen(clear: dict[str, Any]) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    for section in trust_sections(clear):
        console.print(section)
    assert "H(X|L,S), given" in stream.getvalue()
    assert len(trust_sections(clear)) == 4
    assert len(trust_sections({**clear, "sureness": None, "episode_count": 1})) == 2


def test_nothing_complete_is_printed_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,entropy_H_X\n1,2.0\n2,1.5\n", encoding="utf-8")
    shown = printed(analyse([path]).summary, 200)
    assert "not identified: no step has all three entropies" in shown
    assert "has no columns entropy_H_X_given_S, entropy_H_X_given_LS, so that none of its rows is complete" in shown
    assert "nan" not in shown.replace("nan,", "")
    assert "rows: scored 0 of 2; 2 missing: 2 no column" in shown


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "0.250 (0.125 to 0.375, over 12 episodes)"),
        ({"approximate": True}, "0.250 (about 0.125 to 0.375, over 12 episodes)"),
        ({"value": -0.1, "low": -0.2}, "-0.100 (-0.200 to 0.375, over 12 episodes; below 0, though not clearly)"),
        (
            {"bounds": {"low": 0.2, "high": 0.3}},
            "0.250 (0.125 to 0.375, over 12 episodes; between 0.200 and 0.300 whatever the unlisted tokens are)",
        ),
        ({"identified": False, "reason": "1 episode, and T takes at least 5"},
         "not identified: 1 episode, and T takes at least 5"),
    ],
)  # fmt: skip
def test_trust_in_words(entry: dict[str, Any], words: str) -> None:
    told = {"value": 0.25, "identified": True, "reason": None, "low": 0.125, "high": 0.375, "approximate": False}
    assert trust_in_words(told | {"bounds": None, "independent_episodes": 12} | entry) == words


def test_an_ordering_that_is_no_figure_says_why() -> None:
    entry = {"value": None, "count": 0, "of": 0, "reason": "X and X|S are the same prompt"}
    assert ordering_in_words(entry) == "— (X and X|S are the same prompt)"


def test_a_few_episodes_have_no_interval_and_no_trust_of_their_own(tmp_path: Path) -> None:
    summary = analyse([write(tmp_path / "a.csv", [2, 1, 0], [3, 2.2, 1.5], episodes=3)]).summary
    shown = printed(summary, 200)
    assert "T over all steps          not identified: 3 episodes, and T takes at least 5" in shown
    assert " to " not in shown[shown.index("entropy of the action") : shown.index("trust T =")]
    assert "over too few episodes for an interval" in shown
    assert "no interval: it takes 5 independent units, 3 right and 3 wrong" in shown
    table = part_table("episode", summary["episodes"], 3)
    assert [column.header for column in table.columns][-2:] == ["ΔH_S", "ΔH_L,S"], "one episode has no T"
    files = part_table("file", summary["files"], 1)
    assert files.columns[-1].header == "T"


def test_steps_that_lost_are_left_out_of_the_shares(tmp_path: Path) -> None:
    shown = printed(analyse([write(tmp_path / "a.csv", [1, 1.1, 1.3], [1.05, 1.2, 1.4], episodes=6)]).summary, 200)
    assert "told everything, the model was less sure" in shown
    assert "40 steps with ΔH_L,S below 0: less sure when told everything" in shown
    assert "in 0 to 1" not in shown


def test_actions_all_on_the_path_cannot_be_ranked(clear: dict[str, Any]) -> None:
    found = clear["sureness"]
    alike = {**found, "selective": {**found["selective"], "auroc": None}, "calibration": None}
    rows = sureness_in_words(alike)
    assert rows["AUROC (on vs off the path)"] == "— (all actions are on the path, or all off it)"
    assert "confidence" not in rows
