"""The JSON object inside an answer, and where its values stand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.studies.trust.json_places import first_object, printable

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), json_values, min_size=1, max_size=4)
prose = st.text(alphabet=st.characters(exclude_characters="{", exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "up"}',
        '```json\n{"action": "up"}\n```',
        'I go up.\n\n{\n "action"\t:\r\n"up"\n}\nThat is {all} of it.',
        '\ufeff{"action":"up"}',
        '`{"action": "up"}`',
        'x{"action": "up"}}',
        'One of {"up", "down"}, or {}, or {1}: {"action": "up"} {"action": "down"}',
        '{"action": "down", "action": "up"}',
        '{"\\u0061ction": "\\u0075p"}',
    ],
)
def test_the_first_object_is_found_wherever_it_stands(text: str) -> None:
    found = first_object(text)
    assert found.reason is None
    place = found.members["action"].place
    assert place.value == json.loads(text[place.start : place.end]) == "up"
    member = found.members["action"]
    assert json.loads(text[member.key_start : member.key_end]) == "action"
    assert found.value("nothing") is None


def test_entries_of_a_list_have_their_places() -> None:
    text = '{"action": [ "move up" ,"turn left", {"a": [1]} ], "n": []}'
    found = first_object(text)
    items = found.members["action"].place.items
    assert [text[item.start : item.end] for item in items] == ['"move up"', '"turn left"', '{"a": [1]}']
    assert found.members["n"].place.items == ()
    whole = found.members["action"].place
    assert text[whole.start : whole.end] == '[ "move up" ,"turn left", {"a": [1]} ]'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no_json"),
        ("up", "no_json"),
        ('["up"]', "no_json"),
        ("{'action': 'up'}", "bad_json"),
        ("{action: up}", "bad_json"),
        ('{"action": up}', "bad_json"),
        ('{"action": "up",}', "bad_json"),
        ('{"action": ["up",]}', "bad_json"),
        ('{"action": ["up" "down"]}', "bad_json"),
        ('{"action" "up"}', "bad_json"),
        ('{"action": "up" "reasoning": "x"}', "bad_json"),
        ('{"action": "\\x"}', "bad_json"),
        ('{"action": up, "memory": {"status": "x"}}', "bad_json"),
        ('{"action":' + "[" * 100_000, "too_deep"),
        ('{"action":' + '{"a":' * 100_000, "too_deep"),
    ],
)
def test_what_cannot_be_read_has_its_reason(text: str, reason: str) -> None:
    assert first_object(text).reason == reason


def test_an_object_that_breaks_off_keeps_what_was_whole() -> None:
    text = '{"action": ["up"], "p": 0.65, "ok": true, "memory": {"status": "a"}, "reasoning": "A \\u00e9"}'
    whole = first_object(text)
    assert whole.reason is None
    for length in range(1, len(text)):
        found = first_object(text[:length])
        assert found.reason == "json_incomplete", text[:length]
        for key, member in found.members.items():
            assert member.place.value == whole.value(key), text[:length]
        assert ("action" in found.members) == (length >= len('{"action": ["up"'))


def test_the_last_of_equal_keys_counts_even_if_it_breaks_off() -> None:
    assert first_object('{"action": "up", "action": "do').members == {}


def test_control_characters_and_endless_numbers_are_read() -> None:
    assert first_object('{"reasoning": "one\ntwo"}').value("reasoning") == "one\ntwo"
    assert first_object('{"a": ' + "9" * 5000 + "}").value("a") == float("inf")


def test_half_characters_become_printable() -> None:
    assert printable(first_object('{"a": "x\\ud83d"}').value("a")) == "x\ufffd"


@given(objects, prose, prose, st.sampled_from([None, 0, 1, "\t"]), st.booleans())
def test_any_object_amid_prose_reads_as_json_reads_it(value, before, after, indent, ascii_only) -> None:
    spelled = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    text = before + spelled + after
    found = first_object(text)
    assert found.reason is None
    assert {key: member.place.value for key, member in found.members.items()} == value
    for member in found.members.values():
        assert json.loads(text[member.place.start : member.place.end]) == member.place.value


@given(st.text() | st.text(alphabet='{}[]":,\\u0 truefalsnE.-x', max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    found = first_object(text)
    assert found.reason in (None, "no_json", "bad_json", "json_incomplete")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ['{"', "{", '{"a" ', "{ ", '{"\\"', '{"\\x', '{"\\x" ', '{"a":1 '])
def test_a_long_hostile_text_is_read_once(piece: str) -> None:
    """A second look from each of its braces would take an hour."""
    assert first_object(piece * 300_000).reason in ("bad_json", "json_incomplete")
