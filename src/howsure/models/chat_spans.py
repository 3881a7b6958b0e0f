"""A conversation as a chat template writes it: literal frames, and the messages' contents between them.

The template is applied once, to messages that each hold a name of ours in place of their content. Where the names come
out is where the contents belong, so the borders are exact whatever the contents hold, and a template that looks into
contents (to drop old reasoning, or to escape them) finds nothing to do. Where it strips white space, so do we.

Templates refuse what they were not made for: a role, or two messages of one role in a row. Messages are then given
another way, the first of these that is taken with every content in it:

    as_given       every message under its own role
    other_as_user  roles other than system, user and assistant, such as tool, as user
    joined         and neighbours of one role as one message, an empty line between their contents
    system_as_user and system as user too, joined with what is next to it

Nothing is invented: a template that wants a user's message before the first of the assistant's refuses a conversation
that has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from howsure.errors import InputError
from howsure.models.contract import Failure, Message

Template = Callable[[Sequence[Message]], str]
"""The text of a conversation; raises `InputError` where it is refused."""

JOINT = "\n\n"
_EDGE = "\u2003"
"""White space that no template writes itself; where it is gone, the template strips."""

KNOWN_ROLES = frozenset({"system", "user", "assistant"})
_ROLE = re.compile(r"[\w-]{1,40}")
"""Roles are written into frames as they are, so one that is no plain word could forge a frame."""


class Content(NamedTuple):
    """The content of a message, and where the message stands in the conversation."""

    message: int
    text: str


class ChatSpans(NamedTuple):
    """A conversation as text: a frame, a content, a frame, …, a frame. Empty contents are part of their frame."""

    frames: tuple[str, ...]
    contents: tuple[Content, ...]
    rendering: str

    @property
    def parts(self) -> list[str]:
        """Frames and contents in turn; frames at even places."""
        inner = ((content.text, after) for content, after in zip(self.contents, self.frames[1:], strict=True))
        return [self.frames[0], *(part for pair in inner for part in pair)]

    @property
    def text(self) -> str:
        return "".join(self.parts)


class _Turn(NamedTuple):
    """What goes to the template as one message: the places of the messages in it."""

    role: str
    places: tuple[int, ...]


def render_chat(messages: Sequence[Message], template: Template) -> ChatSpans | Failure:
    """The conversation in the first way that the template takes, or why it takes none.

    >>> render_chat([Message("user", "hello")], lambda given: f"<{given[0].role}>{given[0].content}</>").frames
    ('<user>', '</>')
    """
    strange = next((i for i, message in enumerate(messages) if not _ROLE.fullmatch(message.role)), None)
    if strange is not None:
        return Failure(
            "strange_role", f"message {strange} has the role {messages[strange].role[:40]!r}, which is no word"
        )
    name = unused_word("".join(message.content for message in messages))
    refusals: list[str] = []
    for rendering, turns in _ways(messages).items():
        try:
            return _rendered(messages, turns, template, name, rendering)
        except InputError as error:
            refusals.append(" ".join(str(error).split()))
    return Failure("refused_by_template", refusals[0] + _other_ways(messages, len(refusals)))


def _other_ways(messages: Sequence[Message], tried: int) -> str:
    """What a refusal has to be read with."""
    others = "; nor does it take them with roles renamed and neighbours of one role joined" if tried > 1 else ""
    first = next((message.role for message in messages if message.role != "system"), None)
    return others + ("; they begin with the assistant's, before which none is invented" if first == "assistant" else "")


def unused_word(text: str) -> str:
    """A word that does not stand in a text; it ends in a letter, so that a number after it stays apart."""
    number = 0
    while (word := f"howsure{number}x") in text:
        number += 1
    return word


def _ways(messages: Sequence[Message]) -> dict[str, list[_Turn]]:
    """The ways to give the messages to a template; the same messages under two names would be refused twice."""
    own = [message.role for message in messages]
    known = [role if role in KNOWN_ROLES else "user" for role in own]
    ways = {
        "as_given": _apart(own),
        "other_as_user": _apart(known),
        "joined": _joined(known),
        "system_as_user": _joined(["user" if role == "system" else role for role in known]),
    }
    return {way: turns for i, (way, turns) in enumerate(ways.items()) if turns not in list(ways.values())[:i]}


def _apart(roles: Sequence[str]) -> list[_Turn]:
    return [_Turn(role, (place,)) for place, role in enumerate(roles)]


def _joined(roles: Sequence[str]) -> list[_Turn]:
    groups = groupby(range(len(roles)), key=roles.__getitem__)
    return [_Turn(role, tuple(places)) for role, places in groups]


def _rendered(
    messages: Sequence[Message], turns: Sequence[_Turn], template: Template, name: str, rendering: str
) -> ChatSpans:
    """Apply the template to names, and put the contents in their place."""
    named = {i: f"{_EDGE}{name}{i}x{_EDGE}" for i, message in enumerate(messages) if message.content}
    renamed = [Message(turn.role, JOINT.join(named[i] for i in turn.places if i in named)) for turn in turns]
    parts = re.split(f"({_EDGE}?){name}([0-9]+)x({_EDGE}?)", template(renamed))
    places = [int(place) for place in parts[2::4]]
    if sorted(places) != list(named):
        if not named:
            raise InputError("the chat template invents a content, and no message has any")
        lost = next((i for i in named if places.count(i) != 1), min(named))
        fate = "leaves out" if lost not in places else "repeats"
        raise InputError(f"the chat template {fate} message {lost}, which is of role {messages[lost].role!r}")
    edges = zip(places, parts[1::4], parts[3::4], strict=True)
    contents = (Content(i, _stripped(messages[i].content, left, right)) for i, left, right in edges)
    return ChatSpans(tuple(parts[::4]), tuple(contents), rendering)


def _stripped(content: str, left: str, right: str) -> str:
    content = content if left else content.lstrip()
    return content if right else content.rstrip()
