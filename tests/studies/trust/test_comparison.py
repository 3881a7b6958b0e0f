"""Two runs of trust over the same episodes, made by hand: what is paired, what is refused, and where they part."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import howsure
from howsure.cli.app import app
from howsure.errors import InputError
from howsure.evidence import Outcome
from howsure.report.comparison import compared, document_of
from howsure.report.run_report import report_of
from howsure.runs import Identity, RunWriter, Sample
from howsure.runs.folder import read_summary
from howsure.studies.trust import TrustOptions
from howsure.studies.trust.comparison import TrustComparison
from howsure.studies.trust.judge import judge
from howsure.studies.trust.record import ConditionRecord, Conditions, TrustRecord, UserInput
from report.rendered import as_html, printed, stored

OPTIONS: dict[str, Any] = {
    "evidence": "scored", "instruction": None, "grounding": "sha256:1", "episodes": 6, "max_steps": 3, "view": "text",
    "own_grounding": False, "carry": False, "summarise": False, "act": "sample", "interactive": False,
}  # fmt: skip
WORLD = {"kind": "map", "name": "home", "sha256": "aa", "minigrid": "3.2.0"}
Bits = tuple[float | None, float | None, float | None]


def step(episode: int, number: int, bits: Bits = (2.0, 1.5, 1.0), action: str = "up", **more: Any) -> Sample:
    """At (number, episode); an action `up` lies on a shortest path, and is found 90 % likely."""
    known = dict.fromkeys(("up", "down"), 0.1) | {action: 0.9}
    answers = [ConditionRecord(entropy_bits=one, action=action, probabilities=known) for one in bits]
    record = TrustRecord(
        episode=episode, step=number, agent_x=number, agent_y=episode, agent_dir="up", instruction="go",
        action=action, action_probability=0.9, action_confidence=0.9, on_shortest_path=action == "up",
        best_actions=["up"], knowledge_count=1, conditions=Conditions(*answers), asked=f"{episode}-{number}",
        first_asked=number, first_episode=episode, chain=episode,
    )  # fmt: skip
    record = msgspec.structs.replace(record, **more)
    reason = "too_long" if None in bits else None
    name = f"e{episode:04d}-s{number:04d}"
    return Sample(name, 3 * episode + number, record, {}, Outcome(correct=record.on_shortest_path), reason, reason)


def run(folder: Path, *steps: Sample, data: dict[str, Any] = WORLD, seed: int = 0, **options: Any) -> Path:
    identity = Identity("trust", OPTIONS | options, {"name": folder.name}, data, seed)
    with RunWriter(folder, identity, 18, source="home", record=TrustRecord) as writer:
        writer.append(steps)
        asked = TrustOptions("home", episodes=6, evidence="scored", view="text", act="sample", frames=False)
        writer.finish(judge(sorted(steps, key=lambda one: one.index), asked))
    return folder


def varied(more: float, **how: Any) -> list[Sample]:
    """Six episodes of two steps: H(X|S) and H(X|L,S) go down with the episode, and by `more`."""
    return [
        step(e, n, (2.0, 1.6 - 0.02 * e - more, 1.0 - 0.01 * e * n - more), **how) for e in range(1, 7) for n in (1, 2)
    ]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return run(tmp_path / "a", *varied(0.0)), run(tmp_path / "b", *varied(0.1))


# -- what changed -----------------------------------------------------------------------------------------------------


def test_a_difference_that_is_the_same_in_every_episode_is_found_to_the_digit(runs: tuple[Path, Path]) -> None:
    """B is 0.1 bits surer with what it knows, in every step: no doubt is left, which is no interval."""
    difference = howsure.compare(*runs).difference
    assert (difference.episode_count, difference.unit_count) == (6, 6)
    entropies = difference.mean_entropy_bits
    assert entropies["h_x"].mean_difference == 0.0
    for figure in (entropies["h_x_given_s"], entropies["h_x_given_ls"]):
        assert figure.mean_difference == pytest.approx(-0.1)
        assert (figure.low, figure.note) == (None, "no interval: all changed alike")
    assert difference.delta_h_s_bits.mean_a == pytest.approx(0.4 + 0.02 * 3.5)
    assert difference.delta_h_s_bits.mean_difference == pytest.approx(0.1)
    assert difference.delta_h_ls_bits.mean_difference == pytest.approx(0.1)


def test_t_is_compared_where_both_have_one(runs: tuple[Path, Path]) -> None:
    """T is 0.47 / 1.0525 in A and 0.57 / 1.1525 in B, over the means of both gains."""
    found = howsure.compare(*runs).difference.trust
    assert found.mean_a == pytest.approx(0.47 / 1.0525)
    assert found.mean_b == pytest.approx(0.57 / 1.1525)
    assert found.low < 0.57 / 1.1525 - 0.47 / 1.0525 < found.high
    assert found.approximate, "six episodes"
    assert found.items == 6


def test_t_that_one_of_them_lacks_is_not_compared_and_says_why(tmp_path: Path) -> None:
    a = run(tmp_path / "a", *varied(0.0))
    b = run(tmp_path / "b", *(step(e, n, (1.0, 1.1 + 0.01 * e, 1.3)) for e in range(1, 7) for n in (1, 2)))
    found = howsure.compare(a, b)
    assert found.difference.trust is None
    assert found.difference.trust_missing.startswith("not identified in B: ΔH_L,S is below zero")
    assert any(note.startswith("there is no difference of T: not identified in B") for note in found.notes)
    shown = printed(document_of(found))
    assert re.search(r"^T +0\.\d+ \(about .* +not identified +—", shown, re.MULTILINE)


def test_shares_and_goals_keep_an_interval_where_all_is_alike(runs: tuple[Path, Path]) -> None:
    difference = howsure.compare(*runs).difference
    for figure in (difference.on_shortest_path, difference.reached):
        assert figure.mean_difference == 0.0
        assert figure.low == pytest.approx(-figure.high)
        assert figure.high > 0.2
    assert difference.confidence.mean_difference == 0.0
    assert difference.mcnemar.both_wrong == 6


def test_steps_that_lack_an_entropy_are_left_out_and_counted(tmp_path: Path) -> None:
    """Episode 6 of A has no complete step, and episode 5 of B lacks one of two."""
    lost = [step(6, n, (2.0, None, 1.0)) for n in (1, 2)]
    a = run(tmp_path / "a", *[one for one in varied(0.0) if one.result.episode != 6], *lost)
    gone = step(5, 2, (None, 1.0, 1.0))
    b = run(tmp_path / "b", *[one for one in varied(0.0) if one.id != gone.id], gone)
    found = howsure.compare(a, b)
    difference = found.difference
    assert difference.delta_h_s_bits.items == 5
    assert difference.delta_h_s_bits.mean_a == pytest.approx(0.4 + 0.02 * 3)
    assert difference.delta_h_s_bits.mean_b == pytest.approx(0.4 + 0.02 * (2 * (1 + 2 + 3 + 4) + 5) / 9)
    assert difference.on_shortest_path.items == 6, "actions are known all the same"
    assert "2 of 12 steps in A and 1 of 12 steps in B lack an entropy" in " ".join(found.notes)
    assert "1 of 6 episodes have no complete step in one of the runs" in " ".join(found.notes)
    assert difference.mean_entropy_bits["h_x"].note is None or "alike" in difference.mean_entropy_bits["h_x"].note


def test_copies_are_one_unit_whichever_run_they_are_in(tmp_path: Path) -> None:
    """In A episodes 2 and 3 are copies of 1, in B 4 is one of 3: 1 to 4 hang together."""
    a = run(tmp_path / "a", *varied(0.0))
    b = run(tmp_path / "b", *varied(0.1))
    for folder, copies in ((a, {2: 1, 3: 1}), (b, {4: 3})):
        path = folder / "samples.jsonl"
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        for sample in samples:
            sample["result"]["first_episode"] = copies.get(sample["result"]["episode"], sample["result"]["episode"])
        path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    found = howsure.compare(a, b)
    assert (found.difference.episode_count, found.difference.unit_count) == (6, 3)
    assert found.difference.reached.note == "no interval: 3 independent episodes, and it takes at least 5"
    assert "these 6 episodes are 3 independent ones" in " ".join(found.notes)


# -- where they part --------------------------------------------------------------------------------------------------


@pytest.fixture
def parting(tmp_path: Path) -> tuple[Path, Path]:
    """Episode 1: B leaves the path at step 2, and A reaches the goal. Episode 2: A leaves it at step 1. Episode 3: B
    stops a step sooner. Episode 4: both do the same, elsewhere from step 2 on. The rest goes alike."""
    alike = [step(e, n) for e in (5, 6) for n in (1, 2)]
    a = [step(1, 1), step(1, 2), step(1, 3, reached=True), step(2, 1, action="down"), step(3, 1), step(3, 2)]
    b = [step(1, 1), step(1, 2, action="down"), step(2, 1), step(3, 1)]
    a += [step(4, 1), step(4, 2)]
    b += [step(4, 1), step(4, 2, action="down", agent_x=9)]
    return run(tmp_path / "a", *a, *alike), run(tmp_path / "b", *b, *alike)


def test_the_first_step_that_differs_is_compared_and_no_later_one(parting: tuple[Path, Path]) -> None:
    difference = howsure.compare(*parting).difference
    flips = difference.flips
    (lost,), (won,) = flips.on_path_in_a, flips.on_path_in_b
    assert (lost.id, lost.parted_at, lost.action_a, lost.action_b) == ("episode 1", 2, "up", "down")
    assert (lost.sample_a, lost.sample_b) == ("e0001-s0002", "e0001-s0002")
    assert (won.episode, won.parted_at, won.agent_x, won.agent_y) == (2, 1, 1, 2)
    assert [one.id for one in flips.reached_in_a] == ["episode 1"]
    assert flips.reached_in_b == []
    assert difference.parted_count == 2, "one that stopped sooner, and one that stood elsewhere, did not part"
    assert (difference.mcnemar.only_a_correct, difference.mcnemar.both_wrong) == (1, 5)


def test_flips_are_shown_with_both_steps(parting: tuple[Path, Path]) -> None:
    found = howsure.compare(*parting)
    for width in (80, 120):
        shown = printed(document_of(found), width)
        assert max(len(line) for line in shown.splitlines() if not line.startswith("note: ")) <= width
        joined = " ".join(shown.split())
        assert "they part: A on a shortest path, B off it: 1" in joined
        assert "episode 1 2 up down up 3, 2" in joined
        assert "The two act differently in 2 of 6 episodes." in joined
        assert "0 episodes reached the goal in B alone and 1 in A alone; McNemar's exact p = 1.000" in joined
    page = as_html(document_of(found, *map(stored, parting)).sections)
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "part at step 2 A did up B did down best up steps in A, B 3, 2" in words
    assert "action in A up: taken, best 90.0 % down 10.0 %" in words
    assert "action in B up: best 10.0 % down: taken 90.0 %" in words


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"data": WORLD | {"sha256": "bb"}}, "are over different worlds: "),
        ({"data": WORLD | {"minigrid": "4.0"}}, "are over different worlds: "),
        ({"seed": 7}, "they begin with the seeds 0 and 7"),
        ({"grounding": "sha256:2"}, "grounding 'sha256:1'"),
        ({"instruction": "stay"}, "asked in different ways"),
        ({"act": "best"}, "asked in different ways"),
        ({"episodes": 7}, "asked in different ways"),
    ],
)
def test_other_episodes_are_refused_in_a_sentence(tmp_path: Path, other: dict[str, Any], sentence: str) -> None:
    a, b = run(tmp_path / "a", *varied(0.0)), run(tmp_path / "b", *varied(0.1), **other)
    with pytest.raises(InputError) as refused:
        howsure.compare(a, b)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_episodes_that_begin_elsewhere_or_are_others_are_refused(tmp_path: Path) -> None:
    a = run(tmp_path / "a", *varied(0.0))
    with pytest.raises(InputError, match="episode 1 does not begin alike"):
        howsure.compare(a, run(tmp_path / "b", *varied(0.0, agent_x=5)))
    with pytest.raises(InputError, match="6 in the first and 1 in the second"):
        howsure.compare(a, run(tmp_path / "c", step(1, 1)))


def test_a_run_that_is_not_whole_is_refused(runs: tuple[Path, Path]) -> None:
    """How many steps there are is known when a run is finished, since an episode may end sooner."""
    a, b = runs
    lines = (b / "samples.jsonl").read_bytes().splitlines(keepends=True)
    (b / "samples.jsonl").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InputError, match=r"is not finished \(finished, 11 of 12 steps\)"):
        howsure.compare(a, b)


def test_what_a_person_said_must_be_the_same(tmp_path: Path) -> None:
    told = UserInput(feedback="mind the carpet")
    a = run(tmp_path / "a", *varied(0.0), interactive=True)
    with pytest.raises(InputError, match="something else was said in episode 1"):
        howsure.compare(a, run(tmp_path / "b", *varied(0.0, told=told), interactive=True))
    assert howsure.compare(a, run(tmp_path / "c", *varied(0.1), interactive=True)).difference.episode_count == 6


def test_a_map_is_the_same_whatever_it_is_called_and_ways_of_asking_may_differ(tmp_path: Path) -> None:
    a = run(tmp_path / "a", *varied(0.0))
    b = run(tmp_path / "b", *varied(0.1), data=WORLD | {"name": "mine"}, evidence="logprobs", view="image")
    notes = howsure.compare(a, b).notes
    assert "A was asked by scored, B logprobs; entropies of two kinds of evidence are of different things" in notes
    assert "A was shown text, B image" in notes


# -- everywhere -------------------------------------------------------------------------------------------------------


def test_a_comparison_in_every_place(runs: tuple[Path, Path]) -> None:
    found = howsure.compare(*runs)
    assert isinstance(found, TrustComparison)
    assert "ΔH_S" in found._repr_html_()
    asked = CliRunner().invoke(app, ["compare", *map(str, runs), "--json"])
    assert asked.exit_code == 0, asked.output
    again = msgspec.convert(json.loads(asked.stdout), TrustComparison)
    assert again.difference == found.difference
    shown = CliRunner().invoke(app, ["compare", *map(str, runs)])
    assert "What changed" in shown.stdout
    assert "episodes are paired, and steps are not" in " ".join(shown.stdout.split())
    page = report_of(runs)
    assert "trust: a against b" in page
    assert "How sure the difference is" in page
    assert "cannot be shown" not in page
    sides = [stored(folder) for folder in runs]
    assert compared(*sides) == found, "as the viewer asks for it"


def test_a_run_against_itself_differs_in_nothing(runs: tuple[Path, Path]) -> None:
    found = howsure.compare(runs[0], runs[0])
    assert found.notes[0] == "both are the same run"
    assert found.difference.parted_count == 0
    assert found.difference.trust.mean_difference == 0.0
    summary: Any = read_summary(runs[0], howsure.studies.trust.judge.TrustSummary)  # type: ignore[attr-defined]
    assert found.a.trust == summary.trust
