"""The JSON object inside a model's answer, with the place of every value in it, and the notes that it holds.

A model asked for JSON writes it in a fence, after a sentence, with a newline where none is needed, or stops in the
middle. The standard library reads every piece; what is done here is to find where the object begins, to keep where
each of its values stands, and to say what was wrong with one that cannot be read.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError
from json.decoder import scanstring as _scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

NO_JSON = "no_json"
"""There is no brace in the text."""
BAD_JSON = "bad_json"
"""There is one, and what follows is no JSON."""
TOO_DEEP = "too_deep"
"""Lists and objects inside each other beyond what can be read."""
INCOMPLETE = "json_incomplete"
"""The text ends before the object does."""

_SPACE = re.compile(r"[ \t\n\r]*")
_OPENING = re.compile(
    r"""\{[ \t\n\r]*+ (?: \Z | (?P<quote>") (?:[^"\\]++|\\.)*+ (?: \\?\Z | "[ \t\n\r]*+ (?:\Z|(?P<colon>:)) ) )""",
    re.VERBOSE | re.DOTALL,
)
"""A brace with a key and its colon behind it, or with as much of them as a text that was cut off still has."""
_EMPTY = re.compile(r"\{[ \t\n\r]*\}")
_FRAGMENT = re.compile(r"[\w.+\\-]*[ \t\n\r]*")
"""What may be left of a number, a word or an escape where a text was cut off."""
_HALVES = re.compile("[\ud800-\udfff]")


class Place(NamedTuple):
    """A value, the characters `start:end` of the text that it takes up, and the same for each entry of a list."""

    value: Any
    start: int
    end: int
    items: tuple[Place, ...] | None = None


class Member(NamedTuple):
    """A value with its key, whose quotes stand at `key_start` and before `key_end`."""

    place: Place
    key_start: int
    key_end: int


class JsonObject(NamedTuple):
    """The members of the first object, and the reason if it cannot be read to its end.

    Of an object that breaks off, `members` are those that were whole by then, and the whole entries of a list.
    """

    members: dict[str, Member]
    reason: str | None = None

    def value(self, key: str) -> Any:
        """The value of a key; None where it is absent."""
        member = self.members.get(key)
        return None if member is None else member.place.value


def first_object(text: str) -> JsonObject:
    r"""The first JSON object of a text: the first brace that is followed by a key with its colon.

    Newlines and other control characters inside a text are let pass, since models write them. Of a key that stands
    twice the last counts, as in Python's `json`. An empty object counts only where there is no other.

    >>> first_object('Sure:\n```json\n{"action": ["up"]}\n```').members["action"].place.items[0][1:3]
    (26, 30)
    """
    opening = _OPENING.search(text)
    if opening is not None:
        return _read(text, opening.start("quote")) if opening["colon"] else JsonObject({}, INCOMPLETE)
    if _EMPTY.search(text):
        return JsonObject({})
    return JsonObject({}, BAD_JSON if "{" in text else NO_JSON)


def read_text(text: str, start: int) -> tuple[str, int]:
    """The JSON text whose first character behind the quote stands at `start`, and the place behind its last quote."""
    said, end = _scanstring(text, start, False)
    return said, end


def printable(text: str) -> str:
    """The text without halves of characters, which an escape may hold and no file can."""
    return _HALVES.sub("\ufffd", text)


def _read(text: str, quote: int) -> JsonObject:
    members: dict[str, Member] = {}
    try:
        _members(text, quote, members)
    except JSONDecodeError as error:
        return JsonObject(members, INCOMPLETE if _is_cut(text, error) else BAD_JSON)
    except RecursionError:
        return JsonObject(members, TOO_DEEP)
    return JsonObject(members)


def _members(text: str, at: int, members: dict[str, Member]) -> None:
    """Key by key, from the first quote to the closing brace."""
    while True:
        if text[at : at + 1] != '"':
            raise JSONDecodeError("a key is expected", text, at)
        key, key_end = read_text(text, at + 1)
        colon = _skip(text, key_end)
        if text[colon : colon + 1] != ":":
            raise JSONDecodeError("a colon is expected", text, colon)
        members.pop(key, None)  # the last one counts, even if it is the one that breaks off
        place, broken = _value(text, _skip(text, colon + 1))
        if place is not None:
            members[key] = Member(place, at, key_end)
        if place is None or broken is not None:
            raise broken or JSONDecodeError("a value is expected", text, colon + 1)
        end = _skip(text, place.end)
        if text[end : end + 1] == "}":
            return
        at = _after_comma(text, end)


def _value(text: str, start: int) -> tuple[Place | None, JSONDecodeError | None]:
    """A value, and what was wrong with the rest of it where it is a list of which only some entries are whole."""
    if text[start : start + 1] == "[":
        return _list(text, start)
    try:
        return _plain(text, start), None
    except JSONDecodeError as error:
        return None, error


def _list(text: str, start: int) -> tuple[Place | None, JSONDecodeError | None]:
    items: list[Place] = []
    at = _skip(text, start + 1)
    broken: JSONDecodeError | None = None
    try:
        while items or text[at : at + 1] != "]":
            items.append(_plain(text, at))
            at = _skip(text, items[-1].end)
            if text[at : at + 1] == "]":
                break
            at = _after_comma(text, at)
    except JSONDecodeError as error:
        broken = error
        if not items:
            return None, error
    return Place([item.value for item in items], start, min(at + 1, len(text)), tuple(items)), broken


def _plain(text: str, start: int) -> Place:
    value, end = _DECODER.raw_decode(text, start)
    if isinstance(value, int | float) and _FRAGMENT.fullmatch(text, end):  # 0.6 may be the beginning of 0.65
        raise JSONDecodeError("the text ends with a number", text, end)
    return Place(value, start, end)


def _after_comma(text: str, at: int) -> int:
    if text[at : at + 1] != ",":
        raise JSONDecodeError("a comma is expected", text, at)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    gap = _SPACE.match(text, at)
    return at if gap is None else gap.end()


def _is_cut(text: str, error: JSONDecodeError) -> bool:
    """Whether the reading stopped because the text did."""
    return error.msg.startswith("Unterminated string") or _FRAGMENT.fullmatch(text, error.pos) is not None


def _whole(digits: str) -> int | float:
    """Python refuses to read an integer of thousands of digits; as a float it is infinite."""
    return int(digits) if len(digits) < 400 else float(digits)


_DECODER = json.JSONDecoder(strict=False, parse_int=_whole)


# -- notes: what a model writes beside its action ---------------------------------------------------------------------


MOST_CHARS = 400
"""How long one text of an answer may be where a server holds the model to a schema: a small model that is let write
on may never come to the end."""


class Notes(NamedTuple):
    """The texts of an answer; None where one is absent, empty, or of another kind."""

    reasoning: str | None = None
    grounding: str | None = None
    memory: str | None = None
    """As the model wrote it: a text, or the JSON of an object."""


def read_notes(obj: JsonObject, text: str) -> Notes:
    """The notes of an answer whose object was found in `text`."""
    return Notes(_said(obj.value("reasoning")), _said(obj.value("grounding")), _memory(obj, text))


def note_schemas() -> dict[str, Any]:
    """The notes as properties of a JSON Schema."""
    text = {"type": "string", "maxLength": MOST_CHARS}
    short = {"type": "string", "maxLength": MOST_CHARS // 4}
    process = {
        "type": "object",
        "properties": {"status": short},
        "required": ["status"],
        "additionalProperties": False,
    }
    memory = {
        "type": "object",
        "properties": {"task_process": process, "previous_action": short},
        "required": ["task_process", "previous_action"],
        "additionalProperties": False,
    }
    return {"reasoning": text, "grounding": text, "memory": memory}


def _said(value: Any) -> str | None:
    return printable(value).strip() or None if isinstance(value, str) else None


def _memory(obj: JsonObject, text: str) -> str | None:
    member = obj.members.get("memory")
    if member is None:
        return None
    place = member.place
    if isinstance(place.value, dict) and place.value:
        return printable(text[place.start : place.end])
    return _said(place.value)
