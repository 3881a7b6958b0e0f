"""From what is asked and what was read to the place to click.

Each text on the screen is a candidate by how well the target's name fits it; the rough place and the anchors that the
instruction speaks of decide between candidates that fit alike. Where the target has no words of its own, the click goes
to a drawn mark beside its anchor. Cells of a table are located by its letters and numbers. The ways, in `how`:

exact     a text that is the name            part      the name inside a longer text
fuzzy     a text that is almost the name     relation  a mark beside a text
sign      a drawn sign such as + or x        cell      a cell or a header of a table
meaning   a text that means the same         guess     only the place that is spoken of
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from howsure.models.ocr import names
from howsure.models.ocr.cells import cell_name, cell_place
from howsure.models.ocr.instruction import Name, Place, Wish, understand
from howsure.models.ocr.screen import Box, Mark, Screen

LEAST_FIT = 0.45
"""Below this a name does not fit a text."""

WELL = 0.6
"""From this on a candidate fits well enough that no other way is tried."""

CELL_FIT, SIGN_FIT, LABEL_FIT, MARK_FIT, MEANT_FIT, GUESS_FIT = 0.9, 0.85, 0.5, 0.7, 0.6, 0.03
"""How well other things than a name can fit: a cell, a sign, the label in place of the thing beside it, a mark that
stands where it should, a text of that meaning, and what is guessed."""

LEAST_ALIKE = 0.3
"""Below this two phrases do not mean the same."""

PLACE_WEIGHT, NEAR_WEIGHT, SIDE_WEIGHT = 0.25, 0.25, 0.45
"""What the rough place, an anchor around the target and an anchor beside it count, against 1 for a perfect name."""

SHARPNESS = 0.06
"""How close two candidates must be to take each other's certainty away."""

MOST_PIECES, MOST_RIVALS = 12, 40

Likeness = Callable[[str, Sequence[str]], Sequence[float]]
"""How much each text means the same as a phrase, from 0 to 1."""


class Choice(NamedTuple):
    """The place to click, with the certainty from 0 to 1."""

    x: float
    y: float
    words: str | None
    how: str
    confidence: float


class Piece(NamedTuple):
    """A name as it stands on the screen."""

    box: Box
    words: str
    how: str
    fit: float


class Candidate(NamedTuple):
    """A place that may be meant: how well it fits what is asked, and what speaks for it in all."""

    box: Box
    words: str | None
    how: str
    fit: float
    total: float


class Anchored(NamedTuple):
    """Where an anchor may stand, the likeliest first, and the target's relation to it."""

    relation: str
    pieces: Sequence[Piece]


def choose(instruction: str, screen: Screen, likeness: Likeness | None = None) -> Choice | None:
    """The place to click; None where the instruction says nothing or the screen holds nothing."""
    wish = understand(instruction)
    if wish is None:
        return None
    cell = cell_name(instruction)
    if cell is not None and (place := cell_place(cell, screen)) is not None:
        return Choice(*place, str(cell), "cell", CELL_FIT)
    matcher = _Matcher(wish, screen)
    options = [*matcher.named(), *matcher.signs()]
    if wish.kind is not None or not any(option.fit > WELL for option in options):
        options += matcher.beside_anchor()
    if likeness is not None and not any(option.fit > WELL for option in options):
        options += matcher.meant(likeness)
    return _best(options or matcher.guessed(), wish.edge)


def _best(options: Sequence[Candidate], edge: str | None) -> Choice | None:
    """The candidate with most for it, and how clearly it leads over other places."""
    if not options:
        return None
    ranked = sorted(options, key=lambda option: (-option.total, option.box.top, option.box.left))
    first = ranked[0]
    others = [other for other in ranked[1:MOST_RIVALS] if not _same_place(other.box, first.box)]
    rivals = sum(math.exp((other.total - first.total) / SHARPNESS) for other in others)
    inward = min(first.box.height, first.box.width) / 4
    x = {"start": first.box.left + inward, "end": first.box.right - inward, None: first.box.x}[edge]
    return Choice(x, first.box.y, first.words, first.how, min(1.0, first.fit / (1.0 + 0.6 * rivals)))


def _same_place(one: Box, other: Box) -> bool:
    reach = 4 + one.height / 2
    return abs(one.x - other.x) < reach and abs(one.y - other.y) < reach


class _Matcher:
    """What may be meant by a wish on a screen, way by way."""

    def __init__(self, wish: Wish, screen: Screen) -> None:
        self.wish = wish
        self.screen = screen
        self.line = screen.line_height
        anchors = [Anchored(anchor.relation, self._pieces(anchor.names)[:MOST_PIECES]) for anchor in wish.anchors]
        self.anchors = [anchor for anchor in anchors if anchor.pieces]
        self.directed = next((anchor for anchor in self.anchors if anchor.relation != "inside"), None)

    def named(self) -> list[Candidate]:
        """Texts that carry the target's name."""
        wanted = [name for name in self.wish.names if self.wish.sign is None or names.as_sign(name.text) is None]
        own = 1.0 if self.wish.kind is None else LABEL_FIT
        return [self._candidate(piece.box, piece.words, piece.how, own * piece.fit) for piece in self._pieces(wanted)]

    def signs(self) -> list[Candidate]:
        """Marks that show the sign that is asked for, beside the anchor if there is one."""
        sign = self.wish.sign
        boxes = [] if sign is None else [box for box in self._sign_boxes(sign) if self._stands(box)]
        return [self._candidate(box, sign, "sign", SIGN_FIT) for box in boxes]

    def _sign_boxes(self, sign: str) -> Iterator[Box]:
        steps = {"maximise": 1, "minimise": 2}.get(sign, 0)
        marks = [mark for mark in self._marks() if mark.sign == ("cross" if steps else sign)]
        for mark in marks:
            box: Box | None = mark.box
            for _ in range(steps):
                box = self._before(box) if box is not None else None
            if box is not None:
                yield box

    def _marks(self) -> Iterator[Mark]:
        """The marks, and signs that were read as texts or at the end of one."""
        yield from self.screen.marks
        for text in self.screen.texts:
            start = text.words.rstrip().rfind(" ") + 1
            sign = names.as_sign(text.words[start:])
            if sign is not None:
                yield Mark(text.part(start, len(text.words)).box, sign)

    def _before(self, box: Box) -> Box | None:
        """The mark before another one in a row of such, as the buttons of a window's frame are."""
        near = [
            mark.box
            for mark in self.screen.marks
            if self.line < box.x - mark.box.x < 4 * self.line and abs(mark.box.y - box.y) < 0.5 * self.line
        ]
        return max(near, key=lambda other: other.x, default=None)

    def beside_anchor(self) -> list[Candidate]:
        """Marks beside an anchor, where the target has no name."""
        if self.directed is None:
            return []
        return [
            self._candidate(mark.box, self.directed.pieces[0].words, "relation", MARK_FIT)
            for mark in self.screen.marks
            if (mark.sign == "frame") == (self.wish.kind == "field")
            and min(mark.box.width, mark.box.height) >= 0.3 * self.line
            and self._stands(mark.box)
        ]

    def meant(self, likeness: Likeness) -> list[Candidate]:
        """Texts that mean what the target is called."""
        name = next((name.text for name in self.wish.names if any(map(str.isalpha, name.text))), None)
        texts = [text for text in self.screen.texts if len(text.words) > 1]
        if name is None or not texts:
            return []
        return [
            self._candidate(text.box, text.words, "meaning", MEANT_FIT * score)
            for text, score in zip(texts, likeness(name, [text.words for text in texts]), strict=True)
            if score > LEAST_ALIKE
        ]

    def guessed(self) -> list[Candidate]:
        """Whatever lies near the place that is spoken of; with hardly any certainty."""
        boxes = [mark.box for mark in self.screen.marks] or [text.box for text in self.screen.texts]
        return [self._candidate(box, None, "guess", GUESS_FIT) for box in boxes]

    # -- where names stand, and what is said around the target --------------------------------------------------

    def _pieces(self, wanted: Sequence[Name]) -> list[Piece]:
        """Where names stand on the screen, each place once, the best first."""
        best: dict[Box, Piece] = {}
        for name in wanted:
            for text in self.screen.texts:
                match = names.find(name.text, text.words)
                if match is None or match.score * name.weight < LEAST_FIT:
                    continue
                part = text.part(match.first, match.last)
                piece = Piece(part.box, part.words, match.how, match.score * name.weight)
                if piece.box not in best or best[piece.box].fit < piece.fit:
                    best[piece.box] = piece
        return sorted(best.values(), key=lambda piece: (-piece.fit, piece.box.top, piece.box.left))

    def _candidate(self, box: Box, words: str | None, how: str, fit: float) -> Candidate:
        """With what the rough place and the anchors say for it."""
        said = PLACE_WEIGHT * _at_place(box, self.wish.place, self.screen)
        for anchor in self.anchors:
            weight = NEAR_WEIGHT if anchor.relation == "inside" else SIDE_WEIGHT
            said += weight * max(self._beside(box, piece, anchor.relation) for piece in anchor.pieces)
        return Candidate(box, words, how, fit, fit + said)

    def _stands(self, box: Box) -> bool:
        """Whether a box stands beside its anchor, where there is one."""
        if self.directed is None:
            return True
        return any(self._beside(box, piece, self.directed.relation) > 0 for piece in self.directed.pieces)

    def _beside(self, box: Box, piece: Piece, relation: str) -> float:
        """How well a box stands in a relation to an anchor, and how sure the anchor is."""
        return 0.0 if piece.box == box else piece.fit * stands(relation, box, piece.box, self.line)


def _at_place(box: Box, place: Place, screen: Screen) -> float:
    """How near a box is to a rough place, from 0 to 1; 0 where none is spoken of."""
    offs = [
        abs(at - wanted)
        for at, wanted in ((box.x / screen.width, place.across), (box.y / screen.height, place.down))
        if wanted is not None
    ]
    return math.prod(max(0.0, 1.0 - off) for off in offs) if offs else 0.0


# -- relations --------------------------------------------------------------------------------------------------------


def stands(relation: str, box: Box, anchor: Box, line: float) -> float:
    """How well `box` stands in the relation to `anchor`, from 0 to 1; `line`, the height of a line, measures near."""
    before, after = box.x < anchor.left + line / 2, box.x > anchor.right - line / 2
    if relation in ("left_of", "right_of", "beside"):
        there = {"left_of": before, "right_of": after, "beside": max(after, 0.9 * before)}[relation]
        shared = there * box.shares_row(anchor)
        return shared * _near(box.gap(anchor), line) if shared >= 0.3 else 0.0
    if relation in ("above", "below"):
        upper, lower = (box, anchor) if relation == "above" else (anchor, box)
        aside = max(0.0, upper.left - lower.right, lower.left - upper.right)
        over = upper.y < lower.y - line / 2
        return _near(lower.top - upper.bottom, line) * _near(3.0 * aside, line) if over else 0.0
    if relation in ("left_end", "right_end"):  # of a wide thing of which only the words are known
        off = abs(box.y - anchor.y) / line
        there = (after if relation == "right_end" else before) and off < 3
        return 1.0 / (1.0 + 0.5 * off) / (1.0 + box.gap(anchor) / (60.0 * line)) if there else 0.0
    nearness = 1.0 / (1.0 + box.gap(anchor) / (25.0 * line))  # in something whose title is the anchor
    return nearness if box.y >= anchor.top - line else 0.75 * nearness


def _near(gap: float, line: float) -> float:
    """1 where things touch, one half at 12 lines' distance."""
    return 1.0 / (1.0 + max(0.0, gap) / (12.0 * line))
