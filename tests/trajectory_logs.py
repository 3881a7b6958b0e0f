"""τ² results made by hand, with log-probabilities that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def logprobs(*values: Any) -> dict[str, Any]:
    """OpenAI's form, with alternatives that nobody may read by mistake."""
    entry = {"token": "other", "bytes": None, "logprob": -7.5}
    return {
        "content": [
            {"token": f"t{i}", "bytes": [116], "logprob": value, "top_logprobs": [entry, entry]}
            for i, value in enumerate(values)
        ]
    }


def message(role: str, content: str | None, *values: Any, place: str = "choices", **fields: Any) -> dict[str, Any]:
    """A message with its log-probabilities at one of the places where versions of τ² keep them."""
    found: dict[str, Any] = {"role": role, "content": content, "tool_calls": None, "turn_idx": 99, "raw_data": None}
    if values:
        held = logprobs(*values)
        if place == "message":
            found["logprobs"] = held
        elif place == "raw_data":
            found["raw_data"] = {"finish_reason": "stop", "index": 0, "logprobs": held}
        else:
            found["raw_data"] = {"id": "x", "choices": [{"index": 0, "message": {}, "logprobs": held}]}
    return found | fields


def call(name: str = "find", **arguments: Any) -> list[dict[str, Any]]:
    return [{"id": "c1", "name": name, "arguments": arguments, "requestor": "assistant"}]


def greeting() -> dict[str, Any]:
    return message("assistant", "Hi! How can I help you today?", cost=0.0)


def simulation(messages: Sequence[dict[str, Any]] | None, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": "sim_1",
        "task_id": "task_1",
        "trial": 0,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0, "db_check": {"db_match": True}},
        "messages": None if messages is None else list(messages),
    }
    return found | fields


def results(*simulations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    info = {"agent_info": {"llm": "gpt-x"}, "environment_info": {"domain_name": "airline", "policy": "…"}}
    return {"timestamp": "2025-11-06T23:54:05", "info": info, "tasks": [], "simulations": list(simulations)} | fields


def scored(agent: Sequence[float], user: Sequence[float], **fields: Any) -> dict[str, Any]:
    """A simulation whose turns have one token each, user first, by turns."""
    turns = []
    for place in range(max(len(agent), len(user))):
        turns += [message("user", "so", -user[place])] if place < len(user) else []
        turns += [message("assistant", "yes", -agent[place])] if place < len(agent) else []
    return simulation(turns, **fields)
