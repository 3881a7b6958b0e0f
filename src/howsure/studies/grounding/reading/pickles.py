"""Pickles from strangers: plain data comes out of them, and nothing in them is ever run.

A pickle is a program. `pickle.Unpickler` can be told to import nothing, but it would still hash whatever is used as a
key (a tuple that holds itself twice, fifty times over, keeps it busy for ever; one that is nested a million deep
overruns its stack), and make a memo as long as the largest index in the file. So the opcodes are checked first, by the
tables of `pickletools`: only those that build plain data may be there, keys must be texts, numbers short, indexes of
the memo no larger than the count of opcodes, and frames end between two opcodes. What is left costs the unpickler time
and memory in proportion to the file. What it built is then measured before anybody walks through it: how deep it is,
and how large it would be if everything that is referred to twice were written out twice.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from itertools import chain
from typing import Any

from howsure.errors import InputError

MOST_STEPS = 5_000_000
"""Opcodes in one file; ten thousand samples take about half a million. Each takes about 200 bytes of memory at most,
texts aside, which are in the file."""

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

_PUTS, _GETS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}), frozenset({"GET", "BINGET", "LONG_BINGET"})
_WRITTEN_NUMBERS = frozenset({"INT", "LONG", "FLOAT", "PUT", "GET"})
_PLAIN = (
    *("PROTO", "FRAME", "STOP", "MARK", *_PUTS, *_GETS, "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1"),
    *("BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE"),
    *("BINUNICODE8", "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
)
_KINDS = {
    **dict.fromkeys(("REDUCE", "BUILD", "NEWOBJ", "NEWOBJ_EX", "OBJ"), "an object to be made"),
    **dict.fromkeys(("PERSID", "BINPERSID"), "a reference to something outside the file"),
    **dict.fromkeys(("EMPTY_SET", "ADDITEMS", "FROZENSET"), "a set"),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), "bytes"),
    **dict.fromkeys(("NEXT_BUFFER", "READONLY_BUFFER"), "a buffer outside the file"),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), "a text of Python 2, to be written anew by Python 3"),
    **dict.fromkeys(("POP", "POP_MARK", "DUP"), "steps that no plain data needs"),
    **dict.fromkeys(("EXT1", "EXT2", "EXT4"), "something to be fetched by a code"),
}
"""What opcodes that are refused stand for."""

_OPCODES = {op.code.encode("latin-1"): op for op in pickletools.opcodes}
_PLAIN_OPCODES = {code: op for code, op in _OPCODES.items() if op.name in _PLAIN}


def plain_data(content: bytes, name: str) -> Any:
    """What a pickle holds, if it is plain data of a bounded size; else one sentence that begins with `name`."""
    _Check(content, name).run()
    try:
        value = _PlainUnpickler(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, ValueError, OverflowError) as error:  # such as an odd number of keys and values
        raise InputError(f"{name} is no sound pickle: {_shown(str(error))}; write it again") from error
    _measure((value,), name, {}, 0)
    return value


class _PlainUnpickler(pickle.Unpickler):
    """For what has passed the check; should that have a hole, nothing is imported all the same."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _shown(text: str) -> str:
    """Words out of a hostile file, few, and with nothing in them that could move a terminal's cursor."""
    return repr(text[:LONGEST_SHOWN])[1:-1]


# -- before it is read: which opcodes, and what they take ---------------------------------------------------------


_Value = str | pickletools.StackObject
"""A text as it is; of everything else what `pickletools` calls it."""


class _Check:
    """Goes through the opcodes of one pickle and follows none.

    What `pickletools` declares that each takes from the stack and leaves there is enough to know of every value whether
    it is a list, a dictionary or a text. An opcode across the end of a frame is refused, since the unpickler, which
    reads a frame at a time, would lose bytes there, and take others for opcodes than are checked here."""

    def __init__(self, content: bytes, name: str) -> None:
        self.stream, self.size, self.name = io.BytesIO(content), len(content), name
        self.at = self.frame_end = 0
        """Where the opcode begins, and where the last frame ends."""
        self.stack: list[_Value] = []
        self.below: list[list[_Value]] = []
        """What lay on the stack at each mark that is still open."""
        self.memo: dict[int, _Value] = {}

    def run(self) -> None:
        for steps in range(MOST_STEPS):
            self.at = self.stream.tell()
            code = self.stream.read(1)
            op = _PLAIN_OPCODES.get(code)
            if op is None:
                raise self.refused(code)
            if op.name == "STOP":
                return self.stop(steps)
            try:
                self.step(op, self.argument(op))
            except LookupError as error:
                raise self.damaged("it refers to what is not there") from error
        raise InputError(f"{self.name} takes more than {MOST_STEPS} steps to read; split it into several files")

    def argument(self, op: pickletools.OpcodeInfo) -> Any:
        if op.arg is None:
            return None
        number = op.name in _WRITTEN_NUMBERS
        try:
            arg = op.arg.reader(io.BytesIO(self.stream.readline(LONGEST_NUMBER + 1)) if number else self.stream)
            if type(arg) is str:
                arg.encode("utf-8")  # raises where half a character is in it
        except UnicodeError as error:
            raise self.damaged("a text in it is no text: half a character, or not UTF-8") from error
        except ValueError as error:
            ended = self.stream.tell() == self.size
            raise (self.broken_off() if ended else self.damaged("a number in it is none, or absurd")) from error
        if type(arg) is int and arg.bit_length() > 8 * LONGEST_NUMBER:
            raise self.damaged(f"a number of {arg.bit_length()} bits is absurd")
        return arg

    def step(self, op: pickletools.OpcodeInfo, arg: Any) -> None:
        end = self.stream.tell()
        if self.at < self.frame_end and (end > self.frame_end or op.name == "FRAME"):
            raise self.damaged("a frame in it ends where it may not")
        if type(arg) is str:
            self.stack.append(arg)
        elif op.name in _GETS:
            self.stack.append(self.memo[arg])
        elif op.name in _PUTS:
            self.memo[len(self.memo) if arg is None else arg] = self.stack[-1]
        elif op.name == "MARK":
            self.below.append(self.stack)
            self.stack = []
        elif op.name == "FRAME":
            self.frame_end = end + arg
            if self.frame_end > self.size:
                raise self.broken_off()
        else:
            self.take(op)

    def take(self, op: pickletools.OpcodeInfo) -> None:
        """Puts onto the stack what an opcode leaves, in place of what it takes."""
        needed, values = op.stack_before, []
        if pickletools.stackslice in needed:  # all since the last mark
            values, self.stack = self.stack, self.below.pop()
            needed = needed[:-2]
        start = len(self.stack) - len(needed)
        if start < 0:
            raise LookupError
        values = self.stack[start:] + values
        self.stack[start:] = op.stack_after
        if needed and needed[0] is not pickletools.anyobject:
            target = values.pop(0)
            if target is not needed[0]:
                raise self.damaged(f"{op.name} needs a {needed[0].name}, and there is a {_kind(target)}")
        if op.stack_after == [pickletools.pydict]:
            odd = next((key for key in values[0::2] if type(key) is not str), None)
            if odd is not None:
                raise InputError(f"{self.name} has a {_kind(odd)} as a key, at byte {self.at}; {ALLOWED}")

    def stop(self, steps: int) -> None:
        if len(self.stack) != 1 or self.below:
            raise self.damaged("it ends in the middle of its work")
        if max(self.memo, default=0) > steps:
            raise self.damaged(f"that it keeps something as number {max(self.memo)} is absurd")
        if more := self.size - self.stream.tell():
            raise InputError(
                f"{self.name} goes on for {more} bytes after its pickle has ended; one file holds one pickle"
            )

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def damaged(self, why: str) -> InputError:
        return InputError(f"{self.name} is no sound pickle at byte {self.at}: {why}; write it again")

    def broken_off(self) -> InputError:
        return InputError(f"{self.name} breaks off after {self.size} bytes; copy or write it again, whole")

    def refused(self, code: bytes) -> InputError:
        """An opcode that no plain data needs, by the name of what it asks for."""
        op = _OPCODES.get(code)
        if op is None:
            return self.damaged(f"byte {code[0]:#04x} is no instruction") if code else self.broken_off()
        if op.name in ("GLOBAL", "INST"):
            return self.asks_for(*(self.stream.readline()[:-1].decode("utf-8", "replace") for _ in range(2)))
        if op.name == "STACK_GLOBAL":
            return self.asks_for(*(text if type(text) is str else "?" for text in [None, None, *self.stack][-2:]))
        kind = _KINDS.get(op.name, "something else")
        return InputError(f"{self.name} holds {kind} ({op.name}, byte {self.at}); {ALLOWED}")

    def asks_for(self, module: str, what: str) -> InputError:
        remedy = REMEDIES.get(module.split(".")[0])
        return InputError(
            f"{self.name} asks for «{_shown(module)}.{_shown(what)}» at byte {self.at}, and nothing in a pickle is run "
            f"here: {ALLOWED}{f'; {remedy}' if remedy else ''}"
        )


def _kind(value: _Value) -> str:
    return "text" if isinstance(value, str) else value.name.replace("_", " ")


# -- how large it is, without walking through it twice ------------------------------------------------------------


def _measure(value: Any, name: str, known: dict[int, tuple[int, int]], level: int) -> tuple[int, int]:
    """How many values and characters a container stands for, and how deep it is; raises where either is too much, or
    where it holds itself. Each is entered once, however often it is referred to, so that a file of a hundred bytes
    takes a hundred steps."""
    total, depth = known.get(id(value), (0, 1))
    if depth == 0:
        raise InputError(f"{name} holds a list or dictionary that contains itself; {ALLOWED}, as a tree")
    if level + depth - 1 > DEEPEST:
        raise InputError(f"{name} is nested more than {DEEPEST} deep; samples need no more than five")
    if total > 0:
        return total, depth
    known[id(value)] = 0, 0  # entered
    total = 1
    for part in chain(value, value.values()) if type(value) is dict else value:
        if type(part) is str:
            total += 1 + len(part)
        elif type(part) in CONTAINERS:
            inner, deep = _measure(part, name, known, level + 1)
            total, depth = total + inner, max(depth, deep + 1)
        else:
            total += 1
    if total > MOST_UNFOLDED:
        raise InputError(f"{name} is a bomb: it refers to the same parts so often that it stands for more than "
                         f"{MOST_UNFOLDED} values")  # fmt: skip
    known[id(value)] = total, depth
    return total, depth
