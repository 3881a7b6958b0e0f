"""Pickles that would do harm if anything in them were run, or if anybody walked through what they build."""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


class Calls:
    """Pickles as a call, which unpickling would make."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


class StateSetter:
    """Pickles as an object with a state, which unpickling would set."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return (StateSetter, ("x",), self.state)


class Persistent(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return "outside" if value == "outside" else None


def that_would_run(canary: Path) -> dict[str, tuple[bytes, str]]:
    """By name: a pickle that makes `canary` if it is run, and what its refusal must name."""
    shell = f"touch {canary}"
    code = f"open({str(canary)!r}, 'w').close()"
    chain = Calls(getattr, Calls(__import__, "os"), "system")
    lazy = f"cbuiltins\neval\n(V{code.replace(chr(10), ' ')}\ntR."
    found = {f"os_system_{p}": (pickle.dumps([Calls(os.system, shell)], p), "posix.system") for p in range(6)}
    found |= {f"eval_{p}": (pickle.dumps(Calls(eval, code), p), "eval") for p in range(6)}
    found |= {
        "exec": (pickle.dumps({"a": Calls(exec, code)}), "builtins.exec"),
        "reduce_chain": (pickle.dumps([[chain, shell]]), "builtins.getattr"),
        "state": (pickle.dumps(StateSetter({"a": Calls(os.system, shell)})), "StateSetter"),
        "in_a_dict_key": (pickle.dumps({("a", Calls(os.system, shell)): 1}), "posix.system"),
        "after_good_samples": (pickle.dumps([["good", "sample"]] * 1000 + [Calls(os.system, shell)]), "posix.system"),
        "global_alone": (b"cposix\nsystem\n.", "posix.system"),
        "global_as_text": (lazy.encode(), "builtins.eval"),
        "inst": (b"(V" + shell.encode() + b"\niposix\nsystem\n.", "posix.system"),
        "obj": (b"(cposix\nsystem\nV" + shell.encode() + b"\no.", "posix.system"),
        "stack_global_by_memo": (
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94h\x00h\x01\x93V" + shell.encode() + b"\n\x85R.",
            "posix.system",
        ),
        "reduce_without_global": (b"\x80\x02X\x02\x00\x00\x00ab)R.", "REDUCE"),
        "build": (b"\x80\x02}}b.", "BUILD"),
        "newobj": (b"\x80\x02])\x81.", "NEWOBJ"),
        "newobj_ex": (b"\x80\x04])}\x92.", "NEWOBJ_EX"),
        "extension_1": (b"\x80\x02\x82\x01.", "EXT1"),
        "extension_2": (b"\x80\x02\x83\x01\x00.", "EXT2"),
        "extension_4": (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
        "persistent": (_persistent(), "BINPERSID"),
        "persistent_0": (b"Poutside\n.", "PERSID"),
        "buffer": (b"\x80\x05\x97.", "NEXT_BUFFER"),
        "escapes_in_a_name": (b"cos\x1b[2J\nsystem\n.", r"os\x1b[2J.system"),
        "endless_name": (b"c" + b"a" * 100_000 + b"\nsystem\n.", "aaaa"),
        "unnamed": (b"\x80\x04]]\x93.", "?.?"),
        "unnamed_and_empty": (b"\x80\x04\x93.", "?.?"),
        "name_that_is_no_ascii": ("c샘플\nsystem\n.".encode(), "샘플.system"),
        "after_the_end": (pickle.dumps([]) + pickle.dumps(Calls(os.system, shell)), "after its pickle has ended"),
        "frame_cuts_a_text": (_cut_by_a_frame(b"cposix\nsystem\n(V" + shell.encode() + b"\ntR."), "a frame in it"),
    }
    return found


@cache
def that_would_swell() -> dict[str, tuple[bytes, str]]:
    """By name: a pickle that would take all time or memory, or is none, and words of its refusal."""
    return {
        "lists_by_doubling": (_doubling(), "bomb"),
        "lists_by_doubling_60": (b"\x80\x02" + _levels(b"]", list_level) + b".", "bomb"),
        "tuples_by_doubling": (b"\x80\x02" + _levels(b")", tuple_level) + b".", "bomb"),
        "tuple_bomb_as_key": (b"\x80\x02}" + _levels(b")", tuple_level) + b"Ns.", "tuple as a key"),
        "tuple_key": (pickle.dumps({(1, 2): 3}), "as a key"),
        "int_key": (pickle.dumps({1: 3}), "int as a key"),
        "none_key": (pickle.dumps({None: 3}), "None as a key"),
        "wide_texts": (
            b"\x80\x02(X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\0" + b"h\0" * 9000 + b"l.",
            "bomb",
        ),
        "nested_lists": (b"\x80\x02" + b"]" * 10_000 + b"a" * 9_999 + b".", "deep"),
        "nested_tuples": (b"\x80\x02)" + b"\x85" * 300_000 + b".", "deep"),
        "nested_dicts": (b"\x80\x02" + b"}X\x01\0\0\0a" * 10_000 + b"N" + b"s" * 10_000 + b".", "deep"),
        "nested_marks": (b"(" * 10_000 + b"l" * 10_000 + b".", "deep"),
        "nested_by_pickle_0": (_nested_0(10_000), "deep"),
        "nested_by_what_is_shared": (b"]q\0" + b"\x85" * 40 + b"q\1h\1" + b"\x85" * 40 + b"\x86.", "deep"),
        "cycle": (_cycle(), "itself"),
        "cycle_in_a_dict": (b"\x80\x02}q\0X\x01\0\0\0ah\0s.", "itself"),
        "cycle_in_a_tuple": (b"\x80\x02]q\0h\0\x85a.", "itself"),
        "frame_of_exabytes": (b"\x80\x04\x95" + b"\xff" * 8 + b"].", "breaks off"),
        "text_of_exabytes": (b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.", "breaks off"),
        "text_of_4_gigabytes": (b"\x80\x02X\xff\xff\xff\xffabc.", "breaks off"),
        "long_of_2_gigabytes": (b"\x80\x02\x8b\xff\xff\xff\x7f\x01.", "breaks off"),
        "long_of_many_digits": (b"L" + b"9" * 1_000_000 + b"L\n.", "absurd"),
        "int_of_many_digits": (b"I" + b"9" * 1_000_000 + b"\n.", "absurd"),
        "float_of_many_digits": (b"F" + b"9" * 1_000_000 + b"\n.", "absurd"),
        "int_of_no_digits": (b"Ixyz\n.", "no sound pickle"),
        "memo_at_4_billion": (b"\x80\x02]r\xff\xff\xff\xff0.", "POP"),
        "many_steps": (b"\x80\x02(" + b"N" * 6_000_000 + b"l.", "steps"),
        "trailing": (pickle.dumps([]) + b"more", "4 bytes after"),
        "several": (pickle.dumps([1]) + pickle.dumps([2]), "one file holds one pickle"),
        "truncated": (pickle.dumps([["a", "b"]] * 100)[:-40], "breaks off"),
        "truncated_0": (pickle.dumps([["a", "b"]], 0)[:-4], "breaks off"),
        "unknown_protocol": (b"\x80\x09].", "protocol: 9"),
        "unknown_instruction": (b"\x80\x04\xff.", "0xff"),
        "empty_stack": (b"\x80\x02.", "middle of its work"),
        "two_on_the_stack": (b"\x80\x02]].", "middle of its work"),
        "open_mark": (b"\x80\x02](.", "middle of its work"),
        "append_to_nothing": (b"\x80\x02a.", "refers to what is not there"),
        "append_to_a_text": (b"\x80\x02X\x01\0\0\0aNa.", "APPEND needs a list, and there is a text"),
        "set_in_a_list": (b"\x80\x02]NNs.", "SETITEM needs a dict, and there is a list"),
        "odd_dict": (b"\x80\x02}(X\x01\0\0\0au.", "odd number of items"),
        "no_mark": (b"\x80\x02Nt.", "refers to what is not there"),
        "short_tuple": (b"\x80\x02N\x86.", "refers to what is not there"),
        "memo_that_is_not_there": (b"\x80\x02h\x07.", "refers to what is not there"),
        "half_a_character": (b"\x80\x02X\x03\0\0\0\xed\xa0\x80.", "half a character"),
        "half_a_character_0": (b"V\\ud800\n.", "half a character"),
        "bytes": (pickle.dumps([b"raw"]), "bytes (SHORT_BINBYTES"),
        "bytearray": (pickle.dumps([bytearray(b"raw")], 5), "bytes (BYTEARRAY8"),
        "set": (pickle.dumps([{1, 2}]), "a set (EMPTY_SET"),
        "frozenset": (pickle.dumps([frozenset({1})]), "a set (FROZENSET"),
        "complex": (pickle.dumps([1j]), "builtins.complex"),
        "python_2": (b"S'abc'\n.", "Python 2"),
        "dup": (b"\x80\x02]2.", "DUP"),
        "tuples_by_dup": (b"\x80\x02)" + b"2\x86" * 60 + b".", "DUP"),
        "memo_at_a_billion": (b"\x80\x02]r\x00\xca\x9a\x3b.", "is absurd"),
        "memo_at_no_place": (b"]p-1\n.", "negative PUT"),
        "memo_beyond_64_bits": (b"]p99999999999999999999\n.", "is absurd"),
        "memo_of_a_mark": (b"\x80\x02(q\0l.", "refers to what is not there"),
        "key_from_the_memo": (b"\x80\x02]q\0)q\0}h\0Ns\x86.", "tuple as a key"),
        "key_that_holds_itself": (b"\x80\x02]q\0h\0\x85q\1a}h\1Ns\x86.", "tuple as a key"),
        "keys_in_a_row": (b"\x80\x02(X\x01\0\0\0aNK\x01Nd.", "int as a key"),
        "tuple_that_holds_itself": (pickle.dumps(_own_tuple()), "POP"),
        "keys_that_are_wide": (b"V" + b"a" * 100_000 + b"\nq\0" + b"(" + b"}h\0Ns" * 3000 + b"t\x86.", "bomb"),
        "list_and_dict_that_hold_each_other": (b"\x80\x02]q\0}X\x01\0\0\0ah\0sa.", "itself"),
        "frame_within_a_frame": (b"\x80\x04\x95\x0a" + b"\0" * 7 + b"\x95\x01" + b"\0" * 7 + b"].", "a frame in it"),
        "frame_cuts_a_number": (b"\x80\x04\x95\x02" + b"\0" * 7 + b"J\0\0\0\0.", "a frame in it"),
        "text_beyond_64_bits": (b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.", "absurd"),
        "long_of_negative_size": (b"\x80\x02\x8b\xff\xff\xff\xff\x01.", "absurd"),
        "long_of_many_bytes": (b"\x80\x02\x8b\x40\x42\x0f\0" + b"\x7f" * 1_000_000 + b".", "absurd"),
        "float_beyond_all": (b"F1e999\n.", "no sound pickle"),
        "float_that_moves_the_cursor": (b"F\r1.5\n.", r"\r1.5"),
    }


def list_level(level: int) -> bytes:
    """A list that holds the one before it twice, put into the memo under its level."""
    return b"](h%ch%ceq%c" % (level - 1, level - 1, level)


def tuple_level(level: int) -> bytes:
    return b"h%ch%c\x86q%c" % (level - 1, level - 1, level)


def _levels(empty: bytes, level: Callable[[int], bytes], count: int = 60) -> bytes:
    """A tuple of containers, each of which holds the one before it twice; the first is empty."""
    return b"(" + empty + b"q\0" + b"".join(level(i) for i in range(1, count + 1)) + b"t"


def _cut_by_a_frame(hidden: bytes) -> bytes:
    """A text, its length cut in two by the end of a frame: one that reads whole frames at a time forgets the first
    three bytes of the length, takes four others, which are zeros, and goes on where the text itself begins."""
    length = struct.pack("<I", 3 + len(hidden))
    return b"\x80\x04\x95" + struct.pack("<Q", 4) + b"X" + length + b"\0\0\0" + hidden + b"."


def _own_tuple() -> tuple[list[Any]]:
    own: tuple[list[Any]] = ([],)
    own[0].append(own)
    return own


def _doubling() -> bytes:
    bomb: Any = []
    for _ in range(40):
        bomb = [bomb, bomb]
    return pickle.dumps(bomb)


def _nested_0(depth: int) -> bytes:
    return b"(l" * depth + b"a" * (depth - 1) + b"."


def _cycle() -> bytes:
    ring: list[Any] = []
    ring.append([[ring]])
    return pickle.dumps(ring)


def _persistent() -> bytes:
    file = io.BytesIO()
    Persistent(file).dump(["outside"])
    return file.getvalue()
