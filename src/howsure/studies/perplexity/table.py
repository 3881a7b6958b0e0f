"""documents.csv: one line for each document of a run, for spreadsheets and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from howsure.runs.files import write_csv
from howsure.studies.perplexity import judge

TABLE = "documents.csv"
_COLUMNS = (
    "document", "reason", "tokens", "words", "bytes", "oov", "sentence_ends", "impossible", "nll_nats",
    "bits_per_token", "bits_per_word", "bits_per_byte",
    "perplexity_per_token", "perplexity_per_word", "perplexity_per_byte", "perplexity_per_token_without_oov",
)  # fmt: skip


def write_table(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """What is missing or infinite is an empty cell."""
    write_csv(folder / TABLE, [_row(row) for row in rows], _COLUMNS)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    found = judge.figures(row["blocks"]) if row["reason"] is None else {}
    return {"document": row["document"], "reason": row["reason"]} | found
