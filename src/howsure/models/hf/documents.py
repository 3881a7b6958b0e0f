"""Documents of any length: their tokens, without all of them in memory, read in windows that overlap.

The tokens are those of the whole text tokenised at once. Where the tokenizer is of a kind that allows it
(`text.can_be_cut`), the text is cut into parts that are tokenised one by one. Other tokenizers may join anything with
anything, so that their text is collected to its end first and held in memory; so is a stretch that has no place to cut.

A window holds W tokens. The first gives the probabilities of all tokens in it but the one that begins the document;
each one after it those of its last S:

    window 1   └ W tokens ────┘ all of them new
    window 2            └ W tokens ────┘ the last S new
    window 3                     └ W tokens ────┘ the last S new

So each token is scored once, after at least W − S others where the document has them, and the last token of a window is
predicted without being run. These are the windows of the usual sliding-window loop; where S = W, which would leave the
first token of a window without any context, the token before it is seen too. What a tokenizer itself puts before a text
stands before every window, since such models are lost without it; a start token that only serves to predict the first
token stands before the document alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from howsure.errors import InputError
from howsure.measures.checks import check_logprobs
from howsure.models.contract import Passage, Rolling, Stretch
from howsure.models.text import Encoded, Ints, TextEncoder, is_space, last_cut, shares, utf8

PART_CHARS = 2**18
"""A part of a text is cut off as soon as so many characters are there: large enough that a tokenizer is not called
often, small enough that its tokens need a few megabytes."""

MOST_BY_DEFAULT = 8192
"""Some models take far more, at a cost that nobody should meet without having asked for it."""

UNKNOWN_CONTEXT_WINDOW = 1024
"""The window for a model whose configuration does not tell its context; all common ones take that much."""

PASSAGE_TOKENS = 8192
"""A passage holds at least so many new tokens, or a document's rest."""


class Tokens(NamedTuple):
    """Some tokens of a text, with the bytes of it that each accounts for and the words that begin in each."""

    ids: Ints
    byte_counts: Ints
    word_starts: Ints


def tokens_of(encoder: TextEncoder, chunks: Iterable[str]) -> Iterator[Tokens]:
    """The tokens of a text that comes in pieces of any size, a part of it at a time.

    What the tokenizer puts around a text is left out (`TextEncoder.lead` has what it puts before it). All bytes of the
    text are accounted for once.
    """
    after_space, unread = True, ""
    for part in parts(chunks, encoder.cuts):
        text = unread + part
        pieces = encoder.pieces([text], framed=True)[0]
        unread = "" if pieces.ids else text  # nothing that the vocabulary can spell: it goes with what follows
        if pieces.ids:
            spelled = utf8(text)
            yield Tokens(np.array(pieces.ids, dtype=np.int64), *shares(spelled, pieces.ends, after_space=after_space))
            after_space = bool(is_space(spelled[-1:])[0])


def parts(chunks: Iterable[str], cuts: bool) -> Iterator[str]:
    """The text in parts that can be tokenised one by one; where they end depends on the text, not on its pieces."""
    held: list[str] = []
    size, enough = 0, PART_CHARS
    for piece in (chunk[at : at + PART_CHARS] for chunk in chunks for at in range(0, len(chunk), PART_CHARS)):
        held.append(piece)
        size += len(piece)
        while cuts and size >= enough:
            text = "".join(held)
            cut = last_cut(text[:enough])
            if cut:
                yield text[:cut]
            held, size = [text[cut:]], len(text) - cut
            enough = PART_CHARS if cut else 2 * enough
    if size:
        yield "".join(held)


# -- windows -----------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """What stands before a document.

    lead       tokens that stand before every window
    start      tokens that stand before the first only, where there is no lead
    prefix_lm  whether a context is read both ways, so that a text is causal only where it is no context
    """

    lead: tuple[int, ...]
    start: tuple[int, ...] = ()
    prefix_lm: bool = False


class Window(NamedTuple):
    """Places in a sequence of tokens: [begin, first) is context, [first, end) gets probabilities."""

    begin: int
    first: int
    end: int

    @property
    def new(self) -> int:
        return self.end - self.first


class Windows(NamedTuple):
    """A passage: its tokens with the context of the first window, the windows in it, columns for the new tokens."""

    frame: Frame
    ids: Ints
    windows: tuple[Window, ...]
    byte_counts: Ints
    word_starts: Ints

    def tokens_run(self, window: Window) -> int:
        return len(self.frame.lead) + window.end - 1 - window.begin

    def encoded(self, window: Window) -> Encoded:
        """The window as an item to be scored; a prefix-LM scores its context too, to read it as the text it is."""
        context, new = self.ids[window.begin : window.first].tolist(), self.ids[window.first : window.end].tolist()
        if self.frame.prefix_lm:
            context, new = [], context + new
        return Encoded((*self.frame.lead, *context), (tuple(new),), (None,), 0)


def decide(wanted: Rolling, context_tokens: int | None, frame: Frame) -> Rolling:
    """Window and stride; a sentence where they do not go together or do not fit the model."""
    lead = len(frame.lead)
    most = min(context_tokens or UNKNOWN_CONTEXT_WINDOW, MOST_BY_DEFAULT)
    window = wanted.window if wanted.window is not None else most
    least = max(2, lead + 1)
    if window < least:
        raise InputError(f"the window must be at least {least} tokens, not {window}: a token and what it follows")
    if context_tokens is not None and window > context_tokens:
        raise InputError(
            f"a window of {window} tokens does not fit the model's context of {context_tokens}; take a smaller one"
        )
    room = window - lead
    stride = wanted.stride if wanted.stride is not None else min(max(window // 2, 1), room)
    if not 1 <= stride <= room:
        raise InputError(f"the stride must be 1 to {room} tokens for a window of {window}, not {stride}")
    return Rolling(window, stride)


def passages(tokens: Iterable[Tokens], frame: Frame, rolling: Rolling) -> Iterator[Passage]:
    """A document's windows, some at a time; tokens that no window will see again are dropped."""
    start = np.array(frame.start, dtype=np.int64)
    ahead = _Ahead(chain([Tokens(start, np.zeros_like(start), np.zeros_like(start))], tokens))
    to_come = windows(frame, rolling)
    while True:
        group = [next(to_come)]
        while group[-1].end - group[0].first < PASSAGE_TOKENS:
            group.append(next(to_come))
        length = ahead.reach(group[-1].end)
        here = [w._replace(end=min(w.end, length)) for w in group if w.first < length]
        if not here:
            return
        base, first, end = here[0].begin, here[0].first, here[-1].end
        _, byte_counts, word_starts = ahead.between(first, end)
        moved = tuple(Window(*(place - base for place in window)) for window in here)
        content = Windows(frame, ahead.between(base, end).ids, moved, byte_counts, word_starts)
        yield Passage(end - first, sum(map(content.tokens_run, moved)), content)
        ahead.drop(here[-1].begin)


def windows(frame: Frame, rolling: Rolling) -> Iterator[Window]:
    """The windows over an endless document, whose first tokens are those of `frame.start`."""
    assert rolling.window is not None
    assert rolling.stride is not None
    end = room = rolling.window - len(frame.lead)
    yield Window(0, len(frame.start), end)
    while True:
        begin = end + rolling.stride - room
        yield Window(begin if frame.lead else min(begin, end - 1), end, end + rolling.stride)
        end += rolling.stride


class _Ahead:
    """The tokens of a document from some place on, as far as they have been asked for."""

    def __init__(self, blocks: Iterator[Tokens]) -> None:
        self._blocks = blocks
        self._begin = 0
        self._columns = np.empty((len(Tokens._fields), 0), dtype=np.int64)

    def reach(self, end: int) -> int:
        """Have the tokens up to a place ready; the place up to which there are any."""
        columns = [self._columns]
        length = self._begin + self._columns.shape[1]
        while length < end and (block := next(self._blocks, None)) is not None:
            columns.append(np.stack(block))
            length += len(block.ids)
        self._columns = np.concatenate(columns, axis=1)
        return min(length, end)

    def drop(self, before: int) -> None:
        self._columns, self._begin = self._columns[:, before - self._begin :], before

    def between(self, begin: int, end: int) -> Tokens:
        return Tokens(*self._columns[:, begin - self._begin : end - self._begin].copy())


def stretch(content: Windows, read: Sequence[Any]) -> Stretch:
    """The windows of a passage put together again; raises `EvidenceError` where what was read is no probability."""
    new = [out.logprobs[-window.new :] for window, out in zip(content.windows, read, strict=True)]
    return Stretch(check_logprobs(np.concatenate(new)), content.byte_counts, content.word_starts)
