"""Asked again, does the model click there again? What k drawn answers say of the one that was given."""

from __future__ import annotations

from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.measures import agreement, spread
from howsure.studies.grounding.items import Place
from howsure.studies.grounding.judging.confidence import NO_COORDINATES, Sureness

SAMPLED_KINDS = ("agreement", "spread")

NO_SAMPLES = "no_samples"
FEWER_THAN_TWO_POINTS = "fewer_than_two_points"


class Sampled(NamedTuple):
    """What drawn answers said: where they clicked, in the 0–1000 frame, and how many did not click, by what they did.

    `failed` are calls that brought no answer. Together with the others they make up `asked`.
    """

    asked: int
    points: tuple[Place, ...] = ()
    wrong_format: int = 0
    refusals: int = 0
    failed: int = 0

    @property
    def answered(self) -> int:
        return self.asked - self.failed

    def to_dict(self) -> dict[str, Any]:
        return self._asdict() | {"points": [list(point) for point in self.points]}


def sampled_confidence(says: str, click: Place | None, sampled: Sampled, *, delta: float) -> Sureness:
    """How many of the drawn answers do as the given one did, and how far apart their clicks lie.

    `agreement` is the share of the drawn answers that click within `delta` of the given click, or refuse as it did. One
    that refuses or cannot be read is an answer that does not click there; a call that failed is no answer, and is left
    out. `spread` is a distance, the larger the less sure. Both speak of a click, so an answer that cannot be read has
    neither, and a refusal has no spread.
    """
    if len(sampled.points) + sampled.wrong_format + sampled.refusals + sampled.failed != sampled.asked:
        raise InputError(f"the drawn answers do not add up to the {sampled.asked} that were asked for: {sampled}")
    found = {"agreement": _agreement(says, click, sampled, delta), "spread": _spread(click, sampled)}
    return Sureness(
        {kind: None if isinstance(value, str) else value for kind, value in found.items()},
        {kind: value for kind, value in found.items() if isinstance(value, str)},
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
    found = spread(sampled.points)
    return FEWER_THAN_TWO_POINTS if found is None else found
