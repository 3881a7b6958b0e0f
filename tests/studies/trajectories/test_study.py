"""The whole study: figures by hand, run folders that can be left and taken up, models that read again."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.errors import InputError, MissingCapability, RunDamaged
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Capability, ConversationCost, Failure, Message, Model, Rolling
from howsure.runs.run import prepared
from howsure.studies.trajectories import TRAJECTORIES, Policy, TrajectoriesOptions
from howsure.studies.trajectories.distances import compared_texts
from howsure.studies.trajectories.judge import grouped
from howsure.studies.trajectories.proxy import conversation_of
from howsure.studies.trajectories.tau2 import read_tau2
from howsure.studies.trajectories.turns import ReadAgain
from trajectory_logs import call, greeting, message, results, scored, simulation


def put(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


class Teller(Model):
    """Reads on paper: each word of a message is a token, and −ln p of it is a tenth of its letters."""

    name = "teller"
    capabilities = frozenset({Capability.SCORE})
    takes_conversations = True

    def __init__(self, stops_at: str | None = None, refuses: str | None = None, context: int = 1000) -> None:
        self.read: list[tuple[Message, ...]] = []
        self.stops_at, self.refuses, self.context = stops_at, refuses, context

    def fingerprint(self) -> dict[str, Any]:
        return {"paper": 1}

    def rolling(self, wanted: Rolling) -> Rolling:
        return Rolling(wanted.window or self.context, wanted.stride or self.context // 2)

    def conversation_cost(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[ConversationCost | Failure]:
        sizes = [sum(len(m.content.split()) for m in talk) for talk in conversations]
        assert rolling.window
        return [ConversationCost(size, size, 1 if size <= rolling.window else 2, "plain") for size in sizes]

    def read_conversations(
        self, conversations: Sequence[Sequence[Message]], rolling: Rolling
    ) -> list[list[TokenLogprobs] | Failure]:
        found: list[list[TokenLogprobs] | Failure] = []
        for talk in conversations:
            text = " ".join(m.content for m in talk)
            if self.stops_at is not None and self.stops_at in text:
                raise KeyboardInterrupt
            self.read.append(tuple(talk))
            refused = self.refuses is not None and self.refuses in text
            found.append(Failure("no_template", "the template refuses it") if refused else [_told(m) for m in talk])
        return found


def _told(message: Message) -> TokenLogprobs:
    words = message.content.split()
    return TokenLogprobs(tuple(words), np.array([-0.1 * len(word) for word in words]))


class Flat:
    """An embedder on paper: a vector by the first letter of a text."""

    def __init__(self, **_: Any) -> None:
        self.closed = False

    def fingerprint(self) -> dict[str, Any]:
        return {"flat": 1}

    def load(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def readable(self, texts: Sequence[str]) -> list[bool]:
        return [True] * len(texts)

    def embed(self, texts: Sequence[str]) -> Any:
        angles = [(ord(text[0].lower()) - ord("a")) * math.pi / 50 for text in texts]
        return np.array([[math.cos(angle), math.sin(angle)] for angle in angles], dtype=np.float32)


# -- from logs that hold scores ------------------------------------------------------------------------------------


def test_scores_of_runs_by_hand(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([3.0, 4.0], [1.0], id="a"), scored([1.0], [1.0], id="b")))
    found = howsure.trajectories(log)
    first = found.document["results"][0]["propagation"]
    assert first["agent"]["mean"] == {"value": 3.5, "turns": 2}
    assert first["agent"]["rms"]["value"] == pytest.approx(math.sqrt(12.5))
    assert first["agent"]["geometric"]["value"] == pytest.approx(math.sqrt(12.0))
    assert first["agent"]["maximum"]["value"] == first["agent"]["tail"]["value"] == 4.0
    assert first["agent"]["position"]["value"] == pytest.approx(math.sqrt((9 + 64) / 2) / 1.5)
    assert first["user"]["rms"] == {"value": 1.0, "turns": 1}
    assert first["overall"]["mean"] == {"value": pytest.approx(8 / 3), "turns": 3}
    assert "distance" not in first["agent"]
    statistics = found.summary["statistics"]
    assert dict(statistics["agent"]) == {
        "turns": 3, "infinite_turns": 0, "mean": pytest.approx(8 / 3), "std": pytest.approx(np.std([3, 4, 1])),
        "min": 1.0, "max": 4.0,
    }  # fmt: skip
    assert found.run is None
    assert not found.failed
    json.dumps([msgspec.to_builtins(found.summary), found.document], allow_nan=False)


def test_running_values_are_there_on_request(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([1.0, 3.0], [1.0])))
    plain, verbose = howsure.trajectories(log), howsure.trajectories(log, verbose=True)
    assert "running" not in plain.document["results"][0]["propagation"]["agent"]["mean"]
    assert verbose.document["results"][0]["propagation"]["agent"]["mean"]["running"] == [1.0, 2.0]
    assert verbose.document["results"][0]["uncertainty_scores"][0]["statistics"]["token_count"] == 1


def judged(runs: Sequence[tuple[float, float]], **fields: Any) -> dict[str, Any]:
    """One run a task, with an agent's uncertainty and a reward."""
    made = [
        scored([u, u], [0.1, 0.1, 0.1], id=f"s{i}", task_id=f"t{i}", reward_info={"reward": reward})
        for i, (u, reward) in enumerate(runs)
    ]
    return results(*made, **fields)


def test_a_score_that_tells_failures_is_found_to(tmp_path: Path) -> None:
    log = put(
        tmp_path / "a.json",
        judged([(1.0 + i / 100, 0.0) for i in range(20)] + [(0.5 + i / 100, 1.0) for i in range(20)]),
    )
    (group,) = howsure.trajectories(log).summary["groups"]
    assert (group["runs"], group["judged"], group["failures"], group["tasks"]) == (40, 40, 20, 40)
    rows = {(row["whose"], row["score"]): row for row in group["scores"]}
    assert rows["agent", "rms"]["auroc"]["value"] == rows["agent", "mean"]["auprc"]["value"] == 1.0
    assert rows["user", "mean"]["auroc"]["value"] == rows["run", "turn_count"]["auroc"]["value"] == 0.5
    assert (rows["agent", "rms"]["auroc"]["high"], rows["agent", "mean"]["auprc"]["low"]) == (1.0, None)
    assert 0.8 < rows["agent", "rms"]["auroc"]["low"] < 1.0, "perfect separation is no certainty"
    assert rows["agent", "mean"]["auarc"]["value"] == pytest.approx(
        sum(min(1.0, 20 / kept) for kept in range(1, 41)) / 40
    )
    detectors = group["breakdown"]["detectors"]
    assert detectors["threshold"]["caught"]["count"] == 20
    assert detectors["threshold"]["false_alarms"]["count"] == 1  # the most uncertain success, which no other covers


def test_groups_keep_models_apart(tmp_path: Path) -> None:
    info = {"agent_info": {"llm": "other"}, "environment_info": {"domain_name": "airline"}}
    runs = [(1.0, 0.0), (0.5, 1.0)]
    put(tmp_path / "a.json", judged(runs))
    put(tmp_path / "b.json", judged([*runs, (0.7, 1.0)], info=info))
    put(tmp_path / "c.json", judged(runs, info=None))
    groups = howsure.trajectories(tmp_path).summary["groups"]
    assert [group["name"].rsplit("/", 1)[-1] for group in groups] == ["airline, other", "c.json", "airline, gpt-x"]


def test_runs_without_a_score_stay_in_the_count(tmp_path: Path) -> None:
    log = judged([(1.0, 0.0), (0.5, 1.0), (0.7, 1.0)])
    silent = [message("user", "a"), message("assistant", "b")]
    log["simulations"] += [
        simulation(silent, id="silent", task_id="x"),
        simulation([], id="nothing", task_id="y"),
        simulation(None, id="voice", task_id="z", ticks=[1], reward_info=None),
    ]
    (group,) = howsure.trajectories(put(tmp_path / "a.json", log)).summary["groups"]
    assert (group["runs"], group["judged"], group["reward_missing"]) == (6, 5, {"no_reward": 1})
    rows = {(row["whose"], row["score"]): row["runs"] for row in group["scores"]}
    assert (rows["agent", "mean"], rows["run", "turn_count"]) == (3, 4)
    assert group["breakdown"]["detectors"]["cusum"]["not_tried"]["no known turn"] == 2


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([(1.0, 1.0)] * 3, "all 3 runs succeeded, so that nothing can be told apart"),
        ([(1.0, 0.0)] * 2, "all 2 runs failed, so that nothing can be told apart"),
        ([(1.0, None)], "no run has a reward"),
        ([(1.0, 0.0)], "the only run failed, so that nothing can be told apart"),
    ],
)
def test_what_cannot_be_judged_says_why(tmp_path: Path, runs: Any, why: str) -> None:
    log = put(tmp_path / "a.json", judged(runs))
    (group,) = howsure.trajectories(log).summary["groups"]
    assert group["reason"] == why


def test_why_a_score_has_no_interval(tmp_path: Path) -> None:
    few = judged([(1.0 + i / 10, float(i % 2)) for i in range(4)])
    (group,) = howsure.trajectories(put(tmp_path / "a.json", few)).summary["groups"]
    assert {row["note"] for row in group["scores"]} == {"no interval: 4 tasks, and it takes at least 5"}
    lonely = judged([(1.0 + i / 10, float(i != 3)) for i in range(8)])
    (group,) = howsure.trajectories(put(tmp_path / "b.json", lonely)).summary["groups"]
    assert {row["note"] for row in group["scores"]} == {
        "no interval: 1 task with a run that failed, and it takes at least 3"
    }


def test_each_detector_says_whether_it_beats_the_number_of_turns(tmp_path: Path) -> None:
    """Failing runs have three times the turns, and no more doubt in any of them."""
    draw = np.random.default_rng(0)
    runs = [
        scored(draw.gamma(3.0, 0.3, size=4 + i % 3 if i % 2 else 13 + i % 7).tolist(), [0.1], id=f"s{i}",
               task_id=f"t{i}", reward_info={"reward": float(i % 2)})
        for i in range(120)
    ]  # fmt: skip
    log = put(tmp_path / "a.json", results(*runs))
    (group,) = howsure.trajectories(log, policy=Policy("confirm", 1.0, 0.5)).summary.groups
    detectors = group["breakdown"]["detectors"]
    assert detectors.pop("turn_count")["against_turn_count"] is None
    for name, found in detectors.items():
        beside = found["against_turn_count"]
        assert not beside["clearly_better"]
        assert beside["high"] < 0
        assert beside["note"] == f"an alarm at a fixed number of turns clearly beats {name.replace('_', ' ')}"
    assert group["interventions"]["note"] == detectors["cusum"]["against_turn_count"]["note"]


def test_judging_can_be_left_out(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", judged([(1.0, 0.0), (0.5, 1.0)]))
    assert howsure.trajectories(log, judge=False).summary.groups == []


def test_interventions_are_replayed(tmp_path: Path) -> None:
    log = put(
        tmp_path / "a.json",
        judged([(2.0 + i / 100, 0.0) for i in range(20)] + [(0.5 + i / 100, 1.0) for i in range(20)]),
    )
    asked = {"policy": [Policy("confirm", 1.0, 0.5)], "detector": "threshold", "failure_cost": 10.0}
    (group,) = howsure.trajectories(log, **asked).summary.groups
    assert howsure.trajectories(log, **asked | {"policy": "confirm:1:0.5"}).summary.groups == [group]
    rows = {row["when"]: row for row in group["interventions"]["table"]}
    assert (rows["alarm"]["interventions"], rows["alarm"]["failures_avoided"]) == (21.0, 10.0)
    assert rows["alarm"]["net_saving"] == 10.0 * 10.0 - 21.0
    assert (rows["always"]["interventions"], rows["never"]["failures_avoided"]) == (40.0, 0.0)
    assert rows["random"]["failures_avoided"] < rows["alarm"]["failures_avoided"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"watch": "nobody"}, "--watch must be one of agent, user, overall"),
        ({"false_alarms": 0.0}, "--false-alarms must lie between 0 and 1"),
        ({"false_alarms": math.nan}, "--false-alarms must lie between 0 and 1"),
        ({"detector": "guess"}, "--detector must be one of turn_count, threshold, cusum, level_change"),
        ({"notice": -1}, "--notice must be 0 or more"),
        ({"failure_cost": -1.0}, r"--failure-cost must be 0 to 1e\+100, not -1"),
        ({"failure_cost": math.inf}, r"--failure-cost must be 0 to 1e\+100, not inf"),
        ({"policy": (Policy("a", 1.0, 0.5), Policy("a", 2.0, 0.5))}, "names of their own"),
        ({"folds": 1}, "folds must be 2 or more"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    log = put(tmp_path / "a.json", judged([(1.0, 0.0)]))
    with pytest.raises(InputError, match=words):
        howsure.trajectories(log, **options)


def test_problems_are_told_and_the_good_is_analysed(tmp_path: Path) -> None:
    put(tmp_path / "a.json", results(scored([1.0], [1.0])))
    put(tmp_path / "b.json", "")
    found = howsure.trajectories(tmp_path)
    assert found.failed
    assert found.summary["simulations"] == 1
    assert found.summary["problem_counts"] == {"empty": 1}


def test_nothing_at_all_is_an_error_with_the_reason(tmp_path: Path) -> None:
    put(tmp_path / "b.json", "")
    put(tmp_path / "c.json", "{")
    with pytest.raises(InputError, match=r"no trajectory to analyse: .*b\.json is empty.*1 more problem"):
        howsure.trajectories(tmp_path)
    with pytest.raises(InputError, match="is not there"):
        howsure.trajectories(tmp_path / "nothing.json")


def test_certainty_everywhere_is_suspicious(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([0.0, 0.0], [0.0])))
    assert any("probability 1 at every token" in note for note in howsure.trajectories(log).summary["notes"])
    log = put(tmp_path / "b.json", results(scored([0.0, 0.5], [0.5])))
    assert not any("probability 1" in note for note in howsure.trajectories(log).summary["notes"])


def test_an_infinite_turn_is_no_missing_one(tmp_path: Path) -> None:
    runs = [(0.5 + i / 100, 1.0) for i in range(20)] + [(0.6 + i / 100, 0.0) for i in range(19)] + [(9999.0, 0.0)]
    log = put(tmp_path / "a.json", judged(runs))
    asked = {"policy": "a:1:0.5", "detector": "threshold"}
    found = howsure.trajectories(log, **asked, out=tmp_path / "run", verbose=True)
    json.dumps([msgspec.to_builtins(found.summary), found.document], allow_nan=False)
    others = [u for u, _ in runs[:-1] for _ in range(2)]
    assert dict(found.summary["statistics"]["agent"]) == {
        "turns": 80, "infinite_turns": 2, "mean": pytest.approx(np.mean(others)), "std": pytest.approx(np.std(others)),
        "min": 0.5, "max": None,
    }  # fmt: skip
    (group,) = found.summary["groups"]
    for row in group["scores"]:
        assert (row["runs"], row["failures"]) == (40, 20)
    assert group["breakdown"]["detectors"]["threshold"]["tried"] == 40
    assert any("2 turns hold a token of probability zero" in note for note in found.summary["notes"])
    rows = list(csv.DictReader((tmp_path / "run" / "trajectories.csv").open()))
    assert (rows[-1]["agent_mean"], rows[-1]["user_mean"]) == ("inf", "0.10000000000000002")


def test_one_token_of_probability_zero_is_the_same_everywhere(tmp_path: Path) -> None:
    """Scored, infinite, left out of means with a count, highest in ranks: in every place where somebody may look."""
    runs = [scored([0.5, 0.7], [0.1], id=f"s{i}", task_id=f"t{i}") for i in range(5)]
    runs.append(scored([9999.0, 0.8], [0.1], id="x", task_id="x"))
    found = howsure.trajectories(put(tmp_path / "a.json", results(*runs)), out=tmp_path / "run")
    assert found.summary["coverage"]["text"] == "scored 18 of 18"
    assert found.metadata["coverage"] == "scored 18 of 18"
    agent, user = found.summary["headline"]
    assert agent["value"] == pytest.approx((5 * (0.5 + 0.7) + 0.8) / 11)
    assert agent["low"] < agent["value"] < agent["high"]
    assert agent["note"] == "without 1 turn of infinite U"
    assert user["note"] == "no interval: all are alike"
    statistics = found.summary["statistics"]["agent"]
    assert (statistics["turns"], statistics["infinite_turns"], statistics["mean"]) == (12, 1, agent["value"])
    row = found.document["results"][-1]
    assert (row["summary"]["mean_uncertainty_agent"], row["summary"]["infinite_turns"]["agent"]) == (0.8, 1)
    assert (row["summary"]["scored_turn_count"], row["summary"]["missing"]) == (3, {})
    assert row["propagation"]["agent"]["rms"] == {"value": None, "turns": 2, "infinite": True}
    turns = list(csv.DictReader((tmp_path / "run" / "turns.csv").open()))
    assert sum(bool(turn["ui_score"]) for turn in turns) == found.summary["coverage"]["scored"]
    assert [turn["ui_score"] for turn in turns][-3:] == ["0.1", "inf", "0.8"]
    last = list(csv.DictReader((tmp_path / "run" / "trajectories.csv").open()))[-1]
    assert (last["agent_rms"], last["user_rms"]) == ("inf", "0.1")


def test_nothing_but_infinite_turns_has_no_mean(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([9999.0, 9999.0], [0.1])))
    agent, _ = howsure.trajectories(log).summary["headline"]
    assert (agent["value"], agent["note"]) == (None, "without 2 turns of infinite U")


def test_marks_before_the_first_watched_turn_are_counted(tmp_path: Path) -> None:
    early = [message("user", "a", -0.5, tool_calls=call()), {"role": "tool", "content": "no", "error": True}]
    runs = [
        simulation(
            [*early, message("assistant", "b", -0.5)], id=str(i), task_id=str(i), reward_info={"reward": float(i % 2)}
        )
        for i in range(4)
    ]
    log = put(tmp_path / "a.json", results(*runs))
    for whose, marked, before in (("agent", [], {"tool_error": 4}), ("user", ["tool_error"], {})):
        (group,) = howsure.trajectories(log, watch=whose).summary["groups"]
        assert list(group["breakdown"]["detectors"]["cusum"]["marks"]) == marked
        assert group["breakdown"]["marks_before_watch"] == before


def test_every_alarm_names_its_run_and_turn(tmp_path: Path) -> None:
    """Twelve calm runs of the agent, then two that become unsure and fail; a run without a reward lies between."""
    calm = [[0.5, 0.5 + 0.01 * i, 0.5, 0.5] for i in range(12)]
    wild = [[0.5, 0.5, 5.0, 5.0], [0.5, 5.0, 5.0, 5.0]]
    runs = [
        scored(u, [0.1] * 4, id=f"s{i}", task_id=f"t{i}", reward_info={"reward": float(i < 12)})
        for i, u in enumerate(calm + wild)
    ]
    unjudged = scored([0.5], [0.1], id="u", task_id="u", reward_info=None)
    log = put(tmp_path / "a.json", results(unjudged, *runs))
    (group,) = howsure.trajectories(log, false_alarms=0.2).summary["groups"]
    alarms = group["breakdown"]["alarms"]
    assert set(alarms) == {"turn_count", "threshold", "cusum", "level_change"}
    assert [13, 6] in alarms["cusum"], "user first: the agent's third turn is the sixth of the conversation"
    assert [14, 4] in alarms["cusum"]
    counts = group["breakdown"]["detectors"]["cusum"]
    assert len(alarms["cusum"]) == counts["caught"]["count"] + counts["false_alarms"]["count"]


def test_groups_are_the_same_for_whoever_asks() -> None:
    keys = [("d", "a", ""), ("d", "b", "log"), ("d", "a", "log"), ("d", "b", "log"), ("d", "b", "log")]
    assert grouped(keys) == [(("d", "b", "log"), [1, 3, 4]), (("d", "a", "log"), [2, 0])]


def test_a_set_in_parts_is_named_by_its_time(tmp_path: Path) -> None:
    put(tmp_path / "here" / "results.json", {"timestamp": "2025-11-06", "simulation_index": []})
    for name in "ab":
        put(tmp_path / "here" / "simulations" / f"{name}.json", scored([1.0], [1.0], id=name, task_id=name))
    assert howsure.trajectories(tmp_path / "here").document["metadata"]["source_file"] == "2025-11-06"
    log = put(tmp_path / "other.json", results(scored([1.0], [1.0])))
    both = howsure.trajectories([tmp_path / "here", log]).document["metadata"]
    assert both["source_file"] == "here, other.json"
    assert len(both["source_files"]) == 3
    for number in range(8):
        put(tmp_path / "many" / f"{number}.json", results(scored([1.0], [1.0])))
    many = howsure.trajectories(tmp_path / "many").document["metadata"]
    assert many["source_file"] == "0.json, 1.json, 2.json, 3.json, 4.json and 3 more"
    assert len(many["source_files"]) == 8


def test_copies_of_a_run_are_told(tmp_path: Path) -> None:
    runs = results(scored([1.0], [1.0], id="a"), scored([1.0], [1.0], id="b"))
    put(tmp_path / "a.json", runs)
    assert not any("cop" in note for note in howsure.trajectories(tmp_path).summary["notes"])
    put(tmp_path / "copy.json", runs)
    assert any("2 runs are copies of another" in note for note in howsure.trajectories(tmp_path).summary["notes"])


def test_losses_are_counted_one_by_one(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(simulation([message("user", "a", "x")] * 50)))
    found = howsure.trajectories(log)
    assert found.summary["problem_counts"] == {"unreadable": 50}
    assert len(found.summary["problems"]) == 6


# -- run folders ---------------------------------------------------------------------------------------------------


def test_a_run_folder_holds_everything(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([3.0, 4.0], [1.0], id="a"), scored([1.0], [], id="b")))
    found = howsure.trajectories(log, out=tmp_path / "run")
    assert found.run is not None
    assert found.run.status == "finished"
    assert found.run.summary == msgspec.to_builtins(found.summary)
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == found.document
    turns = list(csv.DictReader((tmp_path / "run" / "turns.csv").open()))
    assert [row["ui_score"] for row in turns] == ["1.0", "3.0", "4.0", "1.0"]
    runs = list(csv.DictReader((tmp_path / "run" / "trajectories.csv").open()))
    assert [(row["simulation_id"], row["agent_mean"], row["user_mean"]) for row in runs] == [
        ("a", "3.5", "1.0"), ("b", "1.0", ""),
    ]  # fmt: skip
    again = howsure.trajectories(log, out=tmp_path / "run")
    assert again.summary == found.summary
    assert howsure.trajectories(log).summary == found.summary


def test_a_sample_that_somebody_edited_is_named(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", results(scored([3.0, 4.0], [1.0], id="a"), scored([1.0], [], id="b")))
    howsure.trajectories(log, out=tmp_path / "run")
    samples = tmp_path / "run" / "samples.jsonl"
    samples.write_text(samples.read_text().replace('"turns":[', '"turns":[7,', 1))
    with pytest.raises(RunDamaged, match=r"samples\.jsonl, line 1: .*turns\[0\].*delete that line"):
        howsure.trajectories(log, out=tmp_path / "run")


def test_what_was_said_is_evidence_and_nothing_else_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SAID_CHARACTERS", 20)
    long = message("tool", "x" * 21, id="c1")
    talk = [greeting(), message("user", "my flight", -0.1), message("assistant", "", -0.2, tool_calls=call()), long]
    log = put(tmp_path / "a.json", results(simulation(talk, id="a"), simulation(None, ticks=[{}], id="b")))
    found = howsure.trajectories(log, out=tmp_path / "run")
    assert found.run is not None
    first, second = found.run.records()
    assert first.evidence["said"] == [
        {"role": "assistant", "text": "Hi! How can I help y", "turn": 1, "characters": 29},
        {"role": "user", "text": "my flight", "turn": 2},
        {"role": "assistant", "text": "find {}", "turn": 3},
        {"role": "tool", "text": "x" * 20, "characters": 21},
    ]
    assert second.evidence == {}
    assert found.document == howsure.trajectories(log).document


def test_names_that_end_lines_break_no_table(tmp_path: Path) -> None:
    odd = 'a\rb\nc,"d\x00'
    put(tmp_path / "a.json", results(scored([1.0], [1.0], id=odd, task_id=odd)))
    howsure.trajectories(tmp_path / "a.json", out=tmp_path / "run")
    for name, count in (("turns.csv", 2), ("trajectories.csv", 1)):
        rows = list(csv.DictReader((tmp_path / "run" / name).open(newline="")))
        assert [row["simulation_id"] for row in rows] == ['a\\rb\nc,"d\x00'] * count


def talks(count: int = 6) -> dict[str, Any]:
    return results(
        *[
            simulation(
                [
                    greeting(),
                    message("user", f"please cancel number {i} now"),
                    message("assistant", None, tool_calls=call(number=i)),
                    {"role": "tool", "content": "gone"},
                    message("assistant", "it is cancelled"),
                    message("user", "thanks ###STOP###"),
                    message("user", "###STOP###"),
                ],
                id=f"s{i}",
                task_id=f"t{i}",
                reward_info={"reward": float(i % 2)},
            )
            for i in range(count)
        ]
    )


def test_a_model_reads_what_holds_no_scores(tmp_path: Path) -> None:
    mixed = talks(1)
    mixed["simulations"].append(scored([2.0], [1.0], id="logged"))
    teller = Teller()
    found = howsure.trajectories(put(tmp_path / "a.json", mixed), score_with=teller, out=tmp_path / "run")
    first, logged = found.trajectories
    assert len(teller.read) == 1
    assert [m.role for m in teller.read[0]] == ["assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [m.content for m in teller.read[0]][-1] == "thanks"
    assert [turn.reason for turn in first.turns] == ["scripted", None, None, None, None, "control_word"]
    assert [turn.scored_by for turn in first.turns] == [None, "teller", "teller", "teller", "teller", None]
    words = ["please", "cancel", "number", "0", "now"]
    assert first.turns[1].uncertainty_nats == pytest.approx(0.1 * sum(map(len, words)) / 5)
    assert first.turns[2].uncertainty_nats == pytest.approx(0.1 * len('find{"number":0}') / 2)
    assert first.read_again == ReadAgain(model="teller", tokens=19, tokens_run=19, windows=1, rendering="plain")
    assert [turn.scored_by for turn in logged.turns] == ["log", "log"]
    row = found.document["results"][0]["uncertainty_scores"][1]
    assert row["scored_by"] == "teller"
    assert any("its surprise, not the writers' own doubt" in note for note in found.summary["notes"])
    agent, user = found.summary["headline"]
    assert agent["note"].startswith("proxy: teller's surprise in 2 of 3 turns")
    assert user["note"].startswith("proxy: teller's surprise in 2 of 3 turns")
    told = "1 of 2 runs have log-probabilities in the log, and teller does not read there"
    assert any(told in note for note in found.summary["notes"])
    alone = howsure.trajectories(put(tmp_path / "b.json", talks(1)), score_with=Teller(), out=tmp_path / "alone")
    note = "proxy: teller's surprise; no interval: 1 task, and it takes at least 5"
    assert [figure["note"] for figure in alone.summary["headline"]] == [note] * 2
    logged_note = howsure.trajectories(put(tmp_path / "c.json", results(scored([2.0], [1.0])))).summary["headline"][0]
    assert "proxy" not in logged_note["note"]
    assert not any("does not read there" in note for note in alone.summary["notes"])
    assert {group["scored_by"] for group in found.summary["groups"]} == {"teller", "log"}


def test_a_model_reads_turns_whose_log_is_damaged(tmp_path: Path) -> None:
    damaged = [message("user", "a bc", 0.7), message("assistant", "abcd", "x")]
    log = put(tmp_path / "a.json", [simulation(damaged)])
    found = howsure.trajectories(log, score_with=Teller(), out=tmp_path / "run")
    assert [turn.uncertainty_nats for turn in found.trajectories[0].turns] == pytest.approx([0.15, 0.4])
    assert [(turn.reason, turn.detail) for turn in found.trajectories[0].turns] == [(None, None)] * 2
    assert found.failed


def test_a_template_that_wants_the_user_first_gets_it(tmp_path: Path) -> None:
    class Strict(Teller):
        def conversation_cost(self, conversations: Any, rolling: Rolling) -> Any:
            found = super().conversation_cost(conversations, rolling)
            begun = [talk[0].role == "user" for talk in conversations]
            refused = Failure("refused_by_template", "roles must alternate")
            return [one if good else refused for one, good in zip(found, begun, strict=True)]

    strict = Strict()
    found = howsure.trajectories(put(tmp_path / "a.json", talks(1)), score_with=strict, out=tmp_path / "run")
    assert [m.role for m in strict.read[0]][:2] == ["user", "assistant"]
    assert [turn.reason for turn in found.trajectories[0].turns] == ["scripted", None, None, None, None, "control_word"]


def test_long_conversations_are_told(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", talks(2))
    found = howsure.trajectories(log, score_with=Teller(context=10), out=tmp_path / "run")
    assert any("2 of 2 conversations are longer than the model's window" in note for note in found.summary["notes"])


def test_a_conversation_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", talks(3))
    found = howsure.trajectories(log, score_with=Teller(refuses="number 1"), out=tmp_path / "run")
    assert found.failed
    assert [one.turns[1].reason for one in found.trajectories] == [None, "not_read_by_model", None]
    assert found.summary["coverage"]["missing"] == {"control_word": 2, "not_read_by_model": 5, "scripted": 3}
    again = howsure.trajectories(log, score_with=Teller(), out=tmp_path / "run", retry_failed=True)
    assert not again.failed


def test_a_stopped_run_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.TOKENS_AT_ONCE", 30)
    log = put(tmp_path / "a.json", talks(8))
    whole = howsure.trajectories(log, score_with=Teller(), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        howsure.trajectories(log, score_with=Teller(stops_at="number 5"), out=tmp_path / "run")
    kept = len((tmp_path / "run" / "samples.jsonl").read_text().splitlines())
    assert 0 < kept < 8
    second = Teller()
    found = howsure.trajectories(log, score_with=second, out=tmp_path / "run")
    assert found.summary == whole.summary
    assert found.document == whole.document
    assert len(second.read) == 8 - kept
    third = Teller(stops_at="number")
    assert howsure.trajectories(log, score_with=third, out=tmp_path / "run").summary == whole.summary


def test_another_model_is_another_run(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", talks(1))
    howsure.trajectories(log, score_with=Teller(), out=tmp_path / "run")
    with pytest.raises(howsure.errors.RunMismatch, match="model"):
        howsure.trajectories(log, out=tmp_path / "run")


def test_a_model_that_cannot_read_conversations_is_refused_at_once(tmp_path: Path, tiny_folder: Path) -> None:
    log = put(tmp_path / "a.json", talks(1))
    with pytest.raises(MissingCapability, match="--score-with needs a local chat model"):
        howsure.trajectories(log, score_with=f"hf:{tiny_folder}", out=tmp_path / "run")


def test_tokens_of_a_model_on_request(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", talks(1))
    found = howsure.trajectories(log, score_with=Teller(), tokens=True, out=tmp_path / "run")
    assert [row["token"] for row in found.document["results"][0]["uncertainty_scores"][3]["tokens"]] == [
        "it", "is", "cancelled",
    ]  # fmt: skip


def test_the_cost_is_known_before(tmp_path: Path) -> None:
    log = put(tmp_path / "a.json", talks(2))
    with prepared(TRAJECTORIES, TrajectoriesOptions(log)) as ready:
        assert ready.cost() == {"trajectories": 2, "turns": 12}
    with prepared(TRAJECTORIES, TrajectoriesOptions(log, score_with=Teller())) as ready:
        cost = ready.cost()
    assert cost == {"trajectories": 2, "turns": 12, "conversations_to_read": 2, "tokens": 38, "tokens_run": 38}


# -- distances -----------------------------------------------------------------------------------------------------


def test_distances_weigh_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SentenceEmbedder", Flat)
    talk = [
        message("user", "alpha", -1.0),
        message("assistant", "kilo", -2.0),
        {"role": "tool", "content": "echo"},
        message("assistant", "alpha", -3.0),
    ]
    found = howsure.trajectories(put(tmp_path / "a.json", [simulation(talk)]), distances=True, out=tmp_path / "run")
    first, second, third = found.trajectories[0].turns
    assert (first.drift, first.gap) == (pytest.approx(0.0, abs=1e-6), None)
    apart = 10 * math.pi / 50
    assert second.gap == pytest.approx(1 - math.cos(apart), abs=1e-6)
    assert second.drift == pytest.approx(1 - math.cos(apart / 2), abs=1e-6)
    assert third.gap == pytest.approx(1 - math.cos(4 * math.pi / 50), abs=1e-6)
    assert third.drift is not None
    row = found.document["results"][0]["propagation"]
    weights = [second.drift + second.gap, third.drift + third.gap]
    expected = math.sqrt(((weights[0] * 2) ** 2 + (weights[1] * 3) ** 2) / 2)
    assert row["agent"]["distance"] == {"value": pytest.approx(expected), "turns": 2}
    assert row["user"]["distance"] == {"value": None, "turns": 0}


def test_what_a_turn_answers_to_is_what_somebody_else_said_last() -> None:
    talk = [
        message("assistant", "one"),
        message("assistant", "two"),
        message("user", "three"),
        {"role": "tool", "content": "four"},
        {"role": "tool", "content": "five"},
        message("user", "six"),
        message("user", "seven"),
        message("assistant", "eight"),
    ]
    (found,) = read_tau2(json.dumps([simulation(talk)]).encode(), "x").trajectories
    assert compared_texts(found).answered == ["", "", "two", "five", "five", "seven"]


def test_learned_weights_are_judged_where_there_are_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SentenceEmbedder", Flat)
    draw = np.random.default_rng(0)
    runs = [
        simulation(
            [message("user", "abc"[i % 3], -1.0)]
            + [message("assistant", chr(97 + int(draw.integers(20))), -float(draw.exponential())) for _ in range(6)],
            id=f"s{i}",
            task_id=f"t{i}",
            reward_info={"reward": float(draw.random() < 0.5)},
        )
        for i in range(30)
    ]
    found = howsure.trajectories(put(tmp_path / "a.json", results(*runs)), distances=True, out=tmp_path / "run")
    rows = {(row["whose"], row["score"]): row for row in found.summary["groups"][0]["scores"]}
    assert rows["agent", "learned"]["runs"] == 30
    assert rows["agent", "learned"]["missing"] == {}
    assert any("distance and learned are adapted from SAUP" in note for note in found.summary["notes"])
    low, high = (rows["agent", "learned"]["auroc"][end] for end in ("low", "high"))
    assert low < 0.5 < high


def test_why_nothing_was_learned_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.study.SentenceEmbedder", Flat)
    talk = [message("user", "alpha", -1.0), message("assistant", "kilo", -2.0)]
    runs = [simulation(talk, id=str(i), reward_info={"reward": float(i % 2)}) for i in range(4)]
    found = howsure.trajectories(put(tmp_path / "a.json", results(*runs)), distances=True, out=tmp_path / "run")
    rows = {(row["whose"], row["score"]): row for row in found.summary["groups"][0]["scores"]}
    assert rows["agent", "learned"]["reason"] == "there is only one task, so that no weights can be learned on others"


def test_what_a_model_reads_is_everything_that_was_said() -> None:
    (one,) = read_tau2(json.dumps(talks(1)).encode(), "x").trajectories
    found = conversation_of(one)
    assert [turn for turn in found.turns if turn is not None] == [0, 1, 2, 3, 4]
    assert [m.content for m in found.messages][3] == "gone"
