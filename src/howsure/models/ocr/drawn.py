"""Targets without words: a sign, a mark or a field beside an anchor, the buttons of a window's frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from howsure.models.ocr import relations
from howsure.models.ocr.finding import SIDE_WEIGHT, Piece, PlacedAnchor, at_place, beside, context
from howsure.models.ocr.lexical import as_sign
from howsure.models.ocr.screen import Box, Mark, Screen
from howsure.models.ocr.vocabulary import FRAMED, TEXTLESS
from howsure.models.ocr.wishes import Wish

SIGN_FIT = 0.85
UNNAMED_FIT = 0.6
DISPLACED_FIT = 0.4
"""How well things without a name can fit: a recognised sign, what stands where it should, and an empty place there."""


class Candidate(NamedTuple):
    """A place that may be meant: its click, how well it fits what is asked, and what speaks for it in all."""

    x: float
    y: float
    box: Box
    words: str | None
    how: str
    fit: float
    total: float


def signs(wish: Wish, anchors: Sequence[PlacedAnchor], screen: Screen) -> list[Candidate]:
    """Marks that show the sign that is asked for; the place and the anchors tell which."""
    directed = next((anchor for anchor in anchors if anchor.directed), None)
    candidates = []
    for mark in _signed(screen):
        if wish.sign is not None and mark.sign == wish.sign and _stands(mark.box, directed, screen):
            said = context(mark.box, wish, anchors, screen)
            known = max(at_place(mark.box, wish.place, screen), min(1.0, said / SIDE_WEIGHT))
            fit = SIGN_FIT * (0.5 + 0.5 * known)
            candidates.append(_at(mark.box, wish.sign, "sign", fit * wish.weight, SIGN_FIT * wish.weight + said))
    return candidates


def _stands(box: Box, directed: PlacedAnchor | None, screen: Screen) -> bool:
    """Whether a box stands beside its anchor, where there is one."""
    if directed is None:
        return True
    return any(beside(box, piece, directed.anchor.relation, screen) > 0.2 for piece in directed.pieces)


def _signed(screen: Screen) -> Iterator[Mark]:
    """The marks, and signs that were read as texts or at the end of one."""
    yield from screen.marks
    for text in screen.texts:
        start = text.words.rstrip().rfind(" ") + 1
        sign = as_sign(text.words[start:])
        if sign is not None:
            yield Mark(text.part(start, len(text.words.rstrip())), sign)


def neighbours(wish: Wish, anchors: Sequence[PlacedAnchor], screen: Screen) -> list[Candidate]:
    """What stands beside an anchor, where the target has no name: a mark, or a text if it may be one."""
    directed = next((anchor for anchor in anchors if anchor.directed), None)
    if directed is None:
        return []
    rest = [anchor for anchor in anchors if anchor is not directed]
    relation = _usual_side(wish, directed.anchor.relation)
    candidates = [
        candidate
        for piece in directed.pieces
        for box, looks in _things(wish, screen)
        for candidate in _neighbour(box, looks, piece, relation, wish, rest, screen)
    ]
    return [*candidates, _displaced(wish, directed.pieces[0], relation, screen)]


def _usual_side(wish: Wish, relation: str) -> str:
    """Boxes to tick stand before their labels, switches at the end of the row, and what else has a label after it."""
    if relation not in ("beside", "for"):
        return relation
    return {"checkbox": "left_of", "toggle": "right_end"}.get(wish.kind or "", "for")


def _things(wish: Wish, screen: Screen) -> Iterator[tuple[Box, float]]:
    """What may be meant, and how much it looks so, from 0 to 1."""
    if wish.kind in FRAMED:
        for mark in screen.marks:
            if mark.sign == "frame":
                yield mark.box, 0.8
    if wish.kind not in TEXTLESS:
        for text in screen.texts:
            yield text.box, 0.6
    if wish.kind in TEXTLESS or wish.kind in (None, "button"):
        for mark in screen.marks:
            if mark.sign != "frame" and min(mark.box.width, mark.box.height) >= 0.3 * screen.line_height:
                yield mark.box, _looks(mark, wish, screen.line_height)


def _looks(mark: Mark, wish: Wish, line: float) -> float:
    """How much a mark looks as the instruction says, from 0 to 1; one half where it says nothing."""
    said = [_has_form(mark.box, wish.kind, line)] if wish.kind in ("checkbox", "toggle", "arrow") else []
    if wish.sign is not None:
        said.append(1.0 if mark.sign == wish.sign else 0.0)
    if wish.colour is not None:
        said.append(1.0 if mark.colour == wish.colour else 0.2)
    return sum(said) / len(said) if said else 0.5


def _has_form(box: Box, kind: str | None, line: float) -> float:
    """Whether a box has the form of such a thing: boxes to tick are square, switches wider than high, arrows small."""
    shape, height = box.width / max(1.0, box.height), box.height / line
    if kind == "checkbox":
        return 1.0 if 0.75 <= shape <= 1.34 and 0.4 <= height <= 1.5 else 0.2
    if kind == "toggle":
        return 1.0 if 1.3 <= shape <= 2.8 and 0.6 <= height <= 2.5 else 0.2
    return 1.0 if max(box.width, box.height) <= 1.2 * line else 0.3


def _neighbour(
    box: Box, looks: float, piece: Piece, relation: str, wish: Wish, rest: Sequence[PlacedAnchor], screen: Screen
) -> Iterator[Candidate]:
    stands = beside(box, piece, relation, screen)
    if stands > 0:
        fit = wish.weight * (UNNAMED_FIT + 0.3 * (looks - 0.5) + 0.2 * stands) * piece.fit
        total = wish.weight * (0.3 + 0.5 * looks) + 2 * SIDE_WEIGHT * stands + context(box, wish, rest, screen)
        yield _at(box, piece.words, "relation", fit, total)


def _displaced(wish: Wish, piece: Piece, relation: str, screen: Screen) -> Candidate:
    x, y = relations.displaced(relation, piece.box, screen.line_height * (3 if wish.kind == "field" else 1))
    x, y = min(max(x, 0.0), screen.width - 1.0), min(max(y, 0.0), screen.height - 1.0)
    fit = DISPLACED_FIT * piece.fit
    return _at(Box(x, y, x, y), piece.words, "relation", fit, 1.2 * piece.fit - 0.3)


def _at(box: Box, words: str | None, how: str, fit: float, total: float) -> Candidate:
    return Candidate(box.x, box.y, box, words, how, min(1.0, fit), total)


# -- the buttons of a window's frame ----------------------------------------------------------------------------------

FRAME_BUTTONS = ("minimise", "maximise", "close")
"""From left to right, as most desktops have them at the right end of a title bar."""


def frame_buttons(wish: Wish, anchors: Sequence[PlacedAnchor], screen: Screen) -> list[Candidate]:
    """Buttons that close or size a window: a cross with two more marks at even steps before it."""
    if wish.window_button is None:
        return []
    directed = next((anchor for anchor in anchors if anchor.directed), None)
    candidates = []
    for trio in _trios(screen):
        box = trio[FRAME_BUTTONS.index(wish.window_button)]
        if not _stands(box, directed, screen):
            continue
        said = context(box, wish, anchors, screen)
        highest = 0.2 * (1.0 - box.y / screen.height)
        candidates.append(_at(box, wish.window_button, "sign", 0.75 * wish.weight, 0.8 * wish.weight + said + highest))
    return candidates


def _trios(screen: Screen) -> Iterator[tuple[Box, Box, Box]]:
    marks = list(_signed(screen))
    small = [mark.box for mark in marks if max(mark.box.width, mark.box.height) <= 2.5 * screen.line_height]
    for mark in marks:
        if mark.sign == "cross":
            second = _before(mark.box, small, screen)
            first = _before(second, small, screen) if second is not None else None
            if first is not None and second is not None and _even(first, second, mark.box):
                yield first, second, mark.box


def _before(box: Box, boxes: Sequence[Box], screen: Screen) -> Box | None:
    line = screen.line_height
    near = [other for other in boxes if line < box.x - other.x < 4 * line and abs(other.y - box.y) < 0.5 * line]
    return max(near, key=lambda other: other.x, default=None)


def _even(first: Box, second: Box, third: Box) -> bool:
    one, two = second.x - first.x, third.x - second.x
    return abs(one - two) < 0.3 * max(one, two)
