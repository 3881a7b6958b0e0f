"""Which files a name stands for, and what form of data each holds. Content tells the form; names only tell users.

A folder is read through its `user_{number}` files where it has such; else through all its JSON, JSON lines and pickles,
in the order of their names; else through those of its folder `annotations`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from howsure.errors import InputError
from howsure.storage import checked, is_address, is_file, local, local_folder
from howsure.studies.grounding.reading.chat_records import is_chat
from howsure.studies.grounding.reading.flat_records import is_flat
from howsure.studies.grounding.reading.json_entries import BYTE_ORDER_MARK, check_count, read_entries
from howsure.studies.grounding.reading.osworld import is_osworld
from howsure.studies.grounding.reading.pickles import plain_data
from howsure.studies.grounding.reading.places import ANNOTATIONS
from howsure.studies.grounding.reading.screenspot import is_screenspot

MOST_BYTES = 256 * 2**20
"""Of one file: about a quarter of a million samples. Screens lie in files of their own."""

SUFFIXES = (".json", ".jsonl", ".pkl", ".pickle")
_USER_FILE = re.compile(r"user_(?P<user>[0-9]{1,9})\.(?:pkl|pickle|jsonl|json)", re.ASCII)
_PICKLE_STARTS = (b"\x80", b"(", b"]", b"}", b")")
"""How protocols 2 to 5, and containers of 0 and 1, begin; no JSON array and no JSON lines begin so."""

_PICKLE_WORDS, _PICKLE_END = (b"c", b"i", b"N", b"I", b"L", b"F", b"V", b"S", b"P"), b"."
"""What else protocol 0 may begin with, as any text may; but then the end tells."""

CHAT_PICKLE, CHAT_JSONL, FLAT, SCREENSPOT, OSWORLD = (
    "chat_pickle",
    "chat_jsonl",
    "flat_jsonl",
    "screenspot",
    "osworld_g",
)
_KNOWN = ((is_chat, CHAT_JSONL), (is_flat, FLAT), (is_osworld, OSWORLD), (is_screenspot, SCREENSPOT))
FORMS = (
    "chats of two messages as a pickle or as JSON lines, JSON lines with image, instruction and target, ScreenSpot's "
    "JSON with img_filename and bbox, OSWorld-G's with image_path and box_type"
)


class Source(NamedTuple):
    """One file, decoded: its entries by number, an InputError in place of those that are no JSON."""

    path: Path
    form: str
    place: str
    """`line` or `entry`: what the numbers count."""
    entries: list[tuple[int, Any]]
    user: int | None

    @property
    def name(self) -> str:
        return readable(self.path.name)

    @property
    def stem(self) -> str:
        return readable(self.path.stem)


def readable(name: str) -> str:
    """A file's name as text, also where its bytes are none."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def user_of(path: Path) -> int | None:
    found = _USER_FILE.fullmatch(path.name)
    return None if found is None else int(found["user"])


# -- which files --------------------------------------------------------------------------------------------------


def data_here(data: str | os.PathLike[str]) -> Path:
    """Data on this machine's disk as it is; the copy of what lies at an address, of a folder with the data files."""
    given = checked(data)
    if not is_address(given) or is_file(str(given)):
        return local(given)
    return local_folder(str(given), lambda name: name.removeprefix(f"{ANNOTATIONS}/").endswith(SUFFIXES))


def find_files(data: Path, users: list[int] | None) -> list[Path]:
    """The files to read, in order: those of the users that are asked for, where files are by users."""
    if not data.exists():
        raise InputError(f"{data} does not exist")
    files = _in_folder(data) if data.is_dir() else [data]
    there = {user_of(path) for path in files}
    if users is None or None in there:
        return files
    check_users(users, {str(user) for user in there}, data)
    return [path for path in files if user_of(path) in users]


def check_users(asked: list[int], there: set[str], data: Path) -> None:
    missing = [user for user in asked if str(user) not in there]
    if not missing:
        return
    if not there:
        raise InputError(f"{data} does not say whose samples it holds; leave out --users")
    named = ", ".join(sorted(there, key=lambda user: (len(user), user))[:50])
    raise InputError(f"{data} has no user {', '.join(map(str, missing[:10]))}; it has {named}")


def _in_folder(folder: Path) -> list[Path]:
    found = _data_files(folder) or _data_files(folder / ANNOTATIONS)
    by_user = [path for path in found if user_of(path) is not None]
    if not found:
        raise InputError(f"the folder {folder} holds no {', '.join(SUFFIXES)} file to read; {FORMS} are known")
    _check_once(by_user)
    return sorted(by_user, key=lambda path: (user_of(path) or 0, path.name)) if by_user else found


def _data_files(folder: Path) -> list[Path]:
    try:
        inside = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    return [path for path in inside if path.suffix.lower() in SUFFIXES and path.name[0] != "." and path.is_file()]


def _check_once(by_user: list[Path]) -> None:
    seen: dict[int | None, Path] = {}
    for path in by_user:
        other = seen.setdefault(user_of(path), path)
        if other is not path:
            raise InputError(f"{path.parent} has user {user_of(path)} twice, as {other.name} and {path.name}; "
                             "name one of the files, or move the other away")  # fmt: skip


# -- one file -----------------------------------------------------------------------------------------------------


def read_source(path: Path) -> Source:
    content = _content(path)
    start = content.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
    name = readable(str(path))
    if not start:
        raise InputError(f"{name} is empty; {FORMS} are known")
    if start in (b"[", b"{"):
        place, entries = read_entries(content, name)
        return Source(path, _form(entries, name), place, entries, user_of(path))
    if content.startswith(_PICKLE_STARTS) or (content.startswith(_PICKLE_WORDS) and content.endswith(_PICKLE_END)):
        return Source(path, CHAT_PICKLE, "entry", _pickled(content, name), user_of(path))
    raise InputError(f"{name} is neither a pickle nor JSON; {FORMS} are known")


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path} is no regular file")
    try:
        if path.stat().st_size > MOST_BYTES:
            most = f"{MOST_BYTES >> 20} MiB"
            raise InputError(f"{path} is larger than {most}; split it, and leave images in files of their own")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _pickled(content: bytes, name: str) -> list[tuple[int, Any]]:
    samples = plain_data(content, name)
    if not isinstance(samples, (list, tuple)):
        raise InputError(f"{name} holds a {type(samples).__name__}, not a list of samples; pickle that list")
    if not samples:
        raise InputError(f"{name} holds no samples")
    check_count(len(samples), name)
    return list(enumerate(samples, 1))


def _form(entries: list[tuple[int, Any]], name: str) -> str:
    """The form of the first entry that has one."""
    if not entries:
        raise InputError(f"{name} holds no samples")
    found = (form for _, entry in entries for knows, form in _KNOWN if knows(entry))
    form = next(found, None)
    if form is None:
        broken = next((f"; entry {number}: {entry}" for number, entry in entries if isinstance(entry, InputError)), "")
        raise InputError(f"{name} is of no form that is known: {FORMS}{broken}")
    return form
