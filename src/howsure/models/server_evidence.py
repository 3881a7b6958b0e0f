"""From a server's tokens to the evidence of each continuation: where the boundary falls, and what lies behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from howsure.errors import EvidenceError
from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import Failure
from howsure.models.server_alignment import Aligned
from howsure.models.server_protocols import PromptTokens
from howsure.models.text import common_length, utf8

_UNCERTAIN = Failure(
    "not_aligned",
    "the texts of the server's tokens do not tell how many of them belong to the prefix; vLLM, which can be asked for "
    "their bytes, or a local model (hf:…) can score this",
)
_NO_CONTEXT = Failure(
    "no_context",
    "the first token of a prompt has no log-probability, and this server puts no begin token before it; give the "
    "text a prefix, or take a local model (hf:…)",
)


class Laid(NamedTuple):
    """One text with the server's tokens laid along it."""

    text: bytes
    tokens: PromptTokens
    aligned: Aligned


def evidence(prefix: str, texts: Sequence[Laid]) -> list[TokenLogprobs] | Failure:
    """The evidence of every continuation of the prefix; raises `EvidenceError` for broken numbers."""
    if not texts:
        return []
    before = utf8(prefix)
    shared = _shared(texts, len(before))
    if not shared:
        return _UNCERTAIN if shared is None else _NO_CONTEXT
    covered, at_most = texts[0].aligned.ends[shared - 1]
    if covered != at_most:
        return _UNCERTAIN
    prefix_chars = len(before[covered:].decode("utf-8", errors="ignore"))
    return [_continuation(text, shared, prefix_chars) for text in texts]


def _shared(texts: Sequence[Laid], boundary: int) -> int | None:
    """How many tokens are context for all; None where that cannot be told."""
    counts = [text.aligned.within(boundary) for text in texts]
    if None in counts:
        return None
    least = min(count for count in counts if count is not None)
    rows = [tuple(zip(text.tokens.keys, text.aligned.ends, strict=True))[:least] for text in texts]
    return min(least, common_length(rows))


def _continuation(text: Laid, shared: int, prefix_chars: int) -> TokenLogprobs:
    known = text.aligned.token_bytes(text.text)[shared:]
    return TokenLogprobs(
        tokens=tuple(_shown(text, place + shared, spelled) for place, spelled in enumerate(known)),
        logprobs=np.array([_value(text, place) for place in range(shared, len(text.aligned.ends))], dtype=np.float64),
        token_bytes=None if known and all(spelled is None for spelled in known) else known,
        top=None if text.tokens.top is None else TopAlternatives.from_rows(_top_rows(text, shared)),
        prefix_chars=prefix_chars,
    )


def _value(text: Laid, place: int) -> float:
    value = text.tokens.logprobs[place]
    if value is None:
        raise EvidenceError(f"no log-probability for token {place} of {len(text.aligned.ends)}")
    return value


def _shown(text: Laid, place: int, spelled: bytes | None) -> str:
    return (text.tokens.texts[place] or "") if spelled is None else spelled.decode("utf-8", errors="replace")


def _top_rows(text: Laid, shared: int) -> list[list[tuple[str, float]]]:
    rows = (text.tokens.top or ())[shared:]
    return [[(_readable(token, text.aligned), logprob) for token, logprob in row] for row in rows]


def _readable(token: str, aligned: Aligned) -> str:
    spelled = aligned.spell(token) if aligned.spell is not None else None
    return token if spelled is None else spelled.decode("utf-8", errors="replace")
