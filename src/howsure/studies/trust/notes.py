"""What a model writes beside its action, in both forms of answer: its reasoning, what it learned, what it keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

from howsure.studies.trust.json_places import JsonObject, printable

MOST_CHARS = 400
"""How long one text of an answer may be where a server holds the model to a schema: a small model that is let write
on may never come to the end."""


class Notes(NamedTuple):
    """The texts of an answer; None where one is absent, empty, or of another kind."""

    reasoning: str | None = None
    grounding: str | None = None
    memory: str | None = None
    """As the model wrote it: a text, or the JSON of an object."""


def read_notes(found: JsonObject, text: str) -> Notes:
    """The notes of an answer whose object was found in `text`."""
    return Notes(_said(found.value("reasoning")), _said(found.value("grounding")), _memory(found, text))


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


def _memory(found: JsonObject, text: str) -> str | None:
    member = found.members.get("memory")
    if member is None:
        return None
    place = member.place
    if isinstance(place.value, dict) and place.value:
        return printable(text[place.start : place.end])
    return _said(place.value)
