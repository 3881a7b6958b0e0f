"""Where things are printed: results on standard output, remarks on standard error."""

from __future__ import annotations

from rich.console import Console

PLAIN_WIDTH = 200
"""Outside a terminal nothing has to fit a screen, and a broken line is harder to read and to grep."""


def output() -> Console:
    return _wide(Console())


def remarks() -> Console:
    return _wide(Console(stderr=True))


def _wide(console: Console) -> Console:
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console
