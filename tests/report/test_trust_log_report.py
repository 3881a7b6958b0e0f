"""An analysis of steps as it is printed: in words, within its width, whatever stands in the logs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from howsure.report.trust_log import bootstrap_in_words, fieller_in_words, print_analysis, trust_sections
from howsure.studies.trust.logs import analyse

HOSTILE = "\x1b[2Jroom [bold]one[/]"
HEAD = "episode,action_probability,on_shortest_path,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T\n"


def write(path: Path, low: list[float], high: list[float], *, episodes: int = 4, n: int = 40, tail: str = "") -> Path:
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
        f"{told['value']:.4f}",
        f"{told['bootstrap']['low']:.4f} to {told['bootstrap']['high']:.4f} (95%, drawing 4 episodes)",
        f"{told['fieller']['low']:.4f} to {told['fieller']['high']:.4f} (95%)",
        "H(X) ≥ H(X|S) ≥ H(X|L,S)", "in 0 to 1", "below 0", "above 1", "median",
        "on a shortest path", "26 of 40, 65.0 %", "AUROC", "Brier",
        "rows: scored 40 of 43; 3 missing: 1 empty field, 1 too few fields, 1 unreadable",
        "H(X|L,S) missing: 1 empty field, 1 too few fields",
        "line 42: entropy_H_X 'x' is not a number",
        "few to draw from",
    ):  # fmt: skip
        assert words in shown, words
    assert "not identified" not in tables.replace("not identified (", "")


@pytest.mark.parametrize("width", [80, 200])
def test_what_is_not_identified_is_told_in_words(unclear: dict[str, Any], width: int) -> None:
    shown = printed(unclear, width)
    assert "\x1b" not in shown
    tables = shown[: shown.index("rows: scored")]
    assert max(map(len, tables.splitlines())) <= width
    assert "not identified: the denominator is not clearly different from zero" in " ".join(tables.split())
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
    assert len(trust_sections(clear | {"sureness": None, "episode_count": 1})) == 2


def test_nothing_complete_is_printed_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("step,entropy_H_X\n1,2.0\n2,1.5\n", encoding="utf-8")
    shown = printed(analyse([path]).summary, 200)
    assert "not identified: no step has all three entropies" in shown
    assert "has no columns entropy_H_X_given_S, entropy_H_X_given_LS, so that none of its rows is complete" in shown
    assert "nan" not in shown.replace("nan,", "")
    assert "rows: scored 0 of 2; 2 missing: 2 no column" in shown


@pytest.mark.parametrize(
    ("shape", "low", "high", "words"),
    [
        ("interval", 0.1, 0.25, "0.1000 to 0.2500 (95%)"),
        ("complement", -0.5, 2.0, "up to -0.5000, and from 2.0000 on (95%)"),
        ("ray", None, 2.0, "up to 2.0000 (95%)"),
        ("ray", 0.5, None, "from 0.5000 on (95%)"),
        ("line", None, None, "any number (95%)"),
        ("empty", None, None, "no number: ΔH_L,S is 0 throughout (95%)"),
    ],
)
def test_every_shape_of_fiellers_set_has_its_words(
    shape: str, low: float | None, high: float | None, words: str
) -> None:
    assert fieller_in_words({"shape": shape, "low": low, "high": high, "level": 0.95}) == words
    assert fieller_in_words(None) == "—"


def test_what_the_bootstrap_drew() -> None:
    ends = {"low": 0.1, "high": 0.2, "level": 0.95}
    drawn = {"bootstrap": ends, "drawn": "step", "drawn_count": 1}
    assert bootstrap_in_words(drawn) == "0.1000 to 0.2000 (95%, drawing 1 step)"
    drawn |= {"drawn": "3 neighbouring steps", "drawn_count": 4000}
    assert bootstrap_in_words(drawn).endswith("drawing 4,000 times 3 neighbouring steps)")
    assert bootstrap_in_words({"bootstrap": None}) == "—"
