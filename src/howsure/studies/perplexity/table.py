"""documents.csv: one line for each document of a run, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from howsure.runs.files import write_atomic
from howsure.studies.perplexity import judge

TABLE = "documents.csv"
_COLUMNS = (
    "document", "reason", "tokens", "words", "bytes", "oov", "impossible", "nll_nats",
    "bits_per_token", "bits_per_word", "bits_per_byte",
    "perplexity_per_token", "perplexity_per_word", "perplexity_per_byte", "perplexity_per_token_without_oov",
)  # fmt: skip


def write_table(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """What is missing or infinite is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        found = judge.figures(row["blocks"]) if row["reason"] is None else {}
        writer.writerow({"document": row["document"], "reason": row["reason"]} | found)
    write_atomic(folder / TABLE, text.getvalue().encode("utf-8"))
