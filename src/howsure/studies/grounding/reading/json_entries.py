"""JSON from strangers, as a list of entries: one a line, or one array for the whole file.

Refused in a sentence: keys that stand twice in one object (which of them counts is anybody's guess), NaN and infinity,
numbers of thousands of digits, halves of characters, nesting without end.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from howsure.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"[\r\n]")
MOST_ENTRIES = 500_000
"""Of one file: twice as many as the largest file holds of the usual length."""

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
LONGEST_SHOWN = 160


class Entries(NamedTuple):
    """What each entry holds, or why it is no JSON, by its number from 1: that of the line, or of the place in the
    array."""

    place: str
    """`line` or `entry`: what the numbers count."""
    found: list[tuple[int, Any]]


def read_entries(content: bytes, name: str) -> Entries:
    content = content.removeprefix(BYTE_ORDER_MARK)
    if not _is_in_lines(content):
        return _whole(content, name)
    check_count(content.count(b"\n"), name)
    lines = enumerate(content.splitlines(), 1)
    return Entries("line", [(number, _or_error(line)) for number, line in lines if line.strip()])


def check_count(entries: int, name: str) -> None:
    """Raises before anything is made of each of too many entries, which may be no more than a byte."""
    if entries > MOST_ENTRIES:
        raise InputError(f"{name} holds {entries} entries, more than {MOST_ENTRIES}; split it into several files")


def _is_in_lines(content: bytes) -> bool:
    """Whether the first of several lines has its own brackets, or is a torn one that another line's follow."""
    first, rest = _first_line(content)
    second, _ = _first_line(rest)
    if not second:
        return False
    whole = (first[:1], first[-1:]) in {(b"{", b"}"), (b"[", b"]")}
    return whole or (first[:1] == b"{" and second[:1] == b"{")


def _first_line(content: bytes) -> tuple[bytes, bytes]:
    """The first line that is not empty, without white space around it, and what follows."""
    content = content.lstrip()
    end = _LINE_END.search(content)
    return (content.rstrip(), b"") if end is None else (content[: end.start()].rstrip(), content[end.end() :])


def _whole(content: bytes, name: str) -> Entries:
    try:
        value = decode(content)
    except InputError as error:
        raise InputError(f"{name} is neither a JSON array nor JSON lines: {error}") from error
    if isinstance(value, dict):
        return Entries("line", [(1, value)])
    if not isinstance(value, list):
        raise InputError(f"{name} holds a single JSON value, not a list of entries")
    check_count(len(value), name)
    if value and all(isinstance(one, dict) and "role" in one for one in value):
        return Entries("line", [(1, value)])  # the messages of one sample, on the only line
    return Entries("entry", list(enumerate(value, 1)))


def _or_error(line: bytes) -> Any:
    try:
        return decode(line)
    except InputError as error:
        return error


def decode(content: bytes) -> Any:
    """One JSON value."""
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_without_doubles, parse_constant=_no_number)
        if _HALF.search(content):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not UTF-8") from error
    except UnicodeEncodeError as error:
        raise InputError("a text in it holds half a character") from error
    except RecursionError as error:
        raise InputError("it is nested too deep") from error
    except ValueError as error:
        raise InputError(f"no JSON: {str(error)[:LONGEST_SHOWN]}") from error
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InputError(f"the key {twice[:LONGEST_SHOWN]!r} stands twice in one object")
    return found


def _no_number(written: str) -> Any:
    raise InputError(f"{written} is no number in JSON")
