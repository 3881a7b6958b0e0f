"""Where names stand on a screen, and how well a place fits what is said around the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from howsure.models.ocr import lexical, relations
from howsure.models.ocr.screen import Box, Screen, Text
from howsure.models.ocr.wishes import Anchor, Name, Place, Wish

LEAST_FIT = 0.45
"""Below this a name does not fit a text."""

PLACE_WEIGHT, NEAR_WEIGHT, SIDE_WEIGHT = 0.25, 0.2, 0.45
"""What the rough place, an anchor around the target and an anchor beside it count, against 1 for a perfect name."""

MOST_ANCHORS = 12


class Piece(NamedTuple):
    """A name as it stands on the screen."""

    box: Box
    words: str
    how: str
    fit: float


class PlacedAnchor(NamedTuple):
    """An anchor and where it may stand, the likeliest first."""

    anchor: Anchor
    pieces: Sequence[Piece]

    @property
    def directed(self) -> bool:
        return self.anchor.relation in relations.DIRECTED


def find_names(names: Sequence[Name], screen: Screen) -> list[Piece]:
    """Where names stand on the screen, each place once, the best first."""
    best: dict[Box, Piece] = {}
    for name in names:
        for text in screen.spelled:
            piece = _piece(name, text)
            if piece is not None and (piece.box not in best or best[piece.box].fit < piece.fit):
                best[piece.box] = piece
    return sorted(best.values(), key=lambda piece: (-piece.fit, piece.box.top, piece.box.left))


def _piece(name: Name, text: Text) -> Piece | None:
    match = lexical.find(name.text, text.words)
    if match is None or match.score * name.weight < LEAST_FIT:
        return None
    if text.seams and not any(match.first <= seam < match.last for seam in text.seams):
        return None
    box = text.box if match.whole else text.part(match.first, match.last)
    how = "fuzzy" if match.wrong else "exact" if match.whole else "part"
    certainty = 0.9 + 0.1 * text.certainty
    return Piece(box, text.words[match.first : match.last], how, match.score * name.weight * certainty)


def find_anchors(wish: Wish, screen: Screen) -> list[PlacedAnchor]:
    """The anchors of a wish that are on the screen."""
    placed = []
    for anchor in wish.anchors:
        pieces = _between(anchor, screen) if anchor.relation == "between" else find_names(anchor.names, screen)
        if pieces:
            placed.append(PlacedAnchor(anchor, pieces[:MOST_ANCHORS]))
    return placed


def _between(anchor: Anchor, screen: Screen) -> list[Piece]:
    """The room between the best places of two names, as if it were a thing."""
    first, second = ([*find_names([name], screen), None][0] for name in (anchor.names[0], anchor.names[-1]))
    if first is None or second is None or first.box == second.box:
        return []
    left, right = sorted((first.box, second.box), key=lambda box: box.left)
    top, bottom = sorted((first.box, second.box), key=lambda box: box.top)
    beside = first.box.shares_row(second.box) > 0
    joined = first.box.joined(second.box)
    room = (
        joined._replace(left=left.right, right=right.left)
        if beside
        else joined._replace(top=top.bottom, bottom=bottom.top)
    )
    return [Piece(room, f"{first.words} … {second.words}", "relation", min(first.fit, second.fit))]


def context(box: Box, wish: Wish, anchors: Sequence[PlacedAnchor], screen: Screen) -> float:
    """What the rough place and the anchors say for a box."""
    said = PLACE_WEIGHT * at_place(box, wish.place, screen)
    for placed in anchors:
        weight = SIDE_WEIGHT if placed.directed else NEAR_WEIGHT
        said += weight * max(
            (beside(box, piece, placed.anchor.relation, screen) for piece in placed.pieces), default=0.0
        )
    return said


def beside(box: Box, piece: Piece, relation: str, screen: Screen) -> float:
    """How well a box stands in a relation to an anchor, and how sure the anchor is."""
    return 0.0 if piece.box == box else piece.fit * relations.stands(relation, box, piece.box, screen.line_height)


def at_place(box: Box, place: Place, screen: Screen) -> float:
    """How near a box is to a rough place, from 0 to 1; 0 where none is spoken of."""
    if not place:
        return 0.0
    parts = []
    if place.across is not None:
        parts.append(_close(box.x / screen.width, place.across))
    if place.down is not None:
        parts.append(_close(box.y / screen.height, place.down))
    return math.prod(parts)


def _close(at: float, wanted: float) -> float:
    return float(max(0.0, 1.0 - abs(at - wanted)) ** 1.5)
