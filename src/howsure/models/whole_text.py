"""Documents for a model that takes a text only as a whole, as a server does: one document is one passage.

What the model sees at once is its own affair, so there is nothing to decide. The whole document goes out as one
continuation of nothing, and what comes back is laid along its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from howsure.errors import InputError
from howsure.evidence import TokenLogprobs
from howsure.models.contract import Failure, Passage, Rolling, ScoreItem, Stretch
from howsure.models.server_alignment import align
from howsure.models.text import shares, utf8

MAX_DOCUMENT_BYTES = 4 * 2**20
"""A larger document is not sent: about a million tokens, more than a server sees at once."""

BYTES_PER_TOKEN = 4
"""For the estimate of a passage only: about what English text takes."""

Score = Callable[[Sequence[ScoreItem]], Sequence[list[TokenLogprobs] | Failure]]

_TOO_LONG = Failure(
    "too_long",
    f"the document is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB, which is more than a server reads at once; cut it "
    "into several, or take a local model (hf:…), which reads any length",
)
_NO_BYTES = Failure(
    "no_token_bytes",
    "the model's tokens do not tell which bytes of the text each of them accounts for; take a local model (hf:…)",
)


def rolling(name: str, wanted: Rolling) -> Rolling:
    """Nothing to decide; a sentence where something is asked for."""
    for option, value in zip(Rolling._fields, wanted, strict=True):
        if value is not None:
            raise InputError(
                f"{name} reads a text as a whole and decides itself what it sees, so a {option} of {value} cannot be "
                f"asked for; leave --{option} out, or take a local model (hf:…)"
            )
    return Rolling()


def passages(chunks: Iterable[str]) -> Iterator[Passage]:
    """The document as one passage; one that is too large is given up as soon as that shows, and fails when read."""
    held, size = [], 0
    for chunk in chunks:
        held.append(chunk)
        size += len(utf8(chunk))
        if size > MAX_DOCUMENT_BYTES:
            yield Passage(0, 0, _TOO_LONG)
            return
    if size:
        estimate = -(-size // BYTES_PER_TOKEN)
        yield Passage(estimate, estimate, "".join(held))


def read(given: Sequence[Passage], score: Score) -> list[Stretch | Failure]:
    """Every document scored as the continuation of nothing."""
    contents = [passage.content for passage in given]
    sent = [i for i, content in enumerate(contents) if isinstance(content, str)]
    scores = score([ScoreItem("", (contents[i],)) for i in sent])
    results = dict(zip(sent, scores, strict=True))
    return [_stretch(content, results[i]) if i in results else content for i, content in enumerate(contents)]


def _stretch(text: str, scored: list[TokenLogprobs] | Failure) -> Stretch | Failure:
    if isinstance(scored, Failure):
        return scored
    (evidence,) = scored
    spelled = utf8(text)
    ends = _ends(spelled, evidence)
    return Stretch(evidence.logprobs, *shares(spelled, ends)) if ends else _NO_BYTES


def _ends(text: bytes, evidence: TokenLogprobs) -> Sequence[int] | None:
    """Where each token ends in the text.

    Where the pieces of a character show as nothing or U+FFFD, a token may end in several places; the last of them is
    taken, so that no byte is counted twice.
    """
    known = [spelled for spelled in evidence.token_bytes or () if spelled is not None]
    if len(known) == len(evidence) and b"".join(known) == text:
        return list(accumulate(map(len, known)))
    aligned = align(text, evidence.tokens, 0)
    return None if aligned is None else [latest for _, latest in aligned.ends]
