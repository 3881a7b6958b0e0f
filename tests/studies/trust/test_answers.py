"""The action inside a JSON answer, its tokens, and what their alternatives say."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howsure.evidence import TokenLogprobs, TopAlternatives
from howsure.models.contract import Answer
from howsure.studies.trust.answers import ActionReading, action_schema, could_become, read_action, usual_spellings
from sizes import several

FOUR = ("up", "down", "left", "right")
EIGHT = (*FOUR, "pick up", "drop", "toggle", "done")
LONG = {"north": "up", "south": "down", "west": "left", "east": "right", "u": "up", "d": "down"}


def parse(said: str) -> str | None:
    plain = said.strip().casefold()
    for before in ("move ", "go "):
        plain = plain.removeprefix(before)
    return LONG.get(plain, plain if plain in EIGHT else None)


Row = Sequence[tuple[str | bytes, float]]


def answer(
    tokens: Sequence[tuple[str | bytes, float, Row]],
    text: str | None = None,
    *,
    with_bytes: bool = True,
    exact: Sequence[float] | None = None,
    finish: str = "stop",
) -> Answer:
    """An answer of (token, probability, alternatives with theirs); the chosen token is listed unless it says not."""
    spelled = [as_bytes(token) for token, _, _ in tokens]
    rows = [[(as_text(t), log(p)) for t, p in row] for _, _, row in tokens]
    row_bytes = [[as_bytes(t) for t, _ in row] for _, _, row in tokens]
    evidence = TokenLogprobs(
        tuple(as_text(token) for token, _, _ in tokens),
        np.array([log(p) for _, p, _ in tokens]),
        token_bytes=tuple(spelled) if with_bytes else None,
        top=TopAlternatives.from_rows(rows, row_bytes if with_bytes else None),
        entropies_nats=None if exact is None else np.array(exact),
    )
    return Answer(b"".join(spelled).decode() if text is None else text, evidence, finish_reason=finish)


def as_bytes(token: str | bytes) -> bytes:
    return token if isinstance(token, bytes) else token.encode()


def as_text(token: str | bytes) -> str:
    return token.decode(errors="replace") if isinstance(token, bytes) else token


def log(p: float) -> float:
    return math.log(p) if p > 0 else -9999.0


def sure(*tokens: str | bytes) -> list[tuple[str | bytes, float, Row]]:
    """Tokens that had no rival."""
    return [(token, 1.0, [(token, 1.0)]) for token in tokens]


def entropy(*p: float) -> float:
    return -sum(x * math.log(x) for x in p if x > 0)


def read(given: Answer, allowed: Sequence[str] = FOUR, **options) -> ActionReading:
    found = read_action(given, allowed, parse, **options)
    plain = msgspec.to_builtins(found)
    assert json.loads(json.dumps(plain, allow_nan=False)) == json.loads(msgspec.json.encode(found))
    assert msgspec.convert(plain, ActionReading) == found
    return found


def masses(found: ActionReading) -> dict[str, float]:
    spread = found.distribution
    assert sum(spread.probabilities) + spread.other == pytest.approx(1, abs=1e-12)
    return {**dict(zip(spread.labels, spread.probabilities, strict=True)), "other": spread.other}


UP = [("up", 0.5), ("down", 0.2), ("left", 0.1), ("move", 0.06), ("jump", 0.04)]
PLAIN = [*sure('{"', "action", '":', ' ["'), ("up", 0.5, UP), *sure('"],', ' "reasoning', '":"x', '"}')]


# -- figures against hand computation -------------------------------------------------------------------------------


def test_one_token_by_hand() -> None:
    found = read(answer(PLAIN, exact=[0.0] * 4 + [1.75] + [0.0] * 4), vocab_size=105)
    assert (found.said, found.action, found.action_missing, found.evidence_missing) == ("up", "up", None, None)
    assert (found.first, found.count, found.tokens, found.decision) == (4, 1, ("up",), 4)
    known = entropy(0.5, 0.2, 0.1, 0.06, 0.04)
    bucket = known + entropy(0.1)
    assert found.first_nats == pytest.approx(bucket, abs=1e-12)
    assert found.low_nats == pytest.approx(known + 2 * entropy(0.04) + entropy(0.02), abs=1e-12)
    assert found.high_nats == pytest.approx(known + 0.1 * math.log(100 / 0.1), abs=1e-12)
    assert found.unlisted == pytest.approx(0.1, abs=1e-12)
    assert found.mean_nats == found.weighted_nats == found.decision_nats == found.first_nats
    assert (found.exact_nats, found.decision_exact_nats) == (1.75, 1.75)
    assert found.path_probability == pytest.approx(0.5, abs=1e-15)
    expected = {"up": 0.5, "down": 0.2, "left": 0.1, "right": 0.0, "other": 0.2}
    assert masses(found) == pytest.approx(expected, abs=1e-12)
    assert found.unsettled == pytest.approx(0.06, abs=1e-12)
    assert found.action_entropy_nats == pytest.approx(entropy(0.5, 0.2, 0.1, 0.2), abs=1e-12)
    assert found.given_allowed_nats == pytest.approx(entropy(0.625, 0.25, 0.125), abs=1e-12)
    assert found.probability == pytest.approx(0.5, abs=1e-12)
    assert found.reasoning == "x"


def test_without_the_vocabulary_there_is_no_upper_bound() -> None:
    found = read(answer(PLAIN))
    assert (found.high_nats, found.exact_nats) == (None, None)
    assert found.low_nats > found.first_nats


def test_several_tokens_by_hand() -> None:
    """`move up`: the first token decides little, the second which way."""
    tokens = [
        *sure('{"action":"'),
        ("move", 0.6, [("move", 0.6), ("up", 0.2), ("wait", 0.1)]),
        (" up", 0.5, [(" up", 0.5), (" down", 0.3), (" north", 0.1), (" the", 0.05)]),
        *sure('"}'),
    ]
    found = read(answer(tokens))
    assert (found.said, found.action, found.first, found.count, found.decision) == ("move up", "up", 1, 2, 2)
    first, second = entropy(0.6, 0.2, 0.1, 0.1), entropy(0.5, 0.3, 0.1, 0.05, 0.05)
    assert found.first_nats == pytest.approx(first, abs=1e-12)
    assert found.decision_nats == pytest.approx(second, abs=1e-12)
    assert found.mean_nats == pytest.approx((first + second) / 2, abs=1e-12)
    assert found.weighted_nats == pytest.approx((0.6 * first + 0.5 * second) / 1.1, abs=1e-12)
    assert found.path_probability == pytest.approx(0.3, abs=1e-12)
    expected = {"up": 0.2 + 0.6 * 0.1 + 0.3, "down": 0.18, "left": 0, "right": 0, "other": 0.2 + 0.6 * 0.1}
    assert masses(found) == pytest.approx(expected, abs=1e-12)
    assert found.unsettled == pytest.approx(0.6 * 0.05, abs=1e-12)  # `move the`


def test_the_decision_comes_when_one_action_is_left() -> None:
    """Of eight actions `d` leaves three, and `ow` one; the rest of the word decides nothing."""
    tokens = [*sure('{"action":"'), ("d", 0.5, [("d", 0.5)]), ("ow", 0.25, [("ow", 0.25)]), *sure("n", '"}')]
    found = read(answer(tokens), EIGHT)
    assert (found.action, found.first, found.count, found.decision) == ("down", 1, 3, 2)
    assert found.decision_nats == pytest.approx(entropy(0.25, 0.75), abs=1e-12)
    assert read(answer(tokens), ("up", "down")).decision == 1
    assert read(answer(tokens), ("down",)).decision is None
    short = [*sure('{"action":"'), ("d", 0.5, [("d", 0.5)]), *sure('"}')]
    assert read(answer(short), EIGHT).decision == 1  # behind its last token the action is as it was said


def test_an_alternative_counts_for_what_it_can_only_become() -> None:
    rows = [('"up', 0.4), (' "', 0.1), ('"', 0.05), (' "down', 0.1), ('["left', 0.05), ('"d"', 0.04), ('"D', 0.03)]
    rows += [('"pick', 0.02), ('"MOVE_UP', 0.02), ("null", 0.01), ('"\\u0072', 0.01), ('"upward', 0.01), ('""', 0.01)]
    tokens = [*sure('{"action":'), ('"up', 0.4, rows), *sure('"}')]
    found = read(answer(tokens), (*FOUR, "drop", "pick up"))
    assert (found.said, found.first, found.count) == ("up", 1, 1)
    # `"d"` is a whole answer and means down; `"D` may be down or drop; `null`, `upward` and nothing are no action.
    assert masses(found) == pytest.approx(
        {
            "up": 0.4 + 0.02,
            "down": 0.1 + 0.04,
            "left": 0.05,
            "right": 0.01,
            "drop": 0.0,
            "pick up": 0.02,
            "other": 0.1 + 0.05 + 0.03 + 0.01 + 0.01 + 0.01 + 0.15,
        },
        abs=1e-12,
    )
    assert found.unsettled == pytest.approx(0.1 + 0.05 + 0.03, abs=1e-12)


def test_one_token_may_hold_the_key_and_the_action() -> None:
    rows = [
        ('{"action": "up', 0.5),
        ('{"action": "down', 0.2),
        ('{"action":["left', 0.1),
        ('{"act', 0.1),
        ("Sure", 0.1),
    ]
    found = read(answer([('{"action": "up', 0.5, rows), *sure('"}')]))
    assert (found.first, found.count, found.decision) == (0, 1, 0)
    expected = {"up": 0.5, "down": 0.2, "left": 0.1, "right": 0.0, "other": 0.2}
    assert masses(found) == pytest.approx(expected, abs=1e-12)
    assert found.unsettled == pytest.approx(0.1, abs=1e-12)


def test_escapes_may_spell_an_action() -> None:
    rows = [("0075p", 0.5), ("0064own", 0.25), ("0064", 0.125)]
    tokens = [*sure('{"action":["', "\\u"), ("0075p", 0.5, rows), *sure('"]}')]
    found = read(answer(tokens), EIGHT)
    assert (found.said, found.action, found.tokens, found.decision) == ("up", "up", ("\\u", "0075p"), 2)
    assert masses(found)["down"] == pytest.approx(0.25, abs=1e-12)
    assert found.unsettled == pytest.approx(0.125, abs=1e-12)


def test_a_chosen_token_outside_its_alternatives_is_known_mass() -> None:
    tokens = [*sure('{"action":"'), ("up", 0.1, [("down", 0.6), ("left", 0.2)]), *sure('"}')]
    found = read(answer(tokens))
    assert found.first_nats == pytest.approx(entropy(0.6, 0.2, 0.1, 0.1), abs=1e-12)
    assert masses(found) == pytest.approx({"up": 0.1, "down": 0.6, "left": 0.2, "right": 0, "other": 0.1}, abs=1e-12)
    assert found.probability == pytest.approx(0.1, abs=1e-12)


def test_a_token_of_probability_zero() -> None:
    """−9999, as servers write it: the model was made to say it."""
    tokens = [*sure('{"action":"'), ("up", 0.0, [("down", 0.75), ("up", 0.0)]), *sure('"}')]
    found = read(answer(tokens))
    assert found.weighted_nats is None
    assert found.mean_nats == pytest.approx(entropy(0.75, 0.25), abs=1e-12)
    assert (found.probability, found.path_probability) == (0.0, 0.0)
    assert masses(found) == pytest.approx({"up": 0, "down": 0.75, "left": 0, "right": 0, "other": 0.25}, abs=1e-12)
    nothing = read(answer([*sure('{"action":"'), ("up", 0.0, [("a", 0.5)]), *sure('"}')]))
    assert nothing.given_allowed_nats is None
    assert nothing.action_entropy_nats == 0


def test_rounding_above_one_is_divided_out_and_more_is_no_evidence() -> None:
    tokens = [*sure('{"action":"'), ("up", 0.8, [("up", 0.8), ("down", 0.2005)]), *sure('"}')]
    assert masses(read(answer(tokens)))["up"] == pytest.approx(0.8 / 1.0005, abs=1e-12)
    tokens[1] = ("up", 0.8, [("up", 0.8), ("down", 0.4)])
    found = read(answer(tokens))
    assert (found.action, found.evidence_missing, found.first) == ("up", "bad_logprobs", 1)
    assert "sum to 1.2" in found.detail
    assert (found.first_nats, found.distribution, found.mean_nats) == (None, None, None)


def test_broken_numbers_elsewhere_do_no_harm() -> None:
    tokens = [*sure('{"action":"'), ("up", 0.5, UP), ('"}', 0.9, [('"}', 0.9), ("x", 0.9)])]
    assert read(answer(tokens)).first_nats == read(answer(PLAIN)).first_nats


# -- what is missing ------------------------------------------------------------------------------------------------


def test_no_alternatives_is_not_no_evidence() -> None:
    whole = answer(PLAIN, exact=[0.5] * len(PLAIN))
    evidence = TokenLogprobs(whole.logprobs.tokens, whole.logprobs.logprobs, entropies_nats=np.full(len(PLAIN), 0.5))
    found = read(Answer(whole.text, evidence))
    assert (found.action, found.evidence_missing) == ("up", "no_alternatives")
    assert (found.first, found.decision, found.exact_nats) == (4, 4, 0.5)
    assert found.path_probability == pytest.approx(0.5)
    assert (found.first_nats, found.mean_nats, found.distribution, found.probability) == (None, None, None, None)


def test_no_log_probabilities_leave_the_action() -> None:
    found = read(Answer('{"action": "up"}', None, "the server left them out"))
    assert (found.action, found.action_missing) == ("up", None)
    assert (found.evidence_missing, found.detail) == ("no_logprobs", "the server left them out")


def test_no_answer() -> None:
    found = read(Answer(None, failure="timeout"))
    assert (found.action, found.action_missing, found.evidence_missing) == (None, "no_answer", "no_answer")
    assert found.detail == "timeout"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("up", "no_json"),
        ("{action: up}", "bad_json"),
        ('{"action": ["up"]; }', "bad_json"),
        ('{"action": ' + "[" * 100_000, "too_deep"),
        ('{"action": ["u', "json_incomplete"),
        ('{"move": "up"}', "no_action"),
        ("{}", "no_action"),
        ('{"action": []}', "no_action"),
        ('{"action": ""}', "no_action"),
        ('{"action": 3}', "no_action"),
        ('{"action": null}', "no_action"),
        ('{"action": {"name": "up"}}', "no_action"),
        ('{"action": [["up"]]}', "no_action"),
    ],
)
def test_an_answer_without_an_action_has_its_reason_twice(text: str, reason: str) -> None:
    found = read(answer(sure(text)))
    assert (found.said, found.action, found.action_missing, found.evidence_missing) == (None, None, reason, reason)


def test_an_unknown_action_still_has_evidence() -> None:
    tokens = [*sure('{"action": "'), ("jump", 0.5, [("jump", 0.5), ("up", 0.25)]), *sure('"}')]
    found = read(answer(tokens))
    assert (found.said, found.action, found.action_missing) == ("jump", None, "unknown_action")
    assert (found.evidence_missing, found.decision, found.probability) == (None, None, None)
    assert found.first_nats == pytest.approx(entropy(0.5, 0.25, 0.25), abs=1e-12)
    assert masses(found) == pytest.approx({"up": 0.25, "down": 0, "left": 0, "right": 0, "other": 0.75}, abs=1e-12)
    assert read(answer(PLAIN), ("down", "left")).action_missing == "unknown_action"


def test_an_unknown_spelling_that_means_an_action_has_no_decision_token() -> None:
    def head(said: str) -> str | None:
        return parse(said.removeprefix("head "))

    tokens = [*sure('{"action":"'), ("head", 0.5, [("head", 0.5)]), (" up", 0.5, [(" up", 0.5)]), *sure('"}')]
    found = read_action(answer(tokens), FOUR, head)
    assert (found.action, found.decision, found.decision_nats) == ("up", None, None)
    assert found.probability == pytest.approx(0.25)
    told = {label: [f"head {label}"] for label in FOUR}
    assert read_action(answer(tokens), FOUR, head, spellings=told).decision == 2


def test_an_answer_cut_off_behind_its_action_is_taken_with_a_remark() -> None:
    cut = answer([*PLAIN[:5], *sure('", "le')], finish="length")
    found = read(cut)
    assert (found.said, found.action, found.remark, found.action_missing) == ("up", "up", "json_incomplete", None)
    assert (found.first, found.first_nats) == (4, read(answer(PLAIN)).first_nats)


# -- where the tokens are -------------------------------------------------------------------------------------------

EMOJI = "🤖".encode()


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (['```json\n{\n  "', "action", '": [\n "', "up", '"\n]}\n', "```"], ["up"]),
        (['{"action":["', "up", '"]}'], ["up"]),
        (['{"action":', '["up', '"]}'], ['["up']),
        (['{"action":["', 'up"', "]}"], ['up"']),
        (['{"action', '":["u', 'p"]', "}"], ['":["u', 'p"]']),
        (['{"action":["', "u", "p", '"]}'], ["u", "p"]),
        (['{"action":["', "move", " ", "up", '","', "down", '"]}'], ["move", " ", "up"]),
        (["Robot ", EMOJI[:2], EMOJI[2:3], EMOJI[3:] + b': {"action":"', "up", '"}'], ["up"]),
        (['{"reasoning":"', EMOJI[:1], EMOJI[1:], '", "action":"', "up", '"}'], ["up"]),
        (['{"reasoning": "up", "action": "', "up", '"}'], ["up"]),
        (['{"action": "down", "action": "', "up", '"}'], ["up"]),
        (['{"memory": {"action": "down"}, "action": "', "up", '"}'], ["up"]),
        (['{"action": "up", "x": 1}'], ['{"action": "up", "x": 1}']),
    ],
)
@pytest.mark.parametrize("with_bytes", [True, False])
def test_tokens_are_found_wherever_they_are_cut(tokens, expected, with_bytes) -> None:
    found = read(answer(sure(*tokens), with_bytes=with_bytes))
    assert (found.action, found.evidence_missing, list(found.tokens)) == ("up", None, expected)
    assert found.first == [as_text(token) for token in tokens].index(expected[0])


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([" "], [], None),
        (["\n\n"], ["\n"], None),
        ([], ["<|im_end|>"], None),
        ([], [""], None),
        (["\n"], ["\n", "</s>", ""], None),
        (["```json\n"], ["\n```"], None),
        (["<think>", "Up or down?", "</think>\n\n"], ["<eos>"], None),
        ([], [], ' {"action":"up"}\n'),
    ],
)
@pytest.mark.parametrize("middle", [['{"action":"', "up", '"}'], ['{"action":"', "u", 'p"}']])
def test_what_a_server_takes_off_a_text_does_no_harm(before, after, text, middle) -> None:
    found = read(answer(sure(*before, *middle, *after), text or "".join(middle)))
    assert (found.action, found.evidence_missing, found.first) == ("up", None, len(before) + 1)


def test_half_characters_without_their_bytes_are_aligned() -> None:
    def written(*tokens: str) -> Answer:
        evidence = TokenLogprobs(tokens, np.zeros(len(tokens)), top=TopAlternatives.from_rows([[]] * len(tokens)))
        return Answer('{"r":"🤖", "action":"up"}', evidence)

    found = read(written(' {"r":"', "\ufffd", "\ufffd", '", "action":"', "up", '"}', "\n", "<|im_end|>"))
    assert (found.first, found.tokens, found.evidence_missing) == (4, ("up",), None)
    # The first two may share the robot in several ways, but all of these end before the action.
    assert read(written('{"r":"', "\ufffd", "\ufffd", "\ufffd", '", "action":"up"}')).first == 4
    byte_level = read(written('{"r":"', "ðŁ¤ĸ", '",', 'Ġ"action":"', "up", '"}'))
    assert (byte_level.first, byte_level.tokens) == (4, ("up",))


@pytest.mark.parametrize(
    "tokens",
    [
        ['{"action":"', "down", '"}'],
        ['{"action":"', "up"],
        [],
        ['{"action":"up"}', '{"action":"up"}'],
        ['{"action":"', "\ufffd", '"}'],
    ],
)
def test_tokens_that_do_not_spell_the_answer_once_are_not_guessed_at(tokens) -> None:
    given = answer(sure(*tokens), '{"action":"up"}', with_bytes=False)
    found = read(given)
    assert (found.action, found.evidence_missing) == ("up", "not_located")
    assert (found.first, found.first_nats, found.distribution) == (None, None, None)


# -- spellings and schema -------------------------------------------------------------------------------------------


def test_spellings() -> None:
    ways = usual_spellings(EIGHT)
    assert could_become("", ways) == set(EIGHT)
    assert could_become("D", ways) == {"down", "drop", "done"}
    assert could_become(" go  to ", ways) == {*FOUR}
    assert could_become("move-e", ways) == {"right"}
    assert could_become("pickup l", ways) == could_become("Grab", ways) == {"pick up"}
    assert could_become("upper", ways) == could_become("up.", ways) == set()
    assert could_become("wa", usual_spellings(["wave", "up"])) == {"wave", "up"}  # up as in `walk up`


def test_every_usual_spelling_is_read_as_its_action() -> None:
    from howsure.studies.trust.world.words import parse_action

    for label, ways in usual_spellings(EIGHT).items():
        assert {parse_action(way).label for way in ways} == {label}


def test_the_schema_begins_with_the_action_and_bounds_every_text() -> None:
    schema = action_schema(FOUR)
    assert list(schema["properties"]) == ["action", "reasoning", "grounding", "memory"] == schema["required"]
    assert schema["properties"]["action"]["items"]["enum"] == list(FOUR)
    assert schema["properties"]["action"]["minItems"] == 1
    assert list(schema["properties"]["memory"]["properties"]) == ["task_process", "previous_action"]
    assert json.dumps(schema).count('"string"') == json.dumps(schema).count("maxLength") + 1  # the action has its enum


# -- anything at all ------------------------------------------------------------------------------------------------


def split(spelled: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(spelled), *(cut % (len(spelled) + 1) for cut in cuts)})
    return [spelled[a:b] for a, b in pairwise(places)]


cuts = st.lists(st.integers(0, 10_000), max_size=12)
json_like = st.text(alphabet='{}[]":,\\u0075p actiondwn🤖é\ufffd', max_size=40)


@settings(max_examples=200)
@given(st.text() | json_like | json_like.map(lambda t: '{"action":"up' + t), cuts, json_like, cuts, st.booleans())
def test_no_text_and_no_tokens_break_it(text, places, spelled, alternative_cuts, with_bytes) -> None:
    other = split(spelled.encode(), alternative_cuts) or [b""]
    tokens = [(piece, 0.5, [(piece, 0.5), (other[0], 0.2), (other[-1], 0.1)]) for piece in split(text.encode(), places)]
    found = read(answer(tokens, text, with_bytes=with_bytes), EIGHT, vocab_size=50)
    assert (found.action is None) == (found.action_missing is not None)
    assert (found.first_nats is None) == (found.evidence_missing is not None)
    assert found.evidence_missing != "not_located" or not with_bytes
    if found.distribution is not None:
        masses(found)
        assert found.first_nats <= found.low_nats + 1e-12 <= found.high_nats + 2e-12
    read(answer(sure(*other), text, with_bytes=with_bytes))


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["up", "Move down", "north", "pick up"]), min_size=1, max_size=3),
    st.booleans(),
    st.dictionaries(st.text(max_size=8).filter(lambda key: key != "action"), st.text(max_size=12), max_size=3),
    st.sampled_from([None, 2]),
    st.booleans(),
    st.sampled_from(["", "I say: ", "🤖\n```json\n"]),
    cuts,
)
def test_located_tokens_cover_the_action_and_no_more(actions, listed, rest, indent, ascii_only, before, places) -> None:
    value = {**rest, "action": actions if listed else actions[0]}
    text = before + json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    pieces = split(text.encode(), places)
    found = read(answer(sure(*pieces), text), EIGHT)
    assert (found.said, found.action, found.evidence_missing) == (actions[0], parse(actions[0]), None)
    start = text.encode().rindex(b'"action": ')
    start = text.encode().index(actions[0].encode(), start + len(b'"action": '))
    end = start + len(actions[0])
    ends = np.cumsum([len(piece) for piece in pieces])
    covering = [i for i, piece in enumerate(pieces) if ends[i] > start and ends[i] - len(piece) < end]
    assert list(range(found.first, found.first + found.count)) == covering


# -- a real server --------------------------------------------------------------------------------------------------

SCENES = (
    "A robot stands at the door", "The goal is above you", "There is a wall to your left", "You are in a corridor",
    "The key lies to the right", "You see nothing", "A box blocks the way", "The floor is wet", "It is dark",
    "The goal is two cells down", "You came from the left", "Turn back",
)  # fmt: skip


@pytest.mark.server
@pytest.mark.real_model
def test_a_real_server_writes_answers_whose_actions_are_found(llama_server: str) -> None:
    from howsure.models.servers.openai import OpenAIServer

    schema = action_schema(FOUR)
    reasoning = {"type": "string", "maxLength": 8}
    schema |= {"properties": {"action": schema["properties"]["action"], "reasoning": reasoning}}
    schema |= {"required": ["action", "reasoning"]}
    form = 'Up, down, left or right? Answer as JSON: {"action": ["up"], "reasoning": "brief"}'
    prompts = [f"{scene}. {form}" for scene in SCENES[: several(4, 12)]]
    model = OpenAIServer("smollm2", base_url=llama_server, concurrency=4)
    held = model.generate(prompts, max_tokens=24, temperature=1.0, top_logprobs=10, answer_schema=schema)
    free = model.generate(prompts[: several(2, 4)], max_tokens=24, temperature=1.0, top_logprobs=10)
    found = [read(one) for one in held]
    assert [one.action_missing for one in found].count(None) >= len(prompts) - 1
    parsable = [one for one in (*found, *map(read, free)) if one.said is not None]
    located = [one for one in parsable if one.evidence_missing is None]
    assert len(located) >= 0.95 * len(parsable), [one.evidence_missing for one in parsable]
    for one in located:
        assert one.said in "".join(one.tokens)
        assert masses(one)["other"] >= one.unsettled
        assert one.action is None or one.probability >= one.path_probability - 1e-9
