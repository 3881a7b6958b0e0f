"""Two runs over the same screens: what changed, how sure that is, and which clicks turned.

Everything is paired by the samples' ids. What has no click (a failed call, a wrong format) is a miss in all shares, so
that both runs are shares of the same samples; distances are compared where both runs have one, and nowhere else.
Bad samples of the data are misses in both. Samples on the same screen hang together, so intervals are over screens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from howsure.errors import InputError, RunDamaged
from howsure.measures import (
    PairedDifference,
    auroc,
    auroc_interval,
    mcnemar_exact,
    median_interval,
    paired_means,
    paired_shares,
    too_few,
)
from howsure.runs import Run
from howsure.studies.comparing import Comparison, McNemar, Side, notes_on_models, read_side, refuse_other_data
from howsure.studies.grounding.figures import (
    COUNT_BAD,
    Bools,
    Codes,
    Columns,
    Floats,
    columns,
    confidences,
    mean_of,
    median_of,
    screens_with_bad,
    with_bad,
)
from howsure.studies.grounding.judge import Area, judge_group, rows_by_label
from howsure.studies.grounding.record import (
    DISTANCES,
    GroundingRecord,
    Labels,
    Place,
    Samples,
    Target,
    kinds_of,
)
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL, ends
from howsure.types import Fields

FAILED = "failed"
"""What a sample says that has no answer."""

_SAME_ITEM = ("instruction", "image_sha256", "target", "labels", "gt_content")
_ASKED = ("parser", "frame", "prompt", "max_new_tokens", "logprobs", "samples", "temperature")
"""Options that models may need of their own: another one is told, not refused."""
_SHOWN_CHARACTERS = 60

GroundingRun = Side[GroundingRecord]


class SideCoverage(Fields, kw_only=True):
    items: int
    scored: int
    text: str


class GroundingSide(Fields, kw_only=True):
    """The figures of one run: bad samples of its data and failed calls are misses."""

    run: str
    model: str | None
    coverage: SideCoverage
    bad_sample_count: int
    count: int
    accuracy: float | None
    low: float | None
    high: float | None
    approximate: bool | None
    mean_l2: float | None
    median_l2: float | None
    point_in_target: float | None
    point_in_target_low: float | None
    point_in_target_high: float | None
    point_in_target_approximate: bool | None
    hit_rate: float | None
    image_count: int
    answered_count: int
    failed_count: int
    clicked_count: int
    refused_count: int
    wrong_format_count: int
    placed_count: int
    region_count: int
    nothing_to_click_count: int
    distance_count: int
    off_screen_count: int
    cut_off_count: int


class Change(Fields, kw_only=True):
    """What two runs have on average, and B − A with its interval, over the samples that it can be said of."""

    a: float | None
    b: float | None
    difference: float | None
    items: int
    images: int
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    note: str | None
    """Why there is no interval."""


class Changes(Fields, kw_only=True):
    """`mean_l2` is over the samples with a distance in both. `median_change_l2` is the median of what became of each
    distance, which is not the difference of two medians, and so has neither `a` nor `b`."""

    accuracy: Change
    point_in_target: Change
    hit_rate: Change
    refused_rightly: Change
    refused_wrongly: Change
    mean_l2: Change
    median_change_l2: Change


class Cells(Fields, kw_only=True):
    """How many samples have something in which run."""

    both: int
    only_a: int
    only_b: int
    neither: int
    of: int


class GroupDifference(Fields, kw_only=True):
    """B − A of some samples: plain differences first, each again with its doubt in `figures`."""

    value: str | UnsetType | None = UNSET
    """In a split: the label; None for samples without one."""
    count: int
    image_count: int
    accuracy: float | None
    point_in_target: float | None
    hit_rate: float | None
    refused_rightly: float | None
    refused_wrongly: float | None
    mean_l2: float | None
    median_change_l2: float | None
    figures: Changes
    distances: Cells
    wrong_format: Cells


class KnownArea(Area, kw_only=True):
    """AUROC over the `answers` of one run that have this confidence."""

    answers: int


class KnowsInBoth(Fields, kw_only=True):
    a: KnownArea
    b: KnownArea


class Flip(Fields, kw_only=True):
    """A sample that is a hit in one run and a miss in the other."""

    id: str
    instruction: str
    labels: Labels
    target: Target
    says_a: str | None
    says_b: str | None
    pred_coord_a: Place | None
    pred_coord_b: Place | None
    l2_a: float | None
    l2_b: float | None
    moved_l2: float | None


class Flips(Fields, kw_only=True):
    """Those first whose distance moved farthest; those without one in both runs come last."""

    hit_to_miss: list[Flip]
    miss_to_hit: list[Flip]


class GroundingDifference(GroupDifference, kw_only=True):
    mcnemar: McNemar
    knows: dict[str, KnowsInBoth]
    """For each confidence that both runs have: does it tell hits from misses?"""
    splits: dict[str, list[GroupDifference]]
    flips: Flips


class GroundingComparison(Comparison, kw_only=True):
    """`a` and `b` are the figures of each run, `difference` is B − A, with paired intervals over screens."""

    delta: float
    a: GroundingSide
    b: GroundingSide
    difference: GroundingDifference
    notes: list[str]


class Both(NamedTuple):
    """Two runs as columns, row by row the same items, and how many samples of their data could not be read."""

    a: Columns
    b: Columns
    bad: int = 0

    def rows(self, chosen: NDArray[np.intp]) -> Both:
        """Some of the items; bad samples have no label by which they could be chosen."""
        return Both(self.a.rows(chosen), self.b.rows(chosen))


def compare(run_a: Run, run_b: Run) -> GroundingComparison:
    a, b = (read_side(run, "grounding", GroundingRecord) for run in (run_a, run_b))
    delta = check_comparable(a, b)
    named = {sample.id: sample for sample in b.samples}
    samples = [named[sample.id] for sample in a.samples]
    both = Both(columns(a.samples, delta=delta), columns(samples, delta=delta), max(a.bad_lines, b.bad_lines))
    test = mcnemar_exact(both.a.hit, both.b.hit)
    kinds = [kind for kind in kinds_of(a.samples) if kind in kinds_of(samples)]
    difference = GroundingDifference(
        **_changes(both),
        mcnemar=McNemar(**asdict(test)),
        knows={kind: KnowsInBoth(a=_area(kind, a.samples, both.a), b=_area(kind, samples, both.b)) for kind in kinds},
        splits={
            kind: [GroupDifference(value=value, **_changes(both.rows(rows))) for value, rows in groups.items()]
            for kind, groups in rows_by_label(a.samples).items()
        },
        flips=Flips(
            hit_to_miss=_turned(a.samples, samples, both.a.hit & ~both.b.hit),
            miss_to_hit=_turned(a.samples, samples, both.b.hit & ~both.a.hit),
        ),
    )
    return GroundingComparison(
        study="grounding",
        delta=delta,
        a=_about(a, delta),
        b=_about(b, delta),
        difference=difference,
        notes=[*notes_on_models(a, b), *_notes(a, b, both, difference)],
    )


# -- may they be compared? ------------------------------------------------------------------------------------------


def check_comparable(a: GroundingRun, b: GroundingRun) -> float:
    """Refuse other data, and hits that mean something else; the δ of both."""
    problem = _other_items(a, b)
    if problem is not None:
        refuse_other_data(a, b, "data", f"{problem}; compare runs of the same data and users")
    delta, other = _delta(a), _delta(b)
    if delta != other:
        raise InputError(
            f"{a.run.path} was judged with --delta {delta:g}, {b.run.path} with {other:g}, so that they count hits "
            "differently: run one of them again, into another --out, with the --delta of the other"
        )
    return delta


def _delta(side: GroundingRun) -> float:
    delta = side.options.get("delta")
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not math.isfinite(delta):
        raise RunDamaged(f"the manifest of {side.run.path} has no delta to judge by: start the run anew")
    return float(delta)


def _other_items(a: GroundingRun, b: GroundingRun) -> str | None:
    """What the first difference between the data of two runs is, or None."""
    first, second = ({sample.id: sample for sample in side.samples} for side in (a, b))
    only_a, only_b = len(first.keys() - second.keys()), len(second.keys() - first.keys())
    if only_a or only_b:
        return f"{only_a} samples are in the first alone and {only_b} in the second alone"
    for name, sample in first.items():
        for field in _SAME_ITEM:
            if getattr(sample.result, field) != getattr(second[name].result, field):
                return f"{field} of {name!r} differs{_because_of_parsers(a, b, field)}"
    if a.run.manifest.identity.data.get("fingerprint") == b.run.manifest.identity.data.get("fingerprint"):
        return None
    moved = next((name for name, other in zip(first, second, strict=True) if name != other), None)
    return "the prompts of the data differ" if moved is None else f"their order differs, from {moved!r} on"


def _because_of_parsers(a: GroundingRun, b: GroundingRun, field: str) -> str:
    read = [(side.options.get("decided") or {}).get("parser") for side in (a, b)]
    if field != "target" or read[0] == read[1]:
        return ""
    return f" (right answers written in words were read by the parsers {read[0]} and {read[1]})"


# -- what changed ---------------------------------------------------------------------------------------------------


def _about(side: GroundingRun, delta: float) -> GroundingSide:
    bad = side.bad_lines
    coverage = Coverage.of(side.samples, {"bad_sample": bad} if bad else None)
    return GroundingSide(
        run=str(side.run.path),
        model=side.model,
        coverage=SideCoverage(items=coverage.items, scored=coverage.scored, text=coverage.text),
        bad_sample_count=bad,
        **msgspec.to_builtins(judge_group(side.samples, delta=delta, skipped=bad)),
    )


def _changes(both: Both) -> dict[str, Any]:
    """The fields of a `GroupDifference`."""
    known, a, b = figures(both), both.a, both.b
    return {
        "count": len(a),
        "image_count": a.images,
        **{name: known[name].difference for name in known},
        "figures": known,
        "distances": _cells(a.measured, b.measured, a.placed),
        "wrong_format": _cells(a.unreadable, b.unreadable, np.ones(len(a), dtype=np.bool_)),
    }


def figures(both: Both) -> Changes:
    a, b = both.a, both.b
    shares = {
        "accuracy": (a.within, b.within, a.placed),
        "point_in_target": (a.inside, b.inside, a.region),
        "hit_rate": (a.hit, b.hit, np.ones(len(a), dtype=np.bool_)),
        "refused_rightly": (a.refused, b.refused, ~a.placed),
        "refused_wrongly": (a.refused, b.refused, a.placed),
    }
    known = {}
    for name, (in_a, in_b, of) in shares.items():
        bad = both.bad if name in COUNT_BAD and of.any() else 0
        first, second = (with_bad(side[of], bad).astype(np.float64) for side in (in_a, in_b))
        image = screens_with_bad(a.image[of], bad)
        known[name] = _change(first, second, paired_shares(first, second, clusters=image, level=LEVEL), image)
    measured = a.measured & b.measured
    first, second, image = a.l2[measured], b.l2[measured], a.image[measured]
    changes = second - first
    middle = median_of(changes)
    median = None
    if middle is not None:
        median = PairedDifference(middle, median_interval(changes, clusters=image, level=LEVEL), len(changes))
    return Changes(
        **known,
        mean_l2=_change(first, second, paired_means(first, second, clusters=image, level=LEVEL), image),
        median_change_l2=_change(None, None, median, image),
    )


def _change(a: Floats | None, b: Floats | None, paired: PairedDifference | None, image: Codes) -> Change:
    screens, interval = len(np.unique(image)), None if paired is None else paired.interval
    why = None
    if paired is not None and interval is None:
        why = too_few(screens, "screens") or "no interval: all changed alike"
    return Change(
        a=None if a is None else mean_of(a),
        b=None if b is None else mean_of(b),
        difference=None if paired is None else paired.mean_difference,
        items=len(image),
        images=screens,
        **ends(interval),
        note=why,
    )


def _cells(a: Bools, b: Bools, of: Bools) -> Cells:
    both, only_a, only_b, neither = (int((cell & of).sum()) for cell in (a & b, a & ~b, b & ~a, ~a & ~b))
    return Cells(both=both, only_a=only_a, only_b=only_b, neither=neither, of=int(of.sum()))


def _area(kind: str, samples: Samples, table: Columns) -> KnownArea:
    """Over the answers of one run that have this confidence, which need not be the same samples in the other."""
    values, _ = confidences(samples, kind)
    known = ~np.isnan(values)
    ranked, hit = -values[known] if kind in DISTANCES else values[known], table.hit[known]
    area = auroc(ranked, hit)
    interval = None if area is None else auroc_interval(ranked, hit, clusters=table.image[known], level=LEVEL)
    return KnownArea(value=area, **ends(interval), answers=len(ranked))


def _turned(a: Samples, b: Samples, turned: Bools) -> list[Flip]:
    flips = []
    for x, y, has_turned in zip(a, b, turned, strict=True):
        if not has_turned:
            continue
        before, after = (None if sample.failed else sample.result.l2 for sample in (x, y))
        flips.append(
            Flip(
                id=x.id,
                instruction=x.result.instruction,
                labels=x.result.labels,
                target=x.result.target,
                says_a=FAILED if x.failed else x.result.says,
                says_b=FAILED if y.failed else y.result.says,
                pred_coord_a=x.result.pred_coord,
                pred_coord_b=y.result.pred_coord,
                l2_a=before,
                l2_b=after,
                moved_l2=None if before is None or after is None else after - before,
            )
        )
    return sorted(flips, key=lambda flip: math.inf if flip.moved_l2 is None else -abs(flip.moved_l2))


# -- what a reader must know ----------------------------------------------------------------------------------------


def _notes(a: GroundingRun, b: GroundingRun, both: Both, difference: GroundingDifference) -> Iterator[str]:
    yield from _asked_differently(a, b)
    yield from _about_failures(both)
    yield from _about_bad_samples(a, b, both)
    yield from _about_distances(difference.distances)
    yield from _about_kinds(a, b)
    yield from _about_screens(both, difference.mcnemar)


def _asked_differently(a: GroundingRun, b: GroundingRun) -> Iterator[str]:
    """Models need frames and prompts of their own, so that these are no reason to refuse; but they are a reason."""
    clicks = ["parser" not in side.options for side in (a, b)]  # of models that click without words
    if all(clicks):
        return
    if any(clicks):
        silent, other = ("A", "B") if clicks[0] else ("B", "A")
        yield f"{silent} clicks without words: frame, parser and prompt are {other}'s alone"
        return
    asked = [(name, a.options.get(name), b.options.get(name)) for name in _ASKED]
    asked.append(("max_pixels", _max_pixels(a), _max_pixels(b)))
    differing = [f"{name} {_short(x)} in A, {_short(y)} in B" for name, x, y in asked if x != y]
    if differing:
        yield f"asked or read in another way, which is part of the difference: {'; '.join(differing)}"


def _max_pixels(side: GroundingRun) -> Any:
    """Of a model on this machine in its fingerprint, of a server in the options; None where nothing was said."""
    return side.run.manifest.identity.model.get("max_pixels", side.options.get("server_max_pixels"))


def _short(value: Any) -> str:
    text = "not set" if value is None else value if isinstance(value, str) else repr(value)
    shown = " ".join(text.split())
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[: _SHOWN_CHARACTERS - 1]}…"


def _about_failures(both: Both) -> Iterator[str]:
    failed = [int((~table.answered).sum()) for table in (both.a, both.b)]
    if any(failed):
        yield (
            f"of {len(both.a)} samples {failed[0]} failed in A and {failed[1]} in B, and count as misses there: "
            "--retry-failed on the run's command asks them again"
        )


def _about_bad_samples(a: GroundingRun, b: GroundingRun, both: Both) -> Iterator[str]:
    if not both.bad:
        return
    if a.bad_lines == b.bad_lines:
        yield f"{both.bad} bad samples of the data count as misses in both"
        return
    yield (
        f"{a.bad_lines} samples of the data were bad in A, and {b.bad_lines} in B: the shares compared count "
        f"{both.bad} misses in both for them"
    )


def _about_distances(cells: Cells) -> Iterator[str]:
    if cells.both < cells.of:
        yield (
            f"distances are compared over the {cells.both} of {cells.of} samples that have one in both "
            f"({cells.only_a} have one in A alone, {cells.only_b} in B alone, {cells.neither} in neither)"
        )


def _about_kinds(a: GroundingRun, b: GroundingRun) -> Iterator[str]:
    first, second = kinds_of(a.samples), kinds_of(b.samples)
    alone = {
        "A": [kind for kind in first if kind not in second],
        "B": [kind for kind in second if kind not in first],
    }
    parts = [f"{side} alone has {', '.join(kinds).replace('_', ' ')}" for side, kinds in alone.items() if kinds]
    if parts:
        yield f"only confidence of the same kind is compared: {'; '.join(parts)}"


def _about_screens(both: Both, test: McNemar) -> Iterator[str]:
    images, items = both.a.images, len(both.a)
    if images < items and test.only_a_correct + test.only_b_correct:
        yield (
            f"McNemar's test takes samples as independent, and these {items} are on {images} "
            f"screen{'' if images == 1 else 's'}: the intervals, which are over screens, are the safer guide"
        )
    if images and (few := too_few(images, "screens")):
        yield few
