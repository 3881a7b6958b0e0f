"""What an instruction asks for, once it is understood."""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    """What something is called; how much that counts, from 0 to 1: quoted words count most."""

    text: str
    weight: float = 1.0


class Anchor(NamedTuple):
    """Something else on the screen that the target stands in a relation to."""

    relation: str
    names: tuple[Name, ...]
    popup: bool = False


class Place(NamedTuple):
    """A rough place on the screen: across and down from 0 to 1, None where nothing is said."""

    across: float | None = None
    down: float | None = None

    def __bool__(self) -> bool:
        return self.across is not None or self.down is not None

    def over(self, other: Place) -> Place:
        """This place, and the other's where this one says nothing."""
        return Place(
            other.across if self.across is None else self.across, other.down if self.down is None else self.down
        )


class Wish(NamedTuple):
    """What is to be clicked."""

    names: tuple[Name, ...] = ()
    kind: str | None = None
    sign: str | None = None
    colour: str | None = None
    anchors: tuple[Anchor, ...] = ()
    place: Place = Place()
    edge: str | None = None
    """`start` or `end` where the click belongs at one end of a text."""
    weight: float = 1.0
    window_button: str | None = None
    """`close`, `maximise` or `minimise` where a button of a window's frame may be meant."""
