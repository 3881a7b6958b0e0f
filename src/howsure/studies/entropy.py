"""Entropy: how much is there to know, and how much of it does a model not know?

Question: how many bits does one outcome, one count, one word of this text carry on average?
Data: probabilities written out, counts, or a text in words, characters or bytes. A model is asked only if one is named.
Measure: H(p), against a model m also H(p, m) and KL; from counts three estimators; from a text its block entropies.
What comes out: bits and perplexities, and for a text an estimate of its entropy rate as far as the text supports one.
"""

from __future__ import annotations

import gzip
import itertools
import math
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from howsure.errors import EvidenceError, InputError
from howsure.measures import (
    BlockEntropy,
    block_entropies,
    cross_entropy_nats,
    entropy_nats,
    grassberger_entropy_nats,
    kl_nats,
    miller_madow_entropy_nats,
    nats_to_bits,
    plugin_entropy_nats,
)
from howsure.measures.entropy import OCCURRENCES_FOR_SUPPORT, SUM_TOLERANCE, check_counts, check_probabilities
from howsure.models.text import is_space
from howsure.runs import Progress
from howsure.runs.run import prepared
from howsure.storage import open_regular
from howsure.storage.opening import unpacked
from howsure.studies.perplexity.judge import counted, totals
from howsure.studies.perplexity.record import Sums
from howsure.studies.perplexity.study import PERPLEXITY, PerplexityOptions, read_through
from howsure.types import html_of

Symbols = Literal["words", "characters", "bytes"]
SYMBOLS: tuple[Symbols, ...] = ("words", "characters", "bytes")
STANDARD_INPUT = "-"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


# -- probabilities that are written out -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Against:
    """A model m of the same outcomes: what they cost under it. Infinite where m rules out what happens."""

    model: tuple[float, ...]
    cross_entropy_bits: float
    kl_bits: float
    distance_bits: float
    ruled_out: tuple[int, ...]

    @property
    def perplexity(self) -> float:
        return perplexity_of(self.cross_entropy_bits)

    def to_dict(self) -> dict[str, Any]:
        """JSON has no infinity: the figures are null where `ruled_out` names an outcome."""
        figures = {
            "cross_entropy_bits": self.cross_entropy_bits,
            "kl_bits": self.kl_bits,
            "distance_bits": self.distance_bits,
            "perplexity": self.perplexity,
        }
        finite = {name: _finite(value) for name, value in figures.items()}
        return {"model": list(self.model), **finite, "ruled_out": list(self.ruled_out)}


@dataclass(frozen=True)
class DistributionEntropy:
    """The entropy of a distribution that is known in full."""

    probabilities: tuple[float, ...]
    entropy_bits: float
    against: Against | None = None

    @property
    def perplexity(self) -> float:
        return perplexity_of(self.entropy_bits)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "distribution",
            "probabilities": list(self.probabilities),
            "entropy_bits": self.entropy_bits,
            "perplexity": self.perplexity,
            "against": None if self.against is None else self.against.to_dict(),
        }

    def _repr_html_(self) -> str:
        return html_of(self)


def entropy_of_distribution(p: Sequence[float], against: Sequence[float] | None = None) -> DistributionEntropy:
    """H(p), and under a model m of the same outcomes H(p, m), KL(p ‖ m) and |H(p, m) − H(p)|."""
    _refuse_sum(p, "the numbers", "; if they are counts, pass --counts")
    checked = check_probabilities(p)
    bits = float(nats_to_bits(entropy_nats(checked)))
    return DistributionEntropy(tuple(checked.tolist()), bits, _against(checked, against))


def _against(p: NDArray[np.float64], against: Sequence[float] | None) -> Against | None:
    if against is None:
        return None
    if len(against) != len(p):
        raise InputError(f"--against holds {len(against)} probabilities for {len(p)} outcomes: give one for each")
    _refuse_sum(against, "the probabilities of --against", "")
    m = check_probabilities(against, what="--against")
    entropy, cross, kl = (float(nats_to_bits(x)) for x in (entropy_nats(p), cross_entropy_nats(p, m), kl_nats(p, m)))
    ruled_out = np.flatnonzero((p > 0) & (m == 0))
    return Against(tuple(m.tolist()), cross, kl, abs(cross - entropy), tuple(ruled_out.tolist()))


def _refuse_sum(p: Sequence[float], what: str, remedy: str) -> None:
    total = sum(p)
    if all(math.isfinite(x) and x >= 0 for x in p) and abs(total - 1.0) > SUM_TOLERANCE:
        raise InputError(f"{what} sum to {total:.9g}, not to 1 within {SUM_TOLERANCE:g}{remedy}")


# -- counts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimates:
    """The entropy of the source behind one sample, by three estimators."""

    plugin_bits: float
    miller_madow_bits: float
    grassberger_bits: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class CountsEntropy:
    """The entropy of the source behind counts; `against` takes the shares seen as p."""

    total_count: int
    distinct_count: int
    estimates: Estimates
    against: Against | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "counts",
            "total_count": self.total_count,
            "distinct_count": self.distinct_count,
            **self.estimates.to_dict(),
            "perplexity": perplexity_of(self.estimates.plugin_bits),
            "against": None if self.against is None else self.against.to_dict(),
        }

    def _repr_html_(self) -> str:
        return html_of(self)


def entropy_of_counts(counts: Sequence[float], against: Sequence[float] | None = None) -> CountsEntropy:
    checked = check_counts(counts)
    estimates = Estimates(
        nats_to_bits(plugin_entropy_nats(checked)),
        nats_to_bits(miller_madow_entropy_nats(checked)),
        nats_to_bits(grassberger_entropy_nats(checked)),
    )
    total, distinct = int(checked.sum()), int(np.count_nonzero(checked))
    return CountsEntropy(total, distinct, estimates, _against(checked / checked.sum(), against))


# -- texts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextCrossEntropy:
    """What a text costs under a model, a symbol at a time, beside what the text itself shows.

    The differences are signed: below zero, the model needs fewer bits than the text's own figure. A distance is how
    large a difference is, |H(p, m) − H(p)|. Both sides count the same symbols; `counted` says what the model's bits
    are for.
    """

    model: str
    cross_entropy_bits: float
    above_entropy_bits: float
    above_entropy_rate_bits: float | None
    counted: str | None = None

    @property
    def perplexity(self) -> float:
        return perplexity_of(self.cross_entropy_bits)

    def to_dict(self) -> dict[str, Any]:
        rate = self.above_entropy_rate_bits
        figures = {
            "cross_entropy_bits": self.cross_entropy_bits,
            "perplexity": self.perplexity,
            "above_entropy_bits": self.above_entropy_bits,
            "above_entropy_rate_bits": rate,
            "distance_bits": abs(self.above_entropy_bits),
            "distance_from_rate_bits": None if rate is None else abs(rate),
        }
        finite = {key: _finite(value) for key, value in figures.items()}
        return {"model": self.model, **finite, "counted": self.counted}


@dataclass(frozen=True)
class TextEntropy:
    """A text as a sequence of symbols: their entropy one by one, in blocks, and given those before.

    The entropy rate is the plug-in's conditional entropy at the largest block length that is supported. It is None
    where none is, and `entropy_rate_missing` says why.
    """

    sources: tuple[str, ...]
    symbols: Symbols
    symbol_count: int
    distinct_count: int
    estimates: Estimates
    blocks: tuple[BlockEntropy, ...]
    against: TextCrossEntropy | None = None

    @property
    def rate_row(self) -> BlockEntropy | None:
        return next((row for row in reversed(self.blocks) if row.supported), None)

    @property
    def entropy_rate_bits(self) -> float | None:
        return None if self.rate_row is None else nats_to_bits(self.rate_row.conditional_nats)

    @property
    def entropy_rate_missing(self) -> str | None:
        if self.rate_row is not None:
            return None
        return (
            f"single {self.symbols} occur {self.blocks[0].occurrences:.1f} times on average, and an estimate needs "
            f"{OCCURRENCES_FOR_SUPPORT:g}: take a longer text, or smaller symbols"
        )

    def to_dict(self) -> dict[str, Any]:
        rate = self.entropy_rate_bits
        return {
            "kind": "text",
            "sources": list(self.sources),
            "symbols": self.symbols,
            "symbol_count": self.symbol_count,
            "distinct_count": self.distinct_count,
            **self.estimates.to_dict(),
            "perplexity": perplexity_of(self.estimates.plugin_bits),
            "blocks": [block_in_bits(row) for row in self.blocks],
            "entropy_rate_bits": rate,
            "entropy_rate_perplexity": None if rate is None else perplexity_of(rate),
            "entropy_rate_block": None if self.rate_row is None else self.rate_row.n,
            "entropy_rate_missing": self.entropy_rate_missing,
            "against": None if self.against is None else self.against.to_dict(),
        }

    def _repr_html_(self) -> str:
        return html_of(self)


def block_in_bits(row: BlockEntropy) -> dict[str, Any]:
    """One row of the block table, as it leaves: in bits."""
    return {
        "n": row.n,
        "blocks": row.blocks,
        "distinct": row.distinct,
        "occurrences": row.occurrences,
        "supported": row.supported,
        "plugin_bits": nats_to_bits(row.plugin_nats),
        "miller_madow_bits": nats_to_bits(row.miller_madow_nats),
        "grassberger_bits": nats_to_bits(row.grassberger_nats),
        "ceiling_bits": nats_to_bits(row.ceiling_nats),
        "per_symbol_bits": nats_to_bits(row.per_symbol_nats),
        "conditional_bits": nats_to_bits(row.conditional_nats),
    }


class Text(NamedTuple):
    """The bytes of one file, and what to call it."""

    name: str
    content: bytes


def entropy_of_text(texts: Sequence[Text], symbols: Symbols = "words", longest_block: int = 5) -> TextEntropy:
    """Several texts are one: the symbols of each follow those of the one before."""
    codes = symbol_codes(texts, symbols)
    rows = block_entropies(codes, longest_block)
    single = rows[0]
    estimates = Estimates(
        nats_to_bits(single.plugin_nats), nats_to_bits(single.miller_madow_nats), nats_to_bits(single.grassberger_nats)
    )
    names = tuple(text.name for text in texts)
    return TextEntropy(names, symbols, len(codes), single.distinct, estimates, tuple(rows))


def against_model(
    text: TextEntropy, names: Sequence[str], model: str, progress: Progress | None = None, **options: Any
) -> TextEntropy:
    """The same texts read by a model, as `howsure perplexity` reads them, with its options.

    Which of the model's tokens count is `perplexity.judge.counted`'s to say: per word those of words, as on the side of
    the text; per character and byte all of them, since the text's line ends are symbols too.
    """
    with prepared(PERPLEXITY, PerplexityOptions(names, model, progress=progress, **options)) as ready:
        sums = read_through(ready)
    part = counted(totals(sums), "words" if text.symbols == "words" else "bytes")
    assert part is not None
    total_nats = math.inf if part.impossible else part.nats
    against = cross_entropy_of_text(text, model, total_nats, text.symbol_count)
    return replace(text, against=replace(against, counted=_what_counts(text.symbols, sums, part.impossible)))


def _what_counts(symbols: Symbols, sums: Sums, impossible: int) -> str:
    """What the model's bits are for, and what makes them too few or infinite."""
    if symbols != "words":
        told = ["the whole text, with </s> for the end of each line" if "ends" in sums else "the whole text"]
    elif "ends" in sums:
        told = [f"words only, without the {int(sums['ends'].sum()):,} ends of sentences (</s>)"]
    else:
        told = ["the whole text, white space included, shared out over its words"]
    if impossible:
        told.append(f"{impossible:,} tokens have probability zero")
    elif "unknown" in sums and (unknown := int(sums["unknown"].sum())):
        told.append(f"{unknown:,} unknown word{'s cost' if unknown > 1 else ' costs'} too little")
    return "; ".join(told)


def cross_entropy_of_text(text: TextEntropy, model: str, total_nats: float, symbol_count: int) -> TextCrossEntropy:
    """A model's total −ln m(symbols), shared out over `symbol_count` symbols, against the text's own entropies.

    The text's entropy is the plug-in's: that of the shares in this very text, which no model of single symbols beats.
    """
    if symbol_count < 1:
        raise InputError(f"symbol_count {symbol_count!r} must be at least 1: how many symbols the model has scored")
    if math.isnan(total_nats) or total_nats < 0:
        raise EvidenceError(f"total_nats {total_nats!r} is not a sum of −ln p, which is 0 or more")
    bits, rate = nats_to_bits(total_nats / symbol_count), text.entropy_rate_bits
    return TextCrossEntropy(model, bits, bits - text.estimates.plugin_bits, None if rate is None else bits - rate)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_texts(names: Sequence[str], stdin: BinaryIO | None = None) -> list[Text]:
    """Each file as it lies there, `.gz` unpacked; `-` is standard input."""
    if names.count(STANDARD_INPUT) > 1:
        raise InputError("- is named twice, but standard input can be read only once")
    return [_read(name, stdin) for name in names]


def _read(name: str, stdin: BinaryIO | None) -> Text:
    if name == STANDARD_INPUT:
        text = Text("standard input", (stdin or sys.stdin.buffer).read())
    else:
        text = Text(name, _file_content(Path(name)))
    if not text.content:
        raise InputError(f"{text.name} is empty: there is nothing to count")
    return text


def _file_content(path: Path) -> bytes:
    try:
        with open_regular(path, shell_pipes=True) as file:
            return unpacked(file, str(path)) if path.suffix == ".gz" else file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}): pack it again, or rename it") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def symbol_codes(texts: Sequence[Text], symbols: Symbols) -> NDArray[np.integer[Any]]:
    """A whole number for each symbol; which number is which symbol does not matter here."""
    if symbols not in SYMBOLS:
        raise InputError(f"symbols {symbols!r} must be one of {', '.join(SYMBOLS)}")
    if symbols == "bytes":
        codes: NDArray[np.integer[Any]] = np.frombuffer(b"".join(text.content for text in texts), dtype=np.uint8)
    elif symbols == "characters":
        codes = np.frombuffer("".join(map(_decoded, texts)).encode("utf-32-le"), dtype="<u4")
    else:
        codes = _word_codes("\n".join(map(_decoded, texts)).encode())
    if not len(codes):
        raise InputError(f"{' and '.join(text.name for text in texts)} holds no {symbols}: there is nothing to count")
    return codes


def _decoded(text: Text) -> str:
    try:
        return text.content.removeprefix(_BYTE_ORDER_MARK).decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{text.name}, line {line}: the byte 0x{error.object[error.start]:02x} is not UTF-8; convert the text, "
            "or count its bytes (--symbols bytes)"
        ) from error


def _word_codes(content: bytes) -> NDArray[np.int64]:
    """Words as `howsure.models.text` has them: all that is white space there becomes a space, then they are split."""
    spaced = np.where(is_space(content), np.uint8(ord(" ")), np.frombuffer(content, dtype=np.uint8))
    words = spaced.tobytes().split()
    numbers: defaultdict[bytes, int] = defaultdict(itertools.count().__next__)
    return np.fromiter(map(numbers.__getitem__, words), dtype=np.int64, count=len(words))


# -- small things -----------------------------------------------------------------------------------------------------


def perplexity_of(bits: float) -> float:
    """2^H; infinite where that is beyond floating point."""
    with np.errstate(over="ignore"):
        return float(np.exp2(bits))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
