"""Judging: how often the likeliest choice is right, by how much it wins, and whether its confidence can be believed.

Questions about one image, or of one cluster, hang together: every interval is over such units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.measures import Interval, mean_interval, overconfidence_interval, too_few
from howsure.measures.intervals import LEAST_UNITS
from howsure.measures.ranking import LEAST_OF_A_CLASS
from howsure.runs import Sample
from howsure.studies.mcq.columns import NORMALISATIONS, Codes, Columns, columns, shared
from howsure.studies.mcq.record import McqRecord
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.sureness import LEVEL, Calibration, Selective, Share, calibration, ends, selective, share
from howsure.types import Fields


class Normalisation(Fields, kw_only=True):
    """How often a score's largest choice is the right one; `known_count` questions have this score."""

    accuracy: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    correct_count: int
    total_count: int
    known_count: int


class Group(Fields, kw_only=True):
    """The main figures of the questions of one `group`."""

    group: str | None
    accuracy: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    correct_count: int
    total_count: int
    scored_count: int
    unit_count: int
    accuracy_by_chance: float | None
    avg_margin: float | None
    mean_confidence: float | None
    overconfidence: float | None
    overconfidence_low: float | None
    overconfidence_high: float | None
    overconfidence_level: float | None
    overconfidence_method: str | None
    overconfidence_approximate: bool | None


class Counts(NamedTuple):
    correct: int
    total: int
    scored: int
    bad_lines: int
    units: int
    ties: int
    unbounded_margins: int
    straddled: int
    pmi_failed: int


class McqSummary(Summary, kw_only=True):
    """What the questions say together. Figures are over all lines of the data unless their name says otherwise."""

    accuracy: float | None
    accuracy_without_bad_lines: float | None
    accuracy_of_scored: float | None
    accuracy_by_chance: float | None
    avg_margin: float | None
    mean_entropy_nats: float | None
    correct_count: int
    total_count: int
    scored_count: int
    bad_line_count: int
    unit_count: int
    tie_count: int
    unbounded_margin_count: int
    straddled_count: int
    pmi_failed_count: int
    pmi_missing: dict[str, int]
    normalisations: dict[str, Normalisation | None]
    calibration: Calibration | None
    selective: Selective | None
    groups: list[Group]


Samples = Sequence[Sample[McqRecord]]


def judge(samples: Samples, *, skipped: int = 0, seed: int = 0) -> McqSummary:
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
    return McqSummary(
        study="mcq",
        coverage=Coverage.of(ordered, {"bad_line": skipped} if skipped else None),
        headline=[_accuracy_figure(table, counts), _margin_figure(table)],
        notes=_notes(ordered, table, counts, groups, calibrated, ranked),
        accuracy=_ratio(counts.correct, counts.total),
        accuracy_without_bad_lines=_ratio(counts.correct, table.total),
        accuracy_of_scored=_ratio(counts.correct, counts.scored),
        accuracy_by_chance=_mean(table.chance),
        avg_margin=_mean(_known(table.margin_nats)),
        mean_entropy_nats=_mean(table.entropy_nats[table.scored]),
        correct_count=counts.correct,
        total_count=counts.total,
        scored_count=counts.scored,
        bad_line_count=counts.bad_lines,
        unit_count=counts.units,
        tie_count=counts.ties,
        unbounded_margin_count=counts.unbounded_margins,
        straddled_count=counts.straddled,
        pmi_failed_count=counts.pmi_failed,
        pmi_missing=_pmi_missing(ordered),
        normalisations=_normalisations(table, skipped),
        calibration=calibrated,
        selective=ranked,
        groups=groups,
    )


def _counts(ordered: Samples, table: Columns, skipped: int) -> Counts:
    scored = [sample.result for sample in ordered if not sample.failed]
    return Counts(
        correct=int(table.correct.sum()),
        total=table.total + skipped,
        scored=len(scored),
        bad_lines=skipped,
        units=_unit_count(table.unit),
        ties=sum(record.tie is True for record in scored),
        unbounded_margins=int(np.isnan(table.margin_nats[table.scored]).sum()),
        straddled=sum(record.straddled is True for record in scored),
        pmi_failed=sum(record.pmi_missing not in (None, "not_asked") for record in scored),
    )


def _pmi_missing(ordered: Samples) -> dict[str, int]:
    """Why scored questions have no PMI, by reason."""
    reasons = [sample.result.pmi_missing for sample in ordered if not sample.failed]
    return dict(sorted(Counter(reason for reason in reasons if reason is not None).items()))


# -- accuracy and margin ------------------------------------------------------------------------------------------


def _accuracy_figure(table: Columns, counts: Counts) -> Figure:
    share = _share(table.correct, table.unit, counts.bad_lines)
    notes = [too_few(counts.units + counts.bad_lines, _units_noun(table))]
    bad, scored = counts.bad_lines, counts.scored
    lost = {"failed": table.total - scored, "bad line" if bad == 1 else "bad lines": bad}
    if any(lost.values()):
        of_scored = f": {counts.correct / scored:.1%} of the {scored} scored" if scored else ""
        parts = " and ".join(f"{count} {what}" for what, count in lost.items() if count)
        notes.append(f"{parts} counted as not right{of_scored}")
    if counts.ties:
        notes.append(f"{counts.ties} of {scored} are ties, which went to the first choice")
    meaning = "questions whose likeliest choice is the right one"
    return Figure("accuracy", share.value, "share", **share.bounds, note=_joined(notes, share.value), meaning=meaning)


def _share(right: NDArray[np.bool_], unit: Codes, bad: int = 0) -> Share:
    """How often it is right; bad lines are not right, and each of them stands for itself."""
    after = int(unit.max(initial=-1)) + 1
    everything = np.concatenate([right, np.zeros(bad, dtype=np.bool_)])
    return share(everything, np.concatenate([unit, np.arange(after, after + bad)]))


def _of_share(share: Share) -> dict[str, Any]:
    return {"accuracy": share.value, **share.bounds, "correct_count": share.count, "total_count": share.of}


def _margin_figure(table: Columns) -> Figure:
    known = ~np.isnan(table.margin_nats)
    margins, unit = table.margin_nats[known], table.unit[known]
    interval = mean_interval(margins, clusters=unit, level=LEVEL, least=0.0) if len(margins) else None
    notes = [None if interval else too_few(_unit_count(unit), _units_noun(table)) or "no interval: all are alike"]
    if len(margins) < table.total:
        notes.append(f"over the {len(margins)} of {table.total} questions with a margin")
    meaning = "how far the likeliest choice leads the second: 0 is a tie, 2.3 is ten times likelier"
    return Figure.of("mean margin", _mean(margins), "nats", interval, _joined(notes, _mean(margins)), meaning)


def _joined(notes: Sequence[str | None], value: float | None) -> str | None:
    """What qualifies a figure; nothing where there is none."""
    return "; ".join(note for note in notes if note) or None if value is not None else None


def _normalisations(table: Columns, skipped: int) -> dict[str, Normalisation | None]:
    """Accuracy by each score over all lines of the data; None where no question has that score."""
    entries: dict[str, Normalisation | None] = {}
    for place, name in enumerate(NORMALISATIONS):
        known = int((table.predictions[:, place] >= 0).sum())
        share = _share(table.right(place), table.unit, skipped)
        entries[name] = Normalisation(**_of_share(share), known_count=known) if known else None
    return entries


# -- groups -------------------------------------------------------------------------------------------------------


def _groups(table: Columns) -> list[Group]:
    """The main figures of each group, in the order of the data; none where no question has a group.

    Nobody knows the group of a bad line, so that these are in none.
    """
    members: dict[str | None, list[int]] = {}
    for i, group in enumerate(table.groups):
        members.setdefault(group, []).append(i)
    if set(members) <= {None}:
        return []
    return [_group(name, table.rows(np.array(rows, dtype=np.intp))) for name, rows in members.items()]


def _group(name: str | None, table: Columns) -> Group:
    confidence, correct = table.confidence[table.scored], table.correct[table.scored]
    surplus: Interval | None = None
    if len(confidence):
        surplus = overconfidence_interval(confidence, correct, clusters=table.unit[table.scored], level=LEVEL)
    return Group(
        group=name,
        **_of_share(_share(table.correct, table.unit)),
        scored_count=len(correct),
        unit_count=_unit_count(table.unit),
        accuracy_by_chance=_mean(table.chance),
        avg_margin=_mean(_known(table.margin_nats)),
        mean_confidence=_mean(confidence),
        overconfidence=_mean(confidence - correct),
        **{f"overconfidence_{part}": value for part, value in ends(surplus).items()},
    )


# -- what a reader must know --------------------------------------------------------------------------------------


def _notes(
    ordered: Samples,
    table: Columns,
    counts: Counts,
    groups: Sequence[Group],
    calibrated: Calibration | None,
    ranked: Selective | None,
) -> list[str]:
    notes = [*_about_missing(table, counts), *_about_units(ordered, table, groups)]
    sentences = (
        ("margins over a choice of probability 0, which are not in the mean", counts.unbounded_margins),
        ("questions with a token across the end of the prompt, scored from that token on", counts.straddled),
        ("questions without PMI, which count as not right by it", counts.pmi_failed),
    )
    notes += [f"{words}: {count}" for words, count in sentences if count]
    if ranked is not None and ranked.auroc is not None and ranked.auroc_low is None and counts.units >= LEAST_UNITS:
        least = f"{LEAST_OF_A_CLASS} {_units_noun(table)} with right and {LEAST_OF_A_CLASS} with wrong answers"
        notes.append(f"no interval for the AUROC: it takes {least}")
    if calibrated is not None and calibrated.smooth_ece_missing:
        notes.append(calibrated.smooth_ece_missing)
    return notes


def _about_missing(table: Columns, counts: Counts) -> list[str]:
    correct, scored, bad = counts.correct, counts.scored, counts.bad_lines
    notes = []
    if bad and table.total:
        notes.append(
            f"accuracy counts the {bad} bad line{'s' if bad > 1 else ''} of the data as not right; without them it is "
            f"{correct / table.total:.1%} of {table.total}. So do the other accuracies; nothing else has them"
        )
    if 0 < scored < table.total:
        notes.append(
            f"accuracy counts what could not be scored as not right; of the {scored} scored it is "
            f"{correct / scored:.1%}, and confidence is judged on those"
        )
    return notes


def _about_units(ordered: Samples, table: Columns, groups: Sequence[Group]) -> list[str]:
    notes, total = [], table.total
    labels = shared([sample.result for sample in ordered])
    common = [what for what, known in labels.items() if _repeats(known)]
    if common:
        notes.append(
            f"questions that share {' or '.join(common)} are not independent: intervals take these {total} questions "
            f"as {_unit_count(table.unit)} independent units"
        )
    alone = labels["a cluster"].count(None)
    if 0 < alone < total:
        notes.append(f"{alone} of {total} questions have no cluster, and count as independent of the others")
    small = sum(group.unit_count < LEAST_UNITS for group in groups)
    if small and _unit_count(table.unit) >= LEAST_UNITS:  # else the headline says it of all figures
        notes.append(
            f"no interval for {small} of {len(groups)} groups: it takes at least {LEAST_UNITS} {_units_noun(table)}"
        )
    return notes


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
