"""Two grounding runs side by side: the table, how sure the difference is, for whom, and the clicks that turned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from howsure.measures import LEAST_UNITS
from howsure.report.terminal import cut_to_fit, keep_whole, plain_table, print_notes, side_by_side
from howsure.report.text import interval_text, mcnemar_verdict, percent, shortened, signed, signed_points

SHOWN_USERS, SHOWN_GROUPS = 30, 12
ID_CHARACTERS = 20
CUT_CHARACTERS = 300
_KINDS = {"hit_to_miss": "hit in A, missed in B", "miss_to_hit": "missed in A, hit in B"}


def print_comparison(console: Console, comparison: dict[str, Any], shown_flips: int) -> None:
    """The table, McNemar's test in words, whether each knows, users and other groups, and some flips of each kind."""
    difference = comparison["difference"]
    console.print(side_by_side(comparison, ("model", "run"), rows_of(comparison)))
    console.print()
    console.print(Text(distances_in_words(difference), style="dim"))
    console.print(Text(mcnemar_in_words(difference)))
    sections = [_knows(difference["knows"])] if difference["knows"] else []
    sections += [_splits(kind, rows) for kind, rows in difference["splits"].items() if rows]
    for section in sections:
        console.print()
        console.print(section)
    for kind, words in _KINDS.items():
        _print_flips(console, words, difference["flips"][kind], shown_flips)
    if comparison["notes"]:
        console.print()
    print_notes(console, comparison["notes"])


# -- the table --------------------------------------------------------------------------------------------------------


def rows_of(comparison: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What is compared: its name, A, B, and B − A."""
    a, b, figures = comparison["a"], comparison["b"], comparison["difference"]["figures"]
    distances = (("mean L2", "mean_l2"), ("median change of L2", "median_change_l2"))
    counts = (("wrong format", "wrong_format_count"), ("refused", "refused_count"))
    return [
        *((words, *_figure(figures[name], percent, signed_points)) for words, name in _shares(comparison)),
        *((words, *_figure(figures[name], _distance, _signed_distance)) for words, name in distances),
        *((words, f"{a[n]:,}", f"{b[n]:,}", f"{b[n] - a[n]:+,}") for words, n in counts if a[n] or b[n]),
        ("coverage", a["coverage"]["text"], b["coverage"]["text"], ""),
    ]


def _shares(comparison: dict[str, Any]) -> list[tuple[str, str]]:
    """Those that the data can be judged by. The hit rate has a row only where it is not one of the others again."""
    figures = comparison["difference"]["figures"]
    placed, regions, everything = (figures[name]["items"] for name in ("accuracy", "point_in_target", "hit_rate"))
    found = [("point in target", "point_in_target")] if regions else []
    if placed:
        found.append((f"accuracy within {comparison['delta']:g}", "accuracy"))
    if not (placed == everything and regions in (0, everything)):
        found.append(("hit rate", "hit_rate"))
    if placed < everything:
        found.append(("refused rightly", "refused_rightly"))
    return found


def _figure(found: dict[str, Any], shown: Callable[..., str], signed: Callable[..., str]) -> tuple[str, str, str]:
    """A figure of both runs; one that only the difference has leaves their places empty."""
    changed = signed(found["difference"], found)
    if found["a"] is None and found["difference"] is not None:
        return "", "", changed
    return shown(found["a"]), shown(found["b"]), changed


def _distance(value: float | None) -> str:
    """In thousandths of the screen; a model can write numbers that no screen has room for."""
    if value is None:
        return "—"
    return f"{value:.1f}" if abs(value) < 1e6 else f"{value:.3g}"


def _signed_distance(value: float | None, found: dict[str, Any] | None = None) -> str:
    return signed(value, "", 1.0, 1, found)


def distances_in_words(difference: dict[str, Any]) -> str:
    """What a distance is, and how many samples have one in both runs."""
    cells = difference["distances"]
    if not cells["both"]:
        return "no sample has a distance in both runs"
    return (
        f"L2 in thousandths of the screen, over the {cells['both']:,} of {cells['of']:,} samples that both clicked on"
    )


def mcnemar_in_words(difference: dict[str, Any]) -> str:
    """McNemar's exact test, and what it means; samples on one screen are not as many samples."""
    test = difference["mcnemar"]
    lost, won = test["only_a_correct"], test["only_b_correct"]
    if not lost + won:
        return "no sample flipped"
    hang_together = difference["image_count"] < difference["count"]
    verdict = mcnemar_verdict(
        test["p_value"], difference["figures"]["hit_rate"], noun="samples", hang_together=hang_together
    )
    return f"{won:,} flipped from miss to hit, {lost:,} from hit to miss; {verdict}"


# -- does it know, and for whom ---------------------------------------------------------------------------------------


def _knows(knows: dict[str, dict[str, Any]]) -> Table:
    table = plain_table("does it know? AUROC (95% interval)", "A", "B", "answers in A, in B")
    keep_whole(table, *range(4))
    for kind, found in knows.items():
        a, b = found["a"], found["b"]
        table.add_row(_kind(kind), _auroc(a), _auroc(b), f"{a['answers']:,}, {b['answers']:,}")
    return table


def _kind(kind: str) -> str:
    return kind.replace("_", " ")


def _auroc(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "—"
    interval = interval_text(found)
    return f"{found['value']:.3f} ({interval})" if interval else f"{found['value']:.3f}"


def _splits(kind: str, rows: Sequence[dict[str, Any]]) -> Table:
    """One line a value, users in their order, of others the most frequent."""
    points = f"points, B − A\n(95% interval from\n{LEAST_UNITS} screens on)"
    changes = (points, "mean L2,\nB − A", "wrong\nformat,\nB − A")
    table = plain_table(kind, "samples", "hit rate,\nA, B, %", *changes)
    keep_whole(table, *range(1, len(table.columns)))
    shown = rows[:SHOWN_USERS] if kind == "user" else sorted(rows, key=lambda row: -row["count"])[:SHOWN_GROUPS]
    for row in shown:
        table.add_row(_value(row["value"]), f"{row['count']:,}", *_hits(row), *_rest(row))
    if len(rows) > len(shown):
        table.add_row(Text(f"and {len(rows) - len(shown)} more", style="dim"))
    return table


def _hits(row: dict[str, Any]) -> tuple[str, str]:
    found = row["figures"]["hit_rate"]
    points = signed_points(found["difference"], found).replace(" points", "")
    return f"{found['a'] * 100:.1f}, {found['b'] * 100:.1f}", points


def _rest(row: dict[str, Any]) -> tuple[str, str]:
    wrong = row["wrong_format"]
    return _signed_distance(row["mean_l2"]), f"{wrong['only_b'] - wrong['only_a']:+,}"


def _value(value: str | None) -> Text:
    return Text("(none)", style="dim") if value is None else cut_to_fit(value[:CUT_CHARACTERS])


# -- flips ------------------------------------------------------------------------------------------------------------


def _print_flips(console: Console, words: str, flips: Sequence[dict[str, Any]], shown: int) -> None:
    if not flips or shown < 1:
        return
    console.print()
    console.print(Text(f"{words}: {len(flips):,}, by how far the distance moved"))
    rows = [(_moved(one), shortened(one["id"], ID_CHARACTERS), *_ends(one)) for one in flips[:shown]]
    table = plain_table("moved", "id", "L2 in A", "L2 in B", "instruction")
    for place in range(4):
        table.columns[place].min_width = max(cell_len(row[place]) for row in rows)
    for row, flip in zip(rows, flips, strict=False):
        table.add_row(*map(Text, row), cut_to_fit(flip["instruction"][:CUT_CHARACTERS]))
    console.print(table)
    if len(flips) > shown:
        console.print(Text(f"and {len(flips) - shown:,} more: --flips {len(flips)} shows all", style="dim"))


def _moved(flip: dict[str, Any]) -> str:
    return _signed_distance(flip["moved_l2"])


def _ends(flip: dict[str, Any]) -> tuple[str, str]:
    """The distance in each run, or what there was instead."""
    return _end(flip["l2_a"], flip["says_a"]), _end(flip["l2_b"], flip["says_b"])


def _end(l2: float | None, says: object) -> str:
    return _distance(l2) if l2 is not None else shortened(str(says).replace("_", " "), ID_CHARACTERS)
