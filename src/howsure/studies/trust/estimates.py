"""Trust over many steps: what grounding and instruction each take off the uncertainty, with how much doubt.

A pure function of the steps. T over steps is the ratio of the two mean differences, never a mean of ratios, which one
step with a denominator near zero would decide; where the denominator is not clearly different from zero, T is "not
identified". Everything that leaves is plain data: what is missing or infinite is None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.measures import FiellerSet, TrustEstimate, bootstrap_mean, trust_of_each, trust_over_steps, wilson_interval
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.sureness import ends
from howsure.studies.trust.steps import DIFFERENT, ENTROPIES, Array, Codes, Reasons, Step, Steps, Units, units
from howsure.studies.trust.sureness import sureness

ORDER_TOLERANCE_BITS = 1e-9
"""Two entropies this near to each other are equal for the ordering: they differ by rounding."""

SHOWN_EPISODES = 50
"""Episodes that a summary holds apart, the first ones; the others are counted, and are in all other figures."""

MOST_UNITS_IN_A_PART = 500
"""What the bootstrap of one episode, or one file, draws from: there may be many of them."""

FEW_EPISODES = 6
"""Below this a bootstrap over episodes has too few different resamples to be believed."""


def trust_summary(
    steps: Sequence[Step] | Steps, *, seed: int, notes: Sequence[str] = (), level: float = 0.95, **fields: Any
) -> dict[str, Any]:
    """The whole summary of a study of trust, in the form that all studies share; `fields` go in as they are."""
    found = summarise(steps, seed=seed, level=level)
    return summary("trust", coverage(found), headline(found), [*remarks(found), *notes], **found, **fields)


def summarise(
    steps: Sequence[Step] | Steps, *, seed: int, level: float = 0.95, resamples: int = 2000
) -> dict[str, Any]:
    """All figures of these steps, as data; docs/trust.md explains each of them."""
    table = steps if isinstance(steps, Steps) else Steps.of(steps)
    complete = table.complete
    bits, drawn = table.bits[complete], units(table.original[complete], table.first_asked[complete])
    return {
        "rows": share(int(complete.sum()), len(table), level),
        "missing": _missing(table, complete),
        "mean_entropy_bits": _mean_entropies(bits, drawn, level, resamples, seed),
        "ordering": _ordering(bits, level),
        "per_step": _per_step(bits, level),
        "trust": estimate(bits, drawn, level=level, resamples=resamples, seed=seed),
        "episode_count": len(np.unique(table.episode)),
        "episodes": list(_episodes(table, complete, level, resamples, seed)),
        "sureness": sureness(
            table, seed=seed, level=level
        ),
    }  # fmt: skip


def share(count: int, of: int, level: float) -> dict[str, Any]:
    """A share with Wilson's interval; its value is None where there is nothing to count."""
    return {"count": count, "of": of, "value": count / of if of else None, **ends(wilson_interval(count, of, level))}


def _missing(table: Steps, complete: NDArray[np.bool_]) -> dict[str, Any]:
    """Why rows are incomplete, each under the reason of its first missing entropy, and why each entropy is missing."""
    first = np.isnan(table.bits[~complete]).argmax(axis=1)
    of_rows = table.reason[~complete][np.arange(len(first)), first]
    by_entropy = {name: _counted(column, table.reasons) for name, column in zip(ENTROPIES, table.reason.T, strict=True)}
    return {"rows": _counted(of_rows, table.reasons), "by_entropy": by_entropy}


def _counted(codes: Codes | Reasons, words: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(dict(enumerate(np.bincount(codes, minlength=len(words)).tolist())))
    return dict(sorted((words[code], count) for code, count in counts.items() if count and words[code]))


# -- the steps one by one ------------------------------------------------------------------------------------------


def _mean_entropies(bits: Array, drawn: Units, level: float, resamples: int, seed: int) -> dict[str, Any]:
    """Over the complete rows only, so that their differences are those that T is made of."""
    found: dict[str, Any] = {}
    for name, column in zip(ENTROPIES, bits.T, strict=True):
        mean = float(column.mean()) if len(column) else None
        options: dict[str, Any] = {"clusters": drawn.labels, "level": level, "resamples": resamples, "seed": seed}
        found[name] = {"value": mean, **ends(bootstrap_mean(column, **options))}
    return found


def _ordering(bits: Array, level: float) -> dict[str, Any]:
    """How often H(X) ≥ H(X|S) ≥ H(X|L,S), which is expected on average and not of each step."""
    grounding = bits[:, 0] >= bits[:, 1] - ORDER_TOLERANCE_BITS
    language = bits[:, 1] >= bits[:, 2] - ORDER_TOLERANCE_BITS
    shares = {
        "both": grounding & language,
        "h_x_at_least_h_x_given_s": grounding,
        "h_x_given_s_at_least_h_x_given_ls": language,
    }
    counted = {name: share(int(holds.sum()), len(bits), level) for name, holds in shares.items()}
    return {"tolerance_bits": ORDER_TOLERANCE_BITS, **counted}


def _per_step(bits: Array, level: float) -> dict[str, Any]:
    """Where T of the single steps lies. There is no mean of them: it would not be an estimate of anything."""
    found = trust_of_each(*bits.T)
    defined = found[~np.isnan(found)]
    quarters = np.quantile(defined, [0.25, 0.5, 0.75]).tolist() if len(defined) else [None] * 3
    return {
        "defined": len(defined),
        "zero_denominator": len(found) - len(defined),
        "in_0_1": share(int(((defined >= 0) & (defined <= 1)).sum()), len(defined), level),
        "below_0": share(int((defined < 0).sum()), len(defined), level),
        "above_1": share(int((defined > 1).sum()), len(defined), level),
        "median": quarters[1],
        "lower_quartile": quarters[0],
        "upper_quartile": quarters[2],
    }


# -- the steps together --------------------------------------------------------------------------------------------


def estimate(bits: Array, drawn: Units, *, level: float, resamples: int, seed: int) -> dict[str, Any]:
    """T over complete rows, its two intervals, and the two differences that it is made of."""
    h_x, h_xs, h_xls = bits.T
    found = trust_over_steps(h_x, h_xs, h_xls, drawn.labels, level=level, resamples=resamples, seed=seed)
    return {
        "value": found.trust,
        "identified": found.identified,
        "reason": _reason(found, drawn),
        "bootstrap": None if found.bootstrap is None else ends(found.bootstrap),
        "fieller": None if found.fieller is None else _fieller(found.fieller),
        "delta_h_s_bits": {"value": found.numerator, **ends(found.numerator_interval)},
        "delta_h_ls_bits": {"value": found.denominator, **ends(found.denominator_interval)},
        "steps": found.steps_used,
        "drawn": drawn.words,
        "drawn_count": drawn.units,
    }


def _reason(found: TrustEstimate, drawn: Units) -> str | None:
    """Why T, or its bootstrap interval, is None."""
    if found.clusters == 1 and not drawn.clustered:
        what = "different" if drawn.words == DIFFERENT else "complete"
        return f"there is one {what} step only, so that nothing is known of the denominator's spread"
    return found.reason


def _fieller(found: FiellerSet) -> dict[str, Any]:
    """An end at infinity is None, and the shape tells it."""
    low, high = (end if end is not None and math.isfinite(end) else None for end in (found.low, found.high))
    return {"shape": found.shape, "low": low, "high": high, "level": found.level}


def _episodes(
    table: Steps, complete: NDArray[np.bool_], level: float, resamples: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The first episodes, each by itself: its steps are taken as independent there, having nothing else to draw."""
    order = np.argsort(table.episode, kind="stable")
    present, starts = np.unique(table.episode[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    for place, code in enumerate(present[:SHOWN_EPISODES].tolist()):
        rows = order[bounds[place] : bounds[place + 1]]
        yield {"episode": table.episodes[code], **part(table, rows, complete, level, resamples, seed)}


def part(
    table: Steps, rows: Codes, complete: NDArray[np.bool_], level: float, resamples: int, seed: int
) -> dict[str, Any]:
    """The figures of some of the rows by themselves."""
    kept = rows[complete[rows]]
    bits = table.bits[kept]
    drawn = units(table.original[kept], table.first_asked[kept], MOST_UNITS_IN_A_PART)
    means = bits.mean(axis=0).tolist() if len(bits) else [None] * 3
    return {
        "rows": len(rows),
        "complete": len(kept),
        "mean_entropy_bits": dict(zip(ENTROPIES, means, strict=True)),
        "ordering": _ordering(bits, level)["both"],
        "trust": estimate(bits, drawn, level=level, resamples=resamples, seed=seed),
    }


# -- in the form that all studies share ----------------------------------------------------------------------------


def coverage(found: dict[str, Any]) -> Coverage:
    return Coverage(found["rows"]["of"], found["rows"]["count"], found["missing"]["rows"])


def headline(found: dict[str, Any]) -> list[Figure]:
    """Trust with the two differences beside it, how many rows are complete, and how often the ordering holds.

    A trust that is not identified has no value; its method says so.
    """
    trust = found["trust"]
    doubt = trust["bootstrap"] or {}
    if not trust["identified"]:
        doubt = {"method": f"not identified: {trust['reason']}"}
    return [
        Figure("trust T", trust["value"], "", **doubt),
        Figure("ΔH_S", trust["delta_h_s_bits"]["value"], "bits", **_doubt(trust["delta_h_s_bits"])),
        Figure("ΔH_L,S", trust["delta_h_ls_bits"]["value"], "bits", **_doubt(trust["delta_h_ls_bits"])),
        Figure("rows complete", found["rows"]["value"], "share", **_doubt(found["rows"])),
        Figure("ordering holds", found["ordering"]["both"]["value"], "share", **_doubt(found["ordering"]["both"])),
    ]


def _doubt(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in ("low", "high", "level", "method")}


def remarks(found: dict[str, Any]) -> list[str]:
    """What a reader of the figures must know."""
    alike = found["episode_count"] > 1
    return [*_about_trust(found["trust"], alike), *_about_episodes(found), *_about_sureness(found["sureness"])]


def _about_trust(trust: dict[str, Any], alike: bool) -> Iterator[str]:
    if not trust["identified"]:
        yield f"trust T is not identified: {trust['reason']}"
    elif trust["reason"] is not None:
        yield trust["reason"]
    if trust["identified"] and trust["delta_h_ls_bits"]["value"] < 0.0:
        yield (
            "ΔH_L,S is negative: told everything the model was less sure than told nothing, so T is a ratio of what "
            "was lost, and not a share of what was gained"
        )
    if "episode" not in trust["drawn"] and trust["steps"] > 1:
        of = "episodes that are copies of one" if alike else "one episode"
        yield (
            f"the complete rows are of {of}, and the steps of an episode hang together: the intervals take them as "
            "independent, and are too narrow"
        )
    if trust["drawn"] in ("episode", DIFFERENT) and 1 < trust["drawn_count"] < FEW_EPISODES:
        yield (
            f"{trust['drawn_count']} {trust['drawn']}s are few to draw from: the bootstrap's intervals are too narrow, "
            "and Fieller's is the one to go by"
        )


def _about_episodes(found: dict[str, Any]) -> Iterator[str]:
    more = found["episode_count"] - len(found["episodes"])
    if more > 0:
        yield f"the first {len(found['episodes'])} episodes are listed; {more:,} more are in all other figures"


def _about_sureness(found: dict[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    if found["not_judged"]:
        yield f"actions that are not judged, since no shortest path is known for them: {found['not_judged']:,}"
    if found["calibration"] is not None and found["calibration"]["smooth_ece_missing"]:
        yield found["calibration"]["smooth_ece_missing"]
