"""Probabilities that a model writes out."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.measures import nats_to_bits
from howsure.studies.trust.verbalized import VERBALIZED_SCHEMA, read_verbalized

NORTH = {"north": 0.65, "south": 0.15, "west": 0.12, "east": 0.08}
WHOLE = {
    "executability": 0.95,
    "step1": NORTH,
    "step2": {"north": 0.45, "south": 0.30, "west": 0.15, "east": 0.10},
    "step3": {"north": 0.40, "south": 0.35, "west": 0.15, "east": 0.10},
    "reasoning": "The goal is up.",
    "memory": {"task_process": {"status": "in_progress"}, "previous_action": "move up"},
}
FAIR = dict.fromkeys(("up", "down", "left", "right"), 0.25)


def read(**changes):
    return read_verbalized(json.dumps({**WHOLE, **changes}))


def bits(*p: float) -> float:
    return -sum(x * math.log2(x) for x in p if x)


def test_the_whole_answer_by_hand() -> None:
    found = read()
    steps = [bits(0.65, 0.15, 0.12, 0.08), bits(0.45, 0.30, 0.15, 0.10), bits(0.40, 0.35, 0.15, 0.10)]
    assert [nats_to_bits(step.entropy_nats) for step in found.steps] == pytest.approx(steps, abs=1e-12)
    expected = 0.5 * steps[0] + 0.3 * steps[1] + 0.2 * steps[2]
    assert nats_to_bits(found.entropy_nats) == pytest.approx(expected, abs=1e-12)
    assert found.steps[0].probabilities == pytest.approx({"up": 0.65, "down": 0.15, "left": 0.12, "right": 0.08})
    assert [step.action for step in found.steps] == ["up"] * 3
    assert list(found.steps[0].probabilities) == ["up", "down", "left", "right"]
    assert (found.executability, found.reason, found.remark) == (0.95, None, None)
    assert found.reasoning == "The goal is up."
    assert json.loads(found.memory) == WHOLE["memory"]
    assert found.grounding is None


def test_either_vocabulary_in_any_case_and_order() -> None:
    found = read(step1={"Right": 0.1, "DOWN": 0.2, " Left ": 0.3, "up": 0.4})
    assert found.steps[0].probabilities == pytest.approx({"up": 0.4, "down": 0.2, "left": 0.3, "right": 0.1})
    later = '{"Step1": {"up": 1}, "STEP1": {"down": 1}}'
    assert read_verbalized(later).steps[0].action == "down"
    assert read(step1={"n": 1}).steps[0].reason == "incomplete"


def test_sums_are_divided_out_and_kept() -> None:
    step = read(step1={"north": 65, "south": 15, "west": 12, "east": 8}).steps[0]
    assert step.raw_sum == 100
    assert step.probabilities == pytest.approx({"up": 0.65, "down": 0.15, "left": 0.12, "right": 0.08}, abs=1e-15)
    step = read(step1={"north": 0.3, "south": 0.3, "west": 0.3, "east": 0.3}).steps[0]
    assert step.raw_sum == pytest.approx(1.2)
    assert nats_to_bits(step.entropy_nats) == pytest.approx(2.0, abs=1e-12)


def test_ties_are_told_and_the_first_direction_is_taken() -> None:
    step = read(step1={"east": 0.4, "west": 0.4, "south": 0.1, "north": 0.1}).steps[0]
    assert (step.action, step.tied) == ("left", True)
    assert read().steps[0].tied is False


def test_numbers_may_be_texts_and_percentages() -> None:
    written = {"north": "0.65", "south": " 15% ", "west": "12 %", "east": ".08"}
    assert read(step1=written).steps[0].probabilities == pytest.approx(read().steps[0].probabilities, abs=1e-15)
    assert read(executability="95%").executability == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (None, "not_an_object"),
        ([0.25, 0.25, 0.25, 0.25], "not_an_object"),
        (dict.fromkeys(NORTH, 0), "all_zero"),
        ({**NORTH, "north": -0.1}, "negative"),
        ({**NORTH, "north": math.inf}, "not_finite"),
        ({**NORTH, "north": math.nan}, "not_finite"),
        ({**NORTH, "north": 10**400}, "not_finite"),
        ({**NORTH, "north": "1e999"}, "not_finite"),
        (dict.fromkeys(NORTH, 1e308), "not_finite"),
        ({**NORTH, "north": None}, "not_a_number"),
        ({**NORTH, "north": True}, "not_a_number"),
        ({**NORTH, "north": "high"}, "not_a_number"),
        ({**NORTH, "north": "1_0"}, "not_a_number"),
        ({**NORTH, "north": [0.65]}, "not_a_number"),
        ({**NORTH, "up": 0.65}, "twice"),
        ({}, "incomplete"),
        ({"n": 1.0}, "incomplete"),
        ({"north": 0.5, "south": 0.3}, "incomplete"),
        ({"north": 0.5, "south": 0.3, "west": 0.17}, "incomplete"),
        ({"north": 60, "south": 40}, "incomplete"),
    ],
)
@pytest.mark.parametrize("name", ["step1", "step2", "step3"])
def test_a_step_that_is_no_distribution_is_missing_and_so_is_the_entropy(name, step, reason) -> None:
    found = read(**{name: step})
    at = int(name[-1]) - 1
    assert found.steps[at].reason == reason
    assert (found.steps[at].probabilities, found.steps[at].entropy_nats, found.steps[at].action) == (None, None, None)
    assert found.entropy_nats is None
    assert found.reason is None  # the answer itself can be read, so nobody need ask again
    assert [step.reason for i, step in enumerate(found.steps) if i != at] == [None, None]


def test_an_absent_step_is_missing() -> None:
    found = read_verbalized(json.dumps({"step1": NORTH, "step3": NORTH}))
    assert [step.reason for step in found.steps] == [None, "absent", None]
    assert found.entropy_nats is None
    assert found.executability_missing == "absent"


def test_a_direction_left_out_is_zero_only_where_the_others_are_all_there_is() -> None:
    step = read(step1={"north": 0.6, "south": 0.39}).steps[0]
    assert step.raw_sum == pytest.approx(0.99)
    assert step.probabilities == pytest.approx({"up": 0.6 / 0.99, "down": 0.39 / 0.99, "left": 0, "right": 0})


@pytest.mark.parametrize(
    ("value", "reason"),
    [(1.5, "out_of_range"), (-0.1, "negative"), (None, "not_a_number"), (math.nan, "not_finite"), ({}, "not_a_number")],
)
def test_executability_has_its_own_reason(value, reason) -> None:
    found = read(executability=value)
    assert (found.executability, found.executability_missing) == (None, reason)
    assert found.entropy_nats is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no_answer"),
        ("", "no_json"),
        ("I would go north.", "no_json"),
        ("{north: 1}", "bad_json"),
        ('{"step1": {"north": 0.5,}}', "bad_json"),
        ('{"step1": ' + "[" * 100_000, "too_deep"),
        (json.dumps(WHOLE)[:80], "json_incomplete"),
    ],
)
def test_what_cannot_be_read_says_so(text, reason) -> None:
    found = read_verbalized(text)
    assert found.reason == reason
    assert found.entropy_nats is None


def test_an_answer_that_breaks_off_behind_its_steps_is_taken_with_a_remark() -> None:
    text = json.dumps(WHOLE)
    found = read_verbalized(text[: text.index("The goal")])
    assert (found.reason, found.remark) == (None, "json_incomplete")
    assert found.entropy_nats == read().entropy_nats


def test_fences_and_prose_do_no_harm() -> None:
    text = f"Here you are:\n```json\n{json.dumps(WHOLE, indent=2)}\n```\nGood luck!"
    assert read_verbalized(text) == read_verbalized(json.dumps(WHOLE, indent=2))


def test_the_schema_names_every_field_and_bounds_every_text() -> None:
    def walk(part):
        if part["type"] == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
            for inner in part["properties"].values():
                walk(inner)
        if part["type"] == "string":
            assert part["maxLength"] <= 400

    walk(VERBALIZED_SCHEMA)
    assert list(VERBALIZED_SCHEMA["properties"])[:4] == ["executability", "step1", "step2", "step3"]
    assert list(VERBALIZED_SCHEMA["properties"]["step1"]["properties"]) == ["north", "south", "west", "east"]


numbers = st.floats() | st.integers() | st.floats(0, 1) | st.sampled_from(["0.5", "50%", "", "nan"])
steps = st.dictionaries(st.sampled_from(["north", "south", "west", "east", "up", "Right", "x"]), numbers) | st.none()


@given(st.fixed_dictionaries({}, optional={"step1": steps, "step2": steps, "step3": steps, "executability": numbers}))
def test_any_numbers_give_a_value_or_a_reason(answer) -> None:
    found = read_verbalized(json.dumps(answer))
    assert found.reason is None or answer == {}
    for step in found.steps:
        assert (step.entropy_nats is None) == (step.probabilities is None) == (step.reason is not None)
        if step.probabilities is not None:
            assert sum(step.probabilities.values()) == pytest.approx(1)
            assert 0 <= step.entropy_nats <= math.log(4) + 1e-9
            assert step.probabilities[step.action] == max(step.probabilities.values())
    assert (found.entropy_nats is None) == any(step.reason for step in found.steps)
    assert (found.executability is None) == (found.executability_missing is not None)
    plain = msgspec.to_builtins(found)
    assert json.loads(json.dumps(plain, allow_nan=False)) == json.loads(msgspec.json.encode(plain))


@given(st.text() | st.text(alphabet='{}[]":,step123northu0.5e ', max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    json.dumps(msgspec.to_builtins(read_verbalized(text)), allow_nan=False)
