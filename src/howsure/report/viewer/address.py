"""Addresses: what a page shows stands in its address, so that it can be kept, shared and loaded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from howsure.report.viewer.query import Query

FILTER = "f."
MOST_FIELDS = 200


class State(NamedTuple):
    """A table and what is asked of it: `path` names the run, None means the list of runs."""

    path: str | None
    query: Query = Query()
    kept: tuple[tuple[str, str], ...] = ()
    """Other parts of the address that links within the table must not lose."""

    def to(self, page: str, **more: str) -> str:
        """The address of a page about the same rows."""
        return address(page, [*self.fields(), *more.items()])

    def fields(self) -> list[tuple[str, str]]:
        path = [] if self.path is None else [("path", self.path)]
        return [*path, *self.kept, *query_fields(self.query)]

    def asking(self, **changes: object) -> State:
        return self._replace(query=self.query._replace(**changes))  # type: ignore[arg-type]


def fields_of(query_string: bytes) -> dict[str, str]:
    """The fields of an address; the last counts where one is there twice. Raises ValueError where they are too many."""
    pairs = parse_qsl(
        query_string.decode("latin-1"), keep_blank_values=True, errors="surrogateescape", max_num_fields=MOST_FIELDS
    )
    return dict(pairs)


def query_of(fields: Mapping[str, str]) -> Query:
    filters = tuple(
        (name.removeprefix(FILTER), value.strip())
        for name, value in fields.items()
        if name.startswith(FILTER) and value.strip()
    )
    page = fields.get("page", "")
    return Query(
        fields.get("q", "").strip(),
        filters,
        fields.get("sort", ""),
        int(page) if page.isascii() and page.isdigit() and len(page) < 10 else 1,
    )


def query_fields(query: Query) -> list[tuple[str, str]]:
    found = [("q", query.search), *((FILTER + name, value) for name, value in query.filters), ("sort", query.sort)]
    return [(name, value) for name, value in found if value] + ([("page", str(query.page))] if query.page > 1 else [])


def address(page: str, fields: Iterable[tuple[str, str]]) -> str:
    written = urlencode(list(fields), errors="surrogateescape")
    return f"{page}?{written}" if written else page
