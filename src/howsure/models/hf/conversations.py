"""Whole conversations, each read once: which tokens are a message's content, and what is run to read them.

The text of a conversation is tokenised as a whole, as the model would see it (`models.chat_spans`,
`models.special_tokens`). Its tokens are read like a document that its own first token begins, in one pass where it fits
the window, else in windows that overlap (`models.hf.rolling`); what follows the last content is not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.models.chat_spans import ChatSpans, Template, render_chat
from howsure.models.contract import ConversationCost, Failure, Message, Passage, Rolling
from howsure.models.hf import rolling as documents
from howsure.models.special_tokens import SpecialTokens
from howsure.models.text_boundary import Pieces, TextEncoder, utf8
from howsure.models.token_stream import Tokens


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
            protected = self._special_tokens.protect(chat)
            (pieces,) = protected.encoder.pieces([protected.chat.text], framed=True)
        except InputError as error:
            return Failure("unreadable_text", str(error))
        spelled = Spelled(pieces.ids, pieces.token_bytes, _spans(protected.chat, pieces), chat.rendering)
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
