"""τ² files: every shape, every place of the log-probabilities, every message accounted for."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from howsure.studies.trajectories.tau2 import read_tau2
from howsure.studies.trajectories.turns import Loaded, Trajectory
from trajectory_logs import call, greeting, message, results, simulation

SHARED = Path(__file__).parents[4] / "shared" / "data" / "tau2"


def read(data: Any, **options: Any) -> Loaded:
    return read_tau2(data if isinstance(data, bytes) else json.dumps(data).encode(), "log.json", **options)


def only(data: Any, **options: Any) -> Trajectory:
    loaded = read(data, **options)
    assert loaded.problems == []
    (found,) = loaded.trajectories
    return found


def scores(trajectory: Trajectory) -> list[float | None]:
    return [turn.uncertainty_nats for turn in trajectory.turns]


# -- shapes --------------------------------------------------------------------------------------------------------


TALK = [message("user", "Hello", -0.5, -1.5), message("assistant", "Yes?", -0.25)]


@pytest.mark.parametrize(
    "data",
    [
        results(simulation(TALK)),
        {"simulations": [simulation(TALK)]},
        results(simulation(TALK), info=None, tasks=None),
        [simulation(TALK)],
        simulation(TALK),
        results(simulation(TALK), simulation_index=[{"id": "sim_1", "task_id": 0, "trial": 0}], format_version=2),
    ],
    ids=["file", "without info", "null info", "list", "one simulation", "with index"],
)
def test_every_shape_holds_the_same_conversation(data: Any) -> None:
    found = only(data)
    assert (found.id, found.task_id, found.trial, found.reward) == ("sim_1", "task_1", 0, 1.0)
    assert scores(found) == [1.0, 0.25]
    assert [(turn.number, turn.actor, turn.role) for turn in found.turns] == [
        (1, "user", "user"),
        (2, "agent", "assistant"),
    ]


@pytest.mark.parametrize("place", ["message", "raw_data", "choices"])
def test_log_probabilities_are_found_at_each_place(place: str) -> None:
    found = only([simulation([message("assistant", "Yes", -1.0, -2.0, place=place)])])
    assert scores(found) == [1.5]


def test_the_first_place_that_has_any_counts() -> None:
    both = message("assistant", "Yes", -1.0, place="message") | {
        "raw_data": message("assistant", "Yes", -9.0, place="raw_data")["raw_data"]
    }
    assert scores(only([simulation([both])])) == [1.0]
    empty = message("assistant", "Yes", -1.0, place="choices") | {"logprobs": {"content": []}}
    assert scores(only([simulation([empty])])) == [1.0]


def test_answers_of_the_completions_endpoint_and_refusals() -> None:
    held = {"tokens": ["a", "b"], "token_logprobs": [-1.0, -2.0], "top_logprobs": [{"a": -1.0}, {"b": -2.0}]}
    older = message(
        "assistant", "ab", raw_data={"object": "text_completion", "choices": [{"text": "ab", "logprobs": held}]}
    )
    assert scores(only([simulation([older])])) == [1.5]
    assert [row["token"] for row in only([simulation([older])], with_tokens=True).turns[0].tokens or ()] == ["a", "b"]
    assert only([simulation([older])]).turns[0].tokens is None
    refused = message("assistant", "No") | {
        "logprobs": {"content": None, "refusal": [{"token": "No", "logprob": -0.5}]}
    }
    assert scores(only([simulation([refused])])) == [0.5]
    unknown = older | {"raw_data": {"choices": [{"logprobs": held | {"token_logprobs": [None, -2.0]}}]}}
    loaded = read([simulation([unknown])])
    assert loaded.trajectories[0].turns[0].reason == "unreadable"


def test_forms_that_other_versions_may_write() -> None:
    parts = message("user", None, -0.5) | {"content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]}
    bare = message("assistant", "Yes") | {"logprobs": [{"token": "Yes", "logprob": -0.25}]}
    odd = message("assistant", "So") | {"raw_data": "ModelResponse(id='x')", "errors": [{"type": "format"}]}
    found = only([simulation([parts, bare, odd], review=["no", "review"], user_only_review="fine")])
    assert scores(found) == [0.5, 0.25, None]
    assert found.turns[0].content == "Hello"
    assert [mark.kind for mark in found.marks] == ["format_error"]


def test_numbers_as_ids_and_missing_ones() -> None:
    found = only({"simulations": [{"id": 7, "task_id": 3, "messages": []}]})
    assert (found.id, found.task_id, found.trial) == ("7", "3", None)
    assert only({"simulations": [{"id": "x", "messages": []}]}).task_id == "x"  # alone with its own task
    loaded = read([{"messages": []}, {"messages": []}])
    assert [one.task_id for one in loaded.trajectories] == ["simulation 0", "simulation 1"]


def test_a_file_without_simulations_has_none_and_no_problem() -> None:
    loaded = read(results())
    assert (loaded.trajectories, loaded.problems) == ([], [])


# -- turns ---------------------------------------------------------------------------------------------------------


def test_turns_are_numbered_by_themselves_and_others_are_skipped() -> None:
    found = only(
        [
            simulation(
                [
                    {"role": "system", "content": "policy", "turn_idx": 0},
                    greeting(),
                    message("user", "Cancel it", -0.5),
                    message("assistant", None, tool_calls=call(id="x")),
                    {"role": "tool", "content": "ok", "requestor": "assistant", "error": False},
                    message("assistant", "Done", -0.5),
                    message("user", "Thanks ###STOP###", -0.1),
                ]
            )
        ]
    )
    assert [turn.number for turn in found.turns] == [1, 2, 3, 4, 5]
    assert [turn.message_index for turn in found.turns] == [1, 2, 3, 5, 6]
    assert [turn.kind for turn in found.turns] == ["text", "text", "tool_call", "text", "text"]
    assert [turn.reason for turn in found.turns] == ["scripted", None, "tool_call", None, None]
    assert found.turns[-1].control == ("###STOP###",)
    assert found.skipped == {"system": 1, "tool": 1}
    assert found.message_count == 7
    assert found.opening == "Cancel it"


def test_a_tool_call_with_log_probabilities_has_a_score() -> None:
    found = only([simulation([message("assistant", None, -0.5, -0.7, tool_calls=call(id="x"))])])
    assert scores(found) == pytest.approx([0.6])
    assert found.turns[0].calls == ('find {"id":"x"}',)


def test_the_greeting_is_scripted_only_where_no_model_wrote_it() -> None:
    words = "Hi! How can I help you today?"
    found = only([simulation([message("assistant", words, -0.5), message("assistant", words), message("user", words)])])
    assert [turn.reason for turn in found.turns] == [None, "scripted", "no_logprobs"]


@pytest.mark.parametrize("word", ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"])
def test_control_words_are_recognised(word: str) -> None:
    found = only([simulation([message("user", f"I am done. {word}"), message("assistant", word)])])
    assert [turn.control for turn in found.turns] == [(word,), (word,)]


def test_an_empty_message_is_counted_as_such() -> None:
    found = only([simulation([message("assistant", ""), message("user", None), message("user", " \n")])])
    assert [turn.reason for turn in found.turns] == ["empty_message"] * 3


def test_a_token_of_probability_zero_is_infinite_and_no_number() -> None:
    found = only([simulation([message("user", "so", -0.5, -9999.0)])])
    (turn,) = found.turns
    assert (turn.uncertainty_nats, turn.reason, turn.statistics) == (math.inf, "impossible_token", None)


def test_tokens_are_kept_on_request_only() -> None:
    data = [simulation([message("user", "so", -0.5, -0.25)])]
    assert only(data).turns[0].tokens is None
    assert list(map(dict, only(data, with_tokens=True).turns[0].tokens or ())) == [
        {"token": "t0", "probability": pytest.approx(math.exp(-0.5)), "neg_log_likelihood": 0.5},
        {"token": "t1", "probability": pytest.approx(math.exp(-0.25)), "neg_log_likelihood": 0.25},
    ]


# -- outcomes and marks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reward", "reason", "failed"),
    [
        ({}, 1.0, None, False),
        ({"reward_info": {"reward": 0.0}}, 0.0, None, True),
        ({"reward_info": {"reward": 0.5}}, 0.5, None, True),
        ({"reward_info": {"reward": 1.0 - 1e-9}}, 1.0 - 1e-9, None, False),
        ({"reward_info": None}, None, "no_reward", None),
        ({"reward_info": {"reward": None}}, None, "no_reward", None),
        ({"termination_reason": "infrastructure_error", "reward_info": {"reward": 0.0}}, None, "not_evaluable", None),
        ({"termination_reason": "max_steps", "reward_info": {"reward": 0.0}}, 0.0, None, True),
    ],
)
def test_rewards(fields: dict[str, Any], reward: float | None, reason: str | None, failed: bool | None) -> None:
    found = only([simulation([], **fields)])
    assert (found.reward, found.reward_missing, found.failed) == (reward, reason, failed)


def test_what_went_wrong_is_marked_at_its_turn() -> None:
    review = {
        "errors": [
            {"source": "agent", "turn_idx": 12, "severity": "critical", "reasoning": "…"},
            {"source": "user", "turn_idx": 10, "reasoning": "…"},
            {"source": "agent", "turn_idx": 777, "reasoning": "no such turn"},
            {"source": "agent", "tick_start": 3, "reasoning": "voice"},
        ]
    }
    found = only(
        [
            simulation(
                [
                    message("user", "a", turn_idx=10),
                    message("assistant", None, tool_calls=call(), turn_idx=11),
                    {"role": "tool", "content": "no", "error": True, "turn_idx": 12},
                    message("assistant", "b", errors=["Invalid message format."], turn_idx=12),
                    {
                        "role": "tool",
                        "tool_messages": [{"content": "x", "error": False}, {"content": "y", "error": True}],
                    },
                ],
                review=review,
                user_only_review={"errors": [{"turn_idx": 10, "severity": "minor"}]},
            )
        ]
    )
    assert [(mark.kind, mark.turn, mark.severity) for mark in found.marks] == [
        ("tool_error", 2, None),
        ("format_error", 3, None),
        ("tool_error", 3, None),
        ("review_agent_error", 3, "critical"),
        ("review_user_error", 1, None),
        ("review_user_error", 1, "minor"),
    ]


def test_a_voice_run_is_unsupported_and_does_not_stop_the_others() -> None:
    loaded = read(results(simulation(None, ticks=[{"a": 1}, {"b": 2}], id="voice"), simulation(TALK), simulation(None)))
    assert [one.unsupported is None for one in loaded.trajectories] == [False, True, False]
    assert "voice run of 2 ticks" in loaded.problems[0].sentence
    assert "it has no messages" in loaded.problems[1].sentence
    assert all("log.json" in problem.sentence for problem in loaded.problems)


# -- damage --------------------------------------------------------------------------------------------------------


def test_a_bad_turn_is_lost_alone() -> None:
    good = message("assistant", "Yes", -0.5)
    for bad in ("x", None, True, [1], {"a": 1}):
        loaded = read([simulation([message("user", "so", -0.5, bad), good])])
        (found,) = loaded.trajectories
        assert scores(found) == [None, 0.5], bad
        assert [turn.reason for turn in found.turns] == ["unreadable", None]
        (problem,) = loaded.problems
        assert "$.simulations[0].messages[0].raw_data.choices[0].logprobs.content[1].logprob" in problem.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_named(bad: float) -> None:
    loaded = read([simulation([message("user", "so", -0.5, bad), message("assistant", "Yes", -0.5)])])
    assert scores(loaded.trajectories[0]) == [None, 0.5]
    assert "NaN or Infinity" in loaded.problems[0].sentence
    assert "logprobs.content[1].logprob" in loaded.problems[0].sentence


def test_words_that_look_like_no_numbers_stay_words() -> None:
    talk = simulation(
        [message("user", 'NaN "NaN, -Infinity" \\', -0.5, math.nan), message("assistant", "Infinity", -1.0)]
    )
    loaded = read([talk | {"reward_info": {"reward": math.nan}}])
    (found,) = loaded.trajectories
    assert [turn.content for turn in found.turns] == ['NaN "NaN, -Infinity" \\', "Infinity"]
    assert scores(found) == [None, 1.0]
    assert all("NaN or Infinity stands where a number should" in problem.sentence for problem in loaded.problems)


def test_minus_infinity_is_probability_zero() -> None:
    found = only([simulation([message("user", "so", -0.5, -math.inf), message("assistant", "Yes", -0.5)])])
    assert scores(found) == [math.inf, 0.5]


def test_a_positive_log_probability_is_named() -> None:
    loaded = read([simulation([message("user", "so", -0.5, 0.7), message("assistant", "Yes", -0.5)])])
    assert scores(loaded.trajectories[0]) == [None, 0.5]
    assert "0.7 at token 1 is not a log-probability" in loaded.problems[0].sentence
    assert "$.simulations[0].messages[0].raw_data.choices[0].logprobs.content" in loaded.problems[0].sentence


def test_wrong_types_lose_what_they_touch_and_no_more() -> None:
    broken = simulation(TALK, id={"no": "id"}, trial="first", reward_info="fine")
    loaded = read(results(broken, "no simulation", simulation([*TALK, {"content": "no role"}, 7, 8, 9])))
    first, last = loaded.trajectories
    assert scores(first) == scores(last) == [1.0, 0.25]
    assert last.skipped == {"unreadable": 4}
    told = " ".join(problem.sentence for problem in loaded.problems)
    for place in ("[0].id", "[0].trial", "[0].reward_info", "$.simulations[1]", "messages[2].role", "3 more"):
        assert place in told, place


def test_half_characters_lose_nothing() -> None:
    """Some providers cut tokens in the middle of an emoji; Python's json writes the halves, which are no JSON."""
    talk = simulation(
        [message("user", "so \ud83d", -0.5), message("assistant", "\U0001f600 \\ud83d", -0.25)], id="\udc00"
    )
    assert b"\\ud83d" in json.dumps(talk).encode()
    found = only([talk], with_tokens=True)
    assert (scores(found), found.id) == ([0.5, 0.25], "\ufffd")
    assert [turn.content for turn in found.turns] == ["so \ufffd", "\U0001f600 \\ud83d"]


@pytest.mark.parametrize("argument", [b'"\xff"', b"1e999", b"1" + b"0" * 5000, b'"\\ud800"', b"NaN"])
def test_odd_arguments_of_a_call_lose_nothing(argument: bytes) -> None:
    data = json.dumps([simulation([message("assistant", None, -0.5, tool_calls=call(id="@"))])]).encode()
    found = only(data.replace(b'"@"', argument))
    assert scores(found) == [0.5]
    assert found.turns[0].calls[0].startswith('find {"id":')


def test_of_a_damaged_review_the_rest_is_kept() -> None:
    errors = [{"turn_idx": 3, "source": "agent"}, {"turn_idx": "x"}, 7, None, {"turn_idx": 3, "severity": 1}]
    found = only([simulation([message("assistant", "Yes", turn_idx=3)], review={"errors": errors})])
    assert [mark.kind for mark in found.marks] == ["review_agent_error", "review_unknown_error"]
    data = json.dumps([simulation([message("user", "a")], review={"errors": [{"source": "@"}]})]).encode()
    assert only(data.replace(b"@", b"\xff")).marks == ()


def test_a_reward_that_cannot_be_read_is_not_just_missing() -> None:
    for reward in ({"reward": "high"}, "high", {"reward": math.nan}):
        (found,) = read([simulation(TALK, reward_info=reward)]).trajectories
        assert (found.reward, found.reward_missing) == (None, "unreadable")


def test_damage_beside_the_evidence_is_no_reason_for_a_missing_score() -> None:
    (found,) = read([simulation([message("user", "a", turn_idx="x"), message("user", "b", raw_data=7)])]).trajectories
    assert [turn.reason for turn in found.turns] == ["no_logprobs", "unreadable"]


def test_many_losses_are_counted_and_take_no_time() -> None:
    bad = [simulation([message("user", "a", "x")] * 30, id=str(i)) for i in range(1000)]
    started = time.monotonic()
    loaded = read(bad)
    assert time.monotonic() - started < 10
    assert len(loaded.problems) == 6
    assert sum(problem.count for problem in loaded.problems) == 30_000
    assert "29,995 more parts cannot be read" in loaded.problems[-1].sentence


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b'{"simulations": [{"id": "a", "messages": [', "no whole JSON"),
        (b"not json", "no whole JSON"),
        (b'{"simulations": []} trailing', "no whole JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"simulations": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"other": ' + b'[{"x":' * 50_000 + b"1" + b"}]" * 50_000 + b"}", "nested too deeply"),
        (b'{"results": [], "metadata": {}}', "holds no simulations"),
        (b'{"simulations": 5}', "$.simulations"),
        (b"[1, 2]", "$.simulations[0]"),
        (b"5", "no simulations"),
        (b'"text"', "no simulations"),
        (b"\xff\xfe\x00", "it is written in UTF-16, and must be saved as UTF-8"),
        (b'[{"id": "\\ud800", "task_id": "\xff"}]', "byte 0xff is not UTF-8 text"),
        (b'{"simulations": null}', "holds no simulations"),
    ],
)
def test_garbage_ends_in_one_sentence(data: bytes, words: str) -> None:
    loaded = read(data)
    assert loaded.trajectories == []
    assert loaded.problems, data[:40]
    assert words in " ".join(problem.sentence for problem in loaded.problems)
    assert all(problem.sentence.startswith("log.json") for problem in loaded.problems)


def test_an_endless_turn_is_measured_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howsure.studies.trajectories.turns.MOST_TOKENS_IN_A_TURN", 3)
    loaded = read([simulation([message("user", "so", *[-0.5] * 4), message("assistant", "Yes", -0.5)])])
    assert scores(loaded.trajectories[0]) == [0.5, 0.5]
    (problem,) = loaded.problems
    assert "4 tokens, more than any model writes at once" in problem.sentence


def test_alternatives_never_become_objects() -> None:
    """The bulk of a file is passed over: what is made of it takes far less room than the file."""
    turn = message("user", "so", *[-0.5] * 200)
    for entry in turn["raw_data"]["choices"][0]["logprobs"]["content"]:
        entry["top_logprobs"] *= 5
    data = json.dumps(results(*[simulation([turn] * 10)] * 4)).encode()
    read_tau2(data, "x")  # whatever is made once
    tracemalloc.start()
    read_tau2(data, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * len(data)


# -- real files ----------------------------------------------------------------------------------------------------

REAL = {
    "gpt-4.1-mini_mock_1sim.json": (1, 8, 7),
    "gpt-4.1_airline_default_gpt-4.1_1trials.json": (20, 510, 362),
    "gpt-4.1_retail_default_gpt-4.1_1trials.json": (40, 1105, 806),
    "gpt-4.1_telecom_no-user_4trials_5tasks.json": (20, 404, 212),
    "gpt-4o_telecom_gpt-4o_20sims.json": (20, 715, 500),
    "offline_mock_with_logprobs.json": (1, 6, 5),
    "qwen2.5-7b_airline_default_gpt-4.1_1trials.json": (50, 1632, 1288),
}


@pytest.mark.parametrize("name", REAL)
def test_every_message_of_real_files_is_accounted_for(name: str) -> None:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the shared data is not here: {name}")
    loaded = read(path.read_bytes())
    assert loaded.problems == []
    found = loaded.trajectories
    turns = [turn for one in found for turn in one.turns]
    assert (len(found), sum(one.message_count for one in found), len(turns)) == REAL[name]
    plain = json.loads(path.read_bytes())["simulations"]
    for one, raw in zip(found, plain, strict=True):
        roles = Counter(m["role"] for m in raw["messages"])
        assert Counter(turn.role for turn in one.turns) + Counter(one.skipped) == roles
        assert one.reward == raw["reward_info"]["reward"]
        assert [turn.content for turn in one.turns] == [
            m["content"] or "" for m in raw["messages"] if m["role"] in ("assistant", "user")
        ]
    assert all((turn.uncertainty_nats is None) == (turn.reason is not None) for turn in turns)


def test_the_places_of_a_real_run_with_log_probabilities() -> None:
    path = SHARED / "offline_mock_with_logprobs.json"
    if not path.is_file():
        pytest.skip("the shared data is not here")
    (found,) = read(path.read_bytes()).trajectories
    raw = json.loads(path.read_bytes())["simulations"][0]["messages"]
    for turn in found.turns:
        held = (raw[turn.message_index].get("raw_data") or {}).get("choices", [{}])[0].get("logprobs")
        values = [entry["logprob"] for entry in (held or {}).get("content") or ()]
        expected = -sum(values) / len(values) if values else None
        assert turn.uncertainty_nats == (None if expected is None else pytest.approx(expected, abs=1e-12))
