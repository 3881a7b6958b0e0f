"""Conversations as JSON lines: what is there is read, what is not is counted, and a bad line costs no other line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from howsure.studies.trajectories.chats import read_chats
from howsure.studies.trajectories.messages import SHOWN_LOSSES
from howsure.studies.trajectories.turns import Loaded, Mark, Said, Trajectory

SURE, UNSURE = [-0.25, -0.75], [-1.5, -2.5, -2.0]


def content(values: list[Any]) -> list[dict[str, Any]]:
    """Tokens as OpenAI writes them, alternatives and all."""
    top = [{"token": "x", "logprob": -3.0, "bytes": [120]}]
    return [{"token": f" w{i}", "logprob": value, "bytes": None, "top_logprobs": top} for i, value in enumerate(values)]


def chat(**fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You sell tickets."},
        {"role": "user", "content": "Two for tonight, please."},
        {"role": "assistant", "content": "At what time?", "logprobs": {"content": content(SURE)}},
        {"role": "user", "content": "At eight."},
        {"role": "assistant", "content": "Here they are.", "logprobs": {"content": content(UNSURE)}},
    ]
    return {"messages": messages, **fields}


def answered(body: bool = False, **message: Any) -> dict[str, Any]:
    """A request with its response."""
    said = {"role": "assistant", "content": "Blue.", **message}
    answer = {"model": "gpt-x", "choices": [{"index": 0, "message": said, "logprobs": {"content": content(SURE)}}]}
    asked = [{"role": "user", "content": "What colour is the sky?"}]
    return {"messages": asked, "response": {"status_code": 200, "body": answer} if body else answer}


def lines(*chats: Any, end: str = "\n") -> bytes:
    return end.join(one if isinstance(one, str) else json.dumps(one) for one in chats).encode()


def read(*chats: Any, **options: Any) -> Loaded:
    return read_chats(lines(*chats), "chats.jsonl", **options)


def only(loaded: Loaded) -> Trajectory:
    assert [problem.sentence for problem in loaded.problems] == []
    (trajectory,) = loaded.trajectories
    return trajectory


def scores(trajectory: Trajectory) -> list[float | None]:
    return [turn.uncertainty_nats for turn in trajectory.turns]


def message(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": "Hm.", **fields}]}


# -- what a line becomes -------------------------------------------------------------------------------------------


def test_a_conversation_becomes_turns_with_their_uncertainty() -> None:
    one = only(read(chat(id="a", task_id="tickets", trial=2, model="gpt-x", reward=0.5)))
    assert (one.id, one.task_id, one.trial, one.agent, one.reward) == ("a", "tickets", 2, "gpt-x", 0.5)
    assert scores(one) == [None, pytest.approx(0.5, abs=1e-12), None, pytest.approx(2.0, abs=1e-12)]
    assert [turn.actor for turn in one.turns] == ["user", "agent", "user", "agent"]
    assert [turn.reason for turn in one.turns] == ["no_logprobs", None, "no_logprobs", None]
    assert [turn.message_index for turn in one.turns] == [1, 2, 3, 4]
    assert one.skipped == {"system": 1}
    assert one.said[0] == Said("system", "You sell tickets.")
    assert one.opening == "Two for tonight, please."


def test_without_id_and_task_a_conversation_is_alone() -> None:
    loaded = read(chat(), "", chat(id=7), chat(custom_id="request-1"))
    assert [(one.id, one.task_id) for one in loaded.trajectories] == [
        ("line 1", "line 1"),
        ("7", "7"),
        ("request-1", "request-1"),
    ]
    assert [one.index for one in loaded.trajectories] == [0, 2, 3]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reward": 1}, (1.0, None)),
        ({"reward": 0}, (0.0, None)),
        ({"success": True}, (1.0, None)),
        ({"success": False}, (0.0, None)),
        ({"reward": 0.25, "success": True}, (0.25, None)),
        ({"reward": None, "success": None}, (None, "no_reward")),
        ({}, (None, "no_reward")),
    ],
)
def test_the_reward_is_a_number_a_success_or_missing(fields: dict[str, Any], expected: Any) -> None:
    one = only(read(chat(**fields)))
    assert (one.reward, one.reward_missing) == expected


@pytest.mark.parametrize("role", ["tool", "function", "system", "developer"])
def test_who_takes_no_turns_is_heard(role: str) -> None:
    one = only(read({"messages": [{"role": role, "content": "So be it."}, {"role": "user", "content": "Yes."}]}))
    assert one.said == [Said(role, "So be it."), Said("user", "Yes.", 1)]
    assert one.skipped == {role: 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": {"content": content(UNSURE), "refusal": None}},
        {"logprobs": content(UNSURE)},
        {"logprobs": {"content": None, "refusal": content(UNSURE)}},
        {"raw_data": {"logprobs": {"content": content(UNSURE)}}},
        {"raw_data": {"choices": [{"logprobs": {"content": content(UNSURE)}}]}},
        {"logprobs": [], "raw_data": {"logprobs": {"content": content(UNSURE)}}},
    ],
)
def test_log_probabilities_are_found_wherever_they_are_kept(fields: dict[str, Any]) -> None:
    assert scores(only(read(message(**fields)))) == [pytest.approx(2.0, abs=1e-12)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "no_logprobs"),
        ({"logprobs": None}, "no_logprobs"),
        ({"logprobs": {"content": []}}, "no_logprobs"),
        ({"content": "Hi! How can I help you today?"}, "scripted"),
        ({"content": None}, "empty_message"),
        ({"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, "tool_call"),
        ({"content": None, "refusal": "I will not."}, "no_logprobs"),
    ],
)
def test_a_turn_without_log_probabilities_says_why(fields: dict[str, Any], reason: str) -> None:
    (turn,) = only(read(message(**fields))).turns
    assert (turn.uncertainty_nats, turn.reason) == (None, reason)


def test_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "x"}}, {"text": "a cat"}]
    (turn,) = only(read(message(content=parts))).turns
    assert (turn.content, turn.kind) == ("Look:\na cat", "text")


def test_calls_of_tools_are_said_and_their_errors_belong_to_the_caller() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "book", "arguments": '{"seats": 2}'}}]
    one = only(
        read(
            {
                "messages": [
                    {"role": "user", "content": "Book it."},
                    {"role": "assistant", "content": None, "tool_calls": calls, "logprobs": content(SURE)},
                    {"role": "tool", "content": "sold out", "error": True},
                    {"role": "assistant", "content": "Ah.", "function_call": {"name": "wait", "arguments": "{}"}},
                ]
            }
        )
    )
    assert [turn.calls for turn in one.turns] == [(), ('book {"seats": 2}',), ("wait {}",)]
    assert [turn.kind for turn in one.turns] == ["text", "tool_call", "tool_call"]
    assert scores(one)[1] == pytest.approx(0.5, abs=1e-12)
    assert one.marks == (Mark("tool_error", 2),)


def test_tokens_are_shown_where_asked_for() -> None:
    (turn,) = only(read(message(logprobs={"content": content([-0.5])}), with_tokens=True)).turns
    assert list(map(dict, turn.tokens or ())) == [
        {"token": " w0", "probability": pytest.approx(0.60653066), "neg_log_likelihood": 0.5}
    ]
    assert only(read(message(logprobs={"content": content([-0.5])}))).turns[0].tokens is None


def test_tokens_without_spelling_are_measured_and_not_shown() -> None:
    (turn,) = only(read(message(logprobs=[{"logprob": -1.0}, {"logprob": -2.0}]), with_tokens=True)).turns
    assert (turn.uncertainty_nats, turn.tokens) == (1.5, None)


# -- requests with their responses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [False, True])
def test_the_answer_of_a_response_is_the_last_turn(body: bool) -> None:
    one = only(read(answered(body)))
    assert [(turn.actor, turn.content) for turn in one.turns] == [
        ("user", "What colour is the sky?"),
        ("agent", "Blue."),
    ]
    assert scores(one) == [None, pytest.approx(0.5, abs=1e-12)]
    assert one.agent == "gpt-x"


def test_a_response_alone_is_a_conversation_of_one_turn() -> None:
    alone = answered(True)
    del alone["messages"]
    assert scores(only(read(alone))) == [pytest.approx(0.5, abs=1e-12)]


def test_an_answer_may_hold_its_log_probabilities_itself() -> None:
    line = answered(logprobs=content(UNSURE))
    line["response"]["choices"][0]["logprobs"] = None
    assert scores(only(read(line)))[-1] == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize("response", [{}, {"choices": []}, {"status_code": 500, "body": {"error": "busy"}}])
def test_a_response_without_an_answer_is_told(response: dict[str, Any]) -> None:
    loaded = read(answered() | {"response": response})
    (problem,) = loaded.problems
    assert problem.reason == "no_answer"
    assert problem.sentence.startswith("chats.jsonl, line 1: $.response holds no message")
    assert len(loaded.trajectories[0].turns) == 1


def test_a_damaged_answer_is_unreadable_and_not_missing() -> None:
    line = answered()
    line["response"]["choices"][0]["logprobs"]["content"][1]["logprob"] = "low"
    loaded = read(line)
    assert loaded.trajectories[0].turns[-1].reason == "unreadable"
    assert "line 1: $.response.choices[0].logprobs.content[1].logprob" in loaded.problems[0].sentence


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"messages": [', "truncated"),
        ("nonsense", "malformed"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ("{}", "holds no conversation"),
        ('{"messages": "hello"}', "$.messages: Expected `array | null`, got `str`"),
        ('{"messages": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_costs_no_other_line(bad: str, why: str) -> None:
    loaded = read(chat(id="a"), bad, chat(id="b"))
    assert [one.id for one in loaded.trajectories] == ["a", "b"]
    (problem,) = loaded.problems
    assert problem.reason == "bad_line"
    assert problem.sentence.startswith("chats.jsonl, line 2: ")
    assert why in problem.sentence
    assert problem.sentence.endswith(
        "each line must be a JSON object with `messages`, or with the `response` of a model"
    )


def test_bytes_that_are_no_text_are_a_bad_line() -> None:
    good = lines(chat())
    loaded = read_chats(good + b"\n" + good.replace(b"tickets", b"ticket\xff"), "chats.jsonl")
    assert len(loaded.trajectories) == 1
    assert "line 2: byte 0xff is not UTF-8 text" in loaded.problems[0].sentence


def test_blank_lines_windows_ends_and_byte_order_marks_do_no_harm() -> None:
    data = b"\xef\xbb\xbf" + lines(chat(id="a"), "", "  \t", chat(id="b"), "", end="\r\n")
    loaded = read_chats(data, "chats.jsonl")
    assert [one.id for one in loaded.trajectories] == ["a", "b"]
    assert loaded.problems == []
    assert loaded.byte_count == len(data)


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_one_sentence(data: bytes) -> None:
    loaded = read_chats(data, "chats.jsonl")
    assert [problem.sentence for problem in loaded.problems] == ["chats.jsonl is empty; delete it, or write it again"]


def test_a_file_without_a_good_line_is_one_sentence() -> None:
    loaded = read_chats(json.dumps(chat(), indent=2).encode(), "pretty.jsonl")
    (problem,) = loaded.problems
    assert problem.reason == "malformed"
    assert problem.sentence.startswith("pretty.jsonl, line 1: ")
    assert "none of its" in problem.sentence


def test_a_part_that_is_damaged_costs_only_itself() -> None:
    line = chat(reward="much", trial="first")
    line["messages"][2]["logprobs"]["content"][0]["logprob"] = None
    line["messages"][3] = 5
    loaded = read(chat(), line)
    one = loaded.trajectories[1]
    assert (one.reward, one.reward_missing, one.trial) == (None, "no_reward", None)
    assert [turn.reason for turn in one.turns] == ["no_logprobs", "unreadable", None]
    assert scores(one)[-1] == pytest.approx(2.0, abs=1e-12)
    assert one.skipped == {"system": 1, "unreadable": 1}
    assert [problem.reason for problem in loaded.problems] == ["unreadable"] * 4
    assert all("line 2: $." in problem.sentence for problem in loaded.problems)


def test_many_damaged_parts_are_counted() -> None:
    loaded = read(*[chat(trial="first")] * 9)
    assert len(loaded.trajectories) == 9
    assert len(loaded.problems) == SHOWN_LOSSES + 1
    assert "4 more parts" in loaded.problems[-1].sentence


def test_what_is_no_log_probability_is_refused_by_its_place() -> None:
    loaded = read(chat(), message(logprobs=content([-1.0, 0.5])))
    (turn,) = loaded.trajectories[1].turns
    assert (turn.uncertainty_nats, turn.reason) == (None, "unreadable")
    assert "line 2: $.messages[0].logprobs" in loaded.problems[0].sentence


def test_numbers_as_python_writes_them() -> None:
    none = json.dumps(message(logprobs=content([-1.0, float("nan")])))
    zero = json.dumps(message(logprobs=content([-1.0, float("-inf")])) | {"reward": float("nan")})
    loaded = read(none, zero, chat())
    first, second, _ = loaded.trajectories
    assert (first.turns[0].uncertainty_nats, first.turns[0].reason) == (None, "unreadable")
    assert second.turns[0].uncertainty_nats == float("inf")
    assert (second.reward, second.reward_missing) == (None, "no_reward")
    assert "NaN or Infinity stands where a number should" in loaded.problems[0].sentence


def test_numbers_without_their_tokens_can_be_read_with_tokens() -> None:
    older = {"role": "assistant", "content": "ab", "logprobs": {"token_logprobs": [-1.0, -2.0], "tokens": ["a"]}}
    loaded = read_chats(json.dumps({"messages": [older]}).encode(), "chats.jsonl", with_tokens=True)
    (turn,) = loaded.trajectories[0].turns
    assert (turn.uncertainty_nats, turn.tokens, loaded.problems) == (1.5, None, [])
