"""Token log-probabilities as other systems write them: OpenAI's form, Gemini's form.

Both readers take plain dictionaries (a log file) and the objects of the vendor's SDK alike, and both name the
place of what they cannot read. Nothing is filled in: a token without a log-probability is an error, and
a list that is absent altogether is for the caller to count as missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from howsure.errors import EvidenceError
from howsure.evidence.types import TokenLogprobs, TopAlternatives


def from_openai(logprobs: Any) -> TokenLogprobs:
    """From `{"content": [{token, logprob, bytes, top_logprobs}, …]}`, its content list, or the SDK's objects.

    >>> from_openai({"content": [{"token": "Hi", "logprob": -0.25}]}).nll_nats
    0.25
    """
    entries = logprobs if isinstance(logprobs, Sequence) else _get(logprobs, "content")
    entries = _entries(entries, "logprobs.content")
    places = [f"logprobs.content[{i}]" for i in range(len(entries))]
    pairs = [_openai_pair(entry, place) for entry, place in zip(entries, places, strict=True)]
    rows = [_get(entry, "top_logprobs") for entry in entries]
    return TokenLogprobs(
        tokens=tuple(token for token, _, _ in pairs),
        logprobs=np.array([logprob for _, logprob, _ in pairs], dtype=np.float64),
        token_bytes=_all_or_none([known for _, _, known in pairs]),
        top=_top(rows, places, "top_logprobs", _openai_pair),
    )


def to_openai(evidence: TokenLogprobs) -> dict[str, Any]:
    """OpenAI's form of the evidence; what the form has no room for (exact entropies) is left out."""
    data = evidence.to_dict()
    content = []
    for i, (token, logprob) in enumerate(zip(data["tokens"], data["logprobs"], strict=True)):
        entry = _openai_entry(token, logprob, evidence.token_bytes, i)
        if evidence.top is not None:
            top = data["top"]
            rows = range(top["starts"][i], top["starts"][i + 1])
            entry["top_logprobs"] = [
                _openai_entry(top["tokens"][j], top["logprobs"][j], evidence.top.token_bytes, j) for j in rows
            ]
        content.append(entry)
    return {"content": content}


def from_gemini(logprobs_result: Any) -> TokenLogprobs:
    """From Gemini's `logprobs_result` (`chosen_candidates`, `top_candidates`), in snake or camel case.

    >>> from_gemini({"chosenCandidates": [{"token": "Hi", "logProbability": -0.25}]}).nll_nats
    0.25
    """
    chosen = _entries(_get(logprobs_result, "chosen_candidates", "chosenCandidates"), "chosen_candidates")
    places = [f"chosen_candidates[{i}]" for i in range(len(chosen))]
    pairs = [_gemini_pair(entry, place) for entry, place in zip(chosen, places, strict=True)]
    steps = _get(logprobs_result, "top_candidates", "topCandidates")
    rows: list[Any] = [None] * len(chosen)
    if steps is not None:
        steps = _entries(steps, "top_candidates")
        if len(steps) != len(chosen):
            raise EvidenceError(
                f"top_candidates has {len(steps)} steps for {len(chosen)} chosen candidates; they must agree"
            )
        rows = [_get(step, "candidates") for step in steps]
    return TokenLogprobs(
        tokens=tuple(token for token, _, _ in pairs),
        logprobs=np.array([logprob for _, logprob, _ in pairs], dtype=np.float64),
        top=_top(rows, places, "candidates", _gemini_pair),
    )


def _openai_pair(entry: Any, place: str) -> tuple[str, float, bytes | None]:
    return (
        _text(_get(entry, "token"), f"{place}.token"),
        _number(_get(entry, "logprob"), f"{place}.logprob"),
        _bytes(_get(entry, "bytes"), f"{place}.bytes"),
    )


def _gemini_pair(entry: Any, place: str) -> tuple[str, float, bytes | None]:
    value = _get(entry, "log_probability", "logProbability")
    return (
        _text(_get(entry, "token"), f"{place}.token"),
        _number(value, f"{place}.log_probability"),
        None,
    )


def _openai_entry(token: str, logprob: float, known: tuple[bytes | None, ...] | None, i: int) -> dict[str, Any]:
    value = known[i] if known is not None else None
    return {"token": token, "logprob": logprob, "bytes": None if value is None else list(value)}


def _top(rows: Sequence[Any], places: Sequence[str], field: str, pair: Any) -> TopAlternatives | None:
    if all(row is None for row in rows):
        return None
    read = [
        [pair(entry, f"{place}.{field}[{j}]") for j, entry in enumerate(_entries(row or [], f"{place}.{field}"))]
        for row, place in zip(rows, places, strict=True)
    ]
    known = [[b for _, _, b in row] for row in read]
    any_known = any(b is not None for row in known for b in row)
    return TopAlternatives.from_rows(
        [[(token, logprob) for token, logprob, _ in row] for row in read], known if any_known else None
    )


def _get(thing: Any, *names: str) -> Any:
    """A field of a dictionary or of an SDK object, under the first of its names that is there."""
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None


def _entries(value: Any, place: str) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    raise EvidenceError(f"{place} must be a list of token entries, not {type(value).__name__}")


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    raise EvidenceError(f"{place} must be a text, not {type(value).__name__}")


def _number(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise EvidenceError(f"{place} is too large for a number") from error
    raise EvidenceError(f"{place} must be a number, not {type(value).__name__}")


def _bytes(value: Any, place: str) -> bytes | None:
    if value is None:
        return None
    try:
        return bytes(_entries(value, place))
    except (TypeError, ValueError) as error:
        raise EvidenceError(f"{place} must hold numbers from 0 to 255") from error


def _all_or_none(values: Sequence[bytes | None]) -> tuple[bytes | None, ...] | None:
    return tuple(values) if any(value is not None for value in values) else None
