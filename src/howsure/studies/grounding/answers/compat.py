"""Reading an answer by the patterns of the published evaluation, so that old figures can be compared.

Four patterns are tried, each on the grounding block, or on the whole answer where there is none, and the first match
of the first pattern that matches is taken: four numbers, `(x1, y1) to (x2, y2)`, `Top-left: (x, y)`, then `[x, y]`,
`(x, y)` or bare `x, y`. Of a box that gives its first corner, not its centre, and of several places the first. There
are no refusals: (-1, -1) is a point.

Whole numbers in a closed grounding block give the point that the published code gives. It read less: no signs, no
decimals, nothing outside of a closed block; and what it could not read became (0, 0), which is `wrong_format` here.
"""

from __future__ import annotations

import re

from howsure.studies.grounding.answers.parse import Reading
from howsure.studies.grounding.answers.places import NUMBER, coordinates

_N = rf"({NUMBER})"
_PAIR = rf"[(\[]\s*+{_N}\s*+,\s*+{_N}\s*+[)\]]"
_PATTERNS = (
    ("compat/four", re.compile(rf"[(\[]\s*+{_N}\s*+,\s*+{_N}\s*+,\s*+{_N}\s*+,\s*+{_N}\s*+[)\]]")),
    ("compat/to", re.compile(rf"{_PAIR}\s*+to\s*+{_PAIR}", re.IGNORECASE)),
    ("compat/top_left", re.compile(rf"top[- ]?left\s*+:?\s*+{_PAIR}", re.IGNORECASE)),
    ("compat/pair", re.compile(_PAIR)),
    ("compat/bare", re.compile(rf"(?<![0-9.]){_N}\s*+,\s*+{_N}")),
)
_REFERRING = re.compile(r"```referring\s*+((?:(?!```).)*+)```", re.DOTALL)
_GROUNDING = re.compile(r"```grounding\s*+((?:(?!```).)*+)```", re.DOTALL)
_DIGIT = re.compile(r"[0-9]")


def read_answer(text: str, *, is_answer: bool = True) -> Reading:
    """The first place in a text by those patterns: of an answer, only what follows its last `assistant`.

    >>> read_answer("```grounding\\n(10, 20, 110, 60)\\n```")[:5]
    ('point', 10.0, 20.0, None, 'compat/four')
    """
    start = text.rfind("assistant") + len("assistant") if is_answer and "assistant" in text else 0
    if not text[start:].strip():
        return Reading("wrong_format", why_not="empty")
    named = _REFERRING.search(text, start)
    content = named[1].strip() or None if named else None
    block = _GROUNDING.search(text, start)
    return _first_match(text, *(block.span(1) if block else (start, len(text))))._replace(content=content)


def _first_match(text: str, start: int, end: int) -> Reading:
    for form, pattern in _PATTERNS:
        match = pattern.search(text, start, end)
        if match is None:
            continue
        numbers = coordinates((match[1], match[2]))
        if numbers is None:
            return Reading("wrong_format", why_not="absurd_number")
        x, y = numbers
        return Reading("point", x, y, form=form, spans=(match.span(1), match.span(2)))
    has_numbers = _DIGIT.search(text, start, end) is not None
    return Reading("wrong_format", why_not="no_point" if has_numbers else "no_numbers")
