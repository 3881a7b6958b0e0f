"""Step 2: the document's fields and figures, from log-probabilities that are known."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from howsure.errors import EvidenceError, InputError
from howsure.saup import (
    calculate_normalized_entropy,
    calculate_token_level_uncertainties,
    get_response_statistics,
    process_all_simulations,
)
from trajectory_logs import call, greeting, logprobs, message, results, scored, simulation

AGENT, USER = (-0.074, -0.0008, -0.0003), (-0.3, -1.7)
TALK = results(
    simulation(
        [
            greeting(),
            message("user", "Hi there! I'm calling because " + "x" * 200, *USER),
            message("assistant", "I can help", *AGENT, place="message"),
            message("assistant", None, tool_calls=call(id=1)),
            {"role": "tool", "content": "{}", "error": False},
            message("assistant", "Done", -2.5, place="raw_data"),
            message("user", "###STOP###", -0.01),
        ],
        id="sim_123",
        task_id="airline_cancel_reservation",
    ),
    scored([0.5, 0.7], [0.2], id="sim_124", trial=1),
)


def naive(values: tuple[float, ...]) -> dict[str, Any]:
    """The statistics of a turn, written out."""
    u = [-value for value in values]
    mean = sum(u) / len(u)
    return {
        "normalized_entropy": mean,
        "total_entropy": sum(u),
        "token_count": len(u),
        "min_uncertainty": min(u),
        "max_uncertainty": max(u),
        "std_uncertainty": math.sqrt(sum((x - mean) ** 2 for x in u) / len(u)),
        "mean_probability": sum(math.exp(-x) for x in u) / len(u),
    }


def test_the_structure_and_every_figure() -> None:
    found = process_all_simulations(TALK)
    assert found["metadata"]["source_file"] == "2025-11-06T23:54:05"
    assert found["metadata"]["total_simulations"] == 2
    first, second = found["results"]
    assert {name: first[name] for name in ("simulation_id", "task_id", "trial", "turn_count")} == {
        "simulation_id": "sim_123",
        "task_id": "airline_cancel_reservation",
        "trial": 0,
        "turn_count": 6,
    }
    agent, user = naive(AGENT)["normalized_entropy"], naive(USER)["normalized_entropy"]
    expected = [None, user, agent, None, 2.5, 0.01]
    rows = first["uncertainty_scores"]
    assert [row["ui_score"] for row in rows] == [None if x is None else pytest.approx(x, abs=1e-12) for x in expected]
    assert [row["turn"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["actor"] for row in rows] == ["agent", "user", "agent", "agent", "agent", "user"]
    assert [row["role"] for row in rows] == ["assistant", "user", "assistant", "assistant", "assistant", "user"]
    assert rows[1]["content_preview"] == ("Hi there! I'm calling because " + "x" * 200)[:100]
    assert [row.get("reason") for row in rows] == ["scripted", None, None, "tool_call", None, None]
    assert rows[5]["control_words"] == ["###STOP###"]
    summary = first["summary"]
    assert summary["mean_uncertainty_overall"] == pytest.approx((user + agent + 2.5 + 0.01) / 4, abs=1e-12)
    assert summary["mean_uncertainty_agent"] == pytest.approx((agent + 2.5) / 2, abs=1e-12)
    assert summary["mean_uncertainty_user"] == pytest.approx((user + 0.01) / 2, abs=1e-12)
    assert summary["max_uncertainty_overall"] == 2.5
    counts = ("agent_turn_count", "user_turn_count", "tool_call_turn_count", "scored_turn_count")
    assert [summary[name] for name in counts] == [4, 2, 1, 4]
    assert summary["missing"] == {"scripted": 1, "tool_call": 1}
    assert second["trial"] == 1
    assert second["summary"]["mean_uncertainty_agent"] == pytest.approx(0.6)


def test_the_fields_that_scripts_know_come_first_and_in_order() -> None:
    (row, _) = process_all_simulations(TALK)["results"]
    turn = row["uncertainty_scores"][1]
    assert list(turn)[:5] == ["turn", "actor", "role", "ui_score", "content_preview"]
    assert {"simulation_id", "task_id", "trial", "turn_count", "uncertainty_scores", "summary"} <= set(row)
    assert list(row["summary"])[:6] == [
        "mean_uncertainty_overall", "mean_uncertainty_agent", "mean_uncertainty_user",
        "max_uncertainty_overall", "agent_turn_count", "user_turn_count",
    ]  # fmt: skip


def test_verbose_adds_the_statistics_of_each_turn() -> None:
    rows = process_all_simulations(TALK, verbose=True)["results"][0]["uncertainty_scores"]
    assert rows[0]["statistics"] is None
    assert rows[2]["statistics"] == {name: pytest.approx(value, abs=1e-12) for name, value in naive(AGENT).items()}
    assert list(rows[2]["statistics"]) == list(naive(AGENT))
    assert "statistics" not in process_all_simulations(TALK)["results"][0]["uncertainty_scores"][2]


def test_it_is_json_whatever_was_read() -> None:
    impossible = results(simulation([message("user", "so", -9999.0), message("assistant", "y", -0.5)]))
    found = process_all_simulations(impossible, verbose=True)
    json.dumps(found, allow_nan=False)
    row = found["results"][0]
    first, second = row["uncertainty_scores"]
    assert (first["ui_score"], first["reason"], first["infinite"]) == (None, "impossible_token", True)
    assert "infinite" not in second
    summary = row["summary"]
    assert (summary["mean_uncertainty_user"], summary["mean_uncertainty_overall"]) == (None, 0.5)
    assert summary["infinite_turns"] == {"overall": 1, "agent": 0, "user": 1}
    assert (summary["scored_turn_count"], summary["missing"]) == (2, {})
    assert summary["max_uncertainty_overall"] is None
    assert summary["mean_uncertainty_agent"] == 0.5


def test_nothing_known_is_null_and_never_zero() -> None:
    found = process_all_simulations(results(simulation([message("user", "a"), message("assistant", "b")])))
    summary = found["results"][0]["summary"]
    assert [summary[name] for name in list(summary)[:4]] == [None] * 4
    assert found["metadata"]["coverage"] == "scored 0 of 2; 2 missing: 2 no logprobs"


def test_what_cannot_be_read_is_told() -> None:
    found = process_all_simulations([simulation([message("user", "a", "no number")])])
    assert "logprob" in found["metadata"]["problems"][0]


# -- the functions -------------------------------------------------------------------------------------------------


def test_the_three_functions() -> None:
    held = logprobs(*AGENT)
    assert calculate_normalized_entropy(held) == pytest.approx(sum(-x for x in AGENT) / 3, abs=1e-15)
    assert get_response_statistics(held) == {name: pytest.approx(value) for name, value in naive(AGENT).items()}
    rows = calculate_token_level_uncertainties(held)
    assert [row["token"] for row in rows] == ["t0", "t1", "t2"]
    assert [row["neg_log_likelihood"] for row in rows] == [-value for value in AGENT]
    assert [row["probability"] for row in rows] == pytest.approx([math.exp(value) for value in AGENT])
    assert calculate_normalized_entropy(held["content"]) == calculate_normalized_entropy(held)


@pytest.mark.parametrize("nothing", [None, {}, {"content": None}, {"content": []}, []])
def test_nothing_has_no_uncertainty(nothing: Any) -> None:
    assert calculate_normalized_entropy(nothing) is None
    assert get_response_statistics(nothing) is None
    assert calculate_token_level_uncertainties(nothing) == []


@pytest.mark.parametrize("bad", [math.nan, 0.5, "x"])
def test_what_is_no_log_probability_is_refused(bad: Any) -> None:
    with pytest.raises(EvidenceError, match="logprob|log-probabilit"):
        calculate_normalized_entropy({"content": [{"token": "a", "logprob": bad}]})


def test_probability_zero_token_by_token() -> None:
    (row,) = calculate_token_level_uncertainties({"content": [{"token": "a", "logprob": -9999.0}]})
    assert row == {"token": "a", "probability": 0.0, "neg_log_likelihood": None}
    assert calculate_normalized_entropy({"content": [{"token": "a", "logprob": -9999.0}]}) == math.inf


def test_loaded_data_with_infinities_is_read_as_the_file_would_be() -> None:
    data = [simulation([message("user", "a", -0.5, -math.inf), message("assistant", "b \ud83d", -0.25)])]
    found = process_all_simulations(data)
    assert found["metadata"]["problems"] == []
    first, second = found["results"][0]["uncertainty_scores"]
    assert (first["ui_score"], first["reason"], second["ui_score"]) == (None, "impossible_token", 0.25)
    with pytest.raises(InputError, match="no data of a results file"):
        process_all_simulations({"simulations": [object()]})
