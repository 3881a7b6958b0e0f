"""The types that flow: what a model said about its own probabilities, and what happened.

Everything that a study measures is one of these three. They hold arrays, check themselves when they are
made, and go to JSON and back without losing a bit (−inf travels as −9999, as OpenAI writes it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from howsure.errors import EvidenceError
from howsure.measures.checks import POSITIVE_TOLERANCE_NATS, ZERO_PROBABILITY_LOGPROB, check_logprobs
from howsure.types import html_of

Array = NDArray[np.float64]

PROBABILITY_TOLERANCE = 1e-6
"""How far labelled probabilities and `other` may sum away from 1 before they are no distribution."""


@dataclass(frozen=True, eq=False)
class TopAlternatives:
    """The most probable tokens at each position, ragged: position i owns rows `starts[i]:starts[i + 1]`."""

    starts: NDArray[np.int64]
    tokens: tuple[str, ...]
    logprobs: Array
    token_bytes: tuple[bytes | None, ...] | None = None

    def __post_init__(self) -> None:
        starts = np.asarray(self.starts, dtype=np.int64)
        if starts.ndim != 1 or len(starts) == 0 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise EvidenceError("top alternatives: starts must begin at 0 and never decrease")
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "logprobs", check_logprobs(self.logprobs, "top alternatives"))
        lengths = {len(self.tokens), len(self.logprobs), int(starts[-1])}
        if self.token_bytes is not None:
            lengths.add(len(self.token_bytes))
        if len(lengths) != 1:
            raise EvidenceError(f"top alternatives: parts of different length {sorted(lengths)}")

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[Sequence[tuple[str, float]]],
        row_bytes: Sequence[Sequence[bytes | None]] | None = None,
    ) -> TopAlternatives:
        """One row of (token, logprob) pairs for each position."""
        flat = [pair for row in rows for pair in row]
        starts = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64)))
        known = None if row_bytes is None else tuple(b for row in row_bytes for b in row)
        return cls(
            starts=starts.astype(np.int64),
            tokens=tuple(token for token, _ in flat),
            logprobs=np.array([logprob for _, logprob in flat], dtype=np.float64),
            token_bytes=known,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, position: int) -> list[tuple[str, float]]:
        """The alternatives at one position, as they were given."""
        rows = slice(int(self.starts[position]), int(self.starts[position + 1]))
        return list(zip(self.tokens[rows], self.logprobs[rows].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class TokenLogprobs:
    """The tokens of one text with their natural log-probabilities.

    `token_bytes` and `top` are None where the source does not tell them; `entropies_nats` is the exact
    entropy over the whole vocabulary, which only a local model can give. `prefix_chars` counts the
    characters of the prefix that lie inside the first scored tokens, where a token straddled the boundary.
    """

    tokens: tuple[str, ...]
    logprobs: Array
    token_bytes: tuple[bytes | None, ...] | None = None
    top: TopAlternatives | None = None
    entropies_nats: Array | None = None
    prefix_chars: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "logprobs", check_logprobs(self.logprobs))
        parts: dict[str, Any] = {
            "logprobs": self.logprobs,
            "token_bytes": self.token_bytes,
            "top": self.top,
            "entropies_nats": self.entropies_nats,
        }
        for name, part in parts.items():
            if part is not None and len(part) != len(self.tokens):
                raise EvidenceError(f"{name} has {len(part)} entries for {len(self.tokens)} tokens")
        if self.entropies_nats is not None:
            entropies = np.array(self.entropies_nats, dtype=np.float64)
            if not (np.isfinite(entropies).all() and (entropies >= -1e-9).all()):
                raise EvidenceError("entropies_nats must be finite and not negative")
            object.__setattr__(self, "entropies_nats", np.maximum(entropies, 0.0))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def text(self) -> str:
        """The text of the tokens; by their bytes where all are known, since a character may span tokens."""
        if self.token_bytes is not None and all(b is not None for b in self.token_bytes):
            return b"".join(b for b in self.token_bytes if b is not None).decode("utf-8", errors="replace")
        return "".join(self.tokens)

    @property
    def nll_nats(self) -> float:
        """Sum of −logprob over the tokens; infinite if any had probability zero."""
        return float(-self.logprobs.sum()) + 0.0

    @property
    def mean_nll_nats(self) -> float | None:
        """Mean surprisal of a token; None for no tokens."""
        return self.nll_nats / len(self) if len(self) else None

    @property
    def perplexity_per_token(self) -> float | None:
        """exp(mean surprisal); None for no tokens, inf where it is beyond floating point."""
        mean = self.mean_nll_nats
        if mean is None:
            return None
        return math.exp(mean) if mean < 700.0 else math.inf

    @property
    def byte_count(self) -> int | None:
        """How many bytes the tokens spell; None unless all are known."""
        if self.token_bytes is None or any(b is None for b in self.token_bytes):
            return None
        return sum(len(b) for b in self.token_bytes if b is not None)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenLogprobs):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Plain columns for JSON; what is unknown is left out."""
        out: dict[str, Any] = {"tokens": list(self.tokens), "logprobs": _finite(self.logprobs)}
        if self.token_bytes is not None:
            out["bytes"] = _hex(self.token_bytes)
        if self.top is not None:
            out["top"] = {
                "starts": self.top.starts.tolist(),
                "tokens": list(self.top.tokens),
                "logprobs": _finite(self.top.logprobs),
            }
            if self.top.token_bytes is not None:
                out["top"]["bytes"] = _hex(self.top.token_bytes)
        if self.entropies_nats is not None:
            out["entropies_nats"] = self.entropies_nats.tolist()
        if self.prefix_chars:
            out["prefix_chars"] = self.prefix_chars
        return out

    def _repr_html_(self) -> str:
        return html_of(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenLogprobs:
        """The inverse of `to_dict`."""
        record = _decode(data, TokenRecord, "token log-probabilities")
        top = None
        if record.top is not None:
            top = TopAlternatives(
                starts=np.array(record.top.starts, dtype=np.int64),
                tokens=tuple(record.top.tokens),
                logprobs=np.array(record.top.logprobs, dtype=np.float64),
                token_bytes=_unhex(record.top.bytes),
            )
        entropies = record.entropies_nats
        return cls(
            tokens=tuple(record.tokens),
            logprobs=np.array(record.logprobs, dtype=np.float64),
            token_bytes=_unhex(record.bytes),
            top=top,
            entropies_nats=None if entropies is None else np.array(entropies, dtype=np.float64),
            prefix_chars=record.prefix_chars,
        )


@dataclass(frozen=True, eq=False)
class Distribution:
    """Labelled outcomes with probabilities; `other` is the mass that no label explains."""

    labels: tuple[str, ...]
    probabilities: Array
    other: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(self.labels))
        values = np.array(self.probabilities, dtype=np.float64)
        object.__setattr__(self, "probabilities", values)
        if len(values) != len(self.labels) or len(set(self.labels)) != len(self.labels):
            raise EvidenceError(
                f"a distribution needs one probability for each of its distinct labels, got {len(values)} for "
                f"{list(self.labels)}"
            )
        with_other = np.append(values, self.other)
        if not np.isfinite(with_other).all() or (with_other < 0).any():
            raise EvidenceError(f"probabilities must be finite and not negative, got {with_other.tolist()}")
        if abs(with_other.sum() - 1.0) > PROBABILITY_TOLERANCE:
            raise EvidenceError(f"probabilities and `other` sum to {with_other.sum():.6g}, not to 1")

    @classmethod
    def from_logprobs(cls, labels: Sequence[str], logprobs: Sequence[float] | Array) -> Distribution:
        """Labels with the log-probabilities a model gave them; the mass left over becomes `other`."""
        values = np.exp(check_logprobs(logprobs, "labels"))
        total = float(values.sum())
        if total > 1.0 + 1e-3:
            raise EvidenceError(f"these are not log-probabilities of distinct outcomes: they sum to {total:.6g}")
        if total > 1.0:
            values, total = values / total, 1.0
        return cls(tuple(labels), values, other=max(0.0, 1.0 - total))

    @classmethod
    def from_log_likelihoods(cls, labels: Sequence[str], log_likelihoods: Sequence[float] | Array) -> Distribution:
        """The labels' likelihoods divided by their sum: which one, given that it is one of these."""
        values = np.array(log_likelihoods, dtype=np.float64)
        if np.isnan(values).any() or (values > POSITIVE_TOLERANCE_NATS).any():
            raise EvidenceError(f"log-likelihoods must lie between -inf and 0, got {values.tolist()}")
        if not len(values) or np.isneginf(values).all():
            raise EvidenceError("no label has a likelihood above zero, so there is no distribution over them")
        weights = np.exp(values - values.max())
        return cls(tuple(labels), weights / weights.sum())

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Distribution):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        return {
            "labels": list(self.labels),
            "probabilities": self.probabilities.tolist(),
            "other": self.other,
        }

    def _repr_html_(self) -> str:
        return html_of(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Distribution:
        record = _decode(data, _DistributionRecord, "distribution")
        return cls(tuple(record.labels), np.array(record.probabilities, dtype=np.float64), record.other)


_Place = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A larger one fits into no array."""


class TopRecord(msgspec.Struct):
    starts: list[_Place]
    """The alternatives of token i are entries `starts[i]` to `starts[i + 1]` of the other lists."""
    tokens: list[str]
    logprobs: list[float]
    bytes: list[str | None] | None = None


class TokenRecord(msgspec.Struct):
    tokens: list[str]
    logprobs: list[float]
    """Natural logarithms; −9999 is probability zero."""
    bytes: list[str | None] | None = None
    """The tokens' bytes in hexadecimal, where the source tells them."""
    top: TopRecord | None = None
    entropies_nats: list[float] | None = None
    """Over the whole vocabulary, from models on this machine."""
    prefix_chars: int = 0
    """Characters of the prefix within the first token, where one straddles the boundary."""


class _DistributionRecord(msgspec.Struct):
    labels: list[str]
    probabilities: list[float]
    other: float = 0.0


def _decode(data: Mapping[str, Any], kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, UnicodeEncodeError, OverflowError) as error:
        raise EvidenceError(f"{what}: {error}") from error


def _finite(logprobs: Array) -> list[float]:
    values: list[float] = np.maximum(logprobs, ZERO_PROBABILITY_LOGPROB).tolist()
    return values


def _hex(values: Sequence[bytes | None]) -> list[str | None]:
    return [None if value is None else value.hex() for value in values]


def _unhex(values: Sequence[str | None] | None) -> tuple[bytes | None, ...] | None:
    if values is None:
        return None
    try:
        return tuple(None if value is None else bytes.fromhex(value) for value in values)
    except ValueError as error:
        raise EvidenceError(f"token bytes are not hexadecimal: {error}") from error
