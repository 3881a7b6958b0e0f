"""Two runs of multiple choice: accuracy and margin paired, the answers that turned, confidence against confidence."""

from __future__ import annotations

from typing import Any

import htpy as h
import numpy as np
from htpy import Element, Node
from numpy.typing import NDArray

from howsure.report.compare import mcnemar_in_words, rows_of
from howsure.report.pages.axes import Axis
from howsure.report.pages.chart import Chart
from howsure.report.pages.columns import key_of
from howsure.report.pages.compare_parts import Flips, around_zero, flips, paired_table, sentence
from howsure.report.pages.contract import Section
from howsure.report.pages.material import Material
from howsure.report.pages.named import Named
from howsure.report.pages.parts import facts, long_text, words
from howsure.report.pages.pictures import picture_of
from howsure.report.text import counted, signed_nats, signed_points

MOST_POINTS = 2_000
_KINDS = ("right in both", "right in A alone", "right in B alone", "wrong in both")


def sections(found: dict[str, Any], a: Material, b: Material) -> list[Section]:
    difference = found["difference"]
    turned = difference["flips"]
    return [
        paired_table(rows_of(found), [sentence(mcnemar_in_words(difference))], found["notes"]),
        Section("How sure the difference is", "", h.div(class_="plots")[_changes(difference)]),
        flips(
            [
                Flips("Right in A, wrong in B", "What B has lost.", False, turned["right_to_wrong"]),
                Flips("Wrong in A, right in B", "What B has won.", True, turned["wrong_to_right"]),
            ],
            lambda flip: _flip(flip, a),
            a,
            b,
        ),
        *_confidence(a, b),
    ]


def _changes(difference: dict[str, Any]) -> list[Node]:
    accuracy, margin = (_change(name, difference[f"paired_{name}"]) for name in ("accuracy", "margin"))
    caption = "The dot is B − A; right of “no change” B is"
    return [
        around_zero("Accuracy", f"{caption} right more often.", Axis("B − A", percent=True), [accuracy], signed_points),
        around_zero("Mean margin", f"{caption} surer of what it chooses.", Axis("B − A, nats"), [margin], signed_nats),
    ]


def _change(name: str, paired: dict[str, Any] | None) -> Named:
    return Named(name, None) if paired is None else Named.of(name, paired, value="mean_difference")


def _flip(flip: dict[str, Any], a: Material) -> Node:
    row = a.table.row_of(key_of(flip["id"]))
    return [
        None if row is None else picture_of(a.sample(row).result, a),
        long_text(flip["question"]),
        facts(
            {
                "A chose": words(flip["choice_a"], 300),
                "B chose": words(flip["choice_b"], 300),
                "right answer's lead": _moved(flip),
            }
        ),
    ]


def _moved(flip: dict[str, Any]) -> str:
    """How far the right answer lies before the best other one; below 0 where that one is chosen."""
    before, after, moved = (flip[name] for name in ("signed_margin_a_nats", "signed_margin_b_nats", "moved_nats"))
    if moved is None:
        return "moved without bound: something had probability 0"
    return f"{before:+.2f} nats in A, {after:+.2f} in B: moved by {moved:+.2f}"


# -- confidence against confidence ------------------------------------------------------------------------------------


def _confidence(a: Material, b: Material) -> list[Section]:
    rows_a, rows_b = shared_rows(a, b)
    sure = a.table.numbers("confidence")[rows_a], b.table.numbers("confidence")[rows_b]
    right = a.table.numbers("correct")[rows_a], b.table.numbers("correct")[rows_b]
    known = np.isfinite(np.stack([*sure, *right])).all(axis=0)
    if not known.any():
        return []
    kind = (2 * (1 - right[0]) + (1 - right[1]))[known].astype(int)
    names = [str(a.table.values("id")[row]) for row in rows_a[known].tolist()]
    return [
        Section(
            "Sure of the same things?",
            "",
            _scatter(sure[0][known], sure[1][known], kind, names, int((~known).sum())),
        )
    ]


def shared_rows(a: Material, b: Material) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of both runs, pair by pair, in the order of A's data."""
    pairs = [(row, b.table.row_of(a.table.keys[row])) for row in a.table.in_order().tolist()]
    both = [(row, other) for row, other in pairs if other is not None]
    first, second = zip(*both, strict=True) if both else ((), ())
    return np.array(first, dtype=np.intp), np.array(second, dtype=np.intp)


def thinned(count: int, most: int = MOST_POINTS) -> NDArray[np.intp]:
    """Places spread evenly over so many, all of them where they are few."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.intp)


def _scatter(first: Any, second: Any, kind: Any, names: list[str], not_scored: int) -> Element:
    chart = Chart(
        "Confidence of A against that of B",
        Axis("confidence of A", 0, 1, percent=True),
        Axis("confidence of B", 0, 1, percent=True),
        height=360,
    ).diagonal()
    drawn = np.zeros(len(first), dtype=bool)
    drawn[thinned(len(first))] = True
    for number, label in enumerate(_KINDS):
        places = np.flatnonzero(drawn & (kind == number))
        tips = [f"{names[i]}: {first[i]:.0%} in A, {second[i]:.0%} in B, {label}" for i in places.tolist()]
        chart.points(first[places].tolist(), second[places].tolist(), label, number, tips=tips)
    some = f" {drawn.sum():,} of {len(first):,} questions are drawn." if not drawn.all() else ""
    some += f" {counted(not_scored, 'question')} not scored by both: left out." if not_scored else ""
    return chart.figure(
        "Each mark is a question. Above the dashed line B is surer than A; marks far from it are questions on which "
        f"the two see things differently.{some}",
        ["questions", "how many", "mean confidence of A", "mean confidence of B"],
        [_mean_row(label, first[kind == number], second[kind == number]) for number, label in enumerate(_KINDS)],
    )


def _mean_row(label: str, first: Any, second: Any) -> tuple[Any, ...]:
    means = (float(first.mean()), float(second.mean())) if len(first) else (None, None)
    return label, len(first), *means
