"""Addresses such as `s3://bucket/folder/file`: what is one, how it is shown, what is taken for one by mistake.

An address may carry secrets: a password before the host, a signature in the query. Neither is ever shown; `shown` is
what goes into messages, manifests and reports.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

from howsure.errors import InputError

Place = str | os.PathLike[str]
"""A path on this machine, or an address."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FLATTENED = re.compile(r"(?P<kind>s3a?|gs|gcs|memory|https?|abfss?|az|adl|hdfs|webdavs?|sftp|ftp|file):/(?!/)")
"""What is left of an address that was made a Path, which takes two slashes for one."""

WEB = frozenset({"http", "https"})
LOCAL = frozenset({"file", "local"})
BUCKETS = frozenset({"s3", "s3a", "gs", "gcs"})
LONGEST_SHOWN, LONGEST_NAME_BYTES = 300, 240
GLOB_SIGNS = re.compile(r"[*?\[]")
SHORTEST_SECRET = 8
MOST_DECODINGS = 4
"""A path that is percent-encoded more often than this has something to hide."""

_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>«»]+")


def is_address(place: object) -> bool:
    """Whether a text is an address, and not a path on this machine; a `Path` never is."""
    return isinstance(place, str) and _ADDRESS.match(place) is not None


def kind_of(address: str) -> str:
    """`s3`, `gs`, `https`: what stands before the colon."""
    return address.partition("://")[0].lower()


def checked(place: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The place as it came, unless it was an address once, or is one that cannot be used.

    `file://` addresses come back as plain paths.
    """
    if not is_address(place):
        _refuse_flattened(os.fspath(place))
        return place
    address = f"{kind_of(str(place))}://{str(place).partition('://')[2]}"
    if not address.partition("://")[2].strip("/"):
        raise InputError(f"{address} names nothing: an address goes on with a bucket or a folder")
    if kind_of(address) in LOCAL:
        return address.partition("://")[2] or "/"
    _refuse_unusable(address)
    return address


def _refuse_unusable(address: str) -> None:
    kind, _, rest = address.partition("://")
    if _has_controls(rest):
        raise InputError(f"{shown(address)!r} holds line breaks or other control signs, or is no text: write it anew")
    if "::" in rest:
        raise InputError(f"{shown(address)} joins several addresses: name one, without ::")
    if kind in BUCKETS and _has_key(rest.partition("/")[0]):
        raise InputError(
            f"{shown(address)} has a key in it, which would end up in histories and logs: take it out; set it where "
            "the store's own tools look for it (AWS_ACCESS_KEY_ID and the like)"
        )
    if kind not in WEB and not {".", ".."}.isdisjoint(rest.split("/")):
        raise InputError(f"{shown(address)} has . or .. in it, which stores take for names: write the address out")


def _has_key(bucket: str) -> bool:
    """Whether what stands for a bucket is a key. Secret keys may hold a slash, so that the @ is not always here."""
    return "@" in bucket or (":" in bucket and not bucket.startswith("arn:"))


def _refuse_flattened(path: str | bytes) -> None:
    text = os.fsdecode(path)
    if _FLATTENED.match(text) and not os.path.lexists(text):
        whole = text.replace(":/", "://", 1)
        raise InputError(f"{text} was an address before it was made a path: pass {shown(whole)!r} as text")


def shown(address: str) -> str:
    """An address without what may be secret in it: user and password, query and fragment."""
    kind, _, rest = address.partition("://")
    rest = rest[len(_user_of(kind, rest)) :]
    rest = re.split(r"[?#]", rest, maxsplit=1)[0] if kind.lower() in WEB or "?" in rest else rest
    return f"{kind}://{rest}"


def _user_of(kind: str, rest: str) -> str:
    """What stands before the host, the @ included. A password may hold signs that it should not, / ? # and @."""
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in host:
        return host[: host.rindex("@") + 1]
    _, colon, port = host.partition(":")
    is_key = _has_key(host) if kind.lower() in BUCKETS else bool(colon) and not port.isdecimal() and host[0] != "["
    if not is_key:
        return ""
    return rest[: rest.rindex("@") + 1] if "@" in rest else host if kind.lower() in BUCKETS else ""


def secrets_of(address: str) -> list[str]:
    """The pieces of an address that no message may repeat."""
    kind, _, rest = address.partition("://")
    user = _user_of(kind, rest)
    query = rest[len(user) :].partition("#")[0].partition("?")[2]
    user = user.removesuffix("@")
    return [piece for piece in (query, user, *user.split(":"), *query.split("&")) if len(piece) > 3]


def without_secrets(text: str, address: str = "") -> str:
    """A text of others, such as a traceback, with every address in it as it may be shown; `address` is one whose
    secrets may stand there on their own."""
    for secret in secrets_of(address):
        text = text.replace(secret, "…")
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if len(secret := os.environ.get(name, "")) > SHORTEST_SECRET:
            text = text.replace(secret, "…")
    return _IN_TEXT.sub(lambda match: shown(match[0]), text)


def find_below(written: str, root: str) -> str:
    """The address that a path out of data means, from a root's address on. Data is hostile: it may not lead out of
    there, nor to this machine's files."""
    base = root.rstrip("/") + "/"
    rest = written.removeprefix(base) if is_address(written) else written
    decodes = kind_of(root) not in BUCKETS  # whose keys are taken as they are spelled
    rest, query = _parted(rest) if decodes else (rest, "")
    path = posixpath.normpath(rest)
    outside = is_address(rest) or path.startswith(("/", "../")) or path in ("..", ".") or "\0" in path
    if outside or (decodes and _may_lead_out(path)):
        raise InputError(
            f"the path {written[:LONGEST_SHOWN]!r} leads out of {shown(root)}, which it may not (--image-root names "
            "the folder that paths begin at)"
        )
    return base + path + query


def _parted(path: str) -> tuple[str, str]:
    """The path, and the query or fragment behind it."""
    end = re.search(r"[?#]|$", path)
    return (path[: end.start()], path[end.start() :]) if end else (path, "")


def _may_lead_out(path: str) -> bool:
    """Whether some server or library takes a path for one that goes up: `%2e%2e/`, `%252e.%2f`, `..%5c`, `..;x/`."""
    for _ in range(MOST_DECODINGS):
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError:  # which lenient decoders read as dots and slashes: %c0%ae
            return True
        if decoded == path:
            parts = [part.partition(";")[0] for part in path.replace("\\", "/").split("/")]
            return not parts[0] or not {".", ".."}.isdisjoint(parts) or _has_controls(path)
        path = decoded
    return True


def _has_controls(text: str) -> bool:
    return any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text)


def joined(address: str, name: str) -> str:
    """The address of a name below a folder's address."""
    return f"{address.rstrip('/')}/{name}"


def below(place: Place, name: str) -> Path | str:
    """A name in a folder, which may be an address; the folder itself where there is no name."""
    if not is_address(place):
        return Path(place) / name
    return joined(str(place), name) if name else str(place)


def split(address: str) -> tuple[str, str]:
    """The folder of an address, and the name of the file in it, which is fit to be a file's name here."""
    plain = shown(address)
    folder, _, name = plain.rpartition("/")
    if not is_address(folder + "/") or folder.endswith(":/") or not is_plain_name(name):
        raise InputError(f"{plain} names no file: an address ends in the file's name")
    return folder, name


def is_plain_name(name: str) -> bool:
    """Whether a name from a store can be one here: it leads nowhere else, and is not too long."""
    return (
        name not in ("", ".", "..")
        and "\0" not in name
        and "/" not in name
        and len(os.fsencode(name)) <= LONGEST_NAME_BYTES
    )
