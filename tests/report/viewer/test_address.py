"""What a page shows stands in its address, and comes back from there."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howsure.report.viewer.query import MOST_FIELDS, Query, State, fields_of, query_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(str.strip)


@given(TEXT, st.lists(st.tuples(TEXT.filter(bool), TEXT.filter(bool)), max_size=3, unique_by=lambda one: one[0]),
       TEXT, st.integers(1, 10**8))  # fmt: skip
def test_a_question_survives_its_address(search: str, filters: list[tuple[str, str]], sort: str, page: int) -> None:
    query = Query(search, tuple(filters), sort, page)
    written = State("a/b c&d=é", query).to("/run")
    assert written.isascii()
    fields = fields_of(urlsplit(written).query.encode())
    assert fields["path"] == "a/b c&d=é"
    assert query_of(fields) == query


def test_a_folder_whose_name_is_no_text_has_an_address() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    written = State(name).to("/run")
    assert written == "/run?path=caf%E9"
    assert fields_of(b"path=caf%E9") == {"path": name}


@pytest.mark.parametrize("page", ["", "0", "-1", "abc", "1.5", "٣", "9" * 40])
def test_a_page_that_is_no_number_is_the_first(page: str) -> None:
    assert query_of({"page": page}).page in (0, 1)


def test_an_address_cannot_hold_any_number_of_fields() -> None:
    with pytest.raises(ValueError):
        fields_of(b"&".join(b"a=1" for _ in range(MOST_FIELDS + 1)))
