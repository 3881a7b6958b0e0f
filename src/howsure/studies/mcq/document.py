"""One JSON file with everything: the figures, and a result for every question, failed ones included."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from howsure.errors import InputError
from howsure.runs import Run, Sample
from howsure.runs.files import to_json, write_atomic

_FIGURES = ("accuracy", "avg_margin", "correct_count", "total_count")
_FIELDS = (
    "predicted_index",
    "log_likelihoods",
    "correct",
    "margin",
    "answer_index",
    "group",
    "confidence",
    "entropy_nats",
    "tie",
    "predicted_index_per_token",
    "predicted_index_per_byte",
    "predicted_index_pmi",
    "unconditional_log_likelihoods",
)


def document(summary: dict[str, Any], samples: Sequence[Sample], run: Run) -> dict[str, Any]:
    """The figures first, then where they come from, the rest of the summary, and the results in the data's order."""
    identity = run.manifest.identity
    about = {
        "model": identity.model.get("name"),
        "data": run.manifest.source,
        "prompt": identity.options.get("prompt"),
        "chat": identity.options.get("chat"),
        "run": str(run.path),
    }
    figures = {name: summary[name] for name in _FIGURES}
    return figures | about | summary | {"results": [_result(sample) for sample in samples]}


def _result(sample: Sample) -> dict[str, Any]:
    """What is not known of a question that failed is null, and `reason` says why."""
    fields = {name: sample.result.get(name) for name in _FIELDS}
    return fields | {"id": sample.id, "reason": sample.reason, "detail": sample.detail}


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether its result can be written; the folder is made where it is missing."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"--output-json {target} is a folder: name a file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"--output-json {target} cannot be written: {error.strerror}; name another file") from error


def write_document(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    write_atomic(Path(path), to_json(content, indent=2) + b"\n")
