"""Which samples of the data are read, and how: options that `run` and `convert` share. Light, for the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from howsure.errors import InputError
from howsure.options import Opt, Options

Order = Literal["xywh", "xyxy"]
Units = Literal["pixels", "fractions", "thousandths"]
ORDERS: tuple[Order, ...] = get_args(Order)
UNITS: tuple[Units, ...] = get_args(Units)
PARSERS = ("strict", "compat")


@dataclass(frozen=True)
class ReadingOptions(Options):
    """Which samples are read, and how."""

    data: Annotated[
        str | os.PathLike[str],
        Opt(
            "user_<id>.pkl files or a folder of them, JSON lines, ScreenSpot (v1, v2, Pro) or OSWorld-G JSON.",
            argument=True,
            path="any",
            identity="no",
        ),
    ]
    _: KW_ONLY
    users: Annotated[
        str | Sequence[str | int] | None,
        Opt("Only these users: 1-10, or 1-5,8, or 1 3 7. Default: all.", identity="no"),
    ] = None
    parser: Annotated[
        str,
        Opt(
            "strict: an answer that is not clear is a miss. compat: the first pair of numbers, by the patterns of "
            "older scripts.",
            choices=PARSERS,
            identity="no",
        ),
    ] = "strict"
    image_root: Annotated[
        str | os.PathLike[str] | None,
        Opt(
            "Folder that image paths are relative to, and may not leave. Default: that of DATA.",
            path="any",
            identity="no",
        ),
    ] = None
    boxes: Annotated[
        str | None,
        Opt("How boxes are written: xywh or xyxy. Default: inferred from the numbers.", choices=ORDERS, identity="no"),
    ] = None
    box_units: Annotated[
        str | None,
        Opt(
            "pixels, fractions (0 to 1) or thousandths (0 to 1000). Default: inferred from the numbers.",
            choices=UNITS,
            identity="no",
        ),
    ] = None
    max_samples: Annotated[int | None, Opt("Score at most N samples.", least=1, identity="no")] = None
    skip_bad: Annotated[bool, Opt("Skip bad samples; accuracy counts them as misses.", identity="no")] = False


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(ReadingOptions):
    """What is read, and where it is written."""

    to: Annotated[Path, Opt("The JSON lines file to write.", path="local")]


# -- whose samples ------------------------------------------------------------------------------------------------

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
    match = _PIECE.fullmatch(piece)
    if match is None:
        raise InputError(f"--users has {piece[:40]!r}; write numbers and ranges from 0 on, as in 1-10 or 1,3,7")
    first = int(match["first"])
    last = first if match["last"] is None else int(match["last"])
    if last < first:
        raise InputError(f"--users has the range {piece}, which runs backwards; write {last}-{first}")
    if last - first >= MOST_USERS:
        raise InputError(f"--users has the range {piece}, more than {MOST_USERS} users")
    return range(first, last + 1)
