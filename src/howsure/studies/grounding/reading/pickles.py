"""Pickles from strangers: plain data comes out of them, and nothing in them is ever run.

A pickle is a program. Python's own machine for it can be told to import nothing, but it would still hash whatever is
used as a key, and a tuple that holds itself twice, fifty times over, keeps it busy for ever; one that is nested a
million deep overruns its stack. So that machine is never started here. What reads the file knows only the instructions
that build lists, tuples, dictionaries with texts as keys, texts, numbers, booleans and None, and stops by name at the
first other one. What it built is then measured before anybody walks through it: how deep it is, and how large it would
be if everything that is referred to twice were written out twice.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from typing import Any

from howsure.errors import InputError

NEWEST_PROTOCOL = 5
MOST_STEPS = 5_000_000
"""Instructions in one file; ten thousand samples take about half a million. Each takes 64 bytes of memory at
most, texts aside, which are in the file."""

MOST_UNFOLDED = 2**28
"""Values and characters that a file may stand for, with all that is shared written out."""

DEEPEST = 64
LONGEST_NUMBER = 32
"""Bytes of one number; no coordinate and no id needs more."""

LONGEST_SHOWN = 80
CONTAINERS = frozenset({list, tuple, dict})

ALLOWED = "a pickle may hold only lists, tuples, dictionaries with texts as keys, texts, numbers, booleans and None"

REMEDIES = {
    "numpy": "turn arrays and numbers of NumPy into plain ones with .tolist() before pickling",
    "torch": "turn tensors into plain lists with .tolist() before pickling",
    "PIL": "save images as files and write their paths",
    "pathlib": "write paths as texts, str(path)",
    "collections": "make plain ones of them with dict(…) or list(…) before pickling",
    "_codecs": "this is how bytes are pickled; write texts",
}
"""What to do about kinds that get into such files by honest means, by the package that they come from."""

_OBJECTS = "an object to be made"
_KINDS = {
    **dict.fromkeys(("REDUCE", "BUILD", "NEWOBJ", "NEWOBJ_EX", "OBJ"), _OBJECTS),
    **dict.fromkeys(("PERSID", "BINPERSID"), "a reference to something outside the file"),
    **dict.fromkeys(("EMPTY_SET", "ADDITEMS", "FROZENSET"), "a set"),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), "bytes"),
    **dict.fromkeys(("NEXT_BUFFER", "READONLY_BUFFER"), "a buffer outside the file"),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), "a text of Python 2, to be written anew by Python 3"),
    **dict.fromkeys(("POP", "POP_MARK", "DUP"), "steps that no plain data needs"),
}
"""What instructions that are not followed here stand for."""


def plain_data(content: bytes, name: str) -> Any:
    """What a pickle holds, if it is plain data of a bounded size; else one sentence that begins with `name`."""
    value = _Machine(content, name).run()
    _measure(value, name)
    return value


class _Machine:
    """Follows the instructions of one pickle, protocols 0 to 5, as far as they only build plain data."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name = content, name
        self.at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        """What lay on the stack at each mark that is still open."""
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        content, end = self.content, len(self.content)
        steps = {code: method.__get__(self) for code, method in _STEPS.items()}
        for _ in range(MOST_STEPS):
            if self.at >= end:
                raise self.broken_off()
            code = content[self.at]
            self.at += 1
            if code == _STOP:
                return self.result()
            step = steps.get(code)
            if step is None:
                raise self.refused(code)
            try:
                step()
            except (IndexError, KeyError, ValueError, struct.error) as error:
                raise self.trouble(error) from error
        raise InputError(f"{self.name} takes more than {MOST_STEPS} steps to read; split it into several files")

    def result(self) -> Any:
        if len(self.stack) != 1 or self.below:
            raise self.damaged("it ends in the middle of its work")
        if self.at != len(self.content):
            more = len(self.content) - self.at
            raise InputError(
                f"{self.name} goes on for {more} bytes after its pickle has ended; one file holds one pickle"
            )
        return self.stack[0]

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def trouble(self, error: Exception) -> InputError:
        if isinstance(error, InputError):
            return error
        if isinstance(error, UnicodeError):
            return self.damaged("a text in it is no text: half a character, or not UTF-8")
        if isinstance(error, ValueError):
            return self.damaged("a number in it is none")
        return self.damaged("it refers to what is not there")

    def damaged(self, why: str) -> InputError:
        return InputError(f"{self.name} is no sound pickle at byte {self.at}: {why}; write it again")

    def broken_off(self) -> InputError:
        return InputError(f"{self.name} breaks off after {len(self.content)} bytes; copy or write it again, whole")

    def refused(self, code: int) -> InputError:
        """An instruction that is not followed here, by the name of what it asks for."""
        known = _INSTRUCTIONS.get(code)
        if known is None:
            return self.damaged(f"byte {code:#04x} is no instruction")
        if known.name in ("GLOBAL", "INST"):
            return self.asks_for(_shown(self.line()), _shown(self.line()))
        if known.name == "STACK_GLOBAL":
            texts = [value if isinstance(value, str) else "?" for value in (["?", "?", *self.stack])[-2:]]
            return self.asks_for(*map(_shown, (text.encode("utf-8", "replace") for text in texts)))
        if known.name.startswith("EXT"):
            return InputError(
                f"{self.name} asks for something by a code ({known.name}); nothing is run here: {ALLOWED}"
            )
        kind = _KINDS.get(known.name, "something else")
        return InputError(f"{self.name} holds {kind} ({known.name}, byte {self.at - 1}); {ALLOWED}")

    def asks_for(self, module: str, what: str) -> InputError:
        remedy = REMEDIES.get(module.split(".")[0])
        return InputError(
            f"{self.name} asks for «{module}.{what}» at byte {self.at}, and nothing in a pickle is run here: {ALLOWED}"
            f"{f'; {remedy}' if remedy else ''}"
        )

    # -- taking bytes ---------------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.content):
            raise self.broken_off()
        taken = self.content[self.at : end]
        self.at = end
        return taken

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def line(self) -> bytes:
        end = self.content.find(b"\n", self.at)
        if end < 0:
            raise self.broken_off()
        return self.take(end + 1 - self.at)[:-1]

    def written_number(self) -> str:
        line = self.line()
        if len(line) > LONGEST_NUMBER:
            raise self.damaged(f"a number of {len(line)} digits is absurd")
        return line.decode("ascii")

    def since_mark(self) -> list[Any]:
        values, self.stack = self.stack, self.below.pop()
        return values

    # -- numbers, booleans, None ----------------------------------------------------------------------------------

    def protocol(self) -> None:
        given = self.unsigned(1)
        if given > NEWEST_PROTOCOL:
            raise self.damaged(f"protocol {given} is not known, only 0 to {NEWEST_PROTOCOL}")

    def frame(self) -> None:
        if self.unsigned(8) > len(self.content) - self.at:
            raise self.broken_off()

    def none(self) -> None:
        self.stack.append(None)

    def true(self) -> None:
        self.stack.append(True)

    def false(self) -> None:
        self.stack.append(False)

    def written_int(self) -> None:
        written = self.written_number()
        self.stack.append({"00": False, "01": True}.get(written, written))
        if self.stack[-1] is written:
            self.stack[-1] = int(written)

    def written_long(self) -> None:
        self.stack.append(int(self.written_number().removesuffix("L")))

    def written_float(self) -> None:
        self.stack.append(float(self.written_number()))

    def int4(self) -> None:
        self.stack.append(int.from_bytes(self.take(4), "little", signed=True))

    def int1(self) -> None:
        self.stack.append(self.unsigned(1))

    def int2(self) -> None:
        self.stack.append(self.unsigned(2))

    def long1(self) -> None:
        self.long(self.unsigned(1))

    def long4(self) -> None:
        self.long(self.unsigned(4))

    def long(self, size: int) -> None:
        if size > LONGEST_NUMBER:
            raise self.damaged(f"a number of {size} bytes is absurd")
        self.stack.append(int.from_bytes(self.take(size), "little", signed=True))

    def float8(self) -> None:
        self.stack.append(struct.unpack(">d", self.take(8))[0])

    # -- texts ----------------------------------------------------------------------------------------------------

    def written_text(self) -> None:
        text = self.line().decode("raw-unicode-escape")
        text.encode("utf-8")  # raises where half a character is in it
        self.stack.append(text)

    def text1(self) -> None:
        self.stack.append(self.take(self.unsigned(1)).decode("utf-8"))

    def text4(self) -> None:
        self.stack.append(self.take(self.unsigned(4)).decode("utf-8"))

    def text8(self) -> None:
        self.stack.append(self.take(self.unsigned(8)).decode("utf-8"))

    # -- containers -----------------------------------------------------------------------------------------------

    def mark(self) -> None:
        if len(self.below) > DEEPEST:
            raise _too_deep(self.name)
        self.below.append(self.stack)
        self.stack = []

    def empty_list(self) -> None:
        self.stack.append([])

    def marked_list(self) -> None:
        values = self.since_mark()
        self.stack.append(values)

    def append(self) -> None:
        value = self.stack.pop()
        self.extend([value])

    def appends(self) -> None:
        self.extend(self.since_mark())

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise self.damaged(f"it appends to a {type(target).__name__}")
        target.extend(values)

    def empty_tuple(self) -> None:
        self.stack.append(())

    def marked_tuple(self) -> None:
        values = self.since_mark()
        self.stack.append(tuple(values))

    def tuple1(self) -> None:
        self.tuple_of(1)

    def tuple2(self) -> None:
        self.tuple_of(2)

    def tuple3(self) -> None:
        self.tuple_of(3)

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise IndexError
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def empty_dict(self) -> None:
        self.stack.append({})

    def marked_dict(self) -> None:
        values = self.since_mark()
        self.stack.append({})
        self.put_all(values)

    def set_item(self) -> None:
        value = self.stack.pop()
        self.put_all([self.stack.pop(), value])

    def set_items(self) -> None:
        self.put_all(self.since_mark())

    def put_all(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise self.damaged("a dictionary in it is none")
        keys = values[0::2]
        odd = next((key for key in keys if type(key) is not str), None)
        if odd is not None or None in keys:
            raise InputError(f"{self.name} has a {type(odd).__name__} as a key, before byte {self.at}; {ALLOWED}")
        target.update(zip(keys, values[1::2], strict=True))

    # -- what is referred to again --------------------------------------------------------------------------------

    def put_written(self) -> None:
        self.memo[int(self.written_number())] = self.stack[-1]

    def put1(self) -> None:
        self.memo[self.unsigned(1)] = self.stack[-1]

    def put4(self) -> None:
        self.memo[self.unsigned(4)] = self.stack[-1]

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def get_written(self) -> None:
        self.stack.append(self.memo[int(self.written_number())])

    def get1(self) -> None:
        self.stack.append(self.memo[self.unsigned(1)])

    def get4(self) -> None:
        self.stack.append(self.memo[self.unsigned(4)])


_STOP = ord(".")
_BY_NAME: dict[str, Callable[[_Machine], None]] = {
    "PROTO": _Machine.protocol,
    "FRAME": _Machine.frame,
    "NONE": _Machine.none,
    "NEWTRUE": _Machine.true,
    "NEWFALSE": _Machine.false,
    "INT": _Machine.written_int,
    "LONG": _Machine.written_long,
    "FLOAT": _Machine.written_float,
    "BININT": _Machine.int4,
    "BININT1": _Machine.int1,
    "BININT2": _Machine.int2,
    "LONG1": _Machine.long1,
    "LONG4": _Machine.long4,
    "BINFLOAT": _Machine.float8,
    "UNICODE": _Machine.written_text,
    "SHORT_BINUNICODE": _Machine.text1,
    "BINUNICODE": _Machine.text4,
    "BINUNICODE8": _Machine.text8,
    "MARK": _Machine.mark,
    "EMPTY_LIST": _Machine.empty_list,
    "LIST": _Machine.marked_list,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "EMPTY_TUPLE": _Machine.empty_tuple,
    "TUPLE": _Machine.marked_tuple,
    "TUPLE1": _Machine.tuple1,
    "TUPLE2": _Machine.tuple2,
    "TUPLE3": _Machine.tuple3,
    "EMPTY_DICT": _Machine.empty_dict,
    "DICT": _Machine.marked_dict,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "PUT": _Machine.put_written,
    "BINPUT": _Machine.put1,
    "LONG_BINPUT": _Machine.put4,
    "MEMOIZE": _Machine.memoize,
    "GET": _Machine.get_written,
    "BINGET": _Machine.get1,
    "LONG_BINGET": _Machine.get4,
}
_INSTRUCTIONS = {ord(known.code): known for known in pickletools.opcodes}
_STEPS = {code: _BY_NAME[known.name] for code, known in _INSTRUCTIONS.items() if known.name in _BY_NAME}


def _shown(name: bytes) -> str:
    """A name out of a hostile file, short, and with nothing in it that could move a terminal's cursor."""
    return repr(name[:LONGEST_SHOWN].decode("utf-8", "replace"))[1:-1]


# -- how large it is, without walking through it twice ------------------------------------------------------------


def _measure(root: Any, name: str) -> None:
    """Raises where data holds itself, is nested too deep, or would unfold to more than fits. Each container is entered
    once, however often it is referred to, so that a file of a hundred bytes takes a hundred steps."""
    sizes: dict[int, tuple[int, int]] = {}
    """By container: how many values and characters it stands for, and how deep it is."""
    entered: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(root, False)]
    while waiting:
        value, leaving = waiting.pop()
        if leaving:
            entered.discard(id(value))
            sizes[id(value)] = _size(value, sizes, name)
        elif id(value) in entered:
            raise InputError(f"{name} holds a list or dictionary that contains itself; {ALLOWED}, as a tree")
        elif id(value) not in sizes and type(value) in CONTAINERS:
            entered.add(id(value))
            if len(entered) > DEEPEST:
                raise _too_deep(name)
            waiting.append((value, True))
            waiting += [(part, False) for part in _parts(value) if type(part) in CONTAINERS]


def _parts(value: Any) -> Any:
    return value.values() if type(value) is dict else value


def _size(value: Any, sizes: dict[int, tuple[int, int]], name: str) -> tuple[int, int]:
    total, depth = 1, 0
    for part in _parts(value):
        if type(part) is str:
            total += 1 + len(part)
        elif type(part) in CONTAINERS:
            inner, deep = sizes[id(part)]
            total, depth = total + inner, max(depth, deep)
        else:
            total += 1
    if total > MOST_UNFOLDED:
        raise InputError(f"{name} is a bomb: it refers to the same parts so often that it stands for more than "
                         f"{MOST_UNFOLDED} values")  # fmt: skip
    if depth + 1 > DEEPEST:
        raise _too_deep(name)
    return total, depth + 1


def _too_deep(name: str) -> InputError:
    return InputError(f"{name} is nested more than {DEEPEST} deep; samples need no more than five")
