"""The figures of many steps: T with its doubt, the entropies, their order, episodes, and the actions.

A pure function of the steps. The independent unit of every interval is the episode: the steps of one hang together,
and copies of one are one, as is a chain of them. What is missing is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from howsure.measures import LEAST_GAIN_BITS, mean_interval, too_few, trust_of_each
from howsure.studies.summary import Coverage, Figure, Summary
from howsure.studies.sureness import BOUNDS, LEVEL, Calibration, Selective, Share, calibration, ends, selective, share
from howsure.studies.trust.ratio import (
    ROUNDING_BITS,
    SAME_WITHOUT_GROUNDING,
    SAME_WITHOUT_INSTRUCTION,
    Mean,
    Prompts,
    TrustFigure,
    beyond_in_words,
    bounds_in_words,
    estimate,
)
from howsure.studies.trust.steps import ENTROPIES, LARGEST_VOCABULARY_BITS, Array, Bools, Codes, Reasons, Step, Steps
from howsure.types import Fields

SHOWN_EPISODES = 50
"""Episodes that a summary holds apart, the first ones; the others are counted, and are in all other summary."""


class Missing(Fields):
    """Why rows are incomplete, each under the reason of its first missing entropy, and why each entropy is missing."""

    rows: dict[str, int]
    by_entropy: dict[str, dict[str, int]]


class Order(Share, kw_only=True):
    """How often one entropy is at least another, of the steps whose prompts differ and whose order is known."""

    same_prompt: int
    undecided: int
    """Steps whose entropies are only known within bounds that leave the order open."""
    reason: str | None
    """Why there is no figure."""


class Ordering(Fields, kw_only=True):
    """How often H(X) ≥ H(X|S) ≥ H(X|L,S), which is expected on average and not of each step."""

    tolerance_bits: float
    both: Order
    h_x_at_least_h_x_given_s: Order
    h_x_given_s_at_least_h_x_given_ls: Order


class PerStep(Fields, kw_only=True):
    """Where T of the single steps lies, of those that gained enough to have shares: below zero, T is a share of a loss.

    There is no mean of them: it would not be an estimate of anything. Steps that asked two conditions with the same
    prompt have a T by that alone, and are left out.
    """

    same_prompt: int
    gained: int
    lost: int
    too_small: int
    in_0_1: Share
    below_0: Share
    above_1: Share
    median: float | None
    lower_quartile: float | None
    upper_quartile: float | None


class EpisodeFigures(Fields, kw_only=True):
    """An episode by itself: without intervals and T, which one episode cannot have."""

    episode: str
    complete: int
    mean_entropy_bits: dict[str, float | None]
    delta_h_s_bits: float | None
    delta_h_ls_bits: float | None
    rows: int


class Sureness(Fields, kw_only=True):
    """How often the action lay on a shortest path, and whether its probability told so.

    Agreement is over all actions that are judged. Calibration takes `confidence`, which claims to be the probability of
    being right; ranking takes the action's own probability, since nobody who acts knows which actions are the best.
    """

    actions: int
    not_judged: int
    without_probability: int
    agreement: Share
    calibration: Calibration | None
    selective: Selective | None


class StepSummary(Summary, kw_only=True):
    """All figures of some steps; docs/trust.md explains each of them. A run and an analysis of logs have more."""

    rows: Share
    """The complete ones, which have all three entropies, of all."""
    missing: Missing
    mean_entropy_bits: dict[str, Mean]
    """Over the complete rows only, so that their differences are those that T is made of."""
    ordering: Ordering
    per_step: PerStep
    trust: TrustFigure
    episode_count: int
    independent_episodes: int
    episodes: list[EpisodeFigures]
    sureness: Sureness | None
    """None where no action is judged."""


def summarise(
    steps: Sequence[Step] | Steps,
    *,
    seed: int,
    notes: Sequence[str] = (),
    qualifier: str | None = None,
    level: float = LEVEL,
) -> StepSummary:
    """All figures of these steps. `qualifier` is what has to stand beside every figure of the entropies."""
    table = steps if isinstance(steps, Steps) else Steps.of(steps)
    complete = table.complete
    entropies = zip(ENTROPIES, table.entropies[complete].T, strict=True)
    rows, missing = share(complete, table.unit, level=level), _missing(table, complete)
    summary = StepSummary(
        study="trust",
        coverage=Coverage(rows.of, rows.count, missing.rows),
        headline=[],
        notes=[],
        rows=rows,
        missing=missing,
        mean_entropy_bits={name: _mean(column, table.unit[complete], level) for name, column in entropies},
        ordering=_ordering(table, complete, level),
        per_step=_per_step(table, complete, level),
        trust=estimate(table, level=level),
        episode_count=len(np.unique(table.episode)),
        independent_episodes=len(np.unique(table.unit)),
        episodes=list(_episodes(table, complete)),
        sureness=sureness(table, seed=seed, level=level),
    )
    summary.headline = headline(summary, qualifier)
    summary.notes = [*remarks(summary), *notes]
    return summary


def _missing(table: Steps, complete: Bools) -> Missing:
    first = np.isnan(table.bits[~complete]).argmax(axis=1)
    of_rows = table.reason[~complete][np.arange(len(first)), first]
    by_entropy = {name: _counted(column, table.reasons) for name, column in zip(ENTROPIES, table.reason.T, strict=True)}
    return Missing(_counted(of_rows, table.reasons), by_entropy)


def _counted(codes: Codes | Reasons, words: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(dict(enumerate(np.bincount(codes, minlength=len(words)).tolist())))
    return dict(sorted((words[code], count) for code, count in counts.items() if count and words[code]))


# -- the steps one by one ------------------------------------------------------------------------------------------


def _mean(column: Array, episodes: Codes, level: float) -> Mean:
    value = float(column.mean()) if len(column) else None
    return Mean(value=value, **ends(mean_interval(column, clusters=episodes, level=level, least=0.0)))


def _ordering(table: Steps, complete: Bools, level: float) -> Ordering:
    """Only of steps whose prompts differ: the same prompt has the same entropy, which is no finding."""
    bits, episodes, prompts = table.entropies[complete], table.unit[complete], Prompts.of(table, complete)
    low, high = (np.where(np.isnan(end), bits, end) for end in (table.low[complete], table.high[complete]))

    def of(first: int, second: int) -> tuple[Bools, Bools]:
        """Where the first entropy is at least the second one, and where that is known."""
        holds = low[:, first] >= high[:, second] - ROUNDING_BITS
        return holds, holds | (high[:, first] < low[:, second] - ROUNDING_BITS)

    def counted(holds: Bools, known: Bools, differ: Bools, same_prompt: str) -> Order:
        judged = differ & known
        return Order(
            **msgspec.structs.asdict(share(holds[judged], episodes[judged], level=level)),
            same_prompt=int((~differ).sum()),
            undecided=int((differ & ~known).sum()),
            reason=None if judged.any() else _no_order(differ, same_prompt),
        )

    (grounding, ground_known), (language, language_known) = of(0, 1), of(1, 2)
    known = (ground_known & language_known) | (ground_known & ~grounding) | (language_known & ~language)
    of_both = "no step has both grounding and an instruction"
    if not prompts.grounded.any():
        of_both = SAME_WITHOUT_GROUNDING
    elif not prompts.instructed.any():
        of_both = SAME_WITHOUT_INSTRUCTION
    return Ordering(
        tolerance_bits=ROUNDING_BITS,
        both=counted(grounding & language, known, prompts.grounded & prompts.instructed, of_both),
        h_x_at_least_h_x_given_s=counted(grounding, ground_known, prompts.grounded, SAME_WITHOUT_GROUNDING),
        h_x_given_s_at_least_h_x_given_ls=counted(
            language, language_known, prompts.instructed, SAME_WITHOUT_INSTRUCTION
        ),
    )


def _no_order(differ: Bools, same_prompt: str) -> str:
    if not len(differ):
        return "no step has all three entropies"
    if differ.any():
        return "the tokens that are not listed leave it open"
    return same_prompt


def _per_step(table: Steps, complete: Bools, level: float) -> PerStep:
    bits, episodes, prompts = table.entropies[complete], table.unit[complete], Prompts.of(table, complete)
    differ = prompts.grounded & prompts.instructed
    gain = np.where(differ, bits[:, 0] - bits[:, 2], np.nan)
    gained = gain >= LEAST_GAIN_BITS
    shares, labels = trust_of_each(*bits[gained].T), episodes[gained]
    quarters = np.quantile(shares, [0.25, 0.5, 0.75]).tolist() if len(shares) else [None] * 3
    return PerStep(
        same_prompt=int((~differ).sum()),
        gained=int(gained.sum()),
        lost=int((gain < 0).sum()),
        too_small=int((~gained & (gain >= 0)).sum()),
        in_0_1=share((shares >= 0) & (shares <= 1), labels, level=level),
        below_0=share(shares < 0, labels, level=level),
        above_1=share(shares > 1, labels, level=level),
        median=quarters[1],
        lower_quartile=quarters[0],
        upper_quartile=quarters[2],
    )


def _episodes(table: Steps, complete: Bools) -> Iterator[EpisodeFigures]:
    """The first episodes, each by itself."""
    order = np.argsort(table.episode, kind="stable")
    present, starts = np.unique(table.episode[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    for place, code in enumerate(present[:SHOWN_EPISODES].tolist()):
        rows = order[bounds[place] : bounds[place + 1]]
        yield EpisodeFigures(episode=table.episodes[code], **means(table, rows[complete[rows]]), rows=len(rows))


def means(table: Steps, kept: Codes) -> dict[str, Any]:
    """What these complete rows come to on average."""
    h_x, h_xs, h_xls = table.entropies[kept].mean(axis=0).tolist() if len(kept) else (None, None, None)
    return {
        "complete": len(kept),
        "mean_entropy_bits": dict(zip(ENTROPIES, (h_x, h_xs, h_xls), strict=True)),
        "delta_h_s_bits": None if h_x is None or h_xs is None else h_x - h_xs,
        "delta_h_ls_bits": None if h_x is None or h_xls is None else h_x - h_xls,
    }


# -- should it be sure? -----------------------------------------------------------------------------------------------


def sureness(table: Steps, *, seed: int, level: float = LEVEL) -> Sureness | None:
    """The executed actions against the shortest path, and their probability against that."""
    right = table.on_shortest_path
    judged = ~np.isnan(right)
    if not judged.any():
        return None
    known = judged & ~np.isnan(table.action_probability)
    believed = judged & ~np.isnan(table.confidence)
    return Sureness(
        actions=int(judged.sum()),
        not_judged=int((~judged).sum()),
        without_probability=int((judged & np.isnan(table.action_probability)).sum()),
        agreement=share(right[judged] == 1, table.unit[judged], level=level),
        calibration=calibration(
            table.confidence[believed],
            right[believed] == 1,
            level=level,
            seed=seed,
            clusters=table.unit[believed],
        ),
        selective=selective(
            table.action_probability[known], right[known] == 1, level=level, clusters=table.unit[known]
        ),
    )


def confidence(
    action: str | None, probabilities: Mapping[str, float] | None, best: Collection[str] | None
) -> float | None:
    """How likely the model finds it that its action is right: its probability, with equally good ones taken together.

    Where k actions begin a shortest path each of them is right, and a model that knows this spreads its probability
    over them: for one of them the confidence is their sum. An action off the path is given the same room, k actions:
    itself, and k − 1 of the mean probability of the others. Its own probability alone would be too small beside the
    sums, so that a model that knows nothing, and finds all n actions equally likely, would look surer of its right
    actions than of its wrong ones; here it is k / n sure of both. The sum over the best ones would be the probability
    of what it did not do. None where the probabilities or the best actions are not known.

    >>> chances = {"up": 0.4, "down": 0.1, "left": 0.4, "right": 0.1}
    >>> confidence("up", chances, {"up", "left"}), round(confidence("up", chances, {"down", "right"}), 3)
    (0.8, 0.6)
    """
    if action is None or probabilities is None or best is None or action not in probabilities:
        return None
    if action in best:
        return min(1.0, sum(probabilities.get(name, 0.0) for name in best))
    others = [share for name, share in probabilities.items() if name != action]
    more = max(len(best), 1) - 1 if others else 0
    return min(1.0, probabilities[action] + more * sum(others) / max(len(others), 1))


# -- in the form that all studies share ----------------------------------------------------------------------------


def headline(summary: StepSummary, qualifier: str | None = None) -> list[Figure]:
    """Trust with the two differences beside it, how many rows are complete, and how often the ordering holds."""
    trust, order, rows = summary.trust, summary.ordering.both, summary.rows
    by_s, by_both = trust.delta_h_s_bits, trust.delta_h_ls_bits
    return [
        _figure(
            "trust T",
            "",
            trust,
            _of_trust(trust),
            "what knowing the place takes off the doubt, as a share of what place and instruction take off",
        ),
        _figure(
            "ΔH_S",
            "bits",
            by_s,
            _joined(_no_interval(by_s, trust), qualifier),
            "how much surer of its action it is when told about the place; below 0: less sure",
        ),
        _figure(
            "ΔH_L,S",
            "bits",
            by_both,
            _joined(_no_interval(by_both, trust), qualifier),
            "how much surer when told about the place and the instruction; below 0: less sure",
        ),
        _figure("rows complete", "share", rows, _no_interval(rows, summary), "steps with all three entropies"),
        _figure(
            "ordering holds",
            "share",
            order,
            order.reason or _no_interval(order, trust),
            "steps at which it is surer with each thing that it is told",
        ),
    ]


def _figure(name: str, unit: str, entry: Share | Mean | TrustFigure, note: str | None, meaning: str) -> Figure:
    bounds = {end: getattr(entry, end) for end in BOUNDS}
    return Figure(name, entry.value, unit, **bounds, note=note, meaning=meaning)


def _of_trust(trust: TrustFigure) -> str | None:
    if not trust.identified:
        return f"not identified: {trust.reason}"
    return _joined(beyond_in_words(trust), bounds_in_words(trust.bounds))


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _no_interval(entry: Share | Mean, over: TrustFigure | StepSummary) -> str | None:
    """Why a figure over so many episodes has no interval; None where it has one."""
    if entry.low is not None:
        return None
    if entry.value is None:
        return "no step has all three entropies"
    independent = over.independent_episodes
    noun = "episodes" if independent == over.episode_count else "independent episodes"
    return too_few(independent, noun) or "no interval: the same in every episode"


def remarks(summary: StepSummary) -> Iterator[str]:
    """What a reader of the figures must know."""
    trust, order, judged = summary.trust, summary.ordering.both, summary.sureness
    if not trust.identified:
        yield f"trust T is not identified: {trust.reason}{_AND_SO.get(trust.why or '', '')}"
    if trust.bounds is not None and trust.bounds.low < trust.bounds.high:
        yield (
            f"T lies {bounds_in_words(trust.bounds)}: its entropies are of the tokens that were listed. Where "
            f"--vocab-size was not given, a vocabulary of at most 2^{LARGEST_VOCABULARY_BITS:.0f} tokens is assumed"
        )
    if order.same_prompt and order.of:
        yield f"{order.same_prompt} steps asked two conditions with the same prompt, and are left out of the ordering"
    more = summary.episode_count - len(summary.episodes)
    if more > 0:
        yield f"the first {len(summary.episodes)} episodes are listed; {more:,} more are in all other figures"
    if judged is not None and judged.not_judged:
        yield f"actions that are not judged, since no shortest path is known for them: {judged.not_judged:,}"
    if judged is not None and judged.calibration is not None and judged.calibration.smooth_ece_missing:
        yield judged.calibration.smooth_ece_missing


_AND_SO = {
    "few_units": "; the steps of an episode are not independent, so that only episodes count",
    "below_zero": ", so that T would be a share of a loss; the two differences stand by themselves",
    "not_above_zero": ", and T would divide by it; the two differences stand by themselves",
    "below_floor": "; the two differences stand by themselves",
    "unlisted_tokens": "; --vocab-size, or more alternatives (--top-logprobs), narrow that down",
}
