"""Good documents made almost good. One set of mutations for hypothesis and for atheris alike.

Whoever chooses hands in a `random.Random`: hypothesis has one that it can shrink, atheris gives the seed of one. Most
changes respect the form (a value of another type, a key dropped or written twice), since bytes flipped at random are
mostly refused by the first line of a decoder; some are made to the bytes, since that line is code too.
"""

from __future__ import annotations

import functools
import gzip
import json
import pickle
import random
import zlib
from collections.abc import Callable
from typing import Any

LARGEST_BYTES = 64 * 1024
"""No mutation makes a longer input, so that slowness is the reader's and not the input's."""

PART = b"\x1e\n"
"""Between the files of a run folder in one input."""

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400, 0.0, -0.0, 0.5, 1.5, -0.25,
    1e-320, 1e308, -1e308, 1e16, float("nan"), float("inf"), float("-inf"), "", " ", "0", "nan", "-1e999", "\x00",
    "\ufeff", "\ud83d", "\ufffd", "é", "e\u0301", "👩‍👩‍👧‍👦", "\u202e", "../../etc/passwd", "a\nb\tc", "<script>",
    "%s{0}{question}", "x" * 5000, [], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [0] * 300, ["", ""],
)  # fmt: skip
"""What stands in a document where something else should."""

ODD_TEXTS = (
    "", " ", "\t", "\n", "\r\n", "\r", "\x00", "\ufeff", "\x1e", "\x85", "\u2028", "\ud83d", "\ufffd", "👩‍👩‍👧‍👦", "0",
    "-1", "1e999", "-1e999", "nan", "inf", "9" * 400, "0x10", "1_000", "١٢٣", "½", "{", "}", "[", "]", "(", ")", "\"",
    "'", "\\", "\\u", "`" * 3, "<", ">", "&", "%", "+", ":", ",", ";", "=", "..", "/", "~", "#", "-", "\\data\\",
    "\\end\\", "\\1-grams:", "<unk>", "<s>", "</s>", "<think>", "<answer>", "```grounding\n", "click(", "{question}",
    "{0.__class__}", "x" * 3000, "( " * 500, "1, " * 500, "[" * 2000,
)  # fmt: skip


def mutated(data: bytes, form: str, rng: random.Random) -> bytes:
    """The document after one to four changes, none longer than `LARGEST_BYTES`."""
    for _ in range(1 + rng.randrange(4)):
        data = _once(data, form, rng)[:LARGEST_BYTES]
    return data


def _once(data: bytes, form: str, rng: random.Random) -> bytes:
    if rng.randrange(8) == 0:
        return rng.choice(_BYTE_CHANGES)(data, rng)
    changed = _BY_FORM[form](data, rng)
    return rng.choice(_BYTE_CHANGES)(data, rng) if changed is None else changed


# -- documents of JSON ------------------------------------------------------------------------------------------------


def _json(data: bytes, rng: random.Random) -> bytes | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    holder = [value]
    _change_value(holder, rng)
    return _written(holder[0], rng)


def _json_lines(data: bytes, rng: random.Random) -> bytes | None:
    lines = data.split(b"\n")
    if rng.randrange(4) == 0:
        return b"\n".join(_change_list(lines, rng))
    place = rng.randrange(len(lines))
    changed = _json(lines[place], rng)
    return None if changed is None else b"\n".join([*lines[:place], changed, *lines[place + 1 :]])


def _change_value(holder: list[Any], rng: random.Random) -> None:
    """One change somewhere below `holder[0]`, all depths alike."""
    container, key = holder, 0
    depth = rng.randrange(8)
    for _ in range(depth):
        below = container[key]
        if not isinstance(below, (dict, list)) or not below:
            break
        container, key = below, rng.choice(list(below)) if isinstance(below, dict) else rng.randrange(len(below))
    change = rng.randrange(6) if container is not holder else 3 + rng.randrange(2)
    if change == 0 and len(container) > 1:
        del container[key]
    elif change == 1 and isinstance(container, list):
        container[:] = _change_list(container, rng)
    elif change == 2 and isinstance(container, dict):
        container[str(rng.choice(ODD_VALUES))[:60]] = container[key]
    elif change == 3:
        container[key] = _nested(container[key], rng)
    else:
        container[key] = rng.choice(ODD_VALUES)


def _change_list(values: list[Any], rng: random.Random) -> list[Any]:
    """One more, one less, two the same, another order."""
    if not values:
        return values
    place = rng.randrange(len(values))
    ways: tuple[Callable[[], list[Any]], ...] = (
        lambda: [*values[:place], *values[place + 1 :]],
        lambda: [*values[:place], values[place], *values[place:]],
        lambda: values[place:] + values[:place],
        lambda: values[:place],
        lambda: values * 3,
    )
    return rng.choice(ways)()


def _nested(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 3, 70, 500))):
        value = [value] if rng.randrange(2) else {"a": value}
    return value


def _written(value: Any, rng: random.Random) -> bytes:
    """As JSON, mostly plain; now and then ASCII only, with keys that stand twice, or indented."""
    style = rng.randrange(6)
    try:
        text = json.dumps(value, ensure_ascii=style == 0, indent=1 if style == 1 else None)
    except (RecursionError, ValueError):
        return b"[" * 5000
    if style == 2:
        text = text.replace('": ', '": null, "', 1) if rng.randrange(2) else text.replace("{", '{"id": 0, "id": 1, ', 1)
    return text.encode("utf-8", "surrogatepass")


# -- texts ------------------------------------------------------------------------------------------------------------


def _text(data: bytes, rng: random.Random) -> bytes | None:
    """A text cut at a place, and something odd put there, or a stretch of it left out or written again."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((0, 1, 2, 5, 20)))
    odd = rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
    middle = rng.choice((odd, odd, b"", data[start:end] * 40))
    return data[:start] + middle + data[end:]


def _lines(data: bytes, rng: random.Random) -> bytes | None:
    """A text that is made of lines and of fields in them: whole ones are changed, too."""
    if rng.randrange(2):
        return _text(data, rng)
    lines = data.split(b"\n")
    if rng.randrange(2):
        return b"\n".join(_change_list(lines, rng))
    place = rng.randrange(len(lines))
    between = rng.choice((b",", b"\t", b" ", b"="))
    fields = lines[place].split(between)
    fields[rng.randrange(len(fields))] = rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass")
    lines[place] = between.join(fields)
    return b"\n".join(lines)


# -- what is packed ---------------------------------------------------------------------------------------------------


def _gzipped(data: bytes, rng: random.Random) -> bytes | None:
    """What is inside is changed and packed again; or many times over, which packs to almost nothing."""
    if rng.randrange(8) == 0:
        return data + _bomb(rng.choice((b"\n", b"a", b"-1\ta\n"))) * 6
    try:
        inside = zlib.decompressobj(31).decompress(data, LARGEST_BYTES)
    except zlib.error:
        return None
    return gzip.compress(_lines(inside, rng) or b"", mtime=0)


@functools.cache
def _bomb(filling: bytes) -> bytes:
    """Ten kilobytes that unpack to ten megabytes; several, one after the other, are one file to gzip."""
    return gzip.compress(filling * (10_000_000 // len(filling)), mtime=0)


def _pickled(data: bytes, rng: random.Random) -> bytes | None:
    """Only our own seeds are ever loaded here: `pickle` runs what is in it."""
    value = json.loads(PICKLED_AS_JSON)
    holder = [value]
    for _ in range(1 + rng.randrange(3)):
        _change_value(holder, rng)
    try:
        return pickle.dumps(holder[0], rng.randrange(6))
    except (RecursionError, UnicodeEncodeError):
        return None


PICKLED_AS_JSON = json.dumps(
    [
        [
            {"role": "user", "content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "press plus"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "```grounding\n(311, 541)\n```"}]},
        ]
    ]
)
"""A sample as pickles of chats hold it."""


def _parts(data: bytes, rng: random.Random) -> bytes | None:
    """A run folder: one of its three files is changed."""
    parts = data.split(PART)
    place = rng.randrange(len(parts))
    change = _json_lines if place == 1 else _json
    parts[place] = change(parts[place], rng) or _text(parts[place], rng) or b""
    return PART.join(parts)


def _binary(data: bytes, rng: random.Random) -> bytes | None:
    return None


# -- bytes ------------------------------------------------------------------------------------------------------------


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return b"\xff"
    changed = bytearray(data)
    for _ in range(1 + rng.randrange(3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice((b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x80")) + data[place:]


def _wrapped(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    ways = (b"\xef\xbb\xbf" + data, text.encode("utf-16"), data + data, data.replace(b"\n", b"\r\n"), b"")
    return rng.choice(ways)


_BYTE_CHANGES = (_cut, _flip, _flip, _insert, _wrapped)
_BY_FORM: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "json": _json,
    "json lines": _json_lines,
    "text": _text,
    "lines": _lines,
    "gzip": _gzipped,
    "pickle": _pickled,
    "run": _parts,
    "binary": _binary,
}
FORMS = tuple(_BY_FORM)
