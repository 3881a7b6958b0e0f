"""Two runs of grounding: hits and distances paired over screens, for whom it changed, the clicks that turned."""

from __future__ import annotations

from typing import Any

import htpy as h
from htpy import Node

from howsure.report.grounding_compare import distances_in_words, mcnemar_in_words, rows_of
from howsure.report.charts import Axis
from howsure.report.rows import key_of
from howsure.report.pages.compare_parts import Flips, around_zero, flips, paired_table, sentence
from howsure.report.views import Section
from howsure.report.pages.grounding_screen import screen
from howsure.report.run_data import Material
from howsure.report.charts import Named
from howsure.report.html import facts, long_text, number, words
from howsure.report.text import signed_points

_SHARES = {"point_in_target": "point in target", "accuracy": "accuracy within {:g}", "hit_rate": "hit rate"}
_DISTANCES = {"mean_l2": "mean distance", "median_change_l2": "median change"}


def sections(found: dict[str, Any], a: Material, b: Material) -> list[Section]:
    difference = found["difference"]
    turned = difference["flips"]
    sentences = [sentence(mcnemar_in_words(difference)), sentence(distances_in_words(difference))]
    return [
        paired_table(rows_of(found), sentences, found["notes"]),
        Section("How sure the difference is", "", h.div(class_="plots")[_changes(difference, found["delta"])]),
        *_splits(difference["splits"]),
        flips(
            [
                Flips("Hit in A, missed in B", "What B has lost, on B's screen.", False, turned["hit_to_miss"]),
                Flips("Missed in A, hit in B", "What B has won, on A's screen.", True, turned["miss_to_hit"]),
            ],
            lambda flip: _flip(flip, a, b, turned["hit_to_miss"]),
            a,
            b,
        ),
    ]


def _changes(difference: dict[str, Any], delta: float) -> list[Node]:
    figures = difference["figures"]
    caption = "The dot is B − A; right of “no change” B"
    shares = [_change(label.format(delta), figures[name]) for name, label in _SHARES.items() if figures[name]["items"]]
    distances = [_change(label, figures[name]) for name, label in _DISTANCES.items()]
    return [
        around_zero(
            "Hits", f"{caption} hits more often.", Axis("B − A", percent=True), shares, signed_points, "screens"
        ),
        around_zero(
            "Distance",
            f"{caption} clicks farther away, which is worse.",
            Axis("B − A, thousandths of the screen"),
            distances,
            lambda value: f"{value:+.1f}",
            "screens",
        ),
    ]


def _change(name: str, figure: dict[str, Any]) -> Named:
    return Named.of(name, figure, value="difference")


def _splits(splits: dict[str, list[dict[str, Any]]]) -> list[Section]:
    """The change of the hit rate for each user, platform and so on, where there are several."""
    plots = [
        around_zero(
            f"Hit rate by {words(kind, 40)}",
            "The dot is B − A for these samples alone.",
            Axis("B − A", percent=True),
            [_change("(none)" if r["value"] is None else r["value"], r["figures"]["hit_rate"]) for r in rows],
            signed_points,
        )
        for kind, rows in splits.items()
        if len(rows) > 1
    ]
    if not any(plots):
        return []
    return [Section("For whom it changed", "The same difference, part by part.", h.div(class_="plots")[plots])]


def _flip(flip: dict[str, Any], a: Material, b: Material, lost: list[dict[str, Any]]) -> Node:
    missed = b if flip in lost else a
    row = missed.table.row_of(key_of(flip["id"]))
    return [
        None if row is None else screen(missed.sample(row), missed),
        long_text(flip["instruction"]),
        facts(
            {
                "distance in A": _end(flip["l2_a"], flip["says_a"]),
                "distance in B": _end(flip["l2_b"], flip["says_b"]),
                "moved": None if flip["moved_l2"] is None else f"{flip['moved_l2']:+.1f} thousandths of the screen",
            }
        ),
    ]


def _end(l2: float | None, says: object) -> str:
    """The distance, or what there was instead."""
    return number(l2, 1) if l2 is not None else words(str(says).replace("_", " "), 60)
