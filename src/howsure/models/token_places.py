"""Where the tokens of an answer lie in its text, by their bytes, so that a part of the text finds its tokens.

The tokens' bytes, one after the other, are the text: that is the rule, and then every place is certain. Servers depart
from it. They strip white space from the text, show the token that ended it, keep a stretch of reasoning to themselves,
or give texts instead of bytes, with U+FFFD for half a character. Such an answer is laid along its tokens where there is
one way to do it, and is not located where there is none or more than one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import NamedTuple

from howsure.evidence import TokenLogprobs
from howsure.models.server_alignment import Aligned, align

_SPECIAL = re.compile(r"<[^<>]*>|\[[A-Z]+\]|")
"""A token that ends an answer and is no part of it: `<|im_end|>`, `</s>`, `[EOS]`, or nothing."""

_MARK = re.compile(r"(?:<[^<>]*>|\[[^\[\]]*\]|◁[^◁▷]*▷|```\w*)\Z")
"""What reasoning ends in, in one token or several (`</think>`, `<|message|>`, `[/THINK]`, `◁/think▷`); or a fence."""

MAX_MARK_CHARS = 64
MAX_ENDING = 4
"""How many tokens behind an answer may say no more than that it ends."""


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
    pieces = [utf8(token) if known is None else known for token, known in _tokens(evidence)]
    return _by_bytes(utf8(text), pieces) or _by_spelling(text, evidence)


def spells(text: str, evidence: TokenLogprobs) -> bool:
    """Whether these can be the tokens of this text; where they cannot, they are some other text's.

    White space around the text, a fence around its JSON, tokens that end an answer, half a character at its end, and
    reasoning that ends in a mark (`</think>`, `<|message|>`) may be missing from the text.
    """
    pieces = [utf8(token) if known is None else known for token, known in _tokens(evidence)]
    joined, core = b"".join(pieces), _comparable(text)
    for piece in [b"", *pieces[: -MAX_ENDING - 1 : -1]]:
        if not _SPECIAL.fullmatch(piece.decode(errors="replace")):
            break
        joined = joined[: len(joined) - len(piece)]
        spelled = _comparable(joined.decode(errors="replace"))
        for whole in (spelled, spelled.removesuffix("```").rstrip()):
            if whole.endswith(core) and _says_nothing(whole[: len(whole) - len(core)]):
                return True
    return _by_spelling(text, evidence) is not None


def _comparable(text: str) -> str:
    """A text without white space around it; how many U+FFFD stand for broken characters differs between servers."""
    return re.sub("\ufffd+", "\ufffd", text).strip(f"\ufffd{string.whitespace}").strip()


def _says_nothing(before: str) -> bool:
    """Whether what stands before an answer is no part of it."""
    shown = before.rstrip()
    return not shown or _MARK.search(shown[-MAX_MARK_CHARS:]) is not None


def _tokens(evidence: TokenLogprobs) -> list[tuple[str, bytes | None]]:
    known = evidence.token_bytes or (None,) * len(evidence)
    return list(zip(evidence.tokens, known, strict=True))


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
    while last and _SPECIAL.fullmatch(shown[last - 1]) and not (shown[last - 1] and core.endswith(shown[last - 1])):
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
