"""From what is asked and what was read to the place to click.

For every reading of the instruction, each text on the screen is a candidate by how well the target's name fits it; the
rough place and the anchors that the instruction speaks of decide between candidates that fit alike. Where the target
has no words of its own, the click goes to a drawn mark beside its anchor. Cells of a table are located by its letters
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

from howsure.models.ocr.cells import cell_click
from howsure.models.ocr.drawn import Candidate, frame_buttons, neighbours, signs
from howsure.models.ocr.finding import Piece, PlacedAnchor, at_place, context, find_anchors, find_names
from howsure.models.ocr.lexical import as_sign
from howsure.models.ocr.phrases import understand
from howsure.models.ocr.screen import Box, Screen
from howsure.models.ocr.vocabulary import CAPTIONED, TEXTLESS
from howsure.models.ocr.wishes import Wish

SHARPNESS = 0.06
"""How close two candidates must be to take each other's certainty away."""

WELL = 0.6
"""From this on a candidate fits well enough that no other way is tried."""

SAID = 0.9
"""From this weight on a name is written as one: in quotes or with capitals."""

GUESS_FIT = 0.15
MOST_RIVALS = 40

Likeness = Callable[[str, Sequence[str]], Sequence[float]]
"""How much each text means the same as a phrase, from 0 to 1."""


class Choice(NamedTuple):
    """The place to click, with the certainty from 0 to 1."""

    x: float
    y: float
    words: str | None
    how: str
    confidence: float


def choose(instruction: str, screen: Screen, likeness: Likeness | None = None) -> Choice | None:
    """The place to click; None where the instruction says nothing or the screen holds nothing."""
    wishes = understand(instruction)
    cell = cell_click(instruction, screen, [name.text for wish in wishes[:1] for name in wish.names])
    if cell is not None:
        return Choice(cell.x, cell.y, cell.words, "cell", cell.confidence)
    options = [candidate for wish in wishes for candidate in candidates(wish, screen)]
    if likeness is not None and not any(c.fit > WELL for c in options):
        options += [c for wish in wishes for c in _meant(wish, screen, likeness)]
    if not options:
        options = [c for wish in wishes[:1] for c in _guesses(wish, screen)]
    return _best(options)


def _best(options: Sequence[Candidate]) -> Choice | None:
    """The candidate with most for it, and how clearly it leads over other places."""
    if not options:
        return None
    ranked = sorted(options, key=lambda c: (-c.total, c.box.top, c.box.left))
    first = ranked[0]
    others = _distinct([c for c in ranked[1:MOST_RIVALS] if not _same_place(c, first)])
    rivals = sum(math.exp((c.total - first.total) / SHARPNESS) for c in others)
    confidence = first.fit**2 / (1.0 + 0.6 * rivals)
    return Choice(first.x, first.y, first.words, first.how, min(1.0, max(0.0, confidence)))


def _same_place(one: Candidate, other: Candidate) -> bool:
    reach = 4 + one.box.height / 2
    return abs(one.x - other.x) < reach and abs(one.y - other.y) < reach


def _distinct(ranked: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    for candidate in ranked:
        if not any(_same_place(candidate, other) for other in kept):
            kept.append(candidate)
    return kept


# -- candidates of one reading ----------------------------------------------------------------------------------------


def candidates(wish: Wish, screen: Screen) -> list[Candidate]:
    """Texts that carry the target's name, and marks where its name is a sign or it has none."""
    anchors = find_anchors(wish, screen)
    names = [name for name in wish.names if wish.sign is None or as_sign(name.text) is None]
    pieces = [piece for piece in find_names(names, screen) if not _is_anchor(piece, anchors)]
    named = [_weighed(piece, wish, anchors, screen) for piece in pieces]
    options = named + signs(wish, anchors, screen) + frame_buttons(wish, anchors, screen)
    if not any(_surely_named(c, wish) for c in options):
        options += neighbours(wish, anchors, screen)
    return options


def _surely_named(candidate: Candidate, wish: Wish) -> bool:
    """Whether a candidate settles what is meant; loose words for a thing without text ("the down arrow") do not."""
    if candidate.how == "sign":
        return candidate.fit > WELL
    loose = wish.kind in TEXTLESS and not any(name.weight >= SAID for name in wish.names)
    return candidate.fit > WELL and not loose


def _is_anchor(piece: Piece, anchors: Sequence[PlacedAnchor]) -> bool:
    """Whether a place is that of an anchor which the target stands beside, and so not the target's."""
    return any(
        anchor.directed and anchor.pieces[0].box == piece.box and anchor.pieces[0].fit >= piece.fit
        for anchor in anchors
    )


def _weighed(piece: Piece, wish: Wish, anchors: Sequence[PlacedAnchor], screen: Screen) -> Candidate:
    inward = min(piece.box.height / 4, piece.box.width / 4)
    x = {"start": piece.box.left + inward, "end": piece.box.right - inward, None: piece.box.x}[wish.edge]
    inside_more = wish.kind in CAPTIONED and piece.how == "part"
    fit = piece.fit * wish.weight * (0.85 if inside_more else 1.0)
    total = fit + context(piece.box, wish, anchors, screen)
    return Candidate(x, piece.box.y, piece.box, piece.words, piece.how, fit, total)


# -- when no name fits ------------------------------------------------------------------------------------------------


def _meant(wish: Wish, screen: Screen, likeness: Likeness) -> list[Candidate]:
    """Texts that mean what the target is called."""
    texts = [text for text in screen.texts if len(text.words.strip()) > 1]
    names = [name for name in wish.names if any(c.isalpha() for c in name.text)]
    if not texts or not names:
        return []
    anchors = find_anchors(wish, screen)
    alike = []
    for text, score in zip(texts, likeness(names[0].text, [text.words for text in texts]), strict=True):
        if score > LEAST_ALIKE:
            fit = MEANT_FIT * score * wish.weight
            total = fit + context(text.box, wish, anchors, screen)
            alike.append(Candidate(text.box.x, text.box.y, text.box, text.words, "meaning", fit, total))
    return alike


LEAST_ALIKE, MEANT_FIT = 0.3, 0.6


def _guesses(wish: Wish, screen: Screen) -> list[Candidate]:
    """A mark, or else a text, near the place that is spoken of; with hardly any certainty."""
    if wish.kind == "area" and wish.place:  # so large that the place which is spoken of lies in it
        x, y = ((0.5 if at is None else min(max(at, 0.1), 0.9)) for at in wish.place)
        box = Box(x * screen.width, y * screen.height, x * screen.width, y * screen.height)
        return [Candidate(box.x, box.y, box, None, "guess", GUESS_FIT, 0.0)]
    line = screen.line_height
    marks = [mark for mark in screen.marks if mark.sign != "frame" and min(mark.box.width, mark.box.height) >= line / 2]
    things: list[tuple[Box, str | None, float]] = [
        (mark.box, None, 0.3 if wish.colour is not None and mark.colour == wish.colour else 0.0) for mark in marks
    ]
    return [
        Candidate(box.x, box.y, box, words, "guess", GUESS_FIT, at_place(box, wish.place, screen) + looks)
        for box, words, looks in things or [(text.box, text.words, 0.0) for text in screen.texts]
    ]
