"""Judging: how often the likeliest choice is right, by how much it wins, and whether its confidence can be believed.

Questions about one image, or of one cluster, hang together: every interval is over such units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import Interval, mean_interval, overconfidence_interval, too_few
from howsure.measures.intervals import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.runs import Sample
from howsure.studies.mcq.columns import NORMALISATIONS, Codes, Columns, columns, shared
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.sureness import LEVEL, calibration, ends, selective, share


def judge(samples: Sequence[Sample], *, skipped: int = 0, seed: int = 0) -> dict[str, Any]:
    """The summary: a pure function of the samples, whatever order they come in.

    `accuracy` is over all lines of the data: one that could not be scored, or not even be read (`skipped`), counts as
    not right and never makes it better. `accuracy_without_bad_lines` and `accuracy_of_scored` leave the latter or both
    out, and differ only where something is missing.
    """
    ordered = sorted(samples, key=lambda sample: sample.index)
    table = columns(ordered)
    counts = _counts(ordered, table, skipped)
    confidence, correct = table.confidence[table.scored], table.correct[table.scored]
    unit = table.unit[table.scored]
    calibrated = calibration(confidence, correct, seed=seed, clusters=unit)
    ranked = selective(confidence, correct, clusters=unit)
    groups = _groups(table)
    return summary(
        "mcq",
        Coverage.of(ordered, {"bad_line": skipped} if skipped else None),
        [_accuracy_figure(table, counts), _margin_figure(table)],
        _notes(ordered, table, counts, groups, calibrated, ranked),
        accuracy=_ratio(counts["correct_count"], counts["total_count"]),
        accuracy_without_bad_lines=_ratio(counts["correct_count"], table.total),
        accuracy_of_scored=_ratio(counts["correct_count"], counts["scored_count"]),
        accuracy_by_chance=_mean(table.chance),
        avg_margin=_mean(_known(table.margin_nats)),
        mean_entropy_nats=_mean(table.entropy_nats[table.scored]),
        **counts,
        pmi_missing=_pmi_missing(ordered),
        normalisations=_normalisations(table, skipped),
        calibration=calibrated,
        selective=ranked,
        groups=groups,
    )


def _counts(ordered: Sequence[Sample], table: Columns, skipped: int) -> dict[str, int]:
    scored = [sample.result for sample in ordered if not sample.failed]
    return {
        "correct_count": int(table.correct.sum()),
        "total_count": table.total + skipped,
        "scored_count": len(scored),
        "bad_line_count": skipped,
        "unit_count": _unit_count(table.unit),
        "tie_count": sum(result["tie"] for result in scored),
        "unbounded_margin_count": int(np.isnan(table.margin_nats[table.scored]).sum()),
        "straddled_count": sum(result.get("straddled") is True for result in scored),
        "pmi_failed_count": sum(result.get("pmi_missing") not in (None, "not_asked") for result in scored),
    }


def _pmi_missing(ordered: Sequence[Sample]) -> dict[str, int]:
    """Why scored questions have no PMI, by reason."""
    reasons = [sample.result.get("pmi_missing") for sample in ordered if not sample.failed]
    return dict(sorted(Counter(reason for reason in reasons if reason is not None).items()))


# -- accuracy and margin ------------------------------------------------------------------------------------------


def _accuracy_figure(table: Columns, counts: dict[str, int]) -> Figure:
    entry = _accuracy(table.correct, table.unit, counts["bad_line_count"])
    notes = [too_few(counts["unit_count"] + counts["bad_line_count"], _units_noun(table))]
    bad, scored = counts["bad_line_count"], counts["scored_count"]
    lost = {"failed": table.total - scored, "bad line" if bad == 1 else "bad lines": bad}
    if any(lost.values()):
        of_scored = f": {counts['correct_count'] / scored:.1%} of the {scored} scored" if scored else ""
        parts = " and ".join(f"{count} {what}" for what, count in lost.items() if count)
        notes.append(f"{parts} counted as not right{of_scored}")
    if counts["tie_count"]:
        notes.append(f"{counts['tie_count']} of {scored} are ties, which went to the first choice")
    interval = {name: entry[name] for name in ("low", "high", "level", "method", "approximate")}
    return Figure("accuracy", entry["accuracy"], "share", **interval, note=_joined(notes, entry["accuracy"]))


def _accuracy(right: NDArray[np.bool_], unit: Codes, bad: int = 0) -> dict[str, Any]:
    """How often it is right; bad lines are not right, and each of them stands for itself."""
    after = int(unit.max(initial=-1)) + 1
    everything = np.concatenate([right, np.zeros(bad, dtype=np.bool_)])
    found = share(everything, np.concatenate([unit, np.arange(after, after + bad)]))
    interval = {name: found[name] for name in ("low", "high", "level", "method", "approximate")}
    return {"accuracy": found["value"], **interval, "correct_count": found["count"], "total_count": found["of"]}


def _margin_figure(table: Columns) -> Figure:
    known = ~np.isnan(table.margin_nats)
    margins, unit = table.margin_nats[known], table.unit[known]
    interval = mean_interval(margins, clusters=unit, level=LEVEL, least=0.0) if len(margins) else None
    notes = [None if interval else too_few(_unit_count(unit), _units_noun(table)) or "no interval: all are alike"]
    if len(margins) < table.total:
        notes.append(f"over the {len(margins)} of {table.total} questions with a margin")
    return Figure.of("mean margin", _mean(margins), "nats", interval, _joined(notes, _mean(margins)))


def _joined(notes: Sequence[str | None], value: float | None) -> str | None:
    """What qualifies a figure; nothing where there is none."""
    return "; ".join(note for note in notes if note) or None if value is not None else None


def _normalisations(table: Columns, skipped: int) -> dict[str, Any]:
    """Accuracy by each score over all lines of the data; None where no question has that score."""
    found: dict[str, Any] = {}
    for place, name in enumerate(NORMALISATIONS):
        known = int((table.predictions[:, place] >= 0).sum())
        accuracy = _accuracy(table.right(place), table.unit, skipped) | {"known_count": known}
        found[name] = accuracy if known else None
    return found


# -- groups -------------------------------------------------------------------------------------------------------


def _groups(table: Columns) -> list[dict[str, Any]]:
    """The main figures of each group, in the order of the data; none where no question has a group.

    Nobody knows the group of a bad line, so that these are in none.
    """
    members: dict[str | None, list[int]] = {}
    for i, group in enumerate(table.groups):
        members.setdefault(group, []).append(i)
    if set(members) <= {None}:
        return []
    return [_group(name, table.rows(np.array(rows, dtype=np.intp))) for name, rows in members.items()]


def _group(name: str | None, table: Columns) -> dict[str, Any]:
    confidence, correct = table.confidence[table.scored], table.correct[table.scored]
    surplus: Interval | None = None
    if len(confidence):
        surplus = overconfidence_interval(confidence, correct, clusters=table.unit[table.scored], level=LEVEL)
    return {
        "group": name,
        **_accuracy(table.correct, table.unit),
        "scored_count": len(correct),
        "unit_count": _unit_count(table.unit),
        "accuracy_by_chance": _mean(table.chance),
        "avg_margin": _mean(_known(table.margin_nats)),
        "mean_confidence": _mean(confidence),
        "overconfidence": _mean(confidence - correct),
        **{f"overconfidence_{part}": value for part, value in ends(surplus).items()},
    }


# -- what a reader must know --------------------------------------------------------------------------------------


def _notes(
    ordered: Sequence[Sample],
    table: Columns,
    counts: dict[str, int],
    groups: Sequence[dict[str, Any]],
    calibrated: dict[str, Any] | None,
    ranked: dict[str, Any] | None,
) -> list[str]:
    found = [*_about_missing(table, counts), *_about_units(ordered, table, groups)]
    sentences = {
        "unbounded_margin_count": "margins over a choice of probability 0, which are not in the mean",
        "straddled_count": "questions with a token across the end of the prompt, scored from that token on",
        "pmi_failed_count": "questions without PMI, which count as not right by it",
    }
    found += [f"{words}: {counts[name]}" for name, words in sentences.items() if counts[name]]
    short = ranked is not None and ranked["auroc"] is not None and ranked["auroc_low"] is None
    if short and counts["unit_count"] >= LEAST_UNITS:
        least = f"{LEAST_OF_A_CLASS} {_units_noun(table)} with right and {LEAST_OF_A_CLASS} with wrong answers"
        found.append(f"no interval for the AUROC: it takes {least}")
    if calibrated is not None and calibrated["smooth_ece_missing"]:
        found.append(calibrated["smooth_ece_missing"])
    return found


def _about_missing(table: Columns, counts: dict[str, int]) -> list[str]:
    correct, scored, bad = counts["correct_count"], counts["scored_count"], counts["bad_line_count"]
    found = []
    if bad and table.total:
        found.append(
            f"accuracy counts the {bad} bad line{'s' if bad > 1 else ''} of the data as not right; without them it is "
            f"{correct / table.total:.1%} of {table.total}. So do the other accuracies; nothing else has them"
        )
    if 0 < scored < table.total:
        found.append(
            f"accuracy counts what could not be scored as not right; of the {scored} scored it is "
            f"{correct / scored:.1%}, and confidence is judged on those"
        )
    return found


def _about_units(ordered: Sequence[Sample], table: Columns, groups: Sequence[dict[str, Any]]) -> list[str]:
    found, total = [], table.total
    labels = shared([sample.result for sample in ordered])
    common = [what for what, known in labels.items() if _repeats(known)]
    if common:
        found.append(
            f"questions that share {' or '.join(common)} hang together: intervals take these {total} questions as "
            f"{_unit_count(table.unit)} independent units"
        )
    alone = labels["a cluster"].count(None)
    if 0 < alone < total:
        found.append(f"{alone} of {total} questions have no cluster, and count as independent of the others")
    small = sum(group["unit_count"] < LEAST_UNITS for group in groups)
    if small and _unit_count(table.unit) >= LEAST_UNITS:  # else the headline says it of all figures
        found.append(
            f"no interval for {small} of {len(groups)} groups: it takes at least {LEAST_UNITS} {_units_noun(table)}"
        )
    return found


def _repeats(labels: Sequence[str | None]) -> bool:
    known = [label for label in labels if label is not None]
    return len(set(known)) < len(known)


def _unit_count(unit: Codes) -> int:
    return len(np.unique(unit))


def _units_noun(table: Columns) -> str:
    return "questions" if _unit_count(table.unit) == table.total else "independent units"


def _known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
