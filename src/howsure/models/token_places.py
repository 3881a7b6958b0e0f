"""Where tokens lie in a text, found by how they are spelled: those of a prompt that was sent, those of an answer.

Servers spell the tokens of a prompt in several ways: as text, with U+FFFD for the pieces of a broken character; as
text, where the last piece of a character stands for all of it and the others are empty; as OpenAI once did for such
pieces, `bytes:\\xe2\\x80`; as the vocabulary writes them (`Ġthe`, `▁the`); or without the space before a word. A
spelling counts if the tokens, one after the other, give the whole text and nothing else. Where a token may then end in
more than one place, all of these are kept, so that nobody takes one of them for the truth. The offsets that come with
some answers are not used: one server counts replacement characters, another writes −1.

The bytes of an answer's tokens, one after the other, are its text: that is the rule, and then every place is certain.
Servers depart from it. They strip white space from the text, show the token that ended it, keep a stretch of reasoning
to themselves, or give texts instead of bytes, with U+FFFD for half a character. Such an answer is laid along its tokens
where there is one way to do it, and is not located where there is none or more than one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from howsure.evidence import TokenLogprobs
from howsure.models.text import spell_byte_level, spell_sentencepiece

MAX_PLACES = 64
"""In how many places a token may begin before its text is given up as not to be found."""

MAX_BROKEN = 16
"""How many pieces of broken characters one token may hold."""

_LEADING = re.compile(r"<.*>|\[.*\]|", re.S)
"""What a token looks like that a tokenizer puts before a text: `<s>`, `<|begin_of_text|>`, `[CLS]`, or nothing."""

_BYTES_FORM = re.compile(r"bytes:((?:\\x[0-9A-Fa-f]{2})+)")
_REPLACEMENT = "\ufffd"
_CONTINUES = range(0x80, 0xC0)

Spell = Callable[[str], bytes | None]

_ENDING = re.compile(r"<[^<>]*>|\[[A-Z]+\]|")
"""A token that ends an answer and is no part of it: `<|im_end|>`, `</s>`, `[EOS]`, or nothing."""

_MARK = re.compile(r"(?:<[^<>]*>|\[[^\[\]]*\]|◁[^◁▷]*▷|```\w*)\Z")
"""What reasoning ends in, in one token or several (`</think>`, `<|message|>`, `[/THINK]`, `◁/think▷`); or a fence."""

MAX_MARK_CHARS = 64
MAX_ENDING = 4
"""How many tokens behind an answer may say no more than that it ends."""


class Spelling(NamedTuple):
    """One way in which servers spell tokens."""

    starts: Callable[[bytes, str, int, bool], Iterable[int]]
    """Where a token may begin that ends at a given place of the text; the last argument says whether the token before
    it may hide a piece of a character."""
    spell: Spell | None = None
    """How a token is spelled that is written as the vocabulary writes it."""
    nothing: str | None = None
    """The token that stands for the space that SentencePiece puts before a text, and so for nothing of it."""


class Aligned(NamedTuple):
    """The earliest and the latest end of each token, in bytes of the text; `leading` tokens stand before it."""

    ends: tuple[tuple[int, int], ...]
    leading: int
    spell: Spell | None = None

    def within(self, boundary: int) -> int | None:
        """How many tokens end at or before a place, or None where that cannot be told.

        Before the text, these are only the tokens that the server put there.
        """
        if boundary == 0:
            return self.leading
        count = sum(latest <= boundary for _, latest in self.ends)
        straddles = count < len(self.ends) and self.ends[count][0] <= boundary
        return None if straddles else count

    def settles(self, boundary: int) -> bool:
        """Whether the boundary is certain, and what each token behind the first spells."""
        return self.within(boundary) is not None and all(earliest == latest for earliest, latest in self.ends[1:])

    def token_bytes(self, text: bytes) -> tuple[bytes | None, ...]:
        """What each token spells, where that is known."""
        places = pairwise(((0, 0), *self.ends))
        return tuple(text[a:b] if a == most_a and b == most_b else None for (a, most_a), (b, most_b) in places)


def align(text: bytes, tokens: Sequence[str | None], leading: int | None = None) -> Aligned | None:
    """Lay the tokens along the text; None where they do not fit it in any of the spellings.

    `leading` is the number of tokens that the server puts before every text; None where that is still to be found
    out. The first token may be unknown (None), as where it is the one that no log-probability is given for.

    >>> align("né!".encode(), ["<s>", "n", "é!"])[:2]
    (((0, 0), (1, 1), (4, 4)), 1)
    """
    if _hides_too_much(tokens, leading):
        return None
    for spelling in _SPELLINGS:
        ends = _ends(text, tokens, leading, spelling)
        if ends is not None:
            count = sum(end == (0, 0) for end in ends) if leading is None else leading
            return Aligned(_doubt_first(ends, tokens, leading), count, spelling.spell)
    return None


def _doubt_first(
    ends: tuple[tuple[int, int], ...], tokens: Sequence[str | None], leading: int | None
) -> tuple[tuple[int, int], ...]:
    """An unknown first token takes up whatever the second does not show, so its end is not certain by that."""
    return ((1, ends[0][1]), *ends[1:]) if leading == 0 and tokens[0] is None else ends


def _hides_too_much(tokens: Sequence[str | None], leading: int | None) -> bool:
    """Whether tokens of which nothing is shown may hide more than a piece of one character.

    A token that ends one character and begins the next shows as U+FFFD elsewhere; and a first token that is unknown
    would take up whatever they hide.
    """
    if "" not in tokens[max(leading or 0, 1) :]:
        return False
    broken = any(token is not None and _REPLACEMENT in token for token in tokens)
    return broken or (tokens[0] is None and leading == 0)


def _ends(
    text: bytes, tokens: Sequence[str | None], leading: int | None, spelling: Spelling
) -> tuple[tuple[int, int], ...] | None:
    """Backwards for all the ways to lay the tokens, then forwards for those that begin where the text does."""
    ways: list[dict[int, set[int]]] = []
    places = {len(text)}
    for number in reversed(range(len(tokens))):
        way = {end: set(_starts(text, tokens, number, end, leading, spelling)) for end in places}
        places = set().union(*way.values())
        if not 0 < len(places) <= MAX_PLACES:
            return None
        ways.append(way)
    if 0 not in places:
        return None
    reached, out = {0}, []
    for way in reversed(ways):
        reached = {end for end, begins in way.items() if begins & reached}
        out.append((min(reached), max(reached)))
    return tuple(out)


def _starts(
    text: bytes, tokens: Sequence[str | None], number: int, end: int, leading: int | None, spelling: Spelling
) -> Iterable[int]:
    token = tokens[number]
    before_the_text = _LEADING.fullmatch(token or "") if leading is None else number < leading
    if end == 0:
        return [0] if before_the_text or (token is not None and token == spelling.nothing) else []
    if leading is not None and number < leading:
        return []
    if token is None:
        return [0]
    before = tokens[number - 1] if number else "<s>"
    return spelling.starts(text, token, end, before == "" or (before is None and leading == 0))


def _as_text(text: bytes, token: str, end: int, after_hidden: bool) -> Iterable[int]:
    form = _BYTES_FORM.fullmatch(token)
    if form:
        return _literal(text, bytes.fromhex(form[1].replace("\\x", "")), end)
    if not token:
        return _within_character(text, end)
    if _REPLACEMENT in token:
        return _broken(text, token, end)
    shown = _literal(text, token.encode(), end)
    return [a + i for a in shown for i in range(len(token[0].encode()))] if after_hidden else shown


def _as_text_without_space(text: bytes, token: str, end: int, _: bool) -> Iterable[int]:
    if not token:  # a space or a piece of a character, and nothing tells which
        return []
    return {*_as_text(text, token, end, False), *_as_text(text, f" {token}", end, False)}


def _as_written(spell: Spell) -> Callable[[bytes, str, int, bool], Iterable[int]]:
    def starts(text: bytes, token: str, end: int, _: bool) -> Iterable[int]:
        spelled = spell(token)
        if not spelled:
            return []
        begins_text = spelled[:1] == b" " and end == len(spelled) - 1 and text[:end] == spelled[1:]
        return [0] if begins_text else _literal(text, spelled, end)

    return starts


def _literal(text: bytes, spelled: bytes, end: int) -> list[int]:
    start = end - len(spelled)
    return [start] if start >= 0 and text[start:end] == spelled else []


def _broken(text: bytes, token: str, end: int) -> Iterable[int]:
    count = token.count(_REPLACEMENT)
    if count > MAX_BROKEN:
        return []
    most = len(token.encode())  # a replacement character takes three bytes, and stands for one to three
    places = range(max(end - most, 0), end - most + 2 * count + 1)
    return [start for start in places if text[start:end].decode(errors="replace") == token]


def _within_character(text: bytes, end: int) -> Iterable[int]:
    """A token of which nothing is shown ends inside a character, and begins there too, or where that begins."""
    if end == len(text) or text[end] not in _CONTINUES:
        return []
    first = next(a for a in range(end - 1, -1, -1) if text[a] not in _CONTINUES)
    return range(first, end)


_SPELLINGS = (
    Spelling(_as_text),
    Spelling(_as_written(spell_byte_level), spell_byte_level),
    Spelling(_as_written(spell_sentencepiece), spell_sentencepiece, "▁"),
    Spelling(_as_text_without_space),
)


# -- the tokens of an answer ------------------------------------------------------------------------------------------


class TokenPlaces(NamedTuple):
    """The bytes `start:end` of the text that each token takes up, None where that is not certain.

    A token that is no part of the text lies before its beginning or behind its end. `spell` is set where tokens are
    written as the vocabulary writes them, and gives their bytes.
    """

    spans: tuple[tuple[int, int] | None, ...]
    spell: Callable[[str], bytes | None] | None = None

    def overlapping(self, start: int, end: int) -> list[int] | None:
        """The tokens that hold a byte of `start:end`; None unless these are certain and hold all of it."""
        held = {i: s for i, s in enumerate(self.spans) if s is not None and max(s[0], start) < min(s[1], end)}
        spans = list(held.values())
        gapless = all(before[1] == after[0] for before, after in pairwise(spans))
        covered = bool(spans) and spans[0][0] <= start and spans[-1][1] >= end
        return list(held) if covered and gapless else None


def utf8(text: str) -> bytes:
    """The bytes of any text, half characters included, so that nothing that a model writes is refused."""
    return text.encode("utf-8", "surrogatepass")


def lay_tokens(text: str, evidence: TokenLogprobs) -> TokenPlaces | None:
    """The places of an answer's tokens in its text; None where they do not spell it."""
    return _by_bytes(utf8(text), _pieces(evidence)) or _by_spelling(text, evidence)


def spells(text: str, evidence: TokenLogprobs) -> bool:
    """Whether these can be the tokens of this text; where they cannot, they are some other text's.

    White space around the text, a fence around its JSON, tokens that end an answer, half a character at its end, and
    reasoning that ends in a mark (`</think>`, `<|message|>`) may be missing from the text.
    """
    pieces = _pieces(evidence)
    joined, core = b"".join(pieces), _comparable(text)
    for piece in [b"", *pieces[: -MAX_ENDING - 1 : -1]]:
        if not _ENDING.fullmatch(piece.decode(errors="replace")):
            break
        joined = joined[: len(joined) - len(piece)]
        spelled = _comparable(joined.decode(errors="replace"))
        for whole in (spelled, spelled.removesuffix("```").rstrip()):
            before = whole[: len(whole) - len(core)].rstrip()
            if whole.endswith(core) and (not before or _MARK.search(before[-MAX_MARK_CHARS:])):
                return True
    return _by_spelling(text, evidence) is not None


def _comparable(text: str) -> str:
    """A text without white space around it; how many U+FFFD stand for broken characters differs between servers."""
    return re.sub("\ufffd+", "\ufffd", text).strip(f"\ufffd{string.whitespace}").strip()


def _tokens(evidence: TokenLogprobs) -> list[tuple[str, bytes | None]]:
    known = evidence.token_bytes or (None,) * len(evidence)
    return list(zip(evidence.tokens, known, strict=True))


def _pieces(evidence: TokenLogprobs) -> list[bytes]:
    return [utf8(token) if known is None else known for token, known in _tokens(evidence)]


def _by_bytes(text: bytes, pieces: list[bytes]) -> TokenPlaces | None:
    """The text within the joined tokens, where it stands there once."""
    joined = b"".join(pieces)
    core = text.strip()
    at = 0 if joined == text else joined.find(core)
    if at < 0 or not core or (joined != text and joined.find(core, at + 1) >= 0):
        return None
    shift = 0 if joined == text else text.find(core) - at
    ends = accumulate((len(piece) for piece in pieces), initial=shift)
    return TokenPlaces(tuple(pairwise(ends)))


def _by_spelling(text: str, evidence: TokenLogprobs) -> TokenPlaces | None:
    """For tokens of which only texts are known: as the alignment of servers' tokens reads them."""
    shown = [token if known is None else _shown(known) for token, known in _tokens(evidence)]
    core = text.strip()
    last = len(shown)
    while last and _ENDING.fullmatch(shown[last - 1]) and not (shown[last - 1] and core.endswith(shown[last - 1])):
        last -= 1
    joined = "".join(shown[:last])
    lead, trail = joined[: len(joined) - len(joined.lstrip())], joined[len(joined.rstrip()) :]
    try:
        target = f"{lead}{core}{trail}".encode()
        joined.encode()
    except UnicodeEncodeError:
        return None
    aligned = align(target, shown[:last]) if core and last else None
    if aligned is None:
        return None
    shift = len(utf8(text[: text.find(core)])) - len(lead.encode())
    behind = [(len(target) + shift,) * 2] * (len(shown) - last)
    return TokenPlaces((*_certain(aligned, shift), *behind), aligned.spell)


def _shown(known: bytes) -> str:
    """A text that the alignment reads as these bytes."""
    try:
        return known.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in known)


def _certain(aligned: Aligned, shift: int) -> list[tuple[int, int] | None]:
    """What lies between two ends that are certain."""
    return [
        (start + shift, end + shift) if start == at_most and end == end_at_most else None
        for (start, at_most), (end, end_at_most) in pairwise(((0, 0), *aligned.ends))
    ]
