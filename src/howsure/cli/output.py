"""Standard output that remembers why it could not be written: a full disk is a sentence, and not a traceback."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class Output(io.TextIOWrapper):
    """Standard output as it was, and what became of it."""

    lost: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self.lost = error
            raise

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self.lost = error
            raise


def watched(stream: TextIO) -> TextIO:
    """The same stream, watched; one that is none of a real process is left as it is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return Output(
        stream.buffer,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def lost() -> OSError | None:
    """Why what was printed is not all written; what is left of it is then dropped, or Python tries again at its end.

    That its reader has left (`howsure … | head`) is no loss: there is nobody to tell.
    """
    out = sys.stdout
    if not isinstance(out, Output):
        return None
    try:
        out.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return None if isinstance(out.lost, BrokenPipeError) else out.lost
