"""Numbers in an answer: which characters spell one, and which numbers can be a coordinate.

Answers come with full-width brackets, TeX and markdown. `plain` brings all of that to ASCII without moving a single
character, so that a place found in the plain text is a place of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBER = r"[-+]?(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)"
"""A number as models write coordinates: no exponent, no separator of thousands."""
NUMBER_ENDS = r"(?![0-9A-Za-z_%°]|\.[0-9])"
"""What may not follow a number that no bracket closes: more of it, or a unit."""

MOST_CHARACTERS = 24
"""No coordinate is written with more; a number of hundreds of digits is noise, and may be infinite."""
MOST = 1_000_000.0
"""No screen is wider, in any frame."""

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_PLAIN = str.maketrans(
    {**{chr(wide): chr(narrow) for wide, narrow in _WIDE.items()}, "−": "-", "、": ",", "【": "[", "】": "]", "　": " "}
)
_UNUSUAL = re.compile("[！-～−、【】　]")
_STARS = re.compile(r"(?<![0-9])(?<![0-9] )\*|\*(?! ?[0-9.])")
"""Stars of markdown; one between two numbers multiplies them."""


def plain(text: str) -> str:
    """The answer with full-width characters as ASCII, and markdown's stars and TeX's backslashes as spaces."""
    if not text.isascii() and _UNUSUAL.search(text):
        text = text.translate(_PLAIN)
    if "\\" in text:
        text = text.replace("\\left", "     ").replace("\\right", "      ").replace("\\", " ")
    return _STARS.sub(" ", text) if "*" in text else text


def read_number(text: str) -> float:
    """The number that a span of an answer spells."""
    return float(text) if text.isascii() else float(text.translate(_PLAIN))


def coordinates(written: Iterable[str]) -> tuple[float, ...] | None:
    """The numbers that these texts spell; None where one of them cannot be a coordinate on any screen."""
    numbers = []
    for one in written:
        if len(one) > MOST_CHARACTERS:
            return None
        number = float(one)
        if not -MOST <= number <= MOST:
            return None
        numbers.append(number)
    return tuple(numbers)
