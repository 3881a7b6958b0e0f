"""Two models on the same texts, compared per byte.

Tokens are the model's own, and a model with a closed vocabulary gets unknown words cheaply; bytes are the same for
all. The comparison is paired, block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.measures import bootstrap_ratio, nats_to_bits
from howsure.runs import Run
from howsure.studies.perplexity.judge import LEAST_DRAWN, LEVEL, Row, document_rows, drawn_units, figures
from howsure.studies.perplexity.sums import Sums, together

STUDY = "perplexity"
_SIDE = ("tokens", "words", "bytes", "oov", "bits_per_byte", "perplexity_per_word", "perplexity_per_token")


class Side(NamedTuple):
    """One of the two runs, read."""

    run: Run
    summary: dict[str, Any]
    rows: list[Row]


def read_side(run: Run) -> Side:
    """A finished perplexity run, or one sentence about why it is none."""
    summary = run.summary
    if run.status != "finished" or summary is None:
        raise InputError(f"{run.path} is not finished ({run.status}): run the command that made it again, then compare")
    return Side(run, summary, document_rows(run.records(evidence=False)))


def compare(run_a: Run, run_b: Run, *, seed: int = 0) -> dict[str, Any]:
    """`a` and `b` (the figures of each over the documents that both read), `difference` (B − A) and `notes`."""
    a, b = read_side(run_a), read_side(run_b)
    first, second = (side.run.manifest.identity.data.get("fingerprint") for side in (a, b))
    if first != second:
        raise InputError(f"{a.run.path} and {b.run.path} are over different texts, and cannot be compared")
    pairs = [(x, y) for x, y in zip(a.rows, b.rows, strict=True) if x["reason"] is None and y["reason"] is None]
    found_a, found_b = _figures([x["blocks"] for x, _ in pairs]), _figures([y["blocks"] for _, y in pairs])
    return {
        "study": STUDY,
        "a": _about(a, found_a),
        "b": _about(b, found_b),
        "difference": _difference(pairs, seed),
        "documents": [_document(x, y) for x, y in pairs],
        "notes": _notes(a, b, {"A": found_a, "B": found_b}, len(pairs)),
    }


def _figures(documents: Sequence[Sums]) -> dict[str, Any]:
    return figures(together(documents)) if documents else dict.fromkeys([*_SIDE, "impossible"])


def _about(side: Side, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": str(side.run.path),
        "model": side.run.manifest.identity.model.get("name"),
        "coverage": side.summary["coverage"],
        **{name: found[name] for name in _SIDE},
    }


def _difference(pairs: Sequence[tuple[Row, Row]], seed: int) -> dict[str, Any]:
    """Bits per byte of B less those of A, with the share of documents on which B needs fewer."""
    sums = [_paired(x["blocks"], y["blocks"]) for x, y in pairs]
    found: dict[str, Any] = {"bits_per_byte": None, "low": None, "high": None, "level": LEVEL, "method": None}
    found |= {"documents": len(pairs), "documents_b_needs_less": None}
    if not sums or any(one["impossible"].sum() for one in sums):
        return found
    drawn, how = drawn_units(sums)
    found["bits_per_byte"] = float(nats_to_bits(drawn["nats"].sum() / drawn["bytes"].sum()))
    found["documents_b_needs_less"] = sum(bool(one["nats"].sum() < 0) for one in sums)
    if len(drawn["nats"]) >= LEAST_DRAWN:
        interval = bootstrap_ratio(drawn["nats"], drawn["bytes"], level=LEVEL, seed=seed)
        if interval is not None:
            found["low"], found["high"] = (float(nats_to_bits(end)) for end in (interval.low, interval.high))
            found["method"] = f"{interval.method} of {how}, paired"
    return found


def _paired(a: Sums, b: Sums) -> Sums:
    """B − A block by block; both cut a document into the same bytes, and a token counts where it begins."""
    length = max(len(a["nats"]), len(b["nats"]))
    wide = [{name: np.pad(values, (0, length - len(values))) for name, values in side.items()} for side in (a, b)]
    return {
        "nats": wide[1]["nats"] - wide[0]["nats"],
        "bytes": wide[0]["bytes"],
        "impossible": wide[0]["impossible"] + wide[1]["impossible"],
    }


def _document(a: Row, b: Row) -> dict[str, Any]:
    first, second = (figures(row["blocks"])["bits_per_byte"] for row in (a, b))
    both = None not in (first, second)
    return {
        "document": a["document"],
        "bits_per_byte_a": first,
        "bits_per_byte_b": second,
        "difference": second - first if both else None,
    }


def _notes(a: Side, b: Side, figures_of: dict[str, dict[str, Any]], paired: int) -> list[str]:
    found = []
    if _fingerprint(a) == _fingerprint(b):
        found.append("both runs are of the same model")
    if paired < len(a.rows):
        found.append(f"{len(a.rows) - paired} of {len(a.rows)} documents were not read by both, and are left out")
    for name, one in figures_of.items():
        if one["oov"]:
            found.append(
                f"{name} does not know {one['oov']:,} words and does not have to spell them, which flatters it"
            )
        if one["impossible"]:
            found.append(
                f"{name} gives {one['impossible']:,} tokens probability zero, so that no difference can be given"
            )
    return found


def _fingerprint(side: Side) -> dict[str, Any]:
    """What makes the model this model, whatever its file is called."""
    return {name: value for name, value in side.run.manifest.identity.model.items() if name != "name"}
