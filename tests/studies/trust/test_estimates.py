"""Figures over steps: by hand, against a naive second writing, and where there is little or nothing to tell."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.measures import auroc, bootstrap_mean, trust, trust_of_each, trust_over_steps, wilson_interval
from howsure.studies.trust.estimates import SHOWN_EPISODES, summarise, trust_summary
from howsure.studies.trust.steps import MOST_UNITS, NOT_GIVEN, Step, Steps, units
from howsure.studies.trust.sureness import sureness


def step(episode: str, *bits: float | None, **more: Any) -> Step:
    return Step(episode, None, *bits, **more)


def random_steps(n: int = 60, episodes: int = 6, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    rows = rng.uniform([2, 1, 0], [3, 2.4, 1.6], size=(n, 3)).tolist()
    return [Step(f"e{i % episodes}", i // episodes, *row) for i, row in enumerate(rows)]


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
    wilson = wilson_interval(4, 5)
    assert wilson is not None
    assert (found["rows"]["low"], found["rows"]["high"]) == (wilson.low, wilson.high)
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
    assert (steps["defined"], steps["zero_denominator"]) == (3, 1)
    assert [steps[name]["count"] for name in ("in_0_1", "below_0", "above_1")] == [1, 1, 1]
    assert steps["median"] == pytest.approx(2 / 3)
    assert found["trust"]["delta_h_s_bits"]["value"] == pytest.approx(2.5 / 4)
    assert found["trust"]["delta_h_ls_bits"]["value"] == pytest.approx(3.5 / 4)
    assert found["episode_count"] == 2
    assert [(entry["episode"], entry["rows"], entry["complete"]) for entry in found["episodes"]] == [
        ("a", 2, 2),
        ("b", 3, 2),
    ]
    assert found["sureness"] is None


def test_there_is_no_mean_of_ratios() -> None:
    """One step with a denominator near zero would decide it."""
    rows = [*random_steps(), step("e0", 2.0, 1.0, 2.0 - 1e-9)]
    found = summarise(rows, seed=0)
    assert trust(2.0, 1.0, 2.0 - 1e-9) > 1e8  # type: ignore[operator]
    assert 0 < found["trust"]["value"] < 1
    assert 0 < found["per_step"]["median"] < 1
    assert "mean" not in found["per_step"]


def test_a_first_missing_entropy_gives_its_row_the_reason() -> None:
    rows = [
        step("a", None, None, 1.0, reasons={"h_x": "unparsable", "h_x_given_s": "no_logprobs"}),
        step("a", 1.0, math.nan, None),
    ]
    found = summarise(rows, seed=0)
    assert found["missing"]["rows"] == {NOT_GIVEN: 1, "unparsable": 1}
    assert found["missing"]["by_entropy"]["h_x_given_s"] == {"no_logprobs": 1, NOT_GIVEN: 1}
    assert found["missing"]["by_entropy"]["h_x_given_ls"] == {NOT_GIVEN: 1}


def test_equal_up_to_rounding_is_in_order() -> None:
    found = summarise([step("a", 1.0, 1.0 + 9e-10, 1.0 + 1.7e-9), step("a", 1.0, 1.0 + 2e-9, 0.0)], seed=0)
    assert found["ordering"]["both"]["count"] == 1
    assert found["ordering"]["tolerance_bits"] == 1e-9


def test_whole_episodes_are_drawn_where_there_are_two() -> None:
    rows = random_steps()
    found = summarise(rows, seed=3)["trust"]
    h_x, h_xs, h_xls = zip(*(row.bits for row in rows), strict=True)
    expected = trust_over_steps(h_x, h_xs, h_xls, [row.episode for row in rows], seed=3)
    assert expected.bootstrap is not None
    assert expected.fieller is not None
    assert found["value"] == expected.trust
    assert (found["bootstrap"]["low"], found["bootstrap"]["high"]) == (expected.bootstrap.low, expected.bootstrap.high)
    assert (found["fieller"]["low"], found["fieller"]["high"]) == (expected.fieller.low, expected.fieller.high)
    assert (found["drawn"], found["drawn_count"]) == ("episode", 6)


def test_mean_entropies_draw_the_same_episodes() -> None:
    rows = random_steps()
    found = summarise(rows, seed=3)["mean_entropy_bits"]["h_x"]
    expected = bootstrap_mean([row.h_x_bits for row in rows], clusters=[row.episode for row in rows], seed=3)
    assert expected is not None
    assert (found["low"], found["high"]) == (expected.low, expected.high)


def test_one_episode_is_drawn_by_steps_and_says_so() -> None:
    rows = random_steps(episodes=1)
    found = trust_summary(rows, seed=0)
    assert (found["trust"]["drawn"], found["trust"]["drawn_count"]) == ("step", 60)
    assert found["trust"]["identified"]
    assert any("one episode" in note and "too narrow" in note for note in found["notes"])
    more = trust_summary([*rows, step("other", None, 1.0, 1.0)], seed=0)
    assert more["trust"]["bootstrap"] == found["trust"]["bootstrap"], "an episode without a complete row is no second"
    assert not any("one episode" in note for note in trust_summary(random_steps(episodes=8), seed=0)["notes"])


def test_few_episodes_point_to_fieller() -> None:
    assert any("Fieller" in note for note in trust_summary(random_steps(episodes=3), seed=0)["notes"])
    assert not any("Fieller" in note for note in trust_summary(random_steps(episodes=6), seed=0)["notes"])


def test_not_identified_has_no_value_and_a_reason() -> None:
    rng = np.random.default_rng(2)
    rows = [step(f"e{i % 10}", 2.0, 1.5 - e, 2.0 - d) for i, (e, d) in enumerate(rng.normal(0, 0.3, (50, 2)).tolist())]
    found = trust_summary(rows, seed=0)
    told = found["trust"]
    assert (told["value"], told["bootstrap"], told["identified"]) == (None, None, False)
    assert told["fieller"]["shape"] in ("complement", "line")
    assert "trust T is not identified: the denominator is not clearly different from zero" in found["notes"]
    figure = found["headline"][0]
    assert (figure["name"], figure["value"], figure["low"]) == ("trust T", None, None)
    assert figure["method"].startswith("not identified: ")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no step has all three entropies"),
        ([step("a", None, 1.0, 0.5)], "no step has all three entropies"),
        ([step("a", 2.0, 1.0, 0.5)], "one complete step only"),
        ([step("a", 2.0, 1.0, 2.0), step("b", 2.0, 1.5, 2.0)], "not clearly different from zero"),
    ],
)
def test_too_little_to_tell(rows: list[Step], words: str) -> None:
    found = trust_summary(rows, seed=0)
    assert words in found["trust"]["reason"]
    assert found["trust"]["value"] is None
    assert found["coverage"]["items"] == len(rows)
    json.dumps(found, allow_nan=False)


def test_the_summary_is_plain_data_in_the_common_form() -> None:
    found = trust_summary(FIVE, seed=0, notes=["a remark"], files=[1])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["study"] == "trust"
    assert found["coverage"]["text"] == "scored 4 of 5; 1 missing: 1 no logprobs"
    names = ["trust T", "ΔH_S", "ΔH_L,S", "rows complete", "ordering holds"]
    assert [entry["name"] for entry in found["headline"]] == names
    assert found["notes"][-1] == "a remark"
    assert found["files"] == [1]


def test_an_infinite_end_of_fiellers_set_is_none() -> None:
    """Two steps whose denominators have a t-interval that ends at zero exactly are hard to find: take the function."""
    from howsure.measures import FiellerSet
    from howsure.studies.trust.estimates import _fieller

    assert _fieller(FiellerSet("ray", -math.inf, 1.0, 0.95, 1.0)) == {
        "shape": "ray", "low": None, "high": 1.0, "level": 0.95,
    }  # fmt: skip
    assert _fieller(FiellerSet("line", None, None, 0.95, math.inf))["low"] is None


def test_the_same_twice_and_in_any_order_of_episodes() -> None:
    rows = random_steps()
    assert summarise(rows, seed=1) == summarise(rows, seed=1)
    turned = sorted(rows, key=lambda row: row.episode, reverse=True)
    first, second = summarise(rows, seed=1)["trust"], summarise(turned, seed=1)["trust"]
    assert second["value"] == pytest.approx(first["value"], rel=1e-12)
    assert second["fieller"]["low"] == pytest.approx(first["fieller"]["low"], rel=1e-9)


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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), *[st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0, 4))] * 3
        ),
        max_size=12,
    )
)
def test_any_steps_give_a_summary_without_nan_whose_counts_add_up(rows: list[tuple[Any, ...]]) -> None:
    found = summarise([step(*row) for row in rows], seed=0, resamples=50)
    json.dumps(found, allow_nan=False)
    assert found["rows"]["count"] + sum(found["missing"]["rows"].values()) == found["rows"]["of"] == len(rows)
    steps = found["per_step"]
    assert steps["defined"] + steps["zero_denominator"] == found["rows"]["count"]
    assert sum(steps[name]["count"] for name in ("in_0_1", "below_0", "above_1")) == steps["defined"]
    assert sum(entry["complete"] for entry in found["episodes"]) == found["rows"]["count"]
    assert found["trust"]["identified"] == (found["trust"]["value"] is not None)


# -- many ----------------------------------------------------------------------------------------------------------


def test_more_episodes_than_are_listed_are_counted() -> None:
    found = trust_summary(random_steps(n=120, episodes=60), seed=0)
    assert len(found["episodes"]) == SHOWN_EPISODES == 50
    assert found["episode_count"] == 60
    assert "the first 50 episodes are listed; 10 more are in all other figures" in found["notes"]
    assert found["rows"]["count"] == 120


def different(count: int) -> np.ndarray:
    """Steps that all asked something new."""
    return np.arange(1.0, count + 1)


def judged(sure: Any, right: Any, episodes: Any) -> dict[str, Any] | None:
    rows = zip(sure, right, episodes, strict=True)
    return sureness(Steps.of([Step(str(e), action_probability=p, on_shortest_path=on) for p, on, e in rows]), seed=0)


def test_copies_of_a_step_are_one_step() -> None:
    """A robot in front of a wall: twenty steps of which two are different tell as much as two."""
    rows = [
        Step("a", i, 2.1, 1.4, 1.1, on_shortest_path=False, first_asked=1)
        if i != 7
        else Step("a", 7, 2.0, 1.5, 1.0, on_shortest_path=True, first_asked=7)
        for i in range(1, 21)
    ]
    found = trust_summary(rows, seed=0)
    assert (found["trust"]["drawn"], found["trust"]["drawn_count"]) == ("different step", 2)
    two = trust_summary([rows[0], rows[6]], seed=0)
    believed = trust_summary([msgspec.structs.replace(row, first_asked=None) for row in rows], seed=0)
    width = {
        name: one["trust"]["fieller"]["high"] - one["trust"]["fieller"]["low"]
        for name, one in {"found": found, "two": two, "believed": believed}.items()
    }
    assert width["believed"] < 0.1 < min(width["found"], width["two"])
    assert found["sureness"]["agreement"]["high"] == 1.0, "drawing the one that was right twice gives 1"
    same = trust_summary([Step("a", i, 2.0, 1.5, 1.0, first_asked=1) for i in range(20)], seed=0)
    assert (
        same["trust"]["reason"]
        == "there is one different step only, so that nothing is known of the denominator's spread"
    )


def test_many_units_are_drawn_as_neighbours() -> None:
    alone = units(np.zeros(MOST_UNITS, dtype=np.int64), different(MOST_UNITS))
    assert (alone.labels, alone.words, alone.units, alone.clustered) == (None, "step", MOST_UNITS, False)
    blocks = units(np.zeros(2 * MOST_UNITS + 1, dtype=np.int64), different(2 * MOST_UNITS + 1))
    assert blocks.labels is not None
    assert (blocks.words, blocks.clustered) == ("3 neighbouring steps", False)
    assert np.bincount(blocks.labels).max() == 3
    assert len(np.bincount(blocks.labels)) == blocks.units <= MOST_UNITS
    episodes = units(np.repeat(np.arange(MOST_UNITS + 1), 2), different(2 * MOST_UNITS + 2))
    assert (episodes.words, episodes.clustered) == ("2 neighbouring episodes", True)
    few = units(np.array([7, 7, 3]), different(3))
    assert few.labels is not None
    assert few.labels.tolist() == [1, 1, 0]


def test_blocks_of_independent_steps_give_the_same_interval() -> None:
    rng = np.random.default_rng(0)
    bits = rng.uniform([2, 1, 0], [3, 2.4, 1.6], size=(9_000, 3))
    table = Steps(("a",), np.zeros(9_000, dtype=np.int64), bits, ("",), np.zeros((9_000, 3), dtype=np.uint16),
                  np.full(9_000, np.nan), np.full(9_000, np.nan), np.full(9_000, np.nan),
                  np.zeros(9_000, dtype=np.int64))  # fmt: skip
    found = summarise(table, seed=0)["trust"]
    assert found["drawn"] == "3 neighbouring steps"
    h_x, h_xs, h_xls = bits.T
    expected = trust_over_steps(h_x, h_xs, h_xls, seed=0, resamples=500)
    assert expected.bootstrap is not None
    width = expected.bootstrap.high - expected.bootstrap.low
    assert found["value"] == expected.trust
    assert found["bootstrap"]["high"] - found["bootstrap"]["low"] == pytest.approx(width, rel=0.15)


def test_joined_steps_keep_their_episodes_and_reasons() -> None:
    first = Steps.of([step("a", 1.0, None, 1.0, reasons={"h_x_given_s": "x"})])
    second = Steps.of([step("b", None, 1.0, 1.0, reasons={"h_x": "y"}), step("a", 1.0, 1.0, None)])
    both = Steps.joined([first, second])
    assert both.episodes == ("a", "b")
    assert both.episode.tolist() == [0, 1, 0]
    assert [[both.reasons[code] for code in row] for row in both.reason] == [
        ["", "x", ""], ["y", "", ""], ["", "", NOT_GIVEN],
    ]  # fmt: skip
    assert len(Steps.joined([])) == 0
    assert np.array_equal(Steps.joined([first]).bits, first.bits, equal_nan=True)


# -- should it be sure? --------------------------------------------------------------------------------------------


def test_sureness_by_hand() -> None:
    found = judged([0.9, 0.8, 0.7, None, 0.5], [True, False, True, True, None], list("aabbb"))
    assert found is not None
    assert (found["actions"], found["not_judged"], found["without_probability"]) == (4, 1, 1)
    assert (found["agreement"]["count"], found["agreement"]["of"], found["agreement"]["value"]) == (3, 4, 0.75)
    assert "clusters" in found["agreement"]["method"]
    assert found["calibration"]["answers"] == 3
    assert found["calibration"]["mean_confidence"] == pytest.approx(0.8)
    assert found["calibration"]["brier"] == pytest.approx((0.01 + 0.64 + 0.09) / 3)
    assert found["auroc"]["value"] == 0.5 == auroc([0.9, 0.8, 0.7], [1, 0, 1])
    json.dumps(found, allow_nan=False)


def test_sureness_draws_whole_episodes() -> None:
    right = np.repeat(np.arange(10) % 2 == 0, 20)
    sure = np.where(right, 0.8, 0.6)
    found = judged(sure, right.astype(float), np.repeat(np.arange(10), 20))
    alone = judged(sure, right.astype(float), np.zeros(200))
    assert found is not None
    assert alone is not None
    expected = bootstrap_mean(right.astype(float), clusters=np.repeat(np.arange(10), 20), seed=0)
    assert expected is not None
    assert (found["agreement"]["low"], found["agreement"]["high"]) == (expected.low, expected.high)
    assert alone["agreement"]["method"] == "Wilson score"
    assert found["auroc"]["value"] == 1.0


def test_sureness_of_nothing_and_of_actions_all_alike() -> None:
    assert judged([0.5], [None], ["a"]) is None
    assert judged([], [], []) is None
    alike = judged([0.5, 0.6], [True, True], ["a", "a"])
    assert alike is not None
    assert alike["auroc"] is None
    unsaid = judged([None, None], [True, False], ["a", "b"])
    assert unsaid is not None
    assert unsaid["calibration"] is None
    assert unsaid["agreement"]["value"] == 0.5


def test_the_summary_of_steps_judges_their_actions() -> None:
    rows = [
        Step(f"e{i % 4}", i, 2.0, 1.0 + i / 100, 0.5, action_probability=0.6, on_shortest_path=i % 3 > 0 or None)
        for i in range(12)
    ]
    found = trust_summary(rows, seed=0)
    assert found["sureness"]["agreement"]["of"] == 8
    assert found["sureness"]["not_judged"] == 4
    assert any("not judged" in note and note.endswith(": 4") for note in found["notes"])


def test_copies_of_an_episode_are_drawn_as_one() -> None:
    """Three episodes word for word alike are one: their spread says nothing, and must not come out as certainty."""
    bits = [(2.1, 1.4, 1.1), (2.3, 1.2, 0.7), (1.9, 1.5, 1.0)]
    copies = [
        Step(str(e), i, *row, first_asked=i, first_episode=1, on_shortest_path=i == 1)
        for e in (1, 2, 3)
        for i, row in enumerate(bits, 1)
    ]
    found = trust_summary(copies, seed=0)
    alone = trust_summary(copies[:3], seed=0)
    assert (found["trust"]["drawn"], found["trust"]["drawn_count"]) == ("different step", 3)
    assert found["trust"]["fieller"]["shape"] == alone["trust"]["fieller"]["shape"]
    assert found["sureness"]["agreement"]["low"] < 1 / 3 < found["sureness"]["agreement"]["high"]
    assert any("copies of one" in note for note in found["notes"])
    # One that went another way at its last step is an episode of its own.
    other = [
        msgspec.structs.replace(row, first_episode=3 if row.episode == "3" and row.step == 3 else 1) for row in copies
    ]
    assert (trust_summary(other, seed=0)["trust"]["drawn"], trust_summary(other, seed=0)["trust"]["drawn_count"]) == (
        "episode",
        2,
    )


def test_an_agreement_of_none_or_all_is_not_certain() -> None:
    """Two episodes of ten steps each off the path: Wilson's interval of 0 in 2, and not a bootstrap of zeros."""
    rows = [Step(e, i, 2.0 + 0.1 * i, 1.5, 1.0, on_shortest_path=False) for e in "ab" for i in range(10)]
    found = trust_summary(rows, seed=0)["sureness"]["agreement"]
    low, high = wilson_interval(0, 2, 0.95).low, wilson_interval(0, 2, 0.95).high
    assert (found["value"], found["low"], found["high"]) == (0.0, low, high)
    right = [msgspec.structs.replace(row, on_shortest_path=True) for row in rows]
    found = trust_summary(right, seed=0)["sureness"]["agreement"]
    assert (found["value"], found["low"]) == (1.0, wilson_interval(2, 2, 0.95).low)
