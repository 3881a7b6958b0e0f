"""T over many steps as data, and why there is none: the one place that decides whether T is shown.

T is a share of what was gained, so that it takes a gain that is clearly above zero and large enough to have shares,
over at least five independent episodes, from prompts that differ, and from entropies that unlisted tokens cannot turn
around. Where one of these lacks, T is "not identified", and the two differences stand alone, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from howsure.measures import LEAST_GAIN_BITS, LEAST_UNITS, Interval, TrustEstimate, trust_bounds, trust_over_steps
from howsure.studies.sureness import LEVEL, ends
from howsure.studies.trust.steps import CONDITIONS, Bools, Steps
from howsure.types import Fields

ROUNDING_BITS = 1e-9
"""Entropies this near to each other differ by rounding."""

SAME_WITHOUT_GROUNDING = "X and X|S are the same prompt"
SAME_WITHOUT_INSTRUCTION = "X|S and X|L,S are the same prompt"


class Mean(Fields, kw_only=True):
    """A mean over steps with its interval over episodes."""

    value: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None


class TrustBounds(Fields):
    """Between what T lies, whatever the tokens are that are not listed."""

    low: float
    high: float


class TrustFigure(Fields, kw_only=True):
    """T over the complete steps, and why it is not identified where it is None; the two differences stand always."""

    value: float | None
    identified: bool
    why: str | None
    """One word to be counted by."""
    reason: str | None
    low: float | None
    high: float | None
    level: float | None
    method: str | None
    approximate: bool | None
    bounds: TrustBounds | None
    delta_h_s_bits: Mean
    delta_h_ls_bits: Mean
    floor_bits: float
    steps: int
    episode_count: int
    independent_episodes: int


def estimate(table: Steps, *, level: float = LEVEL) -> TrustFigure:
    """T over the complete steps with its interval and bounds, the two differences, and why T is not identified."""
    rows = table.complete
    h_x, h_xs, h_xls = table.entropies[rows].T
    ratio = trust_over_steps(h_x, h_xs, h_xls, table.unit[rows], level=level, floor=LEAST_GAIN_BITS)
    between = _Bounds.of(table, rows)
    why = _why_not(ratio, Prompts.of(table, rows), between)
    shown = why is None
    episodes = len(np.unique(table.episode[rows]))
    limits = between.trust if shown and between is not None else None
    return TrustFigure(
        value=ratio.trust if shown else None,
        identified=shown,
        why=why,
        reason=None if why is None else _reason(why, ratio, episodes, between),
        **ends(ratio.interval if shown else None),
        bounds=None if limits is None else TrustBounds(*limits),
        delta_h_s_bits=Mean(value=ratio.numerator, **ends(ratio.numerator_interval)),
        delta_h_ls_bits=Mean(value=ratio.denominator, **ends(ratio.denominator_interval)),
        floor_bits=LEAST_GAIN_BITS,
        steps=ratio.steps_used,
        episode_count=episodes,
        independent_episodes=ratio.units,
    )


def why_no_share(result: Mapping[str, Any] | Fields) -> str | None:
    """Why T of a step would be no share of a gain, in a few words; None where it is one, or where it is missing.

    >>> of = {"X": {"entropy_bits": 1.0}, "X|S": {"entropy_bits": 1.1}, "X|L,S": {"entropy_bits": 1.3}}
    >>> why_no_share({"conditions": of, "knowledge_count": 2, "instruction": "go"})
    'less sure when told everything'
    """
    bits = [result["conditions"][condition.value]["entropy_bits"] for condition in CONDITIONS]
    if None in bits:
        return None
    if result.get("knowledge_count") == 0:
        return SAME_WITHOUT_GROUNDING
    if result.get("instruction", "") is None:
        return SAME_WITHOUT_INSTRUCTION
    gain = bits[0] - bits[2]
    if gain >= LEAST_GAIN_BITS:
        return None
    return "less sure when told everything" if gain < 0 else f"ΔH_L,S is below {LEAST_GAIN_BITS} bits"


class Prompts(NamedTuple):
    """At which steps two neighbouring conditions were different prompts, so that their entropies can be compared."""

    grounded: Bools
    instructed: Bools

    @classmethod
    def of(cls, table: Steps, rows: Bools) -> Prompts:
        """Where it is not known, entropies that are the same at every step are taken to be of the same prompt."""
        h_x, h_xs, h_xls = table.entropies[rows].T
        grounded, instructed = table.grounded[rows], table.instructed[rows]
        return cls(
            np.where(np.isnan(grounded), (np.abs(h_x - h_xs) > ROUNDING_BITS).any(), grounded == 1),
            np.where(np.isnan(instructed), (np.abs(h_xs - h_xls) > ROUNDING_BITS).any(), instructed == 1),
        )


# -- bounds --------------------------------------------------------------------------------------------------------


class _Bounds(NamedTuple):
    """Mean entropies of which only the likeliest tokens are known: their least and largest, and T between them.

    `trust` is None where ΔH_L,S may be below the floor, for then nothing bounds T.
    """

    low: list[float]
    high: list[float]
    trust: tuple[float, float] | None

    @classmethod
    def of(cls, table: Steps, rows: Bools) -> _Bounds | None:
        """None where every entropy is what it is."""
        bits, low, high = table.entropies[rows], table.low[rows], table.high[rows]
        bounded = ~np.isnan(low)
        if not bounded.any():
            return None
        least, most = (np.where(bounded, end, bits).mean(axis=0).tolist() for end in (low, high))
        gained = np.isfinite(most).all() and least[0] - most[2] >= LEAST_GAIN_BITS
        return cls(least, most, trust_bounds(least, most) if gained else None)


def bounds_in_words(bounds: TrustBounds | Mapping[str, float] | None) -> str | None:
    """`between 0.31 and 0.42 whatever the unlisted tokens are`, for what `estimate` gives as bounds."""
    if bounds is None:
        return None
    low, high = f"{bounds['low']:.3f}", f"{bounds['high']:.3f}"
    if low == high:
        return "over the whole vocabulary"
    return f"between {low} and {high} whatever the unlisted tokens are"


def beyond_in_words(trust: TrustFigure | Mapping[str, Any]) -> str | None:
    """What a T outside of 0 to 1 means, as far as its interval allows; nothing for one inside."""
    value, low, high = trust["value"], trust["low"], trust["high"]
    if low is None or high is None:  # a run of an earlier version, in which nothing varied
        return None
    if value < 0:
        return "below 0, though not clearly" if high >= 0 else "below 0: by grounding alone it became less sure"
    if value > 1:
        return "above 1, though not clearly" if low <= 1 else "above 1: by grounding alone it became surer than by both"
    return None


# -- why not -------------------------------------------------------------------------------------------------------


def _why_not(ratio: TrustEstimate, prompts: Prompts, bounds: _Bounds | None) -> str | None:
    """What is missing most: without a difference in the prompts no number of episodes would help."""
    if ratio.why == "no_steps":
        return ratio.why
    if not prompts.grounded.any():
        return "no_grounding"
    if not prompts.instructed.any():
        return "no_instruction"
    return ratio.why or ("unlisted_tokens" if bounds is not None and bounds.trust is None else None)


def _reason(why: str, ratio: TrustEstimate, episodes: int, bounds: _Bounds | None) -> str:
    """The sentence for each of these, with its numbers."""
    match why:
        case "no_steps":
            return "no step has all three entropies"
        case "no_grounding":
            return f"no step has any grounding, so {SAME_WITHOUT_GROUNDING}"
        case "no_instruction":
            return f"no step has an instruction, so {SAME_WITHOUT_INSTRUCTION}"
        case "few_units":
            all_of_them = f"{episodes} episode{'' if episodes == 1 else 's'}"
            independent = "" if ratio.units == episodes else f"{ratio.units} independent of "
            return f"{independent}{all_of_them}, and T takes at least {LEAST_UNITS}"
        case "alike":
            return f"T is the same in all of {episodes} episodes, which tells nothing of chance"
        case "below_zero":
            lost = _interval(ratio, ratio.denominator_interval)
            return f"ΔH_L,S is below zero ({lost}): told everything, the model was less sure"
        case "not_above_zero":
            return f"ΔH_L,S is not clearly above zero ({_interval(ratio, ratio.clear_interval)})"
        case "below_floor":
            small = f"{ratio.denominator:.2g} bits is below the floor of {LEAST_GAIN_BITS} bits"
            return f"ΔH_L,S of {small}: too small to have shares"
        case _:
            return _turned_around(bounds)


def _interval(ratio: TrustEstimate, interval: Interval | None) -> str:
    """`99 % interval -0.312 to 0.020 bits`, or the value where nothing varies."""
    if interval is None:
        return f"{ratio.denominator:.3f} bits"
    level = "" if interval.level == LEVEL else f"{interval.level:.0%} interval "
    return f"{level}{'about ' if interval.approximate else ''}{interval.low:.3f} to {interval.high:.3f} bits"


def _turned_around(bounds: _Bounds | None) -> str:
    if bounds is None or not np.isfinite(bounds.high).all():
        return "how much the tokens that are not listed add to the entropies is not known"
    low, high = bounds.low[0] - bounds.high[2], bounds.high[0] - bounds.low[2]
    return f"the tokens that are not listed could put ΔH_L,S anywhere from {low:.3f} to {high:.3f} bits"
