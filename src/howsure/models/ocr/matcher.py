"""From what is asked and what was read to the place to click.

For every reading of the instruction, each text on the screen is a candidate by how well the target's name fits it; the
rough place and the anchors that the instruction speaks of decide between candidates that fit alike. Where the target
has no words of its own, the click goes to a drawn mark beside its anchor. Cells of a table are found by its letters
and numbers. The ways, in `how`:

exact     a text that is the name            part      the name inside a longer text
fuzzy     a text that is almost the name     relation  a mark or a place beside a text
sign      a drawn sign such as + or x        cell      a cell or a header of a table
meaning   a text that means the same         guess     only the place that is spoken of
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from howsure.models.ocr import lexical, relations
from howsure.models.ocr.cells import cell_click
from howsure.models.ocr.phrases import Anchor, Name, Place, Wish, understand
from howsure.models.ocr.screen import Box, Mark, Screen, Text
from howsure.models.ocr.vocabulary import TEXTLESS

LEAST_FIT = 0.45
"""Below this a name does not fit a text."""

PLACE_WEIGHT, NEAR_WEIGHT, SIDE_WEIGHT = 0.25, 0.2, 0.45
"""What the rough place, an anchor around the target and an anchor beside it count, against 1 for a perfect name."""

SHARPNESS = 0.06
"""How close two candidates must be to take each other's certainty away."""

Likeness = Callable[[str, Sequence[str]], Sequence[float]]
"""How much each text means the same as a phrase, from 0 to 1."""


class Candidate(NamedTuple):
    """A place that may be meant: its click, how well it fits what is asked, and what speaks for it in all."""

    x: float
    y: float
    box: Box
    words: str | None
    how: str
    fit: float
    total: float


class Choice(NamedTuple):
    """The place to click, with the certainty from 0 to 1."""

    x: float
    y: float
    words: str | None
    how: str
    confidence: float


class Piece(NamedTuple):
    """A name found on the screen."""

    box: Box
    words: str
    how: str
    fit: float


def choose(instruction: str, screen: Screen, likeness: Likeness | None = None) -> Choice | None:
    """The place to click; None where the instruction says nothing or the screen holds nothing."""
    wishes = understand(instruction)
    cell = cell_click(instruction, screen)
    if cell is not None:
        return Choice(cell.x, cell.y, cell.words, "cell", cell.confidence)
    found = [candidate for wish in wishes for candidate in candidates(wish, screen)]
    if likeness is not None and not any(c.fit > LEAST_MEANT_BEATS for c in found):
        found += [c for wish in wishes for c in _meant(wish, screen, likeness)]
    if not found:
        found = [c for wish in wishes[:1] for c in _guesses(wish, screen)]
    return _best(found)


LEAST_MEANT_BEATS = 0.6


def _best(found: Sequence[Candidate]) -> Choice | None:
    """The candidate with most for it, and how clearly it leads over other places."""
    if not found:
        return None
    ranked = sorted(found, key=lambda c: (-c.total, c.box.top, c.box.left))
    first = ranked[0]
    others = [c for c in ranked[1:40] if not _same_place(c, first)]
    rivals = sum(math.exp((c.total - first.total) / SHARPNESS) for c in _distinct(others))
    confidence = first.fit**2 / (1.0 + 0.6 * rivals)
    return Choice(first.x, first.y, first.words, first.how, min(1.0, max(0.0, confidence)))


def _same_place(one: Candidate, other: Candidate) -> bool:
    return abs(one.x - other.x) < 4 + one.box.height / 2 and abs(one.y - other.y) < 4 + one.box.height / 2


def _distinct(ranked: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    for candidate in ranked:
        if not any(_same_place(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


# -- candidates of one reading ----------------------------------------------------------------------------------------


def candidates(wish: Wish, screen: Screen) -> list[Candidate]:
    """Texts that carry the target's name, and marks where its name is a sign or it has none."""
    anchors = [(anchor, find_names(anchor.names, screen)) for anchor in wish.anchors]
    anchors = [(anchor, pieces) for anchor, pieces in anchors if pieces]
    texts = [_weighed(piece, wish, anchors, screen) for piece in find_names(wish.names, screen)]
    marks = _marks(wish, anchors, screen) if _may_be_drawn(wish, texts) else []
    return [c for c in texts if not _is_anchor(c, anchors)] + marks


def _may_be_drawn(wish: Wish, texts: Sequence[Candidate]) -> bool:
    if wish.sign is not None or wish.window_button is not None:
        return True
    quoted = any(name.weight == 1.0 for name in wish.names)
    return (wish.kind in TEXTLESS and not (quoted and any(c.fit > 0.8 for c in texts))) or not wish.names


def _is_anchor(candidate: Candidate, anchors: Sequence[tuple[Anchor, list[Piece]]]) -> bool:
    """Whether a candidate is the best place of an anchor that the target stands beside."""
    for anchor, pieces in anchors:
        if anchor.relation in relations.DIRECTED and len(pieces) == 1 and pieces[0].box == candidate.box:
            return True
    return False


def find_names(names: Sequence[Name], screen: Screen) -> list[Piece]:
    """Where names stand on the screen, each place once, the best first."""
    found: dict[Box, Piece] = {}
    for name in names:
        for text in spelled_texts(screen):
            piece = _piece(name, text)
            if piece is not None and (piece.box not in found or found[piece.box].fit < piece.fit):
                found[piece.box] = piece
    return sorted(found.values(), key=lambda piece: (-piece.fit, piece.box.top, piece.box.left))


def _piece(name: Name, text: Text) -> Piece | None:
    match = lexical.find(name.text, text.words)
    if match is None or match.score * name.weight < LEAST_FIT:
        return None
    box = text.box if match.whole else text.part(match.first, match.last)
    how = "fuzzy" if match.wrong else "exact" if match.whole else "part"
    certainty = 0.9 + 0.1 * text.certainty
    return Piece(box, text.words[match.first : match.last], how, match.score * name.weight * certainty)


def spelled_texts(screen: Screen) -> list[Text]:
    """The texts, and those that stand so close after or under one another that they may be one."""
    texts = list(screen.texts)
    found = list(texts)
    for first in texts:
        row = first
        for _ in range(3):
            after = _next_in_row(row, texts)
            if after is None:
                break
            row = Text(f"{row.words} {after.words}", row.box.joined(after.box), min(row.certainty, after.certainty))
            found.append(row)
        under = _next_line(first, texts)
        if under is not None:
            found.append(Text(f"{first.words} {under.words}", first.box.joined(under.box), under.certainty))
    return found


def _next_in_row(text: Text, texts: Sequence[Text]) -> Text | None:
    near = [
        t
        for t in texts
        if t.box.shares_row(text.box) > 0.6 and 0 <= t.box.left - text.box.right + 3 <= 3 + 2.2 * text.box.height
    ]
    return min(near, key=lambda t: t.box.left, default=None)


def _next_line(text: Text, texts: Sequence[Text]) -> Text | None:
    near = [
        t
        for t in texts
        if t is not text
        and -0.3 * text.box.height <= t.box.top - text.box.bottom <= 0.8 * text.box.height
        and t.box.shares_column(text.box) > 0.6
    ]
    return min(near, key=lambda t: t.box.top, default=None)


def _weighed(piece: Piece, wish: Wish, anchors: Sequence[tuple[Anchor, list[Piece]]], screen: Screen) -> Candidate:
    x = piece.box.x
    inward = min(piece.box.height / 4, piece.box.width / 4)
    if wish.edge is not None:
        x = piece.box.left + inward if wish.edge == "start" else piece.box.right - inward
    fit = piece.fit * wish.weight
    total = fit + _context(piece.box, wish, anchors, screen)
    return Candidate(x, piece.box.y, piece.box, piece.words, piece.how, fit, total)


def _context(box: Box, wish: Wish, anchors: Sequence[tuple[Anchor, list[Piece]]], screen: Screen) -> float:
    """What the place and the anchors say for a box."""
    said = PLACE_WEIGHT * at_place(box, wish.place, screen)
    for anchor, pieces in anchors:
        weight = SIDE_WEIGHT if anchor.relation in relations.DIRECTED else NEAR_WEIGHT
        said += weight * max(
            (
                piece.fit * relations.stands(anchor.relation, box, piece.box, screen.line_height)
                for piece in pieces[:12]
                if piece.box != box
            ),
            default=0.0,
        )
    return said


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


# -- marks ------------------------------------------------------------------------------------------------------------


def _marks(wish: Wish, anchors: Sequence[tuple[Anchor, list[Piece]]], screen: Screen) -> list[Candidate]:
    beside = next(((a, p) for a, p in anchors if a.relation in relations.DIRECTED), None)
    if beside is None:
        return _lone_marks(wish, anchors, screen)
    anchor, pieces = beside
    found = []
    for piece in pieces[:6]:
        rest = [(a, p) for a, p in anchors if a is not anchor]
        for mark in screen.marks:
            stands = relations.stands(anchor.relation, mark.box, piece.box, screen.line_height)
            if stands > 0 and _can_be(mark, wish, screen):
                looks = _looks(mark, wish)
                said = _context(mark.box, wish, rest, screen)
                fit = 0.85 * piece.fit * (0.55 + 0.45 * stands) * (0.75 + 0.25 * looks)
                total = 0.9 * piece.fit * stands + 0.5 * looks + said
                found.append(_mark_candidate(mark, wish, piece, fit, total))
        if not found:
            x, y = relations.displaced(anchor.relation, piece.box, screen.line_height)
            box = Box(x, y, x, y)
            found.append(Candidate(x, y, box, piece.words, "relation", 0.4 * piece.fit, 0.3 * piece.fit))
    return found


def _mark_candidate(mark: Mark, wish: Wish, piece: Piece, fit: float, total: float) -> Candidate:
    how = "sign" if mark.sign is not None and mark.sign == wish.sign else "relation"
    return Candidate(mark.box.x, mark.box.y, mark.box, piece.words, how, fit, total)


def _can_be(mark: Mark, wish: Wish, screen: Screen) -> bool:
    """Whether a mark has the size of what is wanted; specks and strokes are nothing to click."""
    if wish.sign is not None:
        return True
    return min(mark.box.width, mark.box.height) >= 0.3 * screen.line_height


def _looks(mark: Mark, wish: Wish) -> float:
    """How much a mark looks as the instruction says, from 0 to 1; one half where it says nothing."""
    said = []
    if wish.sign is not None:
        said.append(1.0 if mark.sign == wish.sign else 0.0)
    if wish.colour is not None:
        said.append(1.0 if mark.colour == wish.colour else 0.2)
    return sum(said) / len(said) if said else 0.5


def _lone_marks(wish: Wish, anchors: Sequence[tuple[Anchor, list[Piece]]], screen: Screen) -> list[Candidate]:
    """Marks that show the sign that is asked for, where the place and the anchors around it tell which."""
    if wish.sign is None:
        return []
    found = []
    for mark in screen.marks:
        if mark.sign == wish.sign:
            said = _context(mark.box, wish, anchors, screen)
            place = at_place(mark.box, wish.place, screen)
            found.append(
                Candidate(mark.box.x, mark.box.y, mark.box, wish.sign, "sign", 0.35 + 0.35 * place, 0.6 + 2 * said)
            )
    return found


# -- when no name fits ------------------------------------------------------------------------------------------------


def _meant(wish: Wish, screen: Screen, likeness: Likeness) -> list[Candidate]:
    """Texts that mean what the target is called."""
    texts = [text for text in screen.texts if len(text.words.strip()) > 1]
    names = [name for name in wish.names if any(c.isalpha() for c in name.text)]
    if not texts or not names:
        return []
    scores = likeness(names[0].text, [text.words for text in texts])
    anchors = [(anchor, find_names(anchor.names, screen)) for anchor in wish.anchors]
    anchors = [(anchor, pieces) for anchor, pieces in anchors if pieces]
    found = []
    for text, score in zip(texts, scores, strict=True):
        if score > 0.3:
            fit = 0.6 * score * wish.weight
            total = fit + _context(text.box, wish, anchors, screen)
            found.append(Candidate(text.box.x, text.box.y, text.box, text.words, "meaning", fit, total))
    return found


def _guesses(wish: Wish, screen: Screen) -> list[Candidate]:
    """A mark, or else a text, near the place that is spoken of; with hardly any certainty."""
    found = []
    boxes: list[tuple[Box, str | None]] = [
        (mark.box, None) for mark in screen.marks if min(mark.box.width, mark.box.height) >= 8
    ]
    for box, words in boxes or [(text.box, text.words) for text in screen.texts]:
        total = at_place(box, wish.place, screen)
        found.append(Candidate(box.x, box.y, box, words, "guess", 0.15, total))
    return found
