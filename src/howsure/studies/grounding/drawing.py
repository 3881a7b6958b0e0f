"""A screenshot with its marks painted over it, and words below. Pillow is imported here: come here only to draw.

Pillow's own font is the same on every machine, and has little more than ASCII. What it lacks is not drawn as empty
boxes: accents are left off, Hangul, kana, Cyrillic and Greek are written in Latin letters, symbols are named, and of
scripts that cannot be spelled it is told how much there is.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from howsure.studies.grounding.marks import (
    BLACK,
    DASH_PX,
    GAP_PX,
    LETTER_PX,
    LOOKS,
    RIM_PX,
    THIN_RIM_PX,
    WHITE,
    Circle,
    Label,
    Mark,
    Reach,
    Stroke,
)
from howsure.studies.grounding.record import Place

GREY, PAPER = "#5a5a5a", "#e0e0e0"

SMOOTH = 2
"""Marks are drawn so many times as large and scaled down, for smooth edges."""

LEAST_SIDE_PX = 480
"""Smaller screens are enlarged, so that marks and words have room."""

USUAL_PX, LEAST_UNIT, LARGEST_UNIT = 1150, 1.0, 1.75
"""A pixel of marks is one pixel of a screen that is this long, and more on longer ones."""
MARGIN, ROW_GAP, PADDING = 24, 5, 10
LONGEST_TEXT, MOST_LINES = 2000, 4


class Verdict(NamedTuple):
    """A word, its colour, whether its badge is filled, and the words beside it."""

    badge: str
    colour: str
    filled: bool
    text: str


class Sheet:
    """A screenshot in a margin, marks over it."""

    def __init__(self, screen: Any, most_side_px: int) -> None:
        longest = max(screen.size)
        scale = min(most_side_px, max(longest, LEAST_SIDE_PX)) / longest
        self.width, self.height = (max(1, round(side * scale)) for side in screen.size)
        self.unit: float = min(LARGEST_UNIT, max(LEAST_UNIT, max(self.width, self.height) / USUAL_PX))
        self.margin = round(MARGIN * self.unit)
        self.size = (self.width + 2 * self.margin, self.height + 2 * self.margin)
        self._words = _Words(self.unit)
        how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
        self._picture = Image.new("RGB", self.size, PAPER)
        self._picture.paste(screen.resize((self.width, self.height), how), (self.margin, self.margin))
        frame = (self.margin - 1, self.margin - 1, self.margin + self.width, self.margin + self.height)
        ImageDraw.Draw(self._picture).rectangle(frame, outline=GREY)

    @property
    def room_px(self) -> tuple[float, float]:
        """How large the screen is in pixels of marks."""
        return self.width / self.unit, self.height / self.unit

    def at(self, place: Place) -> Place:
        """Where a place of the 0–1000 frame lies on the sheet, in pixels."""
        return self.margin + place[0] / 1000 * self.width, self.margin + place[1] / 1000 * self.height

    def paint(self, marks: Sequence[Mark]) -> None:
        layer = Image.new("RGBA", (self.size[0] * SMOOTH, self.size[1] * SMOOTH))
        draw = ImageDraw.Draw(layer)
        for mark in marks:
            if isinstance(mark, Stroke):
                self._stroke(draw, mark)
            elif isinstance(mark, Circle):
                self._circle(draw, mark)
            elif isinstance(mark, Reach):
                for dash in self._dashes(mark):
                    self._stroke(draw, dash)
        layer = layer.reduce(SMOOTH)
        self._picture.paste(layer, mask=layer.getchannel("A"))
        for mark in marks:
            if isinstance(mark, Label):
                self._label(mark)

    def _stroke(self, draw: Any, mark: Stroke) -> None:
        if mark.at is None:
            points = [self.at(point) for point in mark.points]
        else:
            x, y = self.at(mark.at)
            points = [(x + dx * self.unit, y + dy * self.unit) for dx, dy in mark.points]
        if mark.closed:
            points += points[:2]
        scaled = [(x * SMOOTH, y * SMOOTH) for x, y in points]
        look = LOOKS[mark.role]
        if mark.filled:
            draw.line(scaled, fill=look.rim, width=self._wide(2 * THIN_RIM_PX), joint="curve")
            draw.polygon(scaled, fill=look.colour)
            return
        for rim in (RIM_PX, 0.0):
            colour = look.rim if rim else look.colour
            draw.line(scaled, fill=colour, width=self._wide(look.width_px + 2 * rim), joint="curve")

    def _circle(self, draw: Any, mark: Circle) -> None:
        look, (x, y) = LOOKS[mark.role], self.at(mark.at)
        for rim in (THIN_RIM_PX if mark.filled else RIM_PX, 0.0):
            wide = 0.0 if mark.filled else look.width_px + 2 * rim
            radius = (mark.radius_px + (rim if mark.filled else wide / 2)) * self.unit
            area = [end * SMOOTH for end in (x - radius, y - radius, x + radius, y + radius)]
            colour = look.rim if rim else look.colour
            draw.ellipse(area, fill=colour if mark.filled else None, outline=colour, width=self._wide(wide))

    def _wide(self, px: float) -> int:
        return max(1, round(px * self.unit * SMOOTH))

    def _dashes(self, mark: Reach) -> Iterator[Stroke]:
        """An ellipse of dashes; nothing where it is no larger than a point."""
        across, down = (mark.radius / 1000 * side for side in (self.width, self.height))
        count = min(max(8, round(math.pi * (across + down) / (DASH_PX + GAP_PX) / self.unit)), 2_000)
        if min(across, down) < 1:
            return
        x, y = mark.at
        for i in range(count):
            turns = [2 * math.pi / count * (i + DASH_PX / (DASH_PX + GAP_PX) * step / 4) for step in range(5)]
            points = [(x + mark.radius * math.cos(turn), y + mark.radius * math.sin(turn)) for turn in turns]
            yield Stroke(mark.role, points)

    def _label(self, mark: Label) -> None:
        (x, y), wide, high = self.at(mark.at), mark.width_px * self.unit / 2, mark.height_px * self.unit / 2
        draw = ImageDraw.Draw(self._picture)
        draw.rounded_rectangle((x - wide, y - high, x + wide, y + high), 4, fill=WHITE, outline=BLACK, width=1)
        draw.text((x, y), mark.text, font=self._words.font, fill=BLACK, anchor="mm")

    def finished(self, verdict: Verdict, rows: Sequence[tuple[str, str]]) -> Any:
        """The screen with its marks, and below it a verdict and rows of words: what a row is about, what it says."""
        words, width = self._words, max(self.size[0], LEAST_SIDE_PX)
        lines = words.wrapped(rows, width - 2 * words.padding)
        whole = Image.new("RGB", (width, self.size[1] + words.height(lines)), WHITE)
        whole.paste(self._picture, ((width - self.size[0]) // 2, 0))
        words.write(whole, self.size[1], verdict, lines)
        return whole


# -- words ------------------------------------------------------------------------------------------------------------

Line = tuple[str, str]
"""What a row is about, in front of its first line only, and a line of it."""


class _Words:
    """Words of one size, in Pillow's own font, laid out in the one way that every build of Pillow has."""

    def __init__(self, unit: float) -> None:
        size = round(LETTER_PX * unit)
        font: Any = ImageFont.load_default(size)
        self.font = font.font_variant(layout_engine=ImageFont.Layout.BASIC)
        self.padding = round(PADDING * unit)
        self._row = size + round(ROW_GAP * unit)
        self._indent = round(self.font.getlength("instruction:   "))

    def wrapped(self, rows: Sequence[tuple[str, str]], width: int) -> list[Line]:
        lines: list[Line] = []
        for about, text in rows:
            broken = list(islice(self._broken(spelled(text), width - self._indent), MOST_LINES + 1))
            if len(broken) > MOST_LINES:
                broken = [*broken[: MOST_LINES - 1], f"{broken[MOST_LINES - 1].rpartition(' ')[0]} …"]
            lines += [(about if number == 0 else "", line) for number, line in enumerate(broken)]
        return lines

    def _broken(self, text: str, width: int) -> Iterator[str]:
        """Lines that fit; a word that does not is broken."""
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}" if line else word
            if self.font.getlength(longer) <= width:
                line = longer
                continue
            if line:
                yield line
            while self.font.getlength(word) > width and len(word) > 1:
                fits = self._fitting(word, width)
                yield word[:fits]
                word = word[fits:]
            line = word
        yield line

    def _fitting(self, word: str, width: int) -> int:
        """How many characters of a word fit, at least one."""
        return max(1, bisect_right(range(1, len(word)), width, key=lambda end: self.font.getlength(word[:end])))

    def height(self, lines: Sequence[Line]) -> int:
        return 2 * self.padding + self._row * (len(lines) + 1) + round(self._row * 0.4)

    def write(self, whole: Any, top: int, verdict: Verdict, lines: Sequence[Line]) -> None:
        draw = ImageDraw.Draw(whole)
        draw.line([(0, top), (whole.width, top)], fill=GREY)
        y = top + self.padding
        self._badge(draw, (self.padding, y), verdict)
        y += self._row + round(self._row * 0.4)
        for about, text in lines:
            draw.text((self.padding, y), f"{about}:" if about else "", font=self.font, fill=GREY)
            draw.text((self.padding + self._indent, y), text, font=self.font, fill=BLACK)
            y += self._row

    def _badge(self, draw: Any, corner: tuple[int, int], verdict: Verdict) -> None:
        (x, y), (word, colour, filled, text) = corner, verdict
        wide = self.font.getlength(word) + self._row
        area = (x, y - self._row // 6, x + wide, y + self._row)
        draw.rounded_rectangle(area, self._row // 4, fill=colour if filled else WHITE, outline=colour, width=2)
        middle = (area[1] + area[3]) / 2
        draw.text((x + wide / 2, middle), word, font=self.font, fill=WHITE if filled else colour, anchor="mm")
        draw.text((x + wide + self._row / 2, middle), spelled(text), font=self.font, fill=BLACK, anchor="lm")


# -- letters that a font has -------------------------------------------------------------------------------------------

BUILT_IN = frozenset(map(chr, range(0x20, 0x7F))) | frozenset("©«°±´·»‘’“”…‹›⁄™")
"""What Pillow's own font can draw."""

_SIGNS = {
    "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-", "•": "·", "×": "x", "÷": "/", "→": "->", "←": "<-", "↑": "up",
    "↓": "down", "≤": "<=", "≥": ">=", "„": "“", "「": "“", "」": "”", "『": "“", "』": "”", "。": ".", "、": ",",
    "ー": "-", "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d",
    "Đ": "D", "ı": "i", "þ": "th", "Þ": "Th", "ð": "d",
}  # fmt: skip
_CYRILLIC = {
    "а": "a", "б": "b", "в": "v", "г": "g", "д": "d", "е": "e", "ж": "zh", "з": "z", "и": "i", "й": "y", "к": "k",
    "л": "l", "м": "m", "н": "n", "о": "o", "п": "p", "р": "r", "с": "s", "т": "t", "у": "u", "ф": "f", "х": "kh",
    "ц": "ts", "ч": "ch", "ш": "sh", "щ": "shch", "ъ": "'", "ы": "y", "ь": "'", "э": "e", "ю": "yu", "я": "ya",
    "і": "i", "ї": "yi", "є": "ye", "ґ": "g", "ў": "u",
}  # fmt: skip
_GREEK = {
    "α": "a", "β": "v", "γ": "g", "δ": "d", "ε": "e", "ζ": "z", "η": "i", "θ": "th", "ι": "i", "κ": "k", "λ": "l",
    "μ": "m", "ν": "n", "ξ": "x", "ο": "o", "π": "p", "ρ": "r", "σ": "s", "ς": "s", "τ": "t", "υ": "y", "φ": "f",
    "χ": "ch", "ψ": "ps", "ω": "o",
}  # fmt: skip
_LETTERS = _CYRILLIC | _GREEK
_NAMED_ALIKE = {"HANGUL": "SYLLABLE ", "HIRAGANA": "LETTER ", "KATAKANA": "LETTER "}
"""Scripts whose letters are named in Unicode as they are read: `HANGUL SYLLABLE PA`, `KATAKANA LETTER KA`."""

_SCRIPTS = {"CJK": "Chinese"}


_NOT_SPELLED = re.compile("\x01(?P<script>.+?)\x02(?: *\x01(?P=script)\x02)*")
"""Characters of one script for which there are no letters, each as the script's name between two control characters,
which no text keeps."""


def spelled(text: str) -> str:
    """A text on one line and not too long, in characters that can be drawn; of those that cannot be spelled, how many
    follow each other but for spaces."""

    def counted(run: re.Match[str]) -> str:
        count = run[0].count("\x01")
        return f" ({count} {run['script']} {'character' if count == 1 else 'characters'}) "

    short = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    characters = unicodedata.normalize("NFC", " ".join(short.split()))
    shown = "".join(character if character in BUILT_IN else _instead_of(character) for character in characters)
    return " ".join(_NOT_SPELLED.sub(counted, shown).split())


def _instead_of(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Cs", "Co", "Cn"):
        return ""
    bare = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    if BUILT_IN.issuperset(bare):
        return bare
    name = unicodedata.name(character, "")
    script, _, rest = name.partition(" ")
    if script in _NAMED_ALIKE and rest.startswith(_NAMED_ALIKE[script]):
        return rest.split()[-1].lower()
    for candidate in (character, bare[0]):
        latin = _LETTERS.get(candidate.lower())
        if latin is not None:
            return latin.capitalize() if candidate.isupper() else latin
    if not character.isalpha():
        return f"[{name.lower() or 'sign'}]"
    return f"\x01{_SCRIPTS.get(script.partition('-')[0], script.capitalize())}\x02"
