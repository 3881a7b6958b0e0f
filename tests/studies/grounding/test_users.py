"""Which users are meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.errors import InputError
from howsure.studies.grounding.options import MOST_USERS, parse_users


@pytest.mark.parametrize(
    ("given_users", "expected"),
    [
        ("1-10", list(range(1, 11))),
        ("1 3 7", [1, 3, 7]),
        ("1-5,8", [1, 2, 3, 4, 5, 8]),
        ("1 10", [1, 10]),
        (["1", "10"], [1, 10]),
        (["1-3", "7,9"], [1, 2, 3, 7, 9]),
        ([7, 3, 3], [3, 7]),
        (4, [4]),
        ("5-5", [5]),
        ("0", [0]),
        (" 2 , 4 ,", [2, 4]),
        ("1 - 3", [1, 2, 3]),
        ("1–3", [1, 2, 3]),
        ("007", [7]),
        ("9,1-2", [1, 2, 9]),
    ],
)
def test_users(given_users: str | Sequence[str | int], expected: list[int]) -> None:
    assert parse_users(given_users) == expected


def test_none_is_all() -> None:
    assert parse_users(None) is None


@pytest.mark.parametrize(
    ("given_users", "words"),
    [
        ("", "empty"),
        (" , ", "empty"),
        ([], "empty"),
        ("a-b", "'a-b'"),
        ("1-", "'1-'"),
        ("-3", "'-3'"),
        (-3, "'-3'"),
        ("1-2-3", "'1-2-3'"),
        ("1.5", "'1.5'"),
        ("١", "'١'"),
        ("10-1", "write 1-10"),
        ("0-999999999", "more than 100000 users"),
        ("1" * 10, "numbers and ranges"),
        ("9" * 10_000, "numbers and ranges"),
        ([None], "NoneType"),
        ([True], "bool"),
    ],
    ids=range(16),
)
def test_nonsense_is_one_sentence(given_users: str | Sequence[str | int], words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_users(given_users)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


def test_many_ranges_are_too_many_as_well() -> None:
    with pytest.raises(InputError, match="more than 100000"):
        parse_users(f"0-{MOST_USERS - 1} {MOST_USERS + 5}")


@given(st.sets(st.integers(0, 10**6), min_size=1, max_size=30), st.sampled_from([" ", ",", ", "]))
def test_what_is_written_is_read(users: set[int], between: str) -> None:
    assert parse_users(between.join(map(str, users))) == sorted(users)
