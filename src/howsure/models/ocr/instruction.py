"""What an instruction asks for: the thing to click, what it is called, and what is said about where it is.

An instruction is a few clauses ("Look at the top of the screen and find the word …; click it"), each a verb and its
object. The object begins with the thing itself and goes on with where it is: `"+" button / next to "Above" / in the
"Spacing" tab / of the window`. Quoted words in the first part are the thing's name, quoted words in the others are
anchors: things that stand near it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

LONGEST_INSTRUCTION = 4000
MOST_QUOTES = 64
MOST_SAID = 16
"""So many things that are said about the target are read, and so many of its names."""

_FIRST_QUOTE = 0xE000


UNSURE = 0.9
"""The weight of names that are not in quotes, and of further quotes: "Click "A" to open "B"" asks for A."""


class Name(NamedTuple):
    """What something is called; how much that counts, from 0 to 1: quoted words count most."""

    text: str
    weight: float = 1.0


class Anchor(NamedTuple):
    """Something else on the screen that the target stands in a relation to."""

    relation: str
    names: tuple[Name, ...]


class Place(NamedTuple):
    """A rough place on the screen: across and down from 0 to 1, None where nothing is said."""

    across: float | None = None
    down: float | None = None

    def over(self, other: Place) -> Place:
        """This place, and the other's where this one says nothing."""
        return Place(
            other.across if self.across is None else self.across, other.down if self.down is None else self.down
        )


class Wish(NamedTuple):
    """What is to be clicked; `edge` is `start` or `end` where the click belongs at one end of a text."""

    names: tuple[Name, ...] = ()
    kind: str | None = None
    sign: str | None = None
    anchors: tuple[Anchor, ...] = ()
    place: Place = Place()
    edge: str | None = None


# -- words ------------------------------------------------------------------------------------------------------------


VERBS = (
    r"(?:left|right|double)[-\s]click|click|tap|press|select|choose|pick|hit|hover|move|navigate|go|point|drag|drop|type|"
    "enter|input|write|fill|check|uncheck|tick|untick|toggle|switch|enable|disable|turn|activate|deactivate|expand|"
    "collapse|open|close|highlight|place|put|set|position|scroll|find|locate|identify|look|see|use|focus|access|change|"
    "adjust|increase|decrease|show|view|hide|minimi[sz]e|maximi[sz]e|restore|dismiss"
)
"""What is to be done."""

STEPS = {"increase": "plus", "decrease": "minus"}
"""Verbs that say by themselves which sign is clicked."""

KINDS = {
    "mark": r"check\s?box|tick\s?box|radio(?:\s+button)?|toggle|switch|arrow|triangle|chevron|caret",
    "field": r"field|input|(?:text|input|search|combo|spin)\s?box|(?:search|address)\s+bar|drop-?\s?down",
}
"""Sorts of things that carry no name of their own, and the words for them: small drawn ones, and rims to write in."""

SIGNS = {
    "plus": {"+", "plus"},
    "minus": {"-", "−", "–", "minus"},
    "cross": {"x", "×", "✕", "cross", "close", "dismiss"},
    "maximise": {"maximise", "maximize", "restore"},
    "minimise": {"minimise", "minimize"},
}
"""Drawn signs, and how people write them; the last three close and size windows."""

_PLAIN = """
    a an the The this that these those your my its their it them one some any of to in on at by for from with within
    inside into over and or as is are please now directly immediately just left right top bottom upper lower corner side
    button icon option item entry link label text word menu tab window dialog screen page application list panel
    sidebar bar toolbar section area row column header cell field box checkbox radio toggle switch arrow triangle sign
    image dropdown
"""
PLAIN = frozenset(_PLAIN.split())
"""Words that say nothing about what is written on the thing, at the ends of what it is called."""

# -- grammar ----------------------------------------------------------------------------------------------------------

QUOTED = re.compile(
    r'"([^"]*)"|“([^“”]*)”|«([^«»]*)»|「([^「」]*)」|`([^`]+)`|‘([^‘’]*)’|'
    r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)"
)
CLAUSE_END = re.compile(rf"(?<=[.!?;])\s+|\s*[\n;]\s*|(?:,|,?\s+and)\s+(?:then\s+)?(?=(?:{VERBS})\b)", re.I)
POINTER = r"(?:the\s+|your\s+)?(?:left\s+)?(?:mouse|cursor)(?:\s+(?:pointer|button))?"
OPENING = re.compile(
    rf"^(?:please\s+|now\s+|\W)*(?P<verb>{VERBS})\b(?:\s+{POINTER}\b)?"
    r"(?:\s+(?:once|twice|specifically|on|onto|over|at|to|into|for|up|down|off)\b)*\s*",
    re.I,
)
INTO = re.compile(r"\b(?:in|into|inside|to|on)\s+", re.I)
MARKERS = {
    "corner": r"(?:(?:on|to|at|in|from)\s+)?(?:the\s+)?(?:(?:top|upper|bottom|lower)[-\s](?:left|right)(?:\s+corner)?|"
    r"(?:top|upper|bottom|lower|right|left)\s+(?:corner|edge|end|side))\s+of",
    "left_of": r"left\s+(?:of|to|from)|in\s+front\s+of|before",
    "right_of": r"right\s+(?:of|to|from)",
    "above": "above",
    "below": "below|underneath|beneath|under",
    "beside": r"next\s+to|beside|adjacent\s+to|close\s+to|near|alongside|for|corresponding\s+to",
    "label": r"label+ed(?:\s+(?:as|with))?|named|called|titled|marked|reading|saying|containing|"
    r"(?:that|which)\s+(?:says|reads|contains|displays|shows)|with\s+the\s+(?:text|label|word|name)",
    "inside": "in|inside|within|from|of|on|at|among",
}
"""What leads from a thing to what is said about it."""

MARKER = re.compile("|".join(rf"(?P<{name}>\b(?:{pattern})\b)" for name, pattern in MARKERS.items()), re.I)
EDGE = re.compile(r"\b(?P<start>start|beginning)|\bend\b", re.I)
NAMED_RUN = re.compile(r"(?:[A-Z][\w'’.\-]*|\d[\w.]*)(?:\s+[A-Z0-9][\w'’.\-]*)*")
WORD = re.compile(r"[^\W_]+(?:['’.\-/&_][^\W_]+)*")


def understand(instruction: str) -> Wish | None:
    """What an instruction asks for; None where it says nothing."""
    return _Reader(instruction).wish()


class _Reader:
    """Reads one instruction; quoted words stand in it as single characters, so that no rule looks into them."""

    def __init__(self, instruction: str) -> None:
        self.quotes: list[str] = []
        kept = "".join(c for c in instruction[:LONGEST_INSTRUCTION] if not 0xD800 <= ord(c) <= 0xF8FF)
        self.plain = re.sub(r"[^\S\n]+", " ", QUOTED.sub(self._keep, kept)).strip()

    def _keep(self, match: re.Match[str]) -> str:
        words = next((group for group in match.groups() if group is not None), "").strip()
        if not words or len(self.quotes) >= MOST_QUOTES:
            return f" {words} "
        self.quotes.append(words.rstrip(",") if len(words) > 1 else words)
        return chr(_FIRST_QUOTE + len(self.quotes) - 1)

    def wish(self) -> Wish | None:
        """The object of the last clause that says what."""
        wishes = [self._clause(clause) for clause in CLAUSE_END.split(self.plain) if clause.strip(" .,")]
        telling = [wish for wish in wishes if wish.names or wish.sign or wish.anchors]
        return next(reversed(telling or wishes), None)

    def _clause(self, clause: str) -> Wish:
        opening = OPENING.match(clause)
        verb = "" if opening is None else opening["verb"].lower()
        said = clause if opening is None else clause[opening.end() :]
        if verb in ("type", "enter", "input", "write", "fill") and (into := INTO.search(said)):
            said = said[into.end() :]  # what is typed stands before, what is clicked after it
        wish = self._object(said)
        if verb in STEPS:
            return _signed(wish, STEPS[verb], "beside")
        sign = _sign_of({verb})
        return wish if sign is None else _signed(wish, sign, "right_end")

    def _object(self, text: str) -> Wish:
        marks = list(islice(MARKER.finditer(text), MOST_SAID))
        ends = [*(mark.start() for mark in marks), len(text)]
        head = text[: ends[0]]
        edge = EDGE.search(head)
        wish = Wish(
            names=self._names(head, whole=text) if edge is None else self._names(text[edge.end() :]),
            kind=_kind(head),
            sign=self._sign(head),
            edge=None if edge is None else "start" if edge["start"] else "end",
        )
        for mark, end in zip(marks, ends[1:], strict=True):
            wish = self._extended(wish, str(mark.lastgroup), mark.group(), text[mark.end() : end])
        return _beside_its_label(wish)

    def _extended(self, wish: Wish, marker: str, lead: str, said: str) -> Wish:
        """A wish with one more thing said about it."""
        if marker == "label":
            return self._labelled(wish, self._names(said))
        names = self._names(said)
        if marker == "inside":
            wish = wish._replace(place=wish.place.over(_place(f"{lead} {said}")))
        elif not names or (marker == "corner" and names[0].weight == UNSURE):
            wish, marker = wish._replace(place=_place(lead).over(wish.place)), "inside"
        elif marker == "corner":
            marker = "left_end" if "left" in lead.lower() else "right_end"
        return wish._replace(anchors=(*wish.anchors, Anchor(marker, names))) if names else wish

    def _labelled(self, wish: Wish, names: tuple[Name, ...]) -> Wish:
        """What is written on it is the target's name, unless that is known: then it is something around it."""
        if wish.sign is None and not any(name.weight == 1.0 for name in wish.names):
            return wish._replace(names=names + wish.names)
        return wish._replace(anchors=(*wish.anchors, Anchor("inside", names)))

    def _names(self, text: str, whole: str = "") -> tuple[Name, ...]:
        """What a stretch calls its thing: quoted words, else those with capitals, or all, of it or of the whole."""
        quoted = [self.quotes[ord(c) - _FIRST_QUOTE] for c in text if _is_quote(c)]
        if quoted:
            return (Name(quoted[0]), *(Name(name, UNSURE) for name in quoted[1:]))
        runs = [_bare(run) for run in NAMED_RUN.findall(text)]
        rest = [_bare(text), "" if any(map(_is_quote, whole)) else _bare(whole)]
        return tuple(Name(name, UNSURE) for name in dict.fromkeys([*runs[:MOST_SAID], *rest]) if name)

    def _sign(self, text: str) -> str | None:
        """The drawn sign that a stretch speaks of: by itself in quotes, or in words."""
        spelled = {self.quotes[ord(c) - _FIRST_QUOTE].strip().lower() for c in text if _is_quote(c)}
        spelled |= set(re.findall(r"[a-z]+|\+|×", text.lower()))
        return _sign_of(spelled)


def _sign_of(words: set[str]) -> str | None:
    return next((sign for sign, ways in SIGNS.items() if words & ways), None)


def _is_quote(character: str) -> bool:
    return _FIRST_QUOTE <= ord(character) < _FIRST_QUOTE + MOST_QUOTES


def _signed(wish: Wish, sign: str, relation: str) -> Wish:
    """The sign that belongs to what was named: closing a window means its cross, increasing a value its plus."""
    anchors = tuple(anchor._replace(relation=relation) for anchor in wish.anchors)
    named = (Anchor(relation, wish.names),) if wish.names else ()
    return Wish(sign=sign, anchors=(*named, *anchors), place=wish.place)


def _beside_its_label(wish: Wish) -> Wish:
    """A box to tick, a switch, an arrow or a field is mostly called by the label that it stands beside."""
    if wish.kind is None or any(anchor.relation != "inside" for anchor in wish.anchors):
        return wish
    labels = (Anchor("beside", wish.names), *wish.anchors) if wish.names else wish.anchors
    return wish._replace(anchors=tuple(label._replace(relation="beside") for label in labels[:1]) + labels[1:])


def _kind(text: str) -> str | None:
    """The sort of thing, by the last word for one: "the dropdown arrow of …" is an arrow."""
    ends = [
        (match.end(), kind) for kind, said in KINDS.items() for match in re.finditer(rf"\b(?:{said})\b", text, re.I)
    ]
    return max(ends)[1] if ends else None


def _place(text: str) -> Place:
    words = set(re.findall(r"[a-z]+", text.lower()))
    across = 0.0 if words & {"left", "leftmost"} else 1.0 if words & {"right", "rightmost"} else None
    down = 0.0 if words & {"top", "upper"} else 1.0 if words & {"bottom", "lower"} else None
    return Place(across, down)


def _bare(text: str) -> str:
    """What a stretch says without the words at its ends that only say what sort of thing it is."""
    words = WORD.findall(text)
    while words and words[0] in PLAIN:
        words.pop(0)
    while words and words[-1] in PLAIN:
        words.pop()
    return " ".join(words)
