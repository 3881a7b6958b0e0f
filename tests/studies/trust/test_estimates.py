"""Figures over steps: by hand, against a naive second writing, and where there is little or nothing to tell."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.measures import (
    LEAST_GAIN_BITS,
    auroc,
    mean_interval,
    overconfidence_interval,
    share_interval,
    trust,
    trust_of_each,
    trust_over_steps,
)
from howsure.studies.trust.estimates import SHOWN_EPISODES, StepSummary, confidence, summarise, sureness
from howsure.studies.trust.ratio import estimate
from howsure.studies.trust.steps import NOT_GIVEN, Step, Steps


def step(episode: str, *bits: float | None, **more: Any) -> Step:
    return Step(episode, None, *bits, **more)


def random_steps(n: int = 60, episodes: int = 6, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    rows = rng.uniform([2, 1, 0], [3, 2.4, 1.6], size=(n, 3)).tolist()
    return [Step(f"e{i % episodes}", i // episodes, *row) for i, row in enumerate(rows)]


def told(episodes: int, *bits: float, spread: float = 0.02) -> list[Step]:
    """Two steps in each of some episodes, near these entropies."""
    rng = np.random.default_rng(1)
    rows = np.array(bits) + rng.normal(0, spread, size=(2 * episodes, 3))
    return [step(f"e{i // 2}", *row) for i, row in enumerate(rows.tolist())]


FIVE = [
    step("a", 2.0, 1.0, 0.5),  # T = 2/3, in order
    step("a", 2.0, 2.5, 1.0),  # T = −1/2, grounding adds doubt
    step("b", 2.0, 0.5, 1.0),  # T = 3/2, the instruction adds doubt
    step("b", 1.0, 0.5, 1.0),  # the denominator is zero
    step("b", 2.0, None, 1.0, reasons={"h_x_given_s": "no_logprobs"}),
]


def test_five_steps_by_hand() -> None:
    found = summarise(FIVE, seed=0)
    assert (found["rows"]["count"], found["rows"]["of"], found["rows"]["value"]) == (4, 5, 0.8)
    assert (found["rows"]["low"], found["rows"]["high"]) == (None, None), "two episodes have no interval"
    assert found["missing"]["rows"] == {"no_logprobs": 1}
    assert found["missing"]["by_entropy"] == {"h_x": {}, "h_x_given_s": {"no_logprobs": 1}, "h_x_given_ls": {}}
    means = [entry["value"] for entry in found["mean_entropy_bits"].values()]
    assert means == pytest.approx([7 / 4, 4.5 / 4, 3.5 / 4])
    ordering = found["ordering"]
    assert ordering["both"]["count"] == 1
    assert ordering["h_x_at_least_h_x_given_s"]["count"] == 3
    assert ordering["h_x_given_s_at_least_h_x_given_ls"]["count"] == 2
    assert ordering["both"]["of"] == 4
    steps = found["per_step"]
    assert (steps["gained"], steps["lost"], steps["too_small"]) == (3, 0, 1)
    assert [steps[name]["count"] for name in ("in_0_1", "below_0", "above_1")] == [1, 1, 1]
    assert steps["median"] == pytest.approx(2 / 3)
    assert found["trust"]["delta_h_s_bits"]["value"] == pytest.approx(2.5 / 4)
    assert found["trust"]["delta_h_ls_bits"]["value"] == pytest.approx(3.5 / 4)
    assert found["episode_count"] == 2
    assert [(entry["episode"], entry["rows"], entry["complete"]) for entry in found["episodes"]] == [
        ("a", 2, 2),
        ("b", 3, 2),
    ]
    assert [entry["delta_h_s_bits"] for entry in found["episodes"]] == pytest.approx([0.25, 1.0])
    assert found["sureness"] is None


def test_there_is_no_mean_of_ratios() -> None:
    """One step with a denominator near zero would decide it."""
    rows = [*random_steps(), step("e0", 2.0, 1.0, 2.0 - 1e-9)]
    found = summarise(rows, seed=0)
    assert trust(2.0, 1.0, 2.0 - 1e-9) > 1e8  # type: ignore[operator]
    assert 0 < found["trust"]["value"] < 1
    assert 0 < found["per_step"]["median"] < 1
    assert "mean" not in found["per_step"]


def test_a_step_that_lost_has_no_share_of_a_gain() -> None:
    """ΔH_S = −0.1 of ΔH_L,S = −0.3: as a ratio a third, and no third of anything gained."""
    found = summarise([step("a", 1.0, 1.1, 1.3), step("a", 2.0, 1.0, 0.0), step("a", 2, 1, 1.995)], seed=0)["per_step"]
    assert (found["gained"], found["lost"], found["too_small"], found["median"]) == (1, 1, 1, 0.5)
    assert (found["in_0_1"]["count"], found["in_0_1"]["of"]) == (1, 1)


def test_a_first_missing_entropy_gives_its_row_the_reason() -> None:
    rows = [
        step("a", None, None, 1.0, reasons={"h_x": "unparsable", "h_x_given_s": "no_logprobs"}),
        step("a", 1.0, math.nan, None),
    ]
    found = summarise(rows, seed=0)
    assert found["missing"]["rows"] == {NOT_GIVEN: 1, "unparsable": 1}
    assert found["missing"]["by_entropy"]["h_x_given_s"] == {"no_logprobs": 1, NOT_GIVEN: 1}
    assert found["missing"]["by_entropy"]["h_x_given_ls"] == {NOT_GIVEN: 1}


# -- the ordering --------------------------------------------------------------------------------------------------


def test_equal_up_to_rounding_is_in_order() -> None:
    found = summarise([step("a", 1.0, 1.0 + 9e-10, 1.0 + 1.7e-9), step("a", 1.0, 1.0 + 2e-9, 0.0)], seed=0)
    assert found["ordering"]["both"]["count"] == 1
    assert found["ordering"]["tolerance_bits"] == 1e-9


def test_the_ordering_is_of_steps_whose_prompts_differ() -> None:
    """Two steps asked twice with the same words, which gives the same entropy, or another one by luck."""
    rows = [
        step("a", 2.0, 2.0, 1.0, grounded=False, instructed=True),
        step("a", 2.0, 1.9, 2.1, grounded=True, instructed=False),
        step("a", 2.0, 1.9, 1.0, grounded=True, instructed=True),
        step("a", 2.0, 1.9, 1.95, grounded=True, instructed=True),
    ]
    found = summarise(rows, seed=0)["ordering"]
    counted = {
        name: (found[name].count, found[name].of, found[name].same_prompt) for name in found if name != "tolerance_bits"
    }
    assert counted == {
        "both": (1, 2, 2),
        "h_x_at_least_h_x_given_s": (3, 3, 1),
        "h_x_given_s_at_least_h_x_given_ls": (2, 3, 1),
    }
    notes = summarise(rows, seed=0)["notes"]
    assert "2 steps asked two conditions with the same prompt, and are left out of the ordering" in notes


@pytest.mark.parametrize(
    ("flags", "bits", "why"),
    [
        ({"grounded": False, "instructed": True}, (2.0, 1.99, 1.0), "X and X|S are the same prompt"),
        ({"grounded": True, "instructed": False}, (2.0, 1.5, 1.49), "X|S and X|L,S are the same prompt"),
        ({}, (2.0, 2.0, 1.0), "X and X|S are the same prompt"),  # a log that does not say so, and is so all the same
        ({}, (2.0, 1.0, 1.0), "X|S and X|L,S are the same prompt"),
    ],
)
def test_the_same_prompt_has_neither_an_order_nor_a_trust(
    flags: dict[str, bool], bits: tuple[float, ...], why: str
) -> None:
    rows = [step(f"e{i % 8}", *(b + 0.01 * (i % 5) for b in bits), **flags) for i in range(16)]
    found = summarise(rows, seed=0)
    order = found["headline"][-1]
    assert (order["name"], order["value"], order["note"]) == ("ordering holds", None, why)
    assert found["trust"]["value"] is None
    assert why in found["trust"]["reason"]
    assert why in found["headline"][0]["note"]
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


# -- T -------------------------------------------------------------------------------------------------------------


def test_whole_episodes_are_the_units_of_every_interval() -> None:
    rows = random_steps(episodes=12)
    found = summarise(rows, seed=3)
    h_x, h_xs, h_xls = zip(*(row.bits for row in rows), strict=True)
    labels = [row.episode for row in rows]
    expected = trust_over_steps(h_x, h_xs, h_xls, labels, floor=LEAST_GAIN_BITS)
    assert expected.interval is not None
    assert expected.numerator_interval is not None
    assert (found["trust"]["value"], found["trust"]["low"], found["trust"]["high"]) == pytest.approx(
        (expected.trust, expected.interval.low, expected.interval.high)
    )
    assert found["trust"]["method"] == "Fieller over 12 clusters"
    assert found["trust"]["delta_h_s_bits"]["low"] == pytest.approx(expected.numerator_interval.low)
    assert found["trust"]["independent_episodes"] == 12
    mean = mean_interval(h_x, clusters=labels)
    assert mean is not None
    assert found["mean_entropy_bits"]["h_x"]["low"] == pytest.approx(mean.low)
    holds = [x >= xs >= xls for x, xs, xls in zip(h_x, h_xs, h_xls, strict=True)]
    order = share_interval(holds, clusters=labels)
    assert order is not None
    assert found["ordering"]["both"]["low"] == pytest.approx(order.low)


def test_the_headline_has_fiellers_interval() -> None:
    found = summarise(random_steps(), seed=0)
    figure = found["headline"][0]
    assert (figure["name"], figure["value"]) == ("trust T", found["trust"]["value"])
    assert (figure["low"], figure["high"]) == (found["trust"]["low"], found["trust"]["high"])
    assert figure["method"].startswith("Fieller")
    assert figure["approximate"] is True, "six episodes"
    assert figure["note"] is None


@pytest.mark.parametrize(
    ("known", "note"),
    [
        (2.2, "below 0: by grounding alone it became less sure"),
        (0.5, "above 1: by grounding alone it became surer than by both"),
        (1.5, None),
    ],
)
def test_a_trust_beyond_a_share_says_what_it_is(known: float, note: str | None) -> None:
    figure = summarise(told(8, 2.0, known, 1.0), seed=0)["headline"][0]
    assert figure["value"] == pytest.approx(2.0 - known, abs=0.05)
    assert figure["note"] == note


@pytest.mark.parametrize("episodes", [1, 2, 3, 4])
def test_fewer_than_five_episodes_identify_nothing_and_have_no_interval(episodes: int) -> None:
    found = summarise(random_steps(episodes=episodes, n=400), seed=0)
    noun = "1 episode" if episodes == 1 else f"{episodes} episodes"
    assert found["trust"]["reason"] == f"{noun}, and T takes at least 5"
    assert found["trust"]["value"] is None
    assert found["headline"][0]["note"] == f"not identified: {noun}, and T takes at least 5"
    doubts = [found["rows"], *found["mean_entropy_bits"].values(), found["trust"]["delta_h_ls_bits"]]
    doubts += [found["ordering"]["both"], found["per_step"]["in_0_1"], found["trust"]]
    assert all(one["low"] is None and one["high"] is None for one in doubts)
    for figure in found["headline"][1:]:
        assert figure["value"] is not None
        assert figure["note"].startswith(f"no interval: {noun}, and it takes at least 5")
    assert any("not independent" in note for note in found["notes"])


def ar1(rng: np.random.Generator, episodes: int, steps: int, phi: float = 0.8) -> np.ndarray[Any, Any]:
    """Autocorrelated noise of variance 1 in each episode, by itself."""
    noise = rng.normal(size=(episodes, steps))
    for i in range(1, steps):
        noise[:, i] = phi * noise[:, i - 1] + math.sqrt(1 - phi**2) * noise[:, i]
    return noise


@pytest.mark.parametrize(("episodes", "at_most"), [(1, 0.0), (5, 0.05), (12, 0.05)])
def test_a_true_denominator_of_zero_is_hardly_ever_called_identified(episodes: int, at_most: float) -> None:
    """Told everything the model gains nothing: T must not come out, however its steps hang together."""
    rng = np.random.default_rng(episodes)
    runs, called = 600, 0
    for _ in range(runs):
        d, n = ar1(rng, episodes, 20), ar1(rng, episodes, 20)
        bits = np.column_stack([np.full(20 * episodes, 9.0), 8.5 - 0.3 * n.ravel(), 9.0 - 0.3 * d.ravel()])
        rows = [step(str(i // 20), *row) for i, row in enumerate(bits.tolist())]
        called += estimate(Steps.of(rows))["identified"]
    assert called / runs <= at_most


def test_a_denominator_too_small_to_matter_identifies_nothing() -> None:
    """1e-7 bits, at every step: clear, and no gain to have shares of."""
    rows = [step(f"e{i}", 1.0, 0.9 + 0.001 * i, 1.0 - 1e-7) for i in range(12)]
    found = summarise(rows, seed=0)
    assert found["trust"]["why"] == "below_floor"
    assert found["trust"]["reason"] == (
        "ΔH_L,S of 1e-07 bits is below the floor of 0.01 bits: too small to have shares"
    )
    assert found["headline"][0]["value"] is None
    assert found["headline"][2]["value"] == pytest.approx(1e-7, rel=1e-6)
    above = summarise([step(f"e{i}", 1.0, 0.999 - 1e-5 * i, 0.989) for i in range(12)], seed=0)
    assert above["trust"]["identified"], "0.011 bits have shares"
    assert above["trust"]["floor_bits"] == 0.01


def test_a_loss_of_both_is_not_a_gain() -> None:
    """−0.1 of −0.3: the model became less sure, and nothing is a third of that."""
    found = summarise(told(8, 1.5, 1.6, 1.8), seed=0)
    trust_found = found["trust"]
    assert (trust_found["value"], trust_found["low"], trust_found["why"]) == (None, None, "below_zero")
    low, high = trust_found["delta_h_ls_bits"]["low"], trust_found["delta_h_ls_bits"]["high"]
    assert high < 0
    reason = f"ΔH_L,S is below zero (about {low:.3f} to {high:.3f} bits): told everything, the model was less sure"
    assert trust_found["reason"] == reason
    figures = {figure["name"]: figure for figure in found["headline"]}
    assert figures["trust T"]["note"] == f"not identified: {reason}"
    assert figures["ΔH_S"]["value"] == pytest.approx(-0.1, abs=0.02)
    assert figures["ΔH_L,S"]["value"] == pytest.approx(-0.3, abs=0.02)
    assert found["per_step"]["lost"] == 16
    assert found["per_step"]["in_0_1"]["of"] == 0


def test_not_clearly_above_zero_has_no_value_and_says_between_what() -> None:
    rng = np.random.default_rng(2)
    rows = [step(f"e{i % 10}", 2.0, 1.5 - e, 2.0 - d) for i, (e, d) in enumerate(rng.normal(0, 0.3, (50, 2)).tolist())]
    found = summarise(rows, seed=0)["trust"]
    low, high = found["delta_h_ls_bits"]["low"], found["delta_h_ls_bits"]["high"]
    assert low < 0 < high
    assert (found["value"], found["identified"], found["why"]) == (None, False, "not_above_zero")
    said = re.fullmatch(r"ΔH_L,S is not clearly above zero \(99% interval (-\S+) to (\S+) bits\)", found["reason"])
    assert said is not None
    assert float(said[1]) < low < high < float(said[2]), "wider than the 95 % that are shown"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no step has all three entropies"),
        ([step("a", None, 1.0, 0.5)], "no step has all three entropies"),
        ([step("a", 2.0, 1.0, 0.5)], "1 episode, and T takes at least 5"),
        ([step(f"e{i}", 2.0, 1.0 + 0.1 * i, 2.0) for i in range(6)], "not clearly above zero (0.000 bits)"),
    ],
)
def test_too_little_to_tell(rows: list[Step], words: str) -> None:
    found = summarise(rows, seed=0)
    assert words in found["trust"]["reason"]
    assert found["trust"]["value"] is None
    assert words in found["headline"][0]["note"]
    assert found["coverage"]["items"] == len(rows)
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


def test_what_never_varies_has_no_interval_and_says_so() -> None:
    found = summarise([step(f"e{i}", 2.0, 1.5, 1.0) for i in range(6)], seed=0)
    figures = {figure["name"]: figure for figure in found["headline"]}
    assert (figures["trust T"]["value"], found["trust"]["why"]) == (None, "alike")
    assert "the same in all of 6 episodes" in figures["trust T"]["note"]
    for name in ("ΔH_S", "ΔH_L,S"):
        assert (figures[name]["low"], figures[name]["note"]) == (None, "no interval: the same in every episode")
    assert figures["ordering holds"]["low"] < 1.0, "six of six are not certain"


# -- entropies of which only the likeliest tokens are known -----------------------------------------------------------


def bounded(width: float, episodes: int = 8) -> list[Step]:
    """Entropies that lie up to `width` above their bucket value."""
    return [
        msgspec.structs.replace(row, low_bits=row.bits, high_bits=tuple(b + width for b in row.bits))  # type: ignore[operator]
        for row in told(episodes, 2.0, 1.5, 1.0)
    ]


def test_trust_carries_the_bounds_of_its_entropies() -> None:
    found = summarise(bounded(0.1), seed=0)
    x, xs, xls = (entry["value"] for entry in found["mean_entropy_bits"].values())
    ends = [(x - xs - 0.1) / (x - xls), (x - xs + 0.1) / (x - xls), (x - xs) / (x - xls - 0.1)]
    ends += [(x + 0.1 - xs) / (x + 0.1 - xls - 0.1), (x - xs - 0.1) / (x - xls - 0.1), (x + 0.1 - xs) / (x + 0.1 - xls)]
    assert found["trust"]["bounds"]["low"] == pytest.approx(min(ends))
    assert found["trust"]["bounds"]["high"] == pytest.approx(max(ends))
    words = f"between {min(ends):.3f} and {max(ends):.3f} whatever the unlisted tokens are"
    assert found["headline"][0]["note"] == words
    assert any(words in note and "2^20 tokens is assumed" in note for note in found["notes"])


def test_unlisted_tokens_that_could_turn_trust_around_leave_none() -> None:
    found = summarise(bounded(1.2), seed=0)["trust"]
    assert (found["value"], found["bounds"], found["why"]) == (None, None, "unlisted_tokens")
    assert "could put ΔH_L,S anywhere from -0.2" in found["reason"]
    unknown = [msgspec.structs.replace(row, high_bits=(None, None, None)) for row in bounded(0.1)]
    found = summarise(unknown, seed=0)["trust"]
    assert (found["value"], found["why"]) == (None, "unlisted_tokens")
    assert "not known" in found["reason"]


def test_the_size_of_a_vocabulary_that_is_not_given_is_the_largest_there_is() -> None:
    """A probability of 0.01 on 2^20 tokens adds at most 0.2 bits; what is known counts before that."""
    unlisted = [msgspec.structs.replace(row, high_bits=(None,) * 3, unlisted=(0.01,) * 3) for row in bounded(0.1)]
    given = [msgspec.structs.replace(row, high_bits=tuple(b + 0.2 for b in row.bits)) for row in unlisted]  # type: ignore[operator]
    assert summarise(unlisted, seed=0)["trust"]["bounds"] == pytest.approx(summarise(given, seed=0)["trust"]["bounds"])
    exact = [msgspec.structs.replace(row, exact_bits=(row.bits[0] + 0.1, 1.8, 1.0)) for row in unlisted]  # type: ignore[operator]
    found = summarise(exact, seed=0)["trust"]
    mean = float(np.mean([row.bits[0] for row in unlisted])) + 0.1  # type: ignore[arg-type]
    assert found["value"] == pytest.approx((mean - 1.8) / (mean - 1.0)), "known exactly, it is not that of the bucket"
    assert found["bounds"] == pytest.approx({"low": found["value"], "high": found["value"]})


def test_why_there_is_no_order_is_said_of_each_part() -> None:
    bare = [msgspec.structs.replace(row, grounded=False, instructed=False) for row in told(6, 2.0, 1.5, 1.0)]
    order = summarise(bare, seed=0)["ordering"]
    assert order["both"]["reason"] == order["h_x_at_least_h_x_given_s"]["reason"] == "X and X|S are the same prompt"
    assert order["h_x_given_s_at_least_h_x_given_ls"]["reason"] == "X|S and X|L,S are the same prompt"
    either = [
        msgspec.structs.replace(row, grounded=i % 2 == 0, instructed=i % 2 == 1)
        for i, row in enumerate(told(6, 2.0, 1.5, 1.0))
    ]
    order = summarise(either, seed=0)["ordering"]
    assert order["both"]["reason"] == "no step has both grounding and an instruction"
    assert order["h_x_at_least_h_x_given_s"]["of"] == 6


def test_an_order_that_unlisted_tokens_leave_open_is_not_counted() -> None:
    """H(X) in 2 to 2.6, H(X|S) in 1.5 to 2.1: open. Bounds of 0.1 leave nothing open, and exact entropies neither."""
    order = summarise(bounded(0.6), seed=0)["ordering"]
    assert (order["both"]["of"], order["both"]["undecided"]) == (0, 16)
    assert order["both"]["reason"] == "the tokens that are not listed leave it open"
    order = summarise(bounded(0.1), seed=0)["ordering"]
    assert (order["both"]["count"], order["both"]["of"], order["both"]["undecided"]) == (16, 16, 0)
    turned = [msgspec.structs.replace(row, high_bits=(2.6, 2.1, 3.9), low_bits=(2.0, 1.5, 2.2)) for row in bounded(0.1)]
    order = summarise(turned, seed=0)["ordering"]["both"]
    assert (order["count"], order["of"], order["undecided"]) == (0, 16, 0), "one part that surely fails decides"


def test_an_entropy_lies_within_its_bounds() -> None:
    """The bucket of all unlisted tokens is one outcome: what they add at least may be more, and T is made of that."""
    rows = [
        msgspec.structs.replace(
            row, low_bits=tuple(b + 0.3 for b in row.bits), high_bits=tuple(b + 0.4 for b in row.bits)
        )  # type: ignore[operator]
        for row in told(8, 2.0, 1.9, 1.0)
    ]
    rows = [msgspec.structs.replace(row, low_bits=(row.low_bits[0], *row.bits[1:])) for row in rows]
    found = summarise(rows, seed=0)["trust"]
    assert found["bounds"]["low"] <= found["value"] <= found["bounds"]["high"]
    assert found["low"] <= found["value"] <= found["high"]


def test_bounds_of_a_gain_below_the_floor_are_none() -> None:
    """ΔH_L,S is at least 0.005 bits: nothing that T could be a share of."""
    found = summarise(bounded(0.5), seed=0)["trust"]
    assert found["bounds"] is not None
    found = summarise(bounded(0.99), seed=0)["trust"]
    assert (found["bounds"], found["why"]) == (None, "unlisted_tokens")


def test_t_that_is_not_clearly_below_zero_is_not_called_so() -> None:
    rows = [step(f"e{i // 2}", 2.0, 2.02 + 0.2 * (-1) ** (i // 2), 1.0 + 0.01 * i) for i in range(16)]
    found = summarise(rows, seed=0)
    assert found["trust"]["value"] < 0 < found["trust"]["high"]
    assert found["headline"][0]["note"] == "below 0, though not clearly"
    clear = summarise([step(f"e{i // 2}", 2.0, 2.3 + 0.01 * i, 1.0 + 0.01 * i) for i in range(16)], seed=0)
    assert clear["headline"][0]["note"] == "below 0: by grounding alone it became less sure"


def test_entropies_that_differ_by_rounding_are_of_one_prompt() -> None:
    rows = [step(f"e{i // 2}", 2.0, 2.0 + 1e-12 * i, 1.0 + 0.01 * i) for i in range(16)]
    found = summarise(rows, seed=0)
    assert found["trust"]["why"] == "no_grounding"
    assert found["per_step"]["same_prompt"] == 16


def test_entropies_that_are_what_they_are_have_no_bounds() -> None:
    assert summarise(told(8, 2.0, 1.5, 1.0), seed=0)["trust"]["bounds"] is None


# -- the summary ---------------------------------------------------------------------------------------------------


def test_the_summary_is_plain_data_in_the_common_form() -> None:
    found = summarise(FIVE, seed=0, notes=["a remark"])
    plain = msgspec.to_builtins(found)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert msgspec.convert(plain, StepSummary) == found
    assert found["study"] == "trust"
    assert found["coverage"]["text"] == "scored 4 of 5; 1 missing: 1 no logprobs"
    names = ["trust T", "ΔH_S", "ΔH_L,S", "rows complete", "ordering holds"]
    assert [entry["name"] for entry in found["headline"]] == names
    assert found["notes"][-1] == "a remark"


def test_the_same_twice_and_in_any_order_of_episodes() -> None:
    rows = random_steps()
    assert summarise(rows, seed=1) == summarise(rows, seed=1)
    turned = sorted(rows, key=lambda row: row.episode, reverse=True)
    first, second = summarise(rows, seed=1)["trust"], summarise(turned, seed=2)["trust"]
    assert second["value"] == pytest.approx(first["value"], rel=1e-12)
    assert second["low"] == pytest.approx(first["low"], rel=1e-9), "no interval depends on the seed"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.one_of(st.none(), st.floats(0, 5), st.sampled_from([0.0, 1.0, 1.0 + 5e-11]))] * 3), max_size=8
    )
)
def test_trust_of_each_step_is_that_of_the_measures(rows: list[tuple[float | None, ...]]) -> None:
    bits = np.array(rows, dtype=np.float64).reshape(-1, 3)
    expected = [trust(*row) for row in rows]  # type: ignore[arg-type]
    assert trust_of_each(*bits.T) == pytest.approx([math.nan if t is None else t for t in expected], nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdefg"),
            *[st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 4))] * 3,
        ),
        max_size=24,
    )
)
def test_any_steps_give_a_summary_without_nan_whose_counts_add_up(rows: list[tuple[Any, ...]]) -> None:
    found = summarise([step(*row) for row in rows], seed=0)
    json.dumps(msgspec.to_builtins(found), allow_nan=False)
    assert found["rows"]["count"] + sum(found["missing"]["rows"].values()) == found["rows"]["of"] == len(rows)
    steps = found["per_step"]
    assert steps["gained"] + steps["lost"] + steps["too_small"] + steps["same_prompt"] == found["rows"]["count"]
    assert sum(steps[name]["count"] for name in ("in_0_1", "below_0", "above_1")) == steps["gained"]
    assert sum(entry["complete"] for entry in found["episodes"]) == found["rows"]["count"]
    told_trust = found["trust"]
    assert told_trust["identified"] == (told_trust["value"] is not None) == (told_trust["reason"] is None)
    if told_trust["identified"]:
        assert told_trust["delta_h_ls_bits"]["value"] >= LEAST_GAIN_BITS
        assert told_trust["independent_episodes"] >= 5


# -- many ----------------------------------------------------------------------------------------------------------


def test_more_episodes_than_are_listed_are_counted() -> None:
    found = summarise(random_steps(n=120, episodes=60), seed=0)
    assert len(found["episodes"]) == SHOWN_EPISODES == 50
    assert found["episode_count"] == 60
    assert "the first 50 episodes are listed; 10 more are in all other figures" in found["notes"]
    assert found["rows"]["count"] == 120


def test_joined_steps_keep_their_episodes_and_reasons() -> None:
    first = Steps.of([step("a", 1.0, None, 1.0, reasons={"h_x_given_s": "x"}, low_bits=(0.5, None, 0.5))])
    second = Steps.of([step("b", None, 1.0, 1.0, reasons={"h_x": "y"}), step("a", 1.0, 1.0, None, grounded=True)])
    both = Steps.joined([first, second])
    assert both.episodes == ("a", "b")
    assert both.episode.tolist() == both.unit.tolist() == [0, 1, 0]
    assert [[both.reasons[code] for code in row] for row in both.reason] == [
        ["", "x", ""], ["y", "", ""], ["", "", NOT_GIVEN],
    ]  # fmt: skip
    assert np.array_equal(both.low[0], [0.5, np.nan, 0.5], equal_nan=True)
    assert np.array_equal(both.grounded, [np.nan, np.nan, 1.0], equal_nan=True)
    assert len(Steps.joined([])) == 0
    assert np.array_equal(Steps.joined([first]).bits, first.bits, equal_nan=True)


def test_copies_of_an_episode_are_one() -> None:
    """Eight episodes word for word alike are one: their spread says nothing, and must not come out as certainty."""
    bits = [(2.1, 1.4, 1.1), (2.3, 1.2, 0.7), (1.9, 1.5, 1.0)]
    copies = [
        Step(str(e), i, *row, first_episode=1, on_shortest_path=i == 1, confidence=0.5, action_probability=0.5)
        for e in range(1, 9)
        for i, row in enumerate(bits, 1)
    ]
    found = summarise(copies, seed=0)
    assert (found["episode_count"], found["independent_episodes"], found["trust"]["independent_episodes"]) == (8, 1, 1)
    assert found["trust"]["reason"] == "1 independent of 8 episodes, and T takes at least 5"
    assert found["sureness"]["agreement"]["low"] is None
    assert found["sureness"]["calibration"]["overconfidence_low"] is None
    # Those that went another way at their last step are episodes of their own.
    other = [
        msgspec.structs.replace(row, first_episode=int(row.episode) if int(row.episode) > 3 and row.step == 3 else 1)
        for row in copies
    ]
    assert summarise(other, seed=0)["trust"]["independent_episodes"] == 6, "what the log says counts"


def test_episodes_of_a_chain_are_one() -> None:
    """Each goes on from what was known at the end of the one before: ten of them are no ten independent ones."""
    rows = [Step(str(i // 3 + 1), i, 2.0, 1.4 + 0.01 * i, 1.0, chain=1) for i in range(30)]
    found = summarise(rows, seed=0)["trust"]
    assert found["reason"] == "1 independent of 10 episodes, and T takes at least 5"
    assert found["delta_h_ls_bits"]["low"] is None
    apart = [msgspec.structs.replace(row, chain=int(row.episode)) for row in rows]
    assert summarise(apart, seed=0)["trust"]["independent_episodes"] == 10


def test_an_episode_whose_original_is_not_known_is_one_of_its_own() -> None:
    rows = [Step(name, 1, 2.0, 1.5, 1.0, first_episode=first) for name, first in (("inf", None), ("2", None), ("3", 3))]
    assert summarise(rows, seed=0)["trust"]["independent_episodes"] == 3


# -- should it be so sure? -----------------------------------------------------------------------------------------


def judged(sure: Any, right: Any, episodes: Any, own: Any = None) -> dict[str, Any] | None:
    rows = zip(sure, sure if own is None else own, right, episodes, strict=True)
    table = [Step(str(e), action_probability=p, confidence=c, on_shortest_path=on) for c, p, on, e in rows]
    return sureness(Steps.of(table), seed=0)


def test_sureness_by_hand() -> None:
    found = judged([0.9, 0.8, 0.7, None, 0.5], [True, False, True, True, None], list("aabbb"))
    assert found is not None
    assert (found["actions"], found["not_judged"], found["without_probability"]) == (4, 1, 1)
    assert (found["agreement"]["count"], found["agreement"]["of"], found["agreement"]["value"]) == (3, 4, 0.75)
    assert found["agreement"]["low"] is None, "two episodes"
    assert found["calibration"]["answers"] == 3
    assert found["calibration"]["mean_confidence"] == pytest.approx(0.8)
    assert found["calibration"]["brier"] == pytest.approx((0.01 + 0.64 + 0.09) / 3)
    assert found["selective"]["auroc"] == 0.5 == auroc([0.9, 0.8, 0.7], [1, 0, 1])
    json.dumps(msgspec.to_builtins(found), allow_nan=False)


def test_sureness_takes_episodes_as_units() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 20)
    right = rng.random(200) < np.repeat(rng.random(10), 20)
    sure = np.round(rng.random(200), 3)
    found, alone = judged(sure, right.astype(float), labels), judged(sure, right.astype(float), np.zeros(200))
    assert found is not None
    assert alone is not None
    expected = share_interval(right, clusters=labels)
    over = overconfidence_interval(sure, right, clusters=labels)
    assert expected is not None
    assert over is not None
    assert (found["agreement"]["low"], found["agreement"]["high"]) == (expected.low, expected.high)
    assert (found["calibration"]["overconfidence_low"], found["calibration"]["overconfidence_high"]) == (
        over.low,
        over.high,
    )
    assert "over 10 clusters" in found["selective"]["auroc_method"]
    assert alone["agreement"]["low"] is None, "one episode, however many steps"
    assert alone["selective"]["auroc_low"] is None


def test_an_agreement_of_none_or_all_is_not_certain() -> None:
    """Six episodes of ten steps each off the path: none of six, and not none of sixty."""
    rows = [
        Step(e, i, 2.0 + 0.1 * i, 1.5, 0.01 * place, on_shortest_path=False)
        for place, e in enumerate("abcdef")
        for i in range(10)
    ]
    found = summarise(rows, seed=0)["sureness"]["agreement"]
    assert found["value"] == 0.0
    assert found["high"] > 0.3
    right = [msgspec.structs.replace(row, on_shortest_path=True) for row in rows]
    found = summarise(right, seed=0)["sureness"]["agreement"]
    assert found["value"] == 1.0
    assert found["low"] < 0.7


CHANCES = {"up": 0.4, "down": 0.1, "left": 0.3, "right": 0.2}


@pytest.mark.parametrize(
    ("action", "best", "expected"),
    [
        ("up", {"up"}, 0.4),
        ("up", {"up", "left"}, 0.7),  # either is right
        ("left", {"up", "left", "right"}, 0.9),
        ("up", {"left"}, 0.4),  # its own probability, not that of what it did not do
        ("up", {"down", "left"}, 0.4 + 0.6 / 3),  # as much room as two best actions have
        ("up", {"down", "left", "right"}, 0.4 + 2 * 0.6 / 3),
        ("up", {"pick up"}, 0.4),  # an action that this form of answer cannot name
        ("up", set(), 0.4),
        ("up", None, None),
        (None, {"up"}, None),
        ("fly", {"up"}, None),
    ],
)
def test_confidence_takes_equally_good_actions_together(
    action: str | None, best: set[str] | None, expected: float | None
) -> None:
    assert confidence(action, CHANCES, best) == (None if expected is None else pytest.approx(expected))
    assert confidence(action, None, best) is None


def test_two_best_actions_that_share_a_probability_are_one_certainty() -> None:
    """Half up, half left, and either is right: sure of being right, and not fifty points less sure than right."""
    sure = confidence("up", {"up": 0.5, "down": 0.0, "left": 0.5, "right": 0.0}, {"up", "left"})
    found = judged([sure] * 12, [True] * 12, range(12), own=[0.5] * 12)
    assert found is not None
    assert found["calibration"]["mean_confidence"] == 1.0
    assert found["calibration"]["overconfidence"] == 0.0


def test_a_model_that_knows_nothing_is_neither_overconfident_nor_a_good_judge_of_itself() -> None:
    """All actions alike, of which one, two or three are the best: k of four are right, and it is k/4 sure.

    Were the sum taken for right actions only, every right action of k > 1 would stand above every wrong one: an AUROC
    of 0.9 for a model whose probabilities are all the same.
    """
    rng = np.random.default_rng(0)
    names, even = list(CHANCES), dict.fromkeys(CHANCES, 0.25)
    sure, right = [], []
    for _ in range(600):
        best = set(rng.permutation(names)[: rng.integers(1, 4)].tolist())
        action = str(rng.choice(names))
        sure.append(confidence(action, even, best))
        assert sure[-1] == pytest.approx(len(best) / 4)
        right.append(action in best)
    found = judged(sure, right, np.arange(600) // 10, own=[0.25] * 600)
    assert found is not None
    assert found["selective"]["auroc"] == 0.5, "its probability is the same for all"
    assert found["calibration"]["overconfidence_low"] < 0.0 < found["calibration"]["overconfidence_high"]
    assert found["calibration"]["ece_equal_width"] < found["calibration"]["ece_equal_width_floor"]["high"]


def test_sureness_of_nothing_and_of_actions_all_alike() -> None:
    assert judged([0.5], [None], ["a"]) is None
    assert judged([], [], []) is None
    alike = judged([0.5, 0.6], [True, True], ["a", "a"])
    assert alike is not None
    assert alike["selective"]["auroc"] is None
    unsaid = judged([None, None], [True, False], ["a", "b"])
    assert unsaid is not None
    assert unsaid["calibration"] is None
    assert unsaid["agreement"]["value"] == 0.5


def test_the_summary_of_steps_judges_their_actions() -> None:
    rows = [
        Step(f"e{i % 4}", i, 2.0, 1.0 + i / 100, 0.5, action_probability=0.6, on_shortest_path=i % 3 > 0 or None)
        for i in range(12)
    ]
    found = summarise(rows, seed=0)
    assert found["sureness"]["agreement"]["of"] == 8
    assert found["sureness"]["not_judged"] == 4
    assert any("not judged" in note and note.endswith(": 4") for note in found["notes"])
