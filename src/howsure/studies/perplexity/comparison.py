"""Two models on the same texts, compared per byte.

Tokens are the model's own, and a model with a closed vocabulary gets unknown words cheaply; bytes are the same for
all. The comparison is paired, document by document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.measures import nats_to_bits, ratio_interval
from howsure.runs import Run
from howsure.studies.perplexity.judge import Row, document_rows, figures, in_bits, of_these_only
from howsure.studies.perplexity.sums import Sums, together
from howsure.studies.sureness import LEVEL, ends

STUDY = "perplexity"
_SIDE = (
    "tokens", "words", "bytes", "oov", "sentence_ends", "bits_per_byte", "perplexity_per_word", "perplexity_per_token",
)  # fmt: skip


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


def compare(run_a: Run, run_b: Run) -> dict[str, Any]:
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
        "difference": _difference(pairs),
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


def _difference(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    """Bits per byte of B less those of A, with the number of documents for which B needs fewer.

    The interval is that of Σ (nats of B − nats of A) / Σ bytes over documents; none below five of them.
    """
    found: dict[str, Any] = {"bits_per_byte": None, **ends(None), "note": None}
    found |= {"documents": len(pairs), "documents_b_needs_less": None}
    if not pairs or any(row["blocks"]["impossible"].any() for pair in pairs for row in pair):
        return found
    more = [float(b["blocks"]["nats"].sum() - a["blocks"]["nats"].sum()) for a, b in pairs]
    size = [float(a["blocks"]["bytes"].sum()) for a, _ in pairs]
    interval = ratio_interval(more, size, level=LEVEL)
    return found | {
        "bits_per_byte": nats_to_bits(sum(more) / sum(size)),
        **ends(None if interval is None else in_bits(interval)),
        "note": None if interval is not None else of_these_only(len(pairs)) or "no interval: all changed alike",
        "documents_b_needs_less": sum(nats < 0 for nats in more),
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
    if paired and (figures_of["A"]["sentence_ends"] is None) != (figures_of["B"]["sentence_ends"] is None):
        words, texts = ("A", "B") if figures_of["B"]["sentence_ends"] is None else ("B", "A")
        found.append(f"perplexity per word is of words only in {words}, and pays for line ends too in {texts}")
    return found


def _fingerprint(side: Side) -> dict[str, Any]:
    """What makes the model this model, whatever its file is called."""
    return {name: value for name, value in side.run.manifest.identity.model.items() if name != "name"}
