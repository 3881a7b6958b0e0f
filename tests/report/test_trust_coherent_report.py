"""Pages of coherent trust: the figures of the states, gaps where a pair is missing, and the table of a state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from howsure.report.run_data import StoredRun
from howsure.report.run_report import report_of
from howsure.report.views import document_of
from howsure.runs import Identity, RunWriter, Sample
from howsure.studies.trust.coherent import Sets, judge
from howsure.studies.trust.record import CoherentRecord
from report.rendered import about, printed, stored

EVIL = "<script>alert(1)</script>"


def state(index: int, known: float | None, **more: Any) -> Sample:
    """H(X) is 2 bits, H(X|S) as given, H(X|L,S) is 1 bit."""
    where: dict[str, Any] = {"agent_x": index, "agent_y": 3, "actions": ["up", EVIL]}
    if known is None:
        detail = "1 of 4 pairs gave no distribution"
        return Sample(f"state-{index}", index, CoherentRecord(**where), {}, reason="too_long", detail=detail)
    figures = {
        "p": [[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0], [0.125, 0.75, 0.125]]],
        "entropy_h_x": 2.0,
        "entropy_h_x_given_s": known,
        "entropy_h_x_given_ls": 1.0,
        "information_s_bits": 2.0 - known,
        "information_ls_bits": 1.0,
        "trust_t": 2.0 - known,
    }
    return Sample(f"state-{index}", index, CoherentRecord(**where, **(figures | more)), {})


def run_of(folder: Path, *samples: Sample, finished: bool = True) -> StoredRun:
    identity = Identity("trust coherent", {}, {"name": "on paper"}, {"fingerprint": "0"}, 0)
    with RunWriter(folder, identity, len(samples)) as writer:
        writer.append(samples)
        if finished:
            writer.finish(judge(samples, Sets(["a", "b"], [["c"], ["d"]]), asked_states=len(samples), seed=0))
    return stored(folder)


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_a_report_has_t_its_parts_and_every_state(tmp_path: Path) -> None:
    run_of(tmp_path / "run", state(0, 1.5), state(1, None), state(2, 1.75), state(3, 1.25))
    page = text(report_of([tmp_path / "run"]))
    assert "coherent trust T 0.500" in page
    assert "T from wording alone" in page
    assert "19 of 20" in page
    assert "I(X;S) 0.500 bits" in page
    assert "I(X;S,L) 1.000 bits" in page
    assert "coverage 3 of 4" in page
    assert "pairs 2 instructions × 2 groundings" in page
    assert "ordering" not in page
    assert "95 % interval" not in page, "the states lie on one walk"
    assert "An answer is missing in 1 state." in page
    assert "2 — — — —" in page, "the table of the plot"
    assert "H(X), neither known 2.000 bits" in page
    assert "told neither" not in page, "that was never asked"


def test_a_state_shows_the_table_that_its_figures_come_from(tmp_path: Path) -> None:
    made = run_of(tmp_path / "run", state(0, 1.5), state(1, None))
    page = about(made, 0)
    assert EVIL not in page
    assert "1 2 50.0 % 50.0 % 0.0 %" in text(page)
    assert "2 2 12.5 % 75.0 % 12.5 %" in text(page)
    assert "T 0.5000" in text(page)
    page = text(about(made, 1))
    assert "1 of 4 pairs gave no distribution" in page
    assert "H(X) — H(X|S) —" in page


def test_a_terminal_has_what_the_page_has_but_the_states(tmp_path: Path) -> None:
    made = run_of(tmp_path / "run", state(0, 1.5), state(1, 1.75))
    shown = printed(document_of("trust coherent", made.summary, made), 80)
    assert max(map(len, shown.splitlines())) <= 80
    for words in (
        "coherent trust T",
        "How much comes from the grounding?",
        "H(X), neither known",
        "T from wording alone",
    ):
        assert words in shown, words
    assert "State by state" not in shown


@pytest.mark.parametrize("samples", [(), (state(0, None),), (state(0, 2.0, trust_t=None),)])
@pytest.mark.parametrize("finished", [True, False])
def test_whatever_there_is_can_be_shown(tmp_path: Path, samples: tuple[Sample, ...], finished: bool) -> None:
    run_of(tmp_path / "run", *samples, finished=finished)
    assert "do not hold what is needed" not in report_of([tmp_path / "run"])
