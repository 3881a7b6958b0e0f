"""Two multiple-choice runs side by side: the table, how sure the difference is, and the answers that turned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from howsure.report.tables import cut_to_fit, keep_whole, plain_table, print_notes, side_by_side
from howsure.report.text import counted, mcnemar_verdict, percent, signed_nats, signed_points

_KINDS = {"right_to_wrong": "right in A, wrong in B", "wrong_to_right": "wrong in A, right in B"}


def print_comparison(console: Console, comparison: dict[str, Any], shown_flips: int) -> None:
    """The table, McNemar's test in words, and so many flips of each kind."""
    console.print(side_by_side(comparison, ("model", "run"), rows_of(comparison)))
    console.print()
    console.print(Text(mcnemar_in_words(comparison["difference"])))
    for kind, words in _KINDS.items():
        _print_flips(console, words, comparison["difference"]["flips"][kind], shown_flips)
    if comparison["notes"]:
        console.print()
    print_notes(console, comparison["notes"])


def rows_of(comparison: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is compared: its name, A, B, and B − A."""
    a, b, difference = comparison["a"], comparison["b"], comparison["difference"]
    return [
        *_rows("accuracy", "accuracy", comparison, percent, signed_points),
        *_rows("mean margin", "margin", comparison, _nats, signed_nats),
        ("right", _right(a), _right(b), f"{difference['correct_count']:+d}"),
        ("coverage", a["coverage"]["text"], b["coverage"]["text"], f"{difference['paired_count']} in both"),
    ]


def _rows(
    words: str, name: str, comparison: dict[str, Any], shown: Callable[..., str], signed: Callable[..., str]
) -> list[tuple[str, str, str, str]]:
    """A figure of both runs; where something is missing in one, a second row holds what both have, and the interval."""
    field = {"margin": "avg_margin"}.get(name, name)
    a, b = comparison["a"][field], comparison["b"][field]
    difference, paired = comparison["difference"][field], comparison["difference"][f"paired_{name}"]
    if paired is None:
        return [(words, shown(a), shown(b), signed(difference))]
    interval = signed(paired["mean_difference"], paired)
    if difference is not None and math.isclose(difference, paired["mean_difference"], abs_tol=1e-9):
        return [(words, shown(a), shown(b), interval)]
    both = (f"  of {paired['items']} in both", shown(paired["mean_a"]), shown(paired["mean_b"]), interval)
    return [(words, shown(a), shown(b), signed(difference)), both]


def mcnemar_in_words(difference: dict[str, Any]) -> str:
    """McNemar's exact test, and what it means; questions that hang together are not as many questions."""
    test = difference["mcnemar"]
    only_a, only_b = test["only_a_correct"], test["only_b_correct"]
    if not only_a + only_b:
        return "no answer flipped"
    hang_together = difference["paired_unit_count"] < difference["paired_count"]
    verdict = mcnemar_verdict(
        test["p_value"], difference["paired_accuracy"], noun="questions", hang_together=hang_together
    )
    return f"{counted(only_b, 'answer')} turned right and {only_a} turned wrong; {verdict}"


def _print_flips(console: Console, words: str, flips: Sequence[dict[str, Any]], shown: int) -> None:
    if not flips or shown < 1:
        return
    console.print()
    console.print(Text(f"{words}: {len(flips)}, by how far the right answer's margin moved"))
    table = plain_table("moved", "question", "A chose", "B chose")
    keep_whole(table, 0)
    for flip in flips[:shown]:
        texts = [cut_to_fit(flip[name]) for name in ("question", "choice_a", "choice_b")]
        table.add_row(_moved(flip["moved_nats"]), *texts)
    console.print(table)
    if len(flips) > shown:
        console.print(Text(f"and {len(flips) - shown} more: --flips {len(flips)} shows all", style="dim"))


def _moved(nats: float | None) -> str:
    return "without bound" if nats is None else f"{nats:+.2f} nats"


def _nats(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f} nats"


def _right(side: dict[str, Any]) -> str:
    return f"{side['correct_count']} of {side['total_count']}"
