"""What an answer was found to say: a point, that there is nothing to click, or nothing that can be read."""

from __future__ import annotations

from typing import Literal, NamedTuple

Span = tuple[int, int]
"""A place in the answer's text, in characters: start and end."""


class Reading(NamedTuple):
    """An answer, read.

    `x` and `y` are the numbers of the frame that the model was asked to write in, and `spans` where the numbers that
    gave them stand in the answer (two for a point, four for a box). They are None and empty unless `says` is `point`.
    `content` is what the model called the element, where it did. `form` names the way the point was written, and
    `why_not` says in a countable word why an answer is in `wrong_format`.
    """

    says: Literal["point", "refusal", "wrong_format"]
    x: float | None = None
    y: float | None = None
    content: str | None = None
    form: str | None = None
    spans: tuple[Span, ...] = ()
    why_not: str | None = None
