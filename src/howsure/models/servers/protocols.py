"""Log-probabilities of a prompt's own tokens: the two ways in which servers give them, and the evidence they make.

`prompt_logprobs`, vLLM's: for each position the tokens by id, each with its log-probability and its text. The prompt's
own token is always among them, whatever its rank; it is told apart by the prompt's token ids, which newer servers send
along, or by asking for no others.

`echo`, OpenAI's of old, which vLLM, SGLang and llama-cpp-python speak too: the prompt's tokens come back before the
one that is generated, in columns.

Both ask for one new token, since not every server takes none. The first token of a prompt has no log-probability.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from howsure.errors import EvidenceError
from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import Failure
from howsure.models.text import common_length, utf8
from howsure.models.token_places import Aligned

Alternatives = list[tuple[str, float]]


class PromptTokens(NamedTuple):
    """The tokens of a prompt as a server gave them; what it did not give is None."""

    keys: tuple[Hashable, ...]
    """What makes a token the same token: its id, or its text where ids are not told."""
    texts: tuple[str | None, ...]
    logprobs: tuple[float | None, ...]
    top: tuple[Alternatives, ...] | None
    """The alternatives at each position, likeliest first; None where none were asked for."""

    def all_texts(self) -> list[str]:
        """Everything in it that a server wrote as text."""
        listed = [text for row in self.top or () for text, _ in row]
        return [text for text in self.texts if text is not None] + listed


class ByPromptLogprobs(msgspec.Struct, frozen=True):
    """vLLM's way. Without token ids the own tokens are asked for alone, and the alternatives apart."""

    tells_ids: bool = True
    name: str = "prompt_logprobs"

    def requests(self, top_logprobs: int) -> list[dict[str, Any]]:
        """What to add to the request for a completion; several where one answer cannot tell everything."""
        widths = [top_logprobs] if self.tells_ids or not top_logprobs else [0, top_logprobs]
        # The echo tells the text of the first token, for which there is nothing in `prompt_logprobs`.
        return [{"prompt_logprobs": width, "return_token_ids": True, "echo": True, "logprobs": 0} for width in widths]

    def read(self, bodies: Sequence[Any], top_logprobs: int) -> list[PromptTokens]:
        """What the answers may mean, likeliest first; raises `ValidationError` or `EvidenceError` with the place."""
        replies = [msgspec.convert(body, _VLLMReply).choices[0] for body in bodies]
        own, rows = replies[0].prompt_logprobs, replies[-1].prompt_logprobs
        if len(own) != len(rows):
            raise EvidenceError(f"prompt_logprobs has {len(own)} positions in one answer, {len(rows)} in the other")
        ids = _own_ids(replies[0])
        entries = [None if row is None else row[token_id] for row, token_id in zip(own, ids, strict=True)]
        top = tuple(_likeliest(row, top_logprobs) for row in rows) if top_logprobs else None
        texts = [None if entry is None else entry.decoded_token for entry in entries]
        texts[:1] = [_echoed_first(replies[0].logprobs) if text is None else text for text in texts[:1]]
        logprobs = tuple(None if entry is None else entry.logprob for entry in entries)
        return [PromptTokens(tuple(ids), tuple(texts), logprobs, top)]

    def settled(self, body: Any) -> ByPromptLogprobs:
        """The protocol as this server speaks it, by one of its answers."""
        return ByPromptLogprobs(tells_ids=msgspec.convert(body, _VLLMReply).choices[0].prompt_token_ids is not None)


class ByEcho(msgspec.Struct, frozen=True):
    """OpenAI's old way. Whether a new token follows the prompt's shows when they are laid along the text."""

    name: str = "echo"

    def requests(self, top_logprobs: int) -> list[dict[str, Any]]:
        return [{"echo": True, "logprobs": max(top_logprobs, 1)}]  # some servers take 0 for none at all

    def read(self, bodies: Sequence[Any], top_logprobs: int) -> list[PromptTokens]:
        columns = msgspec.convert(bodies[0], _EchoReply).choices[0].logprobs
        count = len(columns.tokens)
        top = _echoed_top(columns.top_logprobs, top_logprobs)
        if len(columns.token_logprobs) != count or (top is not None and len(top) != count):
            lengths = f"{count} tokens, {len(columns.token_logprobs)} token_logprobs"
            raise EvidenceError(f"the columns of logprobs differ in length: {lengths}, {len(top or ())} top_logprobs")
        tokens = tuple(columns.tokens)
        whole = PromptTokens(tokens, tokens, tuple(columns.token_logprobs), top)
        return [_first(whole, count - 1), whole]

    def settled(self, body: Any) -> ByEcho:
        return self


PromptProtocol = ByPromptLogprobs | ByEcho


def _own_ids(reply: _VLLMChoice) -> list[str]:
    """The ids of the prompt's own tokens; a first position that holds nothing has none, unless it is told."""
    rows = reply.prompt_logprobs
    if reply.prompt_token_ids is None:
        ids = [_only(row, place) for place, row in enumerate(rows)]
    else:
        ids = [str(token_id) for token_id in reply.prompt_token_ids]
    if len(ids) != len(rows):
        raise EvidenceError(f"prompt_logprobs has {len(rows)} positions for {len(ids)} prompt_token_ids")
    for place, (row, token_id) in enumerate(zip(rows, ids, strict=True)):
        if row is not None and token_id not in row:
            raise EvidenceError(f"prompt_logprobs[{place}] does not hold the prompt's own token {token_id}")
    return ids


def _only(row: dict[str, _Entry] | None, place: int) -> str:
    if row is None:
        return ""
    if len(row) != 1:
        raise EvidenceError(
            f"prompt_logprobs[{place}] holds {len(row)} tokens without telling which is the prompt's own"
        )
    return next(iter(row))


def _echoed_first(columns: Any) -> str | None:
    tokens = columns.get("tokens") if isinstance(columns, dict) else None
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    return first if isinstance(first, str) else None


def _likeliest(row: dict[str, _Entry] | None, count: int) -> Alternatives:
    """The prompt's own token is listed beyond the `count` likeliest ones where it is not among them."""
    pairs = [(entry.decoded_token or "", entry.logprob) for entry in (row or {}).values()]
    return sorted(pairs, key=lambda pair: -pair[1])[:count]


def _echoed_top(column: Any, count: int) -> tuple[Alternatives, ...] | None:
    """None where no alternatives were asked for, or none came."""
    if not count or column is None:
        return None
    rows = msgspec.convert(column, list[dict[str, float] | None])
    return tuple(sorted((row or {}).items(), key=lambda pair: -pair[1])[:count] for row in rows)


def _first(tokens: PromptTokens, count: int) -> PromptTokens:
    return PromptTokens(*(None if column is None else column[:count] for column in tokens))  # type: ignore[arg-type]


class _Entry(msgspec.Struct):
    logprob: float
    decoded_token: str | None = None


class _VLLMChoice(msgspec.Struct):
    prompt_logprobs: list[dict[str, _Entry] | None]
    prompt_token_ids: list[int] | None = None
    logprobs: Any = None


class _VLLMReply(msgspec.Struct):
    choices: Annotated[list[_VLLMChoice], msgspec.Meta(min_length=1)]


class _Columns(msgspec.Struct):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: Any = None


class _EchoChoice(msgspec.Struct):
    logprobs: _Columns


class _EchoReply(msgspec.Struct):
    choices: Annotated[list[_EchoChoice], msgspec.Meta(min_length=1)]


# -- evidence ---------------------------------------------------------------------------------------------------------

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

    def evidence(self, shared: int, prefix_chars: int) -> TokenLogprobs:
        """That of all but the first tokens, which are `shared` with other texts."""
        logprobs, spelled = self.tokens.logprobs[shared:], self.aligned.token_bytes(self.text)[shared:]
        if None in logprobs:
            missing = shared + logprobs.index(None)
            raise EvidenceError(f"no log-probability for token {missing} of {len(self.aligned.ends)}")
        texts = zip(spelled, self.tokens.texts[shared:], strict=True)
        top = self.tokens.top
        if top is not None:
            rows = [[(self._readable(token), logprob) for token, logprob in row] for row in top[shared:]]
        return TokenLogprobs(
            tokens=tuple(text or "" if one is None else one.decode("utf-8", errors="replace") for one, text in texts),
            logprobs=np.array(logprobs, dtype=np.float64),
            token_bytes=None if spelled and all(one is None for one in spelled) else spelled,
            top=None if top is None else TopAlternatives.from_rows(rows),
            prefix_chars=prefix_chars,
        )

    def _readable(self, token: str) -> str:
        spelled = self.aligned.spell(token) if self.aligned.spell is not None else None
        return token if spelled is None else spelled.decode("utf-8", errors="replace")


def evidence(prefix: str, texts: Sequence[Laid]) -> list[TokenLogprobs] | Failure:
    """The evidence of every continuation of the prefix; raises `EvidenceError` for broken numbers.

    The boundary falls where it does for a local model: context are the tokens that all texts share and that end before
    it. Where the spelling of the tokens leaves that open, there is no evidence.
    """
    if not texts:
        return []
    before = utf8(prefix)
    counts = [text.aligned.within(len(before)) for text in texts]
    if None in counts:
        return _UNCERTAIN
    least = min(count for count in counts if count is not None)
    shared = common_length([tuple(zip(text.tokens.keys, text.aligned.ends, strict=True))[:least] for text in texts])
    if not shared:
        return _NO_CONTEXT
    covered, at_most = texts[0].aligned.ends[shared - 1]
    if covered != at_most:
        return _UNCERTAIN
    prefix_chars = len(before[covered:].decode("utf-8", errors="ignore"))
    return [text.evidence(shared, prefix_chars) for text in texts]
