"""Episodes: three conditions at once, the third acts, nothing leaks, and a stopped run goes on as if it had not."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import howsure
from howsure.errors import InputError, MissingCapability, RunDamaged, RunMismatch
from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import Message
from howsure.runs.run import prepared
from howsure.studies.trust import TRUST, Told, TrustOptions, UserInput, trust
from howsure.studies.trust.artefacts import StepTable, columns
from howsure.studies.trust.elicit import NEUTRAL, Prompt
from howsure.studies.trust.episode import Episode
from howsure.studies.trust.logs import analyse
from howsure.studies.trust.world import SHIPPED_MAPS
from scripted import Scorer, Writer, action_json, condition_of, verbalized_json

pytest.importorskip("minigrid", reason="the extra `grid` is not installed")

SECRET = "bring the purple lantern to the seventh cellar"
GROUNDING = "Velvet curtains hide the way."
WAYS = ("right", "down", "left", "up")


@pytest.fixture
def grounding(tmp_path: Path) -> Path:
    path = tmp_path / "grounding.txt"
    path.write_text(GROUNDING + "\n")
    return path


def table(condition: str, _: str) -> list[float]:
    """up, down, left, right: open without anything, half decided by grounding, decided by language."""
    chances = {"X": [0.25] * 4, "X|S": [0.5, 0.5, 0.0, 0.0], "X|L,S": [0.125, 0.875, 0.0, 0.0]}[condition]
    return [math.log(p) if p else -math.inf for p in chances]


# -- entropies and trust ------------------------------------------------------------------------------------------


def test_entropies_and_trust_of_a_run_on_paper(tmp_path: Path, grounding: Path) -> None:
    model = Scorer(table)
    options: dict[str, Any] = {"grounding": grounding, "max_steps": 5}
    found = trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", **options)
    told = -(0.125 * math.log2(0.125) + 0.875 * math.log2(0.875))
    assert len(found.samples) == 5
    for sample in found.samples:
        of = sample.result["conditions"]
        assert of["X"]["entropy_bits"] == pytest.approx(2.0, abs=1e-12)
        assert of["X|S"]["entropy_bits"] == pytest.approx(1.0, abs=1e-12)
        assert of["X|L,S"]["entropy_bits"] == pytest.approx(told, abs=1e-12)
        assert sample.result["trust"] == pytest.approx(1.0 / (2.0 - told), abs=1e-12)
        assert sample.result["action"] == "down"
        assert sample.result["action_probability"] == pytest.approx(0.875, abs=1e-12)
        assert sample.result["action_confidence"] == pytest.approx(0.875, abs=1e-12), "right is as good, and unlikely"
    assert found.summary["trust"]["value"] is None
    assert found.summary["trust"]["reason"] == "1 episode, and T takes at least 5"
    assert any("--episodes 10 --act sample gives some" in note for note in found.summary["notes"])
    assert found.summary["trust"]["delta_h_s_bits"]["value"] == pytest.approx(1.0, abs=1e-9)
    assert found.summary["trust"]["delta_h_ls_bits"]["value"] == pytest.approx(2.0 - told, abs=1e-9)
    assert all(len(batch) == 3 for batch in model.batches), "the three conditions in one batch"
    several = trust("MiniGrid-Empty-8x8-v0", Scorer(table), act="sample", episodes=6, out=tmp_path / "six", **options)
    assert several.summary["trust"]["independent_episodes"] == 6
    assert several.summary["trust"]["why"] == "alike", "on paper nothing varies"
    # From (1, 1) five times down: the room ends at (1, 6), which is on a shortest path all along.
    assert [sample.result["on_shortest_path"] for sample in found.samples] == [True] * 5
    assert [(s.result["agent_x"], s.result["agent_y"]) for s in found.samples] == [(1, y) for y in range(1, 6)]


def test_without_grounding_the_same_prompt_is_scored_once(tmp_path: Path) -> None:
    model = Scorer(table)
    found = trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", max_steps=2)
    assert [len(batch) for batch in model.batches] == [2, 2]
    assert found.summary["trust"]["why"] == "no_grounding"
    assert any("no step has any grounding" in note for note in found.summary["notes"])
    order = found.summary["headline"][-1]
    assert (order["name"], order["value"], order["note"]) == ("ordering holds", None, "X and X|S are the same prompt")
    assert found.summary["ordering"]["h_x_given_s_at_least_h_x_given_ls"]["of"] == 2
    log = analyse([tmp_path / "run" / "steps.csv"]).summary
    assert (log["ordering"], log["trust"]) == (found.summary["ordering"], found.summary["trust"])


def test_a_condition_that_failed_is_missing_and_the_step_goes_on(tmp_path: Path, grounding: Path) -> None:
    model = Scorer(lambda condition, text: None if condition == "X|S" else table(condition, text))
    found = trust("MiniGrid-Empty-8x8-v0", model, grounding=grounding, out=tmp_path / "run", max_steps=3)
    assert found.failed
    assert [sample.reason for sample in found.samples] == ["too_long"] * 3
    assert found.summary["coverage"]["text"] == "scored 0 of 3; 3 missing: 3 too long"
    assert found.summary["trust"]["value"] is None
    assert [sample.result["action"] for sample in found.samples] == ["down"] * 3
    rows = list(csv.DictReader((tmp_path / "run" / "steps.csv").open()))
    assert [row["entropy_H_X_given_S"] for row in rows] == ["", "", ""]
    assert [row["trust_T"] for row in rows] == ["", "", ""]
    assert [row["missing_entropies"] for row in rows] == ["1", "1", "1"]


def test_what_was_found_is_not_asked_for_again(tmp_path: Path) -> None:
    """A robot that runs into a wall is asked the same at every step from the second on."""
    model = Scorer(lambda condition, text: [0.0])
    found = trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", max_steps=6)
    assert [sample.result["action"] for sample in found.samples] == ["up"] * 6
    assert len(model.batches) == 2, "the first step, and the one that all others repeat"


def test_what_failed_is_asked_for_again() -> None:
    """A server may be back a moment later."""
    answers = iter([None, [0.0]])
    options = TrustOptions("MiniGrid-Empty-8x8-v0", Scorer(lambda condition, text: next(answers)))
    prompts = [Prompt((Message("user", "where to?"),))]
    with prepared(TRUST, options) as ready:
        asks = ready.plans[0].how.elicitor
        assert [asks.ask(prompts)[0].record.action for _ in range(3)] == [None, "up", "up"]


def test_no_action_means_no_step_of_the_world(tmp_path: Path) -> None:
    model = Writer(lambda messages, number: "I would rather not." if condition_of(messages) == "X|L,S" else None)
    found = trust("MiniGrid-Empty-8x8-v0", model, evidence="logprobs", out=tmp_path / "run", max_steps=3)
    assert [sample.result["action"] for sample in found.samples] == [None] * 3
    assert {(s.result["agent_x"], s.result["agent_y"]) for s in found.samples} == {(1, 1)}
    assert found.summary["answers"]["X|L,S"]["action_missing"] == {"no_json": 3}
    assert found.summary["answers"]["X"]["entropy_missing"] == {"no_answer": 3}
    assert "No action could be read" in model.asked[-1][1].content


# -- leaks --------------------------------------------------------------------------------------------------------


def hostile(messages: list[Any], number: int) -> str:
    """Puts what it was told wherever an answer has room for it, in every condition."""
    action = WAYS[(number // 3) % 4]
    note = f"{SECRET}, says note {number}"
    memory = {"task_process": {"status": note}, "previous_action": "move up"}
    return action_json(action, grounding=f"The goal is to {SECRET}.", memory=memory)


def check_no_leak(asked: list[list[Any]], secrets: list[str]) -> dict[str, int]:
    seen = {"X": 0, "X|S": 0, "X|L,S": 0}
    for messages in asked:
        text = "\n".join(message.content for message in messages)
        condition = condition_of(messages)
        seen[condition] += 1
        held = [secret for secret in secrets if secret.casefold() in text.casefold()]
        assert not held or condition == "X|L,S", (condition, held)
        assert "says note" not in text or condition == "X|L,S", "the model's notes"
        assert GROUNDING not in text or condition != "X"
        assert all(message.content.strip() for message in messages)
    return seen


@pytest.mark.parametrize("evidence", ["logprobs", "verbalized"])
@pytest.mark.parametrize("view", ["image", "text", "both"])
def test_no_prompt_of_a_long_episode_leaks(tmp_path: Path, grounding: Path, evidence: str, view: str) -> None:
    """Every prompt of every step, with a model, a user and a changed instruction that all try."""
    changed = "now dance around the marble fountain twice"

    def write(messages: list[Any], number: int) -> str:
        if evidence == "logprobs":
            return hostile(messages, number)
        rest = json.loads(hostile(messages, number))
        chances = np.roll([0.7, 0.1, 0.1, 0.1], (number // 3) % 4).tolist()
        return verbalized_json(chances, grounding=rest["grounding"], memory=rest["memory"])

    def listen(episode: Any) -> Told:
        if episode.steps == 20:
            return Told(instruction=changed)
        return Told(feedback=f"You know what I want: {changed}!") if episode.steps in (10, 30) else Told()

    model = Writer(write)
    found = trust(
        SHIPPED_MAPS[-1], model, evidence=evidence, view=view, instruction=SECRET, grounding=grounding,
        own_grounding=True, carry=True, episodes=2, max_steps=40, listen=listen, out=tmp_path / "run", frames=False,
    )  # fmt: skip
    asked = zip(model.asked, model.options, strict=True)
    steps = [(one, options) for one, options in asked if any(m.role == "system" for m in one)]
    prompts = [one for one, _ in steps]
    seen = check_no_leak(prompts, [SECRET, changed])
    assert seen == {"X": 80, "X|S": 80, "X|L,S": 80}
    told = [one for one in prompts if condition_of(one) == "X|L,S"]
    assert all(SECRET in one[1].content or changed in one[1].content for one in told)
    assert sum("says note" in one[0].content for one in told) >= 70, "its notes do come back where they belong"
    assert any("repeat the instruction" in note for note in found.summary["notes"])
    for step in range(0, len(prompts), 3):
        three = prompts[step : step + 3]
        assert len({tuple(image for m in one for image in m.images) for one in three}) == 1
        assert len({json.dumps(options) for _, options in steps[step : step + 3]}) == 1


class Wordy(Writer):
    """Words feedback with the feedback itself, so that it is the check that keeps things out, and not the model."""

    def __init__(self) -> None:
        super().__init__(
            lambda messages, number: (
                messages[0].content.rpartition("said: ")[2] if len(messages) == 1 else action_json("down")
            )
        )


def test_an_instruction_never_comes_back_as_knowledge(tmp_path: Path, grounding: Path) -> None:
    """Neither the one to come, when it comes, nor the one before, nor one that the model would only word anew."""
    changed = "now dance around the marble fountain twice"
    said = {
        1: Told(feedback=f"Later you will {changed}."),
        2: Told(instruction=changed),
        3: Told(feedback=f"Before that you had to {SECRET}."),
        4: Told(feedback=f"I said: {changed.replace(' ', '_').upper()}!"),
        5: Told(feedback="The fountain is wet."),
    }
    heard: list[str] = []

    def listen(episode: Any) -> Told | None:
        heard.append(episode.told_last())
        return said.get(episode.steps)

    model = Wordy()
    found = trust(
        "walls", model, evidence="logprobs", view="text", instruction=SECRET, grounding=grounding, max_steps=7,
        listen=listen, out=tmp_path / "run",
    )  # fmt: skip
    known = [
        next(m.content for m in one if m.role == "system") for one in model.asked if condition_of(one) == "X|S"
    ]  # fmt: skip
    assert "Later you will" in known[1], "nobody can know that this will be the instruction"
    assert "Later you will" not in known[2]
    assert "The fountain is wet." in known[-1]
    for text in known[2:]:
        assert changed.casefold() not in text.casefold().replace("_", " ")
        assert SECRET not in text
    worded = [one[0].content for one in model.asked if len(one) == 1]
    assert len(worded) == 2, "what repeats an instruction is not even shown to the model"
    refused = [one for sample in found.samples for one in sample.result["learned"] if one.refused is not None]
    assert len(refused) == 2
    assert heard[4].endswith(f"Not kept, since it repeats the instruction: Before that you had to {SECRET}.")
    assert "Not kept" not in heard[3] + heard[6]
    assert "2 new sentences of knowledge repeat the instruction" in " ".join(found.summary["notes"])


def test_blank_words_are_none(tmp_path: Path, grounding: Path) -> None:
    model = Wordy()
    found = trust(
        "walls", model, evidence="logprobs", view="text", instruction=SECRET, grounding=grounding, max_steps=2,
        listen=lambda episode: Told(feedback="  ", instruction="\n"), out=tmp_path / "run",
    )  # fmt: skip
    words = trust(
        "walls", Wordy(), evidence="logprobs", view="text", max_steps=1, out=tmp_path / "bytes",
        listen=lambda episode: Told(feedback="mind \udcff"),
    )  # fmt: skip
    assert words.samples[0].result["told"] == UserInput(feedback="mind \ufffd"), (
        "a pipe may hold bytes that are no text"
    )
    assert [sample.result["told"] for sample in found.samples] == [UserInput()] * 2
    assert [sample.result["instruction"] for sample in found.samples] == [SECRET] * 2
    assert all(len(one) == 2 for one in model.asked), "no feedback, no sentence"


def test_notes_stay_until_there_are_new_ones(tmp_path: Path, grounding: Path) -> None:
    memory = {"task_process": {"status": "half way"}, "previous_action": "move up"}
    model = Writer(
        lambda messages, number: action_json("down", memory=memory) if number < 3 else action_json("down")
    )  # fmt: skip
    trust("walls", model, evidence="logprobs", view="text", grounding=grounding, max_steps=3, out=tmp_path / "run")
    told = [one[0].content for one in model.asked if condition_of(one) == "X|L,S"]
    assert ["half way" in one for one in told] == [False, True, True]


def test_a_grounding_that_holds_the_instruction_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text(f"A fact.\nYou have to {SECRET}.\n")
    with pytest.raises(InputError, match="holds the instruction"):
        trust("MiniGrid-Empty-8x8-v0", Scorer(table), instruction=SECRET, grounding=path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_mission_in_the_grounding_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("The floor is clean.\nget to the green goal square\n")
    model = Scorer(table)
    found = trust("MiniGrid-Empty-8x8-v0", model, grounding=path, out=tmp_path / "run", max_steps=2)
    for item in (item for batch in model.batches for item in batch):
        text = "\n".join(message.content for message in item.prefix)
        assert ("get to the green goal square" in text) is (NEUTRAL not in text)
    assert any("left out" in note for note in found.summary["notes"])


# -- knowledge ----------------------------------------------------------------------------------------------------


def test_feedback_and_own_notes_become_knowledge(tmp_path: Path, grounding: Path) -> None:
    def write(messages: list[Any], number: int) -> str:
        if len(messages) == 1:
            return "Carpets are slow."
        return action_json("down", grounding=f"Fact from {condition_of(messages)}.")

    def listen(episode: Any) -> Told | None:
        return Told(feedback="mind the carpet") if episode.steps == 1 else None

    model = Writer(write)
    found = trust(
        "MiniGrid-Empty-8x8-v0", model, evidence="logprobs", grounding=grounding, own_grounding=True, listen=listen,
        max_steps=3, out=tmp_path / "run",
    )  # fmt: skip
    told = [one["sentence"] for sample in found.samples for one in sample.result["learned"]]
    assert [sample.result["knowledge_count"] for sample in found.samples] == [1, 3, 3], "what the prompts held"
    assert told == ["Fact from X|S.", "Carpets are slow."], "what X|L,S says about the place may hold the instruction"
    last = next(one for one in reversed(model.asked) if condition_of(one) == "X|S")
    assert all(f"- {words}" in last[0].content for words in (GROUNDING, "Carpets are slow.", "Fact from X|S."))


def test_an_episode_ends_with_a_grounding_that_the_next_can_load(tmp_path: Path, grounding: Path) -> None:
    upwards = Scorer(lambda condition, text: [0.0, -9.0, -9.0, -9.0])
    found = trust(
        "MiniGrid-Empty-8x8-v0", upwards, grounding=grounding, episodes=2, carry=True, max_steps=2, out=tmp_path / "a"
    )
    path = tmp_path / "a" / "grounding" / "episode-1.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == GROUNDING
    assert len(lines) == 2, "one wall was met with, twice"
    assert lines[1].startswith("At (1, 1), up: ")
    assert found.samples[0].result["knowledge_count"] == 1
    assert found.samples[2].result["knowledge_count"] == 2
    assert found.summary["independent_episodes"] == 1, "the second goes on from the first"
    assert any("with --carry" in note for note in found.summary["notes"])
    assert analyse([tmp_path / "a" / "steps.csv"]).summary["trust"] == found.summary["trust"]
    again = Scorer(table)
    trust("MiniGrid-Empty-8x8-v0", again, grounding=path, max_steps=1, out=tmp_path / "b")
    assert lines[1] in again.batches[0][1].prefix[0].content


# -- evidence -----------------------------------------------------------------------------------------------------


def test_verbalized_is_asked_again_at_most_three_times(tmp_path: Path, grounding: Path) -> None:
    calls: dict[str, int] = {}

    def write(messages: list[Any], number: int) -> str:
        condition = condition_of(messages)
        calls[condition] = calls.get(condition, 0) + 1
        if condition == "X" or (condition == "X|L,S" and calls[condition] == 1):
            return "no JSON here"
        return verbalized_json([0.7, 0.1, 0.1, 0.1])

    model = Writer(write)
    options: dict[str, Any] = {"evidence": "verbalized", "view": "text", "grounding": grounding, "max_steps": 1}
    found = trust("walls", model, out=tmp_path / "run", **options)
    assert calls == {"X": 4, "X|S": 1, "X|L,S": 2}
    of = found.samples[0].result["conditions"]
    assert (of["X"]["entropy_missing"], of["X"]["retries"]) == ("no_json", 3)
    assert (of["X|L,S"]["action"], of["X|L,S"]["retries"]) == ("up", 1)
    first = -(0.7 * math.log2(0.7) + 3 * 0.1 * math.log2(0.1))
    assert of["X|L,S"]["entropy_bits"] == pytest.approx(0.5 * first + 0.3 * 2 + 0.2 * 2, abs=1e-12)


def test_logprobs_columns(tmp_path: Path, grounding: Path) -> None:
    model = Writer(lambda messages, number: action_json("down"))
    trust("MiniGrid-Empty-8x8-v0", model, evidence="logprobs", grounding=grounding, out=tmp_path / "r", max_steps=2)
    rows = list(csv.DictReader((tmp_path / "r" / "steps.csv").open()))
    bucket = -(0.8 * math.log2(0.8) + 2 * 0.1 * math.log2(0.1))
    for column in ("entropy_H_X", "entropy_mean_H_X", "entropy_weighted_H_X", "entropy_decision_H_X"):
        assert float(rows[0][column]) == pytest.approx(bucket, abs=1e-12), column
    # down 0.8; «zebra» and what is left are no action: 0.2 together.
    action = -(0.8 * math.log2(0.8) + 0.2 * math.log2(0.2))
    assert float(rows[0]["entropy_action_H_X"]) == pytest.approx(action, abs=1e-12)
    assert rows[0]["entropy_high_H_X"] == "", "the size of the vocabulary is unknown"
    assert list(rows[0]) == columns("logprobs")
    known = {"evidence": "logprobs", "grounding": grounding, "max_steps": 1, "vocab_size": 1002}
    trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "v", **known)
    bounded = next(csv.DictReader((tmp_path / "v" / "steps.csv").open()))
    # 0.8 and 0.1 are known; the 0.1 that is left is spread over the other 1,000 tokens.
    high = -(0.8 * math.log2(0.8) + 0.1 * math.log2(0.1)) + 0.1 * math.log2(1000 / 0.1)
    assert float(bounded["entropy_high_H_X"]) == pytest.approx(high, abs=1e-12)
    assert float(bounded["unlisted_H_X"]) == float(rows[0]["unlisted_H_X"]) == pytest.approx(0.1, abs=1e-12)
    assert list(rows[0])[:4] == ["step", "timestamp", "agent_x", "agent_y"]
    assert list(rows[0])[-4:] == ["entropy_H_X", "entropy_H_X_given_S", "entropy_H_X_given_LS", "trust_T"]


def test_trust_from_logprobs_has_the_bounds_of_its_entropies(tmp_path: Path, grounding: Path) -> None:
    """What the alternatives leave over may be any tokens: a little moves T, much could turn it around."""

    def run(out: str, unlisted: float, **more: Any) -> dict[str, Any]:
        model = Certain(unlisted)
        found = trust(
            "home", model, evidence="logprobs", view="text", grounding=grounding, max_steps=2, episodes=6, act="sample",
            out=tmp_path / out, **more,
        )  # fmt: skip
        log = analyse([tmp_path / out / "steps.csv"]).summary
        for part in ("trust", "ordering", "sureness"):
            assert log[part] == found.summary[part], part
        return found.summary

    narrow, given = run("narrow", 0.001), run("given", 0.001, vocab_size=50_000)
    for summary in (narrow, given):
        told = summary["trust"]
        assert told["bounds"]["low"] < told["value"] < told["bounds"]["high"]
        assert f"between {told['bounds']['low']:.3f} and" in summary["headline"][0]["note"]
    assert given["trust"]["bounds"]["high"] < narrow["trust"]["bounds"]["high"], "2^20 tokens where none are given"
    wide = run("wide", 0.09)["trust"]
    assert (wide["value"], wide["why"]) == (None, "unlisted_tokens")


class Certain(Writer):
    """Sure of its action in X|L,S, half sure in X|S, open in X; of each a part lies outside of the alternatives."""

    def __init__(self, unlisted: float) -> None:
        super().__init__(lambda messages, number: action_json("down"))
        self.unlisted, self.answers = unlisted, 0

    def generate(self, conversations: Any, **options: Any) -> list[Any]:
        found = super().generate(conversations, **options)
        return [
            msgspec.structs.replace(answer, logprobs=self._alternatives(answer.logprobs, self._of(asked)))
            for answer, asked in zip(found, conversations, strict=True)
        ]

    def _of(self, asked: Any) -> list[float]:
        """A little different from question to question."""
        shares = {"X": [0.25] * 4, "X|S": [0.5, 0.5], "X|L,S": [0.9, 0.1]}[condition_of(asked)]
        self.answers += 1
        part = 0.01 * (self.answers % 7)
        return [shares[0] - part, shares[1] + part, *shares[2:]]

    def _alternatives(self, evidence: TokenLogprobs, shares: list[float]) -> TokenLogprobs:
        names = ("down", "up", "left", "right")
        known = [math.log(share * (1 - self.unlisted)) for share in shares]
        rows = [list(zip(names, known, strict=False)) if one == "down" else [(one, 0.0)] for one in evidence.tokens]
        logprobs = np.array([known[0] if one == "down" else 0.0 for one in evidence.tokens])
        return TokenLogprobs(
            tokens=evidence.tokens, logprobs=logprobs, token_bytes=evidence.token_bytes,
            top=TopAlternatives.from_rows(rows),
        )  # fmt: skip


def test_what_cannot_be_asked_is_refused_before_any_work(tmp_path: Path) -> None:
    for options, words in (
        ({"evidence": "logprobs"}, "can only score"),
        ({"summarise": True}, "--summarise needs a model that can generate"),
        ({"evidence": "nonsense"}, "scored, logprobs, verbalized"),
        ({"view": "image"}, "reads text only"),
        ({"view": "ears"}, "--view must be"),
        ({"episodes": 0}, "--episodes"),
        ({"max_steps": 0}, "--max-steps"),
        ({"instruction": " "}, "--instruction is empty"),
        ({"instruction": "go \udcff"}, "--instruction is not UTF-8"),
        ({"act": "never"}, "--act must be"),
        ({"clock": "cuckoo"}, "--clock must be"),
        ({"vocab_size": 4}, "--vocab-size"),
    ):
        with pytest.raises((InputError, MissingCapability), match=words):
            trust("walls", Scorer(table), out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_what_answers_are_drawn_with(tmp_path: Path) -> None:
    """The run's seed decides, every step draws anew, the three conditions alike, and a retry draws again."""

    def seeds(seed: int, out: str) -> list[int]:
        model = Writer(lambda messages, number: "no JSON here")
        trust(
            "walls", model, evidence="verbalized", view="text", temperature=0.7, max_tokens=99, max_steps=2, seed=seed,
            out=tmp_path / out,
        )  # fmt: skip
        assert {(one["temperature"], one["max_tokens"]) for one in model.options} == {(0.7, 99)}
        return [one["seed"] for one in model.options]

    first = seeds(5, "a")
    assert len(first) == 2 * 4 * 3
    assert [len(set(first[i : i + 3])) for i in range(0, 24, 3)] == [1] * 8
    assert len(set(first)) == 8
    assert max(first) < 2**31
    assert seeds(5, "b") == first
    assert not set(seeds(6, "c")) & set(first)


def test_an_answer_that_failed_is_not_asked_for_again(tmp_path: Path) -> None:
    model = Writer(lambda messages, number: None)
    found = trust("walls", model, evidence="verbalized", view="text", max_steps=1, out=tmp_path / "run")
    assert len(model.asked) == 3, "the back end has tried as often as it makes sense"
    assert found.samples[0].reason == "no_answer"


def test_every_allowed_action_impossible_is_missing(tmp_path: Path) -> None:
    model = Scorer(lambda condition, text: [-math.inf] * 4)
    found = trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", max_steps=1)
    assert found.samples[0].reason == "no_allowed_action"
    assert found.samples[0].result["action"] is None


def test_equal_probabilities_are_told(tmp_path: Path, grounding: Path) -> None:
    even = Scorer(lambda condition, text: [-1.0] * 4)
    found = trust("MiniGrid-Empty-8x8-v0", even, out=tmp_path / "a", max_steps=2, own_grounding=True)
    assert any("2 actions are the first of several" in note for note in found.summary["notes"])
    assert any("scored answers write nothing" in note for note in found.summary["notes"])
    model = Writer(lambda messages, number: verbalized_json([0.4, 0.4, 0.1, 0.1]))
    found = trust("walls", model, evidence="verbalized", view="text", out=tmp_path / "b", max_steps=1)
    assert any("1 action is the first of several" in note for note in found.summary["notes"])


def test_the_model_words_the_summary_of_an_episode(tmp_path: Path, grounding: Path) -> None:
    def write(messages: list[Any], number: int) -> str:
        if len(messages) == 1:
            return f"- Walls are hard.\n- Remember to {SECRET}.\n"
        return action_json("up")

    options: dict[str, Any] = {"evidence": "logprobs", "view": "text", "instruction": SECRET, "grounding": grounding}
    model = Writer(write)
    trust("MiniGrid-Empty-8x8-v0", model, summarise=True, episodes=2, max_steps=2, out=tmp_path / "a", **options)
    path = tmp_path / "a" / "grounding" / "episode-1.txt"
    assert path.read_text().splitlines()[1:] == [GROUNDING, "Walls are hard."], "the instruction does not come along"
    known = [one for one in model.asked if condition_of(one) == "X|S" and len(one) == 2]
    assert all("Walls are hard." not in one[0].content for one in known), "without --carry nothing is taken along"
    model = Writer(write)
    trust("MiniGrid-Empty-8x8-v0", model, summarise=True, carry=True, episodes=2, max_steps=2, out=tmp_path / "b",
          **options)  # fmt: skip
    known = [one for one in model.asked if condition_of(one) == "X|S" and len(one) == 2]
    assert ["Walls are hard." in one[0].content for one in known] == [False, False, True, True]


def test_the_mass_of_the_actions(tmp_path: Path) -> None:
    model = Scorer(lambda condition, text: [math.log(0.03), math.log(0.01), -math.inf, -math.inf])
    found = trust("MiniGrid-Empty-8x8-v0", model, out=tmp_path / "run", max_steps=1)
    assert found.samples[0].result["conditions"]["X"]["allowed_mass"] == pytest.approx(0.04)
    assert any("4.00% of its probability" in note for note in found.summary["notes"])


def test_directions_alone_cannot_fetch(tmp_path: Path) -> None:
    """Answers of directions are not told of other actions, and a note counts the steps that would have needed one."""
    objects = {"⬜": {"type": "empty"}, "🔑": {"type": "key", "emoji_name": "key"}}
    drawn = {"emoji_render": ["🤖🔑🎯"], "emoji_objects": objects, "task": {"fetch": "key"}}
    (tmp_path / "m.json").write_text(json.dumps({"map": drawn}))
    model = Writer(lambda messages, number: verbalized_json([0.1, 0.1, 0.1, 0.7]))
    found = trust(tmp_path / "m.json", model, evidence="verbalized", view="text", max_steps=3, out=tmp_path / "a")
    assert not any("pick up" in one[0].content for one in model.asked)
    assert [sample.result["best_actions"] for sample in found.samples] == [["pick up"]] * 3
    assert any("at 3 of 3 steps the shortest way" in note for note in found.summary["notes"])
    free = Writer(lambda messages, number: action_json("pick up"))
    trust(tmp_path / "m.json", free, evidence="logprobs", view="text", max_steps=1, out=tmp_path / "b")
    assert "- pick up:" in free.asked[0][0].content


def test_what_a_summary_counts(tmp_path: Path) -> None:
    """Retries, actions without effect, answers that were no action, and steps that were told nothing."""
    calls = 0

    def write(messages: list[Any], number: int) -> str:
        nonlocal calls
        calls += 1
        return "no JSON" if calls == 1 else verbalized_json([0.7, 0.1, 0.1, 0.1])

    found = trust(
        "MiniGrid-Empty-8x8-v0", Writer(write), evidence="verbalized", view="text", max_steps=2, out=tmp_path / "a"
    )
    assert [one["retries"] for one in found.summary["answers"].values()] == [1, 0, 0]
    assert msgspec.to_builtins(found.summary["actions"]) == {"taken": {"up": 2}, "without_effect": 2, "none": 0}
    assert msgspec.to_builtins(found.summary["episodes_reached"]) == {"count": 0, "of": 1}
    rows = {"map": {"emoji_render": ["🤖⬜🎯"], "emoji_objects": {"⬜": {"type": "empty"}}}}
    (tmp_path / "m.json").write_text(json.dumps(rows))
    untold = trust(tmp_path / "m.json", Scorer(table), max_steps=3, out=tmp_path / "b")
    assert any("3 of 3 steps have no instruction" in note for note in untold.summary["notes"])
    assert any("1 of 3 steps asked word for word" in note for note in untold.summary["notes"])


def test_probability_outside_of_the_actions_is_told(tmp_path: Path, grounding: Path) -> None:
    """An answer in words that no allowed action has: the tokens are there, and all of their mass lies elsewhere."""
    model = Writer(lambda messages, number: action_json("fly"))
    found = trust(
        "MiniGrid-Empty-8x8-v0", model, evidence="logprobs", grounding=grounding, max_steps=2, out=tmp_path / "r"
    )
    assert found.summary["answers"]["X"]["action_missing"] == {"unknown_action": 2}
    assert found.summary["actions"]["none"] == 2
    assert any("100% of the probability lies on what is no allowed action" in note for note in found.summary["notes"])


def test_trust_by_actions_is_its_own_figure(tmp_path: Path, grounding: Path) -> None:
    """Several tokens to an action: the first token's entropy and that of the action differ, and so do the trusts."""
    words = {"X": "zigzag", "X|S": "move down", "X|L,S": "down"}
    model = Writer(lambda messages, number: action_json(words[condition_of(messages)]))
    found = trust("home", model, evidence="logprobs", view="text", grounding=grounding, max_steps=2, out=tmp_path / "r")
    of = found.samples[0].result["conditions"]
    h = [of[condition]["action_entropy_bits"] for condition in ("X", "X|S", "X|L,S")]
    assert len(set(h)) == 3
    row = next(csv.DictReader((tmp_path / "r" / "steps.csv").open()))
    assert float(row["trust_T_action"]) == pytest.approx((h[0] - h[1]) / (h[0] - h[2]))
    told = found.summary["trust_of_actions"]
    assert told["delta_h_s_bits"]["value"] == pytest.approx(h[0] - h[1])
    assert told["delta_h_ls_bits"]["value"] == pytest.approx(h[0] - h[2])


def test_what_it_would_take(tmp_path: Path) -> None:
    writer, scorer = Writer(lambda messages, number: ""), Scorer(table)

    def calls(model: Any, **options: Any) -> int:
        with prepared(TRUST, TrustOptions("walls", model, max_steps=5, **options)) as ready:
            return ready.cost()["model_calls_at_most"]

    twice: dict[str, Any] = {"view": "text", "episodes": 2}
    assert calls(writer, evidence="verbalized", **twice) == 3 * 4 * 10, "each prompt may be asked four times"
    talk: dict[str, Any] = {"summarise": True, "listen": lambda episode: None}
    assert calls(writer, evidence="logprobs", **twice, **talk) == 3 * 10 + 10 + 2
    assert calls(scorer, listen=lambda episode: None) == 5


# -- runs ---------------------------------------------------------------------------------------------------------


class Stops(Exception):
    """Stands for a power cut."""


def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path: Path, grounding: Path) -> None:
    """Stopped at every third step, between a step and its table, with feedback and notes on the way."""

    def write(messages: list[Any], number: int) -> str:
        if len(messages) == 1:
            return f"Learned: {messages[0].content[-20:]}."
        # The answer depends on everything that was asked, as that of a real model does.
        weight = sum(map(ord, "".join(m.content for m in messages)))
        memory = {"task_process": {"status": str(weight)}, "previous_action": "move up"}
        return action_json(WAYS[weight % 4], grounding=f"Fact {weight % 7}.", memory=memory)

    def listen(episode: Any) -> Told:
        return Told(feedback=f"hint {episode.steps}") if episode.steps % 4 == 1 else Told()

    options: dict[str, Any] = {
        "evidence": "logprobs", "grounding": grounding, "own_grounding": True, "carry": True, "episodes": 2,
        "max_steps": 9, "listen": listen, "clock": "world", "view": "both", "seed": 3,
    }  # fmt: skip
    whole = trust(SHIPPED_MAPS[-1], Writer(write), out=tmp_path / "whole", **options)
    finished = False
    for _ in range(20):
        steps = 0

        def stop(sample: Any) -> None:
            nonlocal steps
            steps += 1
            if steps == 3:
                raise Stops

        try:
            trust(SHIPPED_MAPS[-1], Writer(write), out=tmp_path / "torn", on_step=stop, **options)
            finished = True
            break
        except Stops:
            table_path = tmp_path / "torn" / "steps.csv"
            table_path.write_bytes(table_path.read_bytes()[:-7])
            frames = sorted((tmp_path / "torn" / "frames").glob("*.png"))
            frames[-1].unlink()
    assert finished
    for name in ("steps.csv", "samples.jsonl", "summary.json", "grounding/episode-1.txt", "replay.gif"):
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    frames = [path.name for path in sorted((tmp_path / "whole" / "frames").iterdir())]
    assert [path.name for path in sorted((tmp_path / "torn" / "frames").iterdir())] == frames
    assert msgspec.to_builtins(whole.summary) == howsure.Run(tmp_path / "torn").summary


def test_a_run_is_taken_up_with_knowledge_that_looks_like_a_remark(tmp_path: Path) -> None:
    """What an episode knew is read back from its file: bullets, signs of comments and line breaks must not matter."""
    path = tmp_path / "g.json"
    path.write_text(json.dumps(["# The floor\nis clean.", "- - Doors creak.", "1) Beds block."]))
    said = {
        0: Told(feedback="# mind the carpet"),
        1: Told(feedback="Find a way around the walls to the green square!"),
        2: Told(feedback="* mind the step"),
    }

    def play(out: str, stop: int | None = None) -> Any:
        def on_step(sample: Any) -> None:
            if sample.index == stop:
                raise Stops

        upwards = Scorer(lambda condition, text: [0.0, -9.0, -9.0, -9.0])
        return trust(
            "walls", upwards, grounding=path, episodes=2, carry=True, max_steps=3, out=tmp_path / out, on_step=on_step,
            listen=lambda episode: said.get(episode.steps, Told()),
        )  # fmt: skip

    play("whole")
    with pytest.raises(Stops):
        play("torn", stop=4)
    play("torn")
    for name in ("samples.jsonl", "steps.csv", "summary.json", "grounding/episode-2.txt"):
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    lines = (tmp_path / "whole" / "grounding" / "episode-1.txt").read_text().splitlines()
    assert lines[1:6] == ["The floor is clean.", "Doors creak.", "Beds block.", "mind the carpet", "mind the step"]


def test_a_run_of_the_first_edition_is_resumed(tmp_path: Path, grounding: Path) -> None:
    """Its conditions held only what their kind of evidence gives."""

    def play(out: str, stop: int | None = None) -> Any:
        def on_step(sample: Any) -> None:
            if sample.index == stop:
                raise Stops

        return trust("home", Scorer(table), grounding=grounding, episodes=3, max_steps=3, out=tmp_path / out,
                     on_step=on_step)  # fmt: skip

    whole = play("whole")
    with pytest.raises(Stops):
        play("torn", stop=4)
    path = tmp_path / "torn" / "samples.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for name, condition in line["result"]["conditions"].items():
            kept = {field: value for field, value in condition.items() if value is not None}
            line["result"]["conditions"][name] = {"entropy_missing": None, "action_missing": None, **kept}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert play("torn").summary == whole.summary
    for name in ("steps.csv", "summary.json", "replay.gif"):
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_whole_episodes_are_not_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run that is called again needs no model, and one that goes on begins where it stopped."""
    replayed: list[int] = []
    replay = Episode.replay
    monkeypatch.setattr(Episode, "replay", lambda self, one: (replayed.append(one.episode), replay(self, one))[1])

    def play(stop: int | None = None) -> Scorer:
        def on_step(sample: Any) -> None:
            if sample.index == stop:
                raise Stops

        model = Scorer(table)
        monkeypatch.setattr(model, "load", lambda: loaded.append(model), raising=False)
        trust("home", model, episodes=3, max_steps=3, act="sample", out=tmp_path / "run", on_step=on_step)
        return model

    loaded: list[Any] = []
    with pytest.raises(Stops):
        play(stop=4)
    play()
    assert (replayed, len(loaded)) == ([2, 2], 2)
    assert play().batches == []
    assert (replayed, len(loaded)) == ([2, 2], 2)


def test_a_world_that_changed_is_told(tmp_path: Path) -> None:
    with pytest.raises(Stops):
        trust("home", Scorer(table), out=tmp_path / "run", max_steps=3, on_step=_stop)
    lines = (tmp_path / "run" / "samples.jsonl").read_text()
    (tmp_path / "run" / "samples.jsonl").write_text(lines.replace('"agent_x":1', '"agent_x":2'))
    with pytest.raises(RunDamaged, match=r"recorded at \(2, 4\), and the world is at \(1, 4\)"):
        trust("home", Scorer(table), out=tmp_path / "run", max_steps=3)


def _stop(sample: Any) -> None:
    raise Stops


def test_the_same_twice_gives_the_same_table_and_other_options_another_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trust("home", Scorer(table), out=tmp_path / name, max_steps=4, act="sample")
    assert (tmp_path / "a" / "steps.csv").read_bytes() == (tmp_path / "b" / "steps.csv").read_bytes()
    trust("home", Scorer(table), out=tmp_path / "a", max_steps=4, act="sample")
    with pytest.raises(RunMismatch, match="max_steps"):
        trust("home", Scorer(table), out=tmp_path / "a", max_steps=5, act="sample")


def test_a_carriage_return_does_not_break_the_table(tmp_path: Path) -> None:
    def write(messages: list[Any], number: int) -> str:
        return action_json("down")

    found = trust("walls", Writer(write), evidence="logprobs", view="text", max_steps=1, out=tmp_path / "run")
    odd = msgspec.structs.replace(found.samples[0].result, effect='a\rb "c"\nd, e')
    written = StepTable(tmp_path, "logprobs", [msgspec.structs.replace(found.samples[0], result=odd)])
    written.append(odd)
    written.close()
    rows = list(csv.DictReader((tmp_path / "steps.csv").open(newline="")))
    assert [row["effect"] for row in rows] == ['a\\rb "c"\nd, e'] * 2
    assert [row["trust_T"] for row in rows] == [rows[0]["trust_T"]] * 2


def test_a_model_without_a_chat_template_continues_a_text(tmp_path: Path) -> None:
    """A space belongs to the word behind it, as tokens have it."""
    asked: list[Any] = []

    class Continues(Scorer):
        @property
        def takes_chat(self) -> bool:
            return False

        def try_score(self, items: Any, **options: Any) -> Any:
            asked.extend(items)
            return [[TokenLogprobs((word,), np.array([-1.0])) for word in item.continuations] for item in items]

    trust("MiniGrid-Empty-8x8-v0", Continues(table), max_steps=1, out=tmp_path / "run")
    assert all(item.prefix.endswith("\n\nAction:") for item in asked)
    assert asked[0].continuations == (" up", " down", " left", " right")


def test_what_was_asked_together_before_is_not_run_again(tmp_path: Path) -> None:
    upwards = Scorer(lambda condition, text: [0.0, -9.0, -9.0, -9.0])
    found = trust("MiniGrid-Empty-8x8-v0", upwards, max_steps=5, out=tmp_path / "run")
    assert len(found.samples) == 5
    assert len(upwards.batches) == 2, "before the wall was met with, and after"


def test_a_replay_shows_each_episode_from_its_beginning(tmp_path: Path) -> None:
    from howsure.studies.trust.artefacts import _of_episode

    found = trust("home", Scorer(table), out=tmp_path / "run", max_steps=2, episodes=2)
    records = [sample.result for sample in found.samples]
    shown = [[(record.episode, record.step) for record in _of_episode(records, i)] for i in range(4)]
    assert shown == [[(1, 1)], [(1, 1), (1, 2)], [(2, 1)], [(2, 1), (2, 2)]]


def test_frames_and_replay(tmp_path: Path) -> None:
    from PIL import Image

    trust("home", Scorer(table), out=tmp_path / "run", max_steps=3)
    frames = sorted(path.name for path in (tmp_path / "run" / "frames").iterdir())
    assert frames == ["e0001-end.png", "e0001-s0001.png", "e0001-s0002.png", "e0001-s0003.png"]
    with Image.open(tmp_path / "run" / "replay.gif") as replay:
        assert replay.n_frames == 4
        first = replay.convert("RGB").copy()
        replay.seek(2)
        assert replay.convert("RGB").tobytes() != first.tobytes()


def test_episodes_differ_by_seed_and_copies_are_known(tmp_path: Path) -> None:
    """Equal episodes are told as copies in the run and in its log alike; drawn actions make them different."""
    found = trust("home", Scorer(table), out=tmp_path / "a", max_steps=3, episodes=3)
    assert [sample.result["first_episode"] for sample in found.samples] == [1] * 9
    assert found.summary["trust"]["independent_episodes"] == 1
    assert found.summary["trust"]["reason"].startswith("1 independent of 3 episodes")
    assert any("2 of 3 episodes asked word for word" in note for note in found.summary["notes"])
    log = analyse([tmp_path / "a" / "steps.csv"]).summary
    for part in ("trust", "mean_entropy_bits", "sureness", "episodes"):
        assert log[part] == found.summary[part], part
    drawn = trust("home", Scorer(table), out=tmp_path / "b", max_steps=6, episodes=3, act="sample")
    assert drawn.summary["trust"]["independent_episodes"] == 3
    first = {s.result["step"]: s.result["action"] for s in drawn.samples if s.result["episode"] == 1}
    assert any(s.result["action"] != first[s.result["step"]] for s in drawn.samples)
    another = trust("home", Scorer(table), out=tmp_path / "c", max_steps=6, act="sample", seed=1)
    assert any(s.result["action"] != first[s.result["step"]] for s in another.samples)
    rooms = trust("MiniGrid-FourRooms-v0", Scorer(table), out=tmp_path / "d", max_steps=1, episodes=4)
    assert len({(s.result["agent_x"], s.result["agent_y"]) for s in rooms.samples}) > 1


def test_an_episode_ends_at_the_goal(tmp_path: Path) -> None:
    """Twice right and twice down through the 5×5 room with its walls; what was allowed beyond is not played."""

    def first_right(condition: str, text: str) -> list[float]:
        way = 3 if "x=1" in text or "x=2" in text else 1
        return [0.0 if i == way else -9.0 for i in range(4)]

    found = trust("MiniGrid-Empty-5x5-v0", Scorer(first_right), out=tmp_path / "run", max_steps=50, episodes=2)
    assert [sample.result["step"] for sample in found.samples] == [1, 2, 3, 4] * 2
    assert found.samples[3].result["reached"] is True
    assert msgspec.to_builtins(found.summary["episodes_reached"]) == {"count": 2, "of": 2}
    assert [sample.result["timestamp"] for sample in found.samples[:2]] == [
        "2000-01-01T00:00:01",
        "2000-01-01T00:00:02",
    ]
