"""Which files a name stands for, and what form of data each holds. Content tells the form; names only tell users.

A folder is read through its `user_{number}` files where it has such; else through all its JSON, JSON lines and pickles,
in the order of their names; else through those of its folder `annotations`.

A path from a dataset is hostile input: it may not lead out of the image root. The root is what the user names. Else it
is one for each data file: of the file's own folder and the folders that the published sets keep their screens in, the
one that holds most of the file's images (of its first 200), the first of them where several do.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

from howsure.errors import InputError
from howsure.storage import (
    address_of,
    checked,
    files_among,
    find_below,
    is_address,
    is_folder,
    local_folder,
    shown_path,
)
from howsure.studies.grounding.reading.forms import is_chat, is_flat, is_osworld, is_screenspot
from howsure.studies.grounding.reading.pickles import plain_data

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
    match = _USER_FILE.fullmatch(path.name)
    return None if match is None else int(match["user"])


# -- which files --------------------------------------------------------------------------------------------------


def data_here(data: str | os.PathLike[str]) -> Path:
    """Data on this machine's disk as it is; the copy of what lies at an address, of a folder with the data files."""
    return local_folder(data, lambda name: name.removeprefix(f"{ANNOTATIONS}/").endswith(SUFFIXES))


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
    files = _data_files(folder) or _data_files(folder / ANNOTATIONS)
    by_user = [path for path in files if user_of(path) is not None]
    if not files:
        raise InputError(f"the folder {folder} holds no {', '.join(SUFFIXES)} file to read; {FORMS} are known")
    _check_once(by_user)
    return sorted(by_user, key=lambda path: (user_of(path) or 0, path.name)) if by_user else files


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
    forms = (form for _, entry in entries for knows, form in _KNOWN if knows(entry))
    form = next(forms, None)
    if form is None:
        broken = next((f"; entry {number}: {entry}" for number, entry in entries if isinstance(entry, InputError)), "")
        raise InputError(f"{name} is of no form that is known: {FORMS}{broken}")
    return form


# -- JSON from strangers ----------------------------------------------------------------------------------------------


BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"[\r\n]")
MOST_ENTRIES = 500_000
"""Of one file: twice as many as the largest file holds of the usual length."""

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
SHOWN_JSON = 160


class Entries(NamedTuple):
    """What each entry holds, or why it is no JSON, by its number from 1: that of the line, or of the place in the
    array."""

    place: str
    """`line` or `entry`: what the numbers count."""
    entries: list[tuple[int, Any]]


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
    """One JSON value. Refused in a sentence: keys that stand twice in one object (which of them counts is anybody's
    guess), NaN and infinity, numbers of thousands of digits, halves of characters, nesting without end."""
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
        raise InputError(f"no JSON: {str(error)[:SHOWN_JSON]}") from error
    return value


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InputError(f"the key {twice[:SHOWN_JSON]!r} stands twice in one object")
    return value


def _no_number(written: str) -> Any:
    raise InputError(f"{written} is no number in JSON")


# -- where the images lie ---------------------------------------------------------------------------------------------


IMAGE_FOLDERS = ("images", "imgs", "screenspot_imgs", "screenspotv2_image")
ANNOTATIONS = "annotations"
"""ScreenSpot-Pro keeps its files in a folder of this name, and `images` beside it."""

ASKED_FOR = 200
LONGEST_PATH, SHOWN_PATH = 4096, 300
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
REMEDY = "name the folder that image paths begin at with --image-root"


class LostImage(InputError):
    """A path that leads to no image, or out of the root; REMEDY may be what it needs."""


def possible_roots(data_file: Path, image_root: str | os.PathLike[str] | None) -> list[str]:
    """Folders that image paths may begin at, without links, or their addresses; the likeliest first."""
    if image_root is not None:
        root = checked(image_root)
        if is_address(root):
            return [str(root)]
        if not os.path.isdir(root):
            raise InputError(f"--image-root {os.fspath(root)} is not a folder")
        return [os.path.realpath(root)]
    home = address_of(data_file.parent) or os.path.realpath(data_file.parent)
    above, name = os.path.split(home)
    folders = [
        f"{place}/{one}" for place in ([home, above] if name == ANNOTATIONS else [home]) for one in IMAGE_FOLDERS
    ]
    there = [folder for folder in folders if is_folder(folder)]
    return [home, *(folder if is_address(folder) else os.path.realpath(folder) for folder in there)]


def choose_root(written: Iterable[str], roots: list[str]) -> str:
    """The root that holds most of these paths; the first where several do, or none."""
    if len(roots) == 1:
        return roots[0]
    asked = list(islice((path for path in dict.fromkeys(written) if len(path) <= LONGEST_PATH), ASKED_FOR))
    if is_address(roots[0]):
        return max(roots, key=lambda root: len(files_among(_addresses(asked, root))))
    return max(roots, key=lambda root: sum(_holds(root, path) for path in asked))


def _addresses(written: Iterable[str], root: str) -> Iterator[str]:
    for path in written:
        with suppress(InputError):  # one that leads out of this root has no address in it
            yield find_below(path.replace("\\", "/"), root)


def common_root(roots: list[str]) -> str:
    """The folder or address that all roots lie in."""
    if not is_address(roots[0]):
        return os.path.commonpath(roots)
    kind, _, rest = roots[0].partition("://")
    common = os.path.commonpath([rest, *(root.partition("://")[2] for root in roots)])
    return shown_path(f"{kind}://{common}")


def _holds(root: str, written: str) -> bool:
    return any(os.path.isfile(os.path.join(root, spelled)) for spelled in _spellings(written))


def find_image(written: str, root: str) -> str:
    """The file that a path from a dataset means, without links; refused where it does not lie within the root."""
    shown = repr(written[:SHOWN_PATH])
    if not written.strip() or "\0" in written or len(written) > LONGEST_PATH:
        raise InputError(f"the image path {shown} is none")
    if is_address(root):
        return _find_in_store(written, root)
    for spelled in _spellings(written):
        full = _resolved(os.path.join(root, spelled), shown)
        if not _is_within(full, root) or _WINDOWS_DRIVE.match(written):
            raise LostImage(f"the image path {shown} leads out of {root}, which it may not")
        if os.path.isfile(full):
            return full
    raise LostImage(f"the image {shown} is no file in {root}")


def _find_in_store(written: str, root: str) -> str:
    """The address; whether anything is there is found out when it is fetched, unless it can be spelled in two ways."""
    if _WINDOWS_DRIVE.match(written):
        raise LostImage(f"the image path {written[:SHOWN_PATH]!r} leads out of {shown_path(root)}, which it may not")
    try:
        spelled = [find_below(one, root) for one in _spellings(written)]
    except InputError as error:
        raise LostImage(str(error)) from error
    there = files_among(spelled) if len(spelled) > 1 else set(spelled)
    return next((one for one in spelled if one in there), spelled[0])


def _spellings(written: str) -> list[str]:
    """As written, then with the separators of Windows turned round, without the `file://` of a chat message; then with
    accents and Hangul joined, and taken apart, as Apple's systems write the names of files."""
    path = written.removeprefix("file://")
    spellings = [path, path.replace("\\", "/")] if "\\" in path else [path]
    if not path.isascii():
        spellings += [normalize(form, spelled) for form in ("NFC", "NFD") for spelled in spellings]
    return list(dict.fromkeys(spellings))


def _resolved(path: str, shown: str) -> str:
    try:
        full = os.path.realpath(path)
        full.encode("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"the image path {shown} is no path that this system has") from error
    return full


def _is_within(full: str, root: str) -> bool:
    return full.startswith(root if root.endswith(os.sep) else root + os.sep)


def relative(full: str, root: str) -> str:
    """A path as it is written into data: from the root on, with forward slashes."""
    if is_address(root):
        return full.removeprefix(root.rstrip("/") + "/")
    return Path(os.path.relpath(full, root)).as_posix()
