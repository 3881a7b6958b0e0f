"""Which users are meant: `1-10`, `1 3 7`, `1-5,8`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from howsure.errors import InputError

MOST_USERS = 100_000
_PIECE = re.compile(r"(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?", re.ASCII)
_AROUND_DASH = re.compile(r"\s*[-–]\s*")


def parse_users(given: str | int | Sequence[str | int] | None) -> list[int] | None:
    """The numbers of the users, each once, in order; None means all.

    Numbers and ranges stand apart by commas or spaces, in one text or in several. A range takes a dash: `1-10` are ten
    users, `1 10` are two, though there are scripts that take two bare numbers for a range.
    """
    if given is None:
        return None
    texts = [given] if isinstance(given, (str, int)) else list(given)
    pieces = [piece for text in texts for piece in _pieces(text)]
    if not pieces:
        raise InputError("--users is empty; name some, as in 1-5,8, or leave it out for all")
    users: set[int] = set()
    for piece in pieces:
        users.update(_range(piece))
        if len(users) > MOST_USERS:
            raise InputError(f"--users names more than {MOST_USERS} users")
    return sorted(users)


def _pieces(text: str | int) -> list[str]:
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise InputError(f"--users takes numbers and ranges such as 1-5, not a {type(text).__name__}")
    return (
        re.split(r"[\s,]+", _AROUND_DASH.sub("-", str(text)).strip(", \t\r\n")) if str(text).strip(", \t\r\n") else []
    )


def _range(piece: str) -> range:
    found = _PIECE.fullmatch(piece)
    if found is None:
        raise InputError(f"--users has {piece[:40]!r}; write numbers and ranges from 0 on, as in 1-10 or 1,3,7")
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    if last < first:
        raise InputError(f"--users has the range {piece}, which runs backwards; write {last}-{first}")
    if last - first >= MOST_USERS:
        raise InputError(f"--users has the range {piece}, more than {MOST_USERS} users")
    return range(first, last + 1)
