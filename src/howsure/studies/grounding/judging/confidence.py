"""How sure a model was of the numbers that it wrote: the probabilities of the tokens that spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howsure.evidence import TokenLogprobs
from howsure.models.token_places import lay_tokens, utf8
from howsure.studies.grounding.answers.readings import Span

COORDINATE_KINDS = ("coordinate_mean", "coordinate_min", "coordinate_joint")
"""Mean, least and joint probability of the tokens of a click's coordinates."""

NO_LOGPROBS = "no_logprobs"
NOT_LOCATED = "not_located"
NOT_ALIGNED = "not_aligned"
NO_COORDINATES = "no_coordinates"


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
    found: set[int] = set()
    for start, end in spans:
        tokens = places.overlapping(len(utf8(text[:start])), len(utf8(text[:end])))
        if tokens is None:
            return None
        found.update(tokens)
    return sorted(found)
