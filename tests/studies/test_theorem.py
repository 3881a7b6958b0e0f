"""The theorem, seen: limits in closed form, paths that near them, and the same seed giving the same figures."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from howsure.errors import InputError
from howsure.measures import MarkovModel, entropy_nats, estimate_markov
from howsure.studies.options import LEARNERS, Learner
from howsure.studies.theorem import BAND, SOURCE, WORDS, Theorem, growing_lengths, theorem


@pytest.fixture(scope="module")
def found() -> Theorem:
    return theorem(longest=1 << 14, paths=16, seed=3)


def test_the_source_is_clearly_not_uniform_and_its_rate_the_sum_written_out() -> None:
    p, pi = SOURCE.transitions, SOURCE.stationary
    rate = -sum(pi[i] * x * math.log2(x) for i, row in enumerate(p) for x in row if x > 0)
    assert SOURCE.entropy_rate_nats / math.log(2) == pytest.approx(rate)
    assert rate == pytest.approx(0.892, abs=5e-4)
    assert entropy_nats(pi) / math.log(2) == pytest.approx(2.524, abs=5e-4)
    assert len(WORDS) == len(p)


def test_every_path_ends_near_its_limit_and_the_band_narrows(found: Theorem) -> None:
    assert found.curves[0].learner is None
    assert found.entropy_rate_bits == pytest.approx(SOURCE.entropy_rate_nats / math.log(2))
    for curve in found.curves:
        spread = [high - low for low, high in zip(curve.low_bits, curve.high_bits, strict=True)]
        assert min(spread) >= 0
        assert spread[-1] < spread[0] / 8, "1,024 times the text: a 32nd of the spread, more or less"
        assert curve.low_bits[-1] - 0.02 < curve.limit_bits < curve.high_bits[-1] + 0.02
        assert curve.path_bits[-1] == pytest.approx(curve.limit_bits, abs=0.05)


def test_only_the_true_model_reaches_the_entropy_rate(found: Theorem) -> None:
    true, order_0, little, more = (curve.limit_bits for curve in found.curves)
    assert true < more < little < order_0, "more text and a longer memory help, and nothing beats the truth"
    assert order_0 >= entropy_nats(SOURCE.stationary) / math.log(2)
    assert found.curves[1].path_bits[-1] > found.entropy_rate_bits + 1


def test_the_path_is_that_of_the_definition() -> None:
    """Everything drawn again by hand from the same seed: −(1/n) log₂ of a product of probabilities."""
    found = theorem(longest=32, paths=4, seed=7)
    training, paths = np.random.SeedSequence(7).spawn(2)
    text = SOURCE.sample(500, training)
    models: list[MarkovModel] = [SOURCE.model]
    models += [estimate_markov(text[: one.training_count], 6, one.order, one.add_k) for one in LEARNERS]
    drawn = [SOURCE.sample(32, seed) for seed in paths.spawn(4)]
    for curve, model in zip(found.curves, models, strict=True):
        bits = np.array([[naive_bits(model, path[:n]) for n in (16, 32)] for path in drawn])
        np.testing.assert_allclose(curve.path_bits, bits[0])
        np.testing.assert_allclose(curve.low_bits, np.quantile(bits, BAND[0], axis=0))
        np.testing.assert_allclose(curve.high_bits, np.quantile(bits, BAND[1], axis=0))


def naive_bits(model: MarkovModel, path: np.ndarray) -> float:
    product = model.initial[path[0]]
    for before, after in pairwise(path):
        product *= model.transitions[before, after]
    return -math.log2(product) / len(path)


def test_the_seed_decides_everything() -> None:
    first, again, other = (theorem(longest=64, paths=2, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.curves[0].path_bits != other.curves[0].path_bits
    assert first.curves[1].limit_bits != other.curves[1].limit_bits, "the training text is drawn too"


def test_as_data(found: Theorem) -> None:
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["lengths"] == [1 << power for power in range(4, 15)]
    assert (data["seed"], data["paths"], data["words"]) == (3, 16, list(WORDS))
    assert [curve["training_count"] for curve in data["curves"]] == [None, 500, 50, 500]
    for curve in data["curves"]:
        assert curve["limit_perplexity"] == pytest.approx(2 ** curve["limit_bits"])
        assert curve["path_perplexity"] == pytest.approx([2**bits for bits in curve["path_bits"]])


def test_lengths_double_and_end_where_they_are_told() -> None:
    assert growing_lengths(16) == (16,)
    assert growing_lengths(64) == (16, 32, 64)
    assert growing_lengths(100) == (16, 32, 64, 100)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"longest": 15}, "--longest must be 16 to 16777216, not 15"),
        ({"paths": 1}, "--paths must be at least 2, not 1"),
        ({"learners": [Learner("bare", 1, 50, 0.0)]}, "add_k 0.0 of 'bare' must be above 0"),
        ({"learners": [Learner("nothing", 1, 0, 0.5)]}, "n 0 must be at least 1"),
    ],
)
def test_what_shows_nothing_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        theorem(**{"longest": 64, "paths": 2, "seed": 0, **options})


def test_without_learners_there_is_the_truth_alone() -> None:
    assert [curve.name for curve in theorem(longest=32, paths=2, learners=(), seed=0).curves] == ["true model"]
