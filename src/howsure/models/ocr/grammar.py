"""How instructions are built: their clauses, what opens one, and the words that lead from a thing to what is near."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from howsure.models.ocr import vocabulary

QUOTED = re.compile(
    r'"([^"]*)"|“([^“”]*)”|«([^«»]*)»|「([^「」]*)」|`([^`]+)`|‘([^‘’]*)’|'
    r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)"
)
WHICH_IS = re.compile(r"^\s*(?:which|that|it|this)?\s*(?:is|are|looks\s+like)\s+(?:an?\s+|the\s+)?", re.I)
ASIDE = re.compile(r"\(([^()]*)\)")
DOING = "clicking|pressing|selecting|tapping|choosing|hitting"
VERB = "|".join(
    re.escape(verb)
    for verb in sorted(
        {"double click", "right click", "left click", *vocabulary.ACTIONS.split()} - {"double", "right", "left"},
        key=len,
        reverse=True,
    )
)
CLAUSE_END = re.compile(
    rf"(?<=[.!?;])\s+|\s*[\n;]\s*|[,.]?\s+(?:and\s+then|then)\s+|,\s+(?=(?:{VERB})\b)|,?\s+and\s+(?=(?:{VERB})\b)|"
    rf",?\s+by\s+(?=(?:{DOING})\b)",
    re.I,
)
POINTER = (
    r"(?:the\s+|your\s+)?(?:left\s+|right\s+)?(?:mouse|cursor)(?:\s+(?:pointer|cursor|button))?(?:\s+specifically)?"
)
OPENING = re.compile(
    rf"^(?:please|now|next|first|finally|also|you\s+(?:should|need\s+to|can)|try\s+to|[,\s])*\b(?P<verb>{VERB}|{DOING})\b"
    rf"(?:\s+(?:once|twice))?(?:\s+{POINTER}\b)?(?:\s+(?:on|onto|over|at|to|into|for|up|down|off)\b)*\s*",
    re.I,
)
TYPING = frozenset({"type", "enter", "input", "write", "fill"})
STEPS = {"increase": "plus", "increment": "plus", "decrease": "minus", "decrement": "minus"}
FRAME_VERBS = {
    **dict.fromkeys(("close", "dismiss"), "close"),
    **dict.fromkeys(("maximise", "maximize", "restore"), "maximise"),
    **dict.fromkeys(("minimise", "minimize"), "minimise"),
}
INTO = re.compile(r"\b(?:in|into|inside|to|on)\s+", re.I)
PURPOSE = re.compile(
    r",?\s*(?<!next)(?<!close)(?<!adjacent)(?<!beside)(?<!left)(?<!right)(?<!closest)(?<!nearest)\s"
    r"\b(?:in\s+order\s+to|so\s+as\s+to|so\s+that|to)\s+"
    r"(?!the\b|a\b|an\b|this\b|that\b|your\b|its\b|left\b|right\b|[^a-z])[a-z-]+\b.*$",
    re.S,
)
SIDE = r"(?:(?:on|to|at|in|from)\s+)?(?:the\s+)?(?:immediate\s+|immediately\s+|directly\s+|just\s+|far\s+)*"
MARKERS: tuple[tuple[str, str], ...] = (
    (
        "corner",
        rf"{SIDE}(?:top|upper|bottom|lower|right|left)(?:(?:most)?[-\s](?:left|right))?"
        r"(?:\s+(?:corner|edge|end|part))?\s+(?:corner|edge|end|part)\s+of",
    ),
    ("corner", rf"{SIDE}(?:top|upper|bottom|lower)[-\s](?:left|right|center|centre|middle)(?:\s+side)?\s+of"),
    ("left_of", rf"{SIDE}left(?:[-\s]hand)?(?:\s+side)?\s+(?:of|to|from)|\bpreceding\b|\bin\s+front\s+of\b"),
    ("right_of", rf"{SIDE}right(?:[-\s]hand)?(?:\s+side)?\s+(?:of|to|from)|\bfollowing\b"),
    ("above", r"(?:(?:immediately|directly|just|right)\s+)?(?:above|on\s+top\s+of)"),
    ("below", r"(?:(?:immediately|directly|just|right|located)\s+)?(?:below|underneath|beneath|under)"),
    ("beside", r"(?:(?:immediately|directly|just|right)\s+)?(?:next\s+to|beside|besides|adjacent\s+to|close\s+to|near|"
               r"alongside|by\s+the\s+side\s+of|followed\s+by)"),
    ("between", r"(?:in\s+)?between"),
    ("for", r"for|corresponding\s+to|associated\s+with"),
    ("label", r"(?:which\s+is\s+|that\s+is\s+|is\s+)?(?:labell?ed(?:\s+(?:as|with))?|named|called|titled|marked|"
              r"reading|saying|containing|(?:that|which)\s+(?:says|reads|contains|displays|shows)|displaying|"
              r"with\s+(?:the\s+)?(?:text|label|words?|title|name|caption|characters?))"
              r"(?:\s+the\s+(?:text|words?|characters?|letters?|label))?"),
    ("located", r"(?:(?:and|which|that)\s+)?(?:the\s+\w+\s+)?(?:is|are)\s+(?:located|found|situated|placed|"
                r"positioned)|(?:located|situated|positioned|placed)"),
    ("with", r"with|having|(?:that|which)\s+(?:has|have|is|are|looks?|appears?|displays?|shows?)|that|which|"
             r"whose|where|showing|featuring|represented\s+by|depicting"),
    ("inside", r"in|inside|within|from|of|on|at|among|under\s+the\s+heading"),
)  # fmt: skip
MARKER = re.compile("|".join(f"(?P<m{i}>\\b(?:{pattern})\\b)" for i, (_, pattern) in enumerate(MARKERS)), re.I)
ACROSS = {"left": 0.0, "right": 1.0, "leftmost": 0.0, "rightmost": 1.0}
DOWN = {"top": 0.0, "upper": 0.0, "bottom": 1.0, "lower": 1.0, "topmost": 0.0}
MIDDLE = frozenset({"center", "centre", "middle", "central"})
WORD = re.compile(r"[^\W_]+(?:['’.\-/&][^\W_]+)*|[^\s\w]")
NAMED_RUN = re.compile(
    r"(?:[A-Z][\w'’.\-]*|[A-Z]?\d+(?:\.\d+)*)(?:\s+(?:&|of|and|to|for|the|as|in|[A-Z0-9][\w'’.\-]*))*"
)


class Segment(NamedTuple):
    """A stretch of an object: the marker that leads to it, and what it says."""

    marker: str
    lead: str
    text: str


def segments_of(text: str) -> Iterator[Segment]:
    """The stretches of an object between its markers."""
    marker, lead, start = "", "", 0
    for match in MARKER.finditer(text):
        yield Segment(marker, lead, text[start : match.start()])
        marker, lead, start = MARKERS[int(str(match.lastgroup)[1:])][0], match.group(), match.end()
    yield Segment(marker, lead, text[start:])
