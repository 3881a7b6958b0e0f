"""All places that an answer writes: brackets, two brackets as corners, named axes, and numbers after a word or a tag.

Answers come with full-width brackets, TeX and markdown. `plain` brings all of that to ASCII without moving a single
character, so that a place found in the plain text is a place of the answer.

The last words before a place say whether it is the answer: a JSON key, a tag, a call, `answer:`, `click at`. Only a
short stretch is looked at, and only its end, so that an answer of any length costs the same for each place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

# -- numbers ----------------------------------------------------------------------------------------------------------


Span = tuple[int, int]
"""A place in the answer's text, in characters: start and end."""

NUMBER = r"[-+]?(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)"
"""A number as models write coordinates: no exponent, no separator of thousands."""
NUMBER_ENDS = r"(?![0-9A-Za-z_%°]|\.[0-9])"
"""What may not follow a number that no bracket closes: more of it, or a unit."""

LONGEST_NUMBER = 24
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


def coordinates(written: Iterable[str]) -> tuple[float, ...] | None:
    """The numbers that these texts spell; None where one of them cannot be a coordinate on any screen."""
    numbers = []
    for one in written:
        if len(one) > LONGEST_NUMBER:
            return None
        number = float(one)
        if not -MOST <= number <= MOST:
            return None
        numbers.append(number)
    return tuple(numbers)


# -- what stands before a place ---------------------------------------------------------------------------------------


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
    match = _NAME.search(words)
    name = match[0] if match else ""
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


# -- places -----------------------------------------------------------------------------------------------------------


CORNERS = 4
"""The numbers of a box: left, top, right and bottom, in this order."""


class Place(NamedTuple):
    """Somewhere that a text writes, in two numbers or four; or why these numbers are no place."""

    rank: Rank
    shape: str
    numbers: tuple[float, ...]
    spans: tuple[Span, ...]
    why_not: str | None = None
    enclosed: bool = False

    @property
    def is_box(self) -> bool:
        return len(self.numbers) == CORNERS

    @property
    def middle(self) -> tuple[float, float]:
        if not self.is_box:
            return self.numbers[0], self.numbers[1]
        left, top, right, bottom = self.numbers
        return (left + right) / 2, (top + bottom) / 2

    def holds(self, x: float, y: float) -> bool:
        """Whether a box holds a point, whichever of its corners is written first."""
        left, top, right, bottom = self.numbers
        return min(left, right) <= x <= max(left, right) and min(top, bottom) <= y <= max(top, bottom)


_BETWEEN = r"(?:\s*+[,;]\s*+|\s++)"
_ITEM = rf"[\"']?({NUMBER})[\"']?"
_MORE = rf"(?:{_BETWEEN}[\"']?{NUMBER}[\"']?)*+"
_LIST = rf"{_ITEM}{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM}(?:{_BETWEEN}{_ITEM})?)?)?"
"""Two numbers to five; a fifth says that there are too many, and looking for more of them costs time."""
_GROUP = re.compile(
    rf"[(\[{{]\s*+{_LIST}{_MORE}\s*+(?:[)\]}}](?![)\]}}]*+\s?(?:%|percent\b))|(?=,\s*+[A-Za-z_]{{1,20}}\s*+=))"
)
_LONE_PAIR = re.compile(rf"\s*+[(\[]\s*+({NUMBER}),\s*+({NUMBER})\s*+[)\]]\s*+")
_JOINED = re.compile(r"\s*+(,|to|-|~)\s*+", re.IGNORECASE)
"""An arrow joins nothing: it leads from one place to another, or from pixels to what was asked for."""
CORNER_WORDS = 60
"""How far back the word for dragging may stand."""
_OTHER = {"first": "last", "last": "first"}
_DRAGS = re.compile(r"\b(?:drag|swip|slid|scroll|mov)[a-z]*\b[^.\n]*\Z", re.IGNORECASE)
_ALONE = " \t\r\n`~\"'$.()[]{}"
_WHOLE_AXES = frozenset({(0.0, 1.0), (0.0, 100.0), (0.0, 999.0), (0.0, 1000.0)})
"""From one end of an axis to the other: in prose, the range that coordinates are counted in."""
_UNBRACKETED = re.compile(rf"(?<![\w.,(\[{{+-]){_LIST}{NUMBER_ENDS}(?=[ \t]*+(?:[^\w\s,%×°.+-]|\.(?![0-9])|[\r\n]|\Z))")
_WHOLE = re.compile(_LIST + _MORE)
_AXIS_NAME = r"[\"']?([xy])(?:[-_ ]?coord(?:inate)?)?[\"']?\s*+(?:=|:|≈|is\b)\s*+[≈~]?\s*+[\"']?"
_SIZE = rf"[\"']?\s*+[,;]?\s*+[\"']?{{}}[\"']?\s*+[=:]\s*+[\"']?({NUMBER})"
_AXES = re.compile(
    rf"(?<![A-Za-z0-9_]){_AXIS_NAME}({NUMBER})[\"']?\s*+[,;]?\s*+(?:[-•]\s++)?(?:and\s++)?(?:the\s++)?{_AXIS_NAME}({NUMBER}){NUMBER_ENDS}"
    rf"(?:{_SIZE.format('(?:w|width)')}{_SIZE.format('(?:h|height)')}{NUMBER_ENDS})?",
    re.IGNORECASE,
)
_RANGE_BEFORE = re.compile(r"[0-9]\s*+(?:to|through|until|and|-|–|~)\s*+\Z", re.IGNORECASE)
_RANGE_AFTER = re.compile(
    r"[ \t]*+(?:(?:to|through|until)\s++(?:y\s*+[=:]\s*+)?[0-9]|and\s++[xy]\s*+[=:]|[-–~+/×*][ \t]*+[0-9]|=)",
    re.IGNORECASE,
)
"""`x=500 to x=546 and y=400 to y=424` holds no point, and `y = 400 + 12` none that ends at 400."""
_EDGE = rf"[\"']?\s*+[=:]\s*+[\"']?({NUMBER})[\"']?\s*+[,;]?\s*+[\"']?"
_EDGES = re.compile(
    rf"(?<![A-Za-z0-9_])(?:x_?[01]|x_?min|left){_EDGE}(?:y_?[01]|y_?min|top)[\"']?\s*+[=:]\s*+[\"']?({NUMBER}){NUMBER_ENDS}"
    rf"(?:[\"']?\s*+[,;]?\s*+[\"']?(?:x_?[12]|x_?max|right){_EDGE}"
    rf"(?:y_?[12]|y_?max|bottom)[\"']?\s*+[=:]\s*+[\"']?({NUMBER}){NUMBER_ENDS})?",
    re.IGNORECASE,
)
_WRONG_COUNTS = {3: "three_numbers", 5: "too_many_numbers"}


def places(text: str) -> list[Place]:
    """Every place of a plain text, in the order of writing within each way of writing."""
    if lone := _LONE_PAIR.fullmatch(text):
        return [_place(lone, Rank.BRACKETED, "pair")]
    written: list[Place] = []
    if "(" in text or "[" in text or "{" in text:
        written += _bracketed(text)
    if ("x" in text and "y" in text) or ("X" in text and "Y" in text) or "eft" in text:
        written += _by_axes(text)
    if not any(place.rank is Rank.STRUCTURED for place in written):
        written += _introduced(text)
    return written


def whole(text: str) -> Place | None:
    """The numbers that are all there is of a text, punctuation aside."""
    start = len(text) - len(text.lstrip(" \t\r\n`~\"'$"))
    end = len(text.rstrip(" \t\r\n`~\"'$.。"))
    match = _WHOLE.fullmatch(text, start, end)
    return None if match is None else _place(match, Rank.WHOLE, "numbers")


def _bracketed(text: str) -> list[Place]:
    groups = list(_GROUP.finditer(text))
    out: list[Place] = []
    waiting: dict[str, tuple[int, re.Match[str]]] = {}
    """Corners whose other one has not come yet, with their places in `out`."""
    i = 0
    while i < len(groups):
        group, run = groups[i], _run(text, groups, i)
        several, i = groups[i : i + run], i + run
        context = _context(text, several)
        if context.rank is None or _is_range(text, group, context):
            continue
        if run > 1:
            out += _in_a_row(text, several, context)
        elif context.corner and group.lastindex == 2 and (other := waiting.pop(_OTHER[context.corner], None)):
            first, last = (other[1], group) if context.corner == "last" else (group, other[1])
            out[other[0]] = _corners(first, last, min(context.rank, out[other[0]].rank), "named_corners")
        else:
            out.append(_in_brackets(group, context))
            if context.corner and group.lastindex == 2:
                waiting[context.corner] = len(out) - 1, group
    return out


def _context(text: str, row: list[re.Match[str]]) -> Context:
    """What stands before. Two pairs right behind a word are no call: `save(10,20),(110,60)` is a name and its box, the
    special tokens around them left out."""
    context = context_before(text, row[0].start())
    if context.rank is None and len(row) == 2 and text[row[0].end() : row[1].start()] == ",":
        return Context(Rank.BRACKETED)
    return context


def _is_range(text: str, group: re.Match[str], context: Context) -> bool:
    if group[1][0] != "0" or context.rank is not Rank.BRACKETED or group.lastindex != 2:
        return False
    return coordinates((group[1], group[2])) in _WHOLE_AXES and not _is_alone(text, group.start(), group.end())


def _is_alone(text: str, start: int, end: int) -> bool:
    return not text[:start].strip(_ALONE) and not text[end:].strip(_ALONE)


def _run(text: str, groups: list[re.Match[str]], first: int) -> int:
    """How many pairs, or how many boxes, stand in a row from here."""
    length = 1
    while (
        first + length < len(groups)
        and groups[first + length - 1].lastindex == groups[first + length].lastindex in (2, CORNERS)
        and _JOINED.fullmatch(text, groups[first + length - 1].end(), groups[first + length].start())
    ):
        length += 1
    return length


def _in_a_row(text: str, row: list[re.Match[str]], context: Context) -> list[Place]:
    rank = context.rank or Rank.BRACKETED
    if len(row) == 2 and row[0].lastindex == 2 and _are_corners(text, row[0], row[1], context):
        return [_corners(row[0], row[1], rank, "two_corners")]
    return [_place(one, rank, "pair" if one.lastindex == 2 else "box") for one in row]


def _are_corners(text: str, first: re.Match[str], second: re.Match[str], context: Context) -> bool:
    """Whether two pairs in a row are a box. `to` makes one, unless something is dragged there. A comma does where a box
    is named, or where nothing says otherwise: `points: [[1, 2], [3, 4]]` and `click (1, 2), (3, 4)` are two places."""
    between = text[first.end() : second.start()]
    if "," not in between:
        return _DRAGS.search(text, max(0, first.start() - CORNER_WORDS), first.start()) is None
    if context.boxes or _is_alone(text, first.start(), second.end()):
        return True
    return between == "," and context.rank not in (Rank.STRUCTURED, Rank.ACTION)


def _in_brackets(group: re.Match[str], context: Context) -> Place:
    rank = context.rank or Rank.BRACKETED
    if context.corner == "first" and group.lastindex == 2:
        return _place(group, rank, "top_left")
    return _place(group, rank if context.corner is None else Rank.BRACKETED, "pair" if group.lastindex == 2 else "box")


def _corners(first: re.Match[str], second: re.Match[str], rank: Rank, shape: str) -> Place:
    written = (first[1], first[2], second[1], second[2])
    spans = (first.span(1), first.span(2), second.span(1), second.span(2))
    return _checked(rank, shape, written, spans)


def _place(match: re.Match[str], rank: Rank, shape: str, enclosed: bool = False) -> Place:
    count = match.lastindex or 0
    if count == 2:
        return _checked(rank, shape, (match[1], match[2]), (match.span(1), match.span(2)), enclosed)
    written = tuple(match[i] for i in range(1, count + 1))
    spans = tuple(match.span(i) for i in range(1, count + 1))
    if count in _WRONG_COUNTS:
        return Place(rank, shape, (), spans, _WRONG_COUNTS[count])
    if count == CORNERS and _may_be_decimals(match):
        return Place(rank, shape, (), spans, "mixed_separators")
    return _in_order(_checked(rank, shape, written, spans, enclosed))


def _in_order(place: Place) -> Place:
    """Four bare numbers whose third or fourth is too small for right and bottom may be x, y, width and height."""
    if place.is_box and (place.numbers[2] < place.numbers[0] or place.numbers[3] < place.numbers[1]):
        return Place(place.rank, place.shape, (), place.spans, "no_box")
    return place


def _checked(
    rank: Rank, shape: str, written: tuple[str, ...], spans: tuple[Span, ...], enclosed: bool = False
) -> Place:
    numbers = coordinates(written)
    if numbers is None:
        return Place(rank, shape, (), spans, "absurd_number")
    return Place(rank, shape, numbers, spans, None, enclosed)


def _may_be_decimals(match: re.Match[str]) -> bool:
    """`0,45, 0,32` and `0,45; 0,32` are two numbers with decimal commas as likely as four."""
    first, second, third = (match.string[match.end(i) : match.start(i + 1)] for i in (1, 2, 3))
    return first == third == "," and second != ","


def _by_axes(text: str) -> list[Place]:
    out = []
    for match in _AXES.finditer(text):
        one, two = match[1].lower(), match[3].lower()
        if one == two or _RANGE_BEFORE.search(text, max(0, match.start() - 12), match.start()):
            continue
        if _RANGE_AFTER.match(text, match.end()):
            continue
        order = (2, 4) if one == "x" else (4, 2)
        wide = (*order, 5, 6) if match[5] is not None else order
        place = _checked(
            Rank.STRUCTURED, "axes", tuple(match[i] for i in wide), tuple(match.span(i) for i in wide), True
        )
        out.append(_from_size(place) if place.is_box else place)
    for match in _EDGES.finditer(text):
        out += _edges(match)
    return out


def _from_size(place: Place) -> Place:
    """A corner with width and height, as a box."""
    x, y, width, height = place.numbers
    return place._replace(shape="axes_and_size", numbers=(x, y, x + width, y + height))


def _edges(match: re.Match[str]) -> list[Place]:
    """Four named edges are a box, except in the tag <points>, which counts points."""
    counted = match.string.rfind("<points", max(0, match.start() - 24), match.start()) >= 0
    wanted: list[tuple[int, ...]] = [(1, 2), (3, 4)] if counted else [(1, 2, 3, 4)]
    if match[3] is None:
        wanted = [(1, 2)] if counted else []
    return [
        _checked(Rank.STRUCTURED, "edges", tuple(match[i] for i in one), tuple(match.span(i) for i in one), True)
        for one in wanted
    ]


def _introduced(text: str) -> list[Place]:
    out = []
    for match in _UNBRACKETED.finditer(text):
        context = context_before(text, match.start())
        if context.rank is None or not context.introduces:
            continue
        if context.enclosed or "," in text[match.end(1) : match.start(2)]:
            shape = "pair" if match.lastindex == 2 else "box"
            out.append(_place(match, context.rank, f"unbracketed_{shape}", context.enclosed))
    return out
