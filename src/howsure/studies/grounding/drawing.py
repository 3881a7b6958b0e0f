"""Marks on a screenshot, and words below it. Pillow is imported here: come here only to draw.

Marks have to be seen on light and on dark screens, so every stroke has a white rim; and by people who see fewer
colours, so no two marks differ in colour alone. The colours are of the palette of Okabe and Ito (2008).

Pillow's own font is the same on every machine, and has little more than ASCII. What it lacks is not drawn as empty
boxes: accents are left off, Hangul, kana, Cyrillic and Greek are written in Latin letters, symbols are named, and of
scripts that cannot be spelled it is told how much there is.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from howsure.errors import InputError

Point = tuple[float, float]
Colour = tuple[int, int, int]

BLUE, VERMILION, YELLOW, GREEN = (0, 114, 178), (213, 94, 0), (240, 228, 66), (0, 158, 115)
WHITE, BLACK, GREY, PAPER = (255, 255, 255), (0, 0, 0), (90, 90, 90), (224, 224, 224)

SMOOTH = 2
"""Marks are drawn so many times as large and scaled down, for smooth edges."""

LEAST_SIDE_PX = 480
"""Smaller screens are enlarged, so that marks and words have room."""

MARGIN, RING, DOT, SMALL_DOT, ARM, STROKE, RIM = 30.0, 13.0, 3.5, 4.5, 15.0, 3.0, 2.0
"""Sizes of marks in pixels, on a screen that is shown 1600 pixels long."""

LETTERS, ROW_GAP, PADDING = 19, 7, 14
LONGEST_TEXT = 2000


class Sheet:
    """A screenshot in a margin, marks over it. Places are given in thousandths of the screen."""

    def __init__(self, screen: Any, most_side_px: int, font: Path | None = None) -> None:
        longest = max(screen.size)
        scale = min(most_side_px, max(longest, LEAST_SIDE_PX)) / longest
        self.width, self.height = (max(1, round(side * scale)) for side in screen.size)
        self.unit: float = min(1.25, max(0.75, max(self.width, self.height) / 1600))
        self._stroke, self._rim = STROKE * self.unit, RIM * self.unit
        self.margin = round(MARGIN * self.unit)
        self.size = (self.width + 2 * self.margin, self.height + 2 * self.margin)
        self._font = font
        how = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
        self._screen = screen.resize((self.width, self.height), how)
        self._layer = Image.new("RGBA", (self.size[0] * SMOOTH, self.size[1] * SMOOTH))
        self._draw = ImageDraw.Draw(self._layer)
        self._labels: list[tuple[Point, str]] = []

    def at(self, place: Sequence[float]) -> Point:
        """Where a place of the 0–1000 frame lies on the sheet, in pixels; what lies far outside is brought near."""
        x, y = (min(max(value, -2000.0), 3000.0) / 1000.0 for value in place)
        return self.margin + x * self.width, self.margin + y * self.height

    def held(self, point: Point) -> Point:
        """The nearest point on the screen."""
        x, y = point
        return (
            min(max(x, self.margin), self.margin + self.width - 1.0),
            min(max(y, self.margin), self.margin + self.height - 1.0),
        )

    # -- marks --------------------------------------------------------------------------------------------------------

    def cross(self, centre: Point, colour: Colour) -> None:
        arm = ARM * self.unit
        for rim in (True, False):
            for dx, dy in ((arm, 0.0), (0.0, arm)):
                ends = [(centre[0] - dx, centre[1] - dy), (centre[0] + dx, centre[1] + dy)]
                self._line(_longer(ends, self._rim if rim else 0.0), colour, rim)

    def outline(self, corners: Sequence[Point], colour: Colour) -> None:
        """A closed line through corners; that of a box lies just outside of it."""
        for rim in (True, False):
            self._line([*corners, *corners[:2]], colour, rim)

    def box(self, left_top: Point, right_bottom: Point, colour: Colour) -> None:
        out = self._stroke / 2
        (left, top), (right, bottom) = left_top, right_bottom
        left, top, right, bottom = left - out, top - out, right + out, bottom + out
        self.outline([(left, top), (right, top), (right, bottom), (left, bottom)], colour)

    def ring(self, centre: Point, colour: Colour) -> None:
        radius = RING * self.unit
        for rim in (True, False):
            extra = self._rim if rim else 0.0
            self._ellipse(centre, radius + extra, WHITE if rim else colour, self._stroke + 2 * extra)
        self.dot(centre, colour, DOT * self.unit, WHITE)

    def dot(self, centre: Point, colour: Colour, radius: float, rim: Colour) -> None:
        for by, fill in ((self._rim * 0.75, rim), (0.0, colour)):
            self._draw.ellipse(self._around(centre, radius + by, radius + by), fill=(*fill, 255))

    def small_dot(self, centre: Point) -> None:
        self.dot(centre, YELLOW, SMALL_DOT * self.unit, BLACK)

    def dashes(self, centre: Point, radius_x: float, radius_y: float, colour: Colour) -> None:
        """An ellipse of dashes, about 14 pixels each; none where it would lie around the whole screen."""
        if radius_x < 1 or radius_y < 1 or radius_x > 2 * self.size[0] or radius_y > 2 * self.size[1]:
            return
        around = math.pi * (radius_x + radius_y)
        count = max(8, round(around / (24 * self.unit)))
        for rim in (True, False):
            width = self._stroke * 0.7 + (2 * self._rim if rim else 0.0)
            extra = width / 2
            area = self._around(centre, radius_x + extra, radius_y + extra)
            for start in range(count):
                first = 360 * start / count
                ends = (first, first + 216 / count)
                fill = (*(WHITE if rim else colour), 255)
                self._draw.arc(area, *ends, fill=fill, width=round(width * SMOOTH))

    def link(self, start: Point, end: Point, text: str) -> None:
        """A line from the target to the click, with words on it where there is room, else beside its end."""
        length = math.dist(start, end)
        room = RING * self.unit + self._stroke
        if length > room:
            near = room / length
            stop = (end[0] + (start[0] - end[0]) * near, end[1] + (start[1] - end[1]) * near)
            for rim in (True, False):
                self._line([start, stop], BLACK, rim, 0.6)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        if length < 130 * self.unit:
            away = 1 if end[0] < self.size[0] / 2 else -1
            middle = (max(start[0] * away, end[0] * away) * away + away * 58 * self.unit, end[1])
        self._labels.append((middle, text))

    def arrow(self, start: Point, towards: Point, colour: Colour) -> None:
        """The head of an arrow beside a ring: further on that way."""
        length = math.dist(start, towards)
        if not length:
            return
        dx, dy = (towards[0] - start[0]) / length, (towards[1] - start[1]) / length
        first, last, half = ((RING + by) * self.unit for by in (4.0, 16.0, -4.0))
        base = (start[0] + dx * first, start[1] + dy * first)
        corners = [
            (start[0] + dx * last, start[1] + dy * last),
            (base[0] - dy * half, base[1] + dx * half),
            (base[0] + dy * half, base[1] - dx * half),
        ]
        scaled = [(x * SMOOTH, y * SMOOTH) for x, y in corners]
        self._line([*corners, *corners[:2]], WHITE, True, 0.0)
        self._draw.polygon(scaled, fill=(*colour, 255))

    def _line(self, points: Sequence[Point], colour: Colour, rim: bool, thick: float = 1.0) -> None:
        width = self._stroke * thick + (2 * self._rim if rim else 0.0)
        scaled = [(x * SMOOTH, y * SMOOTH) for x, y in points]
        fill = (*(WHITE if rim else colour), 255)
        self._draw.line(scaled, fill=fill, width=max(1, round(width * SMOOTH)), joint="curve")

    def _ellipse(self, centre: Point, radius: float, colour: Colour, width: float) -> None:
        area = self._around(centre, radius, radius)
        self._draw.ellipse(area, outline=(*colour, 255), width=max(1, round(width * SMOOTH)))

    def _around(self, centre: Point, radius_x: float, radius_y: float) -> tuple[float, float, float, float]:
        x, y = centre
        edges = (x - radius_x, y - radius_y, x + radius_x, y + radius_y)
        left, top, right, bottom = (edge * SMOOTH for edge in edges)
        return left, top, right, bottom

    # -- the whole ----------------------------------------------------------------------------------------------------

    def finished(self, verdict: tuple[str, Colour, bool], rows: Sequence[tuple[str, str]]) -> Any:
        """The screen with its marks, and below it a verdict and rows of words.

        `verdict` is a word, its colour, and whether its badge is filled; a row is what it is about and what it says.
        """
        words = _Words(self._font, self.unit)
        width = max(self.size[0], LEAST_SIDE_PX)
        lines = words.wrapped(rows, width - 2 * words.padding)
        height = self.size[1] + words.height(lines)
        whole = Image.new("RGB", (width, height), WHITE)
        whole.paste(self._marked(words), ((width - self.size[0]) // 2, 0))
        words.write(whole, self.size[1], verdict, lines)
        return whole

    def _marked(self, words: _Words) -> Any:
        picture = Image.new("RGB", self.size, PAPER)
        picture.paste(self._screen, (self.margin, self.margin))
        frame = (self.margin - 1, self.margin - 1, self.margin + self.width, self.margin + self.height)
        ImageDraw.Draw(picture).rectangle(frame, outline=GREY)
        layer = self._layer.reduce(SMOOTH)
        picture.paste(layer, mask=layer.getchannel("A"))
        for centre, text in self._labels:
            words.label(picture, centre, text)
        return picture


def _longer(ends: Sequence[Point], by: float) -> list[Point]:
    (x0, y0), (x1, y1) = ends
    length = math.dist(*ends) or 1.0
    dx, dy = (x1 - x0) / length * by, (y1 - y0) / length * by
    return [(x0 - dx, y0 - dy), (x1 + dx, y1 + dy)]


# -- words ------------------------------------------------------------------------------------------------------------

Line = tuple[str, str]
"""What a row is about, in front of its first line only, and a line of it."""


class _Words:
    """Words of one size, in Pillow's own font or in that of a file."""

    def __init__(self, font: Path | None, unit: float) -> None:
        self._size = max(13, round(LETTERS * unit))
        self._font = load_font(font, self._size)
        self._own = font is not None
        self.padding = round(PADDING * unit)
        self._row = self._size + round(ROW_GAP * unit)
        self._indent = round(self._font.getlength("instruction:   "))

    def safe(self, text: str) -> str:
        short = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
        return spelled(short, self._has if self._own else BUILT_IN.__contains__)

    def _has(self, character: str) -> bool:
        return character == " " or (character.isprintable() and _glyph(self._font, character) != _glyph(self._font))

    def wrapped(self, rows: Sequence[tuple[str, str]], width: int) -> list[Line]:
        lines: list[Line] = []
        for about, text in rows:
            broken = list(self._broken(self.safe(text), width - self._indent))
            if len(broken) > MOST_LINES:
                broken = [*broken[: MOST_LINES - 1], f"{broken[MOST_LINES - 1].rpartition(' ')[0]} …"]
            lines += [(about if number == 0 else "", line) for number, line in enumerate(broken)]
        return lines

    def _broken(self, text: str, width: int) -> Iterator[str]:
        """Lines that fit; a word that does not is broken."""
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}" if line else word
            if self._font.getlength(longer) <= width:
                line = longer
                continue
            if line:
                yield line
            while self._font.getlength(word) > width and len(word) > 1:
                fits = self._fitting(word, width)
                yield word[:fits]
                word = word[fits:]
            line = word
        yield line

    def _fitting(self, word: str, width: int) -> int:
        """How many characters of a word fit, at least one."""
        low, high = 1, len(word)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._font.getlength(word[:middle]) <= width else (low, middle - 1)
        return low

    def height(self, lines: Sequence[Line]) -> int:
        return 2 * self.padding + self._row * (len(lines) + 1) + round(self._row * 0.4)

    def write(self, whole: Any, top: int, verdict: tuple[str, Colour, bool], lines: Sequence[Line]) -> None:
        draw = ImageDraw.Draw(whole)
        draw.line([(0, top), (whole.width, top)], fill=GREY)
        y = top + self.padding
        self._badge(draw, (self.padding, y), *verdict)
        y += self._row + round(self._row * 0.4)
        for about, text in lines:
            draw.text((self.padding, y), f"{about}:" if about else "", font=self._font, fill=GREY)
            draw.text((self.padding + self._indent, y), text, font=self._font, fill=BLACK)
            y += self._row

    def _badge(self, draw: Any, corner: tuple[int, int], word: str, colour: Colour, filled: bool) -> None:
        x, y = corner
        head, _, rest = word.partition(" | ")
        wide = self._font.getlength(head) + self._row
        area = (x, y - self._row // 6, x + wide, y + self._row)
        draw.rounded_rectangle(area, self._row // 4, fill=colour if filled else WHITE, outline=colour, width=2)
        middle = (y - self._row // 6 + y + self._row) / 2
        draw.text((x + wide / 2, middle), head, font=self._font, fill=WHITE if filled else colour, anchor="mm")
        draw.text((x + wide + self._row / 2, middle), self.safe(rest), font=self._font, fill=BLACK, anchor="lm")

    def label(self, picture: Any, centre: Point, text: str) -> None:
        """Words in a white box, moved so far that all of it lies on the picture."""
        wide, high = self._font.getlength(text) + 12, self._row
        x = min(max(centre[0], wide / 2 + 2), picture.width - wide / 2 - 2)
        y = min(max(centre[1], high / 2 + 2), picture.height - high / 2 - 2)
        draw = ImageDraw.Draw(picture)
        area = (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        draw.rounded_rectangle(area, 4, fill=WHITE, outline=BLACK, width=1)
        draw.text((x, y), text, font=self._font, fill=BLACK, anchor="mm")


MOST_LINES = 4


@lru_cache(maxsize=16)
def load_font(path: Path | None, size: int) -> Any:
    """Pillow's own font, laid out in the one way that every build of Pillow has; or the font of a file."""
    if path is None:
        font: Any = ImageFont.load_default(size)
        return font.font_variant(layout_engine=ImageFont.Layout.BASIC)
    try:
        return ImageFont.truetype(str(path), size)
    except OSError as error:
        raise InputError(f"{path} cannot be read as a font: name a TrueType or OpenType file") from error


@lru_cache(maxsize=4096)
def _glyph(font: Any, character: str = "\U0010ffff") -> tuple[tuple[int, int], bytes]:
    """What is drawn for a character; by default, what a font draws in place of one that it lacks."""
    mask = font.getmask(character)
    return mask.size, bytes(mask)


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


def spelled(text: str, can_draw: Callable[[str], bool] = BUILT_IN.__contains__) -> str:
    """A text on one line, in characters that can be drawn."""
    characters = unicodedata.normalize("NFC", " ".join(text.split()))
    pieces = [piece for character in characters if (piece := _piece(character, can_draw))[0]]
    words = []
    for script, run in groupby(_joined(pieces), key=lambda piece: piece[1]):
        letters = [shown for shown, _ in run]
        count = sum(shown != " " for shown in letters)
        words.append(
            f" ({count} {script} {'character' if count == 1 else 'characters'}) " if script else "".join(letters)
        )
    return " ".join("".join(words).split())


Piece = tuple[str, str | None]
"""What is drawn for a character; or the character and its script, where nothing can be."""


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Spaces between words of one script that cannot be spelled belong to it, so that it is told once."""
    script_after: list[str | None] = []
    following: str | None = None
    for shown, script in reversed(pieces):
        following = following if shown == " " and script is None else script
        script_after.append(following)
    script_after.reverse()
    joined: list[Piece] = []
    for (shown, script), after in zip(pieces, script_after, strict=True):
        before = joined[-1][1] if joined else None
        joined.append((shown, before if shown == " " and before is not None and before == after else script))
    return joined


def _piece(character: str, can_draw: Callable[[str], bool]) -> Piece:
    if can_draw(character):
        return character, None
    if character in _SIGNS:
        return _SIGNS[character], None
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc", "Cs", "Co", "Cn"):
        return "", None
    bare = [c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c)]
    if all(map(can_draw, bare)):
        return "".join(bare), None
    return _letter(character, bare[0])


def _letter(character: str, bare: str) -> Piece:
    name = unicodedata.name(character, "")
    script, _, rest = name.partition(" ")
    if script in _NAMED_ALIKE and rest.startswith(_NAMED_ALIKE[script]):
        return rest.split()[-1].lower(), None
    for candidate in (character, bare):
        latin = _LETTERS.get(candidate.lower())
        if latin is not None:
            return latin.capitalize() if candidate.isupper() else latin, None
    if not character.isalpha():
        return f"[{name.lower() or 'sign'}]", None
    return character, _SCRIPTS.get(script.partition("-")[0], script.capitalize())
