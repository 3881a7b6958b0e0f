"""What flows, at its simplest: structs that are read by attribute in code and by name at the border."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec


class Fields(msgspec.Struct):
    """A struct that can be read like a dictionary too: `summary.accuracy` is `summary["accuracy"]`.

    Code of howsure takes the attribute, which mypy checks; the other is for those who have it from JSON.
    """

    def __getitem__(self, name: str) -> Any:
        return getattr(self, _attributes(type(self))[name])

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def keys(self) -> tuple[str, ...]:
        return self.__struct_encode_fields__

    def __contains__(self, name: object) -> bool:
        return name in _attributes(type(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_encode_fields__)

    def __len__(self) -> int:
        return len(self.__struct_encode_fields__)


@cache
def _attributes(kind: type[msgspec.Struct]) -> dict[str, str]:
    """By the name of a field in JSON, that of its attribute."""
    return dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


def html_of(thing: Any) -> str:
    """How a notebook shows something. Notebooks ask the object, so that here an object asks the room above."""
    from howsure.report.notebook import html_of as cell

    return str(cell(thing))  # plain text, which others may add to without its being escaped


class Shown:
    """Something that a notebook shows as a table or a page."""

    def _repr_html_(self) -> str:
        return html_of(self)
