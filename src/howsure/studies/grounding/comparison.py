"""Two runs over the same screens: what changed, how sure that is, and which clicks turned.

Everything is paired by the samples' ids. What has no click (a failed call, a wrong format) is a miss in all shares, so
that both runs are shares of the same samples; distances are compared where both runs have one, and nowhere else.
Bad samples of the data are misses in both. Samples on the same screen hang together, so intervals are over screens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
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
from howsure.runs import Run, Sample
from howsure.runs.folder import SAMPLES, SUMMARY
from howsure.studies.grounding.items import LABELS
from howsure.studies.grounding.judging.columns import Bools, Columns, Floats, columns, confidences, kinds_of
from howsure.studies.grounding.judging.figures import (
    COUNT_BAD,
    Codes,
    mean_of,
    median_of,
    screens_with_bad,
    with_bad,
)
from howsure.studies.grounding.judging.judge import judge_group
from howsure.studies.grounding.judging.knows import DISTANCES
from howsure.studies.summary import Coverage
from howsure.studies.sureness import LEVEL, ends

STUDY = "grounding"

FAILED = "failed"
"""What a sample says that has no answer."""

_SAME_ITEM = ("instruction", "image_sha256", "target", "labels", "gt_content")
_ASKED = ("parser", "frame", "prompt", "max_new_tokens", "logprobs", "samples", "temperature")
"""Options that models may need of their own: another one is told, not refused."""
_SHOWN_CHARACTERS = 60


class Side(NamedTuple):
    """One of the two runs, read."""

    run: Run
    summary: dict[str, Any]
    samples: list[Sample]
    delta: float

    @property
    def options(self) -> dict[str, Any]:
        return self.run.manifest.identity.options

    @property
    def bad_samples(self) -> int:
        return int(self.run.manifest.identity.data.get("skipped") or 0)

    @property
    def clicks(self) -> bool:
        """Whether its model clicks without words, and so has neither parser nor frame."""
        return "parser" not in self.options


class Both(NamedTuple):
    """Two runs as columns, row by row the same items, and how many samples of their data could not be read."""

    a: Columns
    b: Columns
    bad: int = 0

    def rows(self, chosen: NDArray[np.intp]) -> Both:
        """Some of the items; bad samples have no label by which they could be chosen."""
        return Both(self.a.rows(chosen), self.b.rows(chosen))


def compare(run_a: Run, run_b: Run) -> dict[str, Any]:
    """`a` and `b` (the figures of each), `difference` (B − A, with paired intervals over screens) and `notes`."""
    a, b = read_side(run_a), read_side(run_b)
    check_comparable(a, b)
    b = b._replace(samples=_in_the_order_of(a.samples, b.samples))
    first, second = (columns(side.samples, delta=a.delta) for side in (a, b))
    both = Both(first, second, max(a.bad_samples, b.bad_samples))
    difference = _difference(a, b, both)
    return {
        "study": STUDY,
        "delta": a.delta,
        "a": _about(a),
        "b": _about(b),
        "difference": difference,
        "notes": list(_notes(a, b, both, difference)),
    }


# -- may they be compared? ------------------------------------------------------------------------------------------


def read_side(run: Run) -> Side:
    """A finished run of this study, or one sentence about why it is none."""
    samples, summary = run.records(evidence=False), run.summary
    if run.status != "finished" or summary is None or len(samples) != run.manifest.items:
        raise InputError(
            f"{run.path} is not finished ({run.status}, {len(samples)} of {run.manifest.items} samples): run the "
            "command that made it again, then compare"
        )
    if not isinstance(summary.get("splits"), dict):
        raise RunDamaged(f"{run.path / SUMMARY} has no splits; run the same command again to have it rewritten")
    for sample in samples:
        lacking = [name for name in _SAME_ITEM if name not in sample.result]
        if lacking:
            raise RunDamaged(f"{run.path / SAMPLES}: sample {sample.id!r} has no {lacking[0]}; restore the file")
    return Side(run, summary, samples, _delta(run))


def _delta(run: Run) -> float:
    found = run.manifest.identity.options.get("delta")
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        raise RunDamaged(f"the manifest of {run.path} has no delta to judge by: start the run anew")
    return float(found)


def check_comparable(a: Side, b: Side) -> None:
    """Refuse other data, and hits that mean something else."""
    problem = _other_items(a, b)
    if problem is not None:
        raise InputError(
            f"{a.run.path} and {b.run.path} are over different data: {problem}; compare runs of the same data and users"
        )
    if a.delta != b.delta:
        raise InputError(
            f"{a.run.path} was judged with --delta {a.delta:g}, {b.run.path} with {b.delta:g}, so that they count hits "
            "differently: run one of them again, into another --out, with the --delta of the other"
        )


def _other_items(a: Side, b: Side) -> str | None:
    """What the first difference between the data of two runs is, or None."""
    first, second = ({sample.id: sample for sample in side.samples} for side in (a, b))
    only_a, only_b = len(first.keys() - second.keys()), len(second.keys() - first.keys())
    if only_a or only_b:
        return f"{only_a} samples are in the first alone and {only_b} in the second alone"
    for name, sample in first.items():
        for field in _SAME_ITEM:
            if sample.result[field] != second[name].result[field]:
                return f"{field} of {name!r} differs{_because_of_parsers(a, b, field)}"
    if a.run.manifest.identity.data.get("fingerprint") == b.run.manifest.identity.data.get("fingerprint"):
        return None
    moved = next((name for name, other in zip(first, second, strict=True) if name != other), None)
    return "the prompts of the data differ" if moved is None else f"their order differs, from {moved!r} on"


def _because_of_parsers(a: Side, b: Side, field: str) -> str:
    read = [(side.options.get("decided") or {}).get("parser") for side in (a, b)]
    if field != "target" or read[0] == read[1]:
        return ""
    return f" (right answers written in words were read by the parsers {read[0]} and {read[1]})"


def _in_the_order_of(a: Sequence[Sample], b: Sequence[Sample]) -> list[Sample]:
    named = {sample.id: sample for sample in b}
    return [named[sample.id] for sample in a]


# -- what changed ---------------------------------------------------------------------------------------------------


def _about(side: Side) -> dict[str, Any]:
    bad = side.bad_samples
    coverage = Coverage.of(side.samples, {"bad_sample": bad} if bad else None)
    return {
        "run": str(side.run.path),
        "model": side.run.manifest.identity.model.get("name"),
        "coverage": {"items": coverage.items, "scored": coverage.scored, "text": coverage.text},
        "bad_sample_count": bad,
        **judge_group(side.samples, delta=side.delta, skipped=bad),
    }


def _difference(a: Side, b: Side, both: Both) -> dict[str, Any]:
    test = mcnemar_exact(both.a.hit, both.b.hit)
    return {
        **_changes(both),
        "mcnemar": {
            "both_correct": test.both_correct,
            "only_a_correct": test.only_a_correct,
            "only_b_correct": test.only_b_correct,
            "both_wrong": test.both_wrong,
            "p_value": test.p_value,
        },
        "knows": _knows(a, b, both),
        "splits": _splits(a, both),
        "flips": flips(a.samples, b.samples, both),
    }


def _changes(both: Both) -> dict[str, Any]:
    """The figures of some samples: plain differences first, each again with its doubt in `figures`, then counts."""
    found = figures(both)
    a, b = both.a, both.b
    return {
        "count": len(a),
        "image_count": a.images,
        **{name: one["difference"] for name, one in found.items()},
        "figures": found,
        "distances": _cells(a.measured, b.measured, a.placed),
        "wrong_format": _cells(a.unreadable, b.unreadable, np.ones(len(a), dtype=np.bool_)),
    }


def figures(both: Both) -> dict[str, dict[str, Any]]:
    """Each figure by its name: that of A and of B, B − A and its interval, and of how many samples and screens.

    `mean_l2` is over the samples with a distance in both. `median_change_l2` is the median of what became of each
    distance, which is not the difference of two medians, and so has neither `a` nor `b`.
    """
    a, b = both.a, both.b
    shares = {
        "accuracy": (a.within, b.within, a.placed),
        "point_in_target": (a.inside, b.inside, a.region),
        "hit_rate": (a.hit, b.hit, np.ones(len(a), dtype=np.bool_)),
        "refused_rightly": (a.refused, b.refused, ~a.placed),
        "refused_wrongly": (a.refused, b.refused, a.placed),
    }
    found = {}
    for name, (in_a, in_b, of) in shares.items():
        bad = both.bad if name in COUNT_BAD and of.any() else 0
        first, second = (with_bad(side[of], bad).astype(np.float64) for side in (in_a, in_b))
        image = screens_with_bad(a.image[of], bad)
        found[name] = _change(first, second, paired_shares(first, second, clusters=image, level=LEVEL), image)
    measured = a.measured & b.measured
    first, second, image = a.l2[measured], b.l2[measured], a.image[measured]
    changes = second - first
    middle = median_of(changes)
    median = None
    if middle is not None:
        median = PairedDifference(middle, median_interval(changes, clusters=image, level=LEVEL), len(changes))
    return found | {
        "mean_l2": _change(first, second, paired_means(first, second, clusters=image, level=LEVEL), image),
        "median_change_l2": _change(None, None, median, image),
    }


def _change(a: Floats | None, b: Floats | None, paired: PairedDifference | None, image: Codes) -> dict[str, Any]:
    """What two runs have on average, and the change with its interval; `note` says why it has none."""
    screens, interval = len(np.unique(image)), None if paired is None else paired.interval
    why = None
    if paired is not None and interval is None:
        why = too_few(screens, "screens") or "no interval: all changed alike"
    return {
        "a": None if a is None else mean_of(a),
        "b": None if b is None else mean_of(b),
        "difference": None if paired is None else paired.mean_difference,
        "items": len(image),
        "images": screens,
        **ends(interval),
        "note": why,
    }


def _cells(a: Bools, b: Bools, of: Bools) -> dict[str, int]:
    """How many of these samples have something in which run."""
    return {
        "both": int((a & b & of).sum()),
        "only_a": int((a & ~b & of).sum()),
        "only_b": int((b & ~a & of).sum()),
        "neither": int((~a & ~b & of).sum()),
        "of": int(of.sum()),
    }


def _knows(a: Side, b: Side, both: Both) -> dict[str, dict[str, Any]]:
    """For each confidence that both runs have: does it tell hits from misses, in A and in B?

    Each over the answers of its own run that have it, which need not be the same samples.
    """
    kinds = [kind for kind in kinds_of(a.samples) if kind in kinds_of(b.samples)]
    return {kind: {"a": _auroc(kind, a, both.a), "b": _auroc(kind, b, both.b)} for kind in kinds}


def _auroc(kind: str, side: Side, table: Columns) -> dict[str, Any]:
    values, _ = confidences(side.samples, kind)
    known = ~np.isnan(values)
    ranked, hit = -values[known] if kind in DISTANCES else values[known], table.hit[known]
    area = auroc(ranked, hit)
    interval = None if area is None else auroc_interval(ranked, hit, clusters=table.image[known], level=LEVEL)
    return {"value": area, **ends(interval), "answers": len(ranked)}


def _splits(side: Side, both: Both) -> dict[str, list[dict[str, Any]]]:
    """The changes of each user, platform and so on, in the order of the run's own splits."""
    splits = side.summary["splits"]
    return {
        kind: [
            {"value": value, **_changes(both.rows(np.array(members, dtype=np.intp)))}
            for value, members in _members(side.samples, kind, [row["value"] for row in splits[kind]]).items()
        ]
        for kind in LABELS
        if kind in splits
    }


def _members(samples: Sequence[Sample], kind: str, values: Sequence[str | None]) -> dict[str | None, list[int]]:
    """The rows of each value; a sample with several is in each, one with none under None."""
    members: dict[str | None, list[int]] = {value: [] for value in values}
    for row, sample in enumerate(samples):
        for value in dict.fromkeys(sample.result["labels"].get(kind) or [None]):
            members.setdefault(value, []).append(row)
    return {value: rows for value, rows in members.items() if rows}


# -- flips ----------------------------------------------------------------------------------------------------------


def flips(a: Sequence[Sample], b: Sequence[Sample], both: Both) -> dict[str, list[dict[str, Any]]]:
    """The samples that turned, those first whose distance moved farthest; those without one in both runs come last."""
    return {
        "hit_to_miss": _turned(a, b, both.a.hit & ~both.b.hit),
        "miss_to_hit": _turned(a, b, both.b.hit & ~both.a.hit),
    }


def _turned(a: Sequence[Sample], b: Sequence[Sample], turned: Bools) -> list[dict[str, Any]]:
    found = [_flip(x, y) for x, y, has_turned in zip(a, b, turned, strict=True) if has_turned]
    return sorted(found, key=lambda flip: math.inf if flip["moved_l2"] is None else -abs(flip["moved_l2"]))


def _flip(a: Sample, b: Sample) -> dict[str, Any]:
    before, after = (None if sample.failed else sample.result.get("l2") for sample in (a, b))
    return {
        "id": a.id,
        "instruction": a.result["instruction"],
        "labels": a.result["labels"],
        "target": a.result["target"],
        "says_a": FAILED if a.failed else a.result.get("says"),
        "says_b": FAILED if b.failed else b.result.get("says"),
        "pred_coord_a": a.result.get("pred_coord"),
        "pred_coord_b": b.result.get("pred_coord"),
        "l2_a": before,
        "l2_b": after,
        "moved_l2": None if before is None or after is None else after - before,
    }


# -- what a reader must know ----------------------------------------------------------------------------------------


def _notes(a: Side, b: Side, both: Both, difference: dict[str, Any]) -> Iterator[str]:
    if a.run.path.resolve() == b.run.path.resolve():
        yield "both are the same run"
    elif a.run.manifest.identity.model == b.run.manifest.identity.model:
        yield "both runs are of the same model"
    yield from _asked_differently(a, b)
    yield from _about_failures(both)
    yield from _about_bad_samples(a, b, both)
    yield from _about_distances(difference["distances"])
    yield from _about_kinds(a, b)
    yield from _about_screens(both, difference["mcnemar"])


def _asked_differently(a: Side, b: Side) -> Iterator[str]:
    """Models need frames and prompts of their own, so that these are no reason to refuse; but they are a reason."""
    if a.clicks and b.clicks:
        return
    if a.clicks or b.clicks:
        silent, other = ("A", "B") if a.clicks else ("B", "A")
        yield f"{silent} clicks without words: frame, parser and prompt are {other}'s alone"
        return
    asked = [(name, a.options.get(name), b.options.get(name)) for name in _ASKED]
    asked.append(("max_pixels", _max_pixels(a), _max_pixels(b)))
    differing = [f"{name} {_short(x)} in A, {_short(y)} in B" for name, x, y in asked if x != y]
    if differing:
        yield f"asked or read in another way, which is part of the difference: {'; '.join(differing)}"


def _max_pixels(side: Side) -> Any:
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


def _about_bad_samples(a: Side, b: Side, both: Both) -> Iterator[str]:
    if not both.bad:
        return
    if a.bad_samples == b.bad_samples:
        yield f"{both.bad} bad samples of the data count as misses in both"
        return
    yield (
        f"{a.bad_samples} samples of the data were bad in A, and {b.bad_samples} in B: the shares compared count "
        f"{both.bad} misses in both for them"
    )


def _about_distances(cells: dict[str, int]) -> Iterator[str]:
    if cells["both"] < cells["of"]:
        yield (
            f"distances are compared over the {cells['both']} of {cells['of']} samples that have one in both "
            f"({cells['only_a']} have one in A alone, {cells['only_b']} in B alone, {cells['neither']} in neither)"
        )


def _about_kinds(a: Side, b: Side) -> Iterator[str]:
    first, second = kinds_of(a.samples), kinds_of(b.samples)
    alone = {
        "A": [kind for kind in first if kind not in second],
        "B": [kind for kind in second if kind not in first],
    }
    told = [f"{side} alone has {', '.join(kinds).replace('_', ' ')}" for side, kinds in alone.items() if kinds]
    if told:
        yield f"only confidence of the same kind is compared: {'; '.join(told)}"


def _about_screens(both: Both, test: dict[str, Any]) -> Iterator[str]:
    images, items = both.a.images, len(both.a)
    if images < items and test["only_a_correct"] + test["only_b_correct"]:
        yield (
            f"McNemar's test takes samples as independent, and these {items} are on {images} "
            f"screen{'' if images == 1 else 's'}: the intervals, which are over screens, are the safer guide"
        )
    if images and (few := too_few(images, "screens")):
        yield few
