"""SAUP's single-step functions, under the names by which scripts know them, for those who have the data already.

    from howsure.saup import calculate_normalized_entropy
    calculate_normalized_entropy(message["logprobs"])        # U_i in nats, None where there is nothing to compute

A log-probability object is OpenAI's `{"content": [{"token": …, "logprob": …}, …]}`, or that list itself.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import msgspec

from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.evidence.formats import from_openai
from howsure.measures import turn_statistics
from howsure.studies.trajectories.document import document
from howsure.studies.trajectories.tau2 import read_tau2
from howsure.studies.trajectories.turns import token_rows

__all__ = [
    "calculate_normalized_entropy",
    "calculate_token_level_uncertainties",
    "get_response_statistics",
    "process_all_simulations",
]


def calculate_normalized_entropy(logprobs_object: Any) -> float | None:
    """U_i = (1/|R_i|) Σ −log P(token_j), in nats; None without tokens.

    >>> calculate_normalized_entropy({"content": [{"token": "I", "logprob": -0.5}, {"token": "m", "logprob": -1.5}]})
    1.0
    """
    statistics = get_response_statistics(logprobs_object)
    return None if statistics is None else statistics["normalized_entropy"]


def get_response_statistics(logprobs_object: Any) -> dict[str, Any] | None:
    """All statistics of one response; None without tokens."""
    evidence = _evidence(logprobs_object)
    statistics = None if evidence is None else turn_statistics(evidence.logprobs)
    return None if statistics is None else asdict(statistics)


def calculate_token_level_uncertainties(logprobs_object: Any) -> list[dict[str, Any]]:
    """Token by token: `token`, `probability`, `neg_log_likelihood` (None where the probability is zero)."""
    evidence = _evidence(logprobs_object)
    rows = [] if evidence is None else token_rows(evidence.tokens, evidence.logprobs)
    return [msgspec.structs.asdict(row) for row in rows]


def process_all_simulations(data: Any, verbose: bool = False) -> dict[str, Any]:
    """Step 2 for a τ² results file that is loaded already: metadata, and every simulation with its turns."""
    loaded = read_tau2(_json(data), "data")
    whole = document([loaded], loaded.trajectories, verbose=verbose)
    whole["metadata"]["problems"] = [problem.sentence for problem in loaded.problems]
    return whole


def _json(data: Any) -> bytes:
    """As a file has it, with −inf as a log-probability of zero chance."""
    try:
        return json.dumps(data).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"this is no data of a results file: {error}") from error


def _evidence(logprobs_object: Any) -> TokenLogprobs | None:
    if logprobs_object is None or not (content := _content(logprobs_object)):
        return None
    return from_openai(content)


def _content(logprobs_object: Any) -> Any:
    if isinstance(logprobs_object, dict):
        return logprobs_object.get("content")
    return getattr(logprobs_object, "content", logprobs_object)
