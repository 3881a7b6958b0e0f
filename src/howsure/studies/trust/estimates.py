"""The figures of many steps: T with its doubt, the entropies, their order, episodes, and the actions.

A pure function of the steps. The independent unit of every interval is the episode: the steps of one hang together,
and copies of one are one, as is a chain of them. Everything that leaves is plain data: what is missing is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from howsure.measures import LEAST_GAIN_BITS, mean_interval, too_few, trust_of_each
from howsure.studies.summary import Coverage, Figure, summary
from howsure.studies.sureness import LEVEL, ends, share
from howsure.studies.trust.ratio import (
    ROUNDING_BITS,
    SAME_WITHOUT_GROUNDING,
    SAME_WITHOUT_INSTRUCTION,
    Prompts,
    beyond_in_words,
    bounds_in_words,
    estimate,
)
from howsure.studies.trust.steps import ENTROPIES, LARGEST_VOCABULARY_BITS, Bools, Codes, Reasons, Step, Steps
from howsure.studies.trust.sureness import sureness

SHOWN_EPISODES = 50
"""Episodes that a summary holds apart, the first ones; the others are counted, and are in all other figures."""


def trust_summary(
    steps: Sequence[Step] | Steps,
    *,
    seed: int,
    notes: Sequence[str] = (),
    qualifier: str | None = None,
    level: float = LEVEL,
    **fields: Any,
) -> dict[str, Any]:
    """The whole summary of a study of trust, in the form that all studies share; `fields` go in as they are.

    `qualifier` is what has to stand beside every figure of the entropies.
    """
    found = summarise(steps, seed=seed, level=level)
    return summary("trust", coverage(found), headline(found, qualifier), [*remarks(found), *notes], **found, **fields)


def summarise(steps: Sequence[Step] | Steps, *, seed: int, level: float = LEVEL) -> dict[str, Any]:
    """All figures of these steps, as data; docs/trust.md explains each of them."""
    table = steps if isinstance(steps, Steps) else Steps.of(steps)
    complete = table.complete
    return {
        "rows": share(complete, table.unit, level=level),
        "missing": _missing(table, complete),
        "mean_entropy_bits": _mean_entropies(table, complete, level),
        "ordering": _ordering(table, complete, level),
        "per_step": _per_step(table, complete, level),
        "trust": estimate(table, level=level),
        "episode_count": len(np.unique(table.episode)),
        "independent_episodes": len(np.unique(table.unit)),
        "episodes": list(_episodes(table, complete)),
        "sureness": sureness(table, seed=seed, level=level),
    }


def _missing(table: Steps, complete: Bools) -> dict[str, Any]:
    """Why rows are incomplete, each under the reason of its first missing entropy, and why each entropy is missing."""
    first = np.isnan(table.bits[~complete]).argmax(axis=1)
    of_rows = table.reason[~complete][np.arange(len(first)), first]
    by_entropy = {name: _counted(column, table.reasons) for name, column in zip(ENTROPIES, table.reason.T, strict=True)}
    return {"rows": _counted(of_rows, table.reasons), "by_entropy": by_entropy}


def _counted(codes: Codes | Reasons, words: tuple[str, ...]) -> dict[str, int]:
    counts = Counter(dict(enumerate(np.bincount(codes, minlength=len(words)).tolist())))
    return dict(sorted((words[code], count) for code, count in counts.items() if count and words[code]))


# -- the steps one by one ------------------------------------------------------------------------------------------


def _mean_entropies(table: Steps, complete: Bools, level: float) -> dict[str, Any]:
    """Over the complete rows only, so that their differences are those that T is made of."""
    episodes = table.unit[complete]
    return {
        name: {
            "value": float(column.mean()) if len(column) else None,
            **ends(mean_interval(column, clusters=episodes, level=level, least=0.0)),
        }
        for name, column in zip(ENTROPIES, table.entropies[complete].T, strict=True)
    }


def _ordering(table: Steps, complete: Bools, level: float) -> dict[str, Any]:
    """How often H(X) ≥ H(X|S) ≥ H(X|L,S), which is expected on average and not of each step.

    Only of steps whose prompts differ: the same prompt has the same entropy, which is no finding. Where an entropy is
    only known within bounds, and these leave the order open, a step counts as undecided. `reason` says why there is
    no figure.
    """
    bits, episodes, prompts = table.entropies[complete], table.unit[complete], Prompts.of(table, complete)
    low, high = (np.where(np.isnan(end), bits, end) for end in (table.low[complete], table.high[complete]))

    def of(first: int, second: int) -> tuple[Bools, Bools]:
        """Where the first entropy is at least the second one, and where that is known."""
        holds = low[:, first] >= high[:, second] - ROUNDING_BITS
        return holds, holds | (high[:, first] < low[:, second] - ROUNDING_BITS)

    def counted(holds: Bools, known: Bools, differ: Bools, same_prompt: str) -> dict[str, Any]:
        judged = differ & known
        found = share(holds[judged], episodes[judged], level=level)
        undecided, same = int((differ & ~known).sum()), int((~differ).sum())
        reason = None if judged.any() else _no_order(differ, same_prompt)
        return found | {"same_prompt": same, "undecided": undecided, "reason": reason}

    (grounding, ground_known), (language, language_known) = of(0, 1), of(1, 2)
    known = (ground_known & language_known) | (ground_known & ~grounding) | (language_known & ~language)
    of_both = "no step has both grounding and an instruction"
    if not prompts.grounded.any():
        of_both = SAME_WITHOUT_GROUNDING
    elif not prompts.instructed.any():
        of_both = SAME_WITHOUT_INSTRUCTION
    return {
        "tolerance_bits": ROUNDING_BITS,
        "both": counted(grounding & language, known, prompts.grounded & prompts.instructed, of_both),
        "h_x_at_least_h_x_given_s": counted(grounding, ground_known, prompts.grounded, SAME_WITHOUT_GROUNDING),
        "h_x_given_s_at_least_h_x_given_ls": counted(
            language, language_known, prompts.instructed, SAME_WITHOUT_INSTRUCTION
        ),
    }


def _no_order(differ: Bools, same_prompt: str) -> str:
    if not len(differ):
        return "no step has all three entropies"
    if differ.any():
        return "the tokens that are not listed leave it open"
    return same_prompt


def _per_step(table: Steps, complete: Bools, level: float) -> dict[str, Any]:
    """Where T of the single steps lies, of those that gained enough to have shares: below zero, T is a share of a loss.

    There is no mean of them: it would not be an estimate of anything. Steps that asked two conditions with the same
    prompt have a T by that alone, and are left out.
    """
    bits, episodes, prompts = table.entropies[complete], table.unit[complete], Prompts.of(table, complete)
    differ = prompts.grounded & prompts.instructed
    gain = np.where(differ, bits[:, 0] - bits[:, 2], np.nan)
    gained = gain >= LEAST_GAIN_BITS
    shares, labels = trust_of_each(*bits[gained].T), episodes[gained]
    quarters = np.quantile(shares, [0.25, 0.5, 0.75]).tolist() if len(shares) else [None] * 3
    return {
        "same_prompt": int((~differ).sum()),
        "gained": int(gained.sum()),
        "lost": int((gain < 0).sum()),
        "too_small": int((~gained & (gain >= 0)).sum()),
        "in_0_1": share((shares >= 0) & (shares <= 1), labels, level=level),
        "below_0": share(shares < 0, labels, level=level),
        "above_1": share(shares > 1, labels, level=level),
        "median": quarters[1],
        "lower_quartile": quarters[0],
        "upper_quartile": quarters[2],
    }


# -- parts ---------------------------------------------------------------------------------------------------------


def _episodes(table: Steps, complete: Bools) -> Iterator[dict[str, Any]]:
    """The first episodes, each by itself: means and counts, without intervals and T, which one episode cannot have."""
    order = np.argsort(table.episode, kind="stable")
    present, starts = np.unique(table.episode[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    for place, code in enumerate(present[:SHOWN_EPISODES].tolist()):
        rows = order[bounds[place] : bounds[place + 1]]
        yield {"episode": table.episodes[code], **means(table, rows[complete[rows]]), "rows": len(rows)}


def means(table: Steps, kept: Codes) -> dict[str, Any]:
    """What these complete rows come to on average."""
    h_x, h_xs, h_xls = table.entropies[kept].mean(axis=0).tolist() if len(kept) else (None, None, None)
    return {
        "complete": len(kept),
        "mean_entropy_bits": dict(zip(ENTROPIES, (h_x, h_xs, h_xls), strict=True)),
        "delta_h_s_bits": None if h_x is None or h_xs is None else h_x - h_xs,
        "delta_h_ls_bits": None if h_x is None or h_xls is None else h_x - h_xls,
    }


# -- in the form that all studies share ----------------------------------------------------------------------------


def coverage(found: dict[str, Any]) -> Coverage:
    return Coverage(found["rows"]["of"], found["rows"]["count"], found["missing"]["rows"])


def headline(found: dict[str, Any], qualifier: str | None = None) -> list[Figure]:
    """Trust with the two differences beside it, how many rows are complete, and how often the ordering holds."""
    trust, order, rows = found["trust"], found["ordering"]["both"], found["rows"]
    by_s, by_both = trust["delta_h_s_bits"], trust["delta_h_ls_bits"]
    return [
        _figure("trust T", "", trust, _of_trust(trust)),
        _figure("ΔH_S", "bits", by_s, _joined(_no_interval(by_s, trust), qualifier)),
        _figure("ΔH_L,S", "bits", by_both, _joined(_no_interval(by_both, trust), qualifier)),
        _figure("rows complete", "share", rows, _no_interval(rows, found)),
        _figure("ordering holds", "share", order, order["reason"] or _no_interval(order, trust)),
    ]


def _figure(name: str, unit: str, entry: dict[str, Any], note: str | None) -> Figure:
    doubt = {field: entry[field] for field in ("low", "high", "level", "method", "approximate")}
    return Figure(name, entry["value"], unit, **doubt, note=note)


def _of_trust(trust: dict[str, Any]) -> str | None:
    if not trust["identified"]:
        return f"not identified: {trust['reason']}"
    return _joined(beyond_in_words(trust), bounds_in_words(trust["bounds"]))


def _joined(*notes: str | None) -> str | None:
    return "; ".join(note for note in notes if note) or None


def _no_interval(entry: dict[str, Any], over: dict[str, Any]) -> str | None:
    """Why a figure over so many episodes has no interval; None where it has one."""
    if entry["low"] is not None:
        return None
    if entry["value"] is None:
        return "no step has all three entropies"
    independent = over["independent_episodes"]
    noun = "episodes" if independent == over["episode_count"] else "independent episodes"
    return too_few(independent, noun) or "no interval: the same in every episode"


def remarks(found: dict[str, Any]) -> list[str]:
    """What a reader of the figures must know."""
    return [*_about_trust(found), *_about_episodes(found), *_about_sureness(found["sureness"])]


def _about_trust(found: dict[str, Any]) -> Iterator[str]:
    trust = found["trust"]
    if not trust["identified"]:
        yield f"trust T is not identified: {trust['reason']}{_and_so(trust['why'])}"
    if trust["bounds"] is not None and trust["bounds"]["low"] < trust["bounds"]["high"]:
        yield (
            f"T lies {bounds_in_words(trust['bounds'])}: its entropies are of the tokens that were listed. Where "
            f"--vocab-size was not given, a vocabulary of at most 2^{LARGEST_VOCABULARY_BITS:.0f} tokens is assumed"
        )
    same = found["ordering"]["both"]["same_prompt"]
    if same and found["ordering"]["both"]["of"]:
        yield f"{same} steps asked two conditions with the same prompt, and are left out of the ordering"


_AND_SO = {
    "few_units": "; the steps of an episode hang together, so that only episodes count",
    "below_zero": ", so that T would be a share of a loss; the two differences stand by themselves",
    "not_above_zero": ", and T would divide by it; the two differences stand by themselves",
    "below_floor": "; the two differences stand by themselves",
    "unlisted_tokens": "; --vocab-size, or more alternatives (--top-logprobs), narrow that down",
}


def _and_so(why: str) -> str:
    return _AND_SO.get(why, "")


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
