"""The theorem, seen: −(1/n) log₂ m(w_1 … w_n) of one long text settles, and where it settles is known beforehand.

Question: why may the perplexity of one text stand for a whole language, and what does a worse model change?
Data: texts drawn from a small language of six words, a Markov source whose entropy rate is known in closed form.
Measure: bits per word of the first n words, under the true model and under models learned from little text.
What comes out: for growing n these bits along one path, the band of many paths, and each model's limit. The true model
nears the entropy rate (Shannon, McMillan, Breiman); every other one nears its cross-entropy rate, which lies above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from howsure.errors import InputError
from howsure.measures import MarkovModel, MarkovSource, estimate_markov, nats_to_bits
from howsure.options import takes
from howsure.studies.entropy import perplexity_of
from howsure.studies.options import SHORTEST_POWER, Learner, TheoremOptions
from howsure.types import html_of

Array = NDArray[np.float64]

WORDS = ("the", "dog", "cat", "sees", "sleeps", ".")
SOURCE = MarkovSource(
    np.array(
        [  # the   dog   cat  sees  sleeps  .
            [0.00, 0.60, 0.40, 0.00, 0.00, 0.00],  # the
            [0.00, 0.00, 0.00, 0.45, 0.50, 0.05],  # dog
            [0.00, 0.05, 0.00, 0.25, 0.70, 0.00],  # cat
            [0.80, 0.05, 0.05, 0.00, 0.00, 0.10],  # sees
            [0.05, 0.00, 0.00, 0.00, 0.05, 0.90],  # sleeps
            [0.90, 0.06, 0.04, 0.00, 0.00, 0.00],  # .
        ]
    )
)
"""A language of six words, in which a word says much about the next: 0.89 bits are left of the 2.52 of a word alone."""

BAND = (0.1, 0.9)
"""The quantiles over the paths between which the band lies."""


@dataclass(frozen=True)
class Curve:
    """One model along the texts: bits per word of the first n words, for each length n.

    `path_bits` is one path; `low_bits` and `high_bits` hold eight in ten of all paths. `limit_bits` is in closed form.
    `learner` is None for the true model.
    """

    name: str
    learner: Learner | None
    limit_bits: float
    path_bits: tuple[float, ...]
    low_bits: tuple[float, ...]
    high_bits: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "order": 1 if self.learner is None else self.learner.order,
            "training_count": None if self.learner is None else self.learner.training_count,
            "add_k": None if self.learner is None else self.learner.add_k,
            "limit_bits": self.limit_bits,
            "limit_perplexity": perplexity_of(self.limit_bits),
            "path_bits": list(self.path_bits),
            "path_perplexity": [perplexity_of(bits) for bits in self.path_bits],
            "low_bits": list(self.low_bits),
            "high_bits": list(self.high_bits),
        }


@dataclass(frozen=True)
class Theorem:
    """All models along the same texts; the first curve is the true model's, whose limit is the entropy rate."""

    seed: int
    paths: int
    lengths: tuple[int, ...]
    curves: tuple[Curve, ...]

    @property
    def entropy_rate_bits(self) -> float:
        return self.curves[0].limit_bits

    def to_dict(self) -> dict[str, Any]:
        return {
            "words": list(WORDS),
            "seed": self.seed,
            "paths": self.paths,
            "band_quantiles": list(BAND),
            "entropy_rate_bits": self.entropy_rate_bits,
            "lengths": list(self.lengths),
            "curves": [curve.to_dict() for curve in self.curves],
        }

    def _repr_html_(self) -> str:
        return html_of(self)


@takes(TheoremOptions)
def theorem(options: TheoremOptions) -> Theorem:
    """Draw the texts, learn the models from other texts, and measure them all at growing lengths."""
    lengths, learners = growing_lengths(options.longest), options.learners
    for_training, for_paths = np.random.SeedSequence(options.seed).spawn(2)
    models = [SOURCE.model, *_learned(learners, for_training)]
    bits = _measured(models, lengths, for_paths.spawn(options.paths))
    named: list[tuple[str, Learner | None]] = [("true model", None), *((one.name, one) for one in learners)]
    curves = [
        _curve(name, learner, model, measured)
        for (name, learner), model, measured in zip(named, models, bits, strict=True)
    ]
    return Theorem(options.seed, options.paths, lengths, tuple(curves))


def growing_lengths(longest: int) -> tuple[int, ...]:
    """16, 32, 64, … up to `longest`, which ends the row whether or not it is a power of two.

    >>> growing_lengths(100)
    (16, 32, 64, 100)
    """
    powers = [1 << power for power in range(SHORTEST_POWER, longest.bit_length())]
    return tuple(powers) if powers[-1] == longest else (*powers, longest)


def _learned(learners: Sequence[Learner], seed: np.random.SeedSequence) -> list[MarkovModel]:
    """All learn from the same text, of which each reads as much as it may: what differs is the model, not the luck."""
    if not learners:
        return []
    if bad := [one for one in learners if not one.add_k > 0]:
        raise InputError(f"add_k {bad[0].add_k!r} of {bad[0].name!r} must be above 0, or its limit is infinite")
    text = SOURCE.sample(max(one.training_count for one in learners), seed)
    return [estimate_markov(text[: one.training_count], len(WORDS), one.order, one.add_k) for one in learners]


def _measured(models: Sequence[MarkovModel], lengths: Sequence[int], seeds: Sequence[np.random.SeedSequence]) -> Array:
    """Bits per word, [models × paths × lengths]; one path is in memory at a time."""
    ends = np.array(lengths)
    bits = np.empty((len(models), len(seeds), len(lengths)))
    for place, seed in enumerate(seeds):
        path = SOURCE.sample(int(ends[-1]), seed)
        for row, model in enumerate(models):
            bits[row, place] = nats_to_bits(-model.log_likelihoods_nats(path)[ends - 1] / ends)
    return bits


def _curve(name: str, learner: Learner | None, model: MarkovModel, bits: Array) -> Curve:
    low, high = np.quantile(bits, BAND, axis=0)
    limit = nats_to_bits(SOURCE.cross_entropy_rate_nats(model))
    return Curve(name, learner, limit, tuple(bits[0].tolist()), tuple(low.tolist()), tuple(high.tolist()))
