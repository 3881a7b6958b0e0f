"""Reading an answer strictly: where it clicks, that there is nothing to click, or why nothing can be read.

An answer may write several places, and only some of them are meant. The strongest kind that is there decides:

1. a fenced block ```` ```grounding ````, else a tag `<answer>`: nothing outside of it counts
2. structure: JSON and its keys (`point_2d`, `bbox_2d`, `coordinate`, …), tool calls, `click(…)`, tags (`<point>`,
   `<|box_start|>`), named axes (`x: 12, y: 34`)
3. words of an answer: `answer:`, `\\boxed{…}`
4. words of an action: `click at`, `tap on`
5. words of a place: `coordinates:`, `at`, `Top-left:`
6. brackets: `(x, y)`, `[x, y]`
7. bare numbers, if they are the whole answer: a text that mentions `1920, 1080` clicks nowhere

Within a kind, equal places are one, and the first of them is taken, since that is where the choice was made. A point
counts before a box that holds it. Different places of one kind are `several_points`: nothing tells which is meant. That
holds for several grounding blocks as well, apart from a last one that is broken off and agrees with the others as far
as it goes. A box of four numbers is left, top, right, bottom, and stands for its centre; where right or bottom would
come before left or top, nothing is read. A range, a sum, a drag, and a place that is warned of are no click. What a
model thinks aloud within <think> is never its answer, nor is a place within a referring block while another is given.

A place whose numbers are all −1 is a refusal; so is a short plain sentence that the element is not there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from howsure.studies.grounding.answers.places import NUMBER, Place, Rank, Span, places, plain, whole


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


MOST_CHARACTERS = 20_000
"""A longer answer, thinking aside, is not read at all: a part of it might say something else than the whole."""

WHY_NOT = {
    "empty": "nothing is written",
    "only_thinking": "the answer ends while the model still thinks",
    "no_numbers": "there is no number in it, and no clear refusal either",
    "one_number": "there is only one number",
    "three_numbers": "three numbers stand where two or four should",
    "no_box": "four numbers that are no left, top, right and bottom: perhaps a width and a height",
    "too_many_numbers": "more than four numbers stand where two or four should",
    "several_points": "it names several places and does not say which is meant",
    "no_point": "there are numbers, but none is marked as a place to click",
    "cut_off": "it breaks off within the coordinates",
    "mixed_separators": "the commas may be decimal points",
    "other_unit": "the numbers have a unit that nobody asked for, such as % or px",
    "other_action": "it does something else than point: it types, waits, looks or ends",
    "absurd_number": "a number is too long or too large for any screen",
    "too_long": f"it has more than {MOST_CHARACTERS:,} characters",
}
"""Every reason for `wrong_format`, in words."""

FORM_ORDERED_BY_NAME = ("axes", "axes_and_size", "edges")
"""Ways of writing that name x and y, so that they mean the same in a frame that has y first."""

_PLACES_OF = {
    Rank.STRUCTURED: "structured",
    Rank.ANSWER: "answer_words",
    Rank.ACTION: "action_words",
    Rank.PLACE: "place_words",
    Rank.BRACKETED: "bracketed",
    Rank.WHOLE: "whole",
}
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_UNFINISHED = re.compile(r"[\s0-9.,;+\"'-]*+")
_NUMBERS = re.compile(rf"(?<![A-Za-z_]){NUMBER}")
_UNITS = re.compile(r"[0-9][)\]}]*+\s?(?:%|percent\b|px\b|pixels?\b)", re.IGNORECASE)
_OTHER_ACTION = re.compile(
    r"""["']action["']\s*:\s*["'](?:type|key|hotkey|press|wait|screenshot|zoom|answer|terminate|finished?)["']"""
    r"|\b(?:type|hotkey|wait|finished|call_user|screenshot)\(",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"\.|[)\]}\s]*+(?:,|to|-|~)\s*+", re.IGNORECASE)
"""What stands between two corners, or between a number and its decimals."""


def is_ordered_by_name(form: str | None) -> bool:
    """Whether the answer names its axes, as in `x=12, y=34`."""
    return form is not None and form.rpartition("/")[2] in FORM_ORDERED_BY_NAME


def read_answer(text: str, *, cut_short: bool = False) -> Reading:
    """What an answer says. `cut_short` tells that a limit of tokens ended it: a number at its very end may go on.

    >>> read_answer("```referring\\nleft arrow\\n```\\n```grounding\\n(100, 200)\\n```")[:5]
    ('point', 100.0, 200.0, 'left arrow', 'block/pair')
    """
    usual = _usual(text)
    if usual is not None:
        return usual
    (start, end), thinks_still = answer_part(text)
    part = text[start:end]
    if not part.strip():
        return Reading("wrong_format", why_not="only_thinking" if thinks_still else "empty")
    if len(part) > MOST_CHARACTERS:
        return Reading("wrong_format", why_not="too_long")
    reading = _read(part, cut_short)
    return reading._replace(spans=_moved(reading.spans, start)) if start else reading


_SMALL = r"([0-9]{1,4}(?:\.[0-9]{1,4})?)"
_USUAL = re.compile(
    rf"\s*```referring\n([^`~<◁]{{0,500}})\n```\s*```grounding\n([(\[]) ?{_SMALL}, ?{_SMALL} ?([)\]])\n```\s*"
)
"""The form that is asked for, to the letter; most answers have it."""


def _usual(text: str) -> Reading | None:
    """An answer of the usual form at a glance, which is all that it needs. None: it has to be looked at."""
    match = _USUAL.fullmatch(text)
    if match is None or match[2] + match[5] not in ("()", "[]"):
        return None
    name = unquoted(match[1])
    return Reading("point", float(match[3]), float(match[4]), name, "block/pair", (match.span(3), match.span(4)))


def _read(text: str, cut_short: bool) -> Reading:
    flat = plain(text)
    fenced = blocks(flat) if "```" in flat or "~~~" in flat else []
    declared, where = [block for block in fenced if block.name == "grounding"], "block"
    if not declared and "<answer" in flat.lower():
        declared, where = answer_tags(flat), "answer_tag"
    if declared:
        place, reading = _in_declared(flat, declared, where, cut_short)
    else:
        flat = _without_descriptions(flat, fenced)
        place, reading = _in_region(flat, _only_block(flat, fenced), None, cut_short)
    content = _content(text, fenced, place)
    return reading if content is None else Reading(*reading[:3], content, *reading[4:])


def _in_declared(text: str, declared: Sequence[Block], where: str, cut_short: bool) -> tuple[Place | None, Reading]:
    """The last block is left aside where it is broken off and agrees with an earlier one as far as it goes."""
    last = declared[-1]
    if len(declared) > 1 and not last.closed:
        begun = text[last.start : last.end].strip()
        if any(text[one.start : one.end].strip().startswith(begun) for one in declared[:-1]):
            declared = declared[:-1]
    if len(declared) == 1:
        return _in_region(text, declared[0], where, cut_short)
    read = [_in_region(text, block, where, cut_short) for block in declared]
    said = {(reading.says, reading.x, reading.y, reading.why_not) for _, reading in read}
    return read[0] if len(said) == 1 else (None, Reading("wrong_format", why_not="several_points"))


def _without_descriptions(text: str, fenced: Sequence[Block]) -> str:
    """The text with blanks for its referring blocks, which say what the element is, where a place stands elsewhere."""
    blanked = text
    for block in fenced:
        if block.name == "referring":
            start = block.start - len(block.name)
            blanked = blanked[:start] + " " * (block.end - start) + blanked[block.end :]
    return blanked if blanked is not text and (places(blanked) or whole(blanked)) else text


def _only_block(text: str, fenced: Sequence[Block]) -> Block:
    """The inside of the one fence that holds all there is, or everything."""
    if len(fenced) == 1 and fenced[0].closed and not fenced[0].name.startswith("ref"):
        block = fenced[0]
        around = text[: block.start].replace(block.name, "") + text[block.end :]
        if not around.strip(" \t\r\n`~"):
            return block
    return Block("", 0, len(text), True)


def _in_region(text: str, block: Block, where: str | None, cut_short: bool) -> tuple[Place | None, Reading]:
    start, end = block.start, block.end
    region = text[start:end]
    may_go_on = end == len(text)
    candidates = places(region)
    if may_go_on and _breaks_off(region):
        return None, Reading("wrong_format", why_not="cut_off")
    if not candidates and (alone := whole(region)) is not None:
        candidates = [alone]
    place, why_not = _decide(candidates)
    if place is not None and place.rank is not Rank.STRUCTURED and where is None and _OTHER_ACTION.search(region):
        return None, Reading("wrong_format", why_not="other_action")
    if place is None:
        return None, _without_place(region, why_not, may_go_on)
    if may_go_on and _ends_openly(region, place, cut_short or not block.closed):
        return None, Reading("wrong_format", why_not="cut_off")
    if place.numbers.count(-1) == len(place.numbers):
        return place, Reading("refusal", form=_form(place, where))
    x, y = place.middle
    return place, Reading("point", x, y, None, _form(place, where), _moved(place.spans, start))


def _moved(spans: tuple[Span, ...], by: int) -> tuple[Span, ...]:
    return tuple([(a + by, b + by) for a, b in spans]) if by else spans


def _form(place: Place, where: str | None) -> str:
    return f"{where or _PLACES_OF[place.rank]}/{place.shape}"


def _decide(candidates: Sequence[Place]) -> tuple[Place | None, str | None]:
    """The place that is meant, or why there is none."""
    if not candidates:
        return None, None
    if len(candidates) == 1:
        return (candidates[0], None) if candidates[0].why_not is None else (None, candidates[0].why_not)
    strict = [place for place in candidates if place.rank is Rank.STRUCTURED]
    usable = [place for place in strict or candidates if place.why_not is None]
    if not usable:
        return None, min(strict or candidates, key=lambda place: place.rank).why_not
    best = min(place.rank for place in usable)
    kept = [place for place in usable if place.rank is best]
    points = [place for place in kept if not place.is_box] or kept
    x, y = points[0].middle
    one = all(place.middle == (x, y) or (place.is_box and not points[0].is_box and place.holds(x, y)) for place in kept)
    return (points[0], None) if one else (None, "several_points")


def _breaks_off(text: str) -> bool:
    """Whether the text ends within a bracket that holds nothing but a part of coordinates."""
    last = max(text.rfind("("), text.rfind("["), text.rfind("{"))
    return last >= 0 and _UNFINISHED.fullmatch(text, last + 1) is not None


def _ends_openly(text: str, place: Place, cut: bool) -> bool:
    """Whether the last number ends the text although something had to follow it."""
    last = max(end for _, end in place.spans)
    if last < len(text.rstrip()):
        return cut and len(place.spans) == 2 and _GOES_ON.fullmatch(text, last) is not None
    if place.shape in FORM_ORDERED_BY_NAME:
        return cut or any(text.count(a) > text.count(b) for a, b in (*_BRACKETS, ("<", ">")))
    return cut or place.enclosed


def _without_place(text: str, why_not: str | None, may_go_on: bool) -> Reading:
    if why_not is not None:
        return Reading("wrong_format", why_not=why_not)
    if refuses(text):
        return Reading("refusal", form="words")
    return Reading("wrong_format", why_not=_diagnosis(text, may_go_on))


def _diagnosis(text: str, may_go_on: bool) -> str:
    """The most telling reason why a text without a place has none."""
    if may_go_on and any(text.count(a) > text.count(b) for a, b in _BRACKETS):
        return "cut_off"
    numbers = _NUMBERS.findall(text)
    if not numbers:
        return "no_numbers" if text.strip() else "empty"
    if _UNITS.search(text):
        return "other_unit"
    return "one_number" if len(numbers) == 1 else "no_point"


def _content(text: str, fenced: Sequence[Block], place: Place | None) -> str | None:
    """What the answer calls the element: its first referring block, or the name that stands with the place."""
    for block in fenced:
        if block.name == "referring":
            return unquoted(text[block.start : block.end])
    return element_name(text) if place is not None else None


# -- parts of an answer -----------------------------------------------------------------------------------------------


_THINKING = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|◁(/?)think▷", re.IGNORECASE)
_MARK = re.compile(r"[`~]{3,}+[ \t]*+([A-Za-z_]*+)")
_ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_QUOTES = "\"'“”‘’「」`"


class Block(NamedTuple):
    """A fenced block: its name in small letters, where its inside lies, and whether its end was written."""

    name: str
    start: int
    end: int
    closed: bool


def answer_part(text: str) -> tuple[Span, bool]:
    """Where the answer stands: behind what is thought, or before it where nothing follows.

    The second part says whether the text ends within a thought. An end without a beginning counts, since templates
    write the beginning into the prompt.
    """
    if "think" not in text.lower() and "<thought>" not in text and "<reasoning>" not in text:
        return (0, len(text)), False
    marks = [(mark.start(), mark.end(), bool(mark[1] or mark[2])) for mark in _THINKING.finditer(text)]
    within = bool(marks) and not marks[-1][2]
    end = next((start for start, _, closes in reversed(marks) if not closes), len(text)) if within else len(text)
    start = max((after for _, after, closes in marks if closes), default=0)
    if text[start:end].strip():
        return (start, end), within
    before = marks[0][0] if marks and not marks[0][2] else 0
    return (0, before), within


def blocks(text: str) -> list[Block]:
    """The fenced blocks. A named fence within a block ends that block and begins another."""
    fences: list[Block] = []
    name: str | None = None
    inside = 0
    for mark in _MARK.finditer(text):
        if name is not None:
            fences.append(Block(name, inside, mark.start(), True))
        name = mark[1].lower() if name is None or mark[1] else None
        inside = mark.end()
    if name is not None:
        fences.append(Block(name, inside, len(text), False))
    return fences


def answer_tags(text: str) -> list[Block]:
    """What stands within <answer> and </answer>; the last may lack its end."""
    tags: list[Block] = []
    inside: int | None = None
    for mark in _ANSWER_TAG.finditer(text):
        if not mark[1]:
            inside = mark.end()
        elif inside is not None:
            tags.append(Block("answer", inside, mark.start(), True))
            inside = None
    if inside is not None:
        tags.append(Block("answer", inside, len(text), False))
    return tags


def unquoted(text: str) -> str | None:
    """A name without the white space and the quotation marks around it; None where nothing is left."""
    bare = text.strip()
    if len(bare) >= 2 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        bare = bare[1:-1].strip()
    return bare or None


# -- what it calls the element ----------------------------------------------------------------------------------------


_KEYS = r"(?:label|element|element_info|element_name|description|referring)"
_NAMES = re.compile(
    rf"[\"']{_KEYS}[\"']\s*+:\s*+(?:\"((?:[^\"\\\n]|\\.){{1,300}})\"|'((?:[^'\\\n]|\\.){{1,300}})')"
    r"|\b(?:alt|element_info)=(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})')"
    r"|<ref>([^<>]{1,300})</ref>"
    r"|<\|object_ref_start\|>([^<>]{1,300})<\|object_ref_end\|>"
    r"|^[ \t*#-]*+referring[ \t*]*+:[ \t*]*+([^\n]{1,300})$",
    re.IGNORECASE | re.MULTILINE,
)
_SIGNS = ("label", "element", "description", "eferring", "alt=", "ref>", "object_ref")


def element_name(text: str) -> str | None:
    """The first name that the text gives, without its quotation marks."""
    if not any(sign in text for sign in _SIGNS):
        return None
    match = _NAMES.search(text)
    if match is None:
        return None
    return unquoted(next(group for group in match.groups() if group is not None))


# -- refusals ---------------------------------------------------------------------------------------------------------


LONGEST_REFUSAL = 600
"""A refusal is a sentence or two; what is longer is a tale that may end anywhere."""

_ELEMENT = r"(?:element|button|icon|item|option|link|object|control|widget|field|menu|tab|target|text|thing|match)s?"
_SCREEN = r"(?:screen|screenshot|image|picture|page|window|interface|gui|ui|view)"
_STATEMENTS = re.compile(
    r"\b(?:is|are|was)(?:n['’]t| not) (?:\w+ )?(?:visible|present|found|shown|displayed|available|there)\b"
    rf"|\b(?:is|are)(?:n['’]t| not) (?:\w+ )?(?:on|in) (?:the|this) (?:\w+ )?{_SCREEN}\b"
    r"|\bdo(?:es)?(?:n['’]t| not) (?:\w+ )?(?:exist|appear)\b"
    rf"|\b{_SCREEN} (?:shown )?does(?:n['’]t| not) (?:\w+ )?(?:contain|show|include|have)\b"
    r"|\b(?:can ?not|can['’]t|could not|couldn['’]t|unable to|not able to) (?:\w+ )?"
    r"(?:find|locate|identify|see|detect)\b"
    rf"|\b(?:there (?:is|are) )?no (?:such |matching |corresponding |visible )(?:\w+ ){{0,2}}{_ELEMENT}\b"
    rf"|\bthere (?:is|are) no (?:[\w\"'’-]+ ){{0,4}}{_ELEMENT}\b"
    rf"|\A\W*(?:(?:the )?{_ELEMENT} )?not (?:found|visible|present|on (?:the|this) {_SCREEN})\W*\Z"
    r"|찾을 수(?:가)? 없|찾지 못|보이지 않|존재하지 않|화면에(?:는)? [^.]{0,30}없"
    r"|(?:요소|버튼|아이콘|항목|메뉴)(?:이|가|은|는)? 없"
    r"|找不到|未找到|没有找到|無法找到|无法找到|无法定位|不存在|看不到|没有(?:这个|该|此|相应|对应|匹配)"
    r"|(?:屏幕|图|界面|画面|截图)(?:上|中|里)?(?:没有|未)"
    r"|見つかりません|見つけられません|存在しません|表示されていません|画面[^。]{0,20}ありません",
    re.IGNORECASE,
)
_SECOND_THOUGHTS = re.compile(
    r"\?|？|\b(?:but|however|instead|although|though|closest|nearest|assum\w+|likely|probably|might|may|maybe|perhaps"
    r"|if|unless|until|scroll\w*|except)\b|하지만|그러나|대신|다만|아마|但|不过|然而|也许|可能|しかし|ただし|代わり|かもしれ",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\"[^\"\n]{0,200}\"|“[^”\n]{0,200}”|「[^」\n]{0,200}」|‘[^’\n]{0,200}’|`[^`\n]{0,200}`|(?<!\w)'[^'\n]{0,200}'(?!\w)"
)
_DIGIT = re.compile(r"\d")


def refuses(text: str) -> bool:
    """Whether the text says that there is nothing to click, beyond doubt.

    Only a short statement without coordinates and without second thoughts counts: whoever writes `not visible, but
    probably in the menu` has not refused. Numbers within quotation marks, as in `"Page 2" is not visible`, are names.
    """
    if len(text) > LONGEST_REFUSAL:
        return False
    said = _QUOTED.sub('"…"', text)
    if _DIGIT.search(said) or _SECOND_THOUGHTS.search(said):
        return False
    return _STATEMENTS.search(said) is not None
