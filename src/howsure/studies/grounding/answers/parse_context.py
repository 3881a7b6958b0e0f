"""What stands before a bracket or a number, and what that makes of it.

The last words before a place say whether it is the answer: a JSON key, a tag, a call, `answer:`, `click at`. Only a
short stretch is looked at, and only its end, so that an answer of any length costs the same for each place.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple


class Rank(IntEnum):
    """How strongly an answer marks a place as its click, the strongest first."""

    STRUCTURED = 1
    ANSWER = 2
    ACTION = 3
    PLACE = 4
    BRACKETED = 5
    WHOLE = 6


class Context(NamedTuple):
    """`rank` is None for what is no place at all. `corner` is `first` or `last` where the words name one."""

    rank: Rank | None
    corner: str | None = None
    enclosed: bool = False
    """Whether a tag or a quotation mark is open, which has to be closed again."""
    introduces: bool = False
    """Whether a place may follow without brackets."""
    boxes: bool = False
    """Whether a box is what it names, so that two pairs in a row are its corners."""


_LOOKED_AT = 48
_GLUE = " \t\r\n\f\v\"':=([{<>|$`~#-"
_NAME = re.compile(r"[a-z0-9_]*\Z")

_PLACE_NAMES = ("point", "box", "coord", "click", "tap", "position", "location", "cent", "target", "xy", "grounding")
_BOX_NAMES = ("box", "rect", "region", "area", "bound")
_NO_CLICKS = re.compile(
    r"(?<![a-z])(?:resolution|dimension|size|viewport|width|height|origin)|해상도|크기|分辨率|尺寸|解像度"
)
"""Words for the size of the screen, and for the corner that it is counted from."""
_DENIED = re.compile(
    r"(?:\b(?:not|never|avoid)|n['’]t)(?: (?:be|to|at|on|in|the|it|click|clicking|tap|tapping|press|pressing)){0,4}\Z"
    r"|\b(?:rather than|instead of)(?: (?:at|on|clicking))?\Z"
)
"""The click that somebody warns of."""
_CALLS = ("click", "tap", "press", "moveto", "move_to", "hover")


def _phrases(words: tuple[str, ...], endings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f" {word}{ending}" for word in words for ending in endings)


_LINKS = ("", " is", " are", " is at", " at", " would be", " should be")
_ANSWERS = (
    *_phrases(("answer", "result", "output", "boxed", "grounding"), _LINKS),
    *("答案", "答案是", "答案为", "정답", "정답은", "答え", "答えは"),
)
_ACTIONS = (
    *_phrases(
        ("click", "clicking", "tap", "tapping", "press", "pressing"),
        ("", " on", " at", " here", " point", " position", " coordinates", " coordinates are"),
    ),
    *("点击", "单击", "클릭", "클릭 좌표", "クリック"),
)
_PLACES = (
    *_phrases(("coordinates", "coordinate", "coords", "point", "position", "location", "center", "centre"), _LINKS),
    *(" at", "坐标", "坐标为", "坐标是", "位置", "位于", "좌표", "좌표는", "위치", "위치는", "座標", "座標は"),
)
_BOXES = _phrases(("box", "bbox", "region", "area"), _LINKS)
"""These introduce a box, but mark it no more than its brackets do: a point written inside of it comes first."""
_RANKED = ((_ANSWERS, Rank.ANSWER), (_ACTIONS, Rank.ACTION), (_PLACES, Rank.PLACE), (_BOXES, Rank.BRACKETED))
_INTRODUCTIONS = (
    *(" is", " are", " be", " is at", " are at"),
    *(" click at", " clicking at", " tap at", " tapping at", " located at"),
    *("为", "是", "는", "은", "は", "于"),
)
"""After these a place may follow without brackets. A mere `at` is not enough: `at 12, 30 people came`."""

_AFTER_CORNER = ("", " corner", " point", " coordinates", " is", " at", " corner is", " corner at")
_FIRST_CORNERS = tuple(
    f"{side}{link}left{after}" for side in ("top", "upper") for link in ("-", " ", "_", "") for after in _AFTER_CORNER
)
_LAST_CORNERS = tuple(
    f"{side}{link}right{after}"
    for side in ("bottom", "lower")
    for link in ("-", " ", "_", "")
    for after in _AFTER_CORNER
)

NO_PLACE = Context(None)
_PLAIN_BRACKETS = Context(Rank.BRACKETED)


def context_before(text: str, start: int) -> Context:
    """What the end of `text[:start]` makes of the bracket or number at `start`."""
    before = text[max(0, start - _LOOKED_AT) : start].lower()
    if not before or before.isspace():
        return _PLAIN_BRACKETS
    words = before.rstrip(_GLUE)
    glue = before[len(words) :]
    found = _NAME.search(words)
    name = found[0] if found else ""
    if corner := _corner(words):
        keyed = _is_key(glue)
        return Context(Rank.STRUCTURED if keyed else Rank.PLACE, corner, _is_open(glue))
    if _is_tag(words, name, glue) or (_is_key(glue) and _names_a_place(name)) or (not glue and _is_call(name)):
        return Context(Rank.STRUCTURED, enclosed=_is_open(glue), introduces=True, boxes=_names_a_box(name))
    return _by_words(words, glue, name)


def _corner(words: str) -> str | None:
    if "left" in words and words.endswith(_FIRST_CORNERS):
        return "first"
    return "last" if "right" in words and words.endswith(_LAST_CORNERS) else None


def _is_tag(words: str, name: str, glue: str) -> bool:
    return (
        glue.startswith((">", "|>")) and words[: len(words) - len(name)].endswith(("<", "<|")) and _names_a_place(name)
    )


def _is_key(glue: str) -> bool:
    return "=" in glue or (":" in glue and glue[0] in "\"' " and ('"' in glue or "'" in glue))


def _is_open(glue: str) -> bool:
    """Whether the last thing before a place is the end of a tag or a quotation mark that the place stands in."""
    return glue.rstrip(" \t\r\n([{").endswith((">", '"', "'"))


def _is_call(name: str) -> bool:
    return name.endswith(_CALLS)


def _names_a_place(name: str) -> bool:
    return any(part in name for part in _PLACE_NAMES)


def _names_a_box(name: str) -> bool:
    return any(part in name for part in _BOX_NAMES)


def _by_words(words: str, glue: str, name: str) -> Context:
    last = " " + " ".join(words.split()[-4:])
    if _DENIED.search(last):
        return NO_PLACE
    for endings, rank in _RANKED:
        if last.endswith(endings):
            introduces = ":" in glue or "=" in glue or last.endswith(_INTRODUCTIONS)
            return Context(rank, introduces=introduces, boxes=endings is _BOXES)
    if not glue and name:
        return NO_PLACE
    return NO_PLACE if _NO_CLICKS.search(last) else _PLAIN_BRACKETS
