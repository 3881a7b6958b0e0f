"""A multiple-choice run in the terminal: which choices won, and whether the model should be so sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.measures import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.report.compare import print_comparison
from howsure.report.tables import cut_to_fit, keep_whole, plain_table, print_summary
from howsure.report.text import interval_text, percent, value_with_interval
from howsure.runs import Run, Sample
from howsure.runs.run import Pair

SHOWN_GROUPS = 30
_SCORES = {
    "sum": "sum of log-probabilities, decides",
    "per_token": "mean per token",
    "per_byte": "mean per byte",
    "pmi": "PMI (minus unconditional score)",
}


def print_mcq(console: Console, summary: dict[str, Any], samples: Sequence[Sample], run: Run) -> None:
    print_summary(console, summary, samples, run, sections(summary))


def print_result(console: Console, result: Any, view: Any) -> None:
    if isinstance(result, Pair):
        print_comparison(console, result.comparison, view.flips)
    else:
        print_mcq(console, *result)


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
    table.columns[0].min_width = len("AUROC (correct vs wrong)")
    for name, words in sureness_rows(found, kept):
        table.add_row(name, words)
    table.add_row("entropy of choices", f"{summary['mean_entropy_nats']:.3f} nats on average")
    return table


def sureness_rows(calibration: dict[str, Any], selective: dict[str, Any]) -> list[tuple[str, str]]:
    """Confidence against right and wrong, line by line: for the terminal and for pages."""
    smooth = calibration["smooth_ece"]
    return [
        ("confidence", confidence_in_words(calibration)),
        (f"ECE, {calibration['bins']} equal-width bins", ece_in_words(calibration, "equal_width")),
        (f"ECE, {calibration['bins']} equal-mass bins", ece_in_words(calibration, "equal_mass")),
        ("smooth ECE", "—" if smooth is None else f"{smooth:.3f} (above 0 by chance too)"),
        ("Brier, log-loss", f"{calibration['brier']:.3f}, {calibration['log_loss_nats']:.3f} nats"),
        ("AUROC (correct vs wrong)", auroc_in_words(selective)),
        ("AURC", f"{_with_interval(selective, 'aurc')}; excess AURC {selective['e_aurc']:.3f}"),
        ("selective accuracy", _coverages(selective)),
    ]


def confidence_in_words(calibration: dict[str, Any]) -> str:
    """`80.0 % on average: overconfident by 12.0 points (4.0 to 20.0)`; no verdict where the interval holds zero."""
    mean = f"{percent(calibration['mean_confidence'])} on average"
    value = calibration["overconfidence"]
    low, high = calibration["overconfidence_low"], calibration["overconfidence_high"]
    if low is None or high is None:
        side = "above" if value >= 0.0 else "below"
        return (
            f"{mean}: {abs(value) * 100:.1f} points {side} the share right (no interval: too few independent answers)"
        )
    ends = interval_text(calibration, 100.0, 1, prefix="overconfidence_")
    if low <= 0.0 <= high:
        return f"{mean}: not clearly over- or underconfident: {value * 100:+.1f} points ({ends})"
    if low > 0.0:
        return f"{mean}: overconfident by {value * 100:.1f} points ({ends})"
    turned = {"low": -high, "high": -low, "approximate": calibration.get("overconfidence_approximate")}
    return f"{mean}: underconfident by {-value * 100:.1f} points ({interval_text(turned, 100.0, 1)})"


def ece_in_words(calibration: dict[str, Any], bins: str) -> str:
    """`0.225; a perfectly calibrated model with these confidences: 0.133 on average, up to 0.190 in 19 of 20`."""
    value, name = calibration[f"ece_{bins}"], f"ece_{bins}_floor"
    floor = calibration.get(name)
    if floor is None:  # also in runs of earlier versions, which say nothing of it
        return (
            f"{value:.3f} (too few independent answers to tell it from chance)"
            if name in calibration
            else f"{value:.3f}"
        )
    return (
        f"{value:.3f}; a perfectly calibrated model with these confidences: {floor['mean']:.3f} on average, up to "
        f"{floor['high']:.3f} in 19 of 20"
    )


def auroc_in_words(selective: dict[str, Any]) -> str:
    return "— (all answers are alike)" if selective["auroc"] is None else _with_interval(selective, "auroc")


_TAKES = {
    "auroc": f"it takes {LEAST_UNITS} independent units, {LEAST_OF_A_CLASS} right and {LEAST_OF_A_CLASS} wrong",
    "aurc": f"it takes {LEAST_UNITS} independent units",
}


def _with_interval(selective: dict[str, Any], name: str) -> str:
    ends = interval_text(selective, prefix=f"{name}_")
    return f"{selective[name]:.3f} ({ends or 'no interval: ' + _TAKES[name]})"


def _coverages(selective: dict[str, Any]) -> str:
    parts = [
        f"{percent(entry['accuracy'])} of the surest {entry['coverage']:.0%}"
        for entry in selective["accuracy_at_coverage"]
        if entry["coverage"] < 1
    ]
    return ", ".join(parts)


# -- groups -------------------------------------------------------------------------------------------------------


def _groups(groups: Sequence[dict[str, Any]]) -> Table:
    table = plain_table("group", "questions", "accuracy", "margin", "overconfident\nby, points")
    keep_whole(table, 1, 3)
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
    ends = interval_text(entry, 100.0, 1, prefix="overconfidence_")
    return (
        "—" if margin is None else f"{margin:.3f} nats",
        "—" if surplus is None else f"{surplus * 100:+.1f}" + (f" ({ends})" if ends else ""),
    )


def _share(entry: dict[str, Any]) -> str:
    return value_with_interval({"value": entry["accuracy"], "unit": "share", **entry})
