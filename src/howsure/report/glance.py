"""One or two plots of a study that are made of its summary alone: what a notebook shows below the figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from htpy import Element

from howsure.report.pages.axes import Axis
from howsure.report.pages.named import Named, dots
from howsure.report.pages.sureness import reliability, risk_coverage
from howsure.report.text import counted
from howsure.studies.trajectories.scores import score_name

MOST = 2
SHOWN_ROWS = 12
_CONDITIONS = {
    "h_x": "neither known, H(X)",
    "h_x_given_s": "grounding known, H(X|S)",
    "h_x_given_ls": "both known, H(X|L,S)",
}
_RANKED = ("turn_count", "mean", "rms", "maximum")
"""One score of each kind; all of them are in the report."""


def plots(summary: Mapping[str, Any]) -> list[Element]:
    """None for a study that nobody knows here, or where nothing could be measured."""
    make = _BY_STUDY.get(summary["study"])
    return [] if make is None else make(summary)[:MOST]


def _mcq(summary: Mapping[str, Any]) -> list[Element]:
    return _sureness(summary, "questions")


def _sureness(found: Mapping[str, Any] | None, what: str) -> list[Element]:
    """Confidence against what was right, where both are known."""
    if not found or not found.get("calibration"):
        return []
    drawn = [reliability(found["calibration"], what)]
    return drawn + ([risk_coverage(found["selective"], what)] if found.get("selective") else [])


def _perplexity(summary: Mapping[str, Any]) -> list[Element]:
    read = [row for row in summary["documents"] if row["bits_per_byte"] is not None]
    if len(read) < 2:
        return []
    hardest = sorted(read, key=lambda row: -row["bits_per_byte"])[:SHOWN_ROWS]
    rows = [Named(str(row["document"]), row["bits_per_byte"]) for row in hardest]
    caption = "Bits per byte of each document, the hardest first; dashed: all together."
    everything = summary["corpus"]["bits_per_byte"]
    level = None if everything is None else (everything, "all")
    return [dots("Which documents are hard?", caption, Axis("bits per byte", 0), rows, level=level)]


def _trajectories(summary: Mapping[str, Any]) -> list[Element]:
    for group in summary["groups"]:
        rows = [
            Named.of(f"{one['whose']}: {score_name(one['score'])}", area)
            for one in group["scores"]
            if one["score"] in _RANKED and (area := one["auroc"]) and area["value"] is not None
        ]
        if rows:
            proxy = "" if group["scored_by"] == "log" else f" Scores are a proxy: {group['scored_by']}'s surprise."
            caption = (
                f"{group['failures']} of {group['judged']} runs failed. AUROC is the chance that a failed run has the "
                "higher score than one that succeeded: 0.5 says nothing, 1 says all; "
                f"turn count is the score to beat.{proxy}"
            )
            axis = Axis("AUROC", 0, 1)
            title = "Does uncertainty foretell failure?"
            return [dots(title, caption, axis, rows, level=(0.5, "chance"), over="tasks")]
    return []


def _trust(summary: Mapping[str, Any]) -> list[Element]:
    known = summary["mean_entropy_bits"]
    rows = [Named.of(words, one) for name, words in _CONDITIONS.items() if (one := known.get(name)) is not None]
    caption = "Mean entropy of the action in the three conditions; lower is surer."
    drawn = [dots("How open is the action?", caption, Axis("entropy, bits", 0), rows, over="episodes")] if rows else []
    return drawn + _sureness(summary.get("sureness"), "actions")[:1]


def _grounding(summary: Mapping[str, Any]) -> list[Element]:
    known = next((one for one in summary["knows"].values() if one.get("selective")), None)
    drawn = [] if known is None else [risk_coverage(known["selective"], "clicks")]
    split = next(((kind, rows) for kind, rows in summary["splits"].items() if len(rows) > 1), None)
    return drawn if split is None else [*drawn, _split(*split)]


def _split(kind: str, rows: list[dict[str, Any]]) -> Element:
    shown = [
        Named.of(
            "(none)" if row["value"] is None else str(row["value"]),
            row,
            counted(row["count"], "sample"),
            value="accuracy",
        )
        for row in rows[:SHOWN_ROWS]
    ]
    caption = "Share of samples whose click lands within δ of the middle of its target."
    axis = Axis("accuracy", 0, 1, percent=True)
    return dots(f"Accuracy by {kind.replace('_', ' ')}", caption, axis, shown, over="screens")


_BY_STUDY: dict[str, Callable[[Mapping[str, Any]], list[Element]]] = {
    "mcq": _mcq,
    "perplexity": _perplexity,
    "trajectories": _trajectories,
    "trust": _trust,
    "trust coherent": _trust,
    "grounding": _grounding,
}
