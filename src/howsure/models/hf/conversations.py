"""Whole conversations, each read once: which tokens are a message's content, and what is run to read them.

The chat template is applied once, to messages that each hold a name of ours in place of their content. Where the names
come out is where the contents belong, so the borders are exact whatever the contents hold, and a template that looks
into contents (to drop old reasoning, or to escape them) finds nothing to do. Where it strips white space, so do we.
Templates refuse what they were not made for: a role, or two messages of one role in a row. Messages are then given
another way (`_ways`), the first that is taken with every content in it.

The text of a conversation is tokenised as a whole, as the model would see it, except that no content can spell a
special token (`SpecialTokens`). Its tokens are read like a document that its own first token begins, in one pass where
it fits the window, else in windows that overlap (`hf.documents`); what follows the last content is not run.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.models.contract import ConversationCost, Failure, Message, Passage, Rolling
from howsure.models.hf import documents
from howsure.models.hf.documents import Tokens
from howsure.models.text import Pieces, TextEncoder, utf8

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
    why = refusals[0]
    if len(refusals) > 1:
        why += "; nor does it take them with roles renamed and neighbours of one role joined"
    if next((message.role for message in messages if message.role != "system"), None) == "assistant":
        why += "; they begin with the assistant's, before which none is invented"
    return Failure("refused_by_template", why)


def unused_word(text: str) -> str:
    """A word that does not stand in a text; it ends in a letter, so that a number after it stays apart."""
    number = 0
    while (word := f"howsure{number}x") in text:
        number += 1
    return word


def _ways(messages: Sequence[Message]) -> dict[str, list[_Turn]]:
    """The ways to give the messages to a template, the first one first.

    as_given       every message under its own role
    other_as_user  roles other than system, user and assistant, such as tool, as user
    joined         and neighbours of one role as one message, an empty line between their contents
    system_as_user and system as user too, joined with what is next to it

    Nothing is invented: a template that wants a user's message before the first of the assistant's refuses a
    conversation that has none. The same messages under two names would be refused twice.
    """
    own = [message.role for message in messages]
    known = [role if role in KNOWN_ROLES else "user" for role in own]
    ways = {
        "as_given": [_Turn(role, (place,)) for place, role in enumerate(own)],
        "other_as_user": [_Turn(role, (place,)) for place, role in enumerate(known)],
        "joined": _joined(known),
        "system_as_user": _joined(["user" if role == "system" else role for role in known]),
    }
    return {way: turns for i, (way, turns) in enumerate(ways.items()) if turns not in list(ways.values())[:i]}


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


# -- special tokens ---------------------------------------------------------------------------------------------------


class SpecialTokens:
    """The special tokens of one tokenizer, which only a chat template may write.

    Contents come from logs and may spell anything, `<|im_end|>` too. Read as text of the whole conversation, that would
    close a turn. So where a content spells a special token, the conversation is tokenised by a copy of the tokenizer in
    which these tokens have other names, names that stand in no content, and the frames are written with these.
    Everything else is as in the tokenizer itself: what a content spells is plain text, and those of the frames are the
    tokens that they were.

    Besides the tokenizer's special tokens, other added tokens that the frames of the conversation hold count as special
    (some families do not declare their turn markers so); white space never does.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        added = [token for token in encoder.tokenizer.added_tokens_decoder.values() if token.content.strip()]
        self._special = frozenset(token.content for token in added if token.special)
        self._added = _pattern(token.content for token in added)
        self._copies: dict[tuple[str, frozenset[str]], TextEncoder] = {}

    def protect(self, chat: ChatSpans) -> tuple[ChatSpans, TextEncoder]:
        """A conversation ready to be tokenised, and what tokenises it.

        Both are as they were, unless a special token would be read where the template did not write it.
        """
        special = self._special.union(*(self._added.findall(frame) for frame in chat.frames))
        pattern = _pattern(special)
        if not _is_forged(chat, pattern):
            return chat, self._encoder
        word = unused_word(chat.text)
        names = {token: f"<|{word}{i}|>" for i, token in enumerate(sorted(special))}
        frames = tuple(pattern.sub(lambda match: names[match[0]], frame) for frame in chat.frames)
        if (word, special) not in self._copies:
            self._copies[word, special] = TextEncoder(_renamed(self._encoder.tokenizer, names))
        return chat._replace(frames=frames), self._copies[word, special]


def _pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Finds any of the names, the longest where several begin; nothing where there are none."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _is_forged(chat: ChatSpans, pattern: re.Pattern[str]) -> bool:
    """Whether a special token lies in a content, or across the border of one."""
    ends = list(accumulate(map(len, chat.parts)))
    for match in pattern.finditer(chat.text):
        part = bisect_right(ends, match.start())
        if part % 2 or match.end() > ends[part]:
            return True
    return False


def _renamed(tokenizer: Any, names: Mapping[str, str]) -> Any:
    """A copy of a tokenizer in which tokens have other names and the numbers that they had."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    for token in state["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    model = state["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(name, name): number for name, number in model["vocab"].items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    copy = Tokenizer.from_str(json.dumps(state))
    if any(copy.token_to_id(name) != tokenizer.convert_tokens_to_ids(token) for token, name in names.items()):
        raise InputError("a message spells a special token, and this tokenizer cannot be kept from taking it for one")
    return PreTrainedTokenizerFast(tokenizer_object=copy)


# -- tokens -----------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """The tokens [first, end) of a conversation that are a message's content.

    `prefix_chars` counts what the first of them holds of the frame before it.
    """

    first: int
    end: int
    prefix_chars: int


class Spelled(NamedTuple):
    """A conversation in tokens; messages without content have no span."""

    ids: tuple[int, ...]
    token_bytes: tuple[bytes, ...] | None
    spans: Mapping[int, Span]
    rendering: str

    @property
    def last(self) -> int:
        """Where the last content ends."""
        return max((span.end for span in self.spans.values()), default=0)


class Speller:
    """Conversations in the tokens of one model."""

    def __init__(self, encoder: TextEncoder, template: Template) -> None:
        self._encoder = encoder
        self._template = template
        self._special_tokens = SpecialTokens(encoder)

    def spell(self, messages: Sequence[Message]) -> Spelled | Failure:
        """A conversation in tokens, or the reason why the model cannot read it."""
        if not messages:
            return Spelled((), (), {}, "as_given")
        chat = render_chat(messages, self._template)
        if isinstance(chat, Failure):
            return chat
        try:
            protected, encoder = self._special_tokens.protect(chat)
            (pieces,) = encoder.pieces([protected.text], framed=True)
        except InputError as error:
            return Failure("unreadable_text", str(error))
        spelled = Spelled(pieces.ids, pieces.token_bytes, _spans(protected, pieces), chat.rendering)
        return self._begun(spelled) if any(span.first == 0 for span in spelled.spans.values()) else spelled

    def _begun(self, spelled: Spelled) -> Spelled | Failure:
        """A template that writes nothing before the first content leaves its first token without context."""
        start = self._encoder.start_token
        if start is None:
            return Failure("no_context", "nothing stands before the first message, so its first token has no context")
        known = None if spelled.token_bytes is None else (b"", *spelled.token_bytes)
        moved = {i: Span(span.first + 1, span.end + 1, span.prefix_chars) for i, span in spelled.spans.items()}
        return Spelled((start, *spelled.ids), known, moved, spelled.rendering)


def _spans(chat: ChatSpans, pieces: Pieces) -> dict[int, Span]:
    """The tokens of each content: those that end within it, and one that reaches across its end."""
    text = utf8(chat.text)
    borders = list(accumulate(len(utf8(part)) for part in chat.parts))
    ends = np.maximum.accumulate(np.array(pieces.ends, dtype=np.int64))
    starts = np.concatenate([[0], ends[:-1]])
    spans, taken = {}, 0
    for content, begin, close in zip(chat.contents, borders[::2], borders[1::2], strict=False):
        first = max(int(np.searchsorted(ends, begin, side="right")), taken)
        taken = int(np.searchsorted(ends, close, side="right"))
        if begin < close and taken < len(ends) and starts[taken] < close:
            taken += 1
        if first < taken:
            before = text[int(starts[first]) : begin].decode("utf-8", errors="ignore")
            spans[content.message] = Span(first, taken, len(before))
    return spans


def passages(spelled: Spelled, rolling: Rolling) -> list[Passage]:
    """The tokens from the second to the end of the last content; the first has no context, and is a frame's."""
    if not spelled.last:
        return []
    ids = np.array(spelled.ids[1 : spelled.last], dtype=np.int64)
    tokens = Tokens(ids, np.zeros_like(ids), np.zeros_like(ids))
    return list(documents.passages([tokens], documents.Frame((), spelled.ids[:1]), rolling))


def cost(spelled: Spelled, rolling: Rolling) -> ConversationCost:
    to_run = passages(spelled, rolling)
    return ConversationCost(
        tokens=len(spelled.ids),
        tokens_run=sum(passage.tokens_run for passage in to_run),
        windows=sum(len(passage.content.windows) for passage in to_run),
        rendering=spelled.rendering,
    )
