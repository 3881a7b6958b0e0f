"""What qualifies a figure stands wherever the figure does, and single steps show no T that means nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import howsure
from howsure.cli.app import app
from howsure.report import trust as trust_report
from howsure.report.html import tiles
from howsure.report.terminal import print_demo, print_runs
from howsure.report.text import figure
from howsure.report.trajectories_alarms import breakdown_lines
from howsure.report.trust_steps import worked_out
from howsure.report.viewer.library import Listing
from howsure.runs import Run, Sample
from howsure.runs.folder import read_summary
from howsure.studies.summary import Summary
from howsure.studies.trajectories.judge import Breakdown
from howsure.studies.trajectories.scores import score_name
from howsure.studies.trust.artefacts import _plot
from howsure.studies.trust.record import ConditionRecord, Conditions, TrustRecord
from studies.on_paper import OnPaper, write

NOTE = "no interval: 3 questions, and it takes at least 5"
TIES = "3 of 3 are ties, which went to the first choice"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three questions of which each is a tie."""
    folder = tmp_path_factory.mktemp("few")
    rows = [{"question": f"{i}?", "choices": ["yes", "no"], "answer_index": i % 2} for i in range(3)]
    path = write(folder / "q.jsonl", *rows)
    return howsure.mcq(path, OnPaper({" yes": -1.0, " no": -1.0}), out=folder / "run").run


def printed(show: Callable[[Console], None]) -> str:
    stream = io.StringIO()
    show(Console(file=stream, width=400))
    return stream.getvalue()


def test_a_note_stands_in_every_list(run: Run) -> None:
    summary, known = run.summary, read_summary(run.path, Summary)
    assert summary is not None
    assert known is not None
    assert summary["headline"][0]["note"] == f"{NOTE}; {TIES}"
    shown = {
        "summary.json": json.loads((run.path / "summary.json").read_text())["headline"][0]["note"],
        "one figure": figure(summary["headline"][0]),
        "demo": printed(lambda console: print_demo(console, [(summary, 1.0)], run.path)),
        "runs": printed(lambda console: print_runs(console, [(run.path, run)])),
        "viewer's list": str(Listing(run.path.parent).look().finder.table.row(0)["figures"]),
        "tiles of pages": str(tiles(known.headline, known.coverage)),
        "notebook": run._repr_html_(),
        "howsure runs --json": CliRunner().invoke(app, ["runs", str(run.path.parent), "--json"]).stdout,
    }
    for place, text in shown.items():
        assert NOTE in text, place
        assert TIES in text, place


def test_a_comparison_says_why_a_difference_has_no_interval(run: Run) -> None:
    found = howsure.compare(run, run)
    assert NOTE in found["difference"]["paired_accuracy"]["note"]
    assert NOTE in " ".join(found["notes"])


def test_adapted_scores_are_called_adapted() -> None:
    for score in ("distance", "learned"):
        assert score_name(score) == f"{score} (adapted from SAUP)"
    assert score_name("rms") == "rms"


@pytest.mark.parametrize(
    ("bits", "more", "words"),
    [
        ((2.0, 1.5, 1.0), {}, "= 0.5000"),
        ((1.0, 1.1, 1.3), {}, "told everything it was less sure"),
        ((1.0, 1.0, 0.995), {}, "less than 0.01 bits"),
        ((2.0, 2.0, 1.0), {"knowledge_count": 0}, "X and X|S are the same prompt"),
        ((2.0, 1.0, 1.0), {"instruction": None}, "X|S and X|L,S are the same prompt"),
    ],
)
def test_a_step_has_t_only_where_it_is_a_share(bits: tuple[float, ...], more: dict[str, Any], words: str) -> None:
    conditions = Conditions(*(ConditionRecord(entropy_bits=value) for value in bits))
    known: dict[str, Any] = {"trust": 0.5, "knowledge_count": 1, "instruction": "go"} | more
    step = TrustRecord(episode=1, step=1, conditions=conditions, **known)
    assert words in worked_out(step)
    shown = trust_report.row(Sample("1:1", 0, step))["trust"]
    assert shown == (0.5 if words.startswith("=") else None)


def test_the_replay_shows_no_t_of_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import ImageDraw

    written: list[str] = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda self, place, text, **how: written.append(text))
    for bits, told in (((2.0, 1.5, 1.0), "T 0.500"), ((1.0, 1.1, 1.3), "T —")):
        conditions = Conditions(*(ConditionRecord(entropy_bits=value) for value in bits))
        known: dict[str, Any] = {"trust": 0.5, "knowledge_count": 1, "instruction": "go", "action": "up"}
        _plot([TrustRecord(episode=1, step=1, conditions=conditions, **known)], 3.0, 400)
        assert any(told in text for text in written), told
        written.clear()


def test_the_rate_of_false_alarms_is_an_aim_and_no_promise() -> None:
    empty: dict[str, Any] = {"marks_before_watch": {}, "detectors": {}, "alarms": {}}
    (said,) = breakdown_lines(Breakdown(watched="agent", false_alarm_rate=0.1, **empty))
    assert said.startswith("thresholds aim at 10.0 % false alarms")
    assert "on average over draws of such runs" in said
    assert said.endswith("for this set nothing is guaranteed")
