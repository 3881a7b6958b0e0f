"""Rows of a drawn map, cut into the cells that a reader sees.

An emoji may be several code points: a variation selector, a skin tone, a keycap, a joined family, a flag. They are one
cell. `⬜` and `⬜️` differ by an invisible variation selector alone, and count as the same cell.
"""

from __future__ import annotations

import unicodedata

JOINER = "\u200d"
_SELECTORS = {0xFE0E: None, 0xFE0F: None}


def cells(row: str) -> list[str]:
    """The cells of a row; what modifies a character stays with it.

    >>> cells("⬜️🤖⬜")
    ['⬜️', '🤖', '⬜']
    """
    found: list[str] = []
    for char in row:
        if found and _belongs(found[-1], char):
            found[-1] += char
        else:
            found.append(char)
    return found


def plain(cell: str) -> str:
    """The cell without its variation selectors, by which two ways of writing one emoji are told to be the same."""
    return cell.translate(_SELECTORS)


def _belongs(cell: str, char: str) -> bool:
    code = ord(char)
    if cell[-1] == JOINER or char == JOINER:
        return True
    if 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F:  # skin tones, tags
        return not cell.isspace()
    if _is_regional(char):
        return len(cell) == 1 and _is_regional(cell)
    return unicodedata.category(char) in ("Mn", "Me", "Mc")


def _is_regional(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF
