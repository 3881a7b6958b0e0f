"""`ngram:<file.arpa>` as a model: exact probabilities of words, whole documents at millions of words a second."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import EvidenceError, InputError, UnusableText
from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import (
    Capability,
    Counters,
    Failure,
    Model,
    Passage,
    Rolling,
    ScoreItem,
    ScorePlan,
    Stretch,
    plan_batches,
)
from howsure.models.ngram.arpa import read_arpa
from howsure.models.ngram.table import END_ID, UNKNOWN_ID, Ids, NgramTable, begins_of, find_words
from howsure.models.text import utf8
from howsure.storage import open_regular

PASSAGE_BYTES = 1 << 20
MOST_STRETCH_BYTES = 16 << 20
WORDS_AT_ONCE = 1 << 18
NATS_PER_LOG10 = math.log(10.0)


class Tokens(NamedTuple):
    """Words and line ends of a text in order: their numbers, where each ends in bytes, and log10 p of each.

    A token begins where the one before it ends, so white space belongs to what follows it.
    """

    ids: Ids
    ends: Ids
    log10_probs: NDArray[np.float64]
    places: Ids
    laid: Ids


class SentenceScore(NamedTuple):
    """log10 p of a sentence, how many tokens that is (its words and its end), and how many of them are not known."""

    log10: float
    tokens: int
    oov: int


class NgramModel(Model):
    """A back-off model over words. A line is a sentence; a line end is `</s>`, after which `<s>` begins the next."""

    capabilities = frozenset({Capability.SCORE})

    def __init__(self, path: str) -> None:
        self.name = f"ngram:{path}"
        self.path = Path(path)
        self.counters = Counters()

    @cached_property
    def table(self) -> NgramTable:
        return read_arpa(self.path)

    def load(self) -> None:
        _ = self.table

    def fingerprint(self) -> dict[str, Any]:
        try:
            with open_regular(self.path, shell_pipes=True) as file:
                digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
                return {"kind": "ngram", "sha256": digest.hexdigest()}
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror}") from error

    # -- score --------------------------------------------------------------------------------------------------

    def plan_scores(self, items: Sequence[ScoreItem]) -> ScorePlan:
        self.load()
        refused = {i: failure for i, item in enumerate(items) if (failure := _refused(item)) is not None}
        sizes = [0 if i in refused else _size(item) for i, item in enumerate(items)]
        order = [i for i in range(len(items)) if i not in refused]
        return ScorePlan(plan_batches(sizes, order, WORDS_AT_ONCE), refused)

    def try_score(
        self, items: Sequence[ScoreItem], *, top_logprobs: int = 0, entropies: bool = False
    ) -> list[list[TokenLogprobs] | Failure]:
        return [_refused(item) or self._score_or_fail(item, top_logprobs, entropies) for item in items]

    def _score_or_fail(self, item: ScoreItem, top: int, entropies: bool) -> list[TokenLogprobs] | Failure:
        """A file may hold numbers that add up to more than a probability."""
        try:
            return self._score(item, top, entropies)
        except EvidenceError as error:
            return Failure("bad_logprobs", f"{self.name} gave {error}")

    def _score(self, item: ScoreItem, top: int, entropies: bool) -> list[TokenLogprobs]:
        """Each continuation after what the prefix's last line holds; from the same token on for all of them."""
        self.counters.calls += 1
        boundary = len(_last_line(item).encode())
        texts = [_joined(item, continuation).encode() for continuation in item.continuations]
        tokens = [self._tokens(text, ends_sentence=False) for text in texts]
        shared = min((int(np.searchsorted(one.ends, boundary, side="right")) for one in tokens), default=0)
        return [
            self._evidence(text, one, shared, boundary, top, entropies) for text, one in zip(texts, tokens, strict=True)
        ]

    def _evidence(
        self, text: bytes, tokens: Tokens, first: int, boundary: int, top: int, entropies: bool
    ) -> TokenLogprobs:
        edges = [0, *tokens.ends.tolist()]
        if len(edges) > 1:
            edges[-1] = len(text)  # white space at the end belongs to the last token, since none follows
        spelled = [text[start:end] for start, end in zip(edges[first:], edges[first + 1 :], strict=False)]
        best: list[list[tuple[str, float]]] = []
        entropies_nats: list[float] = []
        for probs in self._expectations(tokens, first) if top or entropies else ():
            best.append(self._best(probs, top))
            entropies_nats.append(_entropy_nats(probs))
        return TokenLogprobs(
            tokens=tuple(piece.decode("utf-8", errors="replace") for piece in spelled),
            logprobs=tokens.log10_probs[first:] * NATS_PER_LOG10,
            token_bytes=tuple(spelled),
            top=TopAlternatives.from_rows(best) if top else None,
            entropies_nats=np.array(entropies_nats) if entropies else None,
            prefix_chars=len(text[min(edges[first], boundary) : boundary].decode("utf-8", errors="ignore")),
        )

    def _expectations(self, tokens: Tokens, first: int) -> Iterator[NDArray[np.float64]]:
        """For each token from `first` on, the probabilities of all words in its place; one at a time, since those of
        a whole text would be as many numbers as tokens times words."""
        history = self.table.order - 1
        for place in tokens.places[first:].tolist():
            before = tokens.laid[max(place - history, 0) : place].tolist()
            last_end = max((i for i, word in enumerate(before) if word == END_ID), default=-1)
            yield self.table.distribution(before[last_end + 1 :])

    def _best(self, probs: NDArray[np.float64], count: int) -> list[tuple[str, float]]:
        ranked = np.argsort(-probs, kind="stable")[:count].tolist()
        return [(self._spelled(word), float(np.log(probs[word]))) for word in ranked if probs[word] > 0]

    def _spelled(self, word: int) -> str:
        return "\n" if word == END_ID else f" {self.table.vocabulary.words[word].decode('utf-8')}"

    def _tokens(self, text: bytes, *, ends_sentence: bool) -> Tokens:
        """A text looked up; an unfinished last line is taken to end there only if `ends_sentence`."""
        laid, spans = self.table.lay(text)
        log10_probs = self.table.log10_probs(laid.ids, begins_of(laid)) if len(laid.ids) else np.empty(0)
        line_ends = laid.ends if ends_sentence else laid.ends[: len(spans.newlines)]
        end_bytes = np.append(spans.newlines + 1, len(text))[: len(line_ends)]
        places = np.concatenate([laid.words, line_ends])
        order = np.argsort(places, kind="stable")
        places = places[order]
        ends = np.concatenate([spans.ends, end_bytes])[order]
        self.counters.tokens_run += len(places)
        return Tokens(laid.ids[places], ends, log10_probs[places], places, laid.ids)

    def sentence_scores(self, sentences: Iterable[str]) -> list[SentenceScore]:
        """log10 p of each sentence with its end, as KenLM's `score` gives it."""
        listed = [utf8(sentence) for sentence in sentences]
        broken = [i for i, sentence in enumerate(listed) if b"\n" in sentence]
        if broken:
            raise InputError(f"sentence {broken[0]} holds a line end, which would make it two")
        laid, _ = self.table.lay(b"".join(sentence + b"\n" for sentence in listed))
        begins = begins_of(laid)
        if not len(begins):
            return []
        log10_probs = self.table.log10_probs(laid.ids, begins)
        log10_probs[begins] = 0.0
        totals = np.add.reduceat(log10_probs, begins).tolist()
        unknown = np.add.reduceat((laid.ids == UNKNOWN_ID).astype(np.int64), begins).tolist()
        return [SentenceScore(*row) for row in zip(totals, (laid.ends - begins).tolist(), unknown, strict=True)]

    # -- whole documents ----------------------------------------------------------------------------------------

    def rolling(self, wanted: Rolling) -> Rolling:
        if wanted != Rolling():
            raise InputError("--window and --stride are for neural models; an n-gram model sees its last words only")
        self.load()  # it takes no time beside what follows, and a broken file should be found before a run begins
        return wanted

    def passages(self, chunks: Iterable[str], rolling: Rolling) -> Iterator[Passage]:
        before = b""
        for text, last in _pieces(chunks):
            ends_sentence = last or text.endswith(b"\n")
            count = len(find_words(text).starts) + text.count(b"\n") + (ends_sentence and not text.endswith(b"\n"))
            yield Passage(count, count, (before, text, ends_sentence))
            before = b"" if ends_sentence else self._history(before + text)

    def _history(self, text: bytes) -> bytes:
        """The last words of an unfinished line: all that the next word can depend on."""
        line = text.rpartition(b"\n")[2]
        spans = find_words(line)
        first = max(len(spans.starts) - self.table.order + 1, 0)
        return b"" if first == len(spans.starts) else line[spans.starts[first] :]

    def read(self, passages: Sequence[Passage]) -> list[Stretch | Failure]:
        return [self._read(*passage.content) for passage in passages]

    def _read(self, before: bytes, text: bytes, ends_sentence: bool) -> Stretch:
        """One passage; `before` are the last words of the line that it goes on with."""
        self.counters.calls += 1
        tokens = self._tokens(before + text, ends_sentence=ends_sentence)
        first = len(find_words(before).starts)
        ends = tokens.ends[first:] - len(before)
        byte_counts = np.diff(ends, prepend=0)
        byte_counts[-1:] += len(text) - ends[-1:]
        ids = tokens.ids[first:]
        return Stretch(
            logprobs=tokens.log10_probs[first:] * NATS_PER_LOG10,
            byte_counts=byte_counts,
            word_starts=(ids != END_ID).astype(np.int64),
            unknown=ids == UNKNOWN_ID,
            sentence_ends=ids == END_ID,
        )


def _refused(item: ScoreItem) -> Failure | None:
    if not isinstance(item.prefix, str):
        return Failure("no_chat_template", "an n-gram model takes plain text, and no conversation")
    if item.image is not None:
        return Failure("unreadable_image", "an n-gram model reads text only, and the item has an image")
    try:
        for continuation in item.continuations:
            utf8(item.prefix + continuation)
    except InputError as error:
        return Failure("unreadable_text", str(error))
    return None


def _last_line(item: ScoreItem) -> str:
    """The end of a prefix: what lies before its last line is another sentence."""
    assert isinstance(item.prefix, str)
    return item.prefix[item.prefix.rfind("\n") + 1 :]


def _joined(item: ScoreItem, continuation: str) -> str:
    return _last_line(item) + continuation


def _size(item: ScoreItem) -> int:
    """About how many words an item has, line ends included."""
    return sum(_joined(item, continuation).count(" ") + 2 for continuation in item.continuations)


def _entropy_nats(probs: NDArray[np.float64]) -> float:
    positive = probs[probs > 0]
    return float(-(positive * np.log(positive)).sum())


def _pieces(chunks: Iterable[str]) -> Iterator[tuple[bytes, bool]]:
    """A text in pieces of about `PASSAGE_BYTES`, cut after a line end, or else after white space; and which is last.

    The cuts depend on the text alone. A stretch without any white space, or of nothing else, is held whole, and
    refused where it is longer than any.
    """
    buffer, size = bytearray(), PASSAGE_BYTES
    for chunk in chunks:
        buffer += utf8(chunk)
        while len(buffer) > size:
            if size > MOST_STRETCH_BYTES:
                raise UnusableText(f"more than {size >> 20} MiB of it are one word, or white space alone")
            cut = _cut(bytes(buffer[:size]))
            size = PASSAGE_BYTES if cut else 2 * size
            if cut:
                yield bytes(buffer[:cut]), False
                del buffer[:cut]
    if buffer:
        yield bytes(buffer), True


def _cut(piece: bytes) -> int:
    """After the last line end, else after the last space that follows a word; 0 where there is neither."""
    if cut := piece.rfind(b"\n") + 1:
        return cut
    words = find_words(piece)
    cut = piece.rfind(b" ") + 1
    return cut if len(words.starts) and words.starts[0] < cut else 0
