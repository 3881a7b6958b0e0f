"""What was said, set aside: figures stay in memory, words only as long as there is little of them.

Most of a log is words and alternatives of tokens; what the figures are made of is little. So a reader keeps of each
trajectory its figures and the beginning of each message, and puts the words of all messages into a spool, from which
they are taken when somebody needs them: the run folder, a model that reads again, the embedder. Above `MEMORY_BYTES`
the spool is a file without a name in the system's folder for such (TMPDIR), which is gone when it is closed.
"""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Iterable

import msgspec

from howsure.errors import StorageError
from howsure.studies.trajectories.document import preview
from howsure.studies.trajectories.turns import Said, Trajectory

MEMORY_BYTES = 256_000_000
_PACKED, _PICKLED = b"m", b"p"

OPENING_CHARACTERS = 1000
"""What is kept of an opening among the figures; all of it is the first thing that the user said."""


def words_of(trajectory: Trajectory) -> bytes:
    """All that was said, as bytes for the spool; how many they are depends on nothing but what was said."""
    words = (trajectory.opening, [(one.role, one.text, one.turn) for one in trajectory.said])
    try:
        return _PACKED + msgspec.msgpack.encode(words)
    except UnicodeEncodeError:  # half a character, which only Python takes for text
        return _PICKLED + pickle.dumps(words, 5)


def _said(words: bytes) -> tuple[str | None, list[tuple[str, str, int | None]]]:
    load = msgspec.msgpack.decode if words[:1] == _PACKED else pickle.loads  # nobody but `words_of` wrote it
    opening, said = load(words[1:])
    return opening, said


def shorten(trajectory: Trajectory) -> None:
    """Take the words out of a trajectory, leaving the beginning of each message."""
    trajectory.said = []
    trajectory.opening = None if trajectory.opening is None else trajectory.opening[:OPENING_CHARACTERS]
    for turn in trajectory.turns:
        turn.content, turn.calls = preview(turn), ()


class TextSpool:
    """The words of trajectories, by their number, in the order in which they were put there."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115 - closed with what was read
        self._ends = array("q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def put(self, words: Iterable[bytes]) -> None:
        """Words of further trajectories."""
        try:
            for one in words:
                self._file.write(one)
                self._ends.append(self._ends[-1] + len(one))
            self._file.flush()
        except OSError as error:
            raise StorageError(
                f"{tempfile.gettempdir()} has no room for what was said in the logs: {error.strerror or error}; "
                "set TMPDIR to a folder on a larger disk"
            ) from error

    def byte_count(self, number: int) -> int:
        """What the words of a trajectory take; 0 where nobody wanted them."""
        return self._ends[number + 1] - self._ends[number] if number < len(self) else 0

    def whole(self, number: int, trajectory: Trajectory) -> Trajectory:
        """A trajectory of its own, with its words again; nothing that happens to it happens to the one given."""
        self._file.seek(self._ends[number])
        opening, said = _said(self._file.read(self.byte_count(number)))
        turns = [msgspec.structs.replace(turn) for turn in trajectory.turns]
        return msgspec.structs.replace(
            trajectory, turns=turns, opening=opening, said=[Said(role, text, turn) for role, text, turn in said]
        )

    def close(self) -> None:
        self._file.close()
