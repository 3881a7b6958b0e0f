"""What a sample of mcq holds: a line of samples.jsonl, a row in Parquet, a row in the viewer."""

from __future__ import annotations

from howsure.evidence.types import TokenRecord
from howsure.types import Fields


class McqRecord(Fields, kw_only=True):
    """A question, and what the model makes of its choices. What a question that failed has not is None."""

    question: str
    choices: list[str]
    answer_index: int
    """The right choice, counted from 0."""
    group: str | None = None
    cluster: str | None = None
    """Questions with the same cluster are one unit in all intervals, as those about one image are."""
    image_path: str | None = None
    image_sha256: str | None = None
    predicted_index: int | None = None
    """The choice with the largest sum of token log-probabilities."""
    log_likelihoods: list[float] | None = None
    """Of each choice; the logarithm of zero is the lowest number that there is."""
    correct: bool | None = None
    margin: float | None = None
    """Best minus second, in nats; None where the second has probability zero."""
    tie: bool | None = None
    confidence: float | None = None
    entropy_nats: float | None = None
    predicted_index_per_token: int | None = None
    predicted_index_per_byte: int | None = None
    predicted_index_pmi: int | None = None
    unconditional_log_likelihoods: list[float] | None = None
    """Of each choice without its question."""
    pmi_missing: str | None = None
    """Why there is no PMI."""
    token_counts: list[int] | None = None
    """Of each choice, as are the bytes."""
    byte_counts: list[int] | None = None
    straddled: bool | None = None
    """Whether a token lies across the end of the prompt, and all was scored from it on."""


class McqEvidence(Fields):
    choices: list[TokenRecord]
    """The tokens of each choice with their log-probabilities."""
