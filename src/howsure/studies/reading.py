"""Reading a text with a model: how surprising is each token, and what was expected instead?

This is what `howsure show` does with a given text and `howsure ask` with the model's own answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from howsure.errors import EvidenceError, InputError
from howsure.evidence import TokenLogprobs, entropies_from_top
from howsure.measures import nats_to_bits
from howsure.models.contract import Capability, Failure, Model, ScoreItem
from howsure.types import html_of

ALTERNATIVES = 5


@dataclass(frozen=True)
class Reading:
    """A text, and what one model thought of each of its tokens."""

    text: str
    model: str
    evidence: TokenLogprobs

    @cached_property
    def surprisals_bits(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.asarray(nats_to_bits(0.0 - self.evidence.logprobs), dtype=np.float64)

    @property
    def mean_surprisal_bits(self) -> float | None:
        return nats_to_bits(self.evidence.mean_nll_nats)

    @property
    def bits_per_byte(self) -> float | None:
        size = len(self.text.encode("utf-8"))
        return nats_to_bits(self.evidence.nll_nats) / size if size else None

    @property
    def mean_entropy_bits(self) -> float | None:
        """How unsure the model was on average before each token; None where the vocabulary's entropy is not known."""
        entropies = self.evidence.entropies_nats
        return None if entropies is None or not len(entropies) else nats_to_bits(float(entropies.mean()))

    @property
    def least_mean_entropy_bits(self) -> float | None:
        """The least that the alternatives allow the mean entropy to be, where the exact one is not known."""
        bounds = entropies_from_top(self.evidence)
        if bounds is None or not len(bounds.low_nats) or np.isnan(bounds.low_nats).any():
            return None
        return nats_to_bits(float(bounds.low_nats.mean()))

    def characters(self) -> list[tuple[str, slice]]:
        """The text in pieces of whole characters, each with its tokens; mostly one, several for one emoji, say."""
        groups: list[tuple[str, slice]] = []
        pieces: list[bytes] = []
        unfinished, start = b"", 0
        for i, (token, known) in enumerate(zip(self.evidence.tokens, self._token_bytes(), strict=True)):
            pieces.append(known if known is not None else token.encode("utf-8", errors="replace"))
            unfinished = _unfinished_character(unfinished + pieces[-1])
            if unfinished and i + 1 < len(self.evidence):
                continue
            groups.append((b"".join(pieces).decode("utf-8", errors="replace"), slice(start, i + 1)))
            pieces, unfinished, start = [], b"", i + 1
        return groups

    def _token_bytes(self) -> Sequence[bytes | None]:
        known = self.evidence.token_bytes
        return known if known is not None else [None] * len(self.evidence)

    def most_surprising(self, count: int = 5) -> list[dict[str, Any]]:
        """The tokens with the largest surprisal, with the likeliest tokens that were not written."""
        order = np.argsort(-self.surprisals_bits, kind="stable")[:count]
        return [self.token(int(i)) for i in order]

    @cached_property
    def _part_of(self) -> dict[int, str]:
        """For tokens that spell only a piece of a character: the character."""
        shared = [(text, tokens) for text, tokens in self.characters() if tokens.stop - tokens.start > 1]
        return {i: text for text, tokens in shared for i in range(tokens.start, tokens.stop)}

    def token(self, i: int) -> dict[str, Any]:
        token, logprob = self.evidence.tokens[i], float(self.evidence.logprobs[i])
        bits = float(self.surprisals_bits[i])
        row = self.evidence.top.row(i) if self.evidence.top is not None else []
        expected = [(other, value) for other, value in row if other != token]
        return {
            "position": i,
            "token": token,
            "part_of": self._part_of.get(i),
            "surprisal_bits": bits if np.isfinite(bits) else None,
            "probability": float(np.exp(logprob)),
            "expected": [{"token": other, "probability": float(np.exp(value))} for other, value in expected],
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as data; a probability of zero has surprisal null, since JSON has no infinity."""
        entropies = self.evidence.entropies_nats
        entropies_bits = [None] * len(self.evidence) if entropies is None else nats_to_bits(entropies).tolist()
        return {
            "model": self.model,
            "text": self.text,
            "token_count": len(self.evidence),
            "byte_count": len(self.text.encode("utf-8")),
            "mean_surprisal_bits": _finite(self.mean_surprisal_bits),
            "mean_entropy_bits": self.mean_entropy_bits,
            "least_mean_entropy_bits": self.least_mean_entropy_bits,
            "perplexity_per_token": _finite(self.evidence.perplexity_per_token),
            "bits_per_byte": _finite(self.bits_per_byte),
            "most_surprising": self.most_surprising(),
            "tokens": [{**self.token(i), "entropy_bits": entropies_bits[i]} for i in range(len(self.evidence))],
        }

    def _repr_html_(self) -> str:
        return html_of(self)


def item_for(text: str) -> ScoreItem:
    if not text:
        raise InputError("there is no text to read: give one, name a file, or pipe it in")
    return ScoreItem("", (text,))


def read_text(text: str, model: Model) -> Reading:
    """Score a given text from its first token on."""
    model.require(Capability.SCORE, "show")
    (scored,) = model.try_score([item_for(text)], top_logprobs=ALTERNATIVES, entropies=True)
    if isinstance(scored, Failure):
        remedy = "; show a part of it, or take `howsure perplexity`, which reads any length"
        raise InputError(f"the text cannot be read: {scored.detail}{remedy if scored.reason == 'too_long' else ''}")
    return Reading(text, model.name, scored[0])


def read_answer(
    question: str, model: Model, *, max_tokens: int = 128, temperature: float = 0.0, seed: int = 0
) -> Reading:
    """Let the model answer, and keep what it thought of each token of its own answer."""
    model.require(Capability.GENERATE, "ask")
    answer = model.generate(
        [question], max_tokens=max_tokens, temperature=temperature, top_logprobs=ALTERNATIVES, seed=seed
    )[0]
    if answer.text is None:
        raise InputError(f"{model.name} gave no answer: {answer.failure}")
    if answer.logprobs is None:
        raise EvidenceError(f"{model.name} answered «{answer.text[:80]}», but {answer.logprobs_missing}")
    return Reading(answer.text, model.name, answer.logprobs)


def _unfinished_character(text: bytes) -> bytes:
    """The bytes at the end of a text that later ones may complete to a character; none in what is not UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return text[error.start :]
    return b""


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
