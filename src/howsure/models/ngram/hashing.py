"""Finding many keys at once: an open hash table in arrays, built and asked without a loop over keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint64]
Places = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_EMPTY = -1


class HashIndex:
    """Where each of some distinct keys stands in a list; a key is one 64-bit number or several side by side.

    `hashes` spread the keys; the columns tell them apart. A key and its place lie together, so that one look at the
    memory finds both. Keys are placed in rounds: all that are left try their next slot at the same time, and of several
    that want the same one the last stays.
    """

    def __init__(self, hashes: Bits, *columns: Bits) -> None:
        count = len(hashes)
        bits = max(int(2 * count).bit_length(), 4)
        self._shift = np.uint64(64 - bits)
        self._mask = (1 << bits) - 1
        slots = np.full(1 << bits, _EMPTY, dtype=np.int64)
        left, wanted = np.arange(count), self._slots(hashes)
        while len(left):
            free = slots[wanted] == _EMPTY
            slots[wanted[free]] = left[free]
            lost = slots[wanted] != left
            left, wanted = left[lost], (wanted[lost] + 1) & self._mask
        self._rows = np.zeros((1 << bits, len(columns) + 1), dtype=np.int64)
        self._rows[:, 0] = slots
        filled = np.flatnonzero(slots != _EMPTY)
        for i, column in enumerate(columns, 1):
            self._rows[filled, i] = column.view(np.int64)[slots[filled]]

    def find(self, hashes: Bits, *columns: Bits) -> Places:
        """The place of each key in the list, −1 for one that is not in it."""
        keys = [column.view(np.int64) for column in columns]
        wanted = self._slots(hashes)
        places, on = self._look(wanted, keys)
        left = on
        while len(left):
            wanted, keys = (wanted.take(on) + 1) & self._mask, [key.take(on) for key in keys]
            places[left], on = self._look(wanted, keys)
            left = left.take(on)
        return places

    def _slots(self, hashes: Bits) -> Places:
        return ((hashes * _GOLDEN) >> self._shift).view(np.int64)

    def _look(self, slots: Places, keys: list[Places]) -> tuple[Places, Places]:
        """What stands in the slots, and which of them hold another key, so that one has to look further.

        (`take` fetches rows ten times as fast as an index in brackets does.)
        """
        rows = self._rows.take(slots, axis=0)
        places = rows[:, 0].copy()
        other = rows[:, 1] != keys[0]
        for i, key in enumerate(keys[1:], 2):
            other |= rows[:, i] != key
        other &= places != _EMPTY
        return places, np.flatnonzero(other)
