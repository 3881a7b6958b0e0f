"""The parts of an answer: what is thinking, what stands in fenced blocks, what in <answer> tags."""

from __future__ import annotations

import re
from typing import NamedTuple

from howsure.studies.grounding.answers.readings import Span

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
    found: list[Block] = []
    name: str | None = None
    inside = 0
    for mark in _MARK.finditer(text):
        if name is not None:
            found.append(Block(name, inside, mark.start(), True))
        name = mark[1].lower() if name is None or mark[1] else None
        inside = mark.end()
    if name is not None:
        found.append(Block(name, inside, len(text), False))
    return found


def answer_tags(text: str) -> list[Block]:
    """What stands within <answer> and </answer>; the last may lack its end."""
    found: list[Block] = []
    inside: int | None = None
    for mark in _ANSWER_TAG.finditer(text):
        if not mark[1]:
            inside = mark.end()
        elif inside is not None:
            found.append(Block("answer", inside, mark.start(), True))
            inside = None
    if inside is not None:
        found.append(Block("answer", inside, len(text), False))
    return found


def unquoted(text: str) -> str | None:
    """A name without the white space and the quotation marks around it; None where nothing is left."""
    bare = text.strip()
    if len(bare) >= 2 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        bare = bare[1:-1].strip()
    return bare or None
