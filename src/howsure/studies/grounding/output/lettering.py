"""Words for pictures: in letters that the font of a picture has.

Pillow's own font is the same on every machine, and has little more than ASCII. What it lacks is not drawn as empty
boxes: accents are left off, Hangul, kana, Cyrillic and Greek are written in Latin letters, symbols are named, and of
scripts that cannot be spelled it is told how much there is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import groupby

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
        found = [shown for shown, _ in run]
        count = sum(shown != " " for shown in found)
        words.append(
            f" ({count} {script} {'character' if count == 1 else 'characters'}) " if script else "".join(found)
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
    found: list[Piece] = []
    for (shown, script), after in zip(pieces, script_after, strict=True):
        before = found[-1][1] if found else None
        found.append((shown, before if shown == " " and before is not None and before == after else script))
    return found


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
