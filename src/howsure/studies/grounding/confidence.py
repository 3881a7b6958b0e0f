"""How sure a model was of a click: the probabilities of the tokens that spell its numbers, and whether it clicks there
again when it is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.measures import agreement, spread
from howsure.models.token_places import lay_tokens, utf8
from howsure.studies.grounding.answers.places import Span
from howsure.studies.grounding.record import Place, Sampled

COORDINATE_KINDS = ("coordinate_mean", "coordinate_min", "coordinate_joint")
"""Mean, least and joint probability of the tokens of a click's coordinates."""

NO_LOGPROBS = "no_logprobs"
NOT_LOCATED = "not_located"
NOT_ALIGNED = "not_aligned"
NO_COORDINATES = "no_coordinates"
NO_SAMPLES = "no_samples"
FEWER_THAN_TWO_POINTS = "fewer_than_two_points"


class Sureness(NamedTuple):
    """Confidences by their kind, None where there is none, and for each of these the reason."""

    confidence: dict[str, float | None]
    missing: dict[str, str]

    @classmethod
    def none(cls, kinds: Sequence[str], reason: str) -> Sureness:
        return cls(dict.fromkeys(kinds), dict.fromkeys(kinds, reason))


def coordinate_confidence(text: str, logprobs: TokenLogprobs | None, spans: Sequence[Span]) -> Sureness:
    """The probabilities of the tokens that overlap the numbers of a click, which stand at `spans` in the answer.

    A token counts once and whole, also where it holds more than the number: ` (1` and `1,` are coordinate tokens, since
    their probability is that of the digit as well. Sign and decimal point lie inside a number and count; what stands
    between two numbers does not, unless it shares a token with one. `coordinate_joint` is the product, so it falls with
    the number of tokens; the other two do not.
    """
    if logprobs is None or not len(logprobs):
        return Sureness.none(COORDINATE_KINDS, NO_LOGPROBS)
    if not spans:
        return Sureness.none(COORDINATE_KINDS, NO_COORDINATES)
    tokens = coordinate_tokens(text, logprobs, spans)
    if tokens is None:
        return Sureness.none(COORDINATE_KINDS, NOT_LOCATED)
    chosen = logprobs.logprobs[tokens]
    probabilities = np.exp(chosen)
    values = (float(probabilities.mean()), float(probabilities.min()), float(np.exp(chosen.sum())))
    return Sureness(dict(zip(COORDINATE_KINDS, values, strict=True)), {})


def coordinate_tokens(text: str, logprobs: TokenLogprobs, spans: Sequence[Span]) -> list[int] | None:
    """The tokens that hold a character of any span, in their order; None unless all of them are certain."""
    places = lay_tokens(text, logprobs)
    if places is None:
        return None
    chosen: set[int] = set()
    for start, end in spans:
        tokens = places.overlapping(len(utf8(text[:start])), len(utf8(text[:end])))
        if tokens is None:
            return None
        chosen.update(tokens)
    return sorted(chosen)


# -- asked again ----------------------------------------------------------------------------------------------------


def sampled_confidence(says: str, click: Place | None, sampled: Sampled, *, delta: float) -> Sureness:
    """How many of the drawn answers do as the given one did, and how far apart their clicks lie.

    `agreement` is the share of the drawn answers that click within `delta` of the given click, or refuse as it did. One
    that refuses or cannot be read is an answer that does not click there; a call that failed is no answer, and is left
    out. `spread` is a distance, the larger the less sure. Both speak of a click, so an answer that cannot be read has
    neither, and a refusal has no spread.
    """
    if len(sampled.points) + sampled.wrong_format + sampled.refusals + sampled.failed != sampled.asked:
        raise InputError(f"the drawn answers do not add up to the {sampled.asked} that were asked for: {sampled}")
    values = {"agreement": _agreement(says, click, sampled, delta), "spread": _spread(click, sampled)}
    return Sureness(
        {kind: None if isinstance(value, str) else value for kind, value in values.items()},
        {kind: value for kind, value in values.items() if isinstance(value, str)},
    )


def _agreement(says: str, click: Place | None, sampled: Sampled, delta: float) -> float | str:
    """The share, or the reason why there is none."""
    if click is None and says != "refusal":
        return NO_COORDINATES
    if sampled.answered == 0:
        return NO_SAMPLES
    if click is None:
        return sampled.refusals / sampled.answered
    share = agreement(click, sampled.points, sampled.answered, delta)
    return NO_SAMPLES if share is None else share


def _spread(click: Place | None, sampled: Sampled) -> float | str:
    if click is None:
        return NO_COORDINATES
    distance = spread(sampled.points)
    return FEWER_THAN_TWO_POINTS if distance is None else distance
