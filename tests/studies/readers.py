"""Models that read texts on paper: every token's probability stands in a table, whatever came before it."""

from __future__ import annotations

import json
import math
import re
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from howsure.models.contract import Capability, Counters, Failure, Model, Passage, Rolling, Stretch

WORDS = re.compile(rb"\s*\S+|\s+\Z")
"""Words with the white space before them; white space at the end is a token of its own."""

BYTES = re.compile(rb".", re.DOTALL)


class Token(NamedTuple):
    """A piece of a text, and how many words begin in it."""

    spelled: bytes
    words: int


class Content:
    """The tokens of a passage, in something that can be watched."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens


class Reader(Model):
    """`probs` gives the probability of each token by its text without white space, or of all tokens.

    Tokens are what `pattern` finds; a passage holds `passage_tokens` of them. With `vocabulary`, other tokens are
    unknown. A text that holds `fail` cannot be read, and one of nothing but `silence` has no tokens.
    """

    capabilities = frozenset({Capability.SCORE})

    def __init__(
        self,
        probs: Mapping[str, float] | float,
        *,
        name: str = "on-paper",
        pattern: re.Pattern[bytes] = WORDS,
        passage_tokens: int = 1_000_000,
        vocabulary: frozenset[str] | None = None,
        fail: str | None = None,
    ) -> None:
        self.name, self.probs, self.pattern, self.passage_tokens = name, probs, pattern, passage_tokens
        self.vocabulary, self.fail = vocabulary, fail
        self.counters = Counters()
        self.calls: list[list[str]] = []
        """The passages of each call, as text."""
        self.before_call: Callable[[], None] = lambda: None
        self.loaded = 0
        self.closed = False
        self.alive: weakref.WeakSet[Content] = weakref.WeakSet()
        self.most_alive = 0
        """Passages held in memory at once."""

    def fingerprint(self) -> dict[str, Any]:
        return {"probs": str(self.probs), "pattern": self.pattern.pattern.decode()}

    def load(self) -> None:
        self.loaded += 1

    def close(self) -> None:
        self.closed = True

    @property
    def takes_windows(self) -> bool:
        return True

    def rolling(self, wanted: Rolling) -> Rolling:
        return Rolling(wanted.window or 8, wanted.stride or 4)

    def passages(self, chunks: Iterable[str], rolling: Rolling) -> Iterator[Passage]:
        text = "".join(chunks)
        tokens = [] if text == "silence" else list(tokens_of(text.encode(), self.pattern))
        for start in range(0, len(tokens), self.passage_tokens):
            content = Content(tokens[start : start + self.passage_tokens])
            self.alive.add(content)
            self.most_alive = max(self.most_alive, len(self.alive))
            yield Passage(len(content.tokens), len(content.tokens), content)

    def read(self, passages: Sequence[Passage]) -> list[Stretch | Failure]:
        self.before_call()
        contents = [passage.content.tokens for passage in passages]
        self.calls.append([b"".join(token.spelled for token in tokens).decode() for tokens in contents])
        self.counters.calls += len(contents)
        self.counters.tokens_run += sum(map(len, contents))
        return [self._read(tokens, text) for tokens, text in zip(contents, self.calls[-1], strict=True)]

    def _read(self, tokens: list[Token], text: str) -> Stretch | Failure:
        if self.fail is not None and self.fail in text:
            return Failure("too_hard", f"said so on paper of {self.fail}")
        names = [token.spelled.decode("utf-8", "replace").strip() for token in tokens]
        unknown = None if self.vocabulary is None else np.array([name not in self.vocabulary for name in names])
        return Stretch(
            np.array([self.logprob(name) for name in names]),
            np.array([len(token.spelled) for token in tokens]),
            np.array([token.words for token in tokens]),
            unknown,
        )

    def logprob(self, name: str) -> float:
        prob = self.probs if isinstance(self.probs, float) else self.probs[name]
        return math.log(prob) if prob else -math.inf


def tokens_of(text: bytes, pattern: re.Pattern[bytes]) -> Iterator[Token]:
    starts = [found.start() for found in re.finditer(rb"\S+", text)]
    for found in pattern.finditer(text):
        yield Token(found[0], bisect_left(starts, found.end()) - bisect_left(starts, found.start()))


ARPA = r"""\data\
ngram 1=5
ngram 2=2

\1-grams:
-2	<unk>
-99	<s>	-0.5
-1	</s>
-0.5	a	-0.25
-0.75	b

\2-grams:
-0.125	<s> a
-0.25	a b

\end\
"""
"""p(a|<s>) = 10^-0.125, p(b|a) = 10^-0.25; else a word by itself, less the back-off of the one before it."""


def write_arpa(folder: Path, content: str = ARPA) -> str:
    """The name of a model whose probabilities can be worked out by hand."""
    path = folder / "paper.arpa"
    path.write_text(content)
    return f"ngram:{path}"


def put(path: Path, *texts: str) -> Path:
    """Documents t0, t1, … as JSON lines."""
    rows = [{"id": f"t{i}", "text": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def poem(words: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    kinds = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "sky", "blue", "four", "five"]
    return "".join(f"{word}{' ' if rng.random() < 0.9 else chr(10)}" for word in rng.choice(kinds, words))


PROBS = {word: 1 / (2 + i) for i, word in enumerate(sorted({*poem(300).split(), ""}))}
"""Another probability for each word of a poem."""
