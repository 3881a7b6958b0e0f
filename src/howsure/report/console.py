"""Where things are printed: results on standard output, remarks on standard error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from howsure.report.text import printable

PLAIN_WIDTH = 200
"""Outside a terminal nothing has to fit a screen, and a broken line is harder to read and to grep."""


class SafeConsole(Console):
    """A console that only Rich itself steers: no text is taken for markup, and none reaches the terminal as a control
    character, whoever put it into a table."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = PLAIN_WIDTH

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(printable(text), **how)  # here already, since this is what tables measure

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = printable(segment.text)
            yield segment if segment.control or text == segment.text else Segment(text, segment.style)


def output() -> Console:
    return SafeConsole()


def remarks() -> Console:
    return SafeConsole(stderr=True)
