"""A multiple-choice run in the terminal: which choices won, and whether the model should be so sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.report.tables import cut_to_fit, keep_whole, plain_table, print_summary
from howsure.report.text import percent, value_with_interval
from howsure.runs import Run, Sample

SHOWN_GROUPS = 30
_SCORES = {
    "sum": "sum of log-probabilities, decides",
    "per_token": "mean per token",
    "per_byte": "mean per byte",
    "pmi": "PMI: less the choice by itself",
}


def print_mcq(console: Console, summary: dict[str, Any], samples: Sequence[Sample], run: Run) -> None:
    print_summary(console, summary, samples, run, sections(summary))


def sections(summary: dict[str, Any]) -> list[RenderableType]:
    found: list[RenderableType] = [_scores(summary)]
    if summary["calibration"] is not None:
        found.append(_sureness(summary))
    if summary["groups"]:
        found.append(_groups(summary["groups"]))
    return found


def _scores(summary: dict[str, Any]) -> Table:
    table = plain_table("the best choice by", "is right", "")
    for name, words in _SCORES.items():
        entry = summary["normalisations"][name]
        if entry is None:
            table.add_row(words, "—", "not asked for" if "not_asked" in summary["pmi_missing"] else "not known")
        else:
            table.add_row(words, _share(entry), f"{entry['correct_count']} of {entry['total_count']}")
    table.add_row("chance", percent(summary["accuracy_by_chance"]), "")
    return table


# -- should it be so sure? ----------------------------------------------------------------------------------------


def _sureness(summary: dict[str, Any]) -> Table:
    found, kept = summary["calibration"], summary["selective"]
    table = plain_table("should it be so sure?", "")
    table.add_row("confidence", confidence_in_words(found))
    table.add_row("calibration error", _calibration_errors(found))
    table.add_row("Brier, log-loss", f"{found['brier']:.3f}, {found['log_loss_nats']:.3f} nats")
    table.add_row("right from wrong", _ranking(kept))
    table.add_row("without the unsure", _coverages(kept))
    table.add_row("entropy of choices", f"{summary['mean_entropy_nats']:.3f} nats on average")
    return table


def confidence_in_words(calibration: dict[str, Any]) -> str:
    """`80.0 % on average: it is 12.0 points surer than right (4.0 to 20.0)`."""
    points = round(calibration["overconfidence"] * 100, 1)
    low, high = calibration["overconfidence_low"], calibration["overconfidence_high"]
    ends = None if low is None or high is None else sorted((low * 100, high * 100))
    mean = f"{percent(calibration['mean_confidence'])} on average: it is"
    if points == 0:
        return f"{mean} as sure as it is right"
    words = "surer than right" if points > 0 else "less sure than right"
    if ends is None:
        return f"{mean} {abs(points):.1f} points {words}"
    if points < 0:
        ends = [-ends[1], -ends[0]]
    return f"{mean} {abs(points):.1f} points {words} ({ends[0]:.1f} to {ends[1]:.1f})"


def _calibration_errors(calibration: dict[str, Any]) -> str:
    smooth = calibration["smooth_ece"]
    parts = [
        f"{calibration['ece_equal_width']:.3f} in {calibration['bins']} equal bins",
        f"{calibration['ece_equal_mass']:.3f} by equal mass",
        "smooth —" if smooth is None else f"{smooth:.3f} smooth",
    ]
    return ", ".join(parts)


def _ranking(selective: dict[str, Any]) -> str:
    auroc = selective["auroc"]
    shown = "AUROC — (all answers are alike)" if auroc is None else f"AUROC {auroc:.3f}"
    return f"{shown}, AURC {selective['aurc']:.3f}, {selective['e_aurc']:.3f} above the best order"


def _coverages(selective: dict[str, Any]) -> str:
    parts = [
        f"{percent(entry['accuracy'])} right of the surest {entry['coverage']:.0%}"
        for entry in selective["accuracy_at_coverage"]
        if entry["coverage"] < 1
    ]
    return ", ".join(parts)


# -- groups -------------------------------------------------------------------------------------------------------


def _groups(groups: Sequence[dict[str, Any]]) -> Table:
    table = plain_table("group", "questions", "accuracy", "margin", "surer than right")
    keep_whole(table, 1, 2, 3, 4)
    for entry in groups[:SHOWN_GROUPS]:
        table.add_row(_group_name(entry["group"]), _scored(entry), _share(entry), *_means(entry))
    if len(groups) > SHOWN_GROUPS:
        table.add_row(Text(f"and {len(groups) - SHOWN_GROUPS} more", style="dim"), "in summary.json")
    return table


def _group_name(name: str | None) -> Text:
    return Text("(no group)", style="dim") if name is None else cut_to_fit(name)


def _scored(entry: dict[str, Any]) -> str:
    scored, total = entry["scored_count"], entry["total_count"]
    return str(total) if scored == total else f"{total}, {scored} scored"


def _means(entry: dict[str, Any]) -> tuple[str, str]:
    margin, surplus = entry["avg_margin"], entry["overconfidence"]
    return (
        "—" if margin is None else f"{margin:.3f} nats",
        "—" if surplus is None else f"{surplus * 100:+.1f} points",
    )


def _share(entry: dict[str, Any]) -> str:
    return value_with_interval({"value": entry["accuracy"], "unit": "share", **entry})
