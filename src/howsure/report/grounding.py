"""A grounding run in the terminal: where the clicks went, for whom, and whether the model knew."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from howsure.report.grounding_compare import print_comparison
from howsure.report.mcq import confidence_in_words, ece_in_words
from howsure.report.terminal import cut_to_fit, keep_whole, plain_table, print_summary
from howsure.report.text import counted, interval_text, percent, printable, shortened, value_with_interval
from howsure.runs import Run, Sample
from howsure.runs.pictures import FOLDER as PICTURES
from howsure.runs.pictures import kept_count
from howsure.runs.run import Pair
from howsure.studies.grounding.exports import OUT, RESULTS_TEXT, safe_name
from howsure.studies.grounding.judge import CALIBRATED
from howsure.studies.grounding.overlay import surely_wrong_samples, worst_samples
from howsure.studies.grounding.record import DISTANCES

SHOWN_USERS, SHOWN_GROUPS = 30, 12
SHOWN_SAMPLES = 5
SHOWN_REASONS = 10
ID_CHARACTERS = 24
LEAST_NAME = 9
"""So much of a name is always shown: figures without it are nobody's."""

ACCURACY = "accuracy\n(95% interval)"
CUT_CHARACTERS = 300


def print_result(console: Console, result: Any, view: Any) -> None:
    if isinstance(result, Pair):
        print_comparison(console, result.comparison, view.flips)
    else:
        print_grounding(console, *result)


def print_grounding(console: Console, summary: dict[str, Any], samples: Sequence[Sample], run: Run) -> None:
    """Everything that a person wants to see of a run first; the rest is in its folder."""
    print_summary(console, summary, samples, run, sections(summary, samples))
    for line in _files(summary, samples, run):
        console.print(Text(line), soft_wrap=True)


def sections(summary: dict[str, Any], samples: Sequence[Sample]) -> list[RenderableType]:
    found: list[RenderableType] = [_splits(kind, rows) for kind, rows in summary["splits"].items() if rows]
    if summary["knows"]:
        found.append(_knows(summary["knows"]))
    if summary["why_not"]:
        found.append(_unreadable(summary["why_not"]))
    found += _examples(samples)
    return found


# -- by user, platform, … ---------------------------------------------------------------------------------------------


def _splits(kind: str, rows: Sequence[dict[str, Any]]) -> Table:
    """One line a value, users in their order, of others the most frequent. How often a click is inside of its target
    has a column only where there are such targets."""
    regions = any(row["point_in_target"] is not None for row in rows)
    inside = ["in\ntarget"] if regions else []
    table = plain_table(kind, "samples", *inside, ACCURACY, "mean\nL2", "median\nL2", "wrong\nformat")
    keep_whole(table, *(place for place, name in enumerate(table.columns) if place and name.header != ACCURACY))
    shown = rows[:SHOWN_USERS] if kind == "user" else sorted(rows, key=lambda row: -row["count"])[:SHOWN_GROUPS]
    for row in shown:
        in_target = [percent(row["point_in_target"])] if regions else []
        table.add_row(_name(row["value"]), f"{row['count']:,}", *in_target, _accuracy(row), *_distances(row))
    table.columns[0].min_width = min(LEAST_NAME, max(cell_len(kind), *(cell_len(row["value"] or "") for row in shown)))
    if len(rows) > len(shown):
        table.add_row(Text(f"and {len(rows) - len(shown)} more", style="dim"))
    return table


def _name(value: str | None) -> Text:
    return Text("(none)", style="dim") if value is None else cut_to_fit(value[:CUT_CHARACTERS])


def _accuracy(row: dict[str, Any]) -> str:
    return value_with_interval({"unit": "share", "note": None, **row, "value": row["accuracy"]})


def _distances(row: dict[str, Any]) -> tuple[str, str, str]:
    return _distance(row["mean_l2"]), _distance(row["median_l2"]), f"{row['wrong_format_count']:,}"


def _distance(value: float | None) -> str:
    """In thousandths of the screen; a model can write numbers that no screen has room for."""
    if value is None:
        return "—"
    return f"{value:.1f}" if abs(value) < 1e6 else f"{value:.3g}"


# -- does it know? ----------------------------------------------------------------------------------------------------


def _knows(knows: dict[str, dict[str, Any]]) -> RenderableType:
    table = plain_table("does it know?", "answers", "AUROC (hit vs miss)", "AURC")
    keep_whole(table, 0, 1)
    without: dict[str, list[str]] = {}
    parts: list[RenderableType] = [table]
    for kind, found in knows.items():
        name = kind.replace("_", " ")
        table.add_row(name, f"{found['answers']:,}", *ranking_in_words(found["selective"]))
        if found["missing"]:
            without.setdefault(_reasons(found["missing"]), []).append(name)
        if found["calibration"] is not None and kind in CALIBRATED:
            calibrated = plain_table(f"{name}, against clicks within δ", "")
            for row in calibration_rows(found["calibration"]):
                calibrated.add_row(*row)
            parts += [Text(), calibrated]
    parts += [Text(f"without {' and '.join(names)}: {reasons}", style="dim") for reasons, names in without.items()]
    return Group(*parts)


def ranking_in_words(selective: dict[str, Any] | None) -> tuple[str, str]:
    """Whether confidence tells hits from misses: AUROC and AURC."""
    if selective is None:
        return "—", "—"
    found = []
    for name in ("auroc", "aurc"):
        ends = interval_text(selective, prefix=f"{name}_")
        found.append("—" if selective[name] is None else f"{selective[name]:.3f} ({ends or 'no interval'})")
    return found[0], found[1]


def calibration_rows(calibration: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("confidence", confidence_in_words(calibration)),
        (f"ECE, {calibration['bins']} equal-mass bins", ece_in_words(calibration, "equal_mass")),
    ]


def _reasons(missing: dict[str, int]) -> str:
    return ", ".join(
        f"{count:,} {printable(reason.replace('_', ' '), one_line=True)}" for reason, count in missing.items()
    )


# -- samples to look at -----------------------------------------------------------------------------------------------


def _unreadable(why_not: dict[str, int]) -> Table:
    table = plain_table("in wrong format because", "answers")
    ranked = sorted(why_not.items(), key=lambda pair: (-pair[1], pair[0]))
    for reason, count in ranked[:SHOWN_REASONS]:
        table.add_row(cut_to_fit(reason.replace("_", " ")), f"{count:,}")
    rest = sum(count for _, count in ranked[SHOWN_REASONS:])
    if rest:
        table.add_row(Text("other reasons", style="dim"), f"{rest:,}")
    return table


def _examples(samples: Sequence[Sample]) -> list[RenderableType]:
    """The clicks that went farthest off, where any missed, and the misses that the model was surest of."""
    found: list[RenderableType] = []
    far = [sample for sample in worst_samples(samples, SHOWN_SAMPLES) if sample.result["hit"] is False]
    if far:
        found.append(_listed(("farthest off", "L2"), [(_id(one), _distance(one.result["l2"])) for one in far], far))
    kind, wrong = surely_wrong_samples(samples, SHOWN_SAMPLES)
    if kind is not None and wrong:
        rows = [(_id(one), _sureness(one, kind), _distance(one.result["l2"])) for one in wrong]
        found.append(_listed(("surest misses", kind.replace("_", " "), "L2"), rows, wrong))
    return found


def _listed(headers: Sequence[str], rows: Sequence[Sequence[str]], samples: Sequence[Sample]) -> Table:
    """Samples with their instructions, which alone are cut to what room is left."""
    table = plain_table(*headers, "instruction")
    for place, header in enumerate(headers):
        table.columns[place].min_width = max(cell_len(text) for text in (header, *(row[place] for row in rows)))
    for row, sample in zip(rows, samples, strict=True):
        table.add_row(*map(Text, row), cut_to_fit(sample.result["instruction"][:CUT_CHARACTERS]))
    return table


def _sureness(sample: Sample, kind: str) -> str:
    value = sample.result["confidence"][kind]
    return _distance(value) if kind in DISTANCES else f"{value:.3f}"


def _id(sample: Sample) -> str:
    return shortened(sample.id, ID_CHARACTERS)


# -- where it all is --------------------------------------------------------------------------------------------------


def _files(summary: dict[str, Any], samples: Sequence[Sample], run: Run) -> list[str]:
    users = [row["value"] for row in summary["splits"].get("user", ()) if row["value"] is not None]
    if len(users) == 1:
        lines = [f"in it: user_{safe_name(users[0])}/{OUT} and {RESULTS_TEXT}"]
    elif users:
        lines = [
            f"in it, for {counted(len(users), 'user')}: user_{safe_name(users[0])}/{OUT} and {RESULTS_TEXT}, and so on"
        ]
    else:
        lines = [f"in it: {OUT} and {RESULTS_TEXT}"] if samples else []
    kept, screens = kept_count(run.path, [sample.result.get("image_sha256", "") for sample in samples])
    if kept < screens:
        lines.append(
            f"{PICTURES}/ holds copies of {kept:,} of {screens:,} screens: the others are more than a run keeps, "
            "unreadable, or could not be written"
        )
    if any(sample.result.get("pred_coord") is not None for sample in samples):
        lines.append(f"to see clicks on their screens: howsure grounding overlay {shlex.quote(str(run.path))}")
    return [printable(line, one_line=True) for line in lines]
